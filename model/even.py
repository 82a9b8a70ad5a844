"""Do all directions help to tell texts apart? Those that most texts share are shortened, the others lengthened.

Sums of many vectors crowd along a few directions. A map that evens them out in part (whitening to a power) is linear,
so it is put into the rows themselves and costs nothing later.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import normalise_rows
from model.pairs import pair_files
from model.settings import Settings
from model.tables import read_rows, trained_table, write_rows
from model.vocabulary import Scores

Vectors = NDArray[np.float32]


def even_table(table: Path, data: Path, settings: Settings, scores: Scores, target: Path) -> None:
    """Write a trained table with its directions evened out over passages of the sources."""
    vectors = normalise_rows(trained_table(table, scores).embed_sums(sample_passages(data, settings)))
    report = json.loads((table / "table.json").read_text("utf-8"))
    rows = read_rows(table) @ evening_map(vectors, settings.even.power)
    write_rows(rows, target, {**report, "even": settings.even.power})


def evening_map(vectors: Vectors, power: float) -> Vectors:
    """The map that takes each principal direction to its spread to the power of `-power / 2`; 1 would be whitening."""
    spread, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors / len(vectors))
    # Directions that nothing spreads along would be stretched without bound.
    relative = np.maximum(spread / spread.mean(), 1e-6)
    evening: Vectors = ((directions * relative ** (-power / 2)) @ directions.T).astype(np.float32)
    return evening


def sample_passages(data: Path, settings: Settings) -> Sequence[str]:
    """Some passages or definitions of every source that has them, the same ones each time."""
    chance = random.Random(settings.even.seed)  # noqa: S311 - a sample, not a secret
    passages: list[str] = []
    for file in pair_files(data, settings):
        if file.source.kind != "plain":  # those are titles and lines of catalogues
            texts = [right for _, right in file]
            passages += chance.sample(texts, min(settings.even.passages, len(texts)))
    return passages
