"""How long does a page of a long list take an agent? python benchmarks/mcp_lists.py [--documents N] [--folder FOLDER].

Measured as the agent's program sees it, from the request's line to the answer's, once the index is whole. The seconds
of the server's own processor time are beside it, since other work on the machine does not change those much.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from mcp_start import HANDSHAKE

GOAL_MS = 10.0
"""The goal for a page of `resources/list`."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=15_000)
    parser.add_argument("--folder", type=Path, help="a folder that keeps the documents and their index between runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        _write(folder, options.documents)
        command = [sys.executable, "-m", "annai", "import", "-m", "update", "--docs-dir", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        server = _Server(folder)
        try:
            print("| what | answers | median | slowest | processor |\n|---|---|---|---|---|")
            _report("resources/list, a page", *server.pages())
            path = {"ref": {"type": "ref/resource", "uri": "annai://{collection}/{+path}"}}
            asked = {**path, "argument": {"name": "path", "value": "folder-7/"}}
            _report("completion of a path", *server.repeat("completion/complete", asked))
            for name, arguments in (("all", {}), ("a folder", {"path": "folder-7"}), ("a glob", {"path": "**/1*.md"})):
                call = {"name": "list_documents", "arguments": arguments}
                _report(f"list_documents, {name}", *server.repeat("tools/call", call))
        finally:
            server.process.communicate(timeout=10)


def _write(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    for number in range(count):
        file = folder / f"folder-{number % 40}" / f"{number}.md"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"# Note {number}\n\nWhat is to be said of {number}.\n")


def _report(name: str, seconds: list[float], processor: float) -> None:
    milliseconds = sorted(1000 * each for each in seconds)
    print(
        f"| {name} | {len(seconds)} | {statistics.median(milliseconds):.1f} ms | {milliseconds[-1]:.1f} ms "
        f"| {1000 * processor / len(seconds):.1f} ms |"
    )


class _Server:
    """`annai mcp` over its pipes."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "annai", "mcp", "--docs-dir", str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ask("initialize", HANDSHAKE)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._ask("tools/call", {"name": "search", "arguments": {"query": "note"}})

    def pages(self) -> tuple[list[float], float]:
        """The seconds of every page of `resources/list`, and of the processor for all of them."""
        seconds, before, cursor = [], self._processor(), None
        while True:
            start = time.perf_counter()
            result = self._ask("resources/list", {"cursor": cursor} if cursor else {})
            seconds.append(time.perf_counter() - start)
            cursor = result.get("nextCursor")
            if not cursor:
                return seconds, self._processor() - before

    def repeat(self, method: str, params: dict[str, Any], times: int = 20) -> tuple[list[float], float]:
        """The seconds of several equal requests, and of the processor for all of them."""
        seconds, before = [], self._processor()
        for _ in range(times):
            start = time.perf_counter()
            self._ask(method, params)
            seconds.append(time.perf_counter() - start)
        return seconds, self._processor() - before

    def _processor(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin  # noqa: S101 - it is a pipe
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdout  # noqa: S101 - it is a pipe
        self._send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == method and "method" not in message:
                return dict(message["result"])


if __name__ == "__main__":
    main()
