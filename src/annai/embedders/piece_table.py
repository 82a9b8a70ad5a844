"""Which number has a piece? Told by the hashes of all pieces: 2 MB, where a dictionary of their texts takes 13."""

from array import array
from collections.abc import Callable, Collection

import numpy as np

SLOTS = 1 << 19
"""So many that few pieces share one."""


def piece_table(pieces: Collection[str]) -> Callable[[str], int | None]:
    """A function that tells the number of a piece, if it is one, of at most 65,535 pieces.

    A text is taken for a piece with the same hash, which happens once in 10^14 texts.
    """
    keys = np.fromiter(map(hash, pieces), np.int64, len(pieces)) + np.fromiter(map(len, pieces), np.int64, len(pieces))
    ends, places = np.arange(1, len(keys) + 1, dtype=np.uint16), keys & (SLOTS - 1)
    table = np.zeros(SLOTS, np.uint16)
    table[places] = ends
    # Of those that share a slot, the last has it.
    others = {int(keys[number]): number for number in np.flatnonzero(table[places] != ends).tolist()}
    known, slots, mask = array("q", keys.tobytes()), array("H", table.tobytes()), SLOTS - 1

    def find(piece: str) -> int | None:
        # Python hashes the bytes of a text in memory, and those of "tr" are those of "牴".
        key = hash(piece) + len(piece)
        end = slots[key & mask]
        if not end:
            return None
        return end - 1 if known[end - 1] == key else others.get(key)

    return find
