"""Does the default store report what went wrong? The transactions of its file."""

import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from annai.stores.rows import read_halves
from annai.stores.sqlite import kept_vectors, postings
from annai.stores.sqlite.database import Database
from annai.stores.sqlite.passage_table import PassageTable
from annai.stores.sqlite.store import SqliteStore
from annai.types import Collection
from tests.stores.test_contract import DIMENSION, indexed


def test_the_error_that_ended_a_transaction_is_the_one_that_is_raised(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.sqlite")

    def fail_after(statement: str) -> None:
        database.rows(statement)
        raise ZeroDivisionError

    for transaction in (database.reading, database.writing):
        with pytest.raises(ZeroDivisionError), transaction():
            # As SQLite does by itself when the disk is full or fails.
            fail_after("ROLLBACK")
    with pytest.raises(ZeroDivisionError), database.writing():
        fail_after("UPDATE generation SET number = 77")
    assert database.number("SELECT number FROM generation") != 77
    database.close()


def test_every_finite_16_bit_float_is_read_as_it_is() -> None:
    bits = np.arange(1 << 16).astype(np.uint16)
    halves = bits.view(np.float16)
    is_finite = np.isfinite(halves)
    assert np.array_equal(read_halves(bits.view(np.int16))[is_finite], halves.astype(np.float32)[is_finite])


def test_lists_of_words_are_kept_up_to_a_limit_and_the_latest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MAX_KEPT_POSTINGS", 400)
    kept = postings._Kept(PassageTable([]))
    found = postings._Holders(np.zeros(70, np.int64), np.zeros(70, postings.POSTING))
    for word in ("a", "b", "c", "d"):
        kept.add(word, found)
    assert kept.get("a") is found
    kept.add("e", found)
    assert [word for word in "abcde" if kept.get(word)] == ["a", "c", "d", "e"]
    kept.add("longer than half", postings._Holders(np.zeros(201, np.int64), np.zeros(201, postings.POSTING)))
    assert kept.get("longer than half") is None


def test_passages_that_are_read_while_others_are_written_are_of_one_state(tmp_path: Path) -> None:
    file, stop, problems = tmp_path / "index.sqlite", threading.Event(), list[Exception]()

    def read() -> None:
        with SqliteStore(file) as reader:
            while not stop.is_set():
                try:
                    reader._passages.keys()  # outside of a transaction
                except Exception as error:
                    problems.append(error)
                    return

    with SqliteStore(file) as writer:
        writer.save_collection(Collection("a", Path("/a")))
        threads = [threading.Thread(target=read, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for version in range(200):
            writer.write("a", [indexed("a.md", f"version{version}", seed=version, parts=3)])
        stop.set()
        for thread in threads:
            thread.join()
    assert problems == []


def test_vectors_that_are_kept_are_those_of_the_file_and_of_nothing_that_was_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        kept_vectors, "MAX_BYTES", 3 * 2 * DIMENSION
    )  # places for three vectors, so that they take turns
    path, other = tmp_path / "index.sqlite", tmp_path / "other.sqlite"

    def write(file: Path, first: int) -> list[NDArray[np.float32]]:
        with SqliteStore(file) as store:
            store.save_collection(Collection("a", Path("/a")))
            store.write("a", [indexed(f"{number}.md", "apple", seed=first + number) for number in range(5)])
            return [*store.vectors(range(1, 6), DIMENSION)]

    expected, of_other = write(path, 0), write(other, 10)
    with SqliteStore(path) as store:
        for keys in ([1, 2, 3], [3, 4, 5], [1, 2, 3, 4, 5], [5, 1], [1]):
            np.testing.assert_array_equal(store.vectors(keys, DIMENSION), [expected[key - 1] for key in keys])
        assert not store.vectors([6], DIMENSION).any()
        store.write("a", [indexed("5.md", "apple", seed=5)])
        assert store.vectors([6], DIMENSION).any()
        database = store._database
        database.rows("BEGIN")
        database.rows("UPDATE vectors SET vector = zeroblob(length(vector))")
        assert not store.vectors([1, 2], DIMENSION).any()
        database.rows("ROLLBACK")
        np.testing.assert_array_equal(store.vectors([1, 2], DIMENSION), expected[:2])
        other.replace(path)
        np.testing.assert_array_equal(store.vectors([1, 2], DIMENSION), of_other[:2])
