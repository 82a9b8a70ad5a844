"""Does memory stay flat over an import, and how fast is a model on each device?

    python benchmarks/embedders.py [--model DIR | --bare] [--set docs_en] [--eval ../shared/eval]
    python benchmarks/embedders.py --speed [--model DIR | --shapes 6x384 24x1024] [--texts 512]

Without a model, a small BERT is made: what grows then is not the model but what stands around it. Speed is told for
every device that PyTorch finds here, as texts a second and as a ratio to the CPU in the same run; without a model, of
BERTs with so many layers of such a width and random numbers in them, which take as long as any others.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from annai.config import load_config, override
from annai.embedders.base import load_embedder
from annai.engine import Engine
from annai.project import Done
from annai.settings import Embedding
from tests import tiny

LINES = 12
"""How many times memory is told over an import."""


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--set", default="docs_en")
    default = os.environ.get("ANNAI_EVAL", str(Path(__file__).parents[2] / "shared" / "eval"))
    parser.add_argument("--eval", type=Path, default=default)
    parser.add_argument("--bare", action="store_true", help="with no model, to see what the rest takes")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--shapes", nargs="+", default=["6x384", "24x1024"], metavar="LAYERSxWIDTH")
    parser.add_argument("--texts", type=int, default=512)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if options.speed and options.model:
            speed(options.model, options.texts)
        elif options.speed:
            for shape in options.shapes:
                layers, width = map(int, shape.split("x"))
                print(f"\n{layers} layers of {width}:")
                folder = Path(temporary) / shape
                speed(
                    tiny.write_sentence_transformer(folder, max_tokens=512, layers=layers, width=width), options.texts
                )
        else:
            model = options.model or tiny.write_sentence_transformer(Path(temporary) / "tiny", max_tokens=512)
            docs = Path(temporary) / "docs"
            unpack = [sys.executable, str(options.eval / "unpack.py"), options.set, str(docs)]
            subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
            memory("" if options.bare else str(model), docs)


def memory(model: str, docs: Path) -> None:
    """Import a set, and tell the memory of this process along the way."""
    provider = "sentence-transformers" if model else "hashing"
    config = override(load_config(docs_dir=docs), "embedding", provider=provider, model=model)
    process = psutil.Process()
    told: list[tuple[int, int]] = []

    def progress(done: Done) -> None:
        if done.files >= done.total * len(told) // LINES:
            told.append((done.files, process.memory_info().rss))

    start = perf_counter()
    with Engine(config) as engine:
        engine.embedder.embed_query("load the model")
        before = process.memory_info().rss
        engine.import_collection(mode="new", progress=progress)
        statistics = engine.status().collections[0].statistics
    print(f"{statistics.documents:,} documents, {statistics.vectors:,} vectors, {perf_counter() - start:.0f} s")
    print(f"with the model loaded: {before / 1e6:.0f} MB\n\n| files | memory |\n|---|---|")
    for done, rss in told:
        print(f"| {done:,} | {rss / 1e6:.0f} MB |")


def speed(model: Path, count: int) -> None:
    """Embed the same texts on every device that is there."""
    import torch  # slow to import

    words = " ".join(tiny.WORDS[:100])
    texts = [f"w{number % 200} {words} w{number // 200}" for number in range(count)]
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    rates: dict[str, float] = {}
    for device in devices:
        settings = Embedding(provider="sentence-transformers", model=str(model), device=device, batch_size=256)
        embedder = load_embedder(settings)
        embedder.embed_documents(texts[:8])
        start = perf_counter()
        embedder.embed_documents(texts)
        rates[device] = count / (perf_counter() - start)
        print(f"{device}: {rates[device]:,.0f} texts a second ({rates[device] / rates['cpu']:.1f} of the CPU's)")


if __name__ == "__main__":
    main()
