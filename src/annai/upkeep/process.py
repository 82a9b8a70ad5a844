"""Who indexes many files at once? A separate process, so that searches in this one stay fast.

It takes the index lock, processes the queue and ends. If the process that started it ends, it ends too.
"""

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO, cast

from annai.config import Config
from annai.engine import Engine
from annai.errors import AnnaiError
from annai.files import child
from annai.text.escapes import LogFormatter

logger = logging.getLogger(__name__)

LOCK_TIMEOUT_SECONDS = 10.0
"""How long it waits for the lock if someone else is indexing."""

STOP_SECONDS = 20.0
"""How long it may take to finish the current documents; then it is killed."""


class IndexingProcess:
    """A process that works through the queue of a project once, and changes the models of some collections."""

    def __init__(self, config: Config, to_change: Sequence[str] = ()) -> None:
        self._process = child.start("annai.upkeep.process", is_read=False)
        with suppress(OSError):  # If it was killed already, `was_killed` says so.
            child.send(cast("BinaryIO", self._process.stdin), pickle.dumps((config, to_change)))

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def failed(self) -> bool:
        """Whether it ended with an error."""
        return bool(self._process.poll())

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it."""
        return (self._process.poll() or 0) < 0

    def stop(self) -> None:
        """Let it finish the current documents, and wait for its end."""
        with suppress(OSError):  # It may have read nothing.
            cast("BinaryIO", self._process.stdin).close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Run in the process: read the settings from standard input, then index until that ends or nothing is due."""
    if hasattr(os, "nice"):
        os.nice(child.NICENESS)
    child.offer_to_be_killed()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    # Only the process that started this one can write here.
    config: Config
    to_change: Sequence[str]
    config, to_change = pickle.loads(child.first_message())  # noqa: S301
    parent_ended = threading.Event()

    def wait_for_parent() -> None:
        # Not through Python's buffer: its lock would keep this process from ending.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        parent_ended.set()

    threading.Thread(target=wait_for_parent, daemon=True).start()
    try:
        with Engine(config) as engine:
            engine.process_queue(timeout=LOCK_TIMEOUT_SECONDS, stop=parent_ended.is_set)
            engine.change_models(to_change, stop=parent_ended.is_set)
    except AnnaiError as error:
        logger.error("%s", error)
        sys.exit(1)
