"""Does the work of indexing grow with the files and no faster? Steps are counted, not seconds."""

import difflib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from annai.asking.references import MAX_COMPARED, similar_paths
from annai.engine import Engine
from annai.files import walk
from annai.indexing import indexer
from annai.stores.base import Store
from annai.stores.memory import MemoryStore
from annai.stores.postgres.database import PostgresDatabase
from annai.stores.sqlite.requests import SqliteRequests
from annai.stores.sqlite.store import SqliteStore
from annai.types import Collection, FileState, Request
from tests.conftest import quick_config
from tests.engines import open_store, postgres_folder, postgres_url
from tests.stores.test_contract import indexed

__all__ = ["open_store", "postgres_folder", "postgres_url"]


@contextmanager
def steps_of(store: Store) -> Iterator[Callable[[], int]]:
    """Count the steps of SQLite's machine, by tens, within the block."""
    assert isinstance(store, SqliteStore)
    steps = itertools.count()
    # What is returned says whether to stop.
    store._database.connection.set_progress_handler(lambda: next(steps) < 0, 10)
    yield lambda: next(steps)
    store._database.connection.set_progress_handler(None, 0)


def test_what_is_known_of_some_files_is_read_without_looking_at_the_others(tmp_path: Path) -> None:
    counts = []
    for files in (1_000, 4_000):
        with SqliteStore(tmp_path / f"{files}.sqlite") as store:
            store.save_collection(Collection("a", Path("/a")))
            states = [FileState(f"folder{number % 10}/{number}.md", 1, 1, "x") for number in range(files)]
            store.write("a", states=states)
            store.requests.add("a", [state.path for state in states])
            wanted = [f"folder{number % 10}/{number}.md" for number in range(100)]
            with steps_of(store) as steps:
                assert store.states("a", wanted).keys() == {*wanted}
                assert {each.path for each in store.requests.pending("a", wanted)} == {*wanted}
                assert len(store.requests.get([1, 2, 3, files * 2])) == 3
            counts.append(steps())
    assert counts[1] <= counts[0] * 1.2


def test_taking_up_what_a_dead_process_left_grows_with_the_files_and_no_faster(tmp_path: Path) -> None:
    counts = []
    for files in (1_000, 4_000):
        with SqliteStore(tmp_path / f"{files}.sqlite") as store:
            store.save_collection(Collection("a", Path("/a")))
            paths = [f"{number}.md" for number in range(files)]
            store.requests.add("a", paths)
            store.requests.claim(files // 2)
            # The next process finds all of them again, and those that the dead one had taken wait until last.
            store.requests.add("a", paths)
            with steps_of(store) as steps:
                assert [each.path for each in store.requests.claim(files)] == paths[files // 2 :]
                assert store.requests.recover() == files
            counts.append(steps())
    assert counts[1] <= counts[0] * 4 * 1.5


def import_of(folder: Path, files: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many steps SQLite takes to import so many files of one folder, and how many entries are listed."""
    folder.mkdir()
    for number in range(files):
        (folder / f"{number}.md").write_text(f"# {number}\n\nThe word of it is word{number}.\n")
    listed = 0

    def scandir(path: str) -> Any:  # noqa: ANN401 - as the system has it
        nonlocal listed
        listed += len([*os.scandir(path)])
        return os.scandir(path)

    class Listing:
        """The module `os`, whose listings are counted."""

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
            return scandir if name == "scandir" else getattr(os, name)

    monkeypatch.setattr(walk, "os", Listing())
    with Engine(quick_config(folder)) as engine, steps_of(engine.store) as steps:
        assert engine.rebuild().added == files
    return steps(), listed


def test_importing_grows_with_the_files_and_no_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "CLAIM_FILES", 8)
    monkeypatch.setattr(indexer, "CLAIM_SECONDS", 0.0)
    few, many = (import_of(tmp_path / str(files), files, monkeypatch) for files in (200, 800))
    assert many[0] < 4 * few[0] * 1.5
    assert many[1] < 4 * few[1] * 1.5


def test_what_is_indexed_fast_is_claimed_many_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "CLAIM_FILES", 8)
    monkeypatch.setattr(indexer, "CLAIM_SECONDS", 10_000.0)
    claimed: list[int] = []
    claim = SqliteRequests.claim

    def counted(self: SqliteRequests, limit: int, collections: Sequence[str] | None = None) -> list[Request]:
        requests = claim(self, limit, collections)
        claimed.append(len(requests))
        return requests

    monkeypatch.setattr(SqliteRequests, "claim", counted)
    import_of(tmp_path / "docs", 100, monkeypatch)
    assert claimed == [8, 92]


def test_a_batch_is_the_same_number_of_round_trips_whatever_it_holds(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from annai.settings import StoreSettings
    from annai.stores.base import RequestResult
    from annai.stores.postgres.store import PostgresStore

    asked: list[str] = []
    rows = PostgresDatabase.rows

    def counted(self: PostgresDatabase, sql: str, *values: Any, **named: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401
        asked.append(sql)
        return rows(self, sql, *values, **named)

    monkeypatch.setattr(PostgresDatabase, "rows", counted)
    with PostgresStore(StoreSettings(engine="postgres", url=postgres_url)) as store:
        store.save_collection(Collection("a", tmp_path))
        counts = []
        for number, files in enumerate((4, 16)):
            paths = [f"{number}/{file}.md" for file in range(files)]
            store.requests.add("a", paths)
            claimed = store.requests.claim(100)
            asked.clear()
            store.write("a", [indexed(path) for path in paths])
            store.requests.finish([RequestResult(each.id, "completed") for each in claimed])
            counts.append(len(asked))
            assert store.states("a", [str(number)]).keys() == {*paths}
        assert counts[0] == counts[1]


def test_a_mistyped_path_is_compared_with_few_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.save_collection(Collection("a", Path("/a")))
    store.write("a", states=[FileState(f"notes/of/day-{number}.md", 1, 1, "x") for number in range(5_000)])
    store.write("a", states=[FileState("guide/deployment.md", 1, 1, "x")])
    compared = itertools.count()
    ratio = difflib.SequenceMatcher.real_quick_ratio
    monkeypatch.setattr(
        difflib.SequenceMatcher, "real_quick_ratio", lambda self: ratio(self) if next(compared) >= 0 else 0.0
    )
    assert similar_paths(store, ["a"], "guide/deploymnet.md") == ["guide/deployment.md"]
    assert next(compared) <= MAX_COMPARED + 1
