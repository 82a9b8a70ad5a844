"""How does Chroma find neighbours? One collection a dimension, in a folder or at a server (`chroma run`)."""

import logging
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
from numpy.typing import NDArray

from annai.answers import Where
from annai.config import Config
from annai.errors import StoreError, StoreFull
from annai.settings import StoreSettings
from annai.stores.base import Store, Vectors
from annai.stores.sidecar.neighbours import Neighbours, Passage, redact_url
from annai.stores.sidecar.vectors import open_beside
from annai.stores.sqlite.search_index import Span

logger = logging.getLogger(__name__)

EXPORTER = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
"""What would send Chroma's traces. It brings gRPC: 12 MB that each search by a command would load."""


@contextmanager
def _exporter_when_needed() -> Iterator[None]:
    """Have modules that are imported in the block load the exporter when they use it, and not before."""
    later = ModuleType(EXPORTER)
    vars(later)["OTLPSpanExporter"] = lambda **options: import_module(EXPORTER).OTLPSpanExporter(**options)
    is_later = sys.modules.setdefault(EXPORTER, later) is later
    try:
        yield
    finally:
        if is_later:
            del sys.modules[EXPORTER]


with _exporter_when_needed():
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings
    from chromadb.errors import ChromaError

REMOVE_BATCH, READ_BATCH = 2_000, 10_000
"""Keys removed and read in one call."""

CALL_TIMEOUT_SECONDS = 60.0
"""How long to wait for a server: Chroma's own client waits without end."""

STAGING_SUFFIX = "-building"
"""Marks a collection that is to take the place of the one before the hyphen."""

Client = Any
"""A client of Chroma, a third party's object."""

ChromaCollection = Any
"""A collection of Chroma, a third party's object."""


def open_store(config: Config) -> Store:
    """Open the index: the file, and Chroma's folder or server."""
    folder = config.database_path.with_suffix("")
    return open_beside(config, ChromaNeighbours(config.store, folder))


class ChromaNeighbours(Neighbours):
    """Passages in Chroma: cosine HNSW, built as they come."""

    def __init__(self, settings: StoreSettings, folder: Path) -> None:
        self._settings = settings
        self.folder = folder
        self.address = redact_url(settings.url) or str(folder)
        self.is_shared = bool(settings.url)
        self._lock = threading.RLock()
        self._opened: Client = None

    def open(self) -> None:
        """The folder, or a connection to the server."""
        with self._translate_errors():
            self._client.heartbeat()

    @property
    def _client(self) -> Client:
        """Made when it is first needed."""
        if self._opened is None:
            client = self._connect()
            self._batch_size = int(client.get_max_batch_size())
            self._opened = client
        return self._opened

    def _connect(self) -> Client:
        # By itself it reads .env in the current folder, a project's, which can name addresses and code.
        quiet = Settings(_env_file=None, anonymized_telemetry=False)
        if not self._settings.url:
            try:
                return chromadb.PersistentClient(self.folder, settings=quiet)
            except Exception:
                self._forget_client()
                raise
        parts = urlsplit(self._settings.url)
        if not parts.hostname or parts.scheme not in ("http", "https"):
            raise StoreError("store.url is not one of a Chroma server", "write it as http://HOST:PORT.")
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 8000)
        # Its client asks before its timeout can be set.
        httpx.get(f"{parts.scheme}://{parts.hostname}:{port}/api/v2/heartbeat", timeout=CALL_TIMEOUT_SECONDS)
        client = chromadb.HttpClient(parts.hostname, port, ssl=secure, settings=quiet)
        for session in _sessions(client):
            session.timeout = httpx.Timeout(CALL_TIMEOUT_SECONDS)
        return client

    def names(self) -> list[str]:
        """One call."""
        with self._translate_errors():
            return [each.name for each in self._client.list_collections()]

    def add(self, passages: Sequence[Passage]) -> None:
        """In as few calls as Chroma takes."""
        with self._translate_errors():
            collection = self._collection(len(passages[0].vector), make=True)
            for start in range(0, len(passages), self._batch_size):
                part = passages[start : start + self._batch_size]
                collection.upsert(
                    ids=[_id(passage) for passage in part],
                    embeddings=np.array([passage.vector for passage in part], np.float32),
                    metadatas=[
                        {
                            "key": passage.key,
                            "collection": passage.collection,
                            "path": _plain(passage.path),
                            "heading": _plain(passage.section.heading),
                            "depth": passage.section.depth,
                        }
                        for passage in part
                    ],
                )

    def remove(self, spans: Sequence[Span]) -> None:
        """By their keys, many at a time: each call takes a while, however little it removes."""
        keys = [key for first, past in spans for key in range(first, past)]
        with self._translate_errors():
            for collection in self._collections():
                for start in range(0, len(keys), REMOVE_BATCH):
                    collection.delete(where={"key": {"$in": keys[start : start + REMOVE_BATCH]}})

    def nearest(self, vector: Vectors, count: int, collections: Sequence[int] | None, _where: Where, /) -> list[int]:
        """By HNSW, which keeps as many candidates as are asked for; Chroma cannot filter by the beginning of a path."""
        with self._translate_errors():
            collection = self._collection(len(vector))
            if collection is None:
                return []
            narrowed = {} if collections is None else {"where": {"collection": {"$in": [*collections, -1]}}}
            size = min(count, collection.count())
            if not size:
                return []
            found = collection.query(query_embeddings=[vector], n_results=size, include=[], **narrowed)
            return [_key(each) for each in found["ids"][0]]

    def count(self) -> int:
        """Of each collection."""
        with self._translate_errors():
            return sum(int(collection.count()) for collection in self._collections())

    def drop(self, name: str) -> None:
        """One call."""
        with self._translate_errors():
            self._client.delete_collection(name)

    def keys(self) -> NDArray[np.int64]:
        """From the ids."""
        keys: list[int] = []
        with self._translate_errors():
            for collection in self._collections():
                for start in range(0, collection.count(), READ_BATCH):
                    ids = collection.get(limit=READ_BATCH, offset=start, include=[])["ids"]
                    keys += [_key(each) for each in ids]
        return np.array(keys, np.int64)

    def optimize(self, *, now: bool = False) -> None:
        """Chroma orders passages as it takes them in."""

    def apply_settings(self) -> None:
        """Chroma can change how wide it searches; for the rest it copies the vectors into another collection."""
        wanted = self._graph()
        with self._translate_errors():
            for name in self.names():
                if name.startswith(f"{self.prefix}_") and name.endswith(STAGING_SUFFIX):
                    self._client.delete_collection(name)  # The process that was building it died.
            for collection in self._collections():
                current = collection.configuration_json.get("hnsw") or wanted
                changed = [key for key, value in wanted.items() if current.get(key) != value]
                if changed == ["ef_search"]:
                    collection.modify(configuration={"hnsw": {"ef_search": wanted["ef_search"]}})
                elif changed:
                    self._rebuild(collection)

    def _rebuild(self, old: ChromaCollection) -> None:
        """Put a copy of a collection, made with the settings of now, in its place."""
        name, count = old.name, old.count()
        logger.warning("building Chroma's graph of %d vectors again, with the settings of now", count)
        staging = f"{name}{STAGING_SUFFIX}"
        new = self._client.create_collection(staging, configuration={"hnsw": self._graph()}, embedding_function=None)
        size = min(READ_BATCH, self._batch_size)
        for start in range(0, count, size):
            part = old.get(limit=size, offset=start, include=["embeddings", "metadatas"])
            new.upsert(ids=part["ids"], embeddings=part["embeddings"], metadatas=part["metadatas"])
        self._client.delete_collection(name)
        new.modify(name=name)

    def size_on_disk(self) -> int:
        """The files of the folder; nothing, if it is a server's."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def close(self) -> None:
        """Close the connections to a server; a folder's client is shared within the process, and stays."""
        for session in _sessions(self._opened):
            session.close()

    def set_aside(self) -> None:
        """The process is to open another client."""
        super().set_aside()
        self._opened = None
        self._forget_client()

    def _forget_client(self) -> None:
        """Chroma keeps one client of a folder for the whole process, though it failed to start."""
        SharedSystemClient._identifier_to_system.pop(str(self.folder), None)

    def _collections(self) -> list[ChromaCollection]:
        return [self._open(name) for name in self.own_names()]

    def _collection(self, dimension: int, *, make: bool = False) -> ChromaCollection:
        name = f"{self.prefix}_{dimension}"
        if name in self.names():
            return self._open(name)
        if not make:
            return None
        return self._client.get_or_create_collection(
            name, configuration={"hnsw": self._graph()}, embedding_function=None
        )

    def _graph(self) -> dict[str, object]:
        """Chroma's names for the settings."""
        return {
            "space": "cosine",
            "ef_construction": self._settings.hnsw_construction_ef,
            "ef_search": self._settings.hnsw_search_ef,
            "max_neighbors": self._settings.hnsw_m,
        }

    def _open(self, name: str) -> ChromaCollection:
        return self._client.get_collection(name, embedding_function=None)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Let one thread at a time use Chroma, and turn its errors into sentences."""
        with self._lock, warnings.catch_warnings():
            # What it says of a collection whose settings were changed.
            warnings.filterwarnings("ignore", "legacy embedding function config", DeprecationWarning)
            try:
                yield
            except (ChromaError, httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
                text = str(error)
                if "disk is full" in text or "No space left" in text:
                    raise StoreFull(
                        f"There is no space left for {self.address}", "free some and run the command again."
                    ) from error
                reason = text.splitlines()[0] if text else type(error).__name__
                raise StoreError(
                    f"Chroma at {self.address} could not be used ({reason})",
                    "check that it runs and that store.url is "
                    "right. Nothing is lost: what was not written is indexed again later.",
                ) from error


def _sessions(client: Client) -> list[httpx.Client]:
    """The connections of a client to a server, which it neither limits nor closes."""
    clients = (client, getattr(client, "_admin_client", None))
    found = [getattr(getattr(each, "_server", None), "_session", None) for each in clients]
    return [each for each in found if isinstance(each, httpx.Client)]


def _id(passage: Passage) -> str:
    """`path::chunk_n`, with the key for n: it is never used again, so that old and new never meet in one id."""
    return f"{_plain(passage.path)}::chunk_{passage.key}"


def _key(name: str) -> int:
    return int(name.rpartition("_")[2])


def _plain(text: str) -> str:
    """A text without NUL, which ends a text where Chroma keeps it; only people read it there."""
    return text.replace("\0", "␀")
