"""A folder with a server, whose processes end with the test."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from annai.config import load_config
from annai.serving.client import Client
from annai.serving.pidfile import SAME_SECONDS, ServerRecord, read_record, read_token, running
from tests.conftest import Annai, state_of
from tests.loopback import eventually

SETTINGS = '[embedding]\nprovider = "hashing"\n[server]\nport = 0\n'


class LivingProject:
    """A folder with a server's settings, and all processes that are started for it."""

    def __init__(self, folder: Path, settings: str = SETTINGS) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "annai.toml").write_text(settings)
        (folder / "a.md").write_text(f"# Title\n\nSome apple text of {folder.name}.")
        self.folder = folder
        self.annai = Annai(folder)
        self._started: list[psutil.Process] = []

    def server(self) -> ServerRecord:
        """The server that says it runs here."""
        record = read_record(load_config(docs_dir=self.folder))
        assert record
        process = psutil.Process(record.pid)
        assert abs(process.create_time() - record.process_created) < SAME_SECONDS
        if process not in self._started:
            self._started.append(process)
        return record

    def client(self) -> Client:
        """The project, through its server."""
        return Client(self.server().url, token=read_token(load_config(docs_dir=self.folder)))

    def start(self, *options: str) -> ServerRecord:
        self.annai("server", "start", *options)
        return self.server()

    def foreground(self, *options: str) -> subprocess.Popen[str]:
        """A server that stays a child of this process, once it answers."""
        child = subprocess.Popen(
            [sys.executable, "-m", "annai", "server", "start", "--foreground", *options],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(psutil.Process(child.pid))
        eventually(lambda: child.poll() is not None or running(load_config(docs_dir=self.folder)) is not None)
        return child

    def clean_up(self) -> None:
        """End everything that was started, whatever the test did."""
        if (state_of(self.folder) / "server.pid").exists() and read_record(load_config(docs_dir=self.folder)):
            # What a test wrote into the file by itself is no server.
            with suppress(psutil.NoSuchProcess, AssertionError):
                self.server()
        for process in self._started:
            if process.is_running():
                process.kill()


@pytest.fixture
def make_place(tmp_path: Path) -> Iterator[Callable[..., LivingProject]]:
    """Make folders whose servers are ended with the test."""
    made: list[LivingProject] = []

    def make(name: str = "docs", settings: str = SETTINGS) -> LivingProject:
        made.append(LivingProject(tmp_path / name, settings))
        return made[-1]

    yield make
    for place in made:
        place.clean_up()


@pytest.fixture
def place(make_place: Callable[..., LivingProject]) -> LivingProject:
    """A folder with one document about an apple."""
    return make_place()
