"""What is changing now? Tells, soon after something was saved, which paths to look at again.

It names paths and judges nothing: whether a path is a document, is ignored or is gone, the scanner says by its rules.
"""

import logging
import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from annai.files.scanner import IGNORE_FILES, NEVER_ENTERED

logger = logging.getLogger(__name__)

LONGEST_GROUP_MS = 1_500
"""What keeps changing is told of after so long, quiet or not."""

ToolResult = Callable[[dict[str, set[str]]], None]
"""Called with the paths to look at again, by collection; the path `""` is the whole collection."""


class Watcher:
    """Watches the sources of collections in a thread of its own, until it is stopped."""

    def __init__(self, sources: Mapping[str, Path], debounce_ms: int, told: ToolResult) -> None:
        self.sources = dict(sources)
        self.failed = False
        """Whether the system refused: then nothing is noticed, and someone has to look by themselves."""
        self._debounce_ms = debounce_ms
        self._told = told
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="annai-watcher", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        from watchfiles import watch  # only a process that stays needs it

        existing = [source for source in self.sources.values() if source.is_dir()]
        try:
            groups = watch(
                *existing,
                watch_filter=None,
                debounce=max(LONGEST_GROUP_MS, self._debounce_ms),
                # It looks at every step, and tells of changes after a step without any.
                step=self._debounce_ms // 2,
                stop_event=self._stop,
                raise_interrupt=False,
                ignore_permission_denied=True,
            )
            for group in groups:
                if changed := self._by_collection(Path(file) for _, file in group):
                    self._told(changed)
        except Exception as error:
            # Too many folders for the system's limits, a source that vanished: the worker looks by itself instead.
            logger.warning("files cannot be watched (%s); annai looks from time to time instead", error)
            self.failed = True

    def _by_collection(self, files: Iterable[Path]) -> dict[str, set[str]]:
        """The paths to look at, for every collection that has them."""
        changed: dict[str, set[str]] = {}
        for file in files:
            for name, source in self.sources.items():
                if not file.is_relative_to(source):
                    continue
                parts = file.relative_to(source).parts
                if not NEVER_ENTERED.isdisjoint(parts):
                    continue
                if file.name in IGNORE_FILES:
                    # Its rules are for the whole folder.
                    parts = parts[:-1]
                changed.setdefault(name, set()).add(unicodedata.normalize("NFC", "/".join(parts)))
        return changed
