"""How soon does an agent have its tools, and its first answer? python benchmarks/mcp_start.py [--rounds N].

Measured as the agent's program sees it: a process is started, and messages go over its pipes. The yardstick is what
nobody can be quicker than, the import of the SDK itself, measured in the same run and in turns.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent.parent / "examples"
LIMIT, SEARCH_LIMIT = 1.5, 0.3
"""The goals: the tools within so many imports of the SDK, the first answer so many seconds after that."""

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    imports, tools, searches, later = (list[float]() for _ in range(4))
    with tempfile.TemporaryDirectory() as folder:
        docs = Path(folder) / "docs"
        shutil.copytree(EXAMPLES, docs)
        command = [sys.executable, "-m", "annai", "search", "x", "--docs-dir", str(docs)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for _ in range(rounds):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", "import mcp.server"], check=True)
            imports.append(time.perf_counter() - start)
            for sample, seconds in zip((tools, searches, later), _session(docs), strict=True):
                sample.append(seconds)
    yardstick, listed = statistics.median(imports), statistics.median(tools)
    print("| step | median | goal |\n|---|---|---|")
    print(f"| `import mcp.server` | {yardstick * 1000:.0f} ms | |")
    print(f"| start → tools/list answered | {listed * 1000:.0f} ms, {listed / yardstick:.2f}× | {LIMIT}× |")
    print(f"| then the first search | {statistics.median(searches) * 1000:.0f} ms | {SEARCH_LIMIT * 1000:.0f} ms |")
    print(f"| a later search | {statistics.median(later) * 1000:.1f} ms | |")


def _session(docs: Path) -> tuple[float, float, float]:
    """Seconds until the tools are listed, from then to the first answer, and for a later one."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "annai", "mcp", "--docs-dir", str(docs)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        _ask(process, 1, "initialize", HANDSHAKE)
        _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        _ask(process, 2, "tools/list", {})
        listed = time.perf_counter()
        _ask(process, 3, "tools/call", {"name": "search", "arguments": {"query": "環境構築の方法"}})
        answered = time.perf_counter()
        _ask(process, 4, "tools/call", {"name": "search", "arguments": {"query": "roll back a deployment"}})
        return listed - start, answered - listed, time.perf_counter() - answered
    finally:
        process.communicate(timeout=10)


def _send(process: "subprocess.Popen[bytes]", message: dict[str, Any]) -> None:
    assert process.stdin  # noqa: S101 - it is a pipe
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def _ask(process: "subprocess.Popen[bytes]", number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    assert process.stdout  # noqa: S101 - it is a pipe
    _send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    while answer := json.loads(process.stdout.readline()):
        if answer.get("id") == number:
            break
    return dict(answer["result"])


if __name__ == "__main__":
    main()
