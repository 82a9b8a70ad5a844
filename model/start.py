"""Where do the vectors begin? With what a large sentence encoder says of each piece, in fewer dimensions."""

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
BATCH = 256
"""Pieces are short: the encoder is quicker with many at a time."""


def start_vectors(pieces: Sequence[str], settings: Start) -> Vectors:
    """One row a piece: the vector of its string, centred, along the directions in which the pieces differ most."""
    embedder = load_embedder(Embedding(provider=settings.provider, batch_size=BATCH))
    return reduced(embedder.embed_documents([piece.removeprefix(WORD_START) for piece in pieces]), settings.dimensions)


def reduced(vectors: Vectors, dimensions: int) -> Vectors:
    """The vectors' principal components, scaled so that rows have length 1 in the mean of squares."""
    centred = vectors - vectors.mean(axis=0)
    spread, directions = np.linalg.eigh(centred.T @ centred)
    # The sign of a direction is chance; fixed, so that every machine gives the same vectors.
    main = directions[:, np.argsort(-spread, kind="stable")[:dimensions]]
    main = main * np.sign(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])])
    rows = centred @ main
    scaled: Vectors = (rows / np.sqrt((rows**2).sum(axis=1).mean())).astype(np.float32)
    return scaled


def write_start(rows: Vectors, target: Path) -> None:
    """Write the rows as int8 with a scale each: half the size to travel, and training moves them anyway."""
    numbers, scales = quantised(rows)
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target, rows=numbers, scales=scales)
    logger.info("%d start vectors, %.1f MB", len(rows), target.stat().st_size / 1e6)


def quantised(rows: Vectors) -> tuple[NDArray[np.int8], Vectors]:
    """The rows in a byte a number, and what each row is to be multiplied by."""
    scales = np.maximum(np.abs(rows).max(axis=1), 1e-6) / 127
    return np.rint(rows / scales[:, None]).astype(np.int8), scales.astype(np.float32)
