"""Can a team share an index in PostgreSQL? Several servers and workers, some of which die, on one real database."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from annai.answers import Query, Where
from annai.config import Config, load_config
from annai.engine import Engine
from annai.errors import AnnaiError, NewerIndex, StoreError, StoreFull, StoreReadOnly
from annai.serving.client import Client
from annai.serving.pidfile import read_token, running
from annai.settings import StoreSettings
from annai.stores.base import PROCESS_ENDED
from annai.stores.postgres import database, graphs, postings, upgrade
from annai.stores.postgres.store import PostgresStore, open_store
from annai.text.fields import FieldWeights
from annai.text.tokens import query_words
from annai.types import Collection
from annai.upkeep.worker import Worker
from tests.conftest import Annai, trust
from tests.engines import postgres_folder, postgres_url
from tests.loopback import eventually
from tests.stores.test_contract import DESCRIBED, described, indexed, matching_paths, nearest_paths

__all__ = ["postgres_folder", "postgres_url"]

FILES = 600


def settings(url: str) -> StoreSettings:
    return StoreSettings(engine="postgres", url=url, lease_seconds=2.0)


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with PostgresStore(settings(postgres_url)) as store:
        store.save_collection(Collection("a", Path("/a")))
        yield store


def project(folder: Path, url: str) -> Path:
    """A project on a machine of its own, as far as it knows."""
    folder.mkdir()
    (folder / "annai.toml").write_text(
        f'[store]\nengine = "postgres"\nurl = "{url}"\nlease_seconds = 2.0\n'
        '[project]\nname = "team"\n[embedding]\nprovider = "hashing"\n'
    )
    trust(folder)
    return folder


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A server with its worker, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "annai", "server", "start", "--foreground", "--port", "auto"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        assert "Serving" in process.stdout.readline()
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        if process.stdout:
            process.stdout.close()


def test_two_servers_share_the_work_and_one_that_is_killed_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(FILES):
        (source / f"{number}.md").write_text(f"# Document {number}\n\nThe word of it is word{number}.\n")
    first, second = project(tmp_path / "first", postgres_url), project(tmp_path / "second", postgres_url)
    with PostgresStore(settings(postgres_url)) as watcher, serving(first) as doomed, serving(second):
        # Only now is there something to do, for both at once.
        watcher.save_collection(Collection("docs", source, "All"))

        def done() -> int:
            return watcher.statistics("docs").documents

        eventually(lambda: done() > 0)
        assert done() < FILES
        os.kill(doomed.pid, signal.SIGKILL)
        doomed.wait(60)
        answers: list[str] = []

        def all_is_done() -> bool:
            answers.append(
                Annai(second)(
                    "search", "word of it", "--format", "files", "--server", client_of(second).connection.url
                ).stdout
            )
            return done() == FILES and not watcher.requests.due()

        eventually(all_is_done)
        assert all(answers)
        counts = watcher.requests.counts()
        assert set(counts) <= {"completed", "skipped"}
        assert watcher.statistics("docs").documents == FILES
        assert len(watcher.states("docs")) == FILES
        inventory = watcher.inventory()
        # A document of this kind is one section, which is there once, with its vector and its words.
        assert len(inventory.sections) == len(inventory.vectors) == len(inventory.passages) == FILES
        assert matching_paths(watcher, "word7", limit=1) == ["7.md"]


def client_of(folder: Path) -> Client:
    """The project, through its server."""
    config = load_config(docs_dir=folder)
    record = running(config)
    assert record
    return Client(record.url, token=read_token(config))


def test_workers_reconnect_when_the_server_restarts(tmp_path: Path, postgres_url: str) -> None:
    folder = project(tmp_path / "docs", postgres_url)
    for number in range(200):
        (folder / f"{number}.md").write_text(f"# Document {number}\n\nword{number}\n")
    with Engine(load_config(docs_dir=folder)) as engine, Worker(engine):
        eventually(lambda: engine.store.statistics("root").documents > 0)
        # As a restart does it to every connection there is.
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query <> ''"
                " AND backend_type = 'client backend'"
            )
        eventually(lambda: _documents(engine) == 200)
        answer = engine.search(Query("word17", mode="keyword"))
        assert answer.results[0].path == "17.md"


def _documents(engine: Engine) -> int:
    try:
        return engine.store.statistics("root").documents
    except StoreError:
        return 0


def test_a_dead_workers_claim_goes_to_the_next_after_its_lease(postgres_url: str) -> None:
    with PostgresStore(settings(postgres_url)) as living:
        living.save_collection(Collection("a", Path("/a")))
        living.requests.add("a", ["x.md"])
        dead = PostgresStore(settings(postgres_url))
        assert len(dead.requests.claim(1)) == 1
        assert living.requests.claim(1) == []
        assert living.requests.recover() == 0
        dead.close()
        eventually(lambda: len(living.requests.claim(1)) == 1)
        (request,) = living.requests.latest("processing")
        assert (request.attempts, request.error) == (1, PROCESS_ENDED)
        # This process has not died.
        assert living.requests.recover() == 1
        assert living.requests.latest("pending")[0].attempts == 1


def test_a_living_workers_claim_is_renewed_for_as_long_as_it_takes(postgres_url: str) -> None:
    with PostgresStore(settings(postgres_url)) as slow, PostgresStore(settings(postgres_url)) as other:
        slow.save_collection(Collection("a", Path("/a")))
        slow.requests.add("a", ["x.md"])
        assert len(slow.requests.claim(1)) == 1

        def leases() -> set[object]:
            with psycopg.connect(postgres_url) as connection:
                return {row[0] for row in connection.execute("SELECT leased_until FROM annai_requests").fetchall()}

        before = leases()
        eventually(lambda: leases() != before)
        assert other.requests.claim(1) == []


def test_a_machine_without_the_files_serves_and_leaves_indexing_to_others(tmp_path: Path, postgres_url: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.md").write_text("# A\n\napple\n")
    with Engine(load_config(docs_dir=project(tmp_path / "pusher", postgres_url))) as pusher:
        pusher.add_collection("docs", source, "All")
        pusher.refresh()
    elsewhere = tmp_path / "elsewhere"
    source.rename(elsewhere)
    with Engine(load_config(docs_dir=project(tmp_path / "server", postgres_url))) as server:
        server.store.requests.add("docs", ["a.md"])
        server.refresh()
        assert server.search(Query("apple")).results[0].path == "a.md"
        assert server.store.requests.counts() == {"completed": 1, "pending": 1}


def test_large_numbers_of_passages_get_an_index_that_finds_nearly_all(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "INDEX_FROM", 500)
    with store.bulk():
        store.write(
            "a", [indexed(f"{number}/x.md", f"word{number}", seed=number * 100, parts=30) for number in range(40)]
        )
    with psycopg.connect(store._settings.url) as connection:
        names = {row[0] for row in connection.execute("SELECT indexname FROM pg_indexes").fetchall()}
    assert "annai_hnsw_256" in names
    assert nearest_paths(store, 707, limit=1) == ["7/x.md"]
    # So narrow that the index gives up long before.
    assert nearest_paths(store, 707, Where(paths=("31",)), limit=30) == ["31/x.md"] * 30
    assert nearest_paths(store, 707, Where(paths=("nowhere",))) == []


def test_a_graph_whose_building_was_cut_off_is_built_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "INDEX_FROM", 100)
    store.write("a", [indexed(f"{number}.md", seed=number * 100, parts=30) for number in range(5)])
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'annai_hnsw_256'::regclass"
    with psycopg.connect(store._settings.url, autocommit=True) as connection:
        assert connection.execute(valid).fetchone() == (True,)
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'annai_hnsw_256'::regclass")
        store.write("a", [indexed("more.md")])
        assert connection.execute(valid).fetchone() == (True,)


def test_lists_are_merged_and_forget_what_was_deleted(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"zz{letter * 4}" for letter in "abcdefghijklmnopqrst"]
    for number, name in enumerate(names):
        store.write("a", [indexed("a.md", f"apple {name}"), indexed(f"{number}.md", "apple")])
    with psycopg.connect(store._settings.url) as connection:
        (segments,) = connection.execute("SELECT count(*) FROM annai_segments").fetchone() or (0,)
        (tombstones,) = connection.execute("SELECT count(*) FROM annai_tombstones").fetchone() or (0,)
    assert segments < 10
    assert tombstones == 19
    assert matching_paths(store, names[3]) == []
    assert matching_paths(store, names[19]) == ["a.md"]
    monkeypatch.setattr("annai.stores.postgres.postings.MIN_TOMBSTONES", 1)
    store.write("a", [indexed("a.md", "apple last")])
    with psycopg.connect(store._settings.url) as connection:
        assert connection.execute("SELECT count(*) FROM annai_tombstones").fetchone() == (0,)
    assert matching_paths(store, names[19]) == []
    assert len(matching_paths(store, "apple", limit=50)) == 21


def test_a_passage_that_is_written_and_deleted_during_a_compaction_stays_deleted(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes at the worst moments: between what a compaction reads first and what it reads next."""
    store.write("a", [indexed("a.md", "apple"), indexed("b.md", "pear")])
    store.write("a", removed=["b.md"])
    read_tombstones = postings._read_tombstones
    with PostgresStore(store._settings) as other, monkeypatch.context() as patch:

        def write_and_delete(word: str) -> None:
            other.write("a", [indexed(f"{word}.md", word)])
            other.write("a", removed=[f"{word}.md"])

        def read_while_another_writes(opened: database.PostgresDatabase) -> postings.Tombstones:
            write_and_delete("ghost0")
            found = read_tombstones(opened)
            write_and_delete("ghost1")
            return found

        patch.setattr(postings, "_read_tombstones", read_while_another_writes)
        postings.compact(store._database, always=True)
    assert store.holding(["ghost0", "ghost1", "pear"]) == {}
    assert matching_paths(store, "ghost0 ghost1 apple") == ["a.md"]
    assert store.inventory().passages.tolist() == store.inventory().sections.tolist()
    postings.compact(store._database, always=True)
    with psycopg.connect(store._settings.url) as connection:
        assert connection.execute("SELECT count(*) FROM annai_postings WHERE word LIKE 'ghost%'").fetchone() == (0,)


def test_passages_buried_twice_stay_deleted() -> None:
    buried = postings.Tombstones([(10, 5), (11, 1), (20, 2)])
    keys = np.array([(key, 0, 1, 0, 0, 0, 1) for key in (9, 10, 11, 12, 14, 15, 21, 22)], postings.POSTING)
    assert buried.filter(keys)["low"].tolist() == [9, 15, 22]


def test_a_word_too_common_to_be_read_counts_as_common(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("a", [indexed(f"{number}.md", "common", seed=number) for number in range(30)])
    store.write("a", [indexed("rare.md", "common zebra", seed=50)])

    def best() -> float:
        (found,) = store.matching(query_words("zebra common"), FieldWeights(), 1, Where())
        assert store.lookup([found.key])[found.key].path == "rare.md"
        return found.score

    whole = best()
    monkeypatch.setattr(postings, "MAX_POSTINGS", 10)
    # It lacks only what the common word adds, which is next to nothing.
    assert best() == pytest.approx(whole, abs=0.02)


def test_the_error_that_ended_a_transaction_is_the_one_that_is_raised(store: PostgresStore) -> None:
    def fail() -> None:
        (process,) = store._database.rows("SELECT pg_backend_pid()")
        with psycopg.connect(store._settings.url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", process)
        raise ZeroDivisionError

    for transaction in (store._database.writing, store.snapshot, store._database.unlimited):
        with pytest.raises(ZeroDivisionError), transaction():
            fail()
    assert [each.name for each in store.collections()] == ["a"]


def test_graphs_are_built_again_with_other_settings(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("graphs", "nearest"):
        monkeypatch.setattr(f"annai.stores.postgres.{module}.INDEX_FROM", 10)
    store.save_collection(Collection("b", Path("/b")))
    for name, size in (("a", 30), ("b", 12)):
        store.write(name, [indexed(f"{n}.md", f"word{n}", seed=n) for n in range(size)])
    store.vacuum()
    options = "SELECT relname, reloptions FROM pg_class WHERE relname LIKE %s AND relnamespace = %s::regnamespace"

    def graphs() -> dict[str, list[str]]:
        return dict(store._database.rows(options, ("annai%\\_256%", store._database.schema)))

    before = graphs()
    assert len(before) == 2
    store.apply_settings()
    assert graphs() == before
    with PostgresStore(dataclasses.replace(store._settings, hnsw_m=8)) as other:
        # What was cut off in the middle is done again.
        store._database.rows('CREATE INDEX "annai_replacement_256" ON annai_vectors (dimension)')
        found = nearest_paths(other, 7, limit=3)
        other.apply_settings()
        assert graphs() == {name: ["m=8", "ef_construction=200"] for name in before}
        assert nearest_paths(other, 7, limit=3) == found
        other.apply_settings()
        assert graphs() == {name: ["m=8", "ef_construction=200"] for name in before}


def test_what_another_machine_is_building_is_not_taken_for_abandoned(store: PostgresStore) -> None:
    with PostgresStore(store._settings) as other:
        with other.bulk():
            other.save_collection(Collection("a:building", Path("/a")))
            store.delete_abandoned()
            assert [each.name for each in store.collections()] == ["a", "a:building"]
        store.delete_abandoned()
        assert [each.name for each in store.collections()] == ["a"]


def test_a_query_that_takes_too_long_is_given_up_and_named(postgres_url: str) -> None:
    limited = dataclasses.replace(settings(postgres_url), query_timeout_seconds=0.5)
    with PostgresStore(limited) as store, psycopg.connect(postgres_url) as blocker:
        store.save_collection(Collection("a", Path("/a")))
        blocker.execute("LOCK TABLE annai_files IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreError, match=r"did not finish 'SELECT path, .*query_timeout_seconds \(now 0.5\)"):
            store.states("a")
        with pytest.raises(StoreError, match=r"did not finish 'INSERT INTO annai_files"):
            store.write("a", [indexed("a.md", "apple")])
        blocker.rollback()
        store.write("a", [indexed("a.md", "apple")])
        assert matching_paths(store, "apple") == ["a.md"]
        # Upkeep may take its time.
        with store._database.unlimited():
            store._database.rows("SELECT pg_sleep(0.8)")
        assert store._database.rows("SHOW statement_timeout") == [("500ms",)]


def opening_error(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(Config(Path("/"), Path("/"), store=StoreSettings(engine="postgres", url=url)))
    return str(caught.value)


def test_why_an_index_cannot_be_opened_is_one_sentence(postgres_url: str) -> None:
    assert "names no database" in opening_error("")
    assert "cannot be reached" in opening_error("postgresql://nobody@127.0.0.1:1/none")
    assert "postgresql://USER" in opening_error("this is no URL")
    assert "secret" not in opening_error("postgresql://nobody:secret@127.0.0.1:1/none")
    server, _, options = postgres_url.partition("?")
    assert "does not exist" in opening_error(f"{server.rpartition('/')[0]}/missing?{options.partition('&options')[0]}")


def test_errors_of_the_server_become_sentences(store: PostgresStore) -> None:
    opened = store._database
    for error, kind, words in (
        (psycopg.errors.DiskFull("could not extend file"), StoreFull, "no space left"),
        (psycopg.errors.ReadOnlySqlTransaction("in recovery"), StoreReadOnly, "cannot be written"),
        (psycopg.errors.UndefinedFile("vector.control"), StoreError, "pgvector"),
        (psycopg.errors.InsufficientPrivilege("permission denied"), StoreError, "GRANT ALL"),
        (psycopg.OperationalError('password authentication failed for user "x"'), StoreError, "password"),
        (psycopg.OperationalError("server closed the connection"), StoreError, "Nothing is lost"),
        (psycopg.errors.DataException("odd"), StoreError, "refused"),
    ):
        with pytest.raises(kind, match=words), opened.translate_errors():
            raise error


def test_a_missing_right_an_old_extension_and_a_newer_index_are_reported(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS annai_guest")
        connection.execute("CREATE ROLE annai_guest LOGIN")
    guest = postgres_url.replace("postgres:@", "annai_guest@").replace("user=postgres", "user=annai_guest")
    if guest != postgres_url:
        assert "may not" in opening_error(guest)
    monkeypatch.setattr(upgrade, "MIN_PGVECTOR", (99, 0))
    assert "annai needs" in opening_error(postgres_url)
    monkeypatch.undo()
    PostgresStore(settings(postgres_url)).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE annai_schema SET version = 99, readable_from = 99")
    with pytest.raises(NewerIndex):
        PostgresStore(settings(postgres_url))


def test_two_who_open_a_new_index_at_once_make_it_once(postgres_url: str) -> None:
    problems: list[AnnaiError] = []

    def open_it() -> None:
        try:
            PostgresStore(settings(postgres_url)).close()
        except AnnaiError as error:
            problems.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_read_replica_can_be_searched_and_not_written(postgres_url: str) -> None:
    with PostgresStore(settings(postgres_url)) as store:
        store.save_collection(Collection("a", Path("/a")))
        store.write("a", [indexed("a.md", "apple")])
    replica = postgres_url.replace("search_path", "default_transaction_read_only%3Don%20-csearch_path")
    with PostgresStore(settings(replica)) as reader:
        assert reader.read_only
        assert matching_paths(reader, "apple") == ["a.md"]
        with pytest.raises(StoreReadOnly):
            reader.write("a", [indexed("b.md", "banana")])


def test_a_server_on_a_read_replica_has_no_worker(tmp_path: Path, postgres_url: str) -> None:
    PostgresStore(settings(postgres_url)).close()
    replica = postgres_url.replace("search_path", "default_transaction_read_only%3Don%20-csearch_path")
    with Engine(load_config(docs_dir=project(tmp_path / "replica", replica))) as engine, Worker(engine):
        assert engine.read_only
        assert engine.wake is None


def test_an_older_index_tells_what_documents_say_about_themselves(postgres_url: str) -> None:
    with PostgresStore(settings(postgres_url)) as store:
        store.save_collection(Collection("a", Path("/a")))
        store.write("a", described(DESCRIBED))
        fields, tags = store.fields("a"), sorted(store.metadata("a", "tags"))
        assert tags
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP TABLE annai_metadata")
        connection.execute("DROP INDEX annai_vectors_of_documents")
        connection.execute("ALTER TABLE annai_collections DROP COLUMN owner, DROP COLUMN origin, DROP COLUMN probe")
        connection.execute("UPDATE annai_schema SET version = 3")
    replica = postgres_url.replace("search_path", "default_transaction_read_only%3Don%20-csearch_path")
    # A replica has it when its primary was upgraded, by whoever may write.
    assert "it is of an older annai" in opening_error(replica)
    for url in (postgres_url, replica):
        with PostgresStore(settings(url)) as opened:
            assert (opened.fields("a"), sorted(opened.metadata("a", "tags"))) == (fields, tags)
            assert opened.read_only is (url == replica)
