"""What does a text mean to a model in ONNX form? A folder with model.onnx and tokenizer.json; int8 models too."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Embedder, Kind, Vectors
from annai.errors import EmbedderError
from annai.models.known import AUTO, cut, folder_name, identity, known_model, prefixes, read_json, wanted_dimension
from annai.models.unloading import AutoUnloaded
from annai.models.weights import Unavailable, load_extra
from annai.settings import Embedding, Model

PROVIDER = "onnx"

MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx", "model_int8.onnx")
"""Where the model is, the first that is there."""

BATCH_TOKENS = 4_096
"""Tokens in a batch, padding included: its memory grows with them, and a query waits for the batch at work."""

USUAL_TOKENS, MOST_TOKENS = 512, 8_192
"""What a model takes that does not say, and the most that any is given."""

WIDTH_STEP = 16
"""Batches are padded to multiples of this many tokens: memory is kept for few shapes then."""

Integers = NDArray[np.int64]


def create(settings: Embedding, *, model: Model, **_: object) -> Embedder:
    """The embedder of a folder; its model is loaded with the first text."""
    return OnnxEmbedder(settings, model)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model in memory."""

    session: Any
    tokenizer: Any
    inputs: frozenset[str]
    output: str
    pooling: str
    padding: int


class OnnxEmbedder(Embedder):
    """Loads its model with the first text, and lets go of it when it is idle."""

    longest_batch = BATCH_TOKENS

    def __init__(self, settings: Embedding, model: Model) -> None:
        super().__init__(settings.batch_size)
        self._settings = settings
        self._folder = Path(settings.model).expanduser()
        known = known_model(self._folder.name)
        query, document = prefixes(settings, known)
        self._before = ("" if query == AUTO else query, "" if document == AUTO else document)
        self.dimension = wanted_dimension(settings, None)
        there = settings.model and self._folder.is_dir()
        name = folder_name(self._folder) if there else settings.model
        self.identity = identity(PROVIDER, name, self.dimension, self._before)
        self._resident = AutoUnloaded(self._load, model)
        self._one_at_a_time = threading.Lock()

    def length(self, text: str) -> int:
        """The tokens of a text behind the longer of its prefixes, as the model counts them."""
        with self._resident.use() as loaded:
            return len(loaded.tokenizer.encode(max(self._before, key=len) + text).ids)

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Run the model, and make one vector of each text's."""
        before = self._before[0 if kind == "query" else 1]
        with self._resident.use() as loaded, self._one_at_a_time:
            encoded = [each.ids for each in loaded.tokenizer.encode_batch([before + text for text in texts])]
            ids, mask = _padded(encoded, loaded.padding)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            given["position_ids"] = np.broadcast_to(np.arange(ids.shape[1]), ids.shape).copy()
            try:
                (found,) = loaded.session.run([loaded.output], {name: given[name] for name in loaded.inputs})
            except Exception as error:
                raise EmbedderError(
                    f"The model in {self._folder} failed ({_first_line(error)}); "
                    "set embedding.max_tokens to what it takes."
                ) from error
        return cut(_pooled(np.asarray(found, np.float32), mask, loaded.pooling), self._settings, str(self._folder))

    def close(self) -> None:
        """Let go of the model."""
        self._resident.release()
        super().close()

    def _load(self) -> _Loaded:
        try:
            return self._open()
        except Unavailable as error:
            raise EmbedderError(str(error)) from None

    def _open(self) -> _Loaded:
        file = next((self._folder / each for each in MODEL_FILES if (self._folder / each).is_file()), None)
        tokens = self._folder / "tokenizer.json"
        if not self._settings.model or file is None or not tokens.is_file():
            raise Unavailable(
                f"There is no ONNX model in {self._settings.model or 'the folder that embedding.model should name'!r}; "
                "it needs the files model.onnx and tokenizer.json."
            )
        runtime = load_extra(PROVIDER)
        tokenizers = load_extra(PROVIDER, "tokenizers")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        # Memory that is kept for shapes seen before only grows.
        options.enable_cpu_mem_arena = False
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(tokens))
            session = runtime.InferenceSession(str(file), options, providers=self._providers(runtime))
        except Exception as error:
            raise Unavailable(f"The model {file} cannot be loaded ({_first_line(error)}); fetch it again.") from error
        self.longest_text = self._longest(tokenizer)
        padding = (tokenizer.padding or {}).get("pad_id", 0)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        inputs = frozenset(each.name for each in session.get_inputs())
        unknown = inputs - {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
        if unknown or "input_ids" not in inputs:
            raise Unavailable(
                f"{file} is not a model of texts: it wants {', '.join(sorted(inputs))}; choose another model."
            )
        return _Loaded(session, tokenizer, inputs, _output(session), self._pooling(), padding)

    def _providers(self, runtime: Any) -> list[str]:  # noqa: ANN401 - the module onnxruntime
        """Where the model runs."""
        there, wanted = runtime.get_available_providers(), self._settings.device
        cuda = wanted.startswith("cuda")
        if (cuda and "CUDAExecutionProvider" not in there) or wanted == "mps":
            raise Unavailable(
                f"This onnxruntime has no device {wanted!r}; set embedding.device to auto or cpu"
                + (", or install onnxruntime-gpu." if cuda else ".")
            )
        gpu = ["CUDAExecutionProvider"] if wanted in ("auto", "cuda") and "CUDAExecutionProvider" in there else []
        return [*gpu, "CPUExecutionProvider"]

    def _pooling(self) -> str:
        """How a text's vectors become one: as the settings say, as the folder says, or by their mean."""
        if self._settings.pooling != AUTO:
            return self._settings.pooling
        config = read_json(self._folder / "1_Pooling" / "config.json")
        if config.get("pooling_mode_cls_token") or config.get("pooling_mode") == "cls":
            return "cls"
        return "last" if config.get("pooling_mode_lasttoken") or config.get("pooling_mode") == "lasttoken" else "mean"

    def _longest(self, tokenizer: Any) -> int:  # noqa: ANN401 - a Tokenizer
        """How many tokens the model is given at once: the least that the settings or its files say."""
        config = read_json(self._folder / "config.json")
        # RoBERTa counts positions from 2.
        taken = 2 if "roberta" in str(config.get("model_type")) else 0
        said = (
            self._settings.max_tokens,
            read_json(self._folder / "sentence_bert_config.json").get("max_seq_length"),
            (tokenizer.truncation or {}).get("max_length"),
            (config.get("max_position_embeddings") or taken) - taken,
        )
        return min(MOST_TOKENS, *([each for each in said if isinstance(each, int) and each > 0] or [USUAL_TOKENS]))


def _output(session: Any) -> str:  # noqa: ANN401 - an InferenceSession
    """The output that is the text's vector, else the vectors of its tokens."""
    names = [each.name for each in session.get_outputs()]
    known = ("sentence_embedding", "last_hidden_state", "token_embeddings")
    return next((name for name in known if name in names), names[0])


def _padded(encoded: Sequence[Sequence[int]], padding: int) -> tuple[Integers, Integers]:
    """Rows of one length, and which of their numbers are tokens."""
    width = -(-max(map(len, encoded)) // WIDTH_STEP) * WIDTH_STEP
    ids = np.full((len(encoded), width), padding, np.int64)
    mask = np.zeros_like(ids)
    for row, each in enumerate(encoded):
        ids[row, : len(each)] = each
        mask[row, : len(each)] = 1
    return ids, mask


def _pooled(found: Vectors, mask: Integers, pooling: str) -> Vectors:
    """One vector a text."""
    if found.ndim == 2:
        return found
    if pooling == "cls":
        rows: Vectors = found[:, 0]
    elif pooling == "last":
        rows = found[np.arange(len(found)), mask.sum(axis=1) - 1]
    else:
        weights = mask[:, :, None].astype(np.float32)
        rows = (found * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return rows


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
