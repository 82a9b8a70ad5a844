"""How does an agent's server reach the project? Through the project's server if one runs, else in this process."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from annai.config import Config
from annai.errors import ServerError
from annai.opening import open_project
from annai.project import Project
from annai.serving.client import Client

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Access:
    """The project, opened when it is first used. Several threads may use it at once.

    While the project's server runs, every use is a connection of its own; should the server end, the project is
    opened here, and a worker keeps its index fresh. Once it is open here it stays so.
    """

    def __init__(self, config: Config, project: Project | None = None) -> None:
        self.config = config
        self._project = project
        self._opening = threading.Lock()
        self._stack = ExitStack()

    def use(self, work: Callable[[Project], T]) -> T:
        """Do something with the project, and return what came of it."""
        project = self._open()
        if not isinstance(project, Client):
            return work(project)
        try:
            with project:
                return work(project)
        except ServerError:
            # If it answers no longer because it ended, the project is opened here and the work done there.
            project = self._open()
            if isinstance(project, Client):
                project.close()
                raise
        return work(project)

    def close(self) -> None:
        """Let go of the project, if it was opened here; the worker finishes the documents at hand."""
        with self._opening:
            self._stack.close()

    def _open(self) -> Project:
        with self._opening:
            if self._project is not None:
                return self._project
            project = open_project(self.config)
            if isinstance(project, Client):
                return project
            self._keep(project)
            return project

    def _keep(self, project: Project) -> None:
        """Keep a project that was opened in this process, with a worker beside it."""
        from annai.engine import Engine  # beside a server nothing of it is needed
        from annai.upkeep.worker import Worker

        self._project = project
        self._stack.callback(project.close)
        if isinstance(project, Engine) and not project.read_only:
            worker = Worker(project)
            worker.start()
            self._stack.callback(worker.stop)
