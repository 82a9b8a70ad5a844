"""What is changing now? Reports, soon after a file was saved, which paths to scan again.

It only names paths: the scanner decides by its rules whether a path is a document, ignored or deleted.
"""

import logging
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from annai.files.walk import IGNORE_FILES, SKIPPED_FOLDERS

if TYPE_CHECKING:
    from annai.files.inotify import Inotify

logger = logging.getLogger(__name__)

MAX_DELAY_MS = 1_500
"""Files that keep changing are reported after this time even if there was no pause."""

STOP_POLL_MS = 500
"""How often a watcher to which nothing is reported checks whether to end."""

OnChange = Callable[[dict[str, set[str]]], None]
"""Called with the paths to scan again, by collection; the path `""` is the whole collection."""


class Watcher:
    """Watches the sources of collections in its own thread until it is stopped."""

    def __init__(self, sources: Mapping[str, Path], debounce_ms: int, on_change: OnChange) -> None:
        self.sources = dict(sources)
        self.has_failed = False
        """Whether the system cannot watch the files: then no change is reported."""
        self._debounce_ms = debounce_ms
        self._on_change = on_change
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="annai-watcher", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching and end the thread."""
        self._stop.set()
        self._thread.join()

    def follow(self, name: str, path: str, folder: str) -> None:
        """A folder of a collection is about to be listed, and what changes in it from now on is to be reported."""

    def report(self) -> Collection[str]:
        """Report now what changed before this call, and return the collections of which it is certain that this is all.

        Only those count whose folders were all listed since the watcher was started.
        """
        return ()

    def _watch(self) -> None:
        from watchfiles import watch  # only a long-running process needs it

        existing = [source for source in self.sources.values() if source.is_dir()]
        try:
            groups = watch(
                *existing,
                watch_filter=None,
                debounce=max(MAX_DELAY_MS, self._debounce_ms),
                # It checks at every step, and reports changes after a step without any.
                step=self._debounce_ms // 2,
                stop_event=self._stop,
                raise_interrupt=False,
                ignore_permission_denied=True,
            )
            for group in groups:
                if changed := self._by_collection(Path(file) for _, file in group):
                    self._on_change(changed)
        except Exception as error:
            # Too many folders for the system's limits, or a source that vanished: the worker scans regularly instead.
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        logger.warning("cannot watch files (%s); annai scans them regularly instead", error)
        self.has_failed = True

    def _by_collection(self, files: Iterable[Path]) -> dict[str, set[str]]:
        """The paths to scan again, by collection."""
        changed: dict[str, set[str]] = {}
        for file in files:
            for name, source in self.sources.items():
                if not file.is_relative_to(source):
                    continue
                parts = file.relative_to(source).parts
                if not SKIPPED_FOLDERS.isdisjoint(parts):
                    continue
                if file.name in IGNORE_FILES:
                    # Its patterns are for the whole folder.
                    parts = parts[:-1]
                changed.setdefault(name, set()).add(unicodedata.normalize("NFC", "/".join(parts)))
        return changed


class ExactWatcher(Watcher):
    """The same on Linux, where it is certain that nothing was missed; it watches only the folders that are listed."""

    def __init__(self, sources: Mapping[str, Path], debounce_ms: int, on_change: OnChange) -> None:
        super().__init__(sources, debounce_ms, on_change)
        self._lock = threading.RLock()
        self._inotify: Inotify | None = None

    def start(self) -> None:
        """Start watching, if the system lets one more program watch."""
        from annai.files.inotify import Inotify  # Linux alone has it

        try:
            self._inotify = Inotify()
        except OSError as error:
            self._fail(error)
        else:
            super().start()

    def stop(self) -> None:
        """Stop watching and end the thread."""
        if self._inotify:
            super().stop()
            with self._lock:
                self.has_failed = True
                self._inotify.close()

    def follow(self, name: str, path: str, folder: str) -> None:
        """Watch it before it is listed: what is written in between is found twice rather than missed."""
        with self._lock:
            if self._inotify and not self.has_failed and name in self.sources:
                try:
                    self._inotify.add(name, path, folder)
                except OSError as error:
                    self._fail(error)

    def report(self) -> Collection[str]:
        """Under a lock, so that no other thread has read changes that it has yet to report."""
        with self._lock:
            if self._inotify is None or self.has_failed:
                return ()
            if changed := self._inotify.changes():
                self._on_change(changed)
            return self.sources.keys() - self._inotify.shared

    def _watch(self) -> None:
        inotify = cast("Inotify", self._inotify)
        while not (self._stop.is_set() or self.has_failed):
            if not inotify.wait(STOP_POLL_MS):
                continue
            deadline, before = time.monotonic() + max(MAX_DELAY_MS, self._debounce_ms) / 1000, -1
            # Until there was a pause; a question that is asked meanwhile reads them at once.
            while (now := inotify.unread_bytes()) != before and time.monotonic() < deadline:
                before = now
                self._stop.wait(self._debounce_ms / 1000)
            self.report()


def make_watcher(sources: Mapping[str, Path], debounce_ms: int, on_change: OnChange) -> Watcher:
    """The best watcher that this system has."""
    return (ExactWatcher if sys.platform == "linux" else Watcher)(sources, debounce_ms, on_change)
