"""Is nearest-neighbour search exact enough? Compared with sqlite-vec, which compares every vector."""

from pathlib import Path

import apsw
import numpy as np
import pytest
import sqlite_vec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annai.answers import Where
from annai.embedders.base import load_embedder
from annai.settings import Embedding
from annai.stores.base import Store
from annai.stores.sqlite.store import SqliteStore
from annai.text.fields import FIELD_WEIGHTS
from annai.types import Collection
from tests.conftest import EXAMPLES
from tests.stores.test_contract import indexed


def test_the_ten_nearest_are_those_that_sqlite_vec_finds(tmp_path: Path) -> None:
    texts = [
        paragraph
        for file in sorted(EXAMPLES.rglob("*.md"))
        for paragraph in file.read_text(encoding="utf-8").split("\n\n")
        if len(paragraph) > 30
    ]
    embedder = load_embedder(Embedding(provider="hashing"))
    rows = embedder.embed_documents(texts)
    rows = np.concatenate([rows + np.roll(rows, shift, axis=1) * 0.5 for shift in range(8)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert len(rows) > 2_000

    reference = apsw.Connection(":memory:")
    reference.enable_load_extension(True)
    reference.load_extension(sqlite_vec.loadable_path())
    reference.execute(f"CREATE VIRTUAL TABLE v USING vec0(e float[{embedder.dimension}] distance_metric=cosine)")
    reference.executemany("INSERT INTO v (rowid, e) VALUES (?, ?)", [(i, row.tobytes()) for i, row in enumerate(rows)])

    with SqliteStore(tmp_path / "index.sqlite") as store:
        store.save_collection(Collection("a", Path("/a")))
        documents = [indexed(f"{number:05}.md") for number in range(len(rows))]
        for document, row in zip(documents, rows, strict=True):
            document.vectors[:] = row
        store.write("a", documents)
        found = expected = 0
        for text in texts[::10]:
            query = embedder.embed_query(text[:60])
            exact = reference.execute(
                "SELECT rowid FROM v WHERE e MATCH ? AND k = 10 ORDER BY distance", (query.tobytes(),)
            ).fetchall()
            numbers = {int(path.removesuffix(".md")) for path in nearest_paths(store, query)}
            found += len(numbers & {number for (number,) in exact})
            expected += len(exact)
    assert found / expected >= 0.97


def nearest_paths(store: Store, query: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[str]:
    keys = [each.key for each in store.nearest(query, 10, Where())]
    return [stored.path for stored in store.lookup(keys).values()]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["write", "remove", "swap", "sweep"])),
        max_size=12,
    )
)
def test_a_store_that_lived_through_writes_answers_as_one_just_opened(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, str]]
) -> None:
    file = tmp_path_factory.mktemp("index") / "index.sqlite"
    query = indexed("query", seed=77).vectors[0]
    with SqliteStore(file) as writer, SqliteStore(file) as reader:
        writer.save_collection(Collection("a", Path("/a")))
        for number, parts, step in steps:
            if step == "write":
                writer.write("a", [indexed(f"{number}.md", f"word{number}", seed=number * 10, parts=parts)])
            elif step == "remove":
                writer.write("a", removed=[f"{number}.md"])
            elif step == "swap":
                writer.save_collection(Collection("a:building", Path("/a")))
                writer.write("a:building", [indexed(f"{number}.md", seed=number, parts=parts)])
                writer.swap_collection("a:building", "a")
            else:
                writer.sweep()
            with SqliteStore(file) as fresh:
                for old in (writer, reader):
                    assert old.nearest(query, 20, Where()) == fresh.nearest(query, 20, Where())
                    words = {"word": 1.0, "md": 0.5}
                    where = Where(collections=("a",))
                    assert old.matching(words, FIELD_WEIGHTS, 20, where) == fresh.matching(
                        words, FIELD_WEIGHTS, 20, where
                    )
