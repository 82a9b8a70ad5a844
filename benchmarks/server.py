"""How fresh, quick and small is a server? Save to searchable, searches during a burst, memory, and CPU at rest.

    python benchmarks/server.py [--set docs_en] [--saves 60] [--burst 5000] [--searches 20000]

A real server in a process of its own over an evaluation set, spoken to as any client does. Searches during the burst
stand beside searches at rest in the same run, since machines are shared and noisy.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

from annai.answers import Query
from annai.config import load_config
from annai.serving.client import Client
from annai.serving.pidfile import read_token, running

SEARCH_PAUSE = 0.02
"""Seconds between two searches of the one client that asks during the burst."""

IDLE_SECONDS = 20.0


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="docs_en")
    parser.add_argument("--saves", type=int, default=60)
    parser.add_argument("--burst", type=int, default=5_000)
    parser.add_argument("--searches", type=int, default=20_000)
    default = os.environ.get("ANNAI_EVAL", str(Path(__file__).parents[2] / "shared" / "eval"))
    parser.add_argument("--eval", type=Path, default=default)
    options = parser.parse_args()
    if not (options.eval / "unpack.py").exists():
        sys.exit(f"There are no evaluation sets in {options.eval}; name their folder with --eval or ANNAI_EVAL.")
    queries = [json.loads(line)["text"] for line in (options.eval / options.set / "queries.jsonl").open("rb")]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve() / "tree"
        subprocess.run([sys.executable, options.eval / "unpack.py", options.set, tree], check=True, capture_output=True)
        with server(tree) as (connect, process), connect() as client:
            settle(client)
            print(f"{options.set}: {client.status().collections[0].statistics.documents:,} documents\n")
            print("| what | measured |\n|---|---|")
            report(client, connect, process, tree, queries, options)


def report(
    client: Client,
    connect: Callable[[], Client],
    process: psutil.Process,
    tree: Path,
    queries: list[str],
    options: argparse.Namespace,
) -> None:
    """Every measurement, one line each."""
    print(f"| memory after the first index | {memory(process):.0f} MB |")
    searches(client, queries, 300)
    print(f"| memory at rest, after 300 searches | {memory(process):.0f} MB |")
    before = process.cpu_times()
    time.sleep(IDLE_SECONDS)
    after = process.cpu_times()
    idle = (after.user + after.system - before.user - before.system) / IDLE_SECONDS
    print(f"| CPU at rest | {idle:.2%} of a core |")
    saves = [save_to_searchable(client, tree, number) for number in range(options.saves)]
    print(f"| save to searchable, {len(saves)} saves | {quantiles(saves)} |")
    print(f"| search over HTTP at rest | {quantiles(searches(client, queries, 400))} |")
    other = connect()
    during, seconds = burst(client, other, tree, queries, options.burst)
    print(
        f"| search during a burst of {options.burst:,} changed files | {quantiles(during)} ({len(during)} searches) |"
    )
    other.close()
    print(f"| the burst is indexed after | {seconds:.0f} s |")
    searches(client, queries, 1_000)
    early = memory(process)
    searches(client, queries, options.searches - 1_000)
    late = memory(process)
    growth = f"{early:.0f} MB, {late:.0f} MB ({late / early - 1:+.1%})"
    print(f"| memory after 1,000 and {options.searches:,} searches | {growth} |")


@contextmanager
def server(tree: Path) -> Iterator[tuple[Callable[[], Client], psutil.Process]]:
    """A server for the tree: what connects to it, and its process."""
    annai = [sys.executable, "-m", "annai", "server"]
    subprocess.run([*annai, "start", "--port", "auto"], cwd=tree, check=True, capture_output=True)
    try:
        config = load_config(docs_dir=tree)
        record = running(config)
        if record is None:
            sys.exit("the server did not start")
        yield partial(Client, record.url, token=read_token(config)), psutil.Process(record.pid)
    finally:
        subprocess.run([*annai, "stop"], cwd=tree, check=True, capture_output=True)


def settle(client: Client) -> None:
    """Wait until nothing waits to be indexed."""
    quiet = 0
    while quiet < 3:
        counts = client.status().requests
        quiet = 0 if counts.get("pending") or counts.get("processing") or not counts else quiet + 1
        time.sleep(0.2)


def save_to_searchable(client: Client, tree: Path, number: int) -> float:
    """Milliseconds from saving a file to its being found."""
    chance = random.Random(number)  # noqa: S311 - the same words every time
    word = "".join(chance.choices("bcdfghjklmnpqrstvwxyz", k=12))
    (tree / f"saved{number % 7}.md").write_text(f"# A note\n\nThe word is {word}.\n", encoding="utf-8")
    start = time.perf_counter()
    while not any(
        word in hit.content for hit in client.search(Query(word, limit=1, mode="keyword"), refresh=False).results
    ):
        time.sleep(0.005)
    return (time.perf_counter() - start) * 1000


def searches(client: Client, queries: list[str], count: int) -> list[float]:
    """Milliseconds of so many searches, one after another."""
    times = []
    for number in range(count):
        start = time.perf_counter()
        client.search(Query(queries[number % len(queries)]), refresh=False)
        times.append((time.perf_counter() - start) * 1000)
    return times


def burst(client: Client, other: Client, tree: Path, queries: list[str], count: int) -> tuple[list[float], float]:
    """Milliseconds of searches while many files change at once, and the seconds until all are indexed."""
    originals = sorted(file for file in tree.rglob("*") if file.is_file())
    chance = random.Random(1)  # noqa: S311 - the same burst every time
    done = threading.Event()
    times: list[float] = []

    def ask() -> None:
        while not done.is_set():
            start = time.perf_counter()
            client.search(Query(chance.choice(queries)), refresh=False)
            times.append((time.perf_counter() - start) * 1000)
            time.sleep(SEARCH_PAUSE)

    before = other.status().requests.get("completed", 0)
    asking = threading.Thread(target=ask)
    asking.start()
    start = time.perf_counter()
    for number in range(count):
        original = originals[number % len(originals)]
        copy = original if number < len(originals) else original.with_name(f"copy{number}-{original.name}")
        copy.write_bytes(original.read_bytes() + f"\n\nChanged {number}.\n".encode())
    while other.status().requests.get("completed", 0) < before + count:
        time.sleep(0.2)
    seconds = time.perf_counter() - start
    done.set()
    asking.join()
    return times, seconds


def memory(process: psutil.Process) -> float:
    """Resident memory in megabytes."""
    return float(process.memory_info().rss) / 1e6


def quantiles(times: list[float]) -> str:
    """The median and the 95th percentile."""
    return f"p50 {statistics.median(times):.1f} ms, p95 {statistics.quantiles(times, n=20)[18]:.1f} ms"


if __name__ == "__main__":
    main()
