"""What are the vectors before training? Those of a large sentence encoder for each piece, in fewer dimensions."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import load_embedder
from annai.embedders.subwords import WORD_START
from annai.settings import Embedding
from model.settings import Start

logger = logging.getLogger(__name__)

Vectors = NDArray[np.float32]
BATCH_SIZE = 256
"""Pieces are short: the encoder is faster with many at a time."""


def start_vectors(pieces: Sequence[str], settings: Start) -> Vectors:
    """One row for each piece: its string's vector, centred, along the directions in which the pieces differ most."""
    embedder = load_embedder(Embedding(provider=settings.provider, batch_size=BATCH_SIZE))
    return reduce_dimensions(
        embedder.embed_documents([piece.removeprefix(WORD_START) for piece in pieces]), settings.dimensions
    )


def reduce_dimensions(vectors: Vectors, dimensions: int) -> Vectors:
    """The vectors' principal components, scaled so that the mean square length of a row is 1."""
    centred = vectors - vectors.mean(axis=0)
    spread, directions = np.linalg.eigh(centred.T @ centred)
    # The sign of a direction is arbitrary; it is fixed so that every machine gives the same vectors.
    main = directions[:, np.argsort(-spread, kind="stable")[:dimensions]]
    main = main * np.sign(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])])
    rows = centred @ main
    scaled: Vectors = (rows / np.sqrt((rows**2).sum(axis=1).mean())).astype(np.float32)
    return scaled


def write_start(rows: Vectors, target: Path) -> None:
    """Write the rows as int8 with a scale for each: a smaller file to copy, and training changes them anyway."""
    numbers, scales = quantise_rows(rows)
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target, rows=numbers, scales=scales)
    logger.info("%d start vectors, %.1f MB", len(rows), target.stat().st_size / 1e6)


def quantise_rows(rows: Vectors) -> tuple[NDArray[np.int8], Vectors]:
    """The rows as one byte for each number, and the scale of each row."""
    scales = np.maximum(np.abs(rows).max(axis=1), 1e-6) / 127
    return np.rint(rows / scales[:, None]).astype(np.int8), scales.astype(np.float32)
