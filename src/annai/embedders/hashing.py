"""What do two texts share, with no model at all? Vectors from hashed words: for tests, and for measuring the rest.

Every word has a fixed pseudo-random direction; a text is the sum of its words. It finds texts that share words,
in any language, and knows nothing of meaning.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from annai.embedders.base import Embedder, Kind, Vectors, normalised
from annai.settings import Embedding
from annai.text.tokens import word_weight, words

DIMENSION = 256
CAPACITY = 50_000
"""Word vectors kept in memory: 50 MB at most."""


def create(settings: Embedding, **_: object) -> Embedder:
    """The embedder of hashed words."""
    return HashingEmbedder(settings.batch_size)


class HashingEmbedder(Embedder):
    """The sum of the words' directions, words that say little counting less."""

    dimension = DIMENSION
    identity = f"hashing-1/{DIMENSION}"
    additive = True

    def __init__(self, batch_size: int) -> None:
        super().__init__(batch_size)
        self._directions: dict[str, Vectors] = {}

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:  # noqa: ARG002 - queries are texts like others
        """Add up each text's words, and scale."""
        return normalised(self.embed_sums(texts))

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """Add up each text's words."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            if found := [self._direction(word) for word in words(text)]:
                np.sum(found, axis=0, out=row)
        return vectors

    def _direction(self, word: str) -> Vectors:
        known = self._directions.get(word)
        if known is None:
            if len(self._directions) >= CAPACITY:
                self._directions.clear()
            digest = hashlib.shake_128(word.encode()).digest(self.dimension // 8)
            signs = np.unpackbits(np.frombuffer(digest, np.uint8)).astype(np.float32) * 2 - 1
            known = self._directions[word] = signs * np.float32(word_weight(word))
        return known
