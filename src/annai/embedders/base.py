"""How do texts become vectors? The contract every embedder keeps, and the table of providers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from annai.errors import EmbedderError
from annai.settings import Embedding, Model, Retry

if TYPE_CHECKING:
    from annai.embedders.cache import VectorCache

Vectors = NDArray[np.float32]
Kind = Literal["query", "document"]

CACHE_NAME = "embeddings.sqlite"
"""The file beside the index in which vectors are remembered."""

USUAL_BATCH = 32
"""Texts embedded at once where neither the settings nor the provider say otherwise."""


class Embedder(ABC):
    """Turns texts into vectors; only `embed_batch` is an embedder's own.

    It promises: equal texts give equal vectors, whatever else is in the batch; any text is accepted; vectors have
    `dimension` columns and length 1, or 0 for a text that says nothing (the empty one). A text that is too long for
    the model is embedded in windows, all of which count. Whatever stands in the way is an `EmbedderError`. Several
    threads may use one embedder at once.
    """

    dimension: int = 0
    """How many numbers a vector has; 0 until the first text was embedded, where only the model knows."""
    identity: str
    """Names model, version, size and prefixes; vectors of different identities must not be compared."""
    additive: bool = False
    """Whether the vector of a text is, but for its length, the sum of the vectors of its parts."""
    tokenwise: bool = False
    """Whether texts are made of tokens that have numbers and vectors of their own, whatever stands around them."""
    longest_text: int = 2_000
    """Texts whose `length` is more are embedded in windows, whose mean by length counts."""
    longest_batch: int = 1 << 62
    """The most that a batch may hold: its longest text's `length`, once for each text, since short ones are padded."""
    parallel: int = 1
    """How many batches may be embedded at the same time."""
    cache: "VectorCache | None" = None
    """Where the vectors of documents are remembered, if anywhere."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size or USUAL_BATCH

    @abstractmethod
    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Embed at most `batch_size` texts, each of at most `longest_text`, not blank and without lone surrogates."""

    def length(self, text: str) -> int:
        """How long a text is to the model: its characters, or its tokens where the model counts those."""
        return len(text)

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """For an additive embedder: the vectors of texts before they are scaled to length 1, ready to be added up."""
        raise NotImplementedError(f"{self.identity} is not additive")

    def token_ids(self, text: str) -> NDArray[np.uint16]:
        """For a tokenwise embedder: the numbers of the text's tokens, in its order."""
        raise NotImplementedError(f"{self.identity} has no tokens")

    def token_vectors(self, ids: NDArray[np.integer]) -> Vectors:
        """For a tokenwise embedder: a row for each token; how long it is tells how much the token counts."""
        raise NotImplementedError(f"{self.identity} has no tokens")

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question: one row of length `dimension`."""
        return cast(Vectors, self._embed([text], "query")[0])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, one row each, in their order."""
        if self.cache is None:
            return self._embed(texts, "document")
        vectors = self.cache.fill(self.identity, texts, lambda missing: self._embed(missing, "document"))
        self.dimension = self.dimension or vectors.shape[1]
        return vectors

    def close(self) -> None:
        """Let go of the model and of what is remembered; the next text opens them again."""
        if self.cache is not None:
            self.cache.close()

    def _embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        windows: list[tuple[str, int]] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            # Lone surrogates cannot be encoded, and tokenizers choke on them.
            for window in self._windows(text.encode("utf-8", "replace").decode("utf-8")):
                windows.append(window)
                owners.append(owner)
        batches = self._batches([length for _, length in windows])
        rows = [
            (batch, vectors)
            for batch, vectors in zip(
                batches, self._embed_all([[windows[each][0] for each in batch] for batch in batches], kind), strict=True
            )
        ]
        if not self.dimension:
            # Nothing but blank texts so far, and their rows of zeros need a length.
            self._checked(self.embed_batch(["."], kind), 1)
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for batch, vectors in rows:
            lengths = np.array([[windows[each][1]] for each in batch], np.float32)
            np.add.at(sums, [owners[each] for each in batch], vectors * lengths)
        return normalised(sums)

    def _windows(self, text: str) -> list[tuple[str, int]]:
        """The text in parts that the model takes whole, each with its length; nothing of a blank text."""
        if not text.strip():
            return []
        length = self.length(text)
        if length <= self.longest_text or len(text) == 1:
            return [(text, max(length, 1))]
        parts = -(-length // self.longest_text)
        starts = [len(text) * number // parts for number in range(parts)]
        cuts = sorted({0, *(_near_space(text, start) for start in starts[1:]), len(text)})
        if len(cuts) == 2:  # A text of few characters and many tokens: anywhere is as good.
            cuts.insert(1, len(text) // 2)
        return [window for start, end in pairwise(cuts) for window in self._windows(text[start:end])]

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Which windows are embedded together: those of like length, so that little is padding, the longest first."""
        batches: list[list[int]] = []
        for number in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
            last = batches[-1] if batches else []
            # The first of a batch is its longest.
            room = self.longest_batch // lengths[last[0]] if last else 0
            if last and len(last) < min(self.batch_size, room):
                last.append(number)
            else:
                batches.append([number])
        return batches

    def _embed_all(self, batches: Sequence[list[str]], kind: Kind) -> Iterable[Vectors]:
        """Embed batches, several at a time where that is allowed; the first that fails ends it."""
        if self.parallel == 1 or len(batches) < 2:
            return [self._checked(self.embed_batch(batch, kind), len(batch)) for batch in batches]
        from concurrent.futures import ThreadPoolExecutor  # most embedders have no use for it

        pool = ThreadPoolExecutor(self.parallel)
        try:
            found = pool.map(lambda batch: self.embed_batch(batch, kind), batches)
            return [self._checked(vectors, len(batch)) for vectors, batch in zip(found, batches, strict=True)]
        finally:
            pool.shutdown(cancel_futures=True)

    def _checked(self, vectors: Vectors, count: int) -> Vectors:
        expected = self.dimension or (vectors.shape[1] if vectors.ndim == 2 else 0)
        if not expected or vectors.shape != (count, expected) or not np.isfinite(vectors).all():
            raise EmbedderError(
                f"{self.identity} returned vectors of shape {vectors.shape} for {count} texts "
                f"where {expected or 'some'} finite numbers each were expected; check [embedding] in annai.toml."
            )
        self.dimension = expected
        return vectors


def normalised(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return cast(Vectors, vectors / np.where(lengths > 0, lengths, 1))


def _near_space(text: str, position: int) -> int:
    """The end of the last word or line before a position, if there is one near."""
    spaces = [text.rfind(space, max(position - 100, 0), position) for space in "\n。 "]
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
"""Provider → the module whose `create` makes the embedder; imported when asked for."""

UNCACHED = frozenset({"static", "hashing"})
"""Providers that are quicker than looking a vector up."""


def load_embedder(
    settings: Embedding, model: Model | None = None, retry: Retry | None = None, *, cache: Path | None = None
) -> Embedder:
    """The embedder that the settings name; its model is loaded when the first text comes.

    Vectors of documents are remembered in the file `cache`, if one is named and that pays.
    """
    module = import_module(PROVIDERS[settings.provider])
    embedder = cast(Embedder, module.create(settings, model=model or Model(), retry=retry or Retry()))
    if cache and settings.cache_mb and settings.provider not in UNCACHED:
        from annai.embedders.cache import VectorCache  # only where it is used

        embedder.cache = VectorCache(cache, settings.cache_mb * 1_000_000)
    return embedder
