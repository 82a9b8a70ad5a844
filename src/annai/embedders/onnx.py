"""What does a text mean to a model in ONNX form? A folder with model.onnx and tokenizer.json; int8 models too."""

import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from annai.definitions import dataclass
from annai.embedders.base import Embedder, Kind, Vectors
from annai.errors import EmbedderError
from annai.models.devices import BATCH_TOKENS, MAX_TEXT_TOKENS
from annai.models.extras import ModelUnavailable, error_summary, load_extra
from annai.models.names import model_folder, served_model
from annai.models.unloading import AutoUnloaded
from annai.models.vectors import (
    NO_PREFIXES,
    configured_dimension,
    configured_prefixes,
    folder_name,
    identity,
    truncate,
)
from annai.models.weights import read_json
from annai.settings import Embedding, Model

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

PROVIDER = "onnx"

MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx", "model_int8.onnx")
"""Where the model may be; the first that exists counts."""

MODEL_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})
"""What a model of texts may ask for."""

DEFAULT_MAX_TOKENS = 512
"""What a model takes if its files do not say."""

PADDING_STEP_TOKENS = 16
"""Batches are padded to multiples of this, so that onnxruntime reserves memory for few shapes."""

CUDA = "CUDAExecutionProvider"

Integers = NDArray[np.int64]


def create(settings: Embedding, *, model: Model, **_: object) -> Embedder:
    """The embedder of a folder; its model is loaded with the first text."""
    return OnnxEmbedder(settings, model)


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    """A model in memory."""

    session: "InferenceSession"
    tokenizer: "Tokenizer"
    inputs: frozenset[str]
    output: str
    pooling: str
    padding_id: int


class OnnxEmbedder(Embedder):
    """Loads its model with the first text, and unloads it when it is idle."""

    max_batch_length = BATCH_TOKENS["cpu"]

    def __init__(self, settings: Embedding, model: Model) -> None:
        super().__init__(settings.batch_size)
        self._settings = settings
        folder = model_folder(settings.model)
        self._folder = folder or Path(settings.model)
        self._prefixes = configured_prefixes(settings, served_model(self._folder.name)).or_else(NO_PREFIXES)
        self.dimension = configured_dimension(settings, None)
        name = folder_name(folder) if folder else settings.model
        self.identity = identity(PROVIDER, name, self.dimension, self._prefixes)
        self._model = AutoUnloaded(self._load, model)
        self._lock = threading.Lock()

    def length(self, text: str) -> int:
        """The tokens of a text with the longer of the prefixes, as the model counts them."""
        with self._model.use() as model:
            return len(model.tokenizer.encode(self._prefixes.longest + text).ids)

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Run the model and pool the vectors of each text's tokens."""
        prefix = self._prefixes.of(kind)
        with self._model.use() as model, self._lock:
            encoded = [each.ids for each in model.tokenizer.encode_batch([prefix + text for text in texts])]
            ids, mask = _pad(encoded, model.padding_id)
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            inputs["position_ids"] = np.broadcast_to(np.arange(ids.shape[1]), ids.shape).copy()
            try:
                (output,) = model.session.run([model.output], {name: inputs[name] for name in model.inputs})
            except Exception as error:
                raise EmbedderError(
                    f"The model in {self._folder} failed ({error_summary(error)})",
                    "set embedding.max_tokens to what it takes.",
                ) from error
        return truncate(_pool(np.asarray(output, np.float32), mask, model.pooling), self._settings, str(self._folder))

    def close(self) -> None:
        """Unload the model."""
        self._model.unload()
        super().close()

    def _load(self) -> _LoadedModel:
        try:
            return self._open()
        except ModelUnavailable as error:
            raise EmbedderError(str(error)) from None

    def _open(self) -> _LoadedModel:
        folder = model_folder(self._settings.model)
        file = next((folder / each for each in MODEL_FILES if (folder / each).is_file()), None) if folder else None
        tokenizer_file = self._folder / "tokenizer.json"
        if file is None or not tokenizer_file.is_file():
            raise ModelUnavailable(
                f"There is no ONNX model in {self._settings.model or 'the folder that embedding.model should name'!r}; "
                "it needs the files model.onnx and tokenizer.json."
            )
        runtime = load_extra(PROVIDER)
        tokenizers = load_extra(PROVIDER, "tokenizers")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        # The arena keeps memory for every shape it has seen, and never shrinks.
        options.enable_cpu_mem_arena = False
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
            session = runtime.InferenceSession(str(file), options, providers=self._execution_providers(runtime))
        except Exception as error:
            raise ModelUnavailable(
                f"The model {file} cannot be loaded ({error_summary(error)}); download it again."
            ) from error
        self.max_text_length = self._max_tokens(tokenizer)
        padding_id = (tokenizer.padding or {}).get("pad_id", 0)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        inputs = frozenset(each.name for each in session.get_inputs())
        if inputs - MODEL_INPUTS or "input_ids" not in inputs:
            raise ModelUnavailable(
                f"{file} is not a model of texts: its inputs are {', '.join(sorted(inputs))}; choose another model."
            )
        return _LoadedModel(session, tokenizer, inputs, _output_name(session), self._pooling(), padding_id)

    def _execution_providers(self, runtime: ModuleType) -> list[str]:
        """Where onnxruntime runs the model."""
        device = self._settings.device
        has_cuda, wants_cuda = CUDA in runtime.get_available_providers(), device.startswith("cuda")
        if (wants_cuda and not has_cuda) or device == "mps":
            raise ModelUnavailable(
                f"This onnxruntime has no device {device!r}; set embedding.device to auto or cpu"
                + (", or install onnxruntime-gpu." if wants_cuda else ".")
            )
        return [*([CUDA] if has_cuda and device in ("auto", "cuda") else []), "CPUExecutionProvider"]

    def _pooling(self) -> str:
        """How the vectors of a text's tokens become one: as the settings say, or the folder, or else their mean."""
        if self._settings.pooling != "auto":
            return self._settings.pooling
        config = read_json(self._folder / "1_Pooling" / "config.json")
        if config.get("pooling_mode_cls_token") or config.get("pooling_mode") == "cls":
            return "cls"
        return "last" if config.get("pooling_mode_lasttoken") or config.get("pooling_mode") == "lasttoken" else "mean"

    def _max_tokens(self, tokenizer: "Tokenizer") -> int:
        """How many tokens the model gets at once: the smallest limit that the settings or its files name."""
        config = read_json(self._folder / "config.json")
        # RoBERTa counts positions from 2.
        offset = 2 if "roberta" in str(config.get("model_type")) else 0
        limits = (
            self._settings.max_tokens,
            read_json(self._folder / "sentence_bert_config.json").get("max_seq_length"),
            (tokenizer.truncation or {}).get("max_length"),
            (config.get("max_position_embeddings") or offset) - offset,
        )
        named = [each for each in limits if isinstance(each, int) and each > 0]
        return min(MAX_TEXT_TOKENS, *(named or [DEFAULT_MAX_TOKENS]))


def _output_name(session: "InferenceSession") -> str:
    """The output with the text's vector, or else with the vectors of its tokens."""
    names = [each.name for each in session.get_outputs()]
    preferred = ("sentence_embedding", "last_hidden_state", "token_embeddings")
    return next((name for name in preferred if name in names), names[0])


def _pad(encoded: Sequence[Sequence[int]], padding_id: int) -> tuple[Integers, Integers]:
    """Rows of equal length, and a mask of the tokens that are not padding."""
    width = -(-max(map(len, encoded)) // PADDING_STEP_TOKENS) * PADDING_STEP_TOKENS
    ids = np.full((len(encoded), width), padding_id, np.int64)
    mask = np.zeros_like(ids)
    for row, each in enumerate(encoded):
        ids[row, : len(each)] = each
        mask[row, : len(each)] = 1
    return ids, mask


def _pool(output: Vectors, mask: Integers, pooling: str) -> Vectors:
    """One vector for each text."""
    if output.ndim == 2:
        return output
    if pooling == "cls":
        rows: Vectors = output[:, 0]
    elif pooling == "last":
        rows = output[np.arange(len(output)), mask.sum(axis=1) - 1]
    else:
        weights = mask[:, :, None].astype(np.float32)
        rows = (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return rows
