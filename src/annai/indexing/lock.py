"""Whose turn is it to index? A lock that one process holds at a time, and within it one thread."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if os.name == "nt":
    import msvcrt
else:
    import fcntl

POLL_SECONDS = 0.05
"""How often to try again while another process holds the lock."""


class IndexLock:
    """The right to write an index.

    The operating system takes it back when its holder dies, however that happens. The threads of one process share
    it: `hold` keeps it for the process, `turn` gives it to one thread at a time. Without a file no other process is
    kept away: where machines share an index, its queue does that.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._guard = threading.Lock()
        self._thread = threading.RLock()
        self._descriptor = -1
        self._holds = 0

    def hold(self) -> bool:
        """Take it for this process, if no other has it; as often as it is let go."""
        with self._guard:
            if self._holds == 0 and self._file is not None:
                descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
                if not _try_lock(descriptor):
                    os.close(descriptor)
                    return False
                self._descriptor = descriptor
            self._holds += 1
            return True

    def release(self) -> None:
        """Undo one `hold`."""
        with self._guard:
            self._holds -= 1
            if self._holds == 0 and self._file is not None:
                os.close(self._descriptor)

    @contextmanager
    def turn(self, patience: float = 0.0) -> Iterator[bool]:
        """Tell whether this thread has the index for itself within the block, having waited so many seconds for it."""
        deadline = time.monotonic() + patience
        if not self._thread.acquire(timeout=max(patience, 0)):
            yield False
            return
        try:
            while not (held := self.hold()) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            try:
                yield held
            finally:
                if held:
                    self.release()
        finally:
            self._thread.release()


def _try_lock(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
