"""What does the bundled model look like on disk? A folder of plain files, opened in milliseconds and memory-mapped.

name.txt        the model's name, ending in a digest of its contents
vocabulary.txt  the pieces in the order of their ids, one a line, UTF-8
scores.npy      float32, how likely each piece is, as a logarithm
vectors.npy     int8, one row a piece
scales.npy      float32, what each row is multiplied by
translations.npy  uint16, pairs of ids in the order of the first: a piece, and one of the other script that means the
                  same; a model may come without
"""

import os
import threading
import weakref
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annai.definitions import dataclass
from annai.embedders.subwords import SortedPieces, Subwords
from annai.errors import EmbedderError

NAME, VOCABULARY = "name.txt", "vocabulary.txt"
SCORES, VECTORS, SCALES = "scores.npy", "vectors.npy", "scales.npy"
TRANSLATIONS = "translations.npy"


SPARE_SHARE = 0.25
"""Room that is kept for rows that are used later, as a share of those that were."""

Rows = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class StaticModel:
    """One vector for each subword: its row of `vectors` times its scale."""

    name: str
    dimension: int
    subwords: Subwords
    vectors: NDArray[np.int8]
    scales: NDArray[np.float32]
    rows: "KeptRows"
    """Those of `vectors`, with less memory."""
    translations: NDArray[np.uint16]
    """Pairs of ids, in the order of the first: a piece, and one of the other script that means the same."""

    @property
    def identity(self) -> str:
        """Names the model, its contents and its size."""
        return f"static-{self.name}/{self.dimension}"


def write_model(
    folder: Path, pieces: Sequence[str], scores: Sequence[float], vectors: NDArray[np.float32], name: str
) -> dict[str, str]:
    """Write a model with its vectors as int8 and a scale for each row; returns file name → SHA-256.

    Equal models give equal bytes. The written model numbers its pieces in the order of their bytes.
    """
    import hashlib  # loads OpenSSL, which opening a model does not need

    def digest(file: str) -> str:
        return hashlib.sha256((folder / file).read_bytes()).hexdigest()

    if not len(pieces) == len(scores) == len(vectors) == len(set(pieces)):
        raise ValueError(f"The {len(pieces)} pieces must all be different and have as many scores and vectors.")
    if any(not piece or "\n" in piece or "\r" in piece for piece in pieces):
        raise ValueError("A piece must not be empty or contain a line break.")
    folder.mkdir(parents=True, exist_ok=True)
    order = sorted(range(len(pieces)), key=pieces.__getitem__)
    vectors = np.asarray(vectors, np.float32)[order]
    scales = np.abs(vectors).max(axis=1, initial=0) / np.float32(127)
    rows = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
    (folder / VOCABULARY).write_bytes("\n".join(pieces[number] for number in order).encode())
    np.save(folder / SCORES, np.array([scores[number] for number in order], "<f4"))
    np.save(folder / VECTORS, rows)
    np.save(folder / SCALES, scales.astype("<f4"))
    digests = {file: digest(file) for file in (VOCABULARY, SCORES, VECTORS, SCALES)}
    contents = hashlib.sha256("".join(digests.values()).encode()).hexdigest()
    (folder / NAME).write_bytes(f"{name}-{contents[:8]}".encode())
    return {NAME: digest(NAME), **digests}


def open_model(folder: Path) -> StaticModel:
    """Open a model that `write_model` wrote; vectors are read from disk when they are needed."""
    try:
        name = (folder / NAME).read_text(encoding="utf-8").strip()
        lines = (folder / VOCABULARY).read_bytes()
        scores: NDArray[np.float32] = np.load(folder / SCORES).astype(np.float32)
        vectors: NDArray[np.int8] = np.asarray(np.load(folder / VECTORS, mmap_mode="r"))
        rows = KeptRows(folder / VECTORS, vectors)
        scales: NDArray[np.float32] = np.load(folder / SCALES).astype(np.float32)
        pairs = folder / TRANSLATIONS
        translations = np.asarray(np.load(pairs, mmap_mode="r")) if pairs.exists() else np.zeros((0, 2), np.uint16)
    except (OSError, ValueError) as error:
        raise EmbedderError(
            f"The static model in {folder} cannot be read ({error})",
            "reinstall annai, or set another embedding.provider in annai.toml.",
        ) from error
    ends = np.append(np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n")), len(lines))
    if not len(ends) == len(scores) == len(vectors) == len(scales):
        raise EmbedderError(f"The static model in {folder} is damaged: its files do not match", "reinstall annai.")
    # Reading single numbers from an array is faster than from numpy.
    pieces = SortedPieces(lines, array("q", ends.astype(np.int64).tobytes()), int(np.diff(ends, prepend=0).max()))
    subwords = Subwords(pieces, array("f", scores.tobytes()))
    return StaticModel(name, vectors.shape[1], subwords, vectors, scales, rows, translations)


class KeptRows:
    """The rows of the table that a file ends with, each read when it is first used, and kept together.

    Of a mapped file, a system makes 64 kB resident around whatever is read: the ten thousand rows that a few hundred
    questions need of the bundled model, 3 MB, would keep all of its 19 MB in memory.
    """

    def __init__(self, path: Path, table: Rows) -> None:
        """`table` is the same, mapped."""
        self._table = table
        self._start = path.stat().st_size - table.nbytes
        if hasattr(os, "pread"):
            self._file = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)
        self._rows: Rows = np.zeros((1, table.shape[1]), np.int8)
        self._count = 1
        self._places = np.zeros(len(table), np.int32)
        """Where each row of the table is kept; 0 if it is not."""
        self._lock = threading.Lock()

    def take(self, numbers: NDArray[np.integer[Any]]) -> Rows:
        """The rows with these numbers."""
        places = self._places.take(numbers)
        if not places.all():
            with self._lock:
                self._keep(sorted({*numbers[self._places.take(numbers) == 0].tolist()}))
            places = self._places.take(numbers)
        return self._rows.take(places, axis=0)

    def _keep(self, new: list[int]) -> None:
        """Read rows. Others may take some meanwhile: a place is told when its row is there."""
        past, width = self._count + len(new), self._rows.shape[1]
        if past > len(self._rows):
            larger = np.empty((int(past * (1 + SPARE_SHARE)), width), np.int8)
            larger[: self._count] = self._rows[: self._count]
            self._rows = larger
        if hasattr(os, "pread"):
            raw = b"".join([os.pread(self._file, width, self._start + width * number) for number in new])
            self._rows[self._count : past] = np.frombuffer(raw, np.int8).reshape(-1, width)
        else:
            self._rows[self._count : past] = self._table.take(new, axis=0)
        self._places[new] = np.arange(self._count, past)
        self._count = past
