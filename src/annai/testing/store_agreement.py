"""Do all stores answer alike? The store in memory, which only counts, is the reference."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from annai.answers import Where
from annai.asking.conditions import parse_condition
from annai.asking.filters import Filters
from annai.config import Config
from annai.stores.base import IndexedDocument, Store
from annai.stores.memory import MemoryStore
from annai.testing.store_samples import indexed, nearest_paths
from annai.text.fields import FieldWeights
from annai.text.tokens import query_words
from annai.types import Collection, FileState, Problem

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
        config = Config(Path("/a"), Path("/b"))
        for wanted in conditions:
            parts = [
                Filters(each, config, Where(("a",), conditions=tuple(wanted)), {"a": Path("/a")}).parts()
                for each in (reference, store)
            ]
            assert parts[0] == parts[1], wanted
            if where := parts[1].get("a"):
                met += 1
                assert sorted(nearest_paths(store, 0, where)) == sorted(where.documents or ()), wanted
        assert met > 20
    store.sweep()
    assert sorted(store.metadata("a", "status"))[0] == ("0.md", '"draft"')
