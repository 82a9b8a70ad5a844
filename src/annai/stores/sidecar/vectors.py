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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np

from annai.answers import Where
from annai.config import Config
from annai.errors import IndexBusy, StoreError, StoreFull
from annai.stores.base import IndexedDocument, Store, Vectors
from annai.stores.scores import cosines
from annai.stores.sidecar.claims import Claims
from annai.stores.sidecar.copying import Copying, outside
from annai.stores.sidecar.health import Health
from annai.stores.sidecar.leftovers import Leftovers
from annai.stores.sidecar.neighbours import Neighbours, Passage
from annai.stores.sqlite.database import make_index_file
from annai.stores.sqlite.search_index import IndexFile, Keys, Span, TakeKeys, VectorIndex
from annai.stores.sqlite.store import SqliteStore

logger = logging.getLogger(__name__)

BRUTE_FORCE_UP_TO = 2_000
"""If a restriction lets no more passages through than this, they are compared one by one, without the engine."""

WIDEN_FACTOR = 4
"""How many times more candidates to ask for when too many of the engine's answers belong to no document, or not to
those that are searched."""

REFILL_AT_ONCE = 2_000
"""If the engine lost no more passages than this, they are copied when the index is opened, in a few seconds."""

SCAN_BATCH = 20_000
"""Vectors of the file that are compared at once where the engine cannot be asked: it bounds memory."""


def open_beside(config: Config, neighbours: Neighbours) -> Store:
    """Open an index file whose neighbours an engine finds."""

    def make_vectors(file: IndexFile) -> SidecarVectors:
        return SidecarVectors(file, neighbours, config.store.collection_name)

    make_file = partial(make_index_file, config)
    try:
        make_file()
        return SqliteStore(config.database_path, make_vectors, make_file)
    except BaseException:
        neighbours.close()
        raise


class SidecarVectors(VectorIndex):
    """A vector index in an engine beside the file. While the engine fails, or lost passages, the file answers."""

    def __init__(self, file: IndexFile, neighbours: Neighbours, collection_name: str = "") -> None:
        self._file = file
        self._leftovers = Leftovers(file.database, file.documents)
        self._claims = Claims(file.database, neighbours, collection_name)
        self.neighbours = neighbours
        self.copying = Copying(file, neighbours)
        self._is_claimed = False
        self._lock = threading.RLock()
        self.health = Health(file, neighbours, self._reach, self._lock)
        self._in_bulk = False
        self.opened()

    @property
    def address(self) -> str:
        """The engine's."""
        return self.neighbours.address

    @property
    def problem(self) -> str:
        """Why the file answers in place of the engine, as a sentence; empty if it does not."""
        return self.health.problem

    def opened(self) -> None:
        """Take names in the engine that are this index's own; what is not there yet is copied from the file.

        If that cannot be done, or would take long, the file answers until it is.
        """
        with self._lock:
            self.health.problem, self._is_claimed = "", False
            try:
                self.neighbours.open()
            except StoreError as error:
                self.health.fail(error)
                return
            self._claim()
            is_complete = self._claims.is_complete()
            missing = self.health.compare() if is_complete else 0
            if self._file.read_only or (is_complete and not 0 < missing <= REFILL_AT_ONCE):
                return
            try:
                copied = self._copy_all()
            except StoreError as error:
                self.health.fail(error)
                return
        if copied:
            logger.warning("copied %d vectors of this index to %s", copied, self.address)

    def _copy_all(self) -> int:
        """Copy what the engine lacks; returns how many passages that were."""
        with self._file.database.writing():
            # Nobody else can reserve keys, or own those that were reserved, until this transaction ends.
            self.copying.remove_orphans(self._leftovers.reserved())
            copied = self.copying.add_missing()
            self._claims.complete()
        self.health.problem = ""
        return copied

    def _reach(self) -> None:
        """Open the engine, where that failed before."""
        self.neighbours.open()
        self._claim()

    def _claim(self) -> None:
        """Give the engine the names of this index, once."""
        if not self._is_claimed:
            self._claims.claim()
            self._is_claimed = True

    def candidates(self, vector: Vectors, count: int, where: Where) -> Keys:
        """Ask the engine, and keep what a document owns and the restriction lets through."""
        passages = self._file.passages
        table = passages.table()
        allowed = passages.allowed(table, where)
        usable = table.alive if allowed is None else table.alive & allowed
        there = int(np.count_nonzero(usable))
        if allowed is not None and there <= BRUTE_FORCE_UP_TO:
            return np.asarray(table.keys[usable])
        collections = passages.collections(table, where)
        enough, wanted = count // WIDEN_FACTOR, count
        while self.health.is_usable():
            try:
                nearest = np.array(self.neighbours.nearest(vector, count, collections, where), np.int64)
            except StoreError as error:
                self.health.fail(error)
                break
            if len(nearest) < min(count, there) and self.health.has_lost():
                break
            positions, present = table.positions(nearest)
            keys: Keys = nearest[present][usable[positions[present]]]
            # Not a share of what was asked for last: a restriction that few pass would have the engine return all.
            if len(keys) >= enough or len(nearest) < count:
                return keys
            count *= WIDEN_FACTOR
        return self._scan(np.asarray(table.keys[usable]), vector, wanted)

    def _scan(self, keys: Keys, vector: Vectors, count: int) -> Keys:
        """The keys of the nearest vectors, by the file: exact, in time that grows with their number."""
        best, scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
        for start in range(0, len(keys), SCAN_BATCH):
            part = keys[start : start + SCAN_BATCH]
            found = cosines(self._file.documents.vectors(part.tolist(), len(vector)), vector)
            best, scores = np.append(best, part), np.append(scores, found)
            if len(best) > count:
                chosen = np.argpartition(-scores, count)[:count]
                best, scores = best[chosen], scores[chosen]
        return best

    @contextmanager
    def adding(self, collection: str, documents: Sequence[IndexedDocument], /) -> Iterator[TakeKeys]:
        """First the engine, then the file."""
        with self._lock:
            number = self._file.collections.existing(collection)
            self._claim()
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
        """A passage's vector is there only if the engine has it too; what it is about to forget is no fault."""
        passages = self._file.passages.keys()
        try:
            self._claim()
            self.copying.try_search()
            held = self.neighbours.keys()
        except StoreError as error:
            self.health.fail(error)
            held = np.zeros(0, np.int64)
        missing = np.setdiff1d(passages, held)
        orphans = outside(np.setdiff1d(held, passages), [*self._leftovers.due(early=True).values()])
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
            if self._is_claimed:  # Otherwise it forgets it when it can be reached again.
                self._forget_leftovers(early=True)

    def sweep(self) -> None:
        """Let the engine hold what the file holds: nothing that no document owns, and all that one does.

        What it can no longer read is dropped first: the file has it all.
        """
        with self._lock:
            had_problem = bool(self.health.problem)
            for start_over in (self.neighbours.open, self.neighbours.drop_all, self.neighbours.set_aside):
                try:
                    start_over()
                    self._claim()
                    self.copying.remove_orphans()
                    copied = self.copying.add_missing()
                    self.copying.try_search()
                    break
                except (IndexBusy, StoreFull):
                    raise
                except StoreError:
                    if start_over == self.neighbours.set_aside:
                        raise
            self._leftovers.clear_all()
            self.health.problem = ""
        if had_problem and copied:
            logger.warning("copied %d vectors of this index to %s", copied, self.address)

    def vacuum(self) -> None:
        """The engine's own."""
        with self._lock:
            self._claim()
            self._forget_leftovers(early=True)
            self.neighbours.vacuum()

    def apply_settings(self) -> None:
        """The engine's own; one that lost passages gets them first."""
        with self._lock:
            if not self._file.read_only:
                if self.health.problem:
                    self.sweep()
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
                Passage(first + order, collection, path, indexed.sections[order], indexed.vectors[order])
                for order in sorted(indexed.keywords)
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
