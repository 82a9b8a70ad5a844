"""Can a team trust one index? Machines that disagree, upgrades, several projects, a pooler: on a real PostgreSQL."""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from annai.answers import Where
from annai.config import Config, load_config, override
from annai.engine import Engine
from annai.errors import AnnaiError, CollectionError, IndexBusy, NewerIndex, StoreError
from annai.indexing import recipe
from annai.settings import StoreSettings
from annai.stores.postgres import database, graphs, nearest, schema, upgrade
from annai.stores.postgres.collections import SELECT_STATES_UNDER
from annai.stores.postgres.store import PostgresStore
from annai.types import Collection
from tests.conftest import Annai, quick_config, trust
from tests.engines import memory_folder, postgres_folder, postgres_server, postgres_url
from tests.loopback import eventually
from tests.stores.test_contract import DIMENSION, indexed, nearest_paths

__all__ = ["postgres_folder", "postgres_url"]

FILES = 40


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"文書{number}.md").write_text(f"# Document {number}\n\nword{number}\n", encoding="utf-8")
    return folder


def machine(tmp_path: Path, url: str, name: str, **store: object) -> Config:
    """The project's settings on a machine of that name, with a folder of its own."""
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    config = override(quick_config(folder), "store", engine="postgres", url=url, machine=name, **store)
    return override(config, "project", name="team")


def documents(config: Config, name: str = "docs") -> int:
    with PostgresStore(config.store) as store:
        return store.statistics(name).documents


def test_a_second_machine_serves_and_never_judges_the_files(tmp_path: Path, postgres_url: str, source: Path) -> None:
    first, second = machine(tmp_path, postgres_url, "one"), machine(tmp_path, postgres_url, "two")
    with Engine(first) as one:
        one.add_collection("docs", source, "All")
        assert one.import_collection("docs").added == FILES
    # On the second machine other files, and fewer, lie at the same path.
    away = source.with_name("away")
    source.rename(away)
    source.mkdir()
    (source / "stranger.md").write_text("# Stranger\n")
    with Engine(second) as two:
        answer = two.search("word7")
        assert (answer[0].path, answer.freshness.problem) == ("文書7.md", "")
        for index in (two.import_collection, two.rebuild):
            with pytest.raises(CollectionError, match="is indexed by one"):
                index()
        assert "only serves it" in two.status("docs").collections[0].note
        # Made the one that indexes, it must still say that so many files are meant to go.
        with pytest.raises(CollectionError, match="are gone"):
            two.import_collection("docs", adopt=True)
        assert documents(first) == FILES
        assert two.import_collection("docs", adopt=True, allow_deletions=True).deleted == FILES
        assert documents(first) == 1
    with Engine(first) as one, pytest.raises(CollectionError, match="is indexed by two"):
        one.import_collection("docs")


def test_a_process_with_a_home_of_its_own_is_another_machine(tmp_path: Path, postgres_url: str, source: Path) -> None:
    """The share of one is not mounted on the other: an empty folder is at its path."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "annai.toml").write_text(
        f'[store]\nengine = "postgres"\nurl = "{postgres_url}"\n[embedding]\nprovider = "hashing"\n'
    )
    trust(folder)
    annai, other = Annai(folder), {"XDG_STATE_HOME": str(tmp_path / "other")}
    with Engine(load_config(docs_dir=folder)) as engine:
        engine.add_collection("docs", source, "All")
        engine.import_collection("docs")
    shutil.rmtree(source)
    source.mkdir()
    served = annai("search", "word7", "--format", "files", environment=other)
    assert "文書7.md" in served.stdout
    assert served.stderr == ""
    assert "is empty, but 40 files" in annai("search", "word7").stderr
    with PostgresStore(StoreSettings(engine="postgres", url=postgres_url)) as store:
        assert store.statistics("docs").documents == FILES


def test_other_settings_change_nothing_until_they_are_adopted(
    tmp_path: Path, postgres_url: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = machine(tmp_path, postgres_url, "one")
    with Engine(config) as engine:
        engine.add_collection("docs", source, "All")
        engine.import_collection("docs")
    other = override(override(config, "chunking", size=512), "files", exclude=["文書1*.md"])
    with Engine(other) as engine:
        problem = engine.search("word7").freshness.problem
        assert "chunking.size = 1024, here 512" in problem
        assert 'files.exclude = [".*/", ' in problem
        assert "annai import -c docs --adopt" in problem
        assert documents(config) == FILES
        summary = engine.import_collection("docs", adopt=True)
        assert (summary.updated, summary.deleted) == (29, 11)
        assert not engine.search("word7").freshness.problem
    # The machine whose settings they were is told so now.
    with Engine(config) as engine:
        assert "chunking.size = 512, here 1024" in engine.search("word7").freshness.problem
        with monkeypatch.context() as patch:
            patch.setattr(recipe, "PIPELINE_VERSION", recipe.PIPELINE_VERSION - 1)
            with pytest.raises(NewerIndex, match="newer annai"):
                engine.import_collection("docs")
    with Engine(other) as engine, monkeypatch.context() as patch:
        patch.setattr(recipe, "PIPELINE_VERSION", recipe.PIPELINE_VERSION + 1)
        assert engine.import_collection("docs").updated == 29


def test_a_newer_program_upgrades_and_older_ones_go_on_reading(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = StoreSettings(engine="postgres", url=postgres_url)
    with monkeypatch.context() as old:
        # An index as the version before left it, with data in it.
        old.setattr(upgrade, "MIGRATIONS", schema.MIGRATIONS[:2])
        old.setattr(database, "MIGRATIONS", schema.MIGRATIONS[:2])
        PostgresStore(settings).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("INSERT INTO annai_collections OVERRIDING SYSTEM VALUE VALUES (1,'a','','/a',true,'','','')")
    with PostgresStore(settings) as running:
        assert "upgraded the index" in caplog.text
        running.write("a", [indexed("a.md", "apple")])
        more = (*schema.MIGRATIONS, "ALTER TABLE annai_files ADD COLUMN colour text NOT NULL DEFAULT ''")
        with monkeypatch.context() as new:
            new.setattr(upgrade, "MIGRATIONS", more)
            new.setattr(database, "MIGRATIONS", more)
            with PostgresStore(settings) as newer:
                newer.write("a", [indexed("b.md", "banana")])
        # The program that was running meanwhile, and one that is started now, read and do not write.
        for store in (running, PostgresStore(settings)):
            with contextlib.closing(store):
                assert {*store.states("a")} == {"a.md", "b.md"}
                with pytest.raises(NewerIndex, match="writes nothing; upgrade"):
                    store.save_collection(Collection("b", Path("/b")))
                with pytest.raises(NewerIndex):
                    store.requests.add("a", ["c.md"])
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE annai_schema SET readable_from = version")
    with pytest.raises(NewerIndex):
        PostgresStore(settings)


def test_two_replacements_at_once_lose_nothing(tmp_path: Path, postgres_url: str, source: Path) -> None:
    config = machine(tmp_path, postgres_url, "one")
    with Engine(config) as engine:
        engine.add_collection("docs", source, "All")
        engine.import_collection("docs")
    ready, errors = threading.Barrier(3), list[AnnaiError]()

    def replace() -> None:
        with Engine(config) as own:
            ready.wait(30)
            try:
                own.import_collection("docs", "replace")
            except AnnaiError as error:
                errors.append(error)

    threads = [threading.Thread(target=replace) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(isinstance(error, IndexBusy) for error in errors)
    assert len(errors) < 3
    assert documents(config) == FILES
    with PostgresStore(config.store) as store:
        assert [each.name for each in store.collections()] == ["docs"]
        assert len(store.inventory().sections) == FILES


def test_projects_share_a_database_and_never_a_schema(tmp_path: Path, postgres_url: str, source: Path) -> None:
    """The recipes of docs/scaling.md: `store.schema`, and a search_path that knows nothing of pgvector's schema."""
    team = machine(tmp_path, postgres_url, "one")
    with Engine(team) as engine:
        engine.add_collection("docs", source, "All")
        engine.import_collection("docs")
    wiki = override(team, "project", name="wiki")
    with pytest.raises(StoreError, match=r"belongs to the project 'team', and this one is 'wiki'.*store.schema"):
        Engine(wiki)
    name = f"wiki_{tmp_path.name.replace('-', '_')}"
    alone = postgres_url.replace("%2Cpublic", "")
    assert alone != postgres_url
    try:
        with Engine(override(wiki, "store", schema=name)) as engine:
            assert engine.list_collections() == []
            engine.add_collection("docs", source, "The same files, in an index of their own")
            engine.import_collection("docs")
            assert engine.search("word7")[0].path == "文書7.md"
        with Engine(override(team, "store", url=alone)) as engine:
            assert engine.search("word7")[0].path == "文書7.md"
            assert engine.store.size_on_disk() > 0
            engine.store.vacuum()
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())


def test_a_search_takes_few_statements(
    tmp_path: Path, postgres_url: str, source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (graphs, nearest):
        monkeypatch.setattr(module, "INDEX_FROM", 20)
    caplog.set_level("DEBUG", "annai.stores.postgres.database")
    with (
        Engine(machine(tmp_path, postgres_url, "one")) as owner,
        Engine(machine(tmp_path, postgres_url, "two")) as other,
    ):
        owner.add_collection("docs", source, "All")
        owner.import_collection("docs")
        owner.store.vacuum()
        # One of them asks, in the snapshot of the vectors, which model made them.
        for engine, expected, paths in ((owner, 13, ()), (other, 11, ()), (other, 13, ("文書7.md",))):
            engine.search("word7 document", paths=paths)
            caplog.clear()
            assert engine.search("word7 document", paths=paths)[0].path == "文書7.md"
            statements = [record.getMessage() for record in caplog.records if "[postgres]" in record.getMessage()]
            assert len(statements) <= expected, "\n".join(statements)
            assert any("hnsw.ef_search" in each for each in statements) == (not paths)


def plan(store: PostgresStore, sql: str, values: tuple[object, ...]) -> str:
    with store.snapshot():
        return "\n".join(row[0] for row in store._database.rows(f"EXPLAIN {sql}", values))


def test_restricted_searches_use_their_index(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (graphs, nearest):
        monkeypatch.setattr(module, "INDEX_FROM", 100)
    with PostgresStore(StoreSettings(engine="postgres", url=postgres_url)) as store:
        sizes, seeds = {"large": 900, "middle": 300, "small": 12}, {"large": 0, "middle": 1000, "small": 2000}
        with store.bulk():
            for name, size in sizes.items():
                store.save_collection(Collection(name, Path("/a")))
                store.write(
                    name,
                    [
                        indexed(f"{'guide' if n % 100 == 0 else 'api'}/{n}.md", f"word{n}", seed=seeds[name] + n)
                        for n in range(size)
                    ],
                )
        store.vacuum()
        asked: list[str] = []
        rows = store._database.rows

        def explain(sql: str, values: object = (), *, binary: bool = False) -> list[tuple[object, ...]]:
            if "<#>" in sql:
                # As if there were so many that reading all of them is out of the question.
                rows("SET LOCAL enable_seqscan = off")
                rows("SET LOCAL enable_sort = off")
                asked.append("\n".join(row[0] for row in rows(f"EXPLAIN {sql}", values)))
            return rows(sql, values, binary=binary)

        def explain_with(_: Mapping[str, object], sql: str, values: object = ()) -> list[tuple[object, ...]]:
            return explain(sql, values)

        monkeypatch.setattr(store._database, "rows", explain)
        monkeypatch.setattr(store._database, "rows_with", explain_with)
        numbers = {name: store._collections.number(name) for name in sizes}
        graph = f"annai_hnsw_{DIMENSION}"
        for where, seed, index in (
            (Where(), 7, f"{graph} "),
            (Where(("large",)), 7, f"{graph} "),
            (Where(("middle",)), 1007, f"{graph}_{numbers['middle']} "),
            (Where(("small",)), 2007, "annai_vectors_of_documents"),
            (Where(("large",), paths=("guide",)), 800, "annai_vectors_of_documents"),
        ):
            (found,) = nearest_paths(store, seed, limit=1, where=where)
            assert found.endswith(f"/{seed % 1000}.md")
            assert index in asked[-1], f"{where}\n{asked[-1]}"
            assert "Seq Scan on annai_vectors" not in asked[-1]
        monkeypatch.undo()
        under = plan(store, SELECT_STATES_UNDER, (["guide", "api/7.md"], "large", "large"))
        assert under.count("annai_files_collection_id_path_key") == 2
        assert "Seq Scan on annai_files" not in under
        assert len(store.states("large", ["guide", "api/7.md"])) == 10
        store.delete_collection("middle")
        store.vacuum()
        gone = "SELECT count(*) FROM pg_class WHERE relname LIKE %s AND relnamespace = %s::regnamespace"
        assert store._database.number(gone, (f"annai\\_hnsw\\_{DIMENSION}\\_%", store._database.schema)) == 0


PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@contextlib.contextmanager
def pooler(server: str) -> Iterator[str]:
    """The URL of a PgBouncer in transaction mode before a PostgreSQL."""
    parts = psycopg.conninfo.conninfo_to_dict(server)
    with memory_folder("pgbouncer") as folder:
        (folder / "users.txt").write_text('"postgres" ""\n')
        (folder / "pgbouncer.ini").write_text(
            f"""[databases]
            postgres = host={parts["host"]} port={parts.get("port", 5432)} dbname={parts["dbname"]}
            [pgbouncer]
            listen_addr =
            unix_socket_dir = {folder}
            listen_port = 6432
            auth_type = trust
            auth_file = {folder}/users.txt
            pool_mode = transaction
            default_pool_size = 6
            logfile = {folder}/log
            pidfile = {folder}/pid
            """.replace("            ", "")
        )
        user = Path(str(parts["host"])).owner()  # It refuses to be root, and must reach the server's socket.
        if os.getuid() == 0:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, user)
        process = subprocess.Popen([str(PGBOUNCER), "-u", user, "-q", str(folder / "pgbouncer.ini")])
        try:
            eventually((folder / ".s.PGSQL.6432").exists)
            yield f"postgresql://postgres@/postgres?host={folder}&port=6432"
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.skipif(
    PGBOUNCER is None and not os.environ.get("CI"), reason="no pgbouncer on this machine: apt-get install pgbouncer"
)
def test_everything_works_behind_a_pooler_in_transaction_mode(
    tmp_path: Path, postgres_folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (graphs, nearest):
        monkeypatch.setattr(module, "INDEX_FROM", 20)
    server = postgres_server(postgres_folder)
    name = f"pooled_{tmp_path.name.replace('-', '_')}"
    with pooler(server) as url:
        config = machine(tmp_path, url, "one", schema=name)
        try:
            with Engine(config) as engine:
                assert engine.store._database.is_pooled  # type: ignore[attr-defined]
                engine.add_collection("docs", source, "All")
                engine.import_collection("docs")
                for _ in range(7):  # As often as makes psycopg prepare a statement.
                    assert engine.search("word7")[0].path == "文書7.md"
                assert engine.import_collection("docs", "replace").added == FILES
                engine.store.vacuum()
                assert engine.search("word7", mode="vector")[0].path == "文書7.md"
            quick = dataclasses.replace(config.store, query_timeout_seconds=0.3)
            with PostgresStore(quick) as store, psycopg.connect(server) as blocker:
                blocker.execute(f"LOCK TABLE {name}.annai_files IN ACCESS EXCLUSIVE MODE".encode())
                with pytest.raises(StoreError, match=r"in time \(canceling statement due to user request\)"):
                    store.states("docs")
            with pytest.raises(StoreError, match=r"does not take the options in store.url.*store.schema"):
                PostgresStore(dataclasses.replace(config.store, url=f"{url}&options=-csearch_path%3Dx"))
        finally:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())
