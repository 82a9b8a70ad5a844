"""How do texts become vectors? The contract every embedder keeps, and the table of providers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from annai.config import Embedding
from annai.errors import EmbedderError

Vectors = NDArray[np.float32]
Kind = Literal["query", "document"]


class Embedder(ABC):
    """Turns texts into vectors; only `embed_batch` is an embedder's own.

    It promises: equal texts give equal vectors, whatever else is in the batch; any text is accepted; vectors have
    `dimension` columns and length 1, or 0 for a text that says nothing (the empty one).
    """

    dimension: int
    identity: str
    """Names model, version and size; vectors of different identities must not be compared."""
    additive: bool = False
    """Whether the vector of a text is, but for its length, the sum of the vectors of its parts."""
    longest_text: int = 2_000
    """Longer texts are embedded in windows of this many characters, whose mean counts."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    @abstractmethod
    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Embed at most `batch_size` texts, each of at most `longest_text` characters and without lone surrogates."""

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """For an additive embedder: the vectors of texts before they are scaled to length 1, ready to be added up."""
        raise NotImplementedError(f"{self.identity} is not additive")

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question: one row of length `dimension`."""
        return cast(Vectors, self._embed([text], "query")[0])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, one row each, in their order."""
        return self._embed(texts, "document")

    def _embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        windows: list[str] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            # Lone surrogates cannot be encoded, and tokenizers choke on them.
            safe = text.encode("utf-8", "replace").decode("utf-8")
            for start in range(0, max(len(safe), 1), self.longest_text):
                windows.append(safe[start : start + self.longest_text])
                owners.append(owner)
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(windows), self.batch_size):
            batch = windows[start : start + self.batch_size]
            vectors = self.embed_batch(batch, kind)
            if vectors.shape != (len(batch), self.dimension) or not np.isfinite(vectors).all():
                raise EmbedderError(
                    f"{self.identity} returned vectors of shape {vectors.shape} for {len(batch)} texts "
                    f"where {self.dimension} finite numbers each were expected; check [embedding] in annai.toml."
                )
            weights = np.array([[len(text)] for text in batch], np.float32)
            np.add.at(sums, owners[start : start + self.batch_size], vectors * weights)
        return normalised(sums)


def normalised(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return cast(Vectors, vectors / np.where(lengths > 0, lengths, 1))


PROVIDERS = {
    "static": "annai.embedders.static",
    "use": "annai.embedders.use",
    "hashing": "annai.embedders.hashing",
}
"""Provider → the module whose `create` makes the embedder; imported when asked for."""


def load_embedder(settings: Embedding) -> Embedder:
    """The embedder that the settings name; its model is loaded when the first text comes."""
    return cast(Embedder, import_module(PROVIDERS[settings.provider]).create(settings))
