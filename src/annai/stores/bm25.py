"""How well do the words of a query match a passage? BM25 over weighted fields, on numbers alone.

Every engine fetches its own lists and hands them over as arrays; what they mean is said only here. A *position* is
where a passage's score is added up. The score is a share: a text full of every word of the query would get 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from annai.text.fields import FIELD_NAMES, FieldWeights
from annai.text.keywords import Keywords
from annai.text.tokens import is_cjk

K1 = 1.2
"""How soon a word that is repeated stops adding to the score."""

B = 0.75
"""How much a passage that is longer than the average is held back: 0 not at all, 1 wholly."""

FIELD_COUNTS = [(name, "u1") for name in FIELD_NAMES]
"""The last four bytes of a posting of every engine: how often the passage has the word in each field."""

Positions = NDArray[np.integer[Any]]
Numbers = NDArray[np.float64]
NumberOrNumbers = TypeVar("NumberOrNumbers", float, Numbers)


@dataclass(slots=True)
class Matches:
    """The passages that hold one word of a query."""

    value: float
    """The most that the word can add to a score: its `word_value`."""
    positions: Positions
    shares: Numbers
    """How much of that each passage gets: its `saturation`."""


def score(matches: Iterable[Matches], size: int) -> tuple[NDArray[np.int64], Numbers]:
    """The positions, below `size`, of passages that hold any of the words, ascending, and their shares."""
    words = [*matches]
    best_possible = sum(word.value for word in words)
    # Counting is quicker than adding word by word; an empty list stands for a query without words.
    owners = np.concatenate([np.zeros(0, np.intp), *(word.positions for word in words)], dtype=np.intp)
    values = np.concatenate([np.zeros(0), *(word.value * word.shares for word in words)])
    sums = cast(Numbers, np.bincount(owners, values, size))
    positions = np.flatnonzero(sums)
    shares = sums[positions]
    if len(positions):
        shares /= best_possible
        np.minimum(shares, 1.0, out=shares)
    return positions, shares


def saturation(frequencies: Numbers, damping: Numbers) -> Numbers:
    """The share of a word's value that passages get: all of it, if it came without end. Overwrites the frequencies.

    `frequencies` are `weighted_frequencies`, `damping` is the `length_damping` of the passages.
    """
    frequencies /= frequencies + damping
    return frequencies


def word_value(weight: float, passages: int, holding: int) -> float:
    """The most that a word of this weight can add to a score, if `holding` of all passages hold it."""
    return weight * (K1 + 1) * inverse_document_frequency(passages, holding)


def inverse_document_frequency(passages: int, holding: int) -> float:
    """How rare a word is that `holding` of all passages hold."""
    return float(np.log1p((passages - holding + 0.5) / (holding + 0.5)))


def average_length(words: int, passages: int) -> float:
    """How many words a passage has on average; at least 1, so that one can divide by it."""
    return max(words / max(passages, 1), 1)


def length_damping(lengths: NumberOrNumbers, average: float) -> NumberOrNumbers:
    """What passages of these lengths add below the line of BM25: more, the longer they are."""
    return K1 * (1 - B + B * lengths / average)


def count_words(keywords: Keywords) -> dict[str, bytes]:
    """How often a passage has each of its words in each field, as the bytes of `FIELD_COUNTS`."""
    counts = keywords.counts.astype("<u4").tobytes()
    return {word: counts[4 * number : 4 * number + 4] for number, word in enumerate(keywords.distinct)}


def weights_of(fields: FieldWeights) -> Numbers:
    """The weight of each field, in the order of `FIELD_COUNTS`."""
    return np.array([getattr(fields, name) for name in FIELD_NAMES])


def weighted_frequencies(postings: NDArray[np.void], weights: Numbers) -> Numbers:
    """How often each posting's passage has the word, its fields counted by weight."""
    counts = postings.view(np.uint8).reshape(len(postings), postings.dtype.itemsize)[:, -len(FIELD_NAMES) :]
    frequencies: Numbers = counts @ weights
    return frequencies


def merge_positions(positions: Positions, frequencies: Numbers) -> tuple[Positions, Numbers, NDArray[np.intp]]:
    """Add up the frequencies at each position: a passage may hold several words that begin with one character.

    Returns the positions, ascending, their frequencies, and the index at which each position came first.
    """
    merged, first, owners = np.unique(positions, return_index=True, return_inverse=True)
    return merged, np.bincount(owners, frequencies, minlength=len(merged)).astype(np.float64), first


def is_prefix(word: str) -> bool:
    """Whether a query's word stands for every word that begins with it: a single CJK character does."""
    return len(word) == 1 and is_cjk(word)
