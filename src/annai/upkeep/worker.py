"""Who keeps an index fresh? A thread that watches the files, compares them with the index and processes the queue."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from annai import collection as collections
from annai.engine import Engine
from annai.engine.engine import Caught
from annai.errors import AnnaiError, CollectionError
from annai.files.watcher import Watcher, make_watcher
from annai.upkeep import memory
from annai.upkeep.process import IndexingProcess

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How often to check whether another process queued something or changed a collection."""

RESCAN_SECONDS, RESCAN_TIME_SHARE = 60.0, 0.005
"""Everything is compared with the disk this often, to find what the watcher missed; less often where that takes long,
so that it never costs more than this share of the time."""

UNWATCHED_RESCAN_SECONDS = 3.0
"""The shortest pause between two comparisons where files cannot be watched."""

BURST_PATHS = 500
"""After this many changes at once everything is compared: a system drops events when too many come."""

OFFLOAD_FROM_FILES = 100
"""From this many files due at once, another process indexes them: it takes a third of a second to start."""

OFFLOAD_RETRY_SECONDS = 60.0
"""How long this process indexes by itself after the other one ended with an error."""

ERROR_PAUSE_SECONDS = 5.0
"""The pause after an error that is not about a document: a full disk, an embedder that is down."""

SWITCH_SECONDS = 0.0005
"""A search waits no longer than this for the interpreter while the worker computes. Python's default is ten times as
long, and a search waits a dozen times."""

TAKE_OVER_SECONDS = 2.0
"""How often to check whether the process that holds the keeper's lock has ended."""

WATCH_START_SECONDS = 2.0
"""How long the system may take to start watching."""

MENDING_SECONDS = 60.0
"""How often an engine beside the index that fails or lost its data is given it again."""

CHANGE_RETRY_SECONDS = 60.0
"""How often making vectors with another model is tried again after it failed."""

STORE, MODELS = ":store", ":models"
"""Under what the last errors of those are remembered: no names of collections."""


class Worker:
    """Keeps a project's index fresh while this process lives.

    Of several processes only the one with the keeper's lock does this; when it ends, another takes over. It holds the
    index lock only while it indexes, so that an import by hand can run in between.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="annai-worker", daemon=True)
        self._watcher: Watcher | None = None
        self._changed: dict[str, set[str]] = {}
        self._changed_lock = threading.Lock()
        self._noticing = threading.RLock()
        """Held while what was reported is being queued, so that a question finds it reported, or queued."""
        self._followed: set[str] = set()
        """Collections that were compared as a whole since their folders are watched."""
        self._is_settled = threading.Event()
        """Set once it is known whether this process watches the files."""
        self._losses = 0
        """How often something that was reported could not be queued, or watching began anew."""
        self._watched: dict[str, Path] = {}
        self._folders: dict[Path, tuple[int, int] | None] = {}
        """Which folders are watched, by device and inode: one that was deleted and made again is another."""
        self._next_scan = 0.0
        self._is_reconciled = False
        """Whether everything was compared with the disk since the watcher started, or since a burst."""
        self._next_mending = 0.0
        self._errors: dict[str, str] = {}
        """The last error of each collection, and under "" that of indexing: one that comes again is logged once."""
        # Other embedders than additive ones compute outside of the interpreter, and would be in memory twice.
        self._can_offload = bool(sys.executable) and engine.embedder.is_additive
        self._next_offload = 0.0
        self._next_change = 0.0
        self._started_with: dict[str, str] = {}
        """The model of each collection when this process started. One that was changed since was so by newer settings
        than this process has, and stays."""

    def start(self) -> None:
        """Start the thread, and return at once."""
        sys.setswitchinterval(SWITCH_SECONDS)
        memory.share_one_heap()
        if self._engine.read_only:
            return  # As on a read replica: others keep it fresh.
        self._engine.wake = self._wake.set
        self._engine.follow(self.catch_up, self._follow)
        self._started_with = {each.name: each.embedder for each in self._engine.store.collections()}
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it does its work; of an index that can only be read, others keep the files fresh."""
        return self._engine.read_only or self._thread.is_alive()

    def catch_up(self) -> Caught:
        """Queue what changed before this call; return of which collections this is certainly all, and the requests."""
        self._is_settled.wait(WATCH_START_SECONDS)
        with self._noticing:
            watcher, files = self._watcher, self._engine.config.files
            # What a link to a file leads to may change where nobody watches.
            if watcher is None or files.follow_symlinks or files.linked_folders:
                return {}, ()
            certain = {*watcher.report()}
            queued = self._queue_reported(asked=True)
            self._follow_all(certain - self._followed)
            sources = {name: watcher.sources[name] for name in certain & self._followed}
        same = {name: source for name, source in sources.items() if _identify(source) == self._folders.get(source)}
        return same, queued

    def _follow(self, name: str, path: str, folder: str) -> None:
        if watcher := self._watcher:
            watcher.follow(name, path, folder)

    def finish(self) -> None:
        """Start to end: finish the current documents, without waiting for that."""
        self._stop.set()
        self._wake.set()

    def stop(self) -> None:
        """Finish the current documents and end."""
        self.finish()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        keeper = self._engine.keeper
        while not self._stop.is_set():
            if not keeper.acquire():
                self._is_settled.set()
                self._pause(TAKE_OVER_SECONDS)
                continue
            try:
                while not self._stop.is_set():
                    if not self._succeeds("", self._keep_fresh):
                        self._engine.worker_problem = self._errors.get("", "")
                        self._is_settled.set()
                        self._pause(ERROR_PAUSE_SECONDS)
            finally:
                self._unwatch()
                keeper.release()

    def _keep_fresh(self) -> None:
        to_change = self._models_to_change()
        self._engine.is_changing_models = bool(to_change)
        if self._should_offload() or (to_change and self._may_offload()):
            self._index_in_process(to_change)
        else:
            self._index_here(to_change)

    def _models_to_change(self) -> list[str]:
        """The collections that wait for the vectors of the model that the settings name."""
        if time.monotonic() < self._next_change:
            return []
        found = self._engine.models_to_change(self._watched)
        return [name for name, embedder in found.items() if self._started_with.get(name) == embedder]

    def _change_models(self, names: Sequence[str]) -> None:
        """Make those vectors here, and meanwhile go on queuing changes."""

        def queue() -> None:
            self._watch()
            self._queue_changes()

        self._engine.change_models(names, stop=self._stop.is_set, between=queue)

    def _may_offload(self) -> bool:
        return self._can_offload and time.monotonic() >= self._next_offload

    def _should_offload(self) -> bool:
        """Whether so many files are due that indexing them here would slow down searches."""
        if not self._may_offload():
            return False
        here = collections.here(self._engine.store, self._engine.config)
        return self._engine.store.requests.due(here) >= OFFLOAD_FROM_FILES

    def _index_in_process(self, to_change: Sequence[str]) -> None:
        """Let another process work through the queue, and meanwhile go on queuing changes."""
        process = IndexingProcess(self._engine.config, to_change)
        try:
            while process.is_running and not self._stop.is_set():
                self._wake.clear()
                self._watch()
                self._queue_changes()
                self._pause(POLL_SECONDS / 5)
        finally:
            process.stop()
        if process.was_killed and not self._stop.is_set():
            # Not here: the next one finds out which file was to blame.
            logger.warning("the indexing process was killed, perhaps for lack of memory; another one continues")
            self._pause(ERROR_PAUSE_SECONDS)
        elif process.failed and not self._stop.is_set():
            logger.warning(
                "the indexing process ended with an error; this process indexes for the next %.0f seconds",
                OFFLOAD_RETRY_SECONDS,
            )
            self._next_offload = time.monotonic() + OFFLOAD_RETRY_SECONDS

    def _index_here(self, to_change: Sequence[str]) -> None:
        """Queue what changed, index what is due, and wait for more."""
        self._wake.clear()
        self._watch()
        self._queue_changes()
        if self._should_offload():
            return
        if self._engine.process_queue(timeout=0.0, stop=lambda: self._stop.is_set() or bool(self._changed)):
            self._engine.worker_problem = self._errors[""] = ""
        if to_change and not self._succeeds(MODELS, partial(self._change_models, to_change)):
            self._next_change = time.monotonic() + CHANGE_RETRY_SECONDS
        if self._engine.store.problem and time.monotonic() >= self._next_mending:
            self._succeeds(STORE, self._engine.mend_store)
            self._next_mending = time.monotonic() + MENDING_SECONDS
        if not self._changed:
            due_in = self._engine.store.requests.due_in(collections.here(self._engine.store, self._engine.config))
            self._pause(POLL_SECONDS if due_in is None else min(max(due_in, POLL_SECONDS / 10), POLL_SECONDS))

    def _succeeds(self, name: str, work: Callable[[], object]) -> bool:
        """Do something for a collection, or for all of them, and return whether it went well; an error is logged."""
        try:
            work()
        except AnnaiError as error:
            if str(error) != self._errors.get(name):
                logger.error("%s", error)
            self._errors[name] = str(error)
        except Exception:
            logger.exception("the worker had an unexpected error; it continues")
        else:
            if name:
                self._errors.pop(name, None)
            return True
        return False

    def _queue(
        self, name: str, paths: Sequence[str] | None, *, retry_failed: bool = True, asked: bool = False
    ) -> list[int] | None:
        """Queue what changed in a collection; where that fails, it is None, and the others are queued all the same."""
        queued: list[int] = []
        queue = partial(self._engine.queue_changes, name, paths, retry_failed=retry_failed, asked=asked)
        return queued if self._succeeds(name, lambda: queued.extend(queue())) else None

    def _watch(self) -> None:
        """Watch the sources of the collections as they are now."""
        sources = self._sources()
        folders = {source: _identify(source) for source in sources.values()}
        if self._watcher is not None and self._watcher.sources == sources and folders == self._folders:
            return
        self._unwatch()
        self._folders = folders
        if self._engine.config.watcher.enabled and sources:
            self._watcher = make_watcher(sources, self._engine.config.watcher.debounce_ms, self._on_changes)
            self._watcher.start()
        elif self._watched == sources:
            return  # They are compared regularly.
        self._watched = sources
        self._next_scan, self._is_reconciled = 0.0, False
        self._is_settled.set()

    def _unwatch(self) -> None:
        with self._noticing:
            watcher, self._watcher = self._watcher, None
            self._followed.clear()
            self._losses += 1
        if watcher is not None:
            watcher.stop()

    def _sources(self) -> dict[str, Path]:
        engine = self._engine
        try:
            searched = collections.searchable(engine.store, engine.config)
            return {
                each.name: each.source for each in searched if collections.is_here(engine.store, engine.config, each)
            }
        except CollectionError:
            return {}  # Every collection is disabled: there is nothing to keep fresh.

    def _on_changes(self, changed: dict[str, set[str]]) -> None:
        """Remember what the watcher reports; called in the watcher's thread."""
        with self._changed_lock:
            for name, paths in changed.items():
                self._changed.setdefault(name, set()).update(paths)
        self._wake.set()

    def _queue_changes(self) -> None:
        """Queue what changed: what the watcher reported and, from time to time, all that differs from the disk."""
        with self._noticing:
            self._queue_reported()
        now = time.monotonic()
        if now < self._next_scan:
            return
        self._follow_all(self._watched)
        took = time.monotonic() - now
        is_blind = self._watcher is None or self._watcher.has_failed
        pause = max(UNWATCHED_RESCAN_SECONDS if is_blind else RESCAN_SECONDS, took / RESCAN_TIME_SHARE)
        # A second comparison finds what changed between this one and the moment when watching really started.
        self._next_scan = time.monotonic() + (pause if self._is_reconciled else WATCH_START_SECONDS + took)
        self._is_reconciled = True
        memory.give_back()

    def _follow_all(self, names: Iterable[str]) -> None:
        """Compare collections as a whole: from now on what changes in them is reported."""
        losses = self._losses
        compared = {name for name in names if self._queue(name, None, retry_failed=not self._is_reconciled) is not None}
        with self._noticing:
            if losses == self._losses:
                self._followed |= compared

    def _queue_reported(self, *, asked: bool = False) -> list[int]:
        """Queue what the watcher reported, within `_noticing`."""
        numbers: list[int] = []
        with self._changed_lock:
            changed, self._changed = self._changed, {}
        if sum(map(len, changed.values())) >= BURST_PATHS:
            changed, self._next_scan, self._is_reconciled = {name: {""} for name in changed}, 0.0, False
        for name, paths in changed.items():
            if name not in self._watched:
                continue
            if (queued := self._queue(name, None if "" in paths else sorted(paths), asked=asked)) is not None:
                numbers += queued
            else:
                # What was noticed of it is found again by comparing.
                self._next_scan = min(self._next_scan, time.monotonic() + ERROR_PAUSE_SECONDS)
                self._followed.discard(name)
                self._losses += 1
        return numbers

    def _pause(self, seconds: float) -> None:
        if not self._stop.is_set():
            self._wake.wait(seconds)


def _identify(folder: Path) -> tuple[int, int] | None:
    """Which folder is there, whatever its name; None if there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
