"""Which pieces mean the same in the other script? The nearest ones, so that a search finds words in another language.

A piece in Latin letters is translated by pieces in Japanese, and one with Japanese characters by whole words in Latin
letters.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.embedders.static_model import TRANSLATIONS, open_model
from annai.embedders.subwords import WORD_START
from annai.text.tokens import is_cjk

MAX_TRANSLATIONS = 2
MIN_COSINE, MAX_GAP = 0.6, 0.12
"""A piece is translated by one that is at least this near, and by others that are nearly as near."""

BATCH = 1024


def write_translations(folder: Path) -> None:
    """Add to a written model its pairs: the id of a piece, and that of one that translates it, the nearest first."""
    model = open_model(folder)
    pieces = list(model.subwords.pieces)
    is_japanese = np.array([any(map(is_cjk, piece)) for piece in pieces])
    is_latin = np.array([_is_latin_word(piece) for piece in pieces])
    is_japanese_word = np.array([_is_japanese_word(piece) for piece in pieces])
    vectors = model.vectors.astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    pairs = [
        *_translate(vectors, np.flatnonzero(is_japanese), np.flatnonzero(is_latin)),
        *_translate(vectors, np.flatnonzero(is_latin), np.flatnonzero(is_japanese_word)),
    ]
    # By piece alone: each one's translations stay in their order.
    pairs.sort(key=lambda pair: pair[0])
    np.save(folder / TRANSLATIONS, np.array(pairs, "<u2").reshape(-1, 2))


def _translate(
    vectors: NDArray[np.float32], sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """The pairs of some pieces with the nearest of others."""
    count = min(MAX_TRANSLATIONS, len(targets))
    for start in range(0, len(sources) if count else 0, BATCH):
        rows = sources[start : start + BATCH]
        cosines = vectors[rows] @ vectors[targets].T
        nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        for row, ids, values in zip(rows, nearest, np.take_along_axis(cosines, nearest, axis=1), strict=True):
            least = max(MIN_COSINE, values.max() - MAX_GAP)
            yield from ((int(row), int(targets[ids[each]])) for each in np.argsort(-values) if values[each] >= least)


def _is_japanese_word(piece: str) -> bool:
    word = piece.strip(WORD_START)
    return len(word) > 1 and all(map(is_cjk, word))


def _is_latin_word(piece: str) -> bool:
    word = piece.removeprefix(WORD_START)
    return word != piece and len(word) > 1 and word.isascii() and word.isalpha()
