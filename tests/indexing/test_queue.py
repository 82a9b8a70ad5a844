"""Does every store's queue keep its contract? Latest only, oldest first, nothing forgotten."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annai.stores.base import LONGEST_PAUSE_SECONDS, PROCESS_ENDED, RequestResult, Requests, Store
from annai.stores.memory import MemoryStore
from annai.stores.sqlite.store import SqliteStore
from annai.types import Collection, RequestStatus

OPENERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "index.sqlite"),
}


@pytest.fixture(params=OPENERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with OPENERS[request.param](tmp_path) as store:
        store.save_collection(Collection("a", Path("/a")))
        yield store


@pytest.fixture
def queue(store: Store) -> Requests:
    return store.requests


def states(queue: Requests) -> list[tuple[str, str]]:
    """Path and status of every request, oldest first."""
    return [(each.path, each.status) for each in sorted(queue.latest(limit=1000), key=lambda each: each.id)]


def test_the_oldest_is_claimed_first_and_only_once(queue: Requests) -> None:
    queue.add("a", ["one.md", "two.md"])
    queue.add("a", ["three.md"])
    assert [request.path for request in queue.claim(2)] == ["one.md", "two.md"]
    assert [request.path for request in queue.claim(10)] == ["three.md"]
    assert queue.claim(10) == []
    assert queue.counts() == {"processing": 3}


def test_a_newer_request_of_a_path_takes_the_older_ones_place(queue: Requests) -> None:
    queue.add("a", ["x.md"])
    queue.add("b", ["x.md"])
    queue.add("a", ["x.md"])
    assert states(queue) == [("x.md", "skipped"), ("x.md", "pending"), ("x.md", "pending")]
    assert [request.collection for request in queue.claim(10)] == ["b", "a"]


def test_a_path_that_is_being_processed_is_not_handed_out_again(queue: Requests) -> None:
    queue.add("a", ["x.md"])
    (first,) = queue.claim(10)
    queue.add("a", ["x.md"])
    assert queue.claim(10) == []
    queue.finish([RequestResult(first.id, "completed", hash="h")])
    (second,) = queue.claim(10)
    assert second.id != first.id
    assert queue.latest("completed")[0].hash == "h"


def test_a_failed_attempt_waits_its_pause_and_stays_visible_with_its_error(queue: Requests) -> None:
    queue.add("a", ["x.md"])
    (request,) = queue.claim(1)
    queue.finish([RequestResult(request.id, "pending", "no luck", pause=60)])
    (waiting,) = queue.latest("pending")
    assert (waiting.error, waiting.attempts) == ("no luck", 1)
    assert queue.claim(1) == []
    assert queue.due() == 0
    assert 50 < (queue.due_in() or 0) <= 60


def test_an_attempt_that_failed_steps_back_for_a_newer_request(queue: Requests) -> None:
    queue.add("a", ["x.md"])
    (request,) = queue.claim(1)
    queue.add("a", ["x.md"])
    queue.finish([RequestResult(request.id, "pending", "no luck")])
    assert states(queue) == [("x.md", "skipped"), ("x.md", "pending")]


def test_only_what_is_being_processed_can_be_finished(queue: Requests) -> None:
    (number,) = queue.add("a", ["x.md"])
    queue.finish([RequestResult(number, "completed"), RequestResult(999, "completed")])
    assert states(queue) == [("x.md", "pending")]


def test_what_a_dead_process_left_goes_back_into_the_queue(queue: Requests) -> None:
    queue.add("a", ["x.md", "y.md"])
    queue.claim(10)
    queue.add("a", ["y.md"])
    assert queue.recover() == 2
    assert states(queue) == [("x.md", "pending"), ("y.md", "skipped"), ("y.md", "pending")]
    assert {(each.attempts, each.error) for each in queue.latest("pending")} == {(1, PROCESS_ENDED)}
    assert queue.due() == 2
    assert queue.due_in() == 0


def test_what_a_process_gives_back_itself_is_no_attempt(queue: Requests) -> None:
    queue.add("a", ["x.md", "y.md"])
    queue.claim(10)
    queue.add("a", ["y.md"])
    assert queue.recover(died=False) == 2
    assert states(queue) == [("x.md", "pending"), ("y.md", "skipped"), ("y.md", "pending")]
    assert {(each.attempts, each.error) for each in queue.latest("pending")} == {(0, "")}


def test_a_request_may_be_queued_for_later(queue: Requests) -> None:
    queue.add("a", ["now.md"])
    queue.add("a", ["later.md"], pause=60, error="it keeps changing")
    queue.add("b", ["later.md"], pause=120)
    assert [request.path for request in queue.claim(10)] == ["now.md"]
    assert queue.due() == 1
    assert 50 < (queue.due_in(["a"]) or 0) <= 60
    assert 110 < (queue.due_in(["b"]) or 0) <= 120
    assert queue.due_in(["c"]) is None
    assert queue.latest("pending", "a")[0].error == "it keeps changing"
    queue.add("a", ["later.md"])
    assert queue.due_in() == 0


def test_what_is_due_later_than_any_pause_is_due_now(queue: Requests) -> None:
    """Its time was written before the clock was set back."""
    queue.add("a", ["x.md"], pause=LONGEST_PAUSE_SECONDS + 100)
    assert (queue.due(), queue.due_in()) == (1, 0)
    assert [request.path for request in queue.claim(1)] == ["x.md"]


def test_old_requests_are_forgotten_and_waiting_ones_never(queue: Requests) -> None:
    queue.add("a", ["done.md", "waiting.md"])
    done = queue.claim(1)[0]
    queue.finish([RequestResult(done.id, "completed")])
    queue.prune(older_than=3600)
    assert len(states(queue)) == 2
    queue.prune(older_than=-1)
    assert states(queue) == [("waiting.md", "pending")]


def test_a_collections_requests_go_when_it_does(store: Store) -> None:
    store.requests.add("a", ["x.md"])
    store.requests.add("b", ["x.md"])
    store.delete_collection("a")
    assert [request.collection for request in store.requests.latest()] == ["b"]


RESULTS: dict[str, RequestStatus] = {"complete": "completed", "retry": "pending", "fail": "failed"}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.sampled_from("xyz"), max_size=4)),
        st.tuples(st.just("claim"), st.integers(1, 3)),
        st.tuples(st.sampled_from([*RESULTS, "recover"]), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_no_path_is_ever_pending_twice_or_processed_twice(store: Store, steps: list[tuple[str, object]]) -> None:
    queue = store.requests
    store.delete_collection("a")
    store.save_collection(Collection("a", Path("/a")))
    for what, value in steps:
        processing = queue.latest("processing")
        if what == "add" and isinstance(value, list):
            queue.add("a", value)
        elif what == "claim" and isinstance(value, int):
            queue.claim(value)
        elif what == "recover":
            queue.recover()
        elif processing:
            queue.finish([RequestResult(processing[0].id, RESULTS[what])])
        for requests in (queue.latest("pending"), queue.latest("processing")):
            paths = [request.path for request in requests]
            assert len(paths) == len(set(paths))
