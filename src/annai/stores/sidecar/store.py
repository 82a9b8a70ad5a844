"""How does an engine that only finds neighbours become a store? Beside an SQLite file, which is the truth.

Documents, sections, vectors, words and the queue are in the file; the engine holds a copy of each passage's vector,
under a key that is never used twice. Whatever the engine answers is held against the file, and scored with the file's
vectors. So a write has three steps, and may be cut off after any of them:

1. The keys are taken, and the new vectors go to the engine. No document owns them: no search returns them.
2. One transaction of the file writes the documents. From then on the new keys are known, and the old ones are not.
3. With a later write, when no search can have begun before it, the engine is told to forget what no document owns.

What is to be forgotten is noted in the file (`leftovers`) before it can be wrong.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.stores.base import IndexedDocument, Inventory, Vectors
from annai.stores.sqlite.store import SqliteStore
from annai.text.fields import passage_fields
from annai.text.keywords import Keywords, extract_keywords
from annai.types import Document, FileState, Section, Where

BRUTE_FORCE_UP_TO = 2_000
"""If a restriction lets no more passages through than this, they are compared one by one, without the engine."""

WIDEN_FACTOR = 4
"""How many times more are asked for when too many of the engine's answers belong to no document, or not to those
that are looked at."""

ABANDONED_SECONDS = 3_600.0
"""After so long a write that took keys and did not come to its end was cut off."""

GRACE_SECONDS = 10.0
"""How long the engine keeps what was replaced, for searches that began before."""

Span = tuple[int, int]
"""The first of some consecutive keys, and the one after their last."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as an engine takes it in."""

    key: int
    collection: int
    path: str
    section: Section
    vector: Vectors
    keywords: Keywords


class Neighbours(ABC):
    """An engine that finds the vectors near another. Errors are `StoreError`s whose messages say what to do."""

    address: str
    """Its folder or its server's address, with nothing secret in it."""

    @abstractmethod
    def add(self, passages: Sequence[Passage]) -> None:
        """Take in passages, all of one dimension; one whose key is known replaces it."""

    @abstractmethod
    def remove(self, spans: Sequence[Span]) -> None:
        """Forget the passages whose keys lie in these spans; unknown ones do nothing."""

    @abstractmethod
    def nearest(self, vector: Vectors, count: int, collections: Sequence[int] | None, where: Where) -> list[int]:
        """The keys of about `count` passages near the vector.

        Of these collections only, if any are given; the paths of `where` may be looked at too, to answer better.
        """

    @abstractmethod
    def keys(self) -> NDArray[np.int64]:
        """Every key there is, in no order."""

    def settle(self, *, now: bool = False) -> None:  # noqa: B027 - most engines have nothing to do
        """Something was written: order it for searching, where that is due; or much was, and it is due now."""

    def vacuum(self) -> None:
        """Give back the space of what was removed."""
        self.settle(now=True)

    @abstractmethod
    def size_on_disk(self) -> int:
        """Bytes on this machine's disk."""

    def close(self) -> None:  # noqa: B027 - some engines hold nothing
        """Let go of files and connections; closing twice is fine."""


class SidecarStore(SqliteStore):
    """An index file, and an engine that finds neighbours."""

    def __init__(self, path: Path, neighbours: Neighbours) -> None:
        super().__init__(path, signed=False)
        self._neighbours = neighbours
        self._turn = threading.RLock()
        self._taken: list[int] = []
        self._bulky = False

    @property
    def address(self) -> str:
        """Both."""
        return f"{super().address}, vectors in {self._neighbours.address}"

    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """First the engine, then the file."""
        with self._turn:
            number = self._existing_collection(collection)
            self._forget_leftovers()
            spans = self._reserve(documents)
            try:
                self._hand_over(number, documents, spans)
                self._taken = [first for first, _ in spans]
                super().write(collection, documents, removed, states)
            except BaseException:
                self._release(spans)
                raise
            if documents and not self._bulky:
                self._neighbours.settle()

    def delete_collection(self, name: str) -> None:
        """Forget it and its documents, here and there."""
        with self._turn:
            super().delete_collection(name)
            self._forget_leftovers(GRACE_SECONDS)

    def inventory(self) -> Inventory:
        """A passage's vector counts as there only if the engine has it too."""
        with self.snapshot():
            held = super().inventory()
            passages = self._passage_keys()
        there = self._neighbours.keys()
        missing = np.setdiff1d(passages, there)
        strangers = np.setdiff1d(there, passages)
        vectors = np.union1d(np.setdiff1d(held.vectors, missing), strangers)
        return Inventory(held.sections, vectors, held.passages, held.words)

    def sweep(self) -> None:
        """Let the engine hold what the file holds: nothing that no document owns, and all that one does."""
        with self._turn:
            super().sweep()
            there = self._neighbours.keys()
            passages = self._passage_keys()
            strangers = np.setdiff1d(there, passages)
            self._neighbours.remove([(int(key), int(key) + 1) for key in strangers])
            self._database.rows("DELETE FROM leftovers")
            self._add_again(np.setdiff1d(passages, there))
            self._neighbours.settle(now=True)

    def vacuum(self) -> None:
        """The file and the engine."""
        with self._turn:
            self._forget_leftovers(GRACE_SECONDS)
            super().vacuum()
            self._neighbours.vacuum()

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """The engine is put in order at the end."""
        self._bulky = True
        try:
            yield
        finally:
            self._bulky = False
        self._neighbours.settle(now=True)

    def size_on_disk(self) -> int:
        """Both."""
        return super().size_on_disk() + self._neighbours.size_on_disk()

    def close(self) -> None:
        """Both."""
        self._neighbours.close()
        super().close()

    def _candidates(self, vector: Vectors, count: int, where: Where) -> NDArray[np.int64]:
        """Ask the engine, and keep what a document owns and the restriction lets through."""
        table = self._passages.table()
        allowed = self._passages.allowed(table, where)
        usable = table.alive if allowed is None else table.alive & allowed
        if allowed is not None and np.count_nonzero(usable) <= BRUTE_FORCE_UP_TO:
            return np.asarray(table.keys[usable])
        collections = self._passages.collections(table, where)
        while True:
            found = np.array(self._neighbours.nearest(vector, count, collections, where), np.int64)
            places, present = table.positions(found)
            keys: NDArray[np.int64] = found[present][usable[places[present]]]
            if len(keys) * WIDEN_FACTOR >= count or len(found) < count:
                return keys
            count *= WIDEN_FACTOR

    def _take_keys(self, count: int) -> int:
        """One of those that were reserved; its vectors are wanted from now on."""
        first = self._taken.pop(0)
        self._database.rows("DELETE FROM leftovers WHERE first = ? AND past = ?", (first, first + count))
        return first

    def _drop_document(self, file_id: int) -> None:
        span = self._database.row(
            "SELECT first_section, first_section + section_count FROM documents WHERE id = ?", (file_id,)
        )
        if span is not None:
            self._database.rows("INSERT INTO leftovers VALUES (?, ?, ?)", (*span, time.time() + GRACE_SECONDS))
        super()._drop_document(file_id)

    def _reserve(self, documents: Sequence[IndexedDocument]) -> list[Span]:
        """Take keys that no other write will take, and note that nobody owns them yet."""
        if not documents:
            return []
        with self._database.writing():
            first = self._last_key() + 1
            spans = []
            for indexed in documents:
                spans.append((first, first + len(indexed.sections)))
                first += len(indexed.sections)
            # SQLite's own note of the last key that was given; it has none before the first section.
            self._database.rows("DELETE FROM sqlite_sequence WHERE name = 'sections'")
            self._database.rows("INSERT INTO sqlite_sequence (name, seq) VALUES ('sections', ?)", (first - 1,))
            abandoned = time.time() + ABANDONED_SECONDS
            self._database.insert("INSERT INTO leftovers VALUES (?, ?, ?)", [(*span, abandoned) for span in spans])
        return spans

    def _hand_over(self, collection: int, documents: Sequence[IndexedDocument], spans: Sequence[Span]) -> None:
        by_dimension: dict[int, list[Passage]] = {}
        for indexed, (first, _) in zip(documents, spans, strict=True):
            by_dimension.setdefault(indexed.vectors.shape[1], []).extend(
                Passage(
                    first + order,
                    collection,
                    indexed.document.path,
                    indexed.sections[order],
                    indexed.vectors[order],
                    keywords,
                )
                for order, keywords in sorted(indexed.keywords.items())
            )
        for passages in by_dimension.values():
            if passages:
                self._neighbours.add(passages)

    def _release(self, spans: Sequence[Span]) -> None:
        """A write came to nothing: what the engine has of it may go at once."""
        with self._database.writing():
            self._database.insert("UPDATE leftovers SET due_at = 0 WHERE first = ? AND past = ?", list(spans))

    def _forget_leftovers(self, early: float = 0.0) -> None:
        """Have the engine forget what no document owns any more, so many seconds before it is due."""
        rows = self._database.rows("SELECT rowid, first, past FROM leftovers WHERE due_at <= ?", (time.time() + early,))
        if rows and not self.read_only:
            self._neighbours.remove([(first, past) for _, first, past in rows])
            with self._database.writing():
                self._database.insert("DELETE FROM leftovers WHERE rowid = ?", [(number,) for number, _, _ in rows])

    def _passage_keys(self) -> NDArray[np.int64]:
        table = self._passages.table()
        return np.asarray(table.keys[table.alive])

    def _add_again(self, keys: NDArray[np.int64]) -> None:
        """Hand passages that the engine has lost to it once more, from the file, a document at a time."""
        for collection in self.collections():
            number = self._existing_collection(collection.name)
            for path in self.states(collection.name):
                sections = self.sections(collection.name, path)
                lost = [each for each in sections if each.section.is_passage and each.key in keys]
                if not lost:
                    continue
                raw = self._database.rows("SELECT length(vector) / 2 FROM vectors WHERE section_id = ?", (lost[0].key,))
                if not raw:
                    continue
                vectors = self.vectors([each.key for each in lost], raw[0][0])
                document = self.document(collection.name, path)
                self._neighbours.add(
                    [
                        Passage(each.key, number, path, each.section, row, _keywords(document, each.section))
                        for each, row in zip(lost, vectors, strict=True)
                    ]
                )


def _keywords(document: Document | None, passage: Section) -> Keywords:
    """The words of a passage, made again from its document."""
    if document is None:
        return Keywords("", "", "", "")
    return extract_keywords(passage_fields(document, passage))


def folders_of(path: str) -> list[str]:
    """The path and every folder around it: what a filter by beginning of path may name."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
