"""Who may index now? A lock that one process holds at a time, and within it one thread."""

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from annai.errors import StoreReadOnly

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

POLL_SECONDS = 0.05
"""How often to retry while another process holds the lock."""


class IndexLock:
    """The right to write an index.

    The operating system releases it when its holder dies, however that happens. The threads of one process share it:
    `acquire` takes it for the process, `exclusive` gives it to one thread at a time. Without a file, other processes
    are not locked out: where machines share an index, its queue keeps them apart.
    """

    def __init__(self, file: Path | None, make_folder: Callable[[], None] = lambda: None) -> None:
        """`make_folder` is called before the file is opened, should its folder have been deleted."""
        self._file = file
        self._make_folder = make_folder
        self._guard = threading.Lock()
        self._thread = threading.RLock()
        self._descriptor = -1
        self._holders = 0

    def acquire(self) -> bool:
        """Take it for this process unless another process has it; each `acquire` needs a `release`."""
        with self._guard:
            if self._holders == 0 and self._file is not None:
                descriptor = self._open(self._file)
                if not _try_lock(descriptor):
                    os.close(descriptor)
                    return False
                self._descriptor = descriptor
            self._holders += 1
            return True

    @property
    def is_held(self) -> bool:
        """Whether this process has it."""
        return self._holders > 0

    def release(self) -> None:
        """Undo one `acquire`."""
        with self._guard:
            self._holders -= 1
            if self._holders == 0 and self._file is not None:
                os.close(self._descriptor)

    @contextmanager
    def exclusive(self, timeout: float = 0.0) -> Iterator[bool]:
        """Yield whether this thread alone has the index within the block, after waiting at most this many seconds."""
        deadline = time.monotonic() + timeout
        if not self._thread.acquire(timeout=max(timeout, 0)):
            yield False
            return
        try:
            while not (is_held := self.acquire()) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            try:
                yield is_held
            finally:
                if is_held:
                    self.release()
        finally:
            self._thread.release()

    def _open(self, file: Path) -> int:
        try:
            self._make_folder()
            return os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise StoreReadOnly(
                    f"{file} cannot be written, so nothing can be indexed",
                    "make its folder writable, or name another in ANNAI_STATE.",
                ) from error
            raise


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
