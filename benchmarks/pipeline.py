"""How fast is the main path? Index, update, cold search, search through a server and warm search over one set.

    python benchmarks/pipeline.py [--set docs_en] [--provider static] [--eval ../shared/eval]
                                  [--against CHECKOUT] [--qmd COMMAND]

Machines are shared and noisy, so what counts are the ratios within one run: each measurement stands beside a
yardstick taken turn by turn with it. With `--against` or `--qmd`, another checkout of annai, or qmd (npm:
@tobilu/qmd), which makes no vectors, indexes the same files turn by turn, and nothing else is measured; processor time
is that of all processes together.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Before numpy comes: as the program `annai` has it.


import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import apsw

from annai.answers import Query
from annai.config import Config, load_config
from annai.engine import Engine

COLD_RUNS, UPDATE_RUNS, WARM_QUERIES, INDEX_RUNS = 15, 15, 400, 3

HERE = Path(__file__).parents[1]


def main() -> None:
    """Measure everything and print one table."""
    # As where annai is installed: a process does not compile what it loads.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="docs_en")
    parser.add_argument("--provider", default="static")
    default = os.environ.get("ANNAI_EVAL", str(Path(__file__).parents[2] / "shared" / "eval"))
    parser.add_argument("--eval", type=Path, default=default)
    parser.add_argument("--against", type=Path, help="another checkout of annai, to compare indexing with")
    parser.add_argument("--qmd", type=Path, help="the program qmd, to compare indexing with")
    parser.add_argument("--runs", type=int, default=INDEX_RUNS, help="how often each checkout indexes")
    options = parser.parse_args()
    if not (options.eval / "unpack.py").exists():
        sys.exit(f"There are no evaluation sets in {options.eval}; name their folder with --eval or ANNAI_EVAL.")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run([sys.executable, options.eval / "unpack.py", options.set, tree], check=True, capture_output=True)
        config = Path(folder) / "annai.toml"
        config.write_text(f'[project]\nroot = "{tree}"\n', encoding="utf-8")
        # The user's own settings, which need no trust.
        os.environ["XDG_CONFIG_HOME"] = folder
        own = Path(folder) / "annai" / "config.toml"
        own.parent.mkdir()
        own.write_text(
            f'[database]\npath = "{folder}/index.sqlite"\n[embedding]\nprovider = "{options.provider}"\n',
            encoding="utf-8",
        )
        if options.against or options.qmd:
            compare(options.set, config, options.against, options.qmd, options.runs)
            return
        queries = [json.loads(line)["text"] for line in (options.eval / options.set / "queries.jsonl").open("rb")]
        report(options.set, options.provider, config, queries[:WARM_QUERIES])


def report(name: str, provider: str, config: Path, queries: list[str]) -> None:
    """Run every measurement on one tree and print the results as a Markdown table."""
    loaded = load_config(config=config)
    files = [file for file in loaded.root.rglob("*") if file.is_file()]
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    indexed = index(config)
    seconds = indexed.seconds
    update, walk = against(lambda: refresh(loaded), lambda: walk_with_stat(loaded.root), UPDATE_RUNS)
    cold, numpy = cold_searches(config, queries[0])
    with server(config):
        served, numpy_beside = cold_searches(config, queries[0])
    warm = warm_searches(loaded, queries)
    p50, p95 = statistics.median(warm), statistics.quantiles(warm, n=20)[18]
    print(f"{name}: {len(files):,} files, {megabytes:.1f} MB; embedder {provider}\n")
    print("| what | measured | yardstick in the same run | ratio |")
    print("|---|---|---|---|")
    print(f"| full index | {seconds:.1f} s, {megabytes / seconds:.2f} MB/s | | |")
    print(f"| processor time of the index run | {indexed.processor_seconds:.1f} s | | |")
    print(f"| peak memory of the index run | {indexed.megabytes:.0f} MB | | |")
    print(f"| size of the index | {loaded.database_path.stat().st_size / 1e6:.0f} MB | {megabytes:.0f} MB of text | |")
    print(f"| update, nothing changed | {update:.1f} ms | os.walk with stat {walk:.1f} ms | {update / walk:.1f} |")
    print(f"| cold search process | {cold:.0f} ms | python -c 'import numpy' {numpy:.0f} ms | {cold / numpy:.1f} |")
    print(
        f"| the same through a running server | {served:.0f} ms | python -c 'import numpy' {numpy_beside:.0f} ms | "
        f"{served / numpy_beside:.1f} |"
    )
    print(f"| warm search, {len(warm)} queries | p50 {p50:.1f} ms, p95 {p95:.1f} ms | | |")


@dataclass(frozen=True, slots=True)
class Indexed:
    """What a full import took."""

    seconds: float
    processor_seconds: float
    """Of all processes together."""
    megabytes: float
    """The most memory that one of the processes had."""


def index(config: Path, checkout: Path = HERE) -> Indexed:
    """What a full import takes, in a process of its own and with a checkout's code."""
    database = load_config(config=config).database_path
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
    return _taken([sys.executable, "-m", "annai", "import", "--config", str(config)], PYTHONPATH=checkout / "src")


def index_with_qmd(program: Path, tree: Path) -> Indexed:
    """What qmd takes for the same files, with a state of its own; that it makes no vectors is its way of indexing."""
    with tempfile.TemporaryDirectory() as state:
        homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), Path(state))
        # Its own `node` lies beside it.
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        return _taken([str(program), "collection", "add", str(tree), "--name", "tree"], PATH=path, **homes)


def _taken(command: list[str], **environment: object) -> Indexed:
    start = perf_counter()
    settings = {name: str(value) for name, value in environment.items()}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **settings})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} failed")
    return Indexed(perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)


def compare(name: str, config: Path, other: Path | None, qmd: Path | None, runs: int) -> None:
    """Index by turns with this checkout and with what it is compared with, and print what each took."""
    loaded = load_config(config=config)
    sizes: dict[str, dict[str, int]] = {}

    def run_checkout(label: str, checkout: Path) -> Indexed:
        indexed = index(config, checkout)
        sizes[label] = table_sizes(loaded.database_path)
        return indexed

    programs: dict[str, Callable[[], Indexed]] = {"this checkout": lambda: run_checkout("this checkout", HERE)}
    if other:
        programs[str(other)] = lambda: run_checkout(str(other), other)
    if qmd:
        programs["qmd"] = lambda: index_with_qmd(qmd, loaded.root)
    taken: dict[str, list[Indexed]] = {label: [] for label in programs}
    for _ in range(runs):
        for label, run_program in programs.items():
            taken[label].append(run_program())
    print(f"{name}: full index, median of {runs} runs; in brackets, this checkout's as a share of it\n")
    print(f"| what | {' | '.join(programs)} |")
    print("|---" * (len(programs) + 1) + "|")
    for what, attribute, unit in (
        ("wall time", "seconds", "s"),
        ("processor time of all processes", "processor_seconds", "s"),
        ("peak memory of a process", "megabytes", "MB"),
    ):
        mine, *theirs = (statistics.median(getattr(each, attribute) for each in taken[label]) for label in programs)
        shares = "".join(f" {each:.1f} {unit} ({mine / each:.2f}) |" for each in theirs)
        print(f"| {what} | {mine:.1f} {unit} |{shares}")
    for table, size in sorted(sizes["this checkout"].items(), key=lambda item: -item[1]):
        if size >= 50_000:
            cells = (f"{sizes[label].get(table, 0) / 1e6:.1f} MB" if label in sizes else "" for label in programs)
            print(f"| `{table}` | {' | '.join(cells)} |")


def table_sizes(database: Path) -> dict[str, int]:
    """Bytes of each table and index of an index file, and of the whole with what is free in it."""
    connection = apsw.Connection(str(database))
    try:
        sizes = dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
        return {"all": database.stat().st_size, **sizes}
    finally:
        connection.close()


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


def cold_searches(config: Path, query: str) -> tuple[float, float]:
    """Median milliseconds of a process that searches, and of one that only loads numpy."""
    search = [sys.executable, "-m", "annai", "search", query, "--config", str(config), "--format", "files"]
    return against(lambda: run(search), lambda: run([sys.executable, "-c", "import numpy"]), COLD_RUNS)


@contextmanager
def server(config: Path) -> Iterator[None]:
    """A server of the project, that has answered once."""
    annai = [sys.executable, "-m", "annai"]
    run([*annai, "server", "start", "--port", "auto", "--config", str(config)])
    try:
        run([*annai, "status", "--config", str(config)])
        yield
    finally:
        run([*annai, "server", "stop", "--config", str(config)])


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
