"""Does a store keep the contract of annai.stores.base? One suite, for annai's own stores and for those of others.

In a test module: `from annai.testing.stores import *`, and a fixture `open_store` that returns a function. Called, it
opens the store; called again, it opens the same index, which several threads may do at once. If the index outlives the
object that opened it, add the fixture `open_durable`, of the same kind; without it the tests that need it are skipped.
"""

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annai.answers import Where
from annai.asking.conditions import parse_condition
from annai.asking.filters import Filters
from annai.config import Config
from annai.errors import StoreError
from annai.stores.base import LONGEST_PAUSE_SECONDS, IndexedDocument, RequestResult, Store
from annai.stores.memory import MemoryStore
from annai.text.fields import Fields, FieldWeights
from annai.text.keywords import count_given_words, extract_keywords
from annai.text.tokens import katakana_term, query_words, words
from annai.types import Collection, Document, FileState, Problem, Section

Opener = Callable[[], Store]

DIMENSION = 256


@pytest.fixture
def open_durable() -> Opener:
    """Opens a store that outlives its object; to be overridden."""
    pytest.skip("there is no fixture open_durable: the index ends with the object that opened it")


@pytest.fixture
def store(open_store: Opener) -> Iterator[Store]:
    with open_store() as store:
        store.save_collection(Collection("a", Path("/a")))
        yield store


def vector(seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    values = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return values / np.linalg.norm(values)


def indexed(path: str, text: str = "text", *, seed: int = 0, parts: int = 0) -> IndexedDocument:
    """A document whose root has `parts` children; the children, or the root alone, are its passages."""
    root = Section(0, None, 0, "Title", (), (), 0, len(text), 1, 1, 1, last_depth=0, is_passage=not parts)
    children = [
        Section(i, 0, 1, f"Part {i}", ("Title", f"Part {i}"), (i,), 0, len(text), 1, 1, 1, last_depth=1)
        for i in range(1, parts + 1)
    ]
    sections = [root, *children]
    document = Document("a", path, "Title", text, FileState(path, len(text), 5, "hash"), front_matter={"tags": ["x"]})
    keywords = count_given_words(["titl"], [], words(path), words(text))
    return IndexedDocument(
        document=document,
        is_cjk=False,
        sections=sections,
        vectors=np.array([vector(seed + order) for order in range(len(sections))]),
        keywords={section.order: keywords for section in sections if section.is_passage},
    )


DESCRIBED: list[dict[str, object]] = [
    {"status": "draft", "tags": ["k8s", "Linux", 3], "date": "2025-03-01", "priority": 10, "done": False},
    {"Status": "Done", "tags": "deploy, K8S", "date": "2024-12", "lastmod": "2025-01-02T10:00:00+09:00", "priority": 9},
    {
        "status": ["draft", "in review"],
        "date": "2023年5月1日",
        "priority": "10",
        "author": {"name": "案内", "team": "x"},
    },
    {"nul\0": "a\0b", "nul": "a\0b", "quo'te": '"%_\\', "priority": 1.5, "empty": "", "none": None, "\ue000": "\ue000"},
    {
        "authors": [{"name": "Ann"}, {"name": "Bob"}],
        "long": "x" * 10_000,
        "date": "soon",
        "updated": 2024,
        "done": True,
    },
    {},
]


def described(front_matters: list[dict[str, object]]) -> list[IndexedDocument]:
    """Documents that say this about themselves, each near a vector of its own."""
    documents = [indexed(f"{number}.md", "apple", seed=number) for number in range(len(front_matters))]
    return [
        replace(each, document=replace(each.document, front_matter=values))
        for each, values in zip(documents, front_matters, strict=True)
    ]


def paths_of(store: Store, keys: list[int]) -> list[str]:
    found = store.lookup(keys)
    return [found[key].path for key in keys]


def nearest_paths(store: Store, seed: int, where: Where | None = None, limit: int = 10) -> list[str]:
    return paths_of(store, [each.key for each in store.nearest(vector(seed), limit, where or Where())])


def matching_paths(store: Store, query: str, where: Where | None = None, limit: int = 10) -> list[str]:
    found = store.matching(query_words(query), FieldWeights(), limit, where or Where())
    return paths_of(store, [each.key for each in found])


def test_words_are_found_as_documents_come_change_and_go(store: Store) -> None:
    # Asked again and again, since a store may keep what it read.
    other_weights = FieldWeights(title=9.0)
    store.write("a", [indexed("a.md", "apple pie"), indexed("b.md", "apple")])
    assert store.holding(["appl", "pie"]) == {"appl": 2, "pie": 1}
    assert sorted(matching_paths(store, "apple")) == ["a.md", "b.md"]
    store.write("a", [indexed("b.md", "cherry pie pie")], removed=["a.md"])
    assert store.holding(["appl", "pie"]) == {"pie": 1}
    assert (matching_paths(store, "apple"), matching_paths(store, "pie")) == ([], ["b.md"])
    (before,) = store.matching({"titl": 1.0}, FieldWeights(), 1, Where())
    (after,) = store.matching({"titl": 1.0}, other_weights, 1, Where())
    assert after.score > before.score


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


def test_nearest_is_ordered_by_cosine_and_ties_by_key(store: Store) -> None:
    store.write("a", [indexed("b.md", seed=1), indexed("a.md", seed=1), indexed("c.md", seed=9)])
    found = store.nearest(vector(1), 10, Where())
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert found[0].score == pytest.approx(1, abs=0.001)
    assert found[0].key < found[1].key
    assert nearest_paths(store, 9, limit=1) == ["c.md"]


def test_nearest_returns_passages_only(store: Store) -> None:
    store.write("a", [indexed("a.md", parts=3)])
    found = store.lookup([each.key for each in store.nearest(vector(0), 10, Where())])
    assert sorted(each.section.order for each in found.values()) == [1, 2, 3]


def test_vectors_come_back_in_the_order_asked_for(store: Store) -> None:
    store.write("a", [indexed("a.md", parts=2)])
    keys = [each.key for each in store.sections("a", "a.md")]
    rows = store.vectors([keys[2], 999, keys[0]], DIMENSION)
    expected = np.array([vector(2), vector(2) * 0, vector(0)])
    assert np.allclose(rows, expected, atol=0.001)
    assert store.vectors([], DIMENSION).shape == (0, DIMENSION)
    assert not store.vectors(keys, 8).any()


def test_tokens_come_back_byte_for_byte(store: Store) -> None:
    store.write("a", [replace(indexed("a.md", parts=1), tokens={1: b"\0\xff\1"})])
    root, passage = (each.key for each in store.sections("a", "a.md"))
    assert store.tokens([root, passage, 999]) == {passage: b"\0\xff\1"}
    store.write("a", [indexed("a.md")])
    assert store.tokens([passage]) == {}


def test_the_dimension_of_a_collection_is_that_of_its_vectors(store: Store) -> None:
    assert store.dimension("a") == 0
    store.write("a", [indexed("a.md")])
    assert store.dimension("a") == DIMENSION
    assert store.dimension("none") == 0


def test_a_vector_of_another_dimension_finds_nothing(store: Store) -> None:
    store.write("a", [indexed("a.md")])
    assert store.nearest(np.ones(DIMENSION * 2, np.float32), 5, Where()) == []


def test_collections_may_have_different_dimensions(store: Store) -> None:
    store.save_collection(Collection("b", Path("/b")))
    wide = indexed("wide.md")
    store.write("a", [indexed("a.md")])
    store.write("b", [replace(wide, vectors=np.full((1, 100), 0.1, np.float32))])
    assert nearest_paths(store, 0) == ["a.md"]
    found = store.nearest(np.full(100, 0.1, np.float32), 5, Where())
    assert paths_of(store, [each.key for each in found]) == ["wide.md"]
    assert found[0].score == pytest.approx(1, abs=0.001)


def test_matching_prefers_the_rare_word_and_counts_fields_by_weight(store: Store) -> None:
    documents = [indexed(f"{i}.md", "common filler text", seed=i) for i in range(8)]
    store.write("a", [*documents, indexed("rare.md", "common zebra", seed=20), indexed("zebra.md", "common", seed=21)])
    assert set(matching_paths(store, "common zebra")[:2]) == {"rare.md", "zebra.md"}
    weights = FieldWeights(path=10.0)
    found = store.matching(query_words("zebra"), weights, 5, Where())
    assert paths_of(store, [found[0].key]) == ["zebra.md"]


def test_the_passages_that_hold_a_word_are_counted(store: Store) -> None:
    assert store.holding(["apple"]) == {}
    store.write("a", [indexed("a.md", "apple apple 荷物", parts=3), indexed("b.md", "apple pear")])
    store.write("a", [indexed("c.md", "apple")])
    assert store.holding([]) == {}
    assert store.holding([*words("apple pear plum"), "荷物", "titl", "app", "'", "\0"]) == {
        "appl": 5,
        "pear": 1,
        "荷物": 3,
        "titl": 5,
    }
    # A word that only deleted passages held is not held any more, though lists may still name them.
    store.write("a", [indexed("b.md", "apple plum")], removed=["a.md"])
    assert store.holding(["appl", "pear", "plum", "荷物"]).keys() == {"appl", "plum"}
    store.write("a", removed=["b.md", "c.md"])
    assert store.holding(["appl", "plum", "titl"]) == {}
    store.vacuum()
    assert store.holding(["appl", "荷物"]) == {}


def test_a_katakana_word_is_held_whole_beside_its_pairs_and_makes_no_passage_longer(store: Store) -> None:
    document = indexed("a.md", "ログのサンプリング")
    keywords = extract_keywords(Fields("", "", "", document.document.text))
    store.write("a", [replace(document, keywords={0: keywords})])
    terms = [katakana_term(word) for word in ("サンプリング", "サンプリングー", "サンプリグ", "プリング")]
    assert store.holding([*terms, "プリ"]) == {terms[0]: 1, "プリ": 1}
    assert len(store.matching({terms[0]: 1.0}, FieldWeights(), 5, Where())) == 1
    assert keywords.length == len(words(document.document.text))


def test_a_word_of_many_passages_is_not_held_when_all_are_deleted(store: Store) -> None:
    documents = [indexed(f"{number}.md", "apple", seed=number * 50, parts=40) for number in range(20)]
    store.write("a", [*documents, indexed("pear.md", "pear")])
    assert store.holding(["appl", "pear"]) == {"appl": 800, "pear": 1}
    store.write("a", removed=[each.document.path for each in documents])
    assert store.holding(["appl", "pear"]) == {"pear": 1}


def test_a_word_of_one_character_finds_every_word_that_begins_with_it(store: Store) -> None:
    store.write("a", [indexed("a.md", "荷物の再配達"), indexed("b.md", "明日また再"), indexed("c.md", "配達")])
    assert sorted(matching_paths(store, "再")) == ["a.md", "b.md"]


def test_query_syntax_is_data(store: Store) -> None:
    store.write("a", [indexed("a.md", 'C++ AND ("NOT" OR NEAR) body:* ^ - .NET')])
    for query in ('"', "AND", "NOT body", "body:x*", "(", "C++ .NET", "NEAR(a b)", "^a - b", "'; DROP TABLE files; --"):
        store.matching(query_words(query), FieldWeights(), 5, Where())
    assert matching_paths(store, "C++") == ["a.md"]


def test_filters_narrow_both_searches(store: Store) -> None:
    store.save_collection(Collection("b", Path("/b")))
    store.write("a", [indexed("docs/x.md", "apple"), indexed("docs2/x.md", "apple"), indexed("docs/sub/y.md", "apple")])
    store.write("b", [indexed("docs/x.md", "apple")])
    for where, count in (
        (Where(), 4),
        (Where(collections=("a",)), 3),
        (Where(collections=("a", "b")), 4),
        (Where(collections=("c",)), 0),
        (Where(paths=("docs",)), 3),
        (Where(paths=("docs/", "docs2")), 4),
        (Where(paths=("./docs/sub/y.md",)), 1),
        (Where(paths=("doc",)), 0),
        (Where(excludes=("docs",)), 1),
        (Where(collections=("a",), paths=("docs",), excludes=("docs/sub",)), 1),
        (Where(documents=("docs/x.md", "docs2", "gone.md")), 2),
        (Where(collections=("a",), documents=("docs/x.md", "docs/sub/y.md")), 2),
        (Where(documents=()), 0),
    ):
        assert len(nearest_paths(store, 0, where)) == count, where
        assert len(matching_paths(store, "apple", where)) == count, where


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


def test_ten_thousand_passages_are_found_exactly_enough(store: Store) -> None:
    store.write("a", [indexed(f"{n}.md", f"word{n}", seed=n * 1000, parts=99) for n in range(100)])
    everything = {n * 1000 + order for n in range(100) for order in range(1, 100)}
    rows = np.array([vector(seed) for seed in sorted(everything)])
    found = 0
    for start in range(5):
        query = rows[start::1000][:10].mean(axis=0).astype(np.float32)
        tenth_best = np.sort(rows @ query)[-10]
        found += sum(each.score >= tenth_best - 0.001 for each in store.nearest(query, 10, Where()))
    assert found >= 0.97 * 50
    assert matching_paths(store, "word42", limit=1) == ["42.md"]


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
    assert store.requests.due() == 5
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


def test_a_retry_steps_back_for_a_newer_request(store: Store) -> None:
    store.requests.add("a", ["x.md"])
    (claimed,) = store.requests.claim(1)
    (newer,) = store.requests.add("a", ["x.md"])
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


def test_every_store_scores_alike(store: Store) -> None:
    """The reference store's scores, by a store that does nothing but count."""
    texts = ["apple pie apple", "apple", "banana apple cake with a long list of things", "再配達の荷物", "配達"]
    documents = [indexed(f"{number}.md", text, seed=number) for number, text in enumerate(texts)]
    with MemoryStore() as reference:
        reference.save_collection(Collection("a", Path("/a")))
        for each in (reference, store):
            each.write("a", [indexed("0.md", "something else"), *documents[1:]])
            each.write("a", documents[:1])
        for query in ("apple", "apple cake", "再", "荷物の配達", "banana pie"):
            words_of_query = query_words(query)
            weights = FieldWeights(title=3.0, path=2.0)
            expected, found = (
                {
                    each.path: round(scored.score, 3)
                    for scored in one.matching(words_of_query, weights, 10, Where())
                    for each in one.lookup([scored.key]).values()
                }
                for one in (reference, store)
            )
            assert found == pytest.approx(expected, abs=0.002), query


def test_every_store_finds_the_same_documents_by_what_they_say(store: Store) -> None:
    """Conditions of every kind, and random ones, on documents that come, change and go."""
    choose = random.Random(7)  # noqa: S311 - no secret
    names = ["status", "tags", "date", "priority", "done", "updated", "created", "author.name", "authors.name", "nul"]
    values = ["draft", "k8s", "2025", "2024-12-31", "10", "9.5", "true", "Ann", "案内", "a\0b", "2023年5月", "", "%"]
    operators = ["=", "!=", "<", "<=", ">", ">="]
    conditions = [
        [parse_condition(f"{choose.choice(names)}{choose.choice(operators)}{choose.choice(values) or 3}")]
        for _ in range(80)
    ]
    conditions += [[*choose.choice(conditions), *choose.choice(conditions)] for _ in range(20)]
    conditions += [[parse_condition("status=")], [parse_condition("status!=")]]
    with MemoryStore() as reference:
        reference.save_collection(Collection("a", Path("/a")))
        for each in (reference, store):
            each.write("a", described([{"status": "old", "gone": "yes"}, *DESCRIBED[1:], {"gone": 1}, {"gone": 2}]))
            each.write("a", described(DESCRIBED[:1]), removed=["6.md"])
            each.write("a", states=[FileState("7.md", 1, 1, problem=Problem("skipped", "binary"))])
        assert store.fields("a") == reference.fields("a")
        assert store.documents("a") == reference.documents("a")
        assert store.metadata("a", "gone") == []
        assert store.metadata("none", "status") == []
        met = 0
        for wanted in conditions:
            parts = [
                Filters(each, Config(Path("/a")), Where(("a",), conditions=tuple(wanted)), {"a": Path("/a")}).parts()
                for each in (reference, store)
            ]
            assert parts[0] == parts[1], wanted
            if where := parts[1].get("a"):
                met += 1
                assert sorted(nearest_paths(store, 0, where)) == sorted(where.documents or ()), wanted
        assert met > 20
    store.sweep()
    assert sorted(store.metadata("a", "status"))[0] == ("0.md", '"draft"')
