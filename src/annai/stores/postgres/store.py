"""How does PostgreSQL hold an index? Documents, vectors, keywords and the queue in one database that machines share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from annai.answers import Where
from annai.config import Config
from annai.errors import StoreError
from annai.settings import StoreSettings
from annai.stores.base import STAGING_SUFFIX, IndexedDocument, Inventory, Scored, Store, Vectors
from annai.stores.postgres.collections import Collections
from annai.stores.postgres.database import PostgresDatabase
from annai.stores.postgres.documents import Documents
from annai.stores.postgres.graphs import Graphs
from annai.stores.postgres.metadata import count_fields, read_metadata
from annai.stores.postgres.nearest import Nearest
from annai.stores.postgres.overview import reading
from annai.stores.postgres.postings import Counts, bury, compact, holding, merge, score, word_counts
from annai.stores.postgres.requests import PostgresRequests
from annai.stores.scores import top_scores
from annai.text.fields import FieldWeights
from annai.types import Collection, Document, FileState, ListedDocument, MetadataField, Statistics, StoredSection

TIES = 16
"""Passages asked for beyond the limit, so that those that tie with the last one come in the order of their keys."""

CHECKED_PER_RESULT = 8
"""How many of the best matches are checked against a restriction for each one asked for; more, if too few pass."""


def open_store(config: Config) -> Store:
    """Open the index that store.url names, making it if there is none."""
    if not config.store.url:
        raise StoreError(
            'store.engine is "postgres" and store.url names no database',
            "write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
        )
    return PostgresStore(config.store, config.name)


class PostgresStore(Store):
    """The store for a team: any number of servers and workers on one database."""

    shared = True

    def __init__(self, settings: StoreSettings, project: str = "") -> None:
        self._settings = settings
        self._database = PostgresDatabase(settings, project)
        self._collections = Collections(self._database)
        self._documents = Documents(self._database)
        self._requests = PostgresRequests(self._database, settings.lease_seconds)
        self.requests = self._requests
        self._graphs = Graphs(self._database, settings, self._requests.due)
        self._nearest = Nearest(self._database, settings)
        self.read_only = self._database.read_only
        self._in_bulk = False

    @property
    def address(self) -> str:
        """The server and the database."""
        return self._database.address

    def collections(self) -> list[Collection]:
        """Every collection, ordered by name."""
        return self._collections.read()

    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """What is known of the files."""
        return self._collections.states(collection, under)

    def documents(self, collection: str, *, after: str = "", limit: int | None = None) -> list[ListedDocument]:
        """The documents in the order of their paths."""
        return self._documents.listed(collection, after, limit)

    def document(self, collection: str, path: str) -> Document | None:
        """The document, or None."""
        return self._documents.document(collection, path)

    def documents_at(self, addresses: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Document]:
        """All of them in one statement."""
        return self._documents.documents_at(addresses)

    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document."""
        return self._documents.sections(collection, path)

    def metadata(self, collection: str, name: str) -> list[tuple[str, str]]:
        """What documents say under a name."""
        return read_metadata(self._database, collection, name)

    def fields(self, collection: str) -> list[MetadataField]:
        """The names under which they say something."""
        return count_fields(self._database, collection)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One read transaction."""
        with reading(self._database):
            yield

    def save_collection(self, collection: Collection) -> None:
        """Add or replace."""
        with self._database.writing():
            self._collections.save(collection)

    def delete_collection(self, name: str) -> None:
        """Forget it and its documents."""
        with self._database.unlimited(), self._database.writing():
            if number := self._collections.number(name, lock="FOR UPDATE"):
                self._empty_collection(number)
                self._collections.delete(number, name)
        self._tidy()

    def swap_collection(self, staging: str, name: str) -> None:
        """The new collection takes the name of the old one; its documents stay where they are."""
        with self._database.unlimited(), self._database.writing():
            old = self._collections.existing(name, lock="FOR UPDATE")
            new = self._collections.existing(staging, lock="FOR UPDATE")
            self._empty_collection(old)
            self._collections.replace(old, new)
        self._tidy()

    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """Replace, forget, remember, in one transaction."""
        with self._database.writing():
            number = self._collections.existing(collection, lock="FOR KEY SHARE")
            known = {each.path: each for each in (*(each.document.state for each in documents), *states)}
            files = self._collections.save_states(number, [*known.values()])
            deleted = self._collections.delete_paths(number, removed)
            replaced = [files[each.document.path] for each in documents]
            skipped = [files[each.path] for each in states if each.problem and each.problem.kind == "skipped"]
            gone = self._documents.delete(deleted + replaced + skipped)
            self._documents.insert(number, [(files[each.document.path], each) for each in documents])
        if documents or gone:
            self._tidy(documents[0].vectors.shape[1] if documents else 0, deleted=gone > 0)

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """A graph is built much faster at once than vector by vector."""
        self._in_bulk = True
        try:
            with self._database.advisory_lock("bulk", shared=True):
                yield
        finally:
            self._in_bulk = False
        self._graphs.build()

    @contextmanager
    def replacing(self, name: str) -> Iterator[bool]:
        """By a lock of the database, which is lost with this process."""
        with self._database.advisory_lock(f"replace_{name}") as mine:
            yield mine

    def delete_abandoned(self, is_wanted: Callable[[Collection], bool] = lambda _: False) -> None:
        """While no other process is within `bulk`; one that died has lost its lock."""
        if any(each.name.endswith(STAGING_SUFFIX) for each in self.collections()):
            with self._database.advisory_lock("bulk") as mine:
                if mine:
                    super().delete_abandoned(is_wanted)

    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Sections by key."""
        return self._documents.lookup(keys)

    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The vectors of sections."""
        return self._documents.vectors(keys, dimension)

    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The tokens of passages."""
        return self._documents.tokens(keys)

    def nearest(self, vector: Vectors, limit: int, where: Where) -> list[Scored]:
        """By HNSW where the passages are many, else one by one."""
        with reading(self._database) as overview:
            rows = self._nearest.find(vector, limit + TIES, where, overview)
        return sorted((Scored(key, value) for key, value in rows), key=lambda each: (-each.score, each.key))[:limit]

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Add up each word's list of passages, and check the best against the restriction."""
        with reading(self._database) as overview:
            clause, values = overview.restriction(where, "f.id")
            if clause is None:
                return []
            counts = Counts(overview.passages, overview.words, overview.tombstones)
            keys, shares = score(self._database, counts, words, fields)
            if not clause:
                return top_scores(keys, shares, limit)
            count = limit
            while True:
                count *= CHECKED_PER_RESULT
                best = top_scores(keys, shares, count)
                rows = self._database.rows(
                    f"""SELECT s.id FROM annai_sections s JOIN annai_files f ON f.id = s.document_id
                    WHERE s.id = ANY(%s) {clause}""",
                    ([each.key for each in best], *values),
                )
                allowed = {key for (key,) in rows}
                passing = [each for each in best if each.key in allowed]
                if len(passing) >= limit or len(best) == len(keys):
                    return passing[:limit]

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """From the lengths of the words' lists, and from those lists that may be full of deleted passages."""
        with reading(self._database) as overview:
            return holding(self._database, overview.tombstones, words)

    def dimension(self, collection: str) -> int:
        """Of any of its documents."""
        return self._documents.dimension(collection)

    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection."""
        return self._documents.statistics(collection)

    def size_on_disk(self) -> int:
        """What the tables and their indexes take on the server."""
        return self._database.size_on_disk()

    def inventory(self) -> Inventory:
        """From the tables themselves."""
        with self._database.unlimited(), reading(self._database):
            passages, words = word_counts(self._database)
            return Inventory(self._documents.section_keys(), self._documents.vector_keys(), passages, words)

    def sweep(self) -> None:
        """Delete what has no document, and count again."""
        with self._database.unlimited(), self._database.writing():
            self._documents.delete_orphans()
            passages, _ = word_counts(self._database)
            bury(self._database, np.setdiff1d(passages, self._documents.section_keys()))
            self._documents.recount()
        compact(self._database, always=True)

    def vacuum(self) -> None:
        """Lists without deleted passages, graphs where they are due, and PostgreSQL's own vacuum."""
        compact(self._database, always=True)
        self._graphs.build()
        self._database.vacuum()

    def apply_settings(self) -> None:
        """Build the graphs again that have other settings."""
        self._graphs.rebuild()

    def close(self) -> None:
        """Close every connection."""
        self._requests.close()
        self._database.close()

    def _empty_collection(self, number: int) -> None:
        self._documents.delete(self._collections.delete_files(number))
        self._documents.delete_counters(number)

    def _tidy(self, dimension: int = 0, *, deleted: bool = True) -> None:
        """After a write: merge small lists, drop deleted passages from them, and build graphs that are due."""
        merge(self._database)
        if deleted:
            compact(self._database)
        if dimension and not self._in_bulk:
            self._graphs.build([dimension])
