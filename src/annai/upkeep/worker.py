"""Who keeps an index fresh? A thread that lives beside the searches: it watches, reconciles and works off the queue."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from annai import collection as collections
from annai.engine import Engine
from annai.errors import AnnaiError, CollectionError
from annai.files.watcher import Watcher
from annai.upkeep.process import IndexingProcess

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How often to look whether another process queued something or changed a collection."""

RESCAN_SECONDS, RESCAN_SHARE = 60.0, 0.005
"""Everything is compared with the disk this often, to heal what the watcher missed; less often where that takes long,
so that it never costs more than this share of the time."""

UNWATCHED_SECONDS = 3.0
"""The least pause between two comparisons where files cannot be watched."""

BURST_PATHS = 500
"""After so many changes at once everything is compared: a system drops notices when too many come."""

OFFLOAD_FROM_FILES = 100
"""Files due at once from which another process does the work: it takes a third of a second to begin."""

ALONE_SECONDS = 60.0
"""How long this process works by itself after the other one ended with an error."""

ERROR_PAUSE = 5.0
"""Seconds to wait after an error that has nothing to do with a document: a full disk, an embedder that is down."""

SWITCH_SECONDS = 0.0005
"""A search waits no longer than this for the interpreter while the worker computes; Python's own value is ten times
as long, and a search asks a dozen times."""

TAKE_OVER_SECONDS = 2.0
"""How often to look whether the process that has the lock is gone."""

SETTLING_SECONDS = 2.0
"""How long the system may take to begin to watch."""

DAY, PRUNE_SECONDS = 86_400.0, 3_600.0


class Worker:
    """Keeps a project's index fresh while this process lives.

    Of several processes one does, the one that has the keeper's lock; should it end, another takes over. It has the
    index lock only while it indexes, so that an import by hand gets its turn.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="annai-worker", daemon=True)
        self._watcher: Watcher | None = None
        self._changed: dict[str, set[str]] = {}
        self._changed_lock = threading.Lock()
        self._watched: dict[str, Path] = {}
        self._next_scan = 0.0
        self._settled = False
        """Whether everything was compared with the disk since the watcher began, or since a burst."""
        self._next_prune = 0.0
        self._last_error = ""
        """What was told last: a model that is down or a folder that is gone need not be told of every few seconds."""
        self._may_hand_over = bool(sys.executable) and engine.embedder.is_additive
        self._hand_over_from = 0.0

    def start(self) -> None:
        """Begin; it returns at once."""
        sys.setswitchinterval(SWITCH_SECONDS)
        if self._engine.read_only:
            return  # As on a read replica: others keep it fresh.
        self._engine.wake = self._wake.set
        self._thread.start()

    def stop(self) -> None:
        """Finish the documents at hand and end."""
        self._stop.set()
        self._wake.set()
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
            if not keeper.hold():
                self._pause(TAKE_OVER_SECONDS)
                continue
            try:
                while not self._stop.is_set():
                    self._guarded(self._keep_fresh)
            finally:
                self._unwatch()
                keeper.release()

    def _keep_fresh(self) -> None:
        if self._has_much_to_do():
            self._hand_over()
        else:
            self._round()

    def _has_much_to_do(self) -> bool:
        """Whether so much is due that indexing it here would slow down searches.

        Other embedders than the bundled one take their time outside of the interpreter, and memory twice.
        """
        if not self._may_hand_over or time.monotonic() < self._hand_over_from:
            return False
        here = collections.here(self._engine.store, self._engine.config)
        return self._engine.store.requests.due(here) >= OFFLOAD_FROM_FILES

    def _hand_over(self) -> None:
        """Have another process work off the queue, and go on to look at what changes."""
        process = IndexingProcess(self._engine.config)
        try:
            while process.is_running and not self._stop.is_set():
                self._wake.clear()
                self._watch()
                self._look()
                self._pause(POLL_SECONDS / 5)
        finally:
            process.stop()
        if process.failed and not self._stop.is_set():
            logger.warning("the process that indexes ended with an error; this one does it by itself for a while")
            self._hand_over_from = time.monotonic() + ALONE_SECONDS

    def _guarded(self, work: Callable[[], object]) -> None:
        """Do it, and outlive whatever it raises."""
        try:
            work()
        except AnnaiError as error:
            if str(error) != self._last_error:
                logger.error("%s", error)
            self._last_error = str(error)
            self._pause(ERROR_PAUSE)
        except Exception:
            logger.exception("the worker stumbled; it goes on")
            self._pause(ERROR_PAUSE)

    def _round(self) -> None:
        """Look at what may have changed, work off what is due, and wait for more."""
        self._wake.clear()
        self._watch()
        self._look()
        if self._has_much_to_do():
            return
        self._engine.process_queue(patience=0.0, stop=lambda: self._stop.is_set() or bool(self._changed))
        if time.monotonic() >= self._next_prune:
            self._engine.store.requests.prune(self._engine.config.worker.keep_days * DAY)
            self._next_prune = time.monotonic() + PRUNE_SECONDS
        if not self._changed:
            due_in = self._engine.store.requests.due_in()
            self._pause(POLL_SECONDS if due_in is None else min(max(due_in, POLL_SECONDS / 10), POLL_SECONDS))

    def _watch(self) -> None:
        """Watch the sources of the collections as they are now."""
        sources = self._sources()
        if self._watcher is not None and self._watcher.sources == sources:
            return
        self._unwatch()
        if self._engine.config.watcher.enabled and sources:
            self._watcher = Watcher(sources, self._engine.config.watcher.debounce_ms, self._note)
            self._watcher.start()
        elif self._watched == sources:
            return
        self._watched = sources
        self._next_scan, self._settled = 0.0, False

    def _unwatch(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None

    def _sources(self) -> dict[str, Path]:
        engine = self._engine
        try:
            searched = collections.searchable(engine.store, engine.config)
            return {each.name: each.source for each in searched if collections.is_here(engine.store, each)}
        except CollectionError:
            return {}  # Every collection is disabled: there is nothing to keep fresh.

    def _note(self, changed: dict[str, set[str]]) -> None:
        """What the watcher tells, in its thread."""
        with self._changed_lock:
            for name, paths in changed.items():
                self._changed.setdefault(name, set()).update(paths)
        self._wake.set()

    def _look(self) -> None:
        """Queue what changed: where the watcher pointed, and from time to time everywhere."""
        with self._changed_lock:
            changed, self._changed = self._changed, {}
        now = time.monotonic()
        if sum(map(len, changed.values())) >= BURST_PATHS:
            changed, self._next_scan, self._settled = {}, 0.0, False
        for name, paths in changed.items():
            if name in self._watched:
                self._engine.queue_changes(name, None if "" in paths else sorted(paths))
        if now < self._next_scan:
            return
        for name in self._watched:
            # A source that cannot be listed must not keep the others from being looked at.
            self._guarded(partial(self._engine.queue_changes, name, again=not self._settled))
        took = time.monotonic() - now
        blind = self._watcher is None or self._watcher.has_failed
        pause = max(UNWATCHED_SECONDS if blind else RESCAN_SECONDS, took / RESCAN_SHARE)
        # A change that fell between this comparison and the beginning of the watch is found by a second one.
        self._next_scan = time.monotonic() + (pause if self._settled else SETTLING_SECONDS + took)
        self._settled = True

    def _pause(self, seconds: float) -> None:
        if not self._stop.is_set():
            self._wake.wait(seconds)
