"""Does a store keep documents? What is written comes back, whole, or not at all."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annai.answers import Where
from annai.errors import StoreError
from annai.stores.base import Store
from annai.testing.store_samples import Opener, indexed, matching_paths, nearest_paths, vector
from annai.text.fields import FieldWeights
from annai.text.tokens import query_words
from annai.types import Collection, FileState, Problem


def test_a_document_comes_back_as_it_went_in(store: Store) -> None:
    written = indexed("a.md", "# 題\r\nbody\r", parts=2)
    store.write("a", [written])
    assert store.document("a", "a.md") == written.document
    assert store.documents_at([("a", "none.md"), ("a", "a.md")]) == {("a", "a.md"): written.document}
    sections = store.sections("a", "a.md")
    assert [each.section for each in sections] == written.sections
    assert {each.root_key for each in sections} == {sections[0].key}
    assert sections[0].title == "Title"


def test_documents_are_listed_in_the_order_of_their_paths(store: Store) -> None:
    store.write("a", [indexed(path, parts=2) for path in ("b.md", "é.md", "a/b.md", "a.md", "題.md")])
    store.write("a", states=[FileState("skipped.md", 1, 1, problem=Problem("skipped", "binary"))])
    listed = store.documents("a")
    assert [each.path for each in listed] == sorted(["b.md", "é.md", "a/b.md", "a.md", "題.md"])
    assert (listed[0].title, listed[0].sections) == ("Title", 3)
    assert store.documents("a", after="a/b.md", limit=2) == listed[2:4]
    assert store.documents("unknown") == []


@pytest.mark.parametrize(
    "path", ["it's.md", 'quo"te.md', "絵文字😀.md", "nul\0.md", "new\nline.md", "%_*?.md", "a" * 500]
)
def test_any_path_survives(store: Store, path: str) -> None:
    store.write("a", [indexed(path)])
    assert store.states("a").keys() == {path}
    document = store.document("a", path)
    assert document is not None
    assert document.path == path
    assert nearest_paths(store, 0, Where(paths=(path,))) == [path]
    store.write("a", removed=[path])
    assert store.document("a", path) is None


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_survives_and_breaks_no_query(store: Store, text: str) -> None:
    store.write("a", [indexed("a.md", text)])
    document = store.document("a", "a.md")
    assert document is not None
    assert document.text == text
    found = store.matching(query_words(text), FieldWeights(), 5, Where())
    assert bool(found) == bool(query_words(text))
    assert all(0 <= each.score <= 1 for each in found)


def test_headings_come_back_as_they_went_in(store: Store) -> None:
    strange = "\ue0000 a\0b “見出し” 🦉 '; --"
    plain = indexed("a.md")
    sections = [each._replace(heading=strange, heading_path=("Title", strange)) for each in plain.sections]
    store.write("a", [replace(plain, sections=sections)])
    assert [each.section for each in store.sections("a", "a.md")] == sections


def test_what_is_missing_is_none_or_empty(store: Store) -> None:
    assert store.document("a", "none.md") is None
    assert store.document("none", "none.md") is None
    assert store.documents_at([("a", "none.md"), ("none", "none.md")]) == {}
    assert store.sections("a", "none.md") == []
    assert store.states("none") == {}
    assert store.lookup([1, 99]) == {}
    assert store.nearest(vector(1), 5, Where()) == []
    assert store.matching({"x": 1.0}, FieldWeights(), 5, Where()) == []
    assert store.statistics("none").documents == 0
    store.write("a", removed=["none.md"])
    store.delete_collection("none")


def test_writing_to_an_unknown_collection_is_an_error(store: Store) -> None:
    writes: list[Callable[[], None]] = [
        lambda: store.write("none", [indexed("a.md")]),
        lambda: store.write("none", removed=["a.md"]),
        lambda: store.swap_collection("none", "a"),
        lambda: store.swap_collection("a", "none"),
    ]
    for write in writes:
        with pytest.raises(
            StoreError, match=r"There is no collection 'none' in the index; .*`annai collection ls --all`"
        ):
            write()
    assert [each.name for each in store.collections()] == ["a"]


def test_replacing_leaves_nothing_of_the_old_document(store: Store) -> None:
    store.write("a", [indexed("a.md", "apple", parts=3)])
    old = [each.key for each in store.sections("a", "a.md")]
    store.write("a", [indexed("a.md", "banana", seed=50)])
    assert matching_paths(store, "apple") == []
    assert matching_paths(store, "banana") == ["a.md"]
    assert len(store.nearest(vector(1), 10, Where())) == 1
    assert store.statistics("a").sections == 1
    assert store.statistics("a").vectors == 1
    assert [key for key in old if key in store.lookup(old) and store.lookup(old)[key].section.order > 0] == []


def test_a_failed_write_changes_nothing(open_durable: Opener) -> None:
    good, bad = indexed("b.md", "banana"), indexed("a.md", "cherry")
    broken = replace(bad, document=replace(bad.document, text=object()))  # type: ignore[arg-type]  # what no store can write
    with open_durable() as store:
        store.save_collection(Collection("a", Path("/a")))
        store.write("a", [indexed("a.md", "apple")])
        with pytest.raises(TypeError):
            store.write("a", [good, broken], removed=["a.md"])
        assert store.states("a").keys() == {"a.md"}
        assert matching_paths(store, "apple") == ["a.md"]
        assert matching_paths(store, "banana") == []


def test_a_failed_file_keeps_its_document_which_is_no_longer_clean(store: Store) -> None:
    store.write("a", [indexed("a.md", "apple")])
    store.write("a", states=[FileState("a.md", 9, 9, "", Problem("failed", "permission denied"))])
    assert matching_paths(store, "apple") == ["a.md"]
    assert matching_paths(store, "apple", Where(clean_only=True)) == []
    assert store.sections("a", "a.md")[0].problem == Problem("failed", "permission denied")
    store.write("a", [indexed("a.md", "apple")])
    assert matching_paths(store, "apple", Where(clean_only=True)) == ["a.md"]


def test_a_skipped_file_has_no_document_and_is_remembered(store: Store) -> None:
    store.write("a", [indexed("a.md", "apple")])
    state = FileState("a.md", 9, 9, "", Problem("skipped", "binary file"))
    store.write("a", states=[state])
    assert store.document("a", "a.md") is None
    assert nearest_paths(store, 0) == []
    assert store.states("a") == {"a.md": state}


def test_readers_in_other_threads_see_whole_documents(open_durable: Opener) -> None:
    writer = open_durable()
    writer.save_collection(Collection("a", Path("/a")))
    writer.write("a", [indexed("a.md", "version0", parts=3)])
    problems: list[str] = []
    stop = threading.Event()

    def read() -> None:
        with open_durable() as reader:
            while not stop.is_set():
                with reader.snapshot():
                    document = reader.document("a", "a.md")
                    sections = reader.sections("a", "a.md")
                    found = matching_paths(reader, document.text if document else "")
                if document is None or len(sections) != 4 or set(found) != {"a.md"}:
                    problems.append(f"{document} {len(sections)} {found}")

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for version in range(60):
        writer.write("a", [indexed("a.md", f"version{version}", seed=version, parts=3)])
    stop.set()
    for thread in threads:
        thread.join()
    writer.close()
    assert problems == []


def test_another_opening_sees_what_was_written(open_durable: Opener) -> None:
    first = open_durable()
    first.save_collection(Collection("a", Path("/a")))
    second = open_durable()
    assert second.nearest(vector(0), 5, Where()) == []
    first.write("a", [indexed("a.md", "apple")])
    assert nearest_paths(second, 0) == ["a.md"]
    first.close()
    first.close()
    second.close()
    with open_durable() as third:
        assert matching_paths(third, "apple") == ["a.md"]


def test_the_inventory_is_what_the_documents_need(store: Store) -> None:
    with store.bulk():
        store.write("a", [indexed("a.md", "apple pie", parts=2), indexed("b.md", "banana")])
        store.write("a", [indexed("a.md", "apple", parts=1)])
    keys = [each.key for path in ("a.md", "b.md") for each in store.sections("a", path)]
    passages = [each.key for path in ("a.md", "b.md") for each in store.sections("a", path) if each.section.is_passage]
    for tidy in (store.vacuum, store.sweep):
        tidy()
        inventory = store.inventory()
        assert inventory.sections.tolist() == sorted(keys)
        assert inventory.vectors.tolist() == sorted(keys)
        assert inventory.passages.tolist() == sorted(passages)
        # The title, the two words of the path, and the body.
        assert inventory.words.tolist() == [4, 4]
    assert matching_paths(store, "apple") == ["a.md"]
    assert sorted(nearest_paths(store, 0)) == ["a.md", "b.md"]
