"""How do a passage's words become a sparse vector? A number for each word, and what BM25 makes of its counts.

Qdrant multiplies these by how rare each word is, which finds candidates. The counts that a point carries then give them
the same score that every other store gives.
"""

import base64
import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from annai.definitions import dataclass
from annai.stores.bm25 import (
    FIELD_COUNTS,
    K1,
    count_words,
    length_damping,
    saturation,
    weighted_frequencies,
    weights_of,
)
from annai.text.fields import FIELD_NAMES, FIELD_WEIGHTS
from annai.text.keywords import MAX_COUNT, Keywords
from annai.text.tokens import is_cjk

TYPICAL_LENGTH = 200
"""Words in a passage that Qdrant's own order of the candidates goes by: near enough, since they are scored again."""

POSTING = np.dtype([("word", "<u4"), *FIELD_COUNTS])
"""A word's number, and how often a passage has it in each field."""


@dataclass(frozen=True, slots=True)
class SparseWords:
    """The words of a passage as a point holds them."""

    weights: dict[int, float]
    """The sparse vector: word number → weight, ascending."""
    counts: str
    """The passage's postings as text."""
    distinct: int
    """How many different words the passage has."""


def sparse_words(keywords: Keywords) -> SparseWords:
    """What a point holds of a passage's words."""
    words = count_words(keywords)
    counts: dict[int, list[int]] = {}
    for word, own in words.items():
        numbers = [word_number(word)]
        if is_cjk(word[0]):
            # A query of one character stands for every word that begins with it.
            numbers.append(word_number(word[0], prefix=True))
        for number in numbers:
            summed = counts.setdefault(number, [0] * len(FIELD_NAMES))
            for field, count in enumerate(own):
                summed[field] += count
    postings = np.array([(number, *counts[number]) for number in sorted(counts)], np.int64)
    postings = postings.reshape(-1, 1 + len(FIELD_NAMES))
    packed = np.zeros(len(postings), POSTING)
    packed["word"] = postings[:, 0]
    for field, name in enumerate(FIELD_NAMES, 1):
        packed[name] = postings[:, field].clip(max=MAX_COUNT)
    damping = np.full(len(packed), length_damping(float(keywords.length), TYPICAL_LENGTH))
    weights = (K1 + 1) * saturation(weighted_frequencies(packed, weights_of(FIELD_WEIGHTS)), damping)
    return SparseWords(
        weights=dict(zip(packed["word"].tolist(), weights.tolist(), strict=True)),
        counts=base64.b64encode(packed.tobytes()).decode("ascii"),
        distinct=len(words),
    )


def read_counts(counts: Iterable[str]) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """The postings of several passages in one array, and the index of the passage that each belongs to."""
    parts = [base64.b64decode(each) for each in counts]
    sizes = [len(part) // POSTING.itemsize for part in parts]
    return np.frombuffer(b"".join(parts), POSTING), np.repeat(np.arange(len(parts)), sizes)


def word_number(word: str, *, prefix: bool = False) -> int:
    """A word's index in a sparse vector: 32 bits of its spelling. Two words seldom share one."""
    return zlib.crc32(("^" if prefix else "=").encode() + word.encode("utf-8", "surrogatepass"))
