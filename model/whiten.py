"""Do all directions help to tell texts apart? Directions that most texts share are shortened, others lengthened.

Sums of many vectors crowd along a few directions. Partial whitening evens them out. It is a linear map, so it is
applied to the rows themselves and costs nothing later.
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


def whiten_table(table: Path, data: Path, settings: Settings, scores: Scores, target: Path) -> None:
    """Write a trained table, whitened over passages of the sources."""
    vectors = normalise_rows(trained_table(table, scores).embed_sums(sample_passages(data, settings)))
    report = json.loads((table / "table.json").read_text("utf-8"))
    rows = read_rows(table) @ whitening_map(vectors, settings.whiten.power)
    write_rows(rows, target, {**report, "whiten": settings.whiten.power})


def whitening_map(vectors: Vectors, power: float) -> Vectors:
    """The map that scales each principal direction by its spread to the power `-power / 2`; 1 is full whitening."""
    spread, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors / len(vectors))
    # Directions without any spread would be stretched without bound.
    relative = np.maximum(spread / spread.mean(), 1e-6)
    whitening: Vectors = ((directions * relative ** (-power / 2)) @ directions.T).astype(np.float32)
    return whitening


def sample_passages(data: Path, settings: Settings) -> Sequence[str]:
    """Some passages or definitions of every source that has them; the same ones each time."""
    rng = random.Random(settings.whiten.seed)  # noqa: S311 - a sample, not a secret
    passages: list[str] = []
    for file in pair_files(data, settings):
        if file.source.kind != "plain":  # those are titles and lines of catalogues
            texts = [right for _, right in file]
            passages += rng.sample(texts, min(settings.whiten.passages, len(texts)))
    return passages
