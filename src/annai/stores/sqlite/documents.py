"""How does an index file hold documents? Rows of texts, sections, vectors and tokens, under keys used only once."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annai.stores.base import MAX_FIELD_VALUES, MAX_FIELDS, IndexedDocument, StoredText, Vectors
from annai.stores.metadata import read_fields, select_fields, select_metadata
from annai.stores.rows import (
    DOCUMENT_COLUMNS,
    SECTION_COLUMNS,
    STATE_COLUMNS,
    names,
    read_document,
    read_halves,
    read_listed,
    read_section,
    section_row,
    select_sections,
)
from annai.stores.sqlite.database import Database
from annai.stores.sqlite.kept_vectors import Halves, KeptVectors
from annai.text.keywords import Keywords
from annai.text.metadata import metadata
from annai.types import Document, ListedDocument, MetadataField, Statistics, StoredSection

_SELECT_DOCUMENTS = f"""
    SELECT c.name, {names(STATE_COLUMNS, "f")}, {names(DOCUMENT_COLUMNS, "d")}
    FROM json_each(?) asked CROSS JOIN collections c ON c.name = asked.value ->> 0
    CROSS JOIN files f ON f.collection_id = c.id AND f.path = asked.value ->> 1 CROSS JOIN documents d ON d.id = f.id
"""
_SELECT_SECTIONS = select_sections("", "index_requests")
_LOOK_UP = select_sections("", "index_requests", "carray(?) asked CROSS JOIN sections s ON s.id = asked.value")
_SELECT_METADATA, _SELECT_FIELDS = select_metadata("", "?"), select_fields("", "?")


class DocumentRow(NamedTuple):
    """A document that is to be written: the number of its file, and the key of its first section."""

    file: int
    first: int
    indexed: IndexedDocument

    def keywords(self) -> Iterator[tuple[int, Keywords]]:
        """The words of its passages, by key, in the order of the keys."""
        return ((self.first + order, words) for order, words in sorted(self.indexed.keywords.items()))


class Documents:
    """The tables `documents`, `metadata`, `sections`, `vectors` and `tokens`. What writes needs a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[tuple[int, int], KeptVectors] = {}

    def listed(self, collection: str, after: str, limit: int | None) -> list[ListedDocument]:
        """The documents in the order of their paths; no text is read."""
        rows = self._database.rows(
            """SELECT f.path, d.title, d.section_count, s.token_count, d.front_matter, f.mtime_ns
            FROM files f JOIN documents d ON d.id = f.id JOIN sections s ON s.id = d.first_section
            WHERE f.collection_id = (SELECT id FROM collections WHERE name = ?) AND f.path > ?
            ORDER BY f.path LIMIT ?""",
            (collection, after, -1 if limit is None else limit),
        )
        return [*map(read_listed, rows)]

    def metadata(self, collection: str, name: str) -> list[tuple[str, str]]:
        """What documents say under a name."""
        return [(path, value) for path, value in self._database.rows(_SELECT_METADATA, (name, collection))]

    def fields(self, collection: str) -> list[MetadataField]:
        """The names under which they say something."""
        return read_fields(self._database.rows(_SELECT_FIELDS, (collection, MAX_FIELDS, MAX_FIELD_VALUES)))

    def document(self, collection: str, path: str) -> Document | None:
        """The document, or None."""
        return self.documents_at([(collection, path)]).get((collection, path))

    def documents_at(self, addresses: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Document]:
        """The documents of these collections and paths, in one statement."""
        rows = self._database.rows(_SELECT_DOCUMENTS, (json.dumps(addresses, ensure_ascii=False),))
        past = 1 + len(STATE_COLUMNS)
        return {(row[0], row[1]): read_document(row[0], row[1:past], row[past:]) for row in rows}

    def texts(self, collections: Sequence[str], chosen: Sequence[int] | None) -> Iterator[StoredText]:
        """The texts of these collections (all, if none is named), as bytes: most are only looked through."""
        clauses, values = ["true"], list[Any]()
        if collections:
            clauses.append("c.name IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(collections))
        if chosen is not None:
            clauses.append("f.id IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(chosen))
        rows = self._database.stream(
            f"""SELECT c.name, f.path, CAST(d.text AS BLOB) FROM collections c
            CROSS JOIN files f ON f.collection_id = c.id CROSS JOIN documents d ON d.id = f.id
            WHERE {" AND ".join(clauses)} ORDER BY c.name, f.path""",
            values,
        )
        return map(StoredText._make, rows)

    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document."""
        rows = self._database.rows(
            f"""{_SELECT_SECTIONS} WHERE s.id >= d.first_section AND s.id < d.first_section + d.section_count
            AND c.name = ? AND f.path = ? ORDER BY s.id""",
            (collection, path),
        )
        return [read_section(row) for row in rows]

    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Sections by key."""
        return {row[0]: read_section(row) for row in self._database.rows_of(keys, _LOOK_UP)}

    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The vectors of sections."""
        if self._database.is_writing:
            # What a transaction writes may never be: then its keys are given to others.
            return read_halves(self._read_vectors(keys, dimension))
        # Another file has other vectors by the same keys.
        file = self._database.opening
        kept = self._kept.get((file, dimension))
        if kept is None:
            of_file = {known: each for known, each in self._kept.items() if known[0] == file}
            kept = KeptVectors(dimension, self._read_vectors)
            self._kept = {**of_file, (file, dimension): kept}
        return read_halves(kept.get(np.array(keys, np.int64)))

    def _read_vectors(self, keys: Sequence[int], dimension: int) -> Halves:
        vectors: dict[int, bytes] = dict(
            self._database.rows_of(
                keys,
                """SELECT section_id, vector FROM carray(?) asked CROSS JOIN vectors ON section_id = asked.value
                WHERE length(vector) = ?""",
                (2 * dimension,),
            )
        )
        if len(vectors) < len(keys):
            vectors = dict.fromkeys(keys, bytes(2 * dimension)) | vectors
        raw = b"".join(map(vectors.__getitem__, keys))
        return np.frombuffer(raw, "<i2").reshape(len(keys), dimension)

    def vector_length(self, key: int) -> int:
        """How many numbers the vector of a section has; 0 if it has none."""
        return self._database.number("SELECT length(vector) / 2 FROM vectors WHERE section_id = ?", (key,))

    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The tokens of passages."""
        return dict(
            self._database.rows_of(
                keys, "SELECT section_id, packed FROM carray(?) asked CROSS JOIN tokens ON section_id = asked.value"
            )
        )

    def dimension(self, collection: str) -> int:
        """How many numbers the vectors of a collection have, by any of its documents; 0 if it has none."""
        return self._database.number(
            "SELECT dimension FROM passages JOIN collections c ON c.id = collection_id WHERE c.name = ? LIMIT 1",
            (collection,),
        )

    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection."""
        row = self._database.row(
            """SELECT count(*), coalesce(sum(d.section_count), 0), coalesce(sum((SELECT count(*) FROM vectors v
            WHERE v.section_id >= d.first_section AND v.section_id < d.first_section + d.section_count)), 0)
            FROM documents d JOIN files f ON f.id = d.id JOIN collections c ON c.id = f.collection_id
            WHERE c.name = ?""",
            (collection,),
        )
        return Statistics(*row) if row else Statistics(0, 0, 0)

    def insert(self, rows: Sequence[DocumentRow]) -> None:
        """Write documents."""
        self._database.insert(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    file,
                    first,
                    len(indexed.sections),
                    indexed.document.title,
                    indexed.is_cjk,
                    indexed.document.format,
                    indexed.document.body_start,
                    json.dumps(indexed.document.front_matter, ensure_ascii=False),
                    indexed.document.text,
                )
                for file, first, indexed in rows
            ],
        )
        self._database.insert(
            "INSERT INTO metadata VALUES (?, ?, ?)",
            [(*pair, file) for file, _, indexed in rows for pair in metadata(indexed.document.front_matter)],
        )
        self._database.insert(
            f"INSERT INTO sections VALUES ({', '.join('?' * len(SECTION_COLUMNS))})",
            [section_row(first, file, section) for file, first, indexed in rows for section in indexed.sections],
        )
        self._database.insert(
            "INSERT INTO vectors VALUES (?, ?)",
            [
                (first + order, vector.tobytes())
                for _, first, indexed in rows
                for order, vector in enumerate(indexed.vectors.astype("<f2"))
            ],
        )
        self._database.insert(
            "INSERT INTO tokens VALUES (?, ?)",
            [(first + order, packed) for _, first, indexed in rows for order, packed in indexed.tokens.items()],
        )

    def span(self, file: int) -> tuple[int, int] | None:
        """The first key of a file's document, and the one after its last; None if it has no document."""
        row = self._database.row(
            "SELECT first_section, first_section + section_count FROM documents WHERE id = ?", (file,)
        )
        return (row[0], row[1]) if row else None

    def delete(self, file: int, span: tuple[int, int]) -> None:
        """Delete the document of a file."""
        for table in ("vectors", "tokens"):
            self._database.rows(f"DELETE FROM {table} WHERE section_id >= ? AND section_id < ?", span)
        self._database.rows("DELETE FROM sections WHERE id >= ? AND id < ?", span)
        self._database.rows("DELETE FROM metadata WHERE document_id = ?", (file,))
        self._database.rows("DELETE FROM documents WHERE id = ?", (file,))

    def delete_orphans(self) -> None:
        """Delete every row that belongs to no document."""
        self._database.rows("DELETE FROM documents WHERE id NOT IN (SELECT id FROM files)")
        for table in ("passages", "metadata"):
            self._database.rows(f"DELETE FROM {table} WHERE document_id NOT IN (SELECT id FROM documents)")
        self._database.rows(
            """DELETE FROM sections WHERE NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = document_id
            AND sections.id >= d.first_section AND sections.id < d.first_section + d.section_count)"""
        )
        for table in ("vectors", "tokens"):
            self._database.rows(f"DELETE FROM {table} WHERE section_id NOT IN (SELECT id FROM sections)")

    def section_keys(self) -> NDArray[np.int64]:
        """The keys of all rows of `sections`, ascending."""
        return self._keys("SELECT id FROM sections ORDER BY 1")

    def passage_keys(self) -> NDArray[np.int64]:
        """The keys of those rows of `sections` that are passages, ascending."""
        return self._keys("SELECT id FROM sections WHERE is_passage ORDER BY 1")

    def vector_keys(self) -> NDArray[np.int64]:
        """The keys of all rows of `vectors`, ascending."""
        return self._keys("SELECT section_id FROM vectors ORDER BY 1")

    def last_key(self) -> int:
        """The highest key that was ever given."""
        return self._database.number("SELECT seq FROM sqlite_sequence WHERE name = 'sections'")

    def live_keys(self) -> NDArray[np.bool_]:
        """For every key that was ever given, whether a document owns it."""
        live = np.zeros(self.last_key() + 1, bool)
        for first, count in self._database.rows("SELECT first_section, section_count FROM documents"):
            live[first : first + count] = True
        return live

    def _keys(self, sql: str) -> NDArray[np.int64]:
        return np.array([key for (key,) in self._database.rows(sql)], np.int64)
