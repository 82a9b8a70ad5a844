"""What if a file never rests, or a clock is wrong? Nothing is left out, and no search waits."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from annai.answers import Query
from annai.engine import Engine
from annai.indexing import pace
from annai.indexing.pace import Pace
from annai.stores.base import RequestResult
from annai.timer import timestamp
from annai.types import ImportSummary

Write = Callable[[str, str], Path]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files have times and writers as on Unix")


@contextmanager
def restless(file: Path) -> Iterator[None]:
    """Write to a file all the time, within the block."""
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.wait(0.001):
            number += 1
            with file.open("a") as stream:
                stream.write(f"line {number} of the log\n")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_search_does_not_wait_for_a_file_that_changes_all_the_time(engine: Engine, write: Write) -> None:
    write("a.md", "# A\n\napple")
    log = write("log.txt", "apple\n" + "words of a log\n" * 20_000)
    with restless(log):
        for _ in range(3):
            answer = engine.search(Query("apple", mode="keyword"))
            assert answer.freshness.waiting == 0
        found = {hit.path: hit.index_status for hit in answer.results}
        assert found == {"a.md": "latest", "log.txt": "updating"}
        indexed = [each for each in engine.requests("completed") if each.path == "log.txt"]
        assert len(indexed) <= 3
        # Who asks for it gets it at once.
        assert engine.rebuild(["log.txt"]).updated == 1
    engine.rebuild()
    assert not engine.requests("pending")
    hit, *_ = engine.search(Query("log", mode="keyword"), refresh=False).results
    assert hit.index_status == "latest"


def test_of_a_large_file_that_keeps_changing_a_search_says_that_its_newest_text_may_be_missing(
    engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.indexing.pace.QUIET_SECONDS", 3600.0)
    for number in range(20):
        write("note.md", f"# Note\n\nzebra{number}")
        answer = engine.search(Query(f"zebra{number}", mode="exact"))
        assert (len(answer.results), answer.freshness.waiting) == (1, 0), "what was saved is found, however often"
    monkeypatch.setattr("annai.engine.engine.AT_ONCE_BYTES", 5)
    told = []
    for number in range(pace.FREE_TIMES + 1):
        write("note.md", f"# Note\n\nlion{number}")
        told.append(engine.search(Query(f"lion{number}", mode="exact")).freshness.waiting)
    assert told == [*[0] * pace.FREE_TIMES, 1]
    monkeypatch.setattr("annai.engine.engine.AT_ONCE_BYTES", 1_000)
    answer = engine.search(Query(f"lion{number}", mode="exact"))
    assert (len(answer.results), answer.freshness.waiting) == (1, 0)


def test_the_pause_before_a_restless_file_grows_and_ends_when_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("annai.indexing.pace.time", SimpleNamespace(monotonic=lambda: now))
    restless = Pace()
    pauses = []
    for _ in range(15):
        restless.note("a", ["log.txt", "b.md"])
        now += 1.0
        pauses.append(restless.pause("a", "log.txt"))
    assert pauses == [*[0.0] * 5, 1.0, 2.0, 4.0, 8.0, 16.0, *[30.0] * 5]
    assert restless.pause("a", "b.md") == restless.pause("b", "log.txt") == 0.0
    now += pace.QUIET_SECONDS + 1
    assert restless.pause("a", "log.txt") == 0.0
    restless.note("a", ["log.txt"])
    assert restless.pause("a", "log.txt", changed_meanwhile=True) == pace.FIRST_PAUSE_SECONDS


def test_a_time_that_64_bits_do_not_hold_breaks_nothing(engine: Engine, write: Write) -> None:
    for name, seconds in (("far.md", 17_179_869_183), ("past.md", -2_147_483_648)):
        os.utime(write(name, "# A\n\napple"), (seconds, seconds))
    assert engine.import_collection() == ImportSummary(added=2)
    assert engine.import_collection() == ImportSummary(unchanged=2)
    assert len(engine.search(Query("apple")).results) == 2


@pytest.mark.parametrize("ahead", [600.0, 86_400.0 * 365])
def test_nothing_is_left_out_after_the_clock_was_set_back(
    engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    for number in range(20):
        write(f"{number}.md", "# A\n\napple")
    with monkeypatch.context() as clock:
        clock.setattr("annai.stores.sqlite.requests.timestamp", lambda seconds=0.0: timestamp(seconds + ahead))
        engine.queue_changes("root")
        (first,) = engine.store.requests.claim(1)
        engine.store.requests.finish([RequestResult(first.id, "pending", "no luck", pause=8)])
    assert engine.store.requests.due() >= 19
    assert engine.store.requests.due_in() == 0
    assert engine.import_collection() == ImportSummary(added=20)
