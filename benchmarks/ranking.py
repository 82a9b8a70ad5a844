"""What is each element of the ranking worth? The rule without it, on the evaluation sets: the table of docs/ranking.md.

    python benchmarks/ranking.py [SET …] [--queries 250] [--keep FOLDER]

Every set is indexed once, and searched for the same questions with one element after another taken out. Of a large
set, every n-th question is used; differences under .003 are chance.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import cast
from unittest.mock import patch

from annai.answers import Mode
from annai.asking import meant
from annai.config import load_config, override
from annai.engine import Engine
from annai.searching import passages, ranking
from annai.searching.evaluation import evaluate, read_judgements, read_questions

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import corpus_names, eval_folder, write_files

VARIANTS: Mapping[str, Mapping[str, object]] = {
    "the rule": {},
    "without the whole document's vector": {"DOCUMENT_WEIGHT": 0.0},
    "without the next passage's words": {"NEXT_PASSAGE_WEIGHT": 0.0},
    "without closeness of the passage": {"PASSAGE_WEIGHT": 0.0},
    "without closeness of the best window": {"WINDOW_WEIGHT": 0.0},
    "without closeness of the title": {"TITLE_WEIGHT": 0.0},
    "without coverage": {"COVERAGE_WEIGHT": 0.0},
    "without closeness at all": dict.fromkeys(
        ("PASSAGE_WEIGHT", "WINDOW_WEIGHT", "COVERAGE_WEIGHT", "TITLE_WEIGHT"), 0.0
    ),
    "10 documents compared": {"MAX_COMPARED_DOCUMENTS": 10},
    "words count 1.5": {"KEYWORD_WEIGHT": 1.5},
    "words count 4": {"KEYWORD_WEIGHT": 4.0},
    "other scripts: no words credited": {"OTHER_SCRIPT_FACTOR": 0.0},
    "without literal phrases": {"exact_phrases": lambda _: []},
    "400 candidates": {"CANDIDATES": 400},
    "keywords alone": {"mode": "keyword"},
    "vectors alone": {"mode": "vector"},
}


def main() -> None:
    """Measure every variant on every set and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--queries", type=int, default=250, help="at most this many of each set")
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    options = parser.parse_args()
    folder = eval_folder()
    names = options.sets or corpus_names(folder)
    with tempfile.TemporaryDirectory() as temporary:
        workspace = options.keep or Path(temporary)
        columns = [measure(folder, name, options.queries, workspace / name) for name in names]
    print(f"| nDCG@10 | {' | '.join(names)} | mean |")
    print("|---|" + "---|" * (len(names) + 1))
    for row, variant in enumerate(VARIANTS):
        values = [column[row] for column in columns]
        print(f"| {variant} | {' | '.join(f'{each:.3f}' for each in values)} | {sum(values) / len(values):.4f} |")


def measure(folder: Path, name: str, max_queries: int, workspace: Path) -> list[float]:
    """The nDCG@10 of one set, variant by variant."""
    questions = read_questions(folder / name / "queries.jsonl")
    chosen = questions[:: -(-len(questions) // max_queries)]
    judgements = read_judgements(folder / name / "qrels.tsv")
    figures = []
    with open_indexed(folder, name, workspace) as engine:
        for changes in VARIANTS.values():
            with patched(changes):
                mode = cast(Mode, changes.get("mode", "hybrid"))
                figures.append(
                    evaluate(partial(engine.search, refresh=False), chosen, judgements, mode).measures[0].ndcg
                )
    print(name, " ".join(f"{each:.3f}" for each in figures), file=sys.stderr, flush=True)
    return figures


@contextmanager
def open_indexed(folder: Path, name: str, workspace: Path, **embedding: str) -> Iterator[Engine]:
    """Lay out a set in the workspace and index it, unless that is done already."""
    if not (workspace / "tree").exists():
        write_files(folder, name, workspace / "tree")
    config = override(load_config(docs_dir=workspace / "tree"), "database", path=f"{workspace}/index.sqlite")
    config = override(config, "embedding", **embedding)
    with Engine(override(config, "files", respect_gitignore=False, exclude=())) as engine:
        engine.refresh()
        yield engine


@contextmanager
def patched(changes: Mapping[str, object]) -> Iterator[None]:
    """Replace constants and functions of the ranking within the block."""
    with ExitStack() as stack:
        for name, value in changes.items():
            if name != "mode":
                module = next(each for each in (ranking, passages, meant) if hasattr(each, name))
                stack.enter_context(patch.object(module, name, value))
        yield


if __name__ == "__main__":
    main()
