"""How does an agent's server reach the project? Through the project's server if one runs, else in this process."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from annai.config import Config
from annai.errors import ServerError
from annai.opening import open_project
from annai.project import Project
from annai.serving.client import Client

T = TypeVar("T")


class Access:
    """The project, opened when it is first used. Several threads may use it at once.

    While the project's server runs, it is used; should the server end, the project is opened here, and a worker keeps
    its index fresh. Once it is open here it stays so.
    """

    def __init__(self, config: Config, project: Project | None = None) -> None:
        self.config = config
        self._project = project
        self._opening = threading.Lock()
        self._stack = ExitStack()

    def use(self, work: Callable[[Project], T]) -> T:
        """Do something with the project, and return what came of it."""
        project = self._open()
        try:
            return work(project)
        except ServerError:
            if not isinstance(project, Client):
                raise
            # If that server ended, the work is done by the one that took its place, or here.
            self._leave(project)
            successor = self._open()
            if isinstance(successor, Client) and successor.connection.url == project.connection.url:
                raise
        return work(successor)

    def close(self) -> None:
        """Close the project, if it was opened here; the worker finishes the documents at hand."""
        with self._opening:
            self._stack.close()

    def _open(self) -> Project:
        with self._opening:
            if self._project is None:
                self._project = open_project(self.config)
                self._stack.callback(self._project.close)
                self._keep_fresh(self._project)
            return self._project

    def _leave(self, client: Client) -> None:
        """Stop using a server that ended, unless another thread did already."""
        with self._opening:
            if self._project is client:
                client.close()
                self._project = None

    def _keep_fresh(self, project: Project) -> None:
        """Start a worker beside a project that was opened in this process."""
        if isinstance(project, Client) or project.read_only:
            return
        from annai.engine import Engine  # beside a server nothing of it is needed
        from annai.upkeep.worker import Worker

        if isinstance(project, Engine):
            worker = Worker(project)
            worker.start()
            self._stack.callback(worker.stop)
