"""What does the product get? A trained table as int8 rows with a scale for each, and how much that loses.

    python -m model.quantise --table DIR [--out FOLDER] [SET …]

writes the model and prints for each set how much worse it is than the table.
"""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from annai.embedders.static import StaticEmbedder
from annai.embedders.static_model import write_model
from model.evaluate import Result, evaluate_sets
from model.settings import BUILD, read_settings
from model.tables import read_rows, trained_table
from model.vocabulary import Scores, read_vocabulary

NAME = "int8"
"""The name of the quantised model among the results."""
BATCH_SIZE = 64
"""Texts at once; it makes no difference to an additive model."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write one model and compare it with its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, required=True, metavar="DIR", help="a table that train.py wrote")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="the folder of the new model; default: build/model")
    parser.add_argument(
        "--build", type=Path, default=BUILD, metavar="FOLDER", help="the folder of the workshop's files"
    )
    parser.add_argument("sets", nargs="*", metavar="SET")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder, scores = options.out or options.build / "model", read_vocabulary(options.build / "vocabulary.tsv")
    quantise(options.table, scores, folder, read_settings().name)
    whole = evaluate_sets(options.table.name, trained_table(options.table, scores), options.build, options.sets)
    small = evaluate_sets(NAME, StaticEmbedder(BATCH_SIZE, folder), options.build, options.sets)
    for corpus, loss in losses(whole, small).items():
        print(f"{corpus:<18} int8 loses {loss:+.4f}")


def quantise(table: Path, scores: Scores, folder: Path, name: str) -> dict[str, str]:
    """Write the model that the product opens; returns file name → SHA-256.

    It has every piece, rare ones too: without them, texts would be cut in another way than in training.
    """
    rows = read_rows(table)
    if len(rows) != len(scores):
        raise ValueError(
            f"{table} has {len(rows)} rows for {len(scores)} pieces: it was trained with another vocabulary."
        )
    return write_model(folder, list(scores), list(scores.values()), rows, name)


def losses(whole: Sequence[Result], small: Sequence[Result]) -> dict[str, float]:
    """Set → how much lower nDCG@10 is for the smaller model; above 0 means a loss."""
    found = {result.corpus: result.ndcg for result in small if result.type == "all"}
    return {
        result.corpus: round(result.ndcg - found[result.corpus], 4)
        for result in whole
        if result.type == "all" and result.corpus in found
    }


if __name__ == "__main__":
    main()
