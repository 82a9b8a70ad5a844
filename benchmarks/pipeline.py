"""How fast is the main path? Index, update, cold search and warm search over one evaluation set.

    python benchmarks/pipeline.py [--set docs_en] [--provider static] [--eval ../shared/eval]

Machines are shared and noisy, so what counts are the ratios within one run: each measurement stands beside a
yardstick taken turn by turn with it.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Before numpy comes: as the program `annai` has it.


import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from annai.config import Config, load_config
from annai.engine import Engine
from annai.types import Query

COLD_RUNS, UPDATE_RUNS, WARM_QUERIES = 15, 15, 400


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="docs_en")
    parser.add_argument("--provider", default="static")
    default = os.environ.get("ANNAI_EVAL", str(Path(__file__).parents[2] / "shared" / "eval"))
    parser.add_argument("--eval", type=Path, default=default)
    options = parser.parse_args()
    if not (options.eval / "unpack.py").exists():
        sys.exit(f"There are no evaluation sets in {options.eval}; name their folder with --eval or ANNAI_EVAL.")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run([sys.executable, options.eval / "unpack.py", options.set, tree], check=True, capture_output=True)
        config = Path(folder) / "annai.toml"
        config.write_text(
            f'[project]\nroot = "{tree}"\n[database]\npath = "{folder}/index.sqlite"\n'
            f'[embedding]\nprovider = "{options.provider}"\n',
            encoding="utf-8",
        )
        queries = [json.loads(line)["text"] for line in (options.eval / options.set / "queries.jsonl").open("rb")]
        report(options.set, options.provider, config, queries[:WARM_QUERIES])


def report(name: str, provider: str, config: Path, queries: list[str]) -> None:
    """Run every measurement on one tree and print the results as a Markdown table."""
    loaded = load_config(config=config)
    files = [file for file in loaded.root.rglob("*") if file.is_file()]
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    seconds, memory = index(config)
    update, walk = against(lambda: refresh(loaded), lambda: walk_with_stat(loaded.root), UPDATE_RUNS)
    search = [sys.executable, "-m", "annai", "search", queries[0], "--config", str(config), "--format", "files"]
    cold, numpy = against(lambda: run(search), lambda: run([sys.executable, "-c", "import numpy"]), COLD_RUNS)
    warm = warm_searches(loaded, queries)
    p50, p95 = statistics.median(warm), statistics.quantiles(warm, n=20)[18]
    print(f"{name}: {len(files):,} files, {megabytes:.1f} MB; embedder {provider}\n")
    print("| what | measured | yardstick in the same run | ratio |")
    print("|---|---|---|---|")
    print(f"| full index | {seconds:.1f} s, {megabytes / seconds:.2f} MB/s | | |")
    print(f"| peak memory of the index run | {memory:.0f} MB | | |")
    print(f"| size of the index | {loaded.database_path.stat().st_size / 1e6:.0f} MB | {megabytes:.0f} MB of text | |")
    print(f"| update, nothing changed | {update:.1f} ms | os.walk with stat {walk:.1f} ms | {update / walk:.1f} |")
    print(f"| cold search process | {cold:.0f} ms | python -c 'import numpy' {numpy:.0f} ms | {cold / numpy:.1f} |")
    print(f"| warm search, {len(warm)} queries | p50 {p50:.1f} ms, p95 {p95:.1f} ms | | |")


def index(config: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of a full import in a process of its own."""
    start = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "annai", "import", "--config", str(config)], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit("the import failed")
    return perf_counter() - start, usage.ru_maxrss / 1000


def against(measured: Callable[[], None], yardstick: Callable[[], None], runs: int) -> tuple[float, float]:
    """Median milliseconds of two actions, run turn by turn after one unmeasured turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(runs + 1):
        for action, kept in zip((measured, yardstick), times, strict=True):
            start = perf_counter()
            action()
            if turn:
                kept.append((perf_counter() - start) * 1000)
    return statistics.median(times[0]), statistics.median(times[1])


def refresh(config: Config) -> None:
    """What a search does first: open the index and compare it with the disk."""
    with Engine(config) as engine:
        engine.refresh()


def walk_with_stat(root: Path) -> None:
    """The least that any comparison with the disk must do."""
    for folder, _, names in os.walk(root):
        for name in names:
            os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - the yardstick is the bare call


def run(command: list[str]) -> None:
    """Run a process to its end."""
    subprocess.run(command, check=True, capture_output=True)


def warm_searches(config: Config, queries: list[str]) -> list[float]:
    """Milliseconds of each search in one process that has searched before."""
    with Engine(config) as engine:
        engine.search(Query(queries[0]), refresh=False)
        times = []
        for text in queries:
            start = perf_counter()
            engine.search(Query(text), refresh=False)
            times.append((perf_counter() - start) * 1000)
    return times


if __name__ == "__main__":
    main()
