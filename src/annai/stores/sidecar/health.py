"""Can the engine be asked, and does it hold what the file holds? By its count, whenever something looks wrong."""

import logging
import threading
import time
from collections.abc import Callable

from annai.errors import StoreError
from annai.stores.sidecar.neighbours import Neighbours
from annai.stores.sqlite.search_index import IndexFile

logger = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""How long the file answers before an engine that failed is tried again."""


class Health:
    """What is known of an engine; while it has a problem, the file answers in its place.

    `reach` opens it; `lock` is held by whoever fills it.
    """

    def __init__(
        self, file: IndexFile, neighbours: Neighbours, reach: Callable[[], None], lock: threading.RLock
    ) -> None:
        self.problem = ""
        """Why the file answers, as a sentence; empty if the engine does."""
        self._file = file
        self._neighbours = neighbours
        self._reach = reach
        self._lock = lock
        self._retry_at = 0.0

    def compare(self) -> int:
        """How many passages the engine lost, by its count and the file's; it is noted if it lost any, or fails."""
        try:
            held = self._neighbours.count()
        except StoreError as error:
            self.fail(error)
            return 0
        expected = len(self._file.passages.keys())
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self.problem = ""
        if held < expected:
            self.problem = (
                f"{self._neighbours.address} holds {held:,} of the {expected:,} vectors of this index; "
                "`annai store check --repair` copies the others there, and a running server does so by itself."
            )
        return max(expected - held, 0)

    def fail(self, error: StoreError) -> None:
        """Let the file answer in place of the engine; raises the error if it has nothing to answer with."""
        if not len(self._file.passages.keys()):
            raise error
        if not self.problem:
            logger.info("the index file answers in place of %s: %s", self._neighbours.address, error)
        self.problem = f"{error} If its data is damaged, `annai store check --repair` copies it there again."
        self._retry_at = time.monotonic() + RETRY_SECONDS

    def is_usable(self) -> bool:
        """Whether to ask the engine: not while it fails or lacks passages; it is looked at again from time to time."""
        if not self.problem or time.monotonic() < self._retry_at:
            return not self.problem
        if not self._lock.acquire(blocking=False):
            return False  # It is being filled.
        try:
            self._reach()
            self.compare()
        except StoreError as error:
            self.fail(error)
        finally:
            self._lock.release()
        return not self.problem

    def has_lost(self) -> bool:
        """Whether the engine lost passages or fails: asked where it found less than there should be."""
        self.compare()
        return bool(self.problem)
