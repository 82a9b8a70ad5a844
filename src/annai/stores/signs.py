"""Which passages are close to a vector, without reading every vector? Their signs, one bit a number.

Two vectors that point the same way agree in most signs. Comparing bits finds a few hundred candidates among many
thousands of passages in a millisecond or two; their full vectors then decide.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

COARSE = 8
"""How many times the candidates asked for are taken by counting signs alone, before the signs are weighed."""

Integers = NDArray[np.int64]
Bits = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class PassageRow:
    """The passages of one document, as the index file keeps them."""

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


class PassageTable:
    """The passages of an index, held as arrays in the order of their keys."""

    def __init__(self, rows: Iterable[PassageRow]) -> None:
        found = list(rows)
        counts = np.array([len(row.ordinals) // 4 for row in found], np.int64)
        ordinals = np.frombuffer(b"".join(row.ordinals for row in found), "<u4").astype(np.int64)
        keys = np.repeat(np.array([row.first_section for row in found], np.int64), counts) + ordinals
        order = np.argsort(keys)
        self.keys: Integers = keys[order]
        self.lengths: Integers = np.frombuffer(b"".join(row.lengths for row in found), "<u4").astype(np.int64)[order]
        self.documents: Integers = _spread([row.document_id for row in found], counts)[order]
        self.collections: Integers = _spread([row.collection_id for row in found], counts)[order]
        self.collection_ids = {row.collection_id for row in found}
        self._signs: dict[int, tuple[Integers, NDArray[np.uint64]]] = {}
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        starts = np.concatenate(([0], np.cumsum(counts)))
        for dimension in {row.dimension for row in found}:
            mine = [i for i, row in enumerate(found) if row.dimension == dimension]
            words = np.frombuffer(b"".join(found[i].signs for i in mine), "<u8")
            places = np.concatenate([position[starts[i] : starts[i + 1]] for i in mine])
            self._signs[dimension] = places, words.reshape(len(places), -1)

    def __len__(self) -> int:
        return len(self.keys)

    def positions(self, keys: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Where the keys stand in the table, and which of them are in it at all."""
        if not len(self):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self) - 1)
        return places, self.keys[places] == keys

    def candidates(self, vector: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None) -> Integers:
        """The keys of about `count` passages whose signs agree best with the vector's, in no order."""
        places, signs = self._signs.get(len(vector), (np.zeros(0, np.int64), np.zeros((0, 1), np.uint64)))
        if allowed is not None:
            chosen = allowed[places]
            places, signs = places[chosen], signs[chosen]
        if len(places) > count * COARSE:
            wanted = pack_signs(vector[None]).view("<u8")
            different = np.bitwise_count(signs ^ wanted).sum(axis=1, dtype=np.int32)
            nearest = np.argpartition(different, count * COARSE)[: count * COARSE]
            places, signs = places[nearest], signs[nearest]
        if len(places) > count:
            # Numbers near zero have signs of no meaning: weigh each sign by the query's number.
            bits = np.unpackbits(signs.view(np.uint8), axis=1, count=len(vector))
            places = places[np.argpartition(-(bits.astype(np.float32) @ vector), count)[:count]]
        return self.keys[places]


def _spread(values: list[int], counts: Integers) -> Integers:
    return cast(Integers, np.repeat(np.array(values, np.int64), counts))
