"""Which words do two texts share? Vectors of hashed words, without a model: for tests and as a baseline.

Every word has a fixed pseudo-random direction; a text is the sum of its words. It finds texts that share words,
in any language, and knows nothing of meaning.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from annai.embedders.base import AdditiveEmbedder, Embedder, Vectors
from annai.settings import Embedding
from annai.text.tokens import word_weight, words

DIMENSION = 256
CACHED_WORDS = 50_000
"""Word vectors kept in memory: 50 MB at most."""


def create(settings: Embedding, **_: object) -> Embedder:
    """The embedder of hashed words."""
    return HashingEmbedder(settings.batch_size)


class HashingEmbedder(AdditiveEmbedder):
    """The sum of the words' directions; stop words count less."""

    dimension = DIMENSION
    identity = f"hashing-1/{DIMENSION}"

    def __init__(self, batch_size: int) -> None:
        super().__init__(batch_size)
        self._directions: dict[str, Vectors] = {}

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """Add up each text's words."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            if directions := [self._direction(word) for word in words(text)]:
                np.sum(directions, axis=0, out=row)
        return vectors

    def _direction(self, word: str) -> Vectors:
        known = self._directions.get(word)
        if known is None:
            if len(self._directions) >= CACHED_WORDS:
                self._directions.clear()
            digest = hashlib.shake_128(word.encode()).digest(self.dimension // 8)
            signs = np.unpackbits(np.frombuffer(digest, np.uint8)).astype(np.float32) * 2 - 1
            known = self._directions[word] = signs * np.float32(word_weight(word))
        return known
