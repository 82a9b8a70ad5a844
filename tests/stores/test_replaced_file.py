"""What if the index file is deleted or replaced while it is open? Real files, threads and a real server."""

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from annai.answers import Query
from annai.config import load_config, override
from annai.engine import Engine
from annai.errors import StoreError
from annai.serving.client import Client
from annai.serving.pidfile import running
from annai.stores.sqlite.store import SqliteStore, open_store
from annai.types import Collection
from tests.conftest import Annai, quick_config, state_of
from tests.engines import qdrant_url
from tests.loopback import eventually
from tests.stores.test_contract import indexed, matching_paths, nearest_paths
from tests.stores.test_postgres import client_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows does not delete a file that is open")

FILES = 150
"""So many that a process of its own indexes them."""


def write_index(path: Path, **documents: str) -> None:
    """An index that another process wrote."""
    with SqliteStore(path) as store:
        store.save_collection(Collection("a", Path("/a")))
        store.write("a", [indexed(f"{name}.md", text, seed=7) for name, text in documents.items()])


def delete(path: Path) -> None:
    """Delete an index file and what belongs to it."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_file_that_is_replaced_is_read_by_every_thread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, other = tmp_path / "index.sqlite", tmp_path / "other.sqlite"
    write_index(path, apple="apple")
    write_index(other, pear="pear", plum="plum")
    with SqliteStore(path) as store, caplog.at_level(logging.WARNING):
        turn, answers = threading.Barrier(2), []

        def keep_asking() -> None:
            for _ in range(2):
                answers.append(sorted(matching_paths(store, "apple pear plum")))
                turn.wait()
                turn.wait()

        thread = threading.Thread(target=keep_asking)
        thread.start()
        turn.wait()
        assert nearest_paths(store, 7) == ["apple.md"]
        other.replace(path)
        assert sorted(nearest_paths(store, 7)) == ["pear.md", "plum.md"]
        turn.wait()
        turn.wait()
        turn.wait()
        thread.join()
        assert answers == [["apple.md"], ["pear.md", "plum.md"]]
        store.write("a", [indexed("fig.md", "fig", seed=9)])
        assert matching_paths(store, "fig") == ["fig.md"]
        assert len([each for each in caplog.records if "deleted or replaced" in each.message]) == 1
    with SqliteStore(path) as store:
        assert sorted(matching_paths(store, "apple pear plum fig")) == ["fig.md", "pear.md", "plum.md"]


def test_a_file_that_is_deleted_is_made_again_and_a_snapshot_goes_on_with_the_old_one(docs: Path) -> None:
    config = load_config(docs_dir=docs)
    with open_store(config) as store:
        write_index(config.database_path, apple="apple")
        with store.snapshot():
            assert matching_paths(store, "apple") == ["apple.md"]
            shutil.rmtree(config.state_folder)
            in_thread(lambda: store.save_collection(Collection("b", Path("/b"))))
            assert matching_paths(store, "apple") == ["apple.md"]
        assert matching_paths(store, "apple") == []
        assert [each.name for each in store.collections()] == ["b"]
        store.write("b", [indexed("pear.md", "pear")])
        assert matching_paths(store, "pear") == ["pear.md"]


@pytest.mark.parametrize("engine", ["lancedb", "chroma", "qdrant"])
def test_an_engine_beside_the_file_follows_it(docs: Path, engine: str) -> None:
    for name in ("apple", "pear"):
        (docs / f"{name}.md").write_text(f"# {name}\n\nAll about {name}.\n")
    config = override(quick_config(docs), "store", engine=engine, url=qdrant_url() if engine == "qdrant" else "")
    with Engine(config) as opened:
        opened.refresh()
        assert [hit.path for hit in opened.search(Query("apple", mode="vector")).results][:1] == ["apple.md"]
        (docs / "apple.md").unlink()
        delete(config.database_path)
        assert [hit.path for hit in opened.search(Query("pear", mode="vector")).results] == ["pear.md"]
        assert "apple.md" not in [hit.path for hit in opened.search(Query("apple", mode="vector")).results]
        assert isinstance(opened.store, SqliteStore)
        assert len(opened.store.inventory().vectors) == len(opened.store.inventory().sections)


def test_neither_a_project_that_is_gone_nor_its_state_is_made_again(docs: Path) -> None:
    config = load_config(docs_dir=docs)
    with open_store(config) as store:
        shutil.rmtree(docs)
        shutil.rmtree(config.state_folder)
        with pytest.raises(StoreError, match="is gone"):
            store.collections()
    assert not docs.exists()
    assert not config.state_folder.exists()


@contextmanager
def counted_children(pid: int) -> Iterator[set[int]]:
    """The processes that a process starts within the block."""
    seen: set[int] = set()
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(0.02):
            seen.update(child.pid for child in psutil.Process(pid).children(recursive=True))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        is_done.set()
        thread.join()


@contextmanager
def started_server(folder: Path) -> Iterator[int]:
    """The process of a server that writes a log."""
    Annai(folder)("server", "start", "--port", "auto")
    record = running(load_config(docs_dir=folder))
    assert record
    try:
        yield record.pid
    finally:
        process = psutil.Process(record.pid)
        process.terminate()
        psutil.wait_procs([process], timeout=60)


def test_a_server_whose_index_is_deleted_or_replaced_soon_answers_from_what_is_there(tmp_path: Path) -> None:
    folder, other = tmp_path / "docs", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
        (each / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
        for number in range(FILES):
            (each / f"{number}.md").write_text(f"# Document {number}\n\nThe word of it is word{number}.\n")
    (other / "0.md").write_text("# Elsewhere\n\nThe word of it is elsewhere.\n")
    Annai(other)("import")
    index = load_config(docs_dir=folder).database_path

    def finds(client: Client, word: str) -> bool:
        answer = client.search(Query(word, mode="keyword", limit=1))
        return [hit.path for hit in answer.results] == [f"{word.removeprefix('word')}.md"] and not (
            answer.freshness.waiting
        )

    with started_server(folder) as pid, client_of(folder) as client:
        eventually(lambda: finds(client, "word7"))
        with counted_children(pid) as started:
            delete(index)
            eventually(lambda: finds(client, "word149"))
            with SqliteStore(index) as now_there:
                assert now_there.statistics("root").documents == FILES
            load_config(docs_dir=other).database_path.replace(index)
            eventually(lambda: finds(client, "word0"))
            (folder / "new.md").write_text("# New\n\nThe word of it is wordnew.\n")
            eventually(lambda: finds(client, "wordnew"))
            assert not client.search(Query("elsewhere", mode="keyword")).results
        # One for each time that much had to be indexed, and perhaps one that found nothing left to do.
        assert len(started) <= 4
    assert (state_of(folder) / "server.log").read_text().count("was deleted or replaced") == 2
