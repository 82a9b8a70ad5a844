"""Does indexing take time in proportion to the files? Trees of more and more small files, each indexed from nothing.

    python benchmarks/growth.py [--files 10000 100000]

A file is a short note of its own words in a folder of a hundred. What counts is the ratio to the first tree: ten times
the files should take ten times as long, and hardly more memory.
"""

import argparse
import os
import random
import tempfile
from pathlib import Path

from pipeline import Indexed, index

WORDS, NOTE_WORDS, FOLDER_FILES = 20_000, 60, 100


def main() -> None:
    """Index each tree, and print one table."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000])
    options = parser.parse_args()
    print("| files | wall time | processor time of all processes | a second | peak memory of a process |")
    print("|---|---|---|---|---|")
    first: Indexed | None = None
    for count in options.files:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "annai.toml"
            config.write_text(
                f'[project]\nroot = "{folder}/tree"\n[database]\npath = "{folder}/index.sqlite"\n', encoding="utf-8"
            )
            write_tree(Path(folder) / "tree", count)
            taken = index(config)
        first = first or taken
        ratios = taken.seconds / first.seconds, taken.processor_seconds / first.processor_seconds
        print(
            f"| {count:,} | {taken.seconds:.1f} s ({ratios[0]:.1f}×) | {taken.processor_seconds:.1f} s "
            f"({ratios[1]:.1f}×) | {count / taken.seconds:.0f} | {taken.megabytes:.0f} MB |",
            flush=True,
        )


def write_tree(tree: Path, count: int) -> None:
    """Write so many notes, the same ones each time."""
    chance = random.Random(1)  # noqa: S311 - the same notes every time
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 10))) for _ in range(WORDS)]
    # As in any language, a few words are in most texts.
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    for number in range(count):
        folder = tree / f"folder{number // FOLDER_FILES:05}"
        if not number % FOLDER_FILES:
            folder.mkdir(parents=True)
        text = " ".join(chance.choices(words, weights, k=NOTE_WORDS))
        (folder / f"note{number:06}.md").write_text(f"# Note {number}\n\n{text}.\n", encoding="utf-8")


if __name__ == "__main__":
    main()
