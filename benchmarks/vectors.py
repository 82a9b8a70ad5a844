"""Which way of finding nearest neighbours is fast and exact enough? The store's sign bits against sqlite-vec.

    python benchmarks/vectors.py [--provider static] [--count 100000] [--eval ../shared/eval]

Paragraphs of the evaluation trees are embedded; queries are the sets' own. Times are medians within one run on one
machine; recall is the share of the ten exact nearest that were returned.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from json import loads
from pathlib import Path
from time import perf_counter
from typing import cast

import apsw
import numpy as np
import sqlite_vec
from numpy.typing import NDArray

from annai.answers import Where
from annai.embedders.base import load_embedder
from annai.settings import Embedding
from annai.stores.base import IndexedDocument
from annai.stores.sqlite.store import SqliteStore
from annai.text.keywords import count_given_words
from annai.types import Collection, Document, FileState, Section

Vectors = NDArray[np.float32]
Search = Callable[[Vectors], list[int]]
SETS = ("docs_en", "docs_ja", "docs_ray")
QUERIES = 100


def main() -> None:
    """Embed, build both kinds of index, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", default="static")
    parser.add_argument("--count", type=int, default=100_000)
    default = os.environ.get("ANNAI_EVAL", str(Path(__file__).parents[2] / "shared" / "eval"))
    parser.add_argument("--eval", type=Path, default=default)
    options = parser.parse_args()
    if not (options.eval / "unpack.py").exists():
        sys.exit(f"There are no evaluation sets in {options.eval}; name their folder with --eval or ANNAI_EVAL.")
    embedder = load_embedder(Embedding(provider=options.provider))
    rows = embedder.embed_documents(list(islice(paragraphs(options.eval), options.count)))
    texts = [loads(line)["text"] for name in SETS for line in (options.eval / name / "queries.jsonl").open("rb")]
    queries = [embedder.embed_query(text) for text in texts[:: len(texts) // QUERIES][:QUERIES]]
    exact = [set(np.argsort(-(rows @ query))[:10].tolist()) for query in queries]
    print(
        f"{len(rows):,} vectors of {embedder.dimension} numbers ({options.provider}), {len(queries)} queries, k = 10\n"
    )
    print("| way | median ms | recall@10 |")
    print("|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, search in (
            ("sign bits, then vectors (annai)", annai_search(rows, Path(folder))),
            ("sqlite-vec, vec0 float", vec0_search(rows)),
            ("numpy float32, all rows in memory", lambda query: np.argsort(-(rows @ query))[:10].tolist()),
        ):
            search(queries[0])
            times, found = [], 0
            for query, expected in zip(queries, exact, strict=True):
                start = perf_counter()
                answer = search(query)
                times.append((perf_counter() - start) * 1000)
                found += len(expected & set(answer))
            print(f"| {name} | {statistics.median(times):.1f} | {found / (10 * len(queries)):.3f} |")


def paragraphs(evaluation: Path) -> Iterator[str]:
    """Paragraphs of the trees that are not too short."""
    with tempfile.TemporaryDirectory() as folder:
        for name in SETS:
            tree = Path(folder) / name
            subprocess.run([sys.executable, evaluation / "unpack.py", name, tree], check=True, capture_output=True)
            for file in sorted(tree.rglob("*.*")):
                text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
                yield from (paragraph for paragraph in text.split("\n\n") if len(paragraph) > 40)


def annai_search(rows: Vectors, folder: Path) -> Search:
    """The product's store, with documents of one hundred passages each."""
    store = SqliteStore(folder / "index.sqlite")
    store.save_collection(Collection("a", folder))
    words = count_given_words([], [], [], [])
    section = Section(0, None, 0, "", (), (), 0, 0, 1, 1, 1, last_depth=0)
    for start in range(0, len(rows), 100):
        part = rows[start : start + 100]
        document = Document("a", f"{start}.md", "", "", FileState(f"{start}.md", 0, 0))
        sections = [section._replace(order=order, number=(order,)) for order in range(len(part))]
        keywords = dict.fromkeys(range(len(part)), words)
        store.write("a", [IndexedDocument(document, False, sections, part, keywords)])
    first = store.sections("a", "0.md")[0].key
    return lambda query: [each.key - first for each in store.nearest(query, 10, Where())]


def vec0_search(rows: Vectors) -> Search:
    """sqlite-vec's table, which compares with every row."""
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute(f"CREATE VIRTUAL TABLE v USING vec0(e float[{rows.shape[1]}] distance_metric=cosine)")
    with connection:
        connection.executemany("INSERT INTO v (rowid, e) VALUES (?, ?)", enumerate_bytes(rows))
    sql = "SELECT rowid FROM v WHERE e MATCH ? AND k = 10 ORDER BY distance"
    return lambda query: [cast(int, row[0]) for row in connection.execute(sql, (query.tobytes(),)).fetchall()]


def enumerate_bytes(rows: Vectors) -> Iterator[tuple[int, bytes]]:
    """Each row with its number, as sqlite-vec takes it."""
    return ((number, row.tobytes()) for number, row in enumerate(rows))


if __name__ == "__main__":
    main()
