"""What does a text mean to a transformer? Any model that sentence-transformers loads, from the hub or a folder.

Models that bring their own `encode_query` and `encode_document`, as PLaMo does, are called through those.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from annai.definitions import dataclass
from annai.embedders.base import Embedder, Kind, Vectors
from annai.errors import EmbedderError
from annai.models.devices import BATCH_TOKENS, MAX_TEXT_TOKENS, choose_device, free_device_memory
from annai.models.extras import ModelUnavailable, error_summary, load_extra
from annai.models.names import known_model, model_folder
from annai.models.unloading import AutoUnloaded
from annai.models.vectors import (
    NO_PREFIXES,
    Prefixes,
    configured_dimension,
    configured_prefixes,
    folder_name,
    identity,
    truncate,
)
from annai.models.weights import find_weights, read_json, silence_transformers
from annai.settings import Embedding, Model

PROVIDER = "sentence-transformers"
DEFAULT_MODEL = "cl-nagoya/ruri-v3-30m"

REMOTE_CODE_PREFIX_TOKENS = 64
"""Tokens reserved for the prefix that a model with code of its own puts before a text."""


def create(settings: Embedding, *, model: Model, **_: object) -> Embedder:
    """The embedder of a model that is loaded with the first text."""
    return SentenceTransformersEmbedder(settings, model)


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    """A model in memory."""

    encoder: Any
    """A `SentenceTransformer`, or a model with `encode_query` and `encode_document` of its own."""
    tokenizer: Any
    prefixes: Prefixes
    device: str
    has_remote_code: bool


class SentenceTransformersEmbedder(Embedder):
    """Loads its model with the first text, and unloads it when it is idle."""

    def __init__(self, settings: Embedding, model: Model) -> None:
        super().__init__(settings.batch_size)
        self._settings = settings
        self._name = settings.model or DEFAULT_MODEL
        folder = model_folder(self._name)
        # A copy of a known model needs the same prefixes; it tells its dimension itself.
        self._known = known_model(folder.name if folder else self._name, PROVIDER)
        if self._known and not folder:
            self._name = self._known.name  # the hub wants the maker's name too
        self._prefixes = configured_prefixes(settings, self._known, runs_code=True)
        self.dimension = configured_dimension(settings, None if folder else self._known)
        name = folder_name(folder) if folder else self._name
        self.identity = identity(PROVIDER, name, self.dimension, self._prefixes)
        self._model = AutoUnloaded(self._load, model, on_unload=free_device_memory)
        # A tokenizer breaks when two threads use it.
        self._lock = threading.Lock()

    def length(self, text: str) -> int:
        """The tokens of a text with the longer of the prefixes, as the model counts them."""
        with self._model.use() as model, self._lock:
            return len(model.tokenizer(model.prefixes.longest + text, truncation=False, verbose=False)["input_ids"])

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Encode texts with the prefix that the model wants."""
        with self._model.use() as model, self._lock:
            rows = self._encode_what_fits(model, list(texts), kind)
            if model.device == "mps":
                # Its memory for shapes seen before grows without end.
                free_device_memory()
        return truncate(rows, self._settings, self._name)

    def close(self) -> None:
        """Unload the model."""
        self._model.unload()
        super().close()

    def _encode_what_fits(self, model: _LoadedModel, texts: list[str], kind: Kind) -> Vectors:
        """Encode texts; if the device's memory is too small for all of them, one half after the other."""
        try:
            return self._encode(model, texts, kind)
        except (RuntimeError, MemoryError) as error:
            is_full = isinstance(error, MemoryError) or "out of memory" in str(error)
            if not is_full or len(texts) == 1:
                lower = "lower embedding.max_tokens, or set embedding.device to cpu"
                advice = lower if is_full else "try another model"
                raise EmbedderError(
                    f"The model {self._name!r} failed ({type(error).__name__})", f"{advice}."
                ) from error
        free_device_memory()
        middle = len(texts) // 2
        halves = (self._encode_what_fits(model, half, kind) for half in (texts[:middle], texts[middle:]))
        return np.concatenate([*halves])

    def _encode(self, model: _LoadedModel, texts: list[str], kind: Kind) -> Vectors:
        import torch  # an extra, and slow to import

        prefix = model.prefixes.of(kind)
        encode = model.encoder.encode_query if kind == "query" else model.encoder.encode_document
        with torch.inference_mode():
            if model.has_remote_code:
                rows = encode([prefix + text for text in texts], model.tokenizer)
            else:
                options: dict[str, object] = {
                    "batch_size": len(texts),
                    "show_progress_bar": False,
                    "convert_to_tensor": True,
                }
                if self._known and self._known.tasks:
                    # Its code has names of its own for what a text is for.
                    encode = model.encoder.encode
                    options["task"] = self._known.task(kind)
                rows = encode(texts, prompt=prefix, **options)
            return np.asarray(rows.float().cpu().numpy(), np.float32)

    def _load(self) -> _LoadedModel:
        """Find the weights, which is quick, before loading the libraries, which takes seconds."""
        try:
            if self._known and self._known.has_remote_code:
                # Before gigabytes are downloaded.
                self._check_trust()
            folder = find_weights(PROVIDER, self._name)
            config = read_json(folder / "config.json")
            has_remote_code = "AutoModel" in config.get("auto_map", {}) and not (folder / "modules.json").is_file()
            if has_remote_code:
                self._check_trust()
            load_extra(PROVIDER)
            device = choose_device(self._settings.device)
            load = self._load_remote_code if has_remote_code else self._load_sentence_transformer
            model = load(folder, device)
        except ModelUnavailable as error:
            raise EmbedderError(str(error)) from None
        self.max_batch_length = BATCH_TOKENS[device.partition(":")[0]]
        if not self._settings.batch_size and device == "mps":
            # There, batches only cost time and memory.
            self.batch_size = 1
        return model

    def _load_sentence_transformer(self, folder: Path, device: str) -> _LoadedModel:
        from sentence_transformers import SentenceTransformer  # an extra, and slow to import

        silence_transformers()
        try:
            encoder = SentenceTransformer(
                str(folder),
                device=device,
                local_files_only=True,
                trust_remote_code=self._settings.trust_remote_code,
            )
        except Exception as error:
            if "trust_remote_code" in str(error):
                raise _untrusted(self._name) from None
            raise _unloadable(self._name, error) from error
        self.max_text_length = self._max_tokens(encoder.max_seq_length)
        encoder.max_seq_length = self.max_text_length
        own = Prefixes(encoder.prompts.get("query") or "", encoder.prompts.get("document") or "")
        prefixes = self._prefixes.or_else(own)
        return _LoadedModel(encoder, encoder.tokenizer, prefixes, device, has_remote_code=False)

    def _load_remote_code(self, folder: Path, device: str) -> _LoadedModel:
        from transformers import AutoModel, AutoTokenizer  # an extra, and slow to import

        silence_transformers()
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True, local_files_only=True)
            encoder = AutoModel.from_pretrained(folder, trust_remote_code=True, local_files_only=True)
        except Exception as error:
            raise _unloadable(self._name, error) from error
        if not hasattr(encoder, "encode_query") or not hasattr(encoder, "encode_document"):
            raise ModelUnavailable(
                f"The model {self._name!r} comes with its own code, but without the methods encode_query and "
                "encode_document, so annai cannot use it. Choose another model."
            )
        own_limit = getattr(encoder.config, "max_position_embeddings", None)
        self.max_text_length = self._max_tokens(own_limit) - REMOTE_CODE_PREFIX_TOKENS
        prefixes = self._prefixes.or_else(NO_PREFIXES)
        return _LoadedModel(encoder.to(device).eval(), tokenizer, prefixes, device, has_remote_code=True)

    def _check_trust(self) -> None:
        if not self._settings.trust_remote_code:
            raise _untrusted(self._name)

    def _max_tokens(self, own_limit: int | None) -> int:
        """How many tokens the model gets at once."""
        known = self._known.max_tokens if self._known else MAX_TEXT_TOKENS
        limit = min(own_limit or known, known, MAX_TEXT_TOKENS)
        return min(self._settings.max_tokens or limit, limit)


def _untrusted(name: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The model {name!r} runs Python code that comes with it. Read that code, and if you trust it, "
        "set embedding.trust_remote_code = true in annai.toml."
    )


def _unloadable(name: str, error: Exception) -> ModelUnavailable:
    return ModelUnavailable(
        f"The model {name!r} cannot be loaded ({error_summary(error)}); check embedding.model in annai.toml."
    )
