"""What must a search know of an index in PostgreSQL before it reads? One row, read with the beginning of a transaction.

A search asks for collections, counts, graphs and deleted sections many times over; within one transaction the answers
stay the same, so they are read once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from annai.answers import Where
from annai.stores.postgres.database import PostgresDatabase
from annai.stores.postgres.postings import Tombstones
from annai.stores.postgres.rows import where_clause

_SELECT = """
    SELECT
    (SELECT json_agg(json_build_array(id, name)) FROM annai_collections),
    (SELECT json_agg(json_build_array(collection_id, dimension, passages, words)) FROM annai_counters),
    (SELECT array_agg(c.relname::text) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = 'annai_vectors'::regclass AND i.indisvalid),
    (SELECT array_agg(first_section ORDER BY first_section) FROM annai_tombstones),
    (SELECT array_agg(section_count ORDER BY first_section) FROM annai_tombstones)
"""


class Overview:
    """The collections of an index, how much they hold, and how it can be searched."""

    def __init__(self, row: Sequence[Any]) -> None:
        collections, counters, graphs, firsts, counts = (part or [] for part in row)
        self._collections: list[tuple[int, str]] = collections
        self._counters: list[list[int]] = counters
        self.graphs = frozenset[str](graphs)
        """The names of the indexes of vectors that can be used."""
        self._deleted = [*zip(firsts, counts, strict=True)]

    @cached_property
    def tombstones(self) -> Tombstones:
        """Which sections were deleted while the lists of words still name them."""
        return Tombstones(self._deleted)

    @property
    def passages(self) -> int:
        """How many passages there are."""
        return sum(passages for *_, passages, _ in self._counters)

    @property
    def words(self) -> int:
        """How many words these have."""
        return sum(words for *_, words in self._counters)

    def passages_of(self, dimension: int) -> dict[int, int]:
        """How many passages each collection, by its number, has with vectors of so many numbers, if it has any."""
        counted = Counter[int]()
        for collection, each, passages, _ in self._counters:
            counted[collection] += passages if each == dimension else 0
        return {collection: passages for collection, passages in counted.items() if passages > 0}

    def numbers(self, where: Where) -> list[int]:
        """The numbers of the collections that are looked at."""
        return [number for number, name in self._collections if not where.collections or name in where.collections]

    def restriction(self, where: Where, document: str) -> tuple[str | None, list[object]]:
        """What a statement adds to look only at these documents: "" if at all, None if at none."""
        named = self.numbers(where)
        if not named:
            return None, []
        others = {collection for collection, *_ in self._counters} - {*named}
        return where_clause(where, document, named if others else None)


@contextmanager
def reading(database: PostgresDatabase) -> Iterator[Overview]:
    """A transaction within which every read sees the same state; within another, that one."""
    with database.reading(_SELECT, Overview) as overview:
        yield overview
