"""Does an exact search find the lines that ripgrep finds, and how long does it take?

    python benchmarks/exact.py FOLDER... [--rounds 5]

In each folder 50 strings (20 that people look for, and 30 cut out of its own texts at random, inside of words and
across punctuation) and 20 patterns are searched for with `Engine.search` and with `rg -n`, in the files that are
indexed. Patterns need google-re2. Prints what differs and the CPU time of the searches, which is their time on a quiet
machine; ripgrep's is the wall time of a process over the files.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Before numpy comes: as the program `annai` has it.

import argparse
import random
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

from annai.asking.query import MAX_LINES
from annai.config import load_config
from annai.engine import Engine

STRINGS = (
    *("num_gpus=0.5", "kubectl apply", "the", "TODO", "https://", "](/", "\t", "->", "()", "```", "---", "title:"),
    *("サーバー", "の", "設定", "クラスタ", "。", "useState(", 'type="module"', "--dry-run"),
)
PATTERNS = (
    *(r"/^#+ .*install/", r"/num_gpus=\d/", r"/v\d+\.\d+\.\d+/", r"/^title: .{40,}$/", r"/\w+Error\(/", r"/^\s+- \[/"),
    *(
        r"/(?i)kubernetes/",
        r"/https?://[^\s)]+\.html/",
        r"/^$/",
        r"/[ァ-ヶー]{8,}/",
        r"/\pL+\(\)/",
        r"/\s$/",
        r"/\S　\S/",
    ),
    *(r"/a|b|c|d/", r"/(foo|bar|baz)+/", r"/`[^`]{30,}`/", r"/^```\w+$/", r"/\d{4}-\d{2}-\d{2}/", r"/[^\x00-\x7f]/"),
    r'/<[a-z]+(?: [a-z]+="[^"]*")+>/',
)
CUT = 30
"""Strings that are cut out of the texts."""


def main() -> None:
    """Search each folder with both, and print what differs and what it takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for folder in options.folders:
        with Engine(load_config(docs_dir=folder)) as engine:
            engine.refresh()
            paths = engine.document_paths("root")
            size = sum((folder / path).stat().st_size for path in paths)
            print(f"{folder}: {len(paths):,} files, {size / 1e6:.1f} MB")
            report(engine, folder, paths, "strings", [*STRINGS, *cut_strings(folder, paths)], options.rounds)
            report(engine, folder, paths, "patterns", PATTERNS, options.rounds)


def report(engine: Engine, folder: Path, paths: Sequence[str], name: str, queries: Sequence[str], rounds: int) -> None:
    """Compare the lines of each query, and print the times."""
    own, others, differing = list[float](), list[float](), 0
    for query in queries:
        took, lines = [], set[tuple[str, int]]()
        for _ in range(rounds):
            start = process_time()
            answer = engine.search(query, mode="exact", refresh=False, limit=1)
            took.append((process_time() - start) * 1000)
        for offset in range(0, answer.total, MAX_LINES):
            found = engine.search(query, mode="exact", refresh=False, offset=offset)
            lines |= {(hit.path, hit.start_line) for hit in found.results}
        start = perf_counter()
        expected = ripgrep(folder, paths, query)
        others.append((perf_counter() - start) * 1000)
        own.append(min(took))
        if lines != expected or answer.total != len(expected):
            differing += 1
            print(f"  {query!r}: {answer.total:,} lines, ripgrep {len(expected):,}: {sorted(lines ^ expected)[:3]}")
        elif own[-1] > 100:
            print(f"  {query!r}: {answer.total:,} lines in {own[-1]:.0f} ms")
    slowest = statistics.quantiles(own, n=20)[-1]
    print(
        f"  {len(queries)} {name}: {len(queries) - differing} with the same lines; "
        f"median {statistics.median(own):.0f} ms, 95 % {slowest:.0f} ms; ripgrep {statistics.median(others):.0f} ms"
    )


def ripgrep(folder: Path, paths: Sequence[str], query: str) -> set[tuple[str, int]]:
    """The files and lines that ripgrep finds."""
    is_pattern = query in PATTERNS
    text = query[1:-1] if is_pattern else query
    command = ["rg", "--no-config", "--no-heading", "--with-filename", "--line-number", "--null", "--color=never"]
    command += ["--text", "--crlf" if is_pattern else "--fixed-strings", "-e", text, "--", *paths]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode > 1:
        raise SystemExit(done.stderr.decode())
    rows = (line.split(b"\0", 1) for line in done.stdout.split(b"\n") if b"\0" in line)
    return {(path.decode(), int(rest.split(b":", 1)[0])) for path, rest in rows}


def cut_strings(folder: Path, paths: Sequence[str]) -> list[str]:
    """Parts of lines of the folder's own texts, of 2 to 30 characters."""
    chosen = random.Random(1)  # noqa: S311 - no secret
    found = list[str]()
    while len(found) < CUT:
        lines = (folder / chosen.choice(paths)).read_text(encoding="utf-8-sig").split("\n")
        line = chosen.choice(lines).rstrip("\r")
        start = chosen.randrange(max(len(line), 1))
        part = line[start : start + chosen.randint(2, 30)]
        if part.strip() and not (part[0] == part[-1] == "/"):
            found.append(part)
    return found


if __name__ == "__main__":
    main()
