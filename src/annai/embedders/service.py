"""What do embedders that are services have in common? Texts measured without their tokenizer, and patience."""

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from annai.embedders.base import Embedder, Kind, Vectors
from annai.errors import EmbedderError
from annai.models.remote import QUERY_PATIENCE, Refused, retry
from annai.settings import Embedding, Retry

BYTES_PER_TOKEN = 2
"""Fewer than any usual tokenizer puts into one, in English (4) and in Japanese (3): better a window too many than a
text that a service cuts off without a word."""

USUAL_TOKENS = 512
"""What any embedding model takes."""


class ServiceEmbedder(Embedder):
    """Asks a service for vectors; its own is `ask`."""

    def __init__(self, settings: Embedding, retry: Retry, batch_size: int, longest: int) -> None:
        super().__init__(settings.batch_size or batch_size)
        self.parallel = settings.parallel_requests
        self.longest_text = settings.max_tokens or longest or USUAL_TOKENS
        self._retry = retry

    @abstractmethod
    def ask(self, texts: Sequence[str], kind: Kind) -> Sequence[Sequence[float]]:
        """Ask once. Raises `Refused`, or `EmbedderError` for what asking again cannot help."""

    def length(self, text: str) -> int:
        """About how many tokens a text has, and seldom fewer than it really has."""
        return -(-len(text.encode()) // BYTES_PER_TOKEN)

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Ask, and ask again while there is hope."""
        patience = QUERY_PATIENCE if kind == "query" else math.inf
        try:
            found = retry(lambda: self.ask(texts, kind), self._retry, patience=patience)
        except Refused as refused:
            raise EmbedderError(f"{self.identity} gave no vectors: {refused}.") from None
        if len(found) != len(texts):
            raise EmbedderError(
                f"{self.identity} gave {len(found)} vectors for {len(texts)} texts; try a smaller embedding.batch_size."
            )
        try:
            return np.array(found, np.float32, ndmin=2)
        except (ValueError, TypeError):
            raise EmbedderError(
                f"{self.identity} gave vectors of different lengths; check [embedding] in annai.toml."
            ) from None
