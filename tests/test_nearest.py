"""Is nearest-neighbour search exact enough? Held against sqlite-vec, which compares with every vector."""

from pathlib import Path

import apsw
import numpy as np
import sqlite_vec

from annai.config import Embedding
from annai.embedders.base import load_embedder
from annai.stores.base import Store
from annai.stores.sqlite import SqliteStore
from annai.types import Collection, Where
from tests.conftest import EXAMPLES
from tests.test_store_contract import indexed


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
