"""Did searching get slower? The same questions, asked of two checkouts of annai turn by turn, in processes that stay.

    python benchmarks/warm.py BEFORE [AFTER] [--set docs_en] [--queries 400] [--keep FOLDER]

BEFORE and AFTER are folders of checkouts (`git worktree add ../before COMMIT` makes one); AFTER is this one unless
named. Each indexes the set by itself. What counts is the processor time of the searching process, median, as a ratio
within one run: it hardly depends on what else the machine does.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

ROOT = Path(__file__).parents[1]
WARMING_QUERIES = 200

ASKED = """
import gc, sys, time
from pathlib import Path
from annai.__main__ import COLLECT_AFTER
from annai.config import load_config, override
from annai.engine import Engine
tree, index = sys.argv[1:]
gc.set_threshold(COLLECT_AFTER)
config = override(load_config(docs_dir=Path(tree)), "database", path=index)
with Engine(override(config, "files", respect_gitignore=False, exclude=())) as engine:
    engine.refresh()
    print(flush=True)
    for line in sys.stdin:
        start = time.process_time()
        engine.search(line.strip(), refresh=False)
        print(time.process_time() - start, flush=True)
"""
"""Runs with the code of a checkout, set up as the program is: reads questions, and writes the seconds each took."""


def main() -> None:
    """Ask, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--set", default="docs_en")
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--keep", type=Path, help="lay out and index the set here, and use what is there already")
    options = parser.parse_args()
    folder = Path(os.environ.get("ANNAI_EVAL", str(ROOT.parent / "shared" / "eval")))
    if not (folder / "unpack.py").exists():
        sys.exit(f"There are no evaluation sets in {folder}; name their folder with ANNAI_EVAL.")
    queries = [json.loads(line)["text"] for line in (folder / options.set / "queries.jsonl").open("rb")]
    asked = queries[:: max(len(queries) // options.queries, 1)][: options.queries]
    # The processes are warm, but have not heard the questions that count.
    warming = [query for query in queries if query not in asked][:WARMING_QUERIES]
    with ExitStack() as stack:
        workspace = (options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))) / options.set
        tree = workspace / "tree"
        if not tree.exists():
            subprocess.run([sys.executable, folder / "unpack.py", options.set, tree], check=True, capture_output=True)
        processes = [
            stack.enter_context(start(checkout, tree, workspace / f"{name}.sqlite"))
            for name, checkout in (("before", options.before), ("after", options.after))
        ]
        compare(processes, warming)
        times = compare(processes, asked)
    print(f"{options.set}: {len(asked)} questions, milliseconds of processor time\n")
    print("| | p50 | p95 | mean |\n|---|---|---|---|")
    figures = [(statistics.median(each), statistics.quantiles(each, n=20)[18], statistics.mean(each)) for each in times]
    for name, row in zip(("before", "after"), figures, strict=True):
        print(f"| {name} | {' | '.join(f'{1000 * figure:.2f}' for figure in row)} |")
    print(f"| ratio | {' | '.join(f'{after / before:.2f}' for before, after in zip(*figures, strict=True))} |")


def start(checkout: Path, tree: Path, index: Path) -> subprocess.Popen[str]:
    """A process that searches with a checkout's code, once its index is up to date."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASKED, str(tree), str(index)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        # As the program `annai` has it.
        env={**os.environ, "PYTHONPATH": str(checkout.resolve() / "src"), "OPENBLAS_NUM_THREADS": "1"},
    )
    answer(process)
    return process


def answer(process: subprocess.Popen[str]) -> str:
    """The next line that a process writes."""
    line = cast(IO[str], process.stdout).readline()
    if not line:
        sys.exit("A searching process ended; its message is above.")
    return line


def compare(processes: list[subprocess.Popen[str]], queries: list[str]) -> list[list[float]]:
    """The seconds that each process took for each question."""
    times: list[list[float]] = [[] for _ in processes]
    for number, query in enumerate(queries):
        # By turns, so that neither always finds what the other left in the processor's caches.
        for at in (0, 1) if number % 2 else (1, 0):
            requests = cast(IO[str], processes[at].stdin)
            requests.write(" ".join(query.split()) + "\n")
            requests.flush()
            times[at].append(float(answer(processes[at])))
    return times


if __name__ == "__main__":
    main()
