"""What do embedders that are services have in common? Prefixes, retries, and texts measured without a tokenizer."""

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from annai.embedders.base import Embedder, Kind, Vectors
from annai.errors import EmbedderError
from annai.models.catalog import KnownModel
from annai.models.probe import PROBE_TEXT
from annai.models.remote import MAX_QUERY_WAIT_SECONDS, ServiceError, check_url, retry
from annai.models.vectors import NO_PREFIXES, configured_prefixes
from annai.settings import Embedding, Retry

BYTES_PER_TOKEN = 2
"""Fewer than tokenizers put into one token, in English (4) and in Japanese (3): better a window too many than a text
that a service silently truncates."""

DEFAULT_MAX_TOKENS = 512
"""Every embedding model takes this many."""


class ServiceEmbedder(Embedder):
    """Asks a service for vectors; a service implements `request`."""

    is_service = True

    def __init__(self, settings: Embedding, retry: Retry, known: KnownModel | None, batch_size: int) -> None:
        super().__init__(settings.batch_size or batch_size)
        self.parallel_batches = settings.parallel_requests
        self.max_text_length = settings.max_tokens or (known.max_tokens if known else DEFAULT_MAX_TOKENS)
        self._settings = settings
        self._retry = retry
        self._prefixes = configured_prefixes(settings, known).or_else(NO_PREFIXES)

    @abstractmethod
    def request(self, texts: Sequence[str], kind: Kind) -> Sequence[Sequence[float]]:
        """Send one request. Raises `ServiceError`, or `EmbedderError` if a retry cannot help."""

    def length(self, text: str) -> int:
        """About how many tokens a text has, seldom fewer than it really has."""
        return -(-len(text.encode()) // BYTES_PER_TOKEN)

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Send a request, and retry it as the settings say."""
        return self._ask(texts, kind, MAX_QUERY_WAIT_SECONDS if kind == "query" else math.inf)

    def embed_probe(self) -> Vectors:
        """Wait as long as for documents."""
        return self._ask([PROBE_TEXT], "query", math.inf)

    def _ask(self, texts: Sequence[str], kind: Kind, max_wait: float) -> Vectors:
        try:
            rows = retry(lambda: self.request(texts, kind), self._retry, max_wait=max_wait)
        except ServiceError as error:
            raise EmbedderError(f"{self.identity} returned no vectors: {error}.") from None
        if len(rows) != len(texts):
            raise EmbedderError(
                f"{self.identity} returned {len(rows)} vectors for {len(texts)} texts",
                "try a smaller embedding.batch_size.",
            )
        try:
            return np.array(rows, np.float32, ndmin=2)
        except (ValueError, TypeError):
            raise EmbedderError(
                f"{self.identity} returned vectors of different lengths", "check [embedding] in annai.toml."
            ) from None

    def _base_url(self, default: str = "") -> str:
        """The address of the service from the settings, or the default."""
        url = self._settings.base_url or default
        try:
            return check_url(url, "embedding.base_url") if url else ""
        except ValueError as error:
            raise EmbedderError(str(error)) from None
