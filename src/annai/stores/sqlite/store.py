"""How does one SQLite file hold an index? Documents, sections, vectors and keywords, written together or not at all."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from annai.answers import Where
from annai.config import Config
from annai.errors import DamagedIndex, StoreError
from annai.stores.base import IndexedDocument, Inventory, Scored, Store, StoredText, Vectors
from annai.stores.scores import cosines, top_scores
from annai.stores.sqlite.collections import Collections
from annai.stores.sqlite.database import Database, damaged, make_index_file
from annai.stores.sqlite.documents import DocumentRow, Documents
from annai.stores.sqlite.passages import MAX_DELETED_SHARE, Passages
from annai.stores.sqlite.postings import Postings
from annai.stores.sqlite.requests import SqliteRequests
from annai.stores.sqlite.search_index import IndexFile, VectorIndex, candidate_count
from annai.stores.sqlite.sign_index import SignIndex
from annai.text.fields import FieldWeights
from annai.types import Collection, Document, FileState, ListedDocument, MetadataField, Statistics, StoredSection

logger = logging.getLogger(__name__)

MakeVectorIndex = Callable[[IndexFile], VectorIndex]
"""Makes what finds the passages of an index file that are near a vector."""


def open_store(config: Config) -> Store:
    """Open the index of a project, making it if there is none."""
    make_index_file(config)
    return SqliteStore(config.database_path, make_file=partial(make_index_file, config))


class SqliteStore(Store):
    """The default store; and, with an engine beside the file that finds its passages, the store of that engine."""

    def __init__(
        self, path: Path, make_vectors: MakeVectorIndex = SignIndex, make_file: Callable[[], None] = lambda: None
    ) -> None:
        self._database = Database(path, make_file)
        self._collections = Collections(self._database)
        self._documents = Documents(self._database)
        self._passages = Passages(self._database)
        file = IndexFile(self._database, self._collections, self._documents, self._passages)
        try:
            self._recover_registrations()
            self._vectors, self._words = make_vectors(file), Postings(file)
        except BaseException:
            self._database.close()
            raise
        self._database.on_replaced = self._reopened
        self.requests = SqliteRequests(self._database)
        self.read_only = self._database.read_only

    @property
    def address(self) -> str:
        """The file, and what is beside it."""
        beside = self._vectors.address
        return f"{self._database.path}, vectors in {beside}" if beside else str(self._database.path)

    @property
    def problem(self) -> str:
        """That of the engine beside the file."""
        return self._vectors.problem

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
        """The documents of these collections and paths."""
        return self._documents.documents_at(addresses)

    def texts(self, where: Where) -> Iterator[StoredText]:
        """Straight from the rows, in one statement."""
        return self._documents.texts(where.collections, self._passages.documents(where))

    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document."""
        return self._documents.sections(collection, path)

    def metadata(self, collection: str, name: str) -> list[tuple[str, str]]:
        """What documents say under a name."""
        return self._documents.metadata(collection, name)

    def fields(self, collection: str) -> list[MetadataField]:
        """The names under which they say something."""
        return self._documents.fields(collection)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One read transaction."""
        with self._database.reading():
            yield

    def save_collection(self, collection: Collection) -> None:
        """Add or replace."""
        with self._collections.registering():
            self._collections.save(collection)

    def delete_collection(self, name: str) -> None:
        """Forget it and its documents."""
        with self._collections.registering():
            if number := self._collections.number(name):
                self._empty_collection(number)
                self._collections.delete(number, name)
                self._compact_words()
                self._passages.advance()
        self._vectors.purge()

    def swap_collection(self, staging: str, name: str) -> None:
        """The new collection takes the name of the old one; its documents stay where they are."""
        with self._collections.registering():
            old, new = self._collections.existing(name), self._collections.existing(staging)
            self._empty_collection(old)
            self._collections.replace(old, new)
            self._compact_words()
            self._passages.advance()

    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """Replace, forget, remember, in one transaction."""
        with self._vectors.adding(collection, documents) as take_keys, self._database.writing():
            number = self._collections.existing(collection)
            for path in removed:
                file = self._collections.file(number, path)
                self._delete_document(file)
                self._collections.delete_file(file)
            rows: list[DocumentRow] = []
            for indexed in documents:
                file = self._collections.save_state(number, indexed.document.state)
                self._delete_document(file)
                rows.append(DocumentRow(file, take_keys(len(indexed.sections)), indexed))
            self._documents.insert(rows)
            self._passages.insert(number, rows, self._vectors.pack)
            for state in states:
                file = self._collections.save_state(number, state)
                if state.problem and state.problem.kind == "skipped":
                    self._delete_document(file)
            self._words.add({key: words for row in rows for key, words in row.keywords()})
            if documents or removed or states:
                self._passages.advance()

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """What finds vectors is put in order at the end."""
        with self._vectors.bulk():
            yield

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
        """Candidates first, then their vectors."""
        keys = np.sort(self._vectors.candidates(vector, candidate_count(limit), where))
        if not len(keys):
            return []
        return top_scores(keys, cosines(self._documents.vectors(keys.tolist(), len(vector)), vector), limit)

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """By the lists of the words."""
        return self._words.matching(words, fields, limit, where)

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """By the lists of the words."""
        return self._words.holding(words)

    def dimension(self, collection: str) -> int:
        """Of any of its documents."""
        return self._documents.dimension(collection)

    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection."""
        return self._documents.statistics(collection)

    def size_on_disk(self) -> int:
        """The file with its write-ahead log, and what is beside it."""
        return self._database.size_on_disk() + self._vectors.size_on_disk()

    def verify(self) -> None:
        """Every page, by its checksum and by SQLite's own rules."""
        if self._database.rows("PRAGMA integrity_check(1)") != [("ok",)]:
            raise DamagedIndex(damaged(self._database.path))

    def inventory(self) -> Inventory:
        """From the tables themselves; a vector counts as there only if it can be found."""
        with self._database.reading():
            sections, vectors = self._documents.section_keys(), self._documents.vector_keys()
            passages, words = self._words.word_counts()
            lost = np.setdiff1d(self._documents.passage_keys(), self._passages.stored_keys())
            return Inventory(sections, np.setdiff1d(self._vectors.present(vectors), lost), passages, words)

    def sweep(self) -> None:
        """Delete what has no document, and write the lists of words without what was deleted."""
        with self._database.writing():
            self._documents.delete_orphans()
            self._compact_words()
            self._passages.advance(reread=True)
        self._vectors.sweep()

    def vacuum(self) -> None:
        """Merge the lists of words, and let SQLite write its file again without the holes."""
        with self._database.writing():
            self._compact_words()
        self._vectors.vacuum()
        self._database.rows("VACUUM")
        self._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def tidy(self) -> None:
        """Write the lists of words without what was deleted, if that is much."""
        if self._passages.deleted_share() <= MAX_DELETED_SHARE:
            return
        try:
            with self._database.writing():
                # Another process may have done it meanwhile.
                if self._passages.deleted_share() > MAX_DELETED_SHARE:
                    self._compact_words()
        except StoreError as error:
            logger.warning("the lists of words still hold what was deleted: %s", error)  # The next run tries again.

    def apply_settings(self) -> None:
        """Those of the engine beside the file, if there is one."""
        self._vectors.apply_settings()

    def close(self) -> None:
        """Close the file, and what is beside it."""
        self._vectors.close()
        self._database.close()

    def _reopened(self) -> None:
        self._recover_registrations()
        self._vectors.opened()

    def _recover_registrations(self) -> None:
        try:
            self._collections.recover()
        except DamagedIndex:
            raise
        except StoreError as error:
            logger.warning("what is registered could not be compared with its copy: %s", error)

    def _compact_words(self) -> None:
        self._words.compact()
        self._passages.mark_compacted()

    def _delete_document(self, file: int) -> None:
        span = self._documents.span(file)
        if span is None:
            return
        self._vectors.drop(span)
        self._documents.delete(file, span)
        self._passages.delete(file, *span)

    def _empty_collection(self, number: int) -> None:
        for file in self._collections.files(number):
            self._delete_document(file)
        self._collections.delete_files(number)
