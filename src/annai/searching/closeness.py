"""How close is a passage to a question, token by token? Every token of the question meets the nearest of the passage.

The tokens of each passage are kept in the index (`embedders.packing`), so that a search reads no text for this.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Embedder

Numbers = NDArray[np.float32]
Places = NDArray[np.int64]

MOST_QUERY_TOKENS = 64
"""Of a long question, the tokens that say most."""

BLOCK = 16
"""A window is two neighbouring blocks of so many tokens, about a sentence: 12 to 32 are as good."""

_DIFFERENT = 1 << 16
"""Tokens have numbers below this."""


@dataclass(frozen=True, slots=True)
class Closeness:
    """How close passages are to a question, a number from 0 to 1 for each."""

    passage: Numbers
    """How much of the question is in the passage, its labels included."""
    window: Numbers
    """The same for the passage's best window of text, its labels included: what belongs together stands together."""
    title: Numbers
    """How much of the document's title is in the question."""


def closeness(embedder: Embedder, query: str, packed: Sequence[bytes]) -> Closeness | None:
    """Compare a question with passages; None if nothing can be said, as of a question without tokens.

    A token counts by the length of its vector and by how few of these passages hold it: what all of them hold tells
    them apart no more.
    """
    # Not by np.unique, whose first call imports a module that takes longer than all of this.
    distinct = np.array(sorted(set(embedder.token_ids(query).tolist())), np.uint16)
    asked, asked_vectors = _heaviest(embedder, distinct)
    tokens = _Tokens(packed)
    if not len(asked) or not len(tokens.distinct):
        return None
    vectors = embedder.token_vectors(tokens.distinct)
    lengths = _lengths(vectors)
    # The row of zeros at the end is what a part without tokens holds.
    likeness = np.zeros((len(vectors) + 1, len(asked)), np.float32)
    asked_lengths = _lengths(asked_vectors)
    np.clip(vectors @ (asked_vectors / asked_lengths[:, None]).T / lengths[:, None], 0, 1, likeness[:-1])

    weights = asked_lengths * tokens.rarity(asked)
    weights /= max(float(weights.sum()), 1e-9)
    labels, blocks, owners = tokens.parts(likeness)
    windows = np.maximum(blocks, np.roll(blocks, -1, axis=0))
    last = np.flatnonzero(np.append(owners[1:] != owners[:-1], True))
    windows[last] = blocks[last]
    starts = np.append(0, last[:-1] + 1)
    whole = _weighed(np.maximum(np.maximum.reduceat(blocks, starts), labels), weights)
    best = np.maximum.reduceat(_weighed(np.maximum(windows, labels[owners]), weights), starts)
    covered = tokens.titles_covered(likeness[:-1].max(axis=1), lengths * tokens.rarity(tokens.distinct))
    return Closeness(whole, best, covered)


class _Tokens:
    """The tokens of several passages, one after the other, numbered by their place among the distinct ones."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._count = len(packed)
        arrays = [np.frombuffer(each, "<u2") for each in packed]
        self._titles = np.array([each[0] for each in arrays], np.int64)
        self._labels = np.array([each[1] for each in arrays], np.int64) + self._titles
        self._lengths = np.array([len(each) - 2 for each in arrays], np.int64)
        ids = np.concatenate([each[2:] for each in arrays])
        present = np.zeros(_DIFFERENT, bool)
        present[ids] = True
        self.distinct: Places = np.flatnonzero(present)
        self._place = np.full(_DIFFERENT, len(self.distinct), np.int64)
        self._place[self.distinct] = np.arange(len(self.distinct))
        self._ids = self._place[ids]
        self._owners = np.repeat(np.arange(self._count), self._lengths)
        holds = np.zeros((self._count, len(self.distinct) + 1), bool)
        holds[self._owners, self._ids] = True
        self._holding = holds.sum(axis=0)

    def rarity(self, tokens: Places) -> Numbers:
        """How few of the passages hold each token."""
        holding = self._holding[self._place[tokens]]
        rarity: Numbers = np.sqrt(np.log1p((self._count - holding + 0.5) / (holding + 0.5))).astype(np.float32)
        return rarity

    def parts(self, likeness: Numbers) -> tuple[Numbers, Numbers, Places]:
        """The highest likeness in each passage's labels and in each block of its text, and whose each block is."""
        nothing = len(self.distinct)
        starts = np.append(0, np.cumsum(self._lengths)[:-1])
        # A token that is like none begins every part, so that no part is empty.
        places = np.sort(np.concatenate([starts, starts + self._labels]), kind="stable")
        ids = np.insert(self._ids, places, nothing)
        label_starts = starts + 2 * np.arange(self._count)
        text_starts = label_starts + self._labels + 1
        blocks = (self._lengths - self._labels) // BLOCK + 1
        owners = np.repeat(np.arange(self._count), blocks)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        block_starts = text_starts[owners] + within * BLOCK
        order = np.argsort(np.concatenate([label_starts, block_starts]), kind="stable")
        highest = np.empty((len(order), likeness.shape[1]), np.float32)
        highest[order] = np.maximum.reduceat(likeness[ids], np.concatenate([label_starts, block_starts])[order], axis=0)
        return highest[: self._count], highest[self._count :], owners

    def titles_covered(self, likeness: Numbers, weights: Numbers) -> Numbers:
        """The share of each title, by weight, that is like something in the question."""
        within = np.arange(len(self._ids)) - np.repeat(np.cumsum(self._lengths) - self._lengths, self._lengths)
        title = within < self._titles[self._owners]
        ids, owners = self._ids[title], self._owners[title]
        covered = np.bincount(owners, weights[ids] * likeness[ids], self._count)
        return (covered / np.maximum(np.bincount(owners, weights[ids], self._count), 1e-9)).astype(np.float32)


def _heaviest(embedder: Embedder, tokens: NDArray[np.uint16]) -> tuple[Places, Numbers]:
    vectors = embedder.token_vectors(tokens)
    kept = np.argsort(-_lengths(vectors), kind="stable")[:MOST_QUERY_TOKENS]
    return tokens[kept].astype(np.int64), vectors[kept]


def _weighed(likeness: Numbers, weights: Numbers) -> Numbers:
    """Sums by weight; not by BLAS, which was once seen to warn of invalid values where all were finite."""
    sums: Numbers = np.einsum("ij,j->i", likeness, weights)
    return sums


def _lengths(vectors: Numbers) -> Numbers:
    lengths: Numbers = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths.clip(1e-9)
