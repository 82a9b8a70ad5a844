"""What changed since it was indexed? Compares a collection with the disk, and queues what differs."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from annai.collection import NAMED, check_owner, nested_sources
from annai.config import Config
from annai.errors import CollectionError
from annai.files.scanner import Scan, is_same_time, scan
from annai.files.walk import OnFolder, ignore
from annai.indexing.deletions import Doubt, doubt_scan, doubt_source, is_certain, keep_documents, record_origin
from annai.indexing.pace import KEEPS_CHANGING, Pace
from annai.indexing.pipeline import Pipeline
from annai.indexing.preparation import BATCH_FILES
from annai.indexing.probe import KILLED_TWICE
from annai.indexing.recipe import mark_as_changed, record_settings
from annai.project import Confirm
from annai.stores.base import PROCESS_ENDED, Store
from annai.timer import timer, timestamp
from annai.types import Change, ChangeKind, Collection, FileState, LeftOut

logger = logging.getLogger(__name__)

MAX_UNCONFIRMED_FILES = 5_000
"""A first index of more files than this must be confirmed."""


class Requested(NamedTuple):
    """What became of a comparison with the disk."""

    ids: list[int]
    """Of the requests that were queued, or waited already."""
    paths: Sequence[str]
    """What they are about."""
    unchanged: int
    """How many files did not change."""
    deleted: int = 0
    """How many were removed at once, since that was allowed."""
    left_out: tuple[LeftOut, ...] = ()
    """The files that are not read, if they were to be counted."""


def scan_collection(
    store: Store,
    config: Config,
    collection: Collection,
    known: Mapping[str, FileState],
    only: Sequence[str] | None = None,
    *,
    count_left_out: bool = False,
    on_folder: OnFolder = ignore,
) -> Scan:
    """Compare a collection, or only these paths, with the disk; what lies in another's folder is not the root's too."""
    return scan(
        collection.source,
        config.files,
        known,
        only=only,
        without=nested_sources(store, config, collection.name),
        count_left_out=count_left_out,
        on_folder=on_folder,
    )


class Comparison:
    """Compares collections with the disk, and queues what differs; it knows which files keep changing."""

    def __init__(self, store: Store, config: Config, pipeline: Pipeline) -> None:
        self._store = store
        self._config = config
        self._pipeline = pipeline
        self._pace = Pace()
        self.on_folder: Callable[[str, str, str], None] = lambda *_: None
        """Called with a collection's name and every folder that is compared, before that is listed."""

    def request(
        self,
        collection: Collection,
        only: Sequence[str] | None = None,
        *,
        force: bool = False,
        retry_failed: bool = True,
        at_once: float = math.inf,
        first: bool = False,
        allow_deletions: bool = False,
        adopt: bool = False,
        confirm: Confirm | None = None,
        count_left_out: bool = False,
    ) -> Requested:
        """Compare the collection, or only these paths, with the disk and queue what differs; with `force`, everything.

        With `retry_failed`, files that failed and have not changed since are queued too, except those that kill
        processes. A file of more than `at_once` bytes that keeps changing waits for its turn; what is to be done
        `first` comes before all that waits.

        If so many files are gone that it must be confirmed, the rest is queued and `FilesGone` raised; with
        `allow_deletions`, they are removed here and now, since nobody who claims a request knows what was allowed.
        """
        if not adopt:
            check_owner(self._store, self._config, collection)
        self._pipeline.embedder(collection)  # Without it, what is queued would wait in vain.
        # Nothing is written while the folder may be the wrong one, not even other settings.
        if not allow_deletions and (doubt := self.doubt_source(collection)):
            raise doubt.error
        collection = record_settings(self._store, self._config, collection, adopt=adopt)
        if force:
            mark_as_changed(self._store, collection, only)
        known = self._store.states(collection.name, only)
        with timer("scan"):
            found = scan_collection(
                self._store,
                self._config,
                collection,
                known,
                only,
                count_left_out=count_left_out,
                on_folder=partial(self.on_folder, collection.name),
            )
        if confirm and not known and len(found.changes) > MAX_UNCONFIRMED_FILES:
            self._confirm_first_index(confirm, collection, found)
        gone = {change.path for change in found.changes if change.kind is ChangeKind.DELETED}
        doubt = None if allow_deletions else self._doubt(collection, found, known if only is None else None)
        if doubt and doubt.is_source:
            raise doubt.error
        removed = gone if allow_deletions or collection.origin == NAMED else set[str]()
        self._remove(collection, sorted(removed))
        passed_over = gone if doubt else removed
        paths = [
            change.path
            for change in found.changes
            if change.path not in passed_over and should_try(change, known, retry_failed)
        ]
        _log_counts(collection, found)
        if doubt:
            keep_documents(self._store, collection, [known[path] for path in sorted(gone)])
        elif (only is None or not collection.origin) and (known or found.changes):
            collection = record_origin(self._store, self._config, collection, adopt=adopt)
        if not paths and not collection.imported_at:
            self._store.save_collection(replace(collection, imported_at=timestamp()))
        sizes = {change.path: change.size for change in found.changes}
        waits = {path for path in paths if sizes[path] > at_once}
        numbers = self._queue(collection.name, paths, waits, first) if paths else []
        if doubt:
            raise doubt.error
        return Requested(numbers, paths, found.unchanged, len(removed), found.left_out)

    def doubt_source(self, collection: Collection) -> Doubt | None:
        """Why the folder may not be the one that was indexed; if nothing is gone from it, it is."""
        if is_certain(self._store, self._config, collection):
            return None
        doubt = doubt_source(collection, lambda: self._store.statistics(collection.name).documents)
        if doubt is None:
            return None
        found = scan_collection(self._store, self._config, collection, self._store.states(collection.name))
        return doubt if any(change.kind is ChangeKind.DELETED for change in found.changes) else None

    def note_indexed(self, collection: str, paths: Iterable[str]) -> None:
        """These files are being indexed now: one that changes again soon may have to wait."""
        self._pace.note(collection, paths)

    def paused(self, collection: str) -> list[str]:
        """The files of a collection that keep changing, and wait for their turn."""
        return self._pace.paused(collection)

    def queue_again(self, collection: str, path: str) -> None:
        """Queue a file that changed while it was being indexed."""
        pause = self._pace.pause(collection, path, changed_meanwhile=True)
        self._store.requests.add(collection, [path], pause=pause, error=KEEPS_CHANGING)

    def _doubt(self, collection: Collection, found: Scan, known: Mapping[str, FileState] | None) -> Doubt | None:
        return doubt_scan(self._store, self._config, collection, found, known)

    def _remove(self, collection: Collection, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), BATCH_FILES):
            self._store.write(collection.name, removed=paths[start : start + BATCH_FILES])

    def _confirm_first_index(self, confirm: Confirm, collection: Collection, found: Scan) -> None:
        """Stop unless the user agrees to a first index that takes as long as a sample lets expect."""
        if not confirm(len(found.changes), self._pipeline.estimate_seconds(collection, found)):
            raise CollectionError(
                f"{collection.source} was not indexed, because it has {len(found.changes):,} files",
                "`--yes` indexes them all, and [files] in annai.toml excludes some.",
            )

    def _queue(self, collection: str, paths: Sequence[str], patient: Container[str], first: bool) -> list[int]:
        """Queue the paths and return the requests' ids; a pending one that was not tried yet is kept, unless `first`.

        One whose process died is kept in any case: it may be the file's fault. The `patient` wait for their turn if
        they keep changing.
        """
        waiting = {
            request.path: request.id
            for request in self._store.requests.pending(collection, paths)
            if request.error == PROCESS_ENDED
            or not (first or request.attempts or (request.error and request.path not in patient))
        }
        numbers = [waiting[path] for path in paths if path in waiting]
        new = [path for path in paths if path not in waiting]
        for path in new:
            self._pace.release(collection, path)
        pauses = {path: self._pace.pause(collection, path) if path in patient else 0.0 for path in new}
        numbers += self._store.requests.add(collection, [path for path in new if not pauses[path]], first=first)
        for path in new:
            if pauses[path]:
                numbers += self._store.requests.add(collection, [path], pause=pauses[path], error=KEEPS_CHANGING)
        return numbers


def should_try(change: Change, known: Mapping[str, FileState], retry_failed: bool) -> bool:
    """Whether to queue a change: not if it failed before and has not changed since, unless that is to be retried."""
    state = known.get(change.path)
    if change.kind is not ChangeKind.UPDATED or state is None or state.problem is None:
        return True
    if change.size != state.size or not is_same_time(change.mtime_ns, change.ctime_ns, state):
        return True
    return retry_failed and state.problem.reason != KILLED_TWICE


def _log_counts(collection: Collection, found: Scan) -> None:
    kinds = Counter(str(change.kind) for change in found.changes)
    counts = ", ".join(f"{kind}={kinds[kind]}" for kind in ChangeKind)
    files = len(found.changes) - kinds[ChangeKind.DELETED] + found.unchanged
    logger.debug("[index] %s: %d files (%s, unchanged=%d)", collection.name, files, counts, found.unchanged)
