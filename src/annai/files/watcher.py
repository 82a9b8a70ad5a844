"""What is changing now? Reports, soon after a file was saved, which paths to scan again.

It only names paths: the scanner decides by its rules whether a path is a document, ignored or deleted.
"""

import logging
import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from annai.files.walk import IGNORE_FILES, SKIPPED_FOLDERS

logger = logging.getLogger(__name__)

MAX_DELAY_MS = 1_500
"""Files that keep changing are reported after this time even if there was no pause."""

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
