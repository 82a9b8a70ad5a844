"""Which passages are close to a vector, without reading every vector? Their signs, one bit a number.

Two vectors that point the same way agree in most signs. Comparing bits finds a few hundred candidates among many
thousands of passages in a millisecond or two; their full vectors then decide.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from annai.stores.base import BM25_B, BM25_K1

COARSE = 8
"""How many times the candidates asked for are taken by counting signs alone, before the signs are weighed."""

LARGEST_GAP = 8
"""While keys go up to at most so many times the number of passages, a plain array tells where each stands."""

BLOCK = 65_536
"""Passages compared at a time: what is computed in between stays in the processor's cache."""

SPARE = 0.5
"""Room that is kept for what is written later, as a share of what there is."""

Array = TypeVar("Array", bound=NDArray[Any])
Integers = NDArray[np.int64]
Bits = NDArray[np.uint8]


class PassageRow(NamedTuple):
    """The passages of one document, as the index file keeps them; read by the thousand, so as light as can be."""

    document_id: int
    collection_id: int
    first_section: int
    dimension: int
    ordinals: bytes
    lengths: bytes
    signs: bytes


def pack_signs(vectors: NDArray[np.float32]) -> Bits:
    """One bit a number, set where it is positive; a row a vector, padded to whole 64-bit words."""
    bits = np.packbits(vectors > 0, axis=1)
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))


@dataclass(slots=True)
class _Signs:
    """The signs of all vectors of one dimension: a row a 64-bit word, a column a passage."""

    places: Integers
    """Where each of these passages stands in the table."""
    words: NDArray[np.uint64]
    count: int = 0


@dataclass(slots=True)
class _Columns:
    """What is known of each passage, in the order of the keys, with room for more."""

    keys: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    lengths: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    documents: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    collections: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    by_key: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """For every key the passage's place, -1 if it has none; not kept while keys are far apart."""


class PassageTable:
    """The passages of an index, held as arrays in the order of their keys.

    A table never changes. `renewed` makes the next one out of it, which shares its arrays: new keys are higher than
    all before them, so what is new stands at the end, and what is gone is only marked.
    """

    def __init__(self, rows: Sequence[PassageRow]) -> None:
        self._columns = _Columns()
        self._signs: dict[int, _Signs] = {}
        self._counts: dict[int, int] = {}
        self.count = 0
        self._keys_told = 0
        self.alive: NDArray[np.bool_] = np.zeros(0, bool)
        self._per_collection: Counter[int] = Counter()
        self._append(sorted(rows, key=lambda row: row.first_section))

    def renewed(self, gone: Sequence[tuple[int, int]], rows: Sequence[PassageRow]) -> "PassageTable":
        """The table without the passages whose keys lie in the spans `gone`, and with those of new rows.

        Only the latest table can be renewed: the room after it is the next one's.
        """
        table = object.__new__(PassageTable)
        table._columns = self._columns
        table._signs = self._signs
        table._counts = dict(self._counts)
        table._keys_told, table._per_collection = self._keys_told, Counter(self._per_collection)
        table.count, table.alive = self.count, self.alive.copy()
        for start, end in np.searchsorted(self.keys, np.array(gone, np.int64).reshape(-1, 2)).tolist():
            table._per_collection.subtract(self.collections[start:end][table.alive[start:end]].tolist())
            table.alive[start:end] = False
        table._append(sorted(rows, key=lambda row: row.first_section))
        return table

    @property
    def keys(self) -> Integers:
        """The key of each passage, ascending, of those included that are gone."""
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
        return {number for number, count in self._per_collection.items() if count > 0}

    @cached_property
    def words(self) -> int:
        """How many words the living passages have together."""
        return int(self.lengths.sum() if not self.dead else self.lengths[self.alive].sum())

    @cached_property
    def dampings(self) -> NDArray[np.float64]:
        """What BM25 adds to how often a word stands in each passage: more in one longer than the average."""
        average = max(self.words / max(len(self), 1), 1)
        return (BM25_K1 * (1 - BM25_B + BM25_B * self.lengths / average)).astype(np.float64)

    @cached_property
    def dead(self) -> int:
        """How many passages are gone and still have their place."""
        return self.count - int(np.count_nonzero(self.alive))

    def __len__(self) -> int:
        return self.count - self.dead

    def positions(self, keys: Integers) -> tuple[NDArray[np.integer[Any]], NDArray[np.bool_]]:
        """Where the keys stand in the table, and which of them are in it at all."""
        places: NDArray[np.integer[Any]]
        if not self.count:
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        if self._keys_told > self.keys[-1] and not self.dead and len(keys) and keys.max() < self._keys_told:
            places = self._columns.by_key[keys]
            return places, places >= 0
        if self._keys_told > self.keys[-1]:
            known = keys < self._keys_told
            places = self._columns.by_key[np.where(known, keys, 0)].astype(np.int64)
            return places, known & (places >= 0) & self.alive[places]
        places = np.minimum(np.searchsorted(self.keys, keys), self.count - 1)
        return places, (self.keys[places] == keys) & self.alive[places]

    def candidates(self, vector: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None) -> Integers:
        """The keys of about `count` passages whose signs agree best with the vector's, in no order."""
        signs, held = self._signs.get(len(vector)), self._counts.get(len(vector), 0)
        if signs is None or not held:
            return np.zeros(0, np.int64)
        places, words = signs.places[:held], signs.words[:, :held]
        usable = self.alive if allowed is None else self.alive & allowed
        chosen: Integers | None = None
        if self.dead or allowed is not None:
            mine = usable[places]
            if np.count_nonzero(mine) <= count * COARSE:
                chosen = np.flatnonzero(mine)
            different = None if chosen is not None else _different(words, vector)
            if different is not None:
                different[~mine] = np.iinfo(np.uint16).max
        else:
            different = _different(words, vector) if held > count * COARSE else None
        if different is not None:
            chosen = _lowest(different, count * COARSE, 64 * len(words))
        if chosen is None:
            chosen = np.arange(held)
        if len(chosen) > count:
            chosen = chosen[np.argpartition(-_agreement(words[:, chosen], vector), count)[:count]]
        return self.keys[places[chosen]]

    def _append(self, rows: Sequence[PassageRow]) -> None:
        counts = np.array([len(row.ordinals) // 4 for row in rows], np.int64)
        ordinals = np.frombuffer(b"".join(row.ordinals for row in rows), "<u4").astype(np.int64)
        keys = _spread([row.first_section for row in rows], counts) + ordinals
        for name, values in (
            ("keys", keys),
            ("lengths", np.frombuffer(b"".join(row.lengths for row in rows), "<u4").astype(np.int64)),
            ("documents", _spread([row.document_id for row in rows], counts)),
            ("collections", _spread([row.collection_id for row in rows], counts)),
        ):
            setattr(self._columns, name, _extended(getattr(self._columns, name), self.count, values))
        dimensions = _spread([row.dimension for row in rows], counts)
        for dimension in {row.dimension for row in rows if row.signs}:
            places = self.count + np.flatnonzero(dimensions == dimension)
            signs_of = b"".join(row.signs for row in rows if row.dimension == dimension)
            words = np.frombuffer(signs_of, "<u8").reshape(len(places), -1).T
            held = self._counts.get(dimension, 0)
            signs = self._signs.setdefault(
                dimension, _Signs(np.zeros(0, np.int64), np.zeros((len(words), 0), np.uint64))
            )
            signs.places, signs.words = _extended(signs.places, held, places), _extended(signs.words, held, words)
            self._counts[dimension] = held + len(places)
        self._tell_keys(keys)
        self.alive = np.concatenate((self.alive, np.ones(len(keys), bool)))
        self.count += len(keys)
        for row, count in zip(rows, counts.tolist(), strict=True):
            self._per_collection[row.collection_id] += count

    def _tell_keys(self, keys: Integers) -> None:
        """Note where new keys stand, unless they are so far apart that it takes too much room."""
        if not len(keys) or (self.count and self._keys_told <= self.keys[-1]):
            return
        past = int(keys[-1]) + 1
        if past > LARGEST_GAP * (self.count + len(keys)) + BLOCK:
            return
        more = np.full(past - self._keys_told, -1, np.int32)
        more[keys - self._keys_told] = np.arange(self.count, self.count + len(keys))
        self._columns.by_key = _extended(self._columns.by_key, self._keys_told, more)
        self._keys_told = past


def _extended(room: Array, length: int, more: Array) -> Array:
    """The first `length` numbers of each row and more after them; in the same memory, while there is room."""
    wanted = length + more.shape[-1]
    if wanted > room.shape[-1]:
        larger = np.zeros((*room.shape[:-1], int(wanted * (1 + SPARE))), room.dtype)
        larger[..., :length] = room[..., :length]
        room = larger  # type: ignore[assignment]  # of the same kind
    room[..., length:wanted] = more
    return room


def _different(words: NDArray[np.uint64], vector: NDArray[np.float32]) -> NDArray[np.uint16]:
    """In how many signs each passage differs from the vector."""
    wanted = pack_signs(vector[None]).view("<u8")[0]
    different = np.zeros(words.shape[1], np.uint16)
    for start in range(0, words.shape[1], BLOCK):
        part = different[start : start + BLOCK]
        for row, word in zip(words, wanted, strict=True):
            part += np.bitwise_count(row[start : start + BLOCK] ^ word)
    return different


def _lowest(values: NDArray[np.uint16], count: int, largest: int) -> Integers:
    """Where the `count` lowest values stand; values over `largest` do not count."""
    sums = np.cumsum(np.bincount(np.minimum(values, largest + 1), minlength=largest + 2)[: largest + 1])
    threshold = int(np.searchsorted(sums, count))
    if threshold > largest:
        return np.flatnonzero(values <= largest)
    below = np.flatnonzero(values < threshold)
    return np.concatenate((below, np.flatnonzero(values == threshold)[: count - len(below)]))


def _agreement(words: NDArray[np.uint64], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The signs weighed by the vector's numbers: one near zero has a sign of little meaning."""
    rows = np.ascontiguousarray(words.T).view(np.uint8)
    padded = np.zeros(8 * rows.shape[1], np.float32)
    padded[: len(vector)] = vector
    # What each of the 256 values of a byte adds, for every byte of a row.
    values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
    table = values @ padded.reshape(-1, 8).T
    sums = np.zeros(len(rows), np.float32)
    for place in range(rows.shape[1]):
        sums += table[rows[:, place], place]
    return sums


def _spread(values: Sequence[int], counts: Integers) -> Integers:
    return np.repeat(np.array(values, np.int64), counts)
