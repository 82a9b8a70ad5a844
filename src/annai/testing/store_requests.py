"""Does a store keep the queue? The latest request of a path wins, and nobody gets one that another has."""

import threading
from dataclasses import replace
from pathlib import Path

from annai.answers import Where
from annai.stores.base import LONGEST_PAUSE_SECONDS, RequestResult, Store
from annai.testing.store_samples import Opener, indexed, matching_paths, nearest_paths
from annai.timer import timestamp
from annai.types import Collection


def statuses(store: Store) -> dict[str, str]:
    """The status of the latest request of each path."""
    return {each.path: each.status for each in reversed(store.requests.latest())}


def test_of_one_path_the_latest_request_wins(store: Store) -> None:
    (first,) = store.requests.add("a", ["x.md"])
    second, other = store.requests.add("a", ["x.md", "nul\0.md", "x.md"])
    assert first < second < other
    assert {each.id: each.status for each in store.requests.latest()} == {
        first: "skipped",
        second: "pending",
        other: "pending",
    }
    assert [each.path for each in store.requests.claim(10)] == ["x.md", "nul\0.md"]
    assert store.requests.counts() == {"skipped": 1, "processing": 2}


def test_a_claim_takes_the_oldest_and_no_path_twice(store: Store) -> None:
    store.save_collection(Collection("b", Path("/b")))
    store.requests.add("a", ["1.md", "2.md", "3.md"])
    store.requests.add("b", ["1.md"])
    assert [each.path for each in store.requests.claim(2)] == ["1.md", "2.md"]
    store.requests.add("a", ["1.md"])
    assert [(each.collection, each.path) for each in store.requests.claim(10, ["b"])] == [("b", "1.md")]
    assert [each.path for each in store.requests.claim(10)] == ["3.md"]
    assert store.requests.claim(10) == []
    assert store.requests.due() == 4, "one file waits while it is being processed"
    assert store.requests.due(["b"]) == 1


def test_what_is_to_be_done_first_is_claimed_before_all_others(store: Store) -> None:
    store.requests.add("a", ["1.md", "2.md", "3.md"])
    store.requests.add("a", ["3.md", "4.md"], first=True)
    store.requests.add("a", ["5.md"], first=True)
    store.requests.add("a", ["6.md"])
    assert [each.path for each in store.requests.claim(2)] == ["5.md", "3.md"]
    assert [each.path for each in store.requests.claim(9)] == ["4.md", "1.md", "2.md", "6.md"]


def test_what_is_finished_is_written_down(store: Store) -> None:
    store.requests.add("a", ["good.md", "bad.md", "again.md"])
    good, bad, again = store.requests.claim(10)
    store.requests.finish(
        [
            RequestResult(good.id, "completed", hash="abc"),
            RequestResult(bad.id, "failed", "it is broken"),
            RequestResult(again.id, "pending", "not yet", pause=3600.0),
        ]
    )
    found = {each.path: each for each in store.requests.latest()}
    assert (found["good.md"].status, found["good.md"].hash) == ("completed", "abc")
    assert found["good.md"].created_at <= found["good.md"].started_at <= found["good.md"].completed_at
    assert (found["bad.md"].status, found["bad.md"].error) == ("failed", "it is broken")
    assert (found["again.md"].status, found["again.md"].attempts, found["again.md"].completed_at) == ("pending", 1, "")
    assert store.requests.claim(10) == []
    assert store.requests.due() == 0
    assert 3500 < (store.requests.due_in() or 0) <= 3600
    assert [each.path for each in store.requests.latest("failed", "a")] == ["bad.md"]


def test_the_history_has_what_ended_last_first_and_knows_folders(store: Store) -> None:
    paths = ["guide/one.md", "guide/two.md", "guide0.md", "it's.md"]
    numbers = dict(zip(paths, store.requests.add("a", paths), strict=True))
    store.requests.add("b", ["guide/one.md"])
    store.requests.claim(10, ["a"])
    for path in reversed(paths[1:]):
        store.requests.finish([RequestResult(numbers[path], "completed")])
        now = timestamp()  # to the millisecond
        while timestamp() == now:
            pass
    # What is done first has a number below all others.
    store.requests.add("a", ["late.md"], first=True)
    (late,) = store.requests.claim(1, ["a"])
    store.requests.finish([RequestResult(late.id, "completed")])
    assert [each.path for each in store.requests.latest(collection="a")] == [
        *("guide/one.md", "late.md", "guide/two.md", "guide0.md", "it's.md"),
    ]
    assert [each.path for each in store.requests.latest("completed", limit=2)] == ["late.md", "guide/two.md"]
    assert [each.path for each in store.requests.latest(None, "a", under=["guide"])] == ["guide/one.md", "guide/two.md"]
    assert [each.path for each in store.requests.latest("completed", "a", under=["guide", "it's.md"])] == [
        *("guide/two.md", "it's.md"),
    ]
    number = numbers["it's.md"]
    (done,) = store.requests.get([number])
    store.requests.record([replace(done, id=0, path="anew.md", status="failed", error="it's broken")])
    store.requests.record([])
    (added,) = store.requests.latest("failed", "a")
    assert added == replace(done, id=added.id, path="anew.md", status="failed", error="it's broken")
    assert added.id > number
    assert store.requests.latest(None, "a", under=[]) == store.requests.latest(None, "a", under=["nothing"]) == []


def test_a_retry_steps_back_for_a_newer_request(store: Store) -> None:
    store.requests.add("a", ["x.md"])
    (claimed,) = store.requests.claim(1)
    (newer,) = store.requests.add("a", ["x.md"])
    assert store.requests.due() == 1, "it is one file"
    store.requests.finish([RequestResult(claimed.id, "pending", "not yet")])
    assert {each.id: each.status for each in store.requests.latest()} == {claimed.id: "skipped", newer: "pending"}


def test_what_was_left_half_done_waits_again(store: Store) -> None:
    store.requests.add("a", ["x.md", "y.md"])
    assert len(store.requests.claim(10)) == 2
    store.requests.add("a", ["y.md"])
    assert store.requests.recover() == 2
    assert statuses(store) == {"x.md": "pending", "y.md": "pending"}
    assert store.requests.counts() == {"pending": 2, "skipped": 1}
    assert store.requests.due_in() == 0
    assert len(store.requests.claim(10)) == 2


def test_a_request_may_be_queued_for_later_but_not_later_than_the_longest_pause(store: Store) -> None:
    store.requests.add("a", ["later.md"], pause=60, error="it keeps changing")
    assert (store.requests.claim(10), store.requests.due()) == ([], 0)
    assert 50 < (store.requests.due_in(["a"]) or 0) <= 60
    assert store.requests.due_in(["b"]) is None
    assert store.requests.latest("pending")[0].error == "it keeps changing"
    # Written before the clock was set back.
    store.requests.add("a", ["x.md"], pause=LONGEST_PAUSE_SECONDS + 100)
    assert (store.requests.due(), store.requests.due_in()) == (1, 0)
    assert [each.path for each in store.requests.claim(10)] == ["x.md"]


def test_old_requests_are_forgotten_and_those_of_a_collection_go_with_it(store: Store) -> None:
    store.requests.add("a", ["done.md", "waiting.md"])
    (done,) = store.requests.claim(1)
    store.requests.finish([RequestResult(done.id, "completed")])
    store.requests.prune(3600.0)
    assert len(store.requests.latest()) == 2
    store.requests.prune(-1.0)
    assert statuses(store) == {"waiting.md": "pending"}
    store.delete_collection("a")
    assert store.requests.latest() == []
    assert store.requests.due_in() is None


def test_a_document_with_a_waiting_request_is_not_clean(store: Store) -> None:
    store.write("a", [indexed("a.md", "apple"), indexed("b.md", "apple")])
    store.requests.add("a", ["a.md"])
    assert matching_paths(store, "apple", Where(clean_only=True)) == ["b.md"]
    assert nearest_paths(store, 0, Where(clean_only=True)) == ["b.md"]
    assert [each.waiting for each in store.sections("a", "a.md")] == [True]


def test_of_many_who_claim_at_once_each_gets_its_own(open_durable: Opener) -> None:
    paths = [f"{number}.md" for number in range(60)]
    with open_durable() as store:
        store.save_collection(Collection("a", Path("/a")))
        store.requests.add("a", paths)
    claimed: list[str] = []

    def work() -> None:
        with open_durable() as worker:
            while mine := worker.requests.claim(3):
                claimed.extend(each.path for each in mine)
                worker.requests.finish([RequestResult(each.id, "completed") for each in mine])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == sorted(paths)
