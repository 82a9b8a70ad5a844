"""How well does a text answer a question, to a transformer that reads both? Any cross-encoder of sentence-transformers.

A text that is too long for the model counts by its beginning: the time budget does not allow for windows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from annai.config import Config
from annai.errors import RerankerError
from annai.models.devices import choose_device, free_device_memory
from annai.models.extras import ModelUnavailable, load_extra
from annai.models.unloading import AutoUnloaded
from annai.models.weights import find_weights, silence_transformers
from annai.rerankers.base import Reranker, sigmoid

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

PROVIDER = "cross-encoder"

CHUNK_SIZE = 4
"""Texts between two checks of the time."""


def create(config: Config) -> Reranker:
    """The reranker of a model that is loaded with the first question."""
    return CrossEncoderReranker(config)


class CrossEncoderReranker(Reranker):
    """Loads its model with the first question, and unloads it when it is idle."""

    chunk_size = CHUNK_SIZE

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._settings = config.rerank
        self._model = AutoUnloaded(self._load, config.model, on_unload=free_device_memory)

    def load(self) -> None:
        """Load the model."""
        with self._model.use():
            pass

    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:  # noqa: ARG002 - chunks are short
        """Let the model read the question with each text."""
        with self._model.use() as model:
            from torch import nn  # an extra, and loaded already

            pairs = [(query, text) for text in texts]
            # The logits, whatever the model's files say: some put a sigmoid over them (bge), others none (ms-marco).
            options = {"batch_size": len(pairs), "show_progress_bar": False, "activation_fn": nn.Identity()}
            logits = np.asarray(model.predict(pairs, **options), np.float64)
        if logits.shape != (len(texts),) or not np.isfinite(logits).all():
            raise RerankerError(f"{self._settings.model} does not return one score for each text, so it is no reranker")
        return sigmoid(logits.tolist())

    def close(self) -> None:
        """Unload the model."""
        self._model.unload()

    def _load(self) -> "CrossEncoder":
        name = self._settings.model
        if not name:
            raise RerankerError("search.rerank is on but rerank.model is empty", "name a cross-encoder in annai.toml.")
        try:
            folder = find_weights(PROVIDER, name)
            load_extra(PROVIDER)
            device = choose_device(self._settings.device)
        except ModelUnavailable as error:
            raise RerankerError(str(error)) from None
        from sentence_transformers import CrossEncoder  # an extra, and slow to import

        silence_transformers()
        try:
            trusted = self._settings.trust_remote_code
            return CrossEncoder(str(folder), device=device, local_files_only=True, trust_remote_code=trusted)
        except Exception as error:
            hint = "set rerank.trust_remote_code = true if you trust its code"
            advice = hint if "trust_remote_code" in str(error) else "check rerank.model in annai.toml"
            raise RerankerError(
                f"The reranker {name!r} cannot be loaded ({type(error).__name__})", f"{advice}."
            ) from error
