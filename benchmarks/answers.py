"""Do all engines answer alike? The ten best of every query of an evaluation set, from every store.

    python benchmarks/answers.py [--set docs_ja] [--queries 100] [--engines lancedb,chroma,postgres,qdrant]

The set is indexed once, with SQLite and the bundled model, and migrated to every other engine as `annai store migrate`
does it. Overlap is the share of SQLite's ten that the other engine has among its ten, in any order.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from stores import server_url

from annai.answers import Query, Where
from annai.config import load_config, override
from annai.engine import Engine
from annai.searching.search import search
from annai.stores.base import Store, load_store
from annai.upkeep.maintenance import migrate

ENGINES = ("lancedb", "chroma", "postgres", "qdrant")


def main() -> None:
    """Index, migrate, search and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="docs_ja")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--engines", default=",".join(ENGINES))
    default = os.environ.get("ANNAI_EVAL", str(Path(__file__).parents[2] / "shared" / "eval"))
    parser.add_argument("--eval", type=Path, default=default)
    options = parser.parse_args()
    if not (options.eval / "unpack.py").exists():
        sys.exit(f"There are no evaluation sets in {options.eval}; name their folder with --eval or ANNAI_EVAL.")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tree = folder / "tree"
        subprocess.run([sys.executable, options.eval / "unpack.py", options.set, tree], check=True, capture_output=True)
        config = load_config(docs_dir=tree)
        engine = stack.enter_context(Engine(config))
        engine.refresh()
        texts = [json.loads(line)["text"] for line in (options.eval / options.set / "queries.jsonl").open("rb")]
        texts = texts[:: max(len(texts) // options.queries, 1)][: options.queries]
        expected = answers(engine.store, engine, texts)
        counts = engine.store.statistics("root")
        print(f"{options.set}: {counts.documents:,} documents, {counts.sections:,} sections, {len(texts)} queries\n")
        print("| engine | migrated in | the same ten | the same first |")
        print("|---|---|---|---|", flush=True)
        for name in options.engines.split(","):
            with ExitStack() as inner:
                url = server_url(name, folder, inner)
                other = override(config, "store", engine=name, url=url)
                target = inner.enter_context(load_store(other))
                start = perf_counter()
                migrate(engine, target)
                seconds = perf_counter() - start
                found = answers(target, engine, texts)
            same = sum(
                len({*mine} & {*theirs}) / max(len(mine), 1) for mine, theirs in zip(expected, found, strict=True)
            )
            first = sum(mine[:1] == theirs[:1] for mine, theirs in zip(expected, found, strict=True))
            print(f"| {name} | {seconds:.0f} s | {same / len(texts):.3f} | {first / len(texts):.3f} |", flush=True)


def answers(store: Store, engine: Engine, texts: list[str]) -> list[list[str]]:
    """The ids of the ten best sections for each query."""
    where = Where(collections=("root",))
    return [
        [hit.id for hit in search(store, engine.embedder, Query(text, limit=10, where=where)).results] for text in texts
    ]


if __name__ == "__main__":
    main()
