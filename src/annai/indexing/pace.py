"""How often is a file indexed that changes all the time, such as a log? At intervals that grow while it does."""

import time
from collections.abc import Iterable

KEEPS_CHANGING = "it keeps changing, so it is indexed at intervals"
"""Why a request waits."""

QUIET_SECONDS = 2.0
"""A file that did not change for this long after it was indexed is indexed at once when it changes."""

FREE_TIMES = 5
"""So many times in a row a file is indexed at once however soon it changes: people and agents save and search."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
"""The pause before a file that keeps changing is indexed again doubles each time, up to the longest."""

MAX_TIMES = FREE_TIMES + 10
"""Counting further would not make the pause longer."""

MAX_REMEMBERED = 10_000
"""Files that are remembered before the quiet ones are forgotten."""

File = tuple[str, str]
"""A collection's name and a path in it."""


class Pace:
    """Remembers which files changed soon after they were indexed; only this process's."""

    def __init__(self) -> None:
        self._indexed: dict[File, tuple[float, int]] = {}
        """When each was last indexed, and how many times in a row it changed soon after that."""
        self._paused: dict[File, float] = {}
        """Those that wait for their turn, and until when."""

    def note(self, collection: str, paths: Iterable[str]) -> None:
        """These files are being indexed now."""
        now = time.monotonic()
        for path in paths:
            _, times = self._indexed.get((collection, path), (0.0, 0))
            self._indexed[collection, path] = now, times
            self._paused.pop((collection, path), None)
        if len(self._indexed) > MAX_REMEMBERED:
            # A copy: other threads ask for pauses meanwhile.
            self._indexed = {file: (at, times) for file, (at, times) in [*self._indexed.items()] if _is_soon(at, now)}

    def pause(self, collection: str, path: str, *, changed_meanwhile: bool = False) -> float:
        """Seconds to wait before a file that changed is indexed again.

        Call it once for each change. A file that changed while it was being indexed always waits.
        """
        pause = self._next_pause(collection, path, changed_meanwhile=changed_meanwhile)
        if pause:
            self._paused[collection, path] = time.monotonic() + pause
        return pause

    def release(self, collection: str, path: str) -> None:
        """A file that waits for its turn is to be indexed now."""
        self._paused.pop((collection, path), None)

    def paused(self, collection: str) -> list[str]:
        """The files of a collection that changed, and wait for their turn."""
        now = time.monotonic()
        self._paused = {file: until for file, until in [*self._paused.items()] if until > now}
        return [path for name, path in self._paused if name == collection]

    def _next_pause(self, collection: str, path: str, *, changed_meanwhile: bool) -> float:
        at, times = self._indexed.get((collection, path), (0.0, 0))
        if not _is_soon(at, time.monotonic()):
            self._indexed.pop((collection, path), None)
            return FIRST_PAUSE_SECONDS if changed_meanwhile else 0.0
        self._indexed[collection, path] = at, min(times + 1, MAX_TIMES)
        if times < FREE_TIMES:
            return FIRST_PAUSE_SECONDS if changed_meanwhile else 0.0
        return min(FIRST_PAUSE_SECONDS * 2.0 ** (times - FREE_TIMES), LONGEST_PAUSE_SECONDS)


def _is_soon(at: float, now: float) -> bool:
    return at > 0 and now - at <= QUIET_SECONDS
