"""Which passages are there? Everything a search reads of every passage, held as arrays in the order of their keys."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from annai.stores.bm25 import average_length, length_damping
from annai.stores.sqlite.sign_bits import Integers, closest_columns

MAX_KEYS_PER_PASSAGE, MIN_MAPPED_KEYS = 8, 65_536
"""While keys go up to at most this many times the number of passages, or a little more where there are few, a plain
array maps each key to its position."""

SPARE_SHARE = 0.5
"""Room that is kept for what is written later, as a share of what there is."""

Array = TypeVar("Array", bound=NDArray[Any])


class PassageRow(NamedTuple):
    """The passages of one document, as the index file keeps them; read by the thousand, so as light as can be."""

    document_id: int
    collection_id: int
    first_section: int
    dimension: int
    ordinals: bytes
    lengths: bytes
    signs: bytes


@dataclass(slots=True)
class _SignBits:
    """The sign bits of all vectors of one dimension, with room for more."""

    positions: Integers
    """The position in the table of each of these passages."""
    words: NDArray[np.uint64]
    """A row a 64-bit word, a column a passage."""


@dataclass(slots=True)
class _Columns:
    """What is known of each passage, in the order of the keys, with room for more."""

    keys: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    lengths: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    documents: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    collections: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    positions: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """For every key the passage's position, -1 if it has none; not kept while keys are far apart."""


class PassageTable:
    """The passages of an index, held as arrays in the order of their keys.

    A table never changes. `updated` makes the next one out of it, which shares its arrays: new keys are higher than
    all before them, so new passages go to the end, and deleted ones are only marked. Rows that make no sense are a
    `ValueError`.
    """

    def __init__(self, rows: Sequence[PassageRow]) -> None:
        self._columns = _Columns()
        self._signs: dict[int, _SignBits] = {}
        self._sign_counts: dict[int, int] = {}
        self.count = 0
        self._mapped_keys = 0
        self.alive: NDArray[np.bool_] = np.zeros(0, bool)
        self._collection_counts: Counter[int] = Counter()
        self._append(sorted(rows, key=lambda row: row.first_section))

    def updated(self, deleted: Sequence[tuple[int, int]], rows: Sequence[PassageRow]) -> "PassageTable":
        """The table without the passages whose keys lie in the spans `deleted`, and with those of new rows.

        Only the latest table can be updated: the room after it is the next one's.
        """
        table = object.__new__(PassageTable)
        table._columns = self._columns
        table._signs = self._signs
        table._sign_counts = dict(self._sign_counts)
        table._mapped_keys, table._collection_counts = self._mapped_keys, Counter(self._collection_counts)
        table.count, table.alive = self.count, self.alive.copy()
        for start, end in np.searchsorted(self.keys, np.array(deleted, np.int64).reshape(-1, 2)).tolist():
            table._collection_counts.subtract(self.collections[start:end][table.alive[start:end]].tolist())
            table.alive[start:end] = False
        table._append(sorted(rows, key=lambda row: row.first_section))
        return table

    @property
    def keys(self) -> Integers:
        """The key of each passage, ascending; deleted passages included."""
        return self._columns.keys[: self.count]

    @property
    def lengths(self) -> Integers:
        """How many words each passage has."""
        return self._columns.lengths[: self.count]

    @property
    def documents(self) -> Integers:
        """The document of each passage."""
        return self._columns.documents[: self.count]

    @property
    def collections(self) -> Integers:
        """The collection of each passage."""
        return self._columns.collections[: self.count]

    @property
    def collection_ids(self) -> set[int]:
        """The collections that have passages."""
        return {number for number, count in self._collection_counts.items() if count > 0}

    @cached_property
    def words(self) -> int:
        """How many words the living passages have together."""
        return int(self.lengths.sum() if not self.deleted else self.lengths[self.alive].sum())

    @cached_property
    def average_length(self) -> float:
        """How many words a living passage has on average."""
        return average_length(self.words, len(self))

    @cached_property
    def length_damping(self) -> NDArray[np.float64]:
        """What BM25 needs of each passage's length."""
        return length_damping(self.lengths.astype(np.float64), self.average_length)

    @cached_property
    def deleted(self) -> int:
        """How many passages were deleted and still have a position."""
        return self.count - int(np.count_nonzero(self.alive))

    def __len__(self) -> int:
        return self.count - self.deleted

    def positions(self, keys: Integers) -> tuple[NDArray[np.integer[Any]], NDArray[np.bool_]]:
        """The position of each key, and whether its passage is in the table at all."""
        positions: NDArray[np.integer[Any]]
        if not self.count:
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        if self._mapped_keys > self.keys[-1] and not self.deleted and len(keys) and keys.max() < self._mapped_keys:
            positions = self._columns.positions[keys]
            return positions, positions >= 0
        if self._mapped_keys > self.keys[-1]:
            mapped = keys < self._mapped_keys
            positions = self._columns.positions[np.where(mapped, keys, 0)]
            return positions, mapped & (positions >= 0) & self.alive[positions]
        positions = np.minimum(np.searchsorted(self.keys, keys), self.count - 1)
        return positions, (self.keys[positions] == keys) & self.alive[positions]

    def candidates(self, vector: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None) -> Integers:
        """The keys of about `count` passages whose signs agree best with the vector's, in no order."""
        signs, size = self._signs.get(len(vector)), self._sign_counts.get(len(vector), 0)
        if signs is None or not size:
            return np.zeros(0, np.int64)
        positions = signs.positions[:size]
        usable = None
        if self.deleted or allowed is not None:
            usable = (self.alive if allowed is None else self.alive & allowed)[positions]
        return self.keys[positions[closest_columns(signs.words[:, :size], vector, count, usable)]]

    def _append(self, rows: Sequence[PassageRow]) -> None:
        counts = np.array([len(row.ordinals) // 4 for row in rows], np.int64)
        ordinals = np.frombuffer(b"".join(row.ordinals for row in rows), "<u4").astype(np.int64)
        keys = _repeat([row.first_section for row in rows], counts) + ordinals
        lengths = np.frombuffer(b"".join(row.lengths for row in rows), "<u4").astype(np.int64)
        if len(lengths) != len(keys) or np.any(np.diff(keys) <= 0):
            raise ValueError("keys of passages must ascend, each with a length")
        for name, values in (
            ("keys", keys),
            ("lengths", lengths),
            ("documents", _repeat([row.document_id for row in rows], counts)),
            ("collections", _repeat([row.collection_id for row in rows], counts)),
        ):
            setattr(self._columns, name, _extend(getattr(self._columns, name), self.count, values))
        dimensions = _repeat([row.dimension for row in rows], counts)
        for dimension in {row.dimension for row in rows if row.signs}:
            positions = self.count + np.flatnonzero(dimensions == dimension)
            packed = b"".join(row.signs for row in rows if row.dimension == dimension)
            words = np.frombuffer(packed, "<u8").reshape(len(positions), -1).T
            size = self._sign_counts.get(dimension, 0)
            signs = self._signs.setdefault(
                dimension, _SignBits(np.zeros(0, np.int64), np.zeros((len(words), 0), np.uint64))
            )
            signs.positions, signs.words = _extend(signs.positions, size, positions), _extend(signs.words, size, words)
            self._sign_counts[dimension] = size + len(positions)
        self._map_keys(keys)
        self.alive = np.concatenate((self.alive, np.ones(len(keys), bool)))
        self.count += len(keys)
        for row, count in zip(rows, counts.tolist(), strict=True):
            self._collection_counts[row.collection_id] += count

    def _map_keys(self, keys: Integers) -> None:
        """Map new keys to their positions, unless they are so far apart that it takes too much room."""
        if not len(keys) or (self.count and self._mapped_keys <= self.keys[-1]):
            return
        past = int(keys[-1]) + 1
        if past > MAX_KEYS_PER_PASSAGE * (self.count + len(keys)) + MIN_MAPPED_KEYS:
            return
        more = np.full(past - self._mapped_keys, -1, np.int32)
        more[keys - self._mapped_keys] = np.arange(self.count, self.count + len(keys))
        self._columns.positions = _extend(self._columns.positions, self._mapped_keys, more)
        self._mapped_keys = past


def _extend(room: Array, length: int, more: Array) -> Array:
    """The first `length` numbers of each row and more after them; in the same memory, while there is room."""
    needed = length + more.shape[-1]
    if needed > room.shape[-1]:
        larger = np.zeros((*room.shape[:-1], int(needed * (1 + SPARE_SHARE))), room.dtype)
        larger[..., :length] = room[..., :length]
        room = cast(Array, larger)
    room[..., length:needed] = more
    return room


def _repeat(values: Sequence[int], counts: Integers) -> Integers:
    return np.repeat(np.array(values, np.int64), counts)
