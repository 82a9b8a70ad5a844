"""How well does a text answer, to a transformer that reads both? Any cross-encoder that sentence-transformers loads.

A text that is too long for the model counts by its beginning: windows would cost what the time budget has not.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from annai.config import Config
from annai.errors import RerankerError
from annai.models.unloading import AutoUnloaded
from annai.models.weights import Unavailable, choose_device, find_weights, free_device_memory, load_extra
from annai.rerankers.base import Reranker

PROVIDER = "cross-encoder"

CHUNK = 4
"""Texts between two looks at the clock."""


def create(config: Config) -> Reranker:
    """The reranker of a model that is loaded with the first question."""
    return CrossEncoderReranker(config)


class CrossEncoderReranker(Reranker):
    """Loads its model with the first question, and lets go of it when it is idle."""

    chunk = CHUNK

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._settings = config.rerank
        self._resident = AutoUnloaded(self._open, config.model, freed=free_device_memory)

    def load(self) -> None:
        """Load the model."""
        with self._resident.use():
            pass

    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:  # noqa: ARG002 - chunks are short
        """Let the model read each text with the question."""
        with self._resident.use() as model:
            pairs = [(query, text) for text in texts]
            found = np.asarray(model.predict(pairs, batch_size=len(pairs), show_progress_bar=False), np.float32)
        if found.shape != (len(texts),) or not np.isfinite(found).all():
            raise RerankerError(f"{self._settings.model} does not give one score a text; it is no reranker")
        return [float(each) for each in found.clip(0, 1)]

    def close(self) -> None:
        """Let go of the model."""
        self._resident.release()

    def _open(self) -> Any:  # noqa: ANN401 - a CrossEncoder
        name = self._settings.model
        if not name:
            raise RerankerError("search.rerank is on and rerank.model is empty; name a cross-encoder in annai.toml.")
        try:
            folder = find_weights(PROVIDER, name)
            load_extra(PROVIDER)
            device = choose_device(self._settings.device)
        except Unavailable as error:
            raise RerankerError(str(error)) from None
        from sentence_transformers import CrossEncoder  # an extra, and slow to import
        from transformers.utils import logging as chatter

        chatter.disable_progress_bar()
        chatter.set_verbosity_error()
        try:
            trusted = self._settings.trust_remote_code
            return CrossEncoder(str(folder), device=device, local_files_only=True, trust_remote_code=trusted)
        except Exception as error:
            hint = "set rerank.trust_remote_code = true if you trust its code"
            advice = hint if "trust_remote_code" in str(error) else "check rerank.model in annai.toml"
            raise RerankerError(
                f"The reranker {name!r} cannot be loaded ({type(error).__name__}); {advice}."
            ) from error
