"""How fast is the bundled model, on one core? Bulk embedding, against USE, and from a cold process to one vector.

    python benchmarks/static.py [--model DIR] [--eval ../shared/eval]

Machines are shared and noisy, so what counts are the ratios within one run. Memory is read from /proc: Linux only.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Before numpy comes: the figures are those of one core.

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from annai.embedders.base import Embedder, load_embedder
from annai.embedders.static import BUNDLED, StaticEmbedder
from annai.settings import Embedding

SETS = ("docs_en", "docs_ja")
LONGEST_TEXT = 1_500
"""Characters of a text: about what a section has."""
SAMPLE, COLD_RUNS = 48, 15

MEMORY = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
COLD = {
    "numpy": f"import numpy\n{MEMORY}",
    "query": "import numpy, sys\nfrom pathlib import Path\nfrom annai.embedders.static import StaticEmbedder\n"
    f"StaticEmbedder(32, Path(sys.argv[1])).embed_query('read the logs: コンテナのログを確認する')\n{MEMORY}",
}


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=BUNDLED)
    default = os.environ.get("ANNAI_EVAL", str(Path(__file__).parents[2] / "shared" / "eval"))
    parser.add_argument("--eval", type=Path, default=default)
    options = parser.parse_args()
    if not (options.eval / "unpack.py").exists():
        sys.exit(f"There are no evaluation sets in {options.eval}; name their folder with --eval or ANNAI_EVAL.")
    print(f"{StaticEmbedder(32, options.model).identity}; texts of at most {LONGEST_TEXT:,} characters; one core\n")
    print("| what | measured | yardstick in the same run | ratio |")
    print("|---|---|---|---|")
    use = load_embedder(Embedding(provider="use"))
    use.embed_query("load the model")
    for name in SETS:
        texts = list(parts(options.eval, name))
        megabytes = size(texts)
        embedder = StaticEmbedder(32, options.model)
        first, again = (megabytes / seconds(embedder, texts) for _ in range(2))
        print(f"| {name}, {megabytes:.1f} MB, nothing seen before | {first:.1f} MB/s | | |")
        print(f"| {name}, seen before | {again:.1f} MB/s | | |")
        sample = texts[:: len(texts) // SAMPLE][:SAMPLE]
        slow, quick = (size(sample) / seconds(each, sample) for each in (use, embedder))
        print(f"| {name}, {len(sample)} texts | {quick:.2f} MB/s | USE {slow:.3f} MB/s | {quick / slow:.0f} |")
    report_cold(options.model)


def report_cold(model: Path) -> None:
    """What a process needs to come to the vector of one query, and one that only loads numpy, turn by turn."""
    times: dict[str, list[float]] = {name: [] for name in COLD}
    memory = dict.fromkeys(COLD, 0.0)
    for turn in range(COLD_RUNS + 1):
        for name, code in COLD.items():
            start = perf_counter()
            done = subprocess.run([sys.executable, "-c", code, model], check=True, capture_output=True)
            if turn:
                times[name].append((perf_counter() - start) * 1000)
            memory[name] = int(done.stdout) / 1024
    query, numpy = statistics.median(times["query"]), statistics.median(times["numpy"])
    print(f"| cold process to one vector | {query:.0f} ms | import numpy {numpy:.0f} ms | +{query - numpy:.0f} ms |")
    extra = memory["query"] - memory["numpy"]
    print(f"| its peak memory | {memory['query']:.0f} MB | import numpy {memory['numpy']:.0f} MB | +{extra:.0f} MB |")


def parts(evaluation: Path, name: str) -> Iterator[str]:
    """The files of a set, cut into texts."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, evaluation / "unpack.py", name, folder], check=True, capture_output=True)
        for file in sorted(Path(folder).rglob("*")):
            if file.is_file():
                text = file.read_text(encoding="utf-8", errors="replace")
                yield from (text[start : start + LONGEST_TEXT] for start in range(0, len(text), LONGEST_TEXT))


def size(texts: list[str]) -> float:
    """Megabytes of text."""
    return sum(len(text.encode()) for text in texts) / 1e6


def seconds(embedder: Embedder, texts: list[str]) -> float:
    """How long it takes to embed the texts."""
    start = perf_counter()
    embedder.embed_documents(texts)
    return perf_counter() - start


if __name__ == "__main__":
    main()
