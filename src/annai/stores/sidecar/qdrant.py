"""How does Qdrant find neighbours? A point for each passage, with its vector and what filters need, in a server."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from annai.answers import Where
from annai.config import Config
from annai.errors import ConfigError, StoreError, StoreFull
from annai.settings import StoreSettings
from annai.stores.base import Store, Vectors
from annai.stores.paths import path_prefixes, trim_prefix
from annai.stores.sidecar.neighbours import Neighbours, Passage
from annai.stores.sidecar.vectors import open_beside
from annai.stores.sqlite.search_index import Span

VECTOR = "dense"
"""What a point's vector is called."""

WRITE_BATCH, READ_BATCH = 256, 2_000
"""Points written and read in one call."""

MAX_NAMED_DOCUMENTS = 1_000
"""Of more documents Qdrant is not told which to look at, which would take long: enough of them are among the nearest,
or it is asked for more."""

CALL_TIMEOUT_SECONDS = 30

Client = Any
"""A client of Qdrant, a third party's object."""

Model = Any
"""A point, a filter or a condition as the client takes them: a third party's objects."""


def open_store(config: Config) -> Store:
    """Open the index: the file, and Qdrant's server."""
    return open_beside(config, QdrantNeighbours(config.store))


class QdrantNeighbours(Neighbours):
    """Passages in Qdrant: one collection of it for each dimension."""

    is_shared = True

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        parts = urlsplit(settings.url)
        # Without a URL the client would work on a folder, from which it unpickles: whoever filled it could run code.
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "The qdrant store needs a Qdrant server",
                "name it in store.url as http://HOST:PORT or http://KEY@HOST:PORT.",
            )
        self.address = f"{parts.hostname}:{parts.port or 6333}{parts.path}"
        self._lock = threading.RLock()
        self._opened: Client = None

    def open(self) -> None:
        """A connection to the server."""
        with self._translate_errors():
            self._client.get_collections()

    @property
    def _client(self) -> Client:
        """Made when it is first needed."""
        if self._opened is None:
            self._opened = self._connect()
        return self._opened

    def _connect(self) -> Client:
        parts = urlsplit(self._settings.url)
        key = unquote(parts.password or parts.username or "") or None
        address = f"{parts.scheme}://{self.address}"
        return QdrantClient(url=address, api_key=key, timeout=CALL_TIMEOUT_SECONDS, check_compatibility=False)

    def names(self) -> list[str]:
        """One call."""
        with self._translate_errors():
            return sorted(each.name for each in self._client.get_collections().collections)

    def add(self, passages: Sequence[Passage]) -> None:
        """Batch by batch."""
        dimension = len(passages[0].vector)
        with self._translate_errors():
            name = self._make(dimension)
            for start in range(0, len(passages), WRITE_BATCH):
                self._client.upsert(name, [_point(each) for each in passages[start : start + WRITE_BATCH]], wait=True)

    def remove(self, spans: Sequence[Span]) -> None:
        """By their ids, which are the keys."""
        with self._translate_errors():
            for name in self.own_names():
                for first, past in spans:
                    self._client.delete(name, points_selector=list(range(first, past)), wait=True)

    def nearest(self, vector: Vectors, count: int, collections: Sequence[int] | None, where: Where, /) -> list[int]:
        """By HNSW, which filters by collection and by path."""
        name = f"{self.prefix}_{len(vector)}"
        with self._translate_errors():
            if name not in self.names():
                return []
            found = self._client.query_points(
                name,
                query=vector.tolist(),
                using=VECTOR,
                limit=count,
                query_filter=_filter(collections, where),
                search_params=models.SearchParams(hnsw_ef=max(count, self._settings.hnsw_search_ef)),
                with_payload=False,
            )
            return [int(point.id) for point in found.points]

    def count(self) -> int:
        """Of each collection."""
        with self._translate_errors():
            return sum(int(self._client.count(name, exact=True).count) for name in self.own_names())

    def drop(self, name: str) -> None:
        """One call."""
        with self._translate_errors():
            self._client.delete_collection(name)

    def keys(self) -> NDArray[np.int64]:
        """The ids of all points."""
        return np.array([*self._scroll()], np.int64)

    def optimize(self, *, now: bool = False) -> None:
        """Qdrant orders points by itself."""

    def size_on_disk(self) -> int:
        """Nothing: the disk is the server's."""
        return 0

    def close(self) -> None:
        """Disconnect from the server."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _scroll(self) -> Iterator[int]:
        with self._translate_errors():
            for name in self.own_names():
                offset = None
                while True:
                    points, offset = self._client.scroll(name, limit=READ_BATCH, offset=offset, with_payload=False)
                    yield from (int(point.id) for point in points)
                    if offset is None:
                        break

    def apply_settings(self) -> None:
        """Qdrant builds its graphs again by itself."""
        graph = self._graph()
        with self._translate_errors():
            for name in self.own_names():
                current = self._client.get_collection(name).config.params.vectors[VECTOR].hnsw_config
                if current is None or (current.m, current.ef_construct) != (graph.m, graph.ef_construct):
                    changed = models.VectorParamsDiff(hnsw_config=graph)
                    self._client.update_collection(name, vectors_config={VECTOR: changed})

    def _graph(self) -> models.HnswConfigDiff:
        return models.HnswConfigDiff(m=self._settings.hnsw_m, ef_construct=self._settings.hnsw_construction_ef)

    def _make(self, dimension: int) -> str:
        name = f"{self.prefix}_{dimension}"
        if name in self.names():
            return name
        vectors = models.VectorParams(size=dimension, distance=models.Distance.COSINE, hnsw_config=self._graph())
        self._client.create_collection(name, vectors_config={VECTOR: vectors})
        for field, kind in (("collection", "integer"), ("folders", "keyword")):
            self._client.create_payload_index(name, field, field_schema=kind, wait=True)
        return name

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn Qdrant's errors into sentences; one thread at a time."""
        with self._lock:
            try:
                yield
            except (ApiException, OSError, RuntimeError, ValueError, LookupError) as error:
                raise _store_error(error, self.address) from error


def _point(passage: Passage) -> Model:
    return models.PointStruct(
        id=passage.key,
        vector={VECTOR: passage.vector.tolist()},
        payload={
            "collection": passage.collection,
            "folders": path_prefixes(passage.path),
            "heading": passage.section.heading,
            "depth": passage.section.depth,
        },
    )


def _filter(collections: Sequence[int] | None, where: Where) -> Model:
    def among(field: str, values: Sequence[int] | Sequence[str]) -> Model:
        return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))

    must = [] if collections is None else [among("collection", [*collections, -1])]
    if where.paths:
        must.append(among("folders", [trim_prefix(prefix) for prefix in where.paths]))
    if where.documents is not None and len(where.documents) <= MAX_NAMED_DOCUMENTS:
        must.append(among("folders", where.documents))
    must_not = [among("folders", [trim_prefix(prefix) for prefix in where.excludes])] if where.excludes else []
    return models.Filter(must=must, must_not=must_not) if must or must_not else None


def _store_error(error: Exception, address: str) -> StoreError:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if "No space left" in str(error):
        return StoreFull(f"There is no space left for Qdrant at {address}", "free some and run the command again.")
    if "401" in text or "403" in text:
        return StoreError(f"Qdrant at {address} does not take this key", "write store.url as http://KEY@HOST:PORT.")
    return StoreError(
        f"Qdrant at {address} could not be used ({text})",
        "check that it runs and that store.url is right. Nothing is lost: what was not written is indexed again later.",
    )
