"""Does a store find what is near, and what holds a word, and only where it was asked to look?"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from annai.answers import Where
from annai.stores.base import Store, StoredText
from annai.testing.store_samples import DIMENSION, indexed, matching_paths, nearest_paths, paths_of, vector
from annai.text.fields import Fields, FieldWeights
from annai.text.keywords import extract_keywords
from annai.text.tokens import katakana_term, query_words, words
from annai.types import Collection, FileState, Problem


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


def test_filters_narrow_every_search(store: Store) -> None:
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
        assert len([*store.texts(where)]) == count, where


def test_texts_come_whole_and_in_the_order_of_their_paths(store: Store) -> None:
    store.save_collection(Collection("0", Path("/0")))
    text = "---\ntitle: x\n---\r\n# é か\u3099\f𠮷\rend"
    store.write("a", [indexed("b.md", text), indexed("a/é.md", "x"), indexed("a.md", "")])
    store.write("0", [indexed("z.md", "zero")])
    assert [*store.texts(Where())] == [
        StoredText("0", "z.md", b"zero"),
        StoredText("a", "a.md", b""),
        StoredText("a", "a/é.md", b"x"),
        StoredText("a", "b.md", text.encode()),
    ]
    store.requests.add("a", ["b.md"])
    store.write("a", states=[FileState("a.md", 1, 1, problem=Problem("failed", "it broke"))])
    assert [each.path for each in store.texts(Where(("a",), clean_only=True))] == ["a/é.md"]


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
