"""Which words are in no list? Told from memory, for lookups of many words most of which nobody wrote.

A list is found by a walk through every segment, and a typo may stand for a thousand words.
"""

from collections.abc import Iterable, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from annai.definitions import dataclass

MANY_WORDS = 100
"""So many words are worth it."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Which words may be in the lists of some segments."""

    segments: frozenset[int]
    hashes: NDArray[np.int64]
    """Those of the words, ascending. Few words have the hash of another."""

    def with_words(self, segment: int, words: Iterable[str]) -> "Vocabulary":
        """The vocabulary with those of one more segment."""
        hashes = np.sort(np.concatenate([self.hashes, np.fromiter(map(hash, words), np.int64)]))
        return Vocabulary(self.segments | {segment}, hashes[np.diff(hashes, append=hashes[-1:] + 1) != 0])

    def split(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """The words that these segments may hold, and those that they do not."""
        if not len(self.hashes):
            return [], [*words]
        hashes = np.fromiter(map(hash, words), np.int64, len(words))
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        may_hold = self.hashes[places] == hashes
        return [*compress(words, may_hold)], [*compress(words, ~may_hold)]


NO_WORDS = Vocabulary(frozenset(), np.zeros(0, np.int64))
"""Nothing is known of any segment."""
