"""How does an agent's server reach the project? Through the project's server if one runs, else in this process."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from annai.config import Config
from annai.errors import ServerError
from annai.opening import open_project
from annai.project import Project
from annai.serving.changes import StoreChanges
from annai.serving.client import Client

T = TypeVar("T")


logger = logging.getLogger(__name__)


@dataclass
class _Opened:
    """A project that was opened, what closes it, and how many threads use it now."""

    project: Project
    stack: ExitStack = field(default_factory=ExitStack)
    users: int = 0
    is_left: bool = False
    """Whether it is closed as soon as nobody uses it."""


class Access:
    """The project, opened when it is first used. Several threads may use it at once.

    While the project's server runs, it is used; should the server end, the project is opened here, and a worker keeps
    its index fresh. Once it is open here it stays so, until the settings name another store.
    """

    def __init__(self, config: Config, project: Project | None = None) -> None:
        self.config = config
        # A project that was given is its owner's to open and to close.
        self._changes = StoreChanges(config) if project is None else None
        self._opened = None if project is None else _Opened(project)
        self._opening = threading.Condition()

    def use(self, work: Callable[[Project], T]) -> T:
        """Do something with the project, and return what came of it."""
        with self._using() as project:
            try:
                return work(project)
            except ServerError as error:
                if not isinstance(project, Client):
                    raise
                ended, reason = project, error
        # If that server ended, the work is done by the one that took its place, or here.
        self._leave(ended)
        with self._using() as successor:
            if isinstance(successor, Client) and successor.connection.url == ended.connection.url:
                raise reason
            return work(successor)

    def close(self) -> None:
        """Close the project, if it was opened here; what uses it, and the worker's documents at hand, are finished."""
        with self._opening:
            if opened := self._opened:
                self._opening.wait_for(lambda: not opened.users)
                opened.stack.close()

    @contextmanager
    def _using(self) -> Iterator[Project]:
        """The project, which stays open within the block."""
        with self._opening:
            self._follow_settings()
            opened = self._opened = self._opened or self._open()
            opened.users += 1
        try:
            yield opened.project
        finally:
            with self._opening:
                opened.users -= 1
                self._close_unused(opened)
                self._opening.notify_all()

    def _follow_settings(self) -> None:
        """If the settings have come to name another store, leave the one that is open; what uses it may finish."""
        changed = self._changes.reason() if self._changes else ""
        if self._changes is None or not changed:
            return
        self.config = self._changes.renewed(self.config)
        self._changes = StoreChanges(self.config)
        logger.warning("%s; answers come from the index that it names now", changed)
        if self._opened:
            self._opened.is_left = True
            self._close_unused(self._opened)
            self._opened = None

    def _open(self) -> _Opened:
        opened = _Opened(open_project(self.config))
        opened.stack.callback(opened.project.close)
        _keep_fresh(opened)
        return opened

    def _leave(self, client: Client) -> None:
        """Stop using a server that ended, unless another thread did already."""
        with self._opening:
            if self._opened and self._opened.project is client:
                self._opened.is_left = True
                self._close_unused(self._opened)
                self._opened = None

    @staticmethod
    def _close_unused(opened: _Opened) -> None:
        if opened.is_left and not opened.users:
            opened.stack.close()


def _keep_fresh(opened: _Opened) -> None:
    """Start a worker beside a project that was opened in this process."""
    if isinstance(opened.project, Client) or opened.project.read_only:
        return
    from annai.engine import Engine  # beside a server nothing of it is needed
    from annai.upkeep.worker import Worker

    if isinstance(opened.project, Engine):
        worker = Worker(opened.project)
        worker.start()
        opened.stack.callback(worker.stop)
