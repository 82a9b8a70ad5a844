"""How does Chroma find neighbours? One collection a dimension, in a folder or at a server (`chroma run`)."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromadb
import httpx
import numpy as np
from chromadb.config import Settings
from chromadb.errors import ChromaError
from numpy.typing import NDArray

from annai.config import Config
from annai.errors import StoreError, StoreFull
from annai.settings import StoreSettings
from annai.stores.base import Store, Vectors, without_secrets
from annai.stores.sidecar.store import Neighbours, Passage, SidecarStore, Span
from annai.stores.sqlite.store import prepare_folder
from annai.types import Where

REMOVED_AT_ONCE = 2_000
READ_AT_ONCE = 10_000
"""Keys read at a time when all are wanted."""


def open_store(config: Config) -> Store:
    """Open the index: the file, and Chroma's folder or server."""
    prepare_folder(config.database_path)
    folder = config.database_path.with_suffix("")
    return SidecarStore(config.database_path, ChromaNeighbours(config.store, folder))


class ChromaNeighbours(Neighbours):
    """Passages in Chroma: cosine HNSW, built as they come."""

    def __init__(self, settings: StoreSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self.address = without_secrets(settings.url) or str(folder)
        self._turn = threading.Lock()
        quiet = Settings(anonymized_telemetry=False)
        with self._translate_errors():
            if settings.url:
                parts = urlsplit(settings.url)
                if not parts.hostname:
                    raise StoreError("store.url is not one of a Chroma server; write it as http://HOST:PORT.")
                secure = parts.scheme == "https"
                port = parts.port or (443 if secure else 8000)
                self._client = chromadb.HttpClient(parts.hostname, port, ssl=secure, settings=quiet)
            else:
                self._client = chromadb.PersistentClient(folder, settings=quiet)
            self._most = int(self._client.get_max_batch_size())

    def add(self, passages: Sequence[Passage]) -> None:
        """In as few calls as Chroma takes."""
        with self._translate_errors():
            collection = self._collection(len(passages[0].vector), make=True)
            for start in range(0, len(passages), self._most):
                part = passages[start : start + self._most]
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
                for start in range(0, len(keys), REMOVED_AT_ONCE):
                    collection.delete(where={"key": {"$in": keys[start : start + REMOVED_AT_ONCE]}})

    def nearest(self, vector: Vectors, count: int, collections: Sequence[int] | None, where: Where) -> list[int]:  # noqa: ARG002 - Chroma has no filter for beginnings of paths
        """HNSW keeps as many candidates as are asked for, so that more are found than the few that are wanted."""
        with self._translate_errors():
            collection = self._collection(len(vector))
            if collection is None:
                return []
            narrowed = {} if collections is None else {"where": {"collection": {"$in": [*collections, -1]}}}
            wanted = min(count, collection.count())
            if not wanted:
                return []
            found = collection.query(query_embeddings=[vector], n_results=wanted, include=[], **narrowed)
            return [_key(each) for each in found["ids"][0]]

    def keys(self) -> NDArray[np.int64]:
        """From the ids."""
        found: list[int] = []
        with self._translate_errors():
            for collection in self._collections():
                for start in range(0, collection.count(), READ_AT_ONCE):
                    ids = collection.get(limit=READ_AT_ONCE, offset=start, include=[])["ids"]
                    found += [_key(each) for each in ids]
        return np.array(found, np.int64)

    def size_on_disk(self) -> int:
        """The files of the folder; nothing, if it is a server's."""
        return sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())

    def _collections(self) -> list[Any]:
        return [self._open(each.name) for each in self._client.list_collections() if each.name.startswith("annai_")]

    def _collection(self, dimension: int, *, make: bool = False) -> Any:  # noqa: ANN401 - chromadb is there or not
        name = f"annai_{dimension}"
        if make:
            space = {
                "space": self._settings.hnsw_space,
                "ef_construction": self._settings.hnsw_construction_ef,
                "ef_search": self._settings.hnsw_search_ef,
                "max_neighbors": self._settings.hnsw_m,
            }
            return self._client.get_or_create_collection(name, configuration={"hnsw": space}, embedding_function=None)
        known = {each.name for each in self._client.list_collections()}
        return self._open(name) if name in known else None

    def _open(self, name: str) -> Any:  # noqa: ANN401 - chromadb is there or not
        return self._client.get_collection(name, embedding_function=None)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Let threads take turns, and turn Chroma's errors into sentences."""
        with self._turn:
            try:
                yield
            except (ChromaError, httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
                text = str(error)
                if "disk is full" in text or "No space left" in text:
                    raise StoreFull(
                        f"There is no space left for {self.address}; free some and run the command again."
                    ) from error
                reason = text.splitlines()[0] if text else type(error).__name__
                raise StoreError(
                    f"Chroma at {self.address} could not be used ({reason}); see that it runs and that store.url is "
                    "right. Nothing is lost: what was not written is done again."
                ) from error


def _id(passage: Passage) -> str:
    """`path::chunk_n`, with the key for n: it is never used again, so that old and new never meet in one id."""
    return f"{_plain(passage.path)}::chunk_{passage.key}"


def _key(name: str) -> int:
    return int(name.rpartition("_")[2])


def _plain(text: str) -> str:
    """A text without NUL, which ends a text where Chroma keeps it; only people read it there."""
    return text.replace("\0", "␀")
