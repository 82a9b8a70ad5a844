"""How do texts become vectors? The contract every embedder keeps, and the table of providers."""

import dataclasses
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from importlib import import_module
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from annai import plugins
from annai.errors import EmbedderError
from annai.models.probe import PROBE_TEXT, pack_probe
from annai.settings import Embedding, Model, Retry

if TYPE_CHECKING:
    from annai.embedders.cache import VectorCache

Vectors = NDArray[np.float32]
Kind = Literal["query", "document"]

CACHE_NAME = "embeddings.sqlite"
"""The file beside the index that caches vectors."""

DEFAULT_BATCH_SIZE = 32
"""Texts embedded at once unless the settings or the provider say otherwise."""

LOOK_BACK_CHARACTERS = 100
"""How far before the planned end of a window to look for the end of a word or line."""


class Embedder(ABC):
    """Turns texts into vectors. An embedder implements `embed_batch`; the rest is derived from it.

    It promises: equal texts give equal vectors, whatever else is in the batch; every text is accepted; vectors have
    `dimension` columns and length 1, or 0 for a text that says nothing (the empty one). A text that is too long for
    the model is embedded in windows, all of which count. Every failure is an `EmbedderError`. Several threads may use
    one embedder at once.
    """

    dimension: int = 0
    """Numbers in a vector; 0 until the first text was embedded, if only the model can tell."""
    identity: str
    """Names model, version, dimension and prefixes; vectors of different identities must not be compared."""
    is_additive: bool = False
    """Whether the vector of a text is the sum of the vectors of its parts, apart from its length."""
    max_text_length: int = 2_000
    """Texts with a greater `length` are embedded in windows; their vector is the windows' mean, weighted by length."""
    max_batch_length: int = 1 << 62
    """The limit of a batch: the `length` of its longest text times the number of texts, since short ones are padded."""
    parallel_batches: int = 1
    """How many batches may be embedded at the same time."""
    is_service: bool = False
    """Whether it asks a service: each batch is a request, and another model may answer to the same name one day."""
    is_watched: bool = False
    """Whether to probe the model with the first question, for somebody who compares it with an index."""
    probed: str = ""
    """What the model made of a fixed text when it was last asked (`models.probe`); empty until then."""
    settings: Embedding | None = None
    """The settings that it was opened by, with which another process can open it too."""
    cache: "VectorCache | None" = None
    """Caches the vectors of documents, if it is set."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size or DEFAULT_BATCH_SIZE
        self._is_dimension_learned = False
        self._ahead: dict[str, Vectors] = {}
        """Vectors that `embed_ahead` made and `embed_documents` was not asked for yet, by their texts."""

    @abstractmethod
    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Embed at most `batch_size` texts, none blank or longer than `max_text_length`, without lone surrogates."""

    def length(self, text: str) -> int:
        """How long a text is for the model, in characters, or in tokens if the embedder can count those."""
        return len(text)

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """If `is_additive`: the vectors of texts before they are scaled to length 1, ready to be added up."""
        raise NotImplementedError(f"{self.identity} is not additive")

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question: one row of length `dimension`."""
        if not self.is_watched or self.probed:
            return cast(Vectors, self._embed([text], "query")[0])
        # With the first question, so that it costs no request of its own.
        vector, probe = self._embed([text, PROBE_TEXT], "query")
        self.probed = pack_probe(probe)
        return cast(Vectors, vector)

    def probe(self) -> str:
        """Ask the model for the vector of a fixed text, by which it is recognized (`models.probe`)."""
        if self._is_dimension_learned:
            self.dimension = 0  # Another model may have another.
        self.probed = pack_probe(normalise_rows(self._check(self.embed_probe(), 1))[0])
        if self.cache is not None:
            self.cache.check_model(self.identity, self.probed)
        return self.probed

    def embed_probe(self) -> Vectors:
        """The vector of `PROBE_TEXT`, as that of a question, for an import: it may take its time."""
        return self.embed_batch([PROBE_TEXT], "query")

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, one row each, in their order."""
        known = {text: self._ahead.pop(text) for text in {*texts} & self._ahead.keys()}
        if not known:
            return self._embed_documents(texts)
        if others := [text for text in texts if text not in known]:
            known |= zip(others, self._embed_documents(others), strict=True)
        return np.stack([known[text] for text in texts])

    def embed_ahead(self, texts: Sequence[str]) -> set[str]:
        """Embed as many of the first texts as fill whole batches, for `embed_documents`; the others are returned.

        Batches that can be embedded at the same time are filled together, if there are texts for that.
        """
        self._ahead = {text: self._ahead[text] for text in texts if text in self._ahead}
        unknown = [text for text in dict.fromkeys(texts) if text not in self._ahead]
        if self.cache is not None:
            unknown = self.cache.missing(self.identity, unknown)
        ends = [*accumulate(len(self._windows(text)) for text in unknown)]
        windows, at_once = ends[-1] if ends else 0, self.batch_size * self.parallel_batches
        room = windows // at_once * at_once or windows // self.batch_size * self.batch_size
        count = bisect_right(ends, room) if room else 0
        if count:
            self._ahead |= zip(unknown[:count], self._embed_documents(unknown[:count]), strict=True)
        return {*unknown[count:]}

    def close(self) -> None:
        """Unload the model and close the cache; the next text opens them again."""
        if self.cache is not None:
            self.cache.close()

    def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self.cache is None:
            return self._embed(texts, "document")
        vectors = self.cache.get_or_embed(self.identity, texts, lambda missing: self._embed(missing, "document"))
        self._learn_dimension(vectors.shape[1])
        return vectors

    def _embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        windows: list[tuple[str, int]] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            # Lone surrogates cannot be encoded, and tokenizers choke on them.
            for window in self._windows(text.encode("utf-8", "replace").decode("utf-8")):
                windows.append(window)
                owners.append(owner)
        batches = self._batches([length for _, length in windows])
        # All of them before the dimension is needed: some embedders learn it from the first.
        embedded = self._embed_batches([[windows[each][0] for each in batch] for batch in batches], kind)
        if not self.dimension:
            # All texts so far were blank, and their rows of zeros need a dimension.
            self._check(self.embed_batch(["."], kind), 1)
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for batch, vectors in zip(batches, embedded, strict=True):
            lengths = np.array([[windows[each][1]] for each in batch], np.float32)
            np.add.at(sums, [owners[each] for each in batch], vectors * lengths)
        return normalise_rows(sums)

    def _windows(self, text: str) -> list[tuple[str, int]]:
        """The text in parts that the model takes whole, each with its length; none for a blank text."""
        if not text.strip():
            return []
        length = self.length(text)
        if length <= self.max_text_length or len(text) == 1:
            return [(text, max(length, 1))]
        parts = -(-length // self.max_text_length)
        starts = [len(text) * number // parts for number in range(parts)]
        cuts = sorted({0, *(_word_end_before(text, start) for start in starts[1:]), len(text)})
        if len(cuts) == 2:  # A text of few characters and many tokens may be cut anywhere.
            cuts.insert(1, len(text) // 2)
        return [window for start, end in pairwise(cuts) for window in self._windows(text[start:end])]

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """The windows of each batch: those of similar length together, so that little is padding; longest first."""
        batches: list[list[int]] = []
        for number in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
            last = batches[-1] if batches else []
            # The first of a batch is its longest.
            room = self.max_batch_length // lengths[last[0]] if last else 0
            if last and len(last) < min(self.batch_size, room):
                last.append(number)
            else:
                batches.append([number])
        return batches

    def _embed_batches(self, batches: Sequence[list[str]], kind: Kind) -> list[Vectors]:
        """Embed batches, `parallel_batches` at a time; the first failure ends it."""
        if self.parallel_batches == 1 or len(batches) < 2:
            return [self._check(self.embed_batch(batch, kind), len(batch)) for batch in batches]
        from concurrent.futures import ThreadPoolExecutor  # most embedders do not need it

        pool = ThreadPoolExecutor(self.parallel_batches)
        try:
            results = pool.map(lambda batch: self.embed_batch(batch, kind), batches)
            return [self._check(vectors, len(batch)) for vectors, batch in zip(results, batches, strict=True)]
        finally:
            pool.shutdown(cancel_futures=True)

    def _check(self, vectors: Vectors, count: int) -> Vectors:
        expected = self.dimension or (vectors.shape[1] if vectors.ndim == 2 else 0)
        if not expected or vectors.shape != (count, expected) or not np.isfinite(vectors).all():
            raise EmbedderError(
                f"{self.identity} returned vectors of shape {vectors.shape} for {count} texts, not "
                f"{expected or 'some'} finite numbers for each",
                "check [embedding] in annai.toml. If its model has changed, run `annai import -m replace`.",
            )
        self._learn_dimension(expected)
        return vectors

    def _learn_dimension(self, dimension: int) -> None:
        if not self.dimension:
            self.dimension, self._is_dimension_learned = dimension, True


class AdditiveEmbedder(Embedder):
    """An embedder whose vectors add up; it implements `embed_sums`."""

    is_additive = True

    @abstractmethod
    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts before they are scaled to length 1, ready to be added up."""

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:  # noqa: ARG002 - queries are texts like others
        """Add up each text's parts and scale the sums to length 1."""
        return normalise_rows(self.embed_sums(texts))


def _with_provider(settings: Embedding) -> Embedding:
    """The settings with the provider that a model needs: the default one has a single model, which nobody names."""
    if settings.provider != "static" or not settings.model:
        return settings
    from annai.models.names import provider_of  # only where a model is named

    provider = provider_of(settings.model)
    if not provider:
        raise EmbedderError(
            f"embedding.model is {settings.model!r}, which is not a known model",
            "set embedding.provider too. `annai model ls` lists the known models.",
        )
    return dataclasses.replace(settings, provider=provider)


def normalise_rows(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return cast(Vectors, vectors / np.where(lengths > 0, lengths, 1))


def _word_end_before(text: str, position: int) -> int:
    """The end of the last word or line just before a position, or the position itself if there is none."""
    spaces = [text.rfind(space, max(position - LOOK_BACK_CHARACTERS, 0), position) for space in "\n。 "]
    return max(spaces) + 1 or position


PROVIDERS = {
    "static": "annai.embedders.static",
    "sentence-transformers": "annai.embedders.sentence_transformers",
    "onnx": "annai.embedders.onnx",
    "gemini": "annai.embedders.gemini",
    "openai": "annai.embedders.openai",
    "use": "annai.embedders.use",
    "hashing": "annai.embedders.hashing",
}
"""Provider → the module whose `create` makes the embedder; imported when it is needed."""

UNCACHED_PROVIDERS = frozenset({"static", "hashing"})
"""They embed a text faster than the cache finds its vector."""


def load_embedder(
    settings: Embedding, model: Model | None = None, retry: Retry | None = None, *, cache: Path | None = None
) -> Embedder:
    """The embedder that the settings name; its model is loaded with the first text.

    The file `cache`, if one is given, caches the vectors of documents, unless embedding them is faster.
    """
    named, settings = settings, _with_provider(settings)
    if settings.provider in PROVIDERS:
        create = import_module(PROVIDERS[settings.provider]).create
    else:
        create = plugins.load("annai.embedders", settings.provider, EmbedderError)
    embedder = cast(Embedder, create(settings, model=model or Model(), retry=retry or Retry()))
    embedder.settings = named
    if cache and settings.cache_mb and settings.provider not in UNCACHED_PROVIDERS:
        from annai.embedders.cache import VectorCache  # loads SQLite

        embedder.cache = VectorCache(cache, settings.cache_mb * 1_000_000)
    return embedder
