"""Which passages does an index file hold, and which of them does a search look at? Held in memory, updated by parts."""

import json
import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from annai.answers import Where
from annai.errors import DamagedIndex
from annai.stores.base import Vectors
from annai.stores.paths import trim_prefix
from annai.stores.rows import SQLValue
from annai.stores.sqlite.database import Database, damaged
from annai.stores.sqlite.documents import DocumentRow
from annai.stores.sqlite.passage_table import PassageRow, PassageTable

MAX_TABLES = 3
"""Tables of the latest generations: a search that began before a write still finds its own."""

GENERATIONS_KEPT = 1_000
"""For this many writes back the file tells what was deleted; a process that knows less reads everything again."""

MAX_DELETED_SHARE = 0.3
"""Share of a table, or of the lists of words, that may be deleted passages before it is read or written anew."""

_COLUMNS = ", ".join(PassageRow._fields)

_Generation = tuple[int, int]
"""Which file, of those that were in its place, and how often it had been written."""

_NONE: _Generation = (0, 0)


class Passages:
    """The passages of an index file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables: dict[_Generation, PassageTable] = {}
        self._lock = threading.Lock()

    def insert(self, collection: int, rows: Sequence[DocumentRow], pack: Callable[[Vectors], bytes]) -> None:
        """Write documents' passages, within a transaction. `pack` gives what their vectors are found by."""
        generation = self._generation() + 1
        values = []
        for document, first, indexed in rows:
            orders = sorted(indexed.keywords)
            values.append(
                (
                    document,
                    collection,
                    first,
                    indexed.vectors.shape[1],
                    np.array(orders, "<u4").tobytes(),
                    np.array([indexed.keywords[order].length for order in orders], "<u4").tobytes(),
                    pack(indexed.vectors[orders]),
                    generation,
                )
            )
        self._database.insert(f"INSERT INTO passages ({_COLUMNS}, generation) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def delete(self, document: int, first: int, past: int) -> None:
        """Delete a document's passages, within a transaction."""
        self._database.rows("DELETE FROM passages WHERE document_id = ?", (document,))
        self._database.rows("INSERT INTO gone VALUES (?, ?, ?)", (self._generation() + 1, first, past))

    def advance(self, *, reread: bool = False) -> None:
        """End a transaction that changed documents, so that whoever holds passages in memory sees that.

        With `reread`, they read everything again.
        """
        step = GENERATIONS_KEPT + 1 if reread else 1
        self._database.rows("UPDATE generation SET number = number + ?", (step,))
        self._database.rows("DELETE FROM gone WHERE generation < ?", (self._generation() - GENERATIONS_KEPT,))

    def deleted_share(self) -> float:
        """How many sections were deleted since the lists of words were compacted, for each one that is there."""
        deleted = self._database.number(
            "SELECT sum(past - first) FROM gone WHERE generation > (SELECT compacted FROM generation)"
        )
        return deleted / max(self._database.number("SELECT sum(section_count) FROM documents"), 1)

    def mark_compacted(self) -> None:
        """The lists of words hold nothing that is deleted, also by the transaction that this is called within."""
        self._database.rows("UPDATE generation SET compacted = number + 1")

    def table(self) -> PassageTable:
        """The passages as the current transaction sees them, or as they are now."""
        # Number and rows are of one state: of two, the table would have newer rows than its number says.
        with self._database.reading():
            return self._table((self._database.opening, self._generation()))

    def _table(self, generation: _Generation) -> PassageTable:
        with self._lock:
            table = self._tables.get(generation)
            if table is None:
                try:
                    table = self._read(generation)
                except ValueError as error:
                    raise DamagedIndex(damaged(self._database.path)) from error
                if generation > max(self._tables, default=_NONE):
                    self._tables[generation] = table
                    for old in sorted(self._tables)[:-MAX_TABLES]:
                        del self._tables[old]
            return table

    def keys(self) -> NDArray[np.int64]:
        """The keys of all passages, ascending."""
        table = self.table()
        return np.asarray(table.keys[table.alive])

    def stored_keys(self) -> NDArray[np.int64]:
        """The keys of all passages as the rows have them, whatever is held in memory; in no order."""
        rows = self._database.rows("SELECT first_section, ordinals FROM passages")
        parts = [first + np.frombuffer(ordinals, "<i4").astype(np.int64) for first, ordinals in rows]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def usable(self, table: PassageTable, where: Where) -> NDArray[np.bool_]:
        """Which passages of the table exist and pass a restriction."""
        allowed = self.allowed(table, where)
        return table.alive if allowed is None else table.alive & allowed

    def allowed(self, table: PassageTable, where: Where) -> NDArray[np.bool_] | None:
        """Which passages of the table pass a restriction, whether they exist or not; None if all do."""
        allowed: NDArray[np.bool_] | None = None
        named = self.collections(table, where)
        if named is not None:
            allowed = np.isin(table.collections, named)
        if (passing := self.documents(where)) is not None:
            documents = np.isin(table.documents, passing)
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

    def documents(self, where: Where) -> list[int] | None:
        """The numbers of the documents that pass a restriction, whatever collections it names; None if all do."""
        if not (where.paths or where.excludes or where.clean_only or where.documents is not None):
            return None
        clauses, values = ["true"], list[SQLValue]()
        for prefixes, form in ((where.paths, "({})"), (where.excludes, "NOT ({})")):
            if prefixes:
                clauses.append(form.format(" OR ".join(["path = ? OR substr(path, 1, ?) = ?"] * len(prefixes))))
                for prefix in map(trim_prefix, prefixes):
                    values += [prefix, len(prefix) + 1, prefix + "/"]
        if where.documents is not None:
            clauses.append("path IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(where.documents))
        if where.clean_only:
            clauses.append(
                """problem_kind IS NULL AND NOT EXISTS (SELECT 1 FROM index_requests r JOIN collections c
                ON c.name = r.collection WHERE c.id = files.collection_id AND r.path = files.path
                AND r.status IN ('pending', 'processing'))"""
            )
        rows = self._database.rows(f"SELECT id FROM files WHERE {' AND '.join(clauses)}", values)
        return [number for (number,) in rows]

    def _generation(self) -> int:
        return self._database.number("SELECT number FROM generation")

    def _read(self, generation: _Generation) -> PassageTable:
        """Update the latest table by what is newer, or read everything."""
        opening, latest = max(self._tables, default=_NONE)
        table = self._tables.get((opening, latest))
        fresh = opening == generation[0] and latest < generation[1] <= latest + GENERATIONS_KEPT
        if not fresh or table is None or table.deleted > MAX_DELETED_SHARE * table.count:
            return PassageTable(self._rows("1"))
        deleted = self._database.rows("SELECT first, past FROM gone WHERE generation > ?", (latest,))
        return table.updated([(first, past) for first, past in deleted], self._rows("generation > ?", (latest,)))

    def _rows(self, condition: str, values: Sequence[int] = ()) -> list[PassageRow]:
        rows = self._database.rows(f"SELECT {_COLUMNS} FROM passages WHERE {condition}", values)
        return [*map(PassageRow._make, rows)]
