"""What if a store fails? Real failures: a wrong password, a silent server, a full disk, a crash in mid-work."""

import contextlib
import os
import random
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from annai.answers import Query
from annai.config import load_config, override
from annai.engine import Engine
from annai.errors import StoreError
from annai.serving.client import Client
from annai.stores.postgres import graphs
from annai.stores.postgres.store import PostgresStore
from annai.stores.sidecar.neighbours import redact_url
from annai.types import Collection
from tests.conftest import Annai, trust
from tests.engines import ENGINES, config_for, postgres_folder, postgres_url
from tests.loopback import eventually
from tests.postgresql import Cluster, running_cluster
from tests.stores.test_contract import indexed, matching_paths, nearest_paths
from tests.stores.test_postgres import client_of, project, serving, settings

__all__ = ["postgres_folder", "postgres_url"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers are started and limited as on Unix")

SECRET = "hushhush"  # noqa: S105 - of a server that lives for seconds
MIB = 2**20
MANY = 400
FILES = 8
"""Together they are more than a MiB, and no engine packs them into less."""
ADDRESSES = {
    "memory": "memory",
    "sqlite": "{}/index.sqlite",
    "lancedb": "{0}/index.lancedb.sqlite, vectors in {0}/index.lancedb",
    "chroma": "{0}/index.chroma.sqlite, vectors in {0}/index.chroma",
    "qdrant": "{0}/index.qdrant.sqlite, vectors in {url}",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server for the tests of this file; each has a database of its own."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def database(cluster: Cluster) -> str:
    """An empty database with pgvector; its owner has its name, and SECRET for a password."""
    name = f"annai_{uuid4().hex}"
    cluster.administer(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'", f"CREATE DATABASE {name} OWNER {name}")
    cluster.administer("CREATE EXTENSION vector", database=name)
    return name


def without_progress(told: str) -> list[str]:
    return [line for line in told.splitlines() if not re.match(r"annai: index(ing|ed) [\d,]+ ", line)]


def error_of(folder: Path, *arguments: str) -> str:
    """The one sentence that a failing command prints, after what a slow one says of its progress."""
    done = Annai(folder)(*arguments, code=2)
    assert not done.stdout
    assert SECRET not in done.stderr
    (line,) = without_progress(done.stderr)
    assert line.startswith("annai: ")
    assert line.endswith(".")
    return line


# Servers that cannot be used


def opening_error(url: str) -> str:
    """The sentence that says why an index cannot be opened."""
    with pytest.raises(StoreError) as caught:
        PostgresStore(settings(url))
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_wrong_password_is_reported_and_not_shown(tmp_path: Path, cluster: Cluster, database: str) -> None:
    folder = project(tmp_path / "docs", cluster.url(database, database, f"not-{SECRET}"))
    for command in (["search", "apple"], ["status"]):
        assert "does not accept this user and password; correct store.url" in error_of(folder, *command)
    assert "does not accept this user and password" in opening_error(cluster.url(database, database))
    # Written so that a part of it is taken for the host, or for the database.
    assert "%40" in opening_error(cluster.url(database, database, f"a@{SECRET}"))
    assert "%2F" in opening_error(cluster.url(database, database, f"a/{SECRET}"))


def test_a_missing_extension_is_reported_with_what_to_run(tmp_path: Path, cluster: Cluster, database: str) -> None:
    cluster.administer("DROP EXTENSION vector", database=database)
    url = cluster.url(database, database, SECRET)
    assert "let a superuser run `CREATE EXTENSION vector`" in error_of(
        project(tmp_path / "docs", url), "search", "apple"
    )
    cluster.administer(f"ALTER ROLE {database} SET extension_control_path = '/nowhere'")
    assert "install it there" in opening_error(url)
    cluster.administer(f"ALTER ROLE {database} RESET ALL")
    cluster.administer("CREATE EXTENSION vector", database=database)
    PostgresStore(settings(url)).close()


def test_a_user_without_the_right_to_make_tables_learns_what_to_grant(cluster: Cluster, database: str) -> None:
    guest = f"guest_{uuid4().hex}"
    cluster.administer(f"CREATE ROLE {guest} LOGIN PASSWORD '{SECRET}'")
    assert "GRANT ALL ON SCHEMA" in opening_error(cluster.url(database, guest, SECRET))


def test_where_nothing_listens_the_command_says_so(tmp_path: Path) -> None:
    folder = project(tmp_path / "docs", f"postgresql://annai:{SECRET}@127.0.0.1:1/annai")
    assert "cannot be reached" in error_of(folder, "search", "apple")


def test_a_server_that_accepts_and_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://annai:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/annai?connect_timeout=2"
        assert "cannot be reached" in opening_error(url)


@contextlib.contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """Stop all processes of a server, as a suspended machine does; they are there, and do nothing."""
    postmaster = psutil.Process(int((cluster.folder / "postmaster.pid").read_text().split()[0]))
    processes = [postmaster, *postmaster.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def test_a_server_that_freezes_in_the_middle_is_given_up_and_used_again(
    cluster: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.stores.postgres.database.ANSWER_GRACE_SECONDS", 0.5)
    # As if it had not been asked for a while.
    monkeypatch.setattr("annai.stores.postgres.database.RECENT_SECONDS", 0.0)
    url = cluster.url(database, database, SECRET) + "?connect_timeout=2"
    with PostgresStore(replace(settings(url), query_timeout_seconds=0.5)) as store:
        store.save_collection(Collection("a", Path("/a")))
        store.write("a", [indexed("a.md", "apple")])
        with frozen(cluster):
            with pytest.raises(StoreError, match="cannot be reached") as caught:
                store.states("a")
            assert SECRET not in str(caught.value)
        eventually(lambda: answered(store))

        def freeze_in_a_snapshot() -> None:
            with store.snapshot():
                assert matching_paths(store, "apple") == ["a.md"]
                with frozen(cluster):
                    store.states("a")

        with pytest.raises(StoreError, match=r"did not finish 'SELECT .* \(it does not answer\)"):
            freeze_in_a_snapshot()
        eventually(lambda: answered(store))
        assert matching_paths(store, "apple") == ["a.md"]


def answered(store: PostgresStore) -> bool:
    """Whether the store answers."""
    try:
        return bool(store.collections())
    except StoreError:
        return False


# Full disks


@contextlib.contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """Let the system refuse larger files to this process, and to those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of some MiB."""
    # Not in pytest's own folder: PostgreSQL is to come in, as a user of its own.
    with tempfile.TemporaryDirectory(prefix="annai-disk-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        mount = ["mount", "-t", "tmpfs", "-o", "size=32m,mode=755", "none", name]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("only root can mount a small disk; the limit on files stands for it")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


def index_first(folder: Path) -> None:
    """Index a document while there is space."""
    (folder / "first.md").write_text("# First\n\napple\n")
    with Engine(load_config(docs_dir=folder)) as engine:
        engine.refresh()


def fails_and_recovers(folder: Path, free: Callable[[], None]) -> None:
    """What holds for every store that is full: it says so, keeps and finds what it has, and takes the rest later."""
    annai, chance = Annai(folder), random.Random(7)  # noqa: S311 - no secrets
    for number in range(FILES):
        lines = "\n".join(chance.randbytes(2_000).hex() for _ in range(50))
        (folder / f"{number}.md").write_text(f"# Document {number}\n\nword{number}\n\n```\n{lines}\n```\n")
    sentence = error_of(folder, "import", "-m", "update")
    assert "space" in sentence
    done = annai("search", "apple", "--format", "files")
    assert done.stdout == "first.md:1\n"
    assert "space" in done.stderr
    assert len(without_progress(done.stderr)) == 1
    free()
    with Engine(load_config(docs_dir=folder)) as engine:
        eventually(lambda: not engine.refresh().notes and engine.store.statistics("root").documents == FILES + 1)
        assert engine.store.requests.counts().keys() <= {"completed", "skipped"}
        assert engine.search(Query("word7", mode="keyword")).results[0].path == "7.md"


def test_a_limit_on_files_stops_sqlite_and_loses_nothing(annai: Annai) -> None:
    index_first(annai.folder)
    with contextlib.ExitStack() as limit:
        limit.enter_context(files_at_most(MIB))
        fails_and_recovers(annai.folder, limit.close)


def test_a_full_disk_stops_sqlite_and_loses_nothing(annai: Annai, small_disk: Path) -> None:
    with (annai.folder / "annai.toml").open("a") as settings:
        settings.write(f'[database]\npath = "{small_disk}/index.sqlite"\n')
    trust(annai.folder)
    index_first(annai.folder)
    fails_and_recovers(annai.folder, fill(small_disk))


def fill(disk: Path) -> Callable[[], None]:
    """Leave half a MiB; what is returned gives the space back."""
    status = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(status.f_bavail * status.f_frsize - MIB // 2))
    return ballast.unlink


def test_a_limit_on_files_stops_postgres_and_loses_nothing(tmp_path: Path, cluster: Cluster, database: str) -> None:
    folder = project(tmp_path / "docs", cluster.url(database, database, SECRET))
    index_first(folder)
    with files_at_most(MIB):
        cluster.control("restart", "-m", "fast")
    fails_and_recovers(folder, lambda: cluster.control("restart", "-m", "fast"))


def test_a_full_disk_stops_postgres_and_loses_nothing(
    tmp_path: Path, cluster: Cluster, database: str, small_disk: Path
) -> None:
    cluster.administer(
        f"CREATE TABLESPACE {database} OWNER {database} LOCATION '{cluster.own(small_disk / 'tables')}'",
        f"ALTER DATABASE {database} SET default_tablespace = {database}",
    )
    folder = project(tmp_path / "docs", cluster.url(database, database, SECRET))
    index_first(folder)
    fails_and_recovers(folder, fill(small_disk))
    cluster.administer(f"DROP DATABASE {database} WITH (FORCE)", f"DROP TABLESPACE {database}")


def test_a_graph_is_built_by_one_process_where_several_have_no_memory_to_share(
    cluster: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "INDEX_FROM", 100)
    cluster.administer(f"ALTER DATABASE {database} SET min_parallel_table_scan_size = 0")
    # Shared memory is a file here, as it is in containers that allow little of it.
    with files_at_most(MIB):
        cluster.control("restart", "-m", "fast")
    try:
        with PostgresStore(settings(cluster.url(database, database, SECRET))) as store:
            store.save_collection(Collection("a", Path("/a"), "A"))
            store.write("a", [indexed(f"{number}.md", seed=number * 100, parts=30) for number in range(5)])
            assert nearest_paths(store, 307, limit=1) == ["3.md"]
        assert cluster.query("SELECT indisvalid FROM pg_index WHERE indexrelid = 'annai_hnsw_256'::regclass", database)
    finally:
        cluster.control("restart", "-m", "fast")


# Crashes and restarts


def test_workers_and_searches_outlive_a_crash_and_a_restart_in_the_middle_of_an_import(
    tmp_path: Path, cluster: Cluster, database: str
) -> None:
    url = cluster.url(database, database, SECRET) + "?connect_timeout=2"
    first, second = project(tmp_path / "first", url), project(tmp_path / "second", url)
    source = tmp_path / "source"
    source.mkdir()
    with PostgresStore(settings(url)) as watcher, serving(first), serving(second), client_of(second) as client:
        watcher.save_collection(Collection("docs", source, "All"))
        write_some(source, watcher, range(MANY))
        cluster.control("stop", "-m", "immediate")
        with pytest.raises(StoreError, match=r"cannot be reached .* Nothing is lost") as caught:
            client.search(Query("word of it", mode="keyword"))
        assert SECRET not in str(caught.value)
        cluster.control("start")
        eventually(lambda: answers(client))
        eventually(lambda: holds(watcher, MANY))
        write_some(source, watcher, range(MANY, 2 * MANY))
        cluster.control("restart", "-m", "fast")
        eventually(lambda: answers(client))
        eventually(lambda: holds(watcher, 2 * MANY))
        # What was cut off is looked at again after a while; then nothing waits, and nothing has failed.
        eventually(lambda: watcher.requests.counts().keys() <= {"completed", "skipped"})
        # A document of this kind is one section, which is there once, with its vector and its words.
        inventory = watcher.inventory()
        assert len(inventory.sections) == len(inventory.vectors) == len(inventory.passages) == 2 * MANY
        assert matching_paths(watcher, "word7", limit=1) == ["7.md"]


def write_some(source: Path, store: PostgresStore, numbers: range) -> None:
    """Write documents, and wait until some of them are indexed."""
    for number in numbers:
        (source / f"{number}.md").write_text(f"# Document {number}\n\nThe word of it is word{number}.\n")
    eventually(lambda: holds(store, numbers.start + 1))


def holds(store: PostgresStore, count: int) -> bool:
    """Whether at least this many documents are indexed."""
    try:
        return store.statistics("docs").documents >= count
    except StoreError:
        return False


def answers(client: Client) -> bool:
    """Whether a search is answered; where it is not, the store is still away."""
    try:
        return bool(client.search(Query("word of it", mode="keyword")).results)
    except StoreError:
        return False


# Where it is


@pytest.mark.parametrize("name", ENGINES)
def test_a_status_shows_where_the_index_is(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    config = config_for(name, tmp_path, request)
    with Engine(override(config, "embedding", provider="hashing")) as engine:
        address = engine.status().database
    if name == "postgres":
        assert address.startswith("postgresql://")
    else:
        assert address == ADDRESSES[name].format(config.state_folder, url=config.store.url.removeprefix("http://"))


def test_a_status_shows_no_password(tmp_path: Path, cluster: Cluster, database: str) -> None:
    annai = Annai(project(tmp_path / "docs", cluster.url(database, database, SECRET)))
    for form in ("table", "json"):
        done = annai("status", "--format", form)
        assert f"postgresql://127.0.0.1:{cluster.port}/{database}" in done.stdout
        assert SECRET not in done.stdout + done.stderr
    assert redact_url(f"http://annai:{SECRET}@host:8000/a?key={SECRET}") == "http://host:8000/a"
    assert redact_url("/a folder/b") == "/a folder/b"
