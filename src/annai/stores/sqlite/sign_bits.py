"""Which vectors are close to another, without reading every vector? Their signs, one bit a number.

Two vectors that point the same way agree in most signs. Comparing bits finds a few hundred candidates among many
thousands of passages in a millisecond or two; their full vectors then decide.
"""

import numpy as np
from numpy.typing import NDArray

COARSE_FACTOR = 8
"""How many times the candidates asked for are taken by counting signs alone, before the signs are weighed."""

BLOCK_COLUMNS = 65_536
"""Vectors compared at a time: what is computed in between stays in the processor's cache."""

Integers = NDArray[np.int64]
Bits = NDArray[np.uint8]
Words = NDArray[np.uint64]
"""Sign bits of many vectors: a row a 64-bit word, a column a vector."""


def pack_signs(vectors: NDArray[np.float32]) -> Bits:
    """One bit a number, set where it is positive; a row a vector, padded to whole 64-bit words."""
    bits = np.packbits(vectors > 0, axis=1)
    padded = np.zeros((len(bits), bits.shape[1] + -bits.shape[1] % 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded


def closest_columns(
    words: Words, vector: NDArray[np.float32], count: int, usable: NDArray[np.bool_] | None
) -> Integers:
    """The columns of about `count` vectors whose signs agree best with the vector's, in no order.

    With `usable`, only the columns for which it is true.
    """
    coarse = count * COARSE_FACTOR
    if usable is not None and np.count_nonzero(usable) <= coarse:
        chosen = np.flatnonzero(usable)
    elif usable is not None or words.shape[1] > coarse:
        differences = _differences(words, vector)
        if usable is not None:
            differences[~usable] = np.iinfo(np.uint16).max
        chosen = _lowest(differences, coarse, 64 * len(words))
    else:
        chosen = np.arange(words.shape[1])
    if len(chosen) > count:
        chosen = chosen[np.argpartition(-_agreement(words[:, chosen], vector), count)[:count]]
    return chosen


def _differences(words: Words, vector: NDArray[np.float32]) -> NDArray[np.uint16]:
    """In how many signs each column differs from the vector."""
    own = pack_signs(vector[None]).view("<u8")[0]
    differences = np.zeros(words.shape[1], np.uint16)
    for start in range(0, words.shape[1], BLOCK_COLUMNS):
        part = differences[start : start + BLOCK_COLUMNS]
        for row, word in zip(words, own, strict=True):
            part += np.bitwise_count(row[start : start + BLOCK_COLUMNS] ^ word)
    return differences


def _lowest(values: NDArray[np.uint16], count: int, largest: int) -> Integers:
    """The positions of the `count` lowest values; values over `largest` do not count."""
    sums = np.cumsum(np.bincount(np.minimum(values, largest + 1), minlength=largest + 2)[: largest + 1])
    threshold = int(np.searchsorted(sums, count))
    if threshold > largest:
        return np.flatnonzero(values <= largest)
    below = np.flatnonzero(values < threshold)
    return np.concatenate((below, np.flatnonzero(values == threshold)[: count - len(below)]))


def _agreement(words: Words, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The signs weighed by the vector's numbers: one near zero has a sign of little meaning."""
    rows = np.ascontiguousarray(words.T).view(np.uint8)
    padded = np.zeros(8 * rows.shape[1], np.float32)
    padded[: len(vector)] = vector
    # What each of the 256 values of a byte adds, for every byte of a row.
    values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
    table = values @ padded.reshape(-1, 8).T
    sums = np.zeros(len(rows), np.float32)
    for byte in range(rows.shape[1]):
        sums += table[rows[:, byte], byte]
    return sums
