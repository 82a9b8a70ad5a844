"""Which passages does an index file hold, and which of them does a search look at? Held in memory, renewed by parts."""

import json
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from annai.stores.base import IndexedDocument, trim_prefix
from annai.stores.sqlite.database import Database
from annai.stores.sqlite.passage_table import PassageRow, PassageTable, pack_signs
from annai.types import Where

TABLES_HELD = 3
"""Tables of the latest generations: a search that began before a write still finds its own."""

GENERATIONS_KEPT = 1_000
"""For so many writes back the file tells what went; who knows less reads everything again."""

MOST_DEAD = 0.3
"""Share of a table that may be gone before it is made anew."""

_COLUMNS = "document_id, collection_id, first_section, dimension, ordinals, lengths, signs"


class Passages:
    """The passages of an index file."""

    def __init__(self, database: Database, *, signed: bool = True) -> None:
        """With `signed`, the signs of their vectors are kept too; an engine beside the file needs none."""
        self._database = database
        self._signed = signed
        self._tables: dict[int, PassageTable] = {}
        self._turn = threading.Lock()

    def insert(self, collection: int, document: int, first: int, indexed: IndexedDocument) -> None:
        """Write down a document's passages, within a transaction."""
        orders = sorted(indexed.keywords)
        self._database.rows(
            f"INSERT INTO passages ({_COLUMNS}, generation) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                document,
                collection,
                first,
                indexed.vectors.shape[1],
                np.array(orders, "<u4").tobytes(),
                np.array([indexed.keywords[order].length for order in orders], "<u4").tobytes(),
                pack_signs(indexed.vectors[orders]).tobytes() if self._signed else b"",
                self._generation() + 1,
            ),
        )

    def drop(self, document: int, first: int, past: int) -> None:
        """Forget a document's passages, within a transaction."""
        self._database.rows("DELETE FROM passages WHERE document_id = ?", (document,))
        self._database.rows("INSERT INTO gone VALUES (?, ?, ?)", (self._generation() + 1, first, past))

    def advance(self, *, anew: bool = False) -> None:
        """End a transaction that changed documents: who holds passages in memory sees by it that something is new.

        With `anew`, they shall read everything again.
        """
        step = GENERATIONS_KEPT + 1 if anew else 1
        self._database.rows("UPDATE generation SET number = number + ?", (step,))
        self._database.rows("DELETE FROM gone WHERE generation < ?", (self._generation() - GENERATIONS_KEPT,))

    def table(self) -> PassageTable:
        """The passages as this moment's transaction sees them."""
        generation = self._generation()
        with self._turn:
            held = self._tables.get(generation)
            if held is None:
                held = self._read(generation)
                if generation > max(self._tables, default=0):
                    self._tables[generation] = held
                    for old in sorted(self._tables)[:-TABLES_HELD]:
                        del self._tables[old]
            return held

    def allowed(self, table: PassageTable, where: Where) -> NDArray[np.bool_] | None:
        """Which passages of the table a restriction lets through; None if it lets all."""
        allowed: NDArray[np.bool_] | None = None
        named = self.collections(table, where)
        if named is not None:
            allowed = np.isin(table.collections, named)
        if where.paths or where.excludes or where.clean_only:
            documents = np.isin(table.documents, self._documents(where))
            allowed = documents if allowed is None else allowed & documents
        return allowed

    def collections(self, table: PassageTable, where: Where) -> list[int] | None:
        """The numbers of the collections that a restriction names; None if all that have passages are among them."""
        if not where.collections:
            return None
        rows = self._database.rows(
            "SELECT id FROM collections WHERE name IN (SELECT value FROM json_each(?))",
            (json.dumps(where.collections),),
        )
        named = {number for (number,) in rows}
        return None if table.collection_ids <= named else sorted(named)

    def _generation(self) -> int:
        return self._database.number("SELECT number FROM generation")

    def _read(self, generation: int) -> PassageTable:
        """Renew the latest table by what is newer, or read everything."""
        latest = max(self._tables, default=0)
        table = self._tables.get(latest)
        fresh = table is not None and latest < generation <= latest + GENERATIONS_KEPT
        if not fresh or table is None or table.dead > MOST_DEAD * table.count:
            return PassageTable(self._rows("1"))
        gone = self._database.rows("SELECT first, past FROM gone WHERE generation > ?", (latest,))
        return table.renewed(gone, self._rows("generation > ?", (latest,)))

    def _rows(self, condition: str, values: Sequence[int] = ()) -> list[PassageRow]:
        rows = self._database.rows(f"SELECT {_COLUMNS} FROM passages WHERE {condition}", values)
        return [*map(PassageRow._make, rows)]

    def _documents(self, where: Where) -> list[int]:
        clauses, values = ["true"], list[object]()
        for prefixes, form in ((where.paths, "({})"), (where.excludes, "NOT ({})")):
            if prefixes:
                clauses.append(form.format(" OR ".join(["path = ? OR substr(path, 1, ?) = ?"] * len(prefixes))))
                for prefix in map(trim_prefix, prefixes):
                    values += [prefix, len(prefix) + 1, prefix + "/"]
        if where.clean_only:
            clauses.append(
                """problem_kind IS NULL AND NOT EXISTS (SELECT 1 FROM index_requests r JOIN collections c
                ON c.name = r.collection WHERE c.id = files.collection_id AND r.path = files.path
                AND r.status IN ('pending', 'processing'))"""
            )
        rows = self._database.rows(f"SELECT id FROM files WHERE {' AND '.join(clauses)}", values)
        return [number for (number,) in rows]
