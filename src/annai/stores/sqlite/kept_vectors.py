"""Which vectors were read last? Kept in memory: passages that are near one question are near many others."""

import threading
from collections.abc import Callable
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 8_000_000
"""What all of one dimension take."""

Halves = NDArray[np.int16]
"""Vectors as the file keeps them: the bits of 16-bit floats, a row each."""

Read = Callable[[list[int], int], Halves]
"""Reads the vectors of some keys, of a dimension, from the file; zeros where there is none."""


class KeptVectors:
    """Vectors of one dimension in one file. Each has its place, which it takes from whichever was there before."""

    def __init__(self, dimension: int, read: Read) -> None:
        self._dimension = dimension
        self._read = read
        places = max(MAX_BYTES // (2 * dimension), 1)
        self._keys = np.full(places, np.iinfo(np.int64).min, np.int64)
        # For an array of its own numpy asks for huge pages, and a few vectors would take all of it.
        memory = mmap(-1, places * dimension * 2)
        self._rows: Halves = np.frombuffer(memory, np.int16).reshape(places, dimension)
        self._lock = threading.Lock()

    def get(self, keys: NDArray[np.int64]) -> Halves:
        """The vectors of some keys, a row each; only those that are not kept are read."""
        places = keys % len(self._keys)
        with self._lock:
            missing = self._keys[places] != keys
            found = self._rows[places]
        if missing.any():
            found[missing] = self._read(keys[missing].tolist(), self._dimension)
            # A key without a vector may get one later.
            missing &= found.any(axis=1)
            with self._lock:
                self._keys[places[missing]], self._rows[places[missing]] = keys[missing], found[missing]
        return found
