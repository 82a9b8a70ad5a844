"""Which models has a project loaded? Each of them once, for all threads."""

import threading

from annai.config import Config
from annai.embedders.base import CACHE_NAME, Embedder, load_embedder
from annai.settings import Embedding


class Embedders:
    """The embedders of a project, each made when it is first needed."""

    def __init__(self, config: Config, *, remember: bool) -> None:
        self._config = config
        self._cache = config.database_path.with_name(CACHE_NAME) if remember else None
        self._loaded: dict[Embedding, Embedder] = {}
        self._lock = threading.Lock()

    def get(self, settings: Embedding) -> Embedder:
        """The embedder with these settings: one for all threads, since a model must not be in memory twice."""
        with self._lock:
            if settings not in self._loaded:
                embedder = load_embedder(settings, self._config.model, self._config.retry, cache=self._cache)
                embedder.is_watched = embedder.is_service
                self._loaded[settings] = embedder
            return self._loaded[settings]

    def close(self) -> None:
        """Release the models."""
        for embedder in self._loaded.values():
            embedder.close()
