"""How much does `annai --help` cost? Its CPU time, beside that of Python loading click: python benchmarks/help.py.

Both are started alike, in turn, several times; the least of each counts, since other programs only ever add to it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 15

MOST = 1.5
"""How many times the CPU time of `import click` it may take."""

COMMANDS = {
    "import click": ["-c", "import click"],
    "annai --version": ["-m", "annai", "--version"],
    "annai --help": ["-m", "annai", "--help"],
}


def main() -> int:
    """Measure, print, and say by the exit status whether it is quick enough."""
    best = dict.fromkeys(COMMANDS, float("inf"))
    with tempfile.TemporaryDirectory() as cache:
        # As installed programs are: compiled beforehand.
        environment = os.environ | {
            "PYTHONPYCACHEPREFIX": cache,
            "PYTHONPATH": str(Path(__file__).parent.parent / "src"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(ROUNDS + 1):
            for name, arguments in COMMANDS.items():
                seconds = _cpu_seconds(arguments, environment)
                best[name] = min(best[name], seconds) if number else best[name]
    for name, seconds in best.items():
        print(f"{name:<16} {seconds * 1000:5.0f} ms of CPU  {seconds / best['import click']:.2f}x")
    return int(best["annai --help"] > MOST * best["import click"])


def _cpu_seconds(arguments: list[str], environment: dict[str, str]) -> float:
    process = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments} ended with {process.returncode}.")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
