"""What does a service cost? Requests and memory of an import, and how long a command takes that asks it a question.

    python benchmarks/services.py [--files 4000] [--store chroma] [--checkout DIR]

Gemini is played by the tests' stand-in, which answers at once, so what is measured is annai and its store. `--checkout`
measures another one, with its own .venv. Each file has five passages of its own; a search is a process of its own.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import service as services
from tests.service import Service

SECTIONS, WORDS, VOCABULARY = 5, 60, 20_000
"""Of a file, of each section, and in all."""

BATCH = 100
"""What Gemini takes at once."""

SEARCHES = 9


class Taken(NamedTuple):
    """What a command said, and took."""

    said: dict[str, object]
    seconds: float
    processor_seconds: float
    megabytes: float


def main() -> None:
    """Import, search and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=4_000)
    parser.add_argument("--store", default="chroma")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[1])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, services.running() as service:
        folder = Path(temporary)
        write_documents(folder / "docs", options.files)
        own = folder / "annai" / "config.toml"  # The user's own settings, which need no trust.
        own.parent.mkdir()
        own.write_text(
            f'[store]\nengine = "{options.store}"\n[embedding]\nprovider = "gemini"\nbase_url = "{service.url}"\n',
            encoding="utf-8",
        )
        report(service, folder, options.checkout / ".venv" / "bin" / "annai")


def write_documents(folder: Path, files: int) -> None:
    """Files whose sections all differ."""
    chance = random.Random(1)  # noqa: S311 - nothing secret
    folder.mkdir()
    for number in range(files):
        sections = (
            f"## Part {part}\n\n{' '.join(f'word{chance.randrange(VOCABULARY)}' for _ in range(WORDS))}.\n"
            for part in range(SECTIONS)
        )
        (folder / f"{number}.md").write_text(f"# Page {number}\n\n" + "\n".join(sections), encoding="utf-8")


def report(service: Service, folder: Path, annai: Path) -> None:
    """Run the commands, and print the figures as a Markdown table."""
    homes = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), str(folder))
    environment = {**os.environ, **homes, "GEMINI_API_KEY": "key"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # As where annai is installed.

    def run(*arguments: str) -> Taken:
        start = perf_counter()
        process = subprocess.Popen([annai, *arguments], stdout=subprocess.PIPE, env=environment, cwd=folder / "docs")
        with process:
            said = process.stdout.read() if process.stdout else b""
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode > 1:  # A search that finds nothing good says 1.
            sys.exit(f"annai {' '.join(arguments)} ended with {process.returncode}")
        seconds = perf_counter() - start
        return Taken(json.loads(said or b"{}"), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)

    imported = run("import", "--json")
    requests, passages = len(service.requests), int(str(imported.said["passages"]))
    _, *searches = [run("search", f"word{number} word{number + 1}", "--json") for number in range(SEARCHES + 1)]
    seconds, processor, megabytes = (
        statistics.median(column)
        for column in zip(*((each.seconds, each.processor_seconds, each.megabytes) for each in searches), strict=True)
    )
    print(f"{passages:,} passages\n\n| what | measured |\n|---|---|")
    print(f"| requests of the import | {requests}, of which {math.ceil(passages / BATCH)} + 1 are needed |")
    print(f"| seconds of the import, processor | {imported.seconds:.1f}, {imported.processor_seconds:.1f} |")
    print(f"| peak memory of the import | {imported.megabytes:.0f} MB |")
    print(f"| seconds of a search, processor | {seconds:.2f}, {processor:.2f} (median of {SEARCHES}) |")
    print(f"| peak memory of a search | {megabytes:.0f} MB |")


if __name__ == "__main__":
    main()
