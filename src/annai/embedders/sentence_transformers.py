"""What does a text mean to a transformer? Any model that sentence-transformers loads, from the hub or a folder.

Models that bring their own `encode_query` and `encode_document`, as PLaMo does, are asked through those.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from annai.embedders.base import Embedder, Kind, Vectors
from annai.errors import EmbedderError
from annai.models.known import (
    AUTO,
    cut,
    folder_name,
    identity,
    known_model,
    prefixes,
    read_json,
    wanted_dimension,
)
from annai.models.unloading import AutoUnloaded
from annai.models.weights import Unavailable, choose_device, find_weights, free_device_memory, load_extra
from annai.settings import Embedding, Model

PROVIDER = "sentence-transformers"
USUAL_MODEL = "cl-nagoya/ruri-v3-30m"

BATCH_TOKENS = {"cpu": 4_096, "mps": 8_192, "cuda": 65_536}
"""Tokens in a batch, padding included: its memory grows with them, and a query waits for the batch at work."""

OWN_WORDS = 64
"""Tokens left for what a model with code of its own puts before a text."""

MOST_TOKENS = 8_192
"""Models that take more are given windows of this many: the memory for one text grows with its square."""


def create(settings: Embedding, *, model: Model, **_: object) -> Embedder:
    """The embedder of a model that is loaded with the first text."""
    return SentenceTransformersEmbedder(settings, model)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model in memory."""

    encoder: Any
    """A `SentenceTransformer`, or a model with `encode_query` and `encode_document` of its own."""
    tokenizer: Any
    before: tuple[str, str]
    """What is put before queries and documents."""
    device: str
    own_code: bool


class SentenceTransformersEmbedder(Embedder):
    """Loads its model with the first text, and lets go of it when it is idle."""

    def __init__(self, settings: Embedding, model: Model) -> None:
        super().__init__(settings.batch_size)
        self._settings = settings
        self._name = settings.model or USUAL_MODEL
        folder = Path(self._name).expanduser()
        here = folder.is_dir()
        # A copy of a known model wants the same words before its texts; its size it tells itself.
        self._known = known_model(folder.name if here else self._name, PROVIDER)
        self._before = prefixes(settings, self._known)
        self.dimension = wanted_dimension(settings, None if here else self._known)
        self.identity = identity(PROVIDER, folder_name(folder) if here else self._name, self.dimension, self._before)
        self._resident = AutoUnloaded(self._load, model, freed=free_device_memory)
        # A tokenizer breaks when two threads use it.
        self._one_at_a_time = threading.Lock()

    def length(self, text: str) -> int:
        """The tokens of a text behind the longer of its prefixes, as the model counts them."""
        with self._resident.use() as loaded, self._one_at_a_time:
            before = max(loaded.before, key=len)
            return len(loaded.tokenizer(before + text, truncation=False, verbose=False)["input_ids"])

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Encode texts with what the model wants before them."""
        with self._resident.use() as loaded, self._one_at_a_time:
            rows = self._encode_what_fits(loaded, list(texts), kind)
            if loaded.device == "mps":
                # Its memory for shapes seen before grows without end.
                free_device_memory()
        return cut(rows, self._settings, self._name)

    def close(self) -> None:
        """Let go of the model."""
        self._resident.release()
        super().close()

    def _encode_what_fits(self, loaded: _Loaded, texts: list[str], kind: Kind) -> Vectors:
        """Encode texts; where the device's memory is too small for all of them, one half after the other."""
        try:
            return self._encode(loaded, texts, kind)
        except (RuntimeError, MemoryError) as error:
            full = isinstance(error, MemoryError) or "out of memory" in str(error)
            if not full or len(texts) == 1:
                advice = "lower embedding.max_tokens, or set embedding.device to cpu" if full else "try another model"
                raise EmbedderError(f"The model {self._name!r} failed ({type(error).__name__}); {advice}.") from error
        free_device_memory()
        middle = len(texts) // 2
        halves = (self._encode_what_fits(loaded, half, kind) for half in (texts[:middle], texts[middle:]))
        return np.concatenate([*halves])

    def _encode(self, loaded: _Loaded, texts: list[str], kind: Kind) -> Vectors:
        import torch  # an extra, and slow to import

        before = loaded.before[0 if kind == "query" else 1]
        encoder = loaded.encoder
        encode = encoder.encode_query if kind == "query" else encoder.encode_document
        with torch.inference_mode():
            if loaded.own_code:
                found = encode([before + text for text in texts], loaded.tokenizer)
            else:
                options = {"batch_size": len(texts), "show_progress_bar": False, "convert_to_tensor": True}
                found = encode(texts, prompt=before, **options)
            return np.asarray(found.float().cpu().numpy(), np.float32)

    def _load(self) -> _Loaded:
        """Find the weights, which takes no time, and only then load what takes seconds."""
        try:
            if self._known and self._known.own_code and not self._settings.trust_remote_code:
                # Said before gigabytes are fetched.
                raise Unavailable(_untrusted(self._name))
            folder = find_weights(PROVIDER, self._name)
            config = read_json(folder / "config.json")
            own_code = "AutoModel" in config.get("auto_map", {}) and not (folder / "modules.json").is_file()
            if own_code and not self._settings.trust_remote_code:
                raise Unavailable(_untrusted(self._name))
            load_extra(PROVIDER)
            device = choose_device(self._settings.device)
            loaded = self._load_own(folder, device) if own_code else self._load_usual(folder, device)
        except Unavailable as error:
            raise EmbedderError(str(error)) from None
        self.longest_batch = BATCH_TOKENS[device.partition(":")[0]]
        if not self._settings.batch_size and device == "mps":
            # There, batches only cost time and memory.
            self.batch_size = 1
        return loaded

    def _load_usual(self, folder: Path, device: str) -> _Loaded:
        from sentence_transformers import SentenceTransformer  # an extra, and slow to import

        _quieten()
        try:
            encoder = SentenceTransformer(
                str(folder),
                device=device,
                local_files_only=True,
                trust_remote_code=self._settings.trust_remote_code,
            )
        except Exception as error:
            if "trust_remote_code" in str(error):
                raise Unavailable(_untrusted(self._name)) from None
            raise _unloadable(self._name, error) from error
        self.longest_text = self._longest(encoder.max_seq_length)
        encoder.max_seq_length = self.longest_text
        before = self._resolved(encoder.prompts.get("query") or "", encoder.prompts.get("document") or "")
        return _Loaded(encoder, encoder.tokenizer, before, device, own_code=False)

    def _load_own(self, folder: Path, device: str) -> _Loaded:
        from transformers import AutoModel, AutoTokenizer  # an extra, and slow to import

        _quieten()
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True, local_files_only=True)
            encoder = AutoModel.from_pretrained(folder, trust_remote_code=True, local_files_only=True)
        except Exception as error:
            raise _unloadable(self._name, error) from error
        if not hasattr(encoder, "encode_query") or not hasattr(encoder, "encode_document"):
            raise Unavailable(
                f"The model {self._name!r} has code of its own, but no methods encode_query and encode_document; "
                "annai cannot tell how it makes a vector. Choose another model."
            )
        # Such a model puts words of its own before a text.
        self.longest_text = self._longest(getattr(encoder.config, "max_position_embeddings", None)) - OWN_WORDS
        return _Loaded(encoder.to(device).eval(), tokenizer, self._resolved("", ""), device, own_code=True)

    def _resolved(self, query: str, document: str) -> tuple[str, str]:
        """What is put before texts: what the settings or the table say, else what the model itself says."""
        asked_query, asked_document = self._before
        return query if asked_query == AUTO else asked_query, document if asked_document == AUTO else asked_document

    def _longest(self, own: int | None) -> int:
        """How many tokens the model is given at once."""
        known = self._known.max_tokens if self._known else MOST_TOKENS
        longest = min(own or known, known, MOST_TOKENS)
        return min(self._settings.max_tokens or longest, longest)


def _untrusted(name: str) -> str:
    return (
        f"The model {name!r} runs Python code that comes with it; read that code, and if you trust it, "
        "set embedding.trust_remote_code = true in annai.toml."
    )


def _unloadable(name: str, error: Exception) -> Unavailable:
    first_line = (str(error).strip().splitlines() or [""])[0]
    return Unavailable(
        f"The model {name!r} cannot be loaded ({type(error).__name__}: {first_line}); "
        "check embedding.model in annai.toml."
    )


def _quieten() -> None:
    """No bars and no advice on standard error while a model loads."""
    from transformers.utils import logging as chatter  # an extra, and slow to import

    chatter.disable_progress_bar()
    chatter.set_verbosity_error()
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
