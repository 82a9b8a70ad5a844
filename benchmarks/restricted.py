"""What does searching a small part of a large index cost in PostgreSQL? Recall, latency and rows read, before and now.

    python benchmarks/restricted.py [--sections 100000] [--small 102] [--before CHECKOUT] [--data FOLDER]

A small collection beside a large one: paragraphs of the evaluation trees with the bundled model's vectors, as
`stores.py` makes them. Each code has a process and a database of its own on one PostgreSQL from the wheel that tests
use; with `--before`, another checkout of annai (`git worktree add`) is measured beside this one, by turns, a round of
searches each, so that what else the machine does falls on both. Recall is the share of the ten exact nearest that
`nearest` returned; rows are those of `annai_vectors` that EXPLAIN ANALYZE counts, whether or not they were kept.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Before numpy comes: as the program `annai` has it.

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import IO, Any, cast

import numpy as np
import psycopg
import stores
from stores import Vectors

from annai.answers import Query, Where
from annai.config import Config
from annai.embedders.base import load_embedder
from annai.searching.search import search
from annai.settings import Embedding, StoreSettings
from annai.stores.base import IndexedDocument
from annai.stores.postgres.store import PostgresStore, open_store
from annai.types import Collection

LIMIT = 10
ROUNDS, QUERIES_PER_ROUND = 12, 16
EXPLAINED = 5
"""Queries whose rows are counted."""

CASES = {
    "the small collection": Where(("small",)),
    "a folder of the large one": Where(("large",), paths=("part5",)),
    "the large collection": Where(("large",)),
    "both": Where(),
}


def main() -> None:
    """Start the processes, let them search by turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", type=int, default=100_000)
    parser.add_argument("--small", type=int, default=102)
    parser.add_argument("--before", type=Path, help="another checkout of annai to compare with")
    parser.add_argument("--data", type=Path, help="where paragraphs and vectors are kept between runs")
    parser.add_argument(
        "--eval", type=Path, default=os.environ.get("ANNAI_EVAL", Path(__file__).parents[2] / "shared/eval")
    )
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        serve(options.child, options.data, options.sections, options.small)
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.postgresql import running_cluster

    checkouts = {"now": Path(__file__).parents[1]} | ({"before": options.before.resolve()} if options.before else {})
    with ExitStack() as stack:
        folder = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        stores.prepare(options.eval, folder, options.sections + options.small)
        cluster = stack.enter_context(running_cluster("shared_buffers = 1GB", "max_wal_size = 8GB"))
        cluster.administer("CREATE ROLE annai LOGIN PASSWORD 'annai'")
        codes: dict[str, Code] = {}
        for name, checkout in checkouts.items():
            cluster.administer(f"CREATE DATABASE {name} OWNER annai")
            cluster.administer("CREATE EXTENSION vector", database=name)
            options.data, options.child = folder, cluster.url(name, "annai", "annai")
            codes[name] = Code(checkout, options)
            stack.callback(codes[name].end)
            print(f"{name}: indexed in {codes[name].answer():.0f} s", flush=True)
        print("\n| searched | code | recall@10 | rows read | nearest p50 | p95 | search p50 | p95 |")
        print("|---|---|---|---|---|---|---|---|")
        for case in CASES:
            compare(case, codes)


class Code:
    """A checkout of annai in a process of its own, which holds an index and is asked over its standard input."""

    def __init__(self, checkout: Path, options: argparse.Namespace) -> None:
        command = [sys.executable, __file__, "--child", options.child, "--data", str(options.data)]
        self._process = subprocess.Popen(
            [*command, "--sections", str(options.sections), "--small", str(options.small)],
            env=os.environ | {"PYTHONPATH": str(checkout / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._questions = cast(IO[str], self._process.stdin)
        self._answers = cast(IO[str], self._process.stdout)

    def ask(self, *question: object) -> Any:  # noqa: ANN401 - whatever the child answers
        """Ask the process something and wait for the answer."""
        print(json.dumps(question), file=self._questions, flush=True)
        return self.answer()

    def answer(self) -> Any:  # noqa: ANN401 - as above
        """What it says next."""
        return json.loads(self._answers.readline())

    def end(self) -> None:
        """End the process."""
        self._questions.close()
        self._process.wait()


def compare(case: str, codes: dict[str, Code]) -> None:
    """Measure one restriction, every code by turns, and print a line for each; then how they relate."""
    found = {name: code.ask("quality", case) for name, code in codes.items()}
    times: dict[str, dict[str, list[float]]] = {name: {"nearest": [], "search": []} for name in codes}
    for turn in range(ROUNDS):
        # Whoever was first is last the next time.
        for name in [*codes][:: 1 if turn % 2 else -1]:
            for kind in times[name]:
                times[name][kind] += codes[name].ask(kind, case, turn)
    for name in codes:
        columns = [
            f"{value * 1000:.1f} ms"
            for seconds in times[name].values()
            for value in (statistics.median(seconds), statistics.quantiles(seconds, n=20)[18])
        ]
        print(f"| {case} | {name} | {found[name]['recall']:.3f} | {found[name]['rows']:,} | {' | '.join(columns)} |")
    if len(codes) > 1:
        ratios = [
            f"{kind} {statistics.median(times['before'][kind]) / statistics.median(times['now'][kind]):.1f}"
            for kind in times["now"]
        ]
        print(f"| | before ÷ now, by p50: {', '.join(ratios)} | | | | | | |", flush=True)


def serve(url: str, folder: Path, large: int, small: int) -> None:
    """Index both collections, say how long it took, and answer what comes until there is no more."""
    embedder = load_embedder(Embedding())
    texts: list[str] = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    queries = np.array([embedder.embed_query(text) for text in texts])
    settings = StoreSettings(engine="postgres", url=url)
    with tempfile.TemporaryDirectory() as root, open_store(Config(Path(root), Path(root), store=settings)) as opened:
        store = cast(PostgresStore, opened)
        begin = perf_counter()
        held = build(store, folder, large, small)
        store.vacuum()
        print(json.dumps(perf_counter() - begin), flush=True)
        for line in sys.stdin:
            kind, case, *turn = json.loads(line)
            if kind == "quality":
                answer: object = {
                    "recall": recall(store, queries, held[case], CASES[case]),
                    "rows": rows_read(store, queries[:EXPLAINED], CASES[case]),
                }
            else:
                times: list[float] = []
                for number in range(turn[0] * QUERIES_PER_ROUND, (turn[0] + 1) * QUERIES_PER_ROUND):
                    text, vector = texts[number % len(texts)], queries[number % len(texts)]
                    where = CASES[case] if CASES[case].collections else Where(("large", "small"))
                    start = perf_counter()
                    if kind == "nearest":
                        store.nearest(vector, LIMIT, CASES[case])
                    else:
                        search(store, embedder, Query(text, where=where, content="none"))
                    times.append(perf_counter() - start)
                answer = times
            print(json.dumps(answer), flush=True)


def build(store: PostgresStore, folder: Path, large: int, small: int) -> dict[str, Vectors]:
    """Index both collections; returns the vectors that each case searches."""
    held: dict[str, list[Vectors]] = {case: [] for case in CASES}
    for name in ("large", "small"):
        store.save_collection(Collection(name, folder))
    with store.bulk():
        batches: dict[str, list[IndexedDocument]] = {"large": [], "small": []}
        for number, document in enumerate(stores.documents(folder, large + small)):
            is_large = number * stores.PASSAGES_PER_DOCUMENT < large
            name = "large" if is_large else "small"
            batches[name].append(document)
            for case, where in CASES.items():
                is_under = not where.paths or document.document.path.startswith(f"{where.paths[0]}/")
                if (not where.collections or name in where.collections) and is_under:
                    held[case].append(document.vectors[1:])
            if len(batches[name]) == stores.DOCUMENTS_PER_WRITE:
                store.write(name, batches[name])
                batches[name] = []
        for name, batch in batches.items():
            store.write(name, batch)
    return {case: np.concatenate(vectors) for case, vectors in held.items()}


def recall(store: PostgresStore, queries: Vectors, held: Vectors, where: Where) -> float:
    """The share of the ten exact nearest that were found; those that score alike are all right."""
    found = 0
    for query in queries:
        tenth = np.partition(held @ query, -LIMIT)[-LIMIT]
        found += sum(each.score >= tenth - 0.001 for each in store.nearest(query, LIMIT, where))
    return found / (LIMIT * len(queries))


def rows_read(store: PostgresStore, queries: Vectors, where: Where) -> int:
    """The median number of rows of `annai_vectors` that a search by meaning reads."""
    plain, counts = psycopg.Cursor.execute, list[int]()

    def counting(cursor: psycopg.Cursor[Any], query: Any, params: Any = None, **named: Any) -> Any:  # noqa: ANN401 - as it has it
        if "<#>" in str(query):
            settings, select, rest = str(query).rpartition("WITH compared" if "WITH compared" in query else "SELECT v.")
            explained = psycopg.ClientCursor(cursor.connection)
            plain(explained, f"{settings}EXPLAIN (ANALYZE, FORMAT JSON) {select}{rest}", params)
            while explained.nextset():
                pass
            counts[-1] += sum(scanned(plan["Plan"]) for (plans,) in explained for plan in plans)
        return plain(cursor, query, params, **named)

    psycopg.Cursor.execute = counting  # to see the statements that there are
    try:
        for query in queries:
            counts.append(0)
            store.nearest(query, LIMIT, where)
    finally:
        psycopg.Cursor.execute = plain  # as above
    return int(statistics.median(counts))


def scanned(plan: dict[str, Any]) -> int:
    """The rows of `annai_vectors` that a plan and its parts read, kept or not."""
    own = 0.0
    if plan.get("Relation Name") == "annai_vectors":
        read = (
            plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        )
        own = read * plan["Actual Loops"]
    return int(own) + sum(scanned(part) for part in plan.get("Plans", ()))


if __name__ == "__main__":
    main()
