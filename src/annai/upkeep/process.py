"""Who indexes when there is much to do? A process beside this one, so that searches here stay as quick as ever.

It takes the index lock, works off the queue and ends; when the process that started it goes away, so does it.
"""

import logging
import os
import pickle
import subprocess
import sys
import threading

from annai.config import Config
from annai.engine import Engine
from annai.errors import AnnaiError

logger = logging.getLogger(__name__)

CODE = "from annai.upkeep.process import work; work()"

PATIENCE = 10.0
"""Seconds that it waits for the lock, should someone else be indexing."""

STOP_SECONDS = 20.0
"""How long it may take to finish the documents at hand."""

NICENESS = 5
"""How far it steps back where processors are short: a search is waited for, an index is not."""


class IndexingProcess:
    """A process that works off the queue of a project, once."""

    def __init__(self, config: Config) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - annai itself
            [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        if self._process.stdin:
            self._process.stdin.write(pickle.dumps(config) + b"\n")
            self._process.stdin.flush()

    @property
    def is_running(self) -> bool:
        """Whether it is still at work."""
        return self._process.poll() is None

    @property
    def failed(self) -> bool:
        """Whether it ended other than well."""
        return bool(self._process.poll())

    def stop(self) -> None:
        """Let it finish the documents at hand, and wait for its end."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def work() -> None:
    """What the process does: read the settings from its standard input, and work until that ends or nothing is due."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    # Written by the process that started this one, and by nobody else: it holds the other end of the pipe.
    config: Config = pickle.load(sys.stdin.buffer)  # noqa: S301
    left_alone = threading.Event()

    def listen() -> None:
        # Past Python's buffer, whose lock would keep this process from ending.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        left_alone.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        with Engine(config) as engine:
            engine.process_queue(patience=PATIENCE, stop=left_alone.is_set)
    except AnnaiError as error:
        logger.error("%s", error)
        sys.exit(1)
