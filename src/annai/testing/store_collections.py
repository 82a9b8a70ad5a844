"""Does a store keep collections apart, and put one in the place of another at once?"""

from pathlib import Path

import pytest

from annai.answers import Where
from annai.stores.base import Store
from annai.testing.store_samples import indexed, matching_paths, nearest_paths
from annai.text.fields import FieldWeights
from annai.text.tokens import query_words
from annai.types import Collection


def test_saving_a_collection_again_keeps_its_documents(store: Store) -> None:
    store.write("a", [indexed("a.md")])
    other = Collection("a", Path("/elsewhere"), "new", False, "now", "embedder", "settings", 600, 0)
    store.save_collection(other)
    assert store.collections() == [other]
    assert store.statistics("a").documents == 1


def test_deleting_a_collection_deletes_its_data_and_no_other(store: Store) -> None:
    store.save_collection(Collection("b", Path("/b")))
    store.write("a", [indexed("a.md", "apple")])
    store.write("b", [indexed("b.md", "apple")])
    store.delete_collection("a")
    assert [each.name for each in store.collections()] == ["b"]
    assert matching_paths(store, "apple") == ["b.md"]
    assert nearest_paths(store, 0) == ["b.md"]
    assert store.states("a") == {}


def test_a_swap_puts_the_new_documents_in_place_of_the_old(store: Store) -> None:
    store.write("a", [indexed("old.md", "apple")])
    store.save_collection(Collection("a:building", Path("/a"), "", False, "later", "e2", "s2", 600, 30))
    store.write("a:building", [indexed("new.md", "apple")])
    assert matching_paths(store, "apple", Where(collections=("a",))) == ["old.md"]
    store.swap_collection("a:building", "a")
    assert matching_paths(store, "apple") == ["new.md"]
    assert store.states("a").keys() == {"new.md"}
    assert store.collections() == [Collection("a", Path("/a"), "", True, "later", "e2", "s2", 600, 30)]


def test_what_a_process_that_died_was_building_is_deleted_and_counts_no_more(store: Store) -> None:
    def scores() -> list[float]:
        return [each.score for each in store.matching(query_words("apple pear"), FieldWeights(), 10, Where())]

    store.write("a", [indexed("a.md", "apple"), indexed("b.md", "pear pear"), indexed("c.md", "plum")])
    before = scores()
    store.save_collection(Collection("a:building", Path("/a"), enabled=False))
    store.write("a:building", [indexed(f"{number}.md", "apple plum", seed=number) for number in range(5)])
    assert scores() != before
    store.delete_abandoned()
    assert [each.name for each in store.collections()] == ["a"]
    assert scores() == pytest.approx(before)
    store.delete_abandoned()
