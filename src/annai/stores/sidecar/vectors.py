"""How does an engine that only finds neighbours serve an index? Beside an SQLite file, which is the truth.

Documents, sections, vectors, words and the queue are in the file; the engine holds a copy of each passage's vector,
under a key that is never used twice. Whatever the engine answers is compared with the file, and scored with the file's
vectors. So a write has three steps, and may be cut off after any of them:

1. Keys are reserved, and the new vectors go to the engine. No document owns them: no search returns them.
2. One transaction of the file writes the documents. From then on the new keys are known, and the old ones are not.
3. With a later write, when no search can have begun before it, the engine forgets what no document owns.

What the engine must forget is noted in the file (`leftovers`) before it can be wrong. The engine may be used by other
projects too: `claims` tells which of its collections are this index's own.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from annai.answers import Where
from annai.config import Config
from annai.errors import StoreError
from annai.stores.base import IndexedDocument, Store, Vectors
from annai.stores.sidecar.claims import Claims
from annai.stores.sidecar.leftovers import Leftovers
from annai.stores.sidecar.neighbours import Neighbours, Passage
from annai.stores.sqlite.postings import Postings
from annai.stores.sqlite.search_index import IndexFile, Keys, Span, TakeKeys, VectorIndex, WordIndex
from annai.stores.sqlite.store import SqliteStore
from annai.text.fields import passage_fields
from annai.text.keywords import extract_keywords

logger = logging.getLogger(__name__)

BRUTE_FORCE_UP_TO = 2_000
"""If a restriction lets no more passages through than this, they are compared one by one, without the engine."""

WIDEN_FACTOR = 4
"""How many times more candidates to ask for when too many of the engine's answers belong to no document, or not to
those that are searched."""


ADD_BATCH = 2_000
"""Passages that are added to the engine in one call when it lost them."""


def open_beside(
    config: Config, neighbours: Neighbours, make_words: Callable[[IndexFile], WordIndex] = Postings
) -> Store:
    """Open an index file whose neighbours an engine finds; words are found by the file itself, or by `make_words`."""

    def make_indexes(file: IndexFile) -> tuple[SidecarVectors, WordIndex]:
        return SidecarVectors(file, neighbours, config.store.collection_name), make_words(file)

    try:
        return SqliteStore(config.database_path, make_indexes)
    except BaseException:
        neighbours.close()
        raise


class SidecarVectors(VectorIndex):
    """A vector index in an engine beside the file."""

    def __init__(self, file: IndexFile, neighbours: Neighbours, collection_name: str = "") -> None:
        self._file = file
        self._leftovers = Leftovers(file.database, file.documents)
        self._claims = Claims(file.database, neighbours, collection_name)
        self.neighbours = neighbours
        self._lock = threading.RLock()
        self._in_bulk = False
        self.opened()

    @property
    def address(self) -> str:
        """The engine's."""
        return self.neighbours.address

    def opened(self) -> None:
        """Take names in the engine that are this index's own; what is not there yet is copied from the file."""
        with self._lock:
            self._claims.claim()
            is_lost = not self.neighbours.own_names() and len(self._file.passages.keys())
            if self._file.read_only or (self._claims.is_complete() and not is_lost):
                return
            with self._file.database.writing():
                # Nobody else can reserve keys, or own those that were reserved, until this transaction ends.
                self._remove_orphans(self._leftovers.reserved())
                copied = self._add_missing()
                self._claims.complete()
        if copied:
            logger.warning("copied %d vectors of this index to %s", copied, self.address)

    def candidates(self, vector: Vectors, count: int, where: Where) -> Keys:
        """Ask the engine, and keep what a document owns and the restriction lets through."""
        passages = self._file.passages
        table = passages.table()
        allowed = passages.allowed(table, where)
        usable = table.alive if allowed is None else table.alive & allowed
        if allowed is not None and np.count_nonzero(usable) <= BRUTE_FORCE_UP_TO:
            return np.asarray(table.keys[usable])
        collections = passages.collections(table, where)
        enough = count // WIDEN_FACTOR
        while True:
            nearest = np.array(self.neighbours.nearest(vector, count, collections, where), np.int64)
            positions, present = table.positions(nearest)
            keys: Keys = nearest[present][usable[positions[present]]]
            # Not a share of what was asked for last: a restriction that few pass would have the engine return all.
            if len(keys) >= enough or len(nearest) < count:
                return keys
            count *= WIDEN_FACTOR

    @contextmanager
    def adding(self, collection: str, documents: Sequence[IndexedDocument], /) -> Iterator[TakeKeys]:
        """First the engine, then the file."""
        with self._lock:
            number = self._file.collections.existing(collection)
            self._forget_leftovers()
            spans = self._leftovers.reserve([len(each.sections) for each in documents])
            try:
                self._hand_over(number, documents, spans)
                reserved = iter(spans)

                def take_keys(_count: int) -> int:
                    span = next(reserved)
                    self._leftovers.adopt(span)
                    return span[0]

                yield take_keys
            except BaseException:
                # Where this fails too, they are due when the time of every write has passed.
                with suppress(StoreError):
                    self._leftovers.release(spans)
                raise
            if documents and not self._in_bulk:
                self.neighbours.optimize()

    def pack(self, _vectors: Vectors, /) -> bytes:
        """Nothing: the engine finds them."""
        return b""

    def drop(self, span: Span) -> None:
        """The engine forgets them later."""
        self._leftovers.abandon(span)

    def present(self, keys: Keys) -> Keys:
        """A passage's vector is there only if the engine has it too."""
        passages = self._file.passages.keys()
        held = self.neighbours.keys()
        missing, orphans = np.setdiff1d(passages, held), np.setdiff1d(held, passages)
        return np.union1d(np.setdiff1d(keys, missing), orphans)

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """The engine is put in order at the end."""
        self._in_bulk = True
        try:
            yield
        finally:
            self._in_bulk = False
        self.neighbours.optimize(now=True)

    def purge(self) -> None:
        """The engine forgets what was deleted, though a search may still be reading it."""
        with self._lock:
            self._forget_leftovers(early=True)

    def sweep(self) -> None:
        """Let the engine hold what the file holds: nothing that no document owns, and all that one does."""
        with self._lock:
            self._remove_orphans()
            self._leftovers.clear_all()
            self._add_missing()

    def vacuum(self) -> None:
        """The engine's own."""
        with self._lock:
            self._forget_leftovers(early=True)
            self.neighbours.vacuum()

    def apply_settings(self) -> None:
        """The engine's own."""
        with self._lock:
            if not self._file.read_only:
                self.neighbours.apply_settings()

    def size_on_disk(self) -> int:
        """The engine's."""
        return self.neighbours.size_on_disk()

    def close(self) -> None:
        """Close the engine."""
        self.neighbours.close()

    def _hand_over(self, collection: int, documents: Sequence[IndexedDocument], spans: Sequence[Span]) -> None:
        """Add the passages of new documents to the engine."""
        by_dimension: dict[int, list[Passage]] = {}
        for indexed, (first, _) in zip(documents, spans, strict=True):
            path = indexed.document.path
            by_dimension.setdefault(indexed.vectors.shape[1], []).extend(
                Passage(first + order, collection, path, indexed.sections[order], indexed.vectors[order], keywords)
                for order, keywords in sorted(indexed.keywords.items())
            )
        for passages in by_dimension.values():
            if passages:
                self.neighbours.add(passages)

    def _forget_leftovers(self, *, early: bool = False) -> None:
        """Have the engine forget what no document owns any more; with `early`, without the time of grace."""
        due = self._leftovers.due(early=early)
        if due and not self._file.read_only:
            self.neighbours.remove([*due.values()])
            self._leftovers.clear([*due])

    def _remove_orphans(self, reserved: Sequence[Span] = ()) -> None:
        """Let the engine forget what no document owns, except for reserved keys."""
        orphans = np.setdiff1d(self.neighbours.keys(), self._file.passages.keys())
        for first, past in reserved:
            orphans = orphans[(orphans < first) | (orphans >= past)]
        if len(orphans):
            self.neighbours.remove([(int(key), int(key) + 1) for key in orphans])

    def _add_missing(self) -> int:
        """Copy to the engine what the file holds and it does not; returns how many passages these were."""
        missing = np.setdiff1d(self._file.passages.keys(), self.neighbours.keys())
        batches: dict[int, list[Passage]] = {}
        for passage in self._read_passages(missing):
            batch = batches.setdefault(len(passage.vector), [])
            batch.append(passage)
            if len(batch) >= ADD_BATCH:
                self.neighbours.add(batch)
                batch.clear()
        for batch in filter(None, batches.values()):
            self.neighbours.add(batch)
        self.neighbours.optimize(now=True)
        return len(missing)

    def _read_passages(self, keys: Keys) -> Iterator[Passage]:
        """Passages as the file holds them, a document at a time."""
        lost, file = {*keys.tolist()}, self._file
        for collection in file.collections.read() if lost else ():
            number = file.collections.existing(collection.name)
            for path in file.collections.states(collection.name):
                sections = [each for each in file.documents.sections(collection.name, path) if each.key in lost]
                document = file.documents.document(collection.name, path) if sections else None
                dimension = file.documents.vector_length(sections[0].key) if sections else 0
                if document is None or not dimension:
                    continue
                vectors = file.documents.vectors([each.key for each in sections], dimension)
                keywords = [extract_keywords(passage_fields(document, each.section)) for each in sections]
                for each, vector, words in zip(sections, vectors, keywords, strict=True):
                    yield Passage(each.key, number, path, each.section, vector, words)
