"""How does PostgreSQL hold documents? Rows of texts, sections, vectors and tokens; a batch is one stream a table."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annai.stores.base import IndexedDocument, Vectors
from annai.stores.postgres.database import PostgresDatabase
from annai.stores.postgres.metadata import write_metadata
from annai.stores.postgres.postings import write_postings
from annai.stores.postgres.rows import (
    DOCUMENT_COLUMNS,
    DOCUMENT_KINDS,
    SECTION_KINDS,
    VECTOR_COLUMNS,
    VECTOR_KINDS,
    binary_vector,
    escape,
    read_document,
    read_section,
    read_vectors,
    section_row,
    unescape,
    zero_vector,
)
from annai.stores.rows import DOCUMENT_COLUMNS as READ_COLUMNS
from annai.stores.rows import SECTION_COLUMNS, STATE_COLUMNS, names, read_listed, select_sections
from annai.text.keywords import Keywords
from annai.types import Document, ListedDocument, Statistics, StoredSection

COUNTER_SLOTS = 16
"""Rows that count a collection: this many writers seldom wait for each other."""

_COUNTED = ("documents", "sections", "passages", "words")

Totals = dict[tuple[int, int], Counter[str]]
"""(collection, dimension) → how many more there are of what is counted."""

_SELECT_DOCUMENTS = f"""
    SELECT c.name, {names(STATE_COLUMNS, "f")}, {names(READ_COLUMNS, "d")}
    FROM unnest(%s::text[], %s::text[]) AS w (name, path) JOIN annai_collections c ON c.name = w.name
    JOIN annai_files f ON f.collection_id = c.id AND f.path = w.path JOIN annai_documents d ON d.id = f.id
"""
_SELECT_SECTIONS = select_sections("annai_", "annai_requests")


class Documents:
    """The documents of a database, with their sections, vectors, tokens and words. What writes needs a transaction."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def listed(self, collection: str, after: str, limit: int | None) -> list[ListedDocument]:
        """The documents in the order of their paths; no text is read."""
        rows = self._database.rows(
            """SELECT f.path, d.title, d.section_count, s.token_count, d.front_matter, f.mtime_ns FROM annai_files f
            JOIN annai_documents d ON d.id = f.id JOIN annai_sections s ON s.id = d.first_section
            WHERE f.collection_id = (SELECT id FROM annai_collections WHERE name = %s) AND f.path > %s
            ORDER BY f.path LIMIT %s""",
            (collection, escape(after), limit),
        )
        return [read_listed((unescape(path), unescape(title), *rest)) for path, title, *rest in rows]

    def document(self, collection: str, path: str) -> Document | None:
        """The document, or None."""
        return self.documents_at([(collection, path)]).get((collection, path))

    def documents_at(self, addresses: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Document]:
        """The documents of collections and paths."""
        wanted = {(name, escape(path)): (name, path) for name, path in addresses}
        rows = self._database.rows(_SELECT_DOCUMENTS, tuple([key[part] for key in wanted] for part in (0, 1)))
        state = len(STATE_COLUMNS)
        return {wanted[name, row[0]]: read_document(name, row[:state], row[state:]) for name, *row in rows}

    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document."""
        rows = self._database.rows(
            f"""{_SELECT_SECTIONS} WHERE c.name = %s AND f.path = %s
            AND s.id >= d.first_section AND s.id < d.first_section + d.section_count ORDER BY s.id""",
            (collection, escape(path)),
        )
        return [read_section(row) for row in rows]

    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Sections by key."""
        rows = self._database.rows(f"{_SELECT_SECTIONS} WHERE s.id = ANY(%s)", ([int(key) for key in keys],))
        return {row[0]: read_section(row) for row in rows}

    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The vectors of sections."""
        vectors: dict[int, bytes] = dict(
            self._database.rows(
                "SELECT section_id, vector FROM annai_vectors WHERE section_id = ANY(%s) AND dimension = %s",
                ([int(key) for key in keys], dimension),
                binary=True,
            )
        )
        zeros = zero_vector(dimension)
        return read_vectors([vectors.get(key, zeros) for key in keys], dimension)

    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The tokens of passages."""
        return dict(
            self._database.rows(
                "SELECT section_id, packed FROM annai_tokens WHERE section_id = ANY(%s)",
                ([int(key) for key in keys],),
                binary=True,
            )
        )

    def dimension(self, collection: str) -> int:
        """How many numbers the vectors of a collection have, by any of its documents; 0 if it has none."""
        return self._database.number(
            """SELECT dimension FROM annai_counters WHERE passages > 0
            AND collection_id = (SELECT id FROM annai_collections WHERE name = %s) LIMIT 1""",
            (collection,),
        )

    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection."""
        row = self._database.row(
            """SELECT coalesce(sum(documents), 0), coalesce(sum(sections), 0) FROM annai_counters
            WHERE collection_id = (SELECT id FROM annai_collections WHERE name = %s)""",
            (collection,),
        )
        documents, sections = row or (0, 0)
        return Statistics(int(documents), int(sections), int(sections))

    def insert(self, collection: int, documents: Sequence[tuple[int, IndexedDocument]]) -> None:
        """Write documents whose files are known, everything of them in one stream a table."""
        total = sum(len(indexed.sections) for _, indexed in documents)
        key = self._database.number("SELECT annai_take_keys(%s)", (total,)) if total else 0
        rows: tuple[list[Any], ...] = ([], [], [], [])
        keywords: dict[int, Keywords] = {}
        totals: Totals = {}
        for file, indexed in documents:
            document, first, dimension = indexed.document, key, indexed.vectors.shape[1]
            lengths = [words.length for words in indexed.keywords.values()]
            counts = (len(indexed.sections), len(lengths), sum(lengths), dimension)
            rows[0].append(
                (
                    *(file, collection, first, *counts, escape(document.title), indexed.is_cjk, document.format),
                    document.body_start,
                    json.dumps(document.front_matter, ensure_ascii=False),
                    escape(document.text),
                )
            )
            rows[1].extend(section_row(first, file, section) for section in indexed.sections)
            rows[2].extend(
                (first + order, file, collection, dimension, order in indexed.keywords, binary_vector(row))
                for order, row in enumerate(indexed.vectors)
            )
            rows[3].extend((first + order, packed) for order, packed in indexed.tokens.items())
            keywords |= {first + order: words for order, words in indexed.keywords.items()}
            totals.setdefault((collection, dimension), Counter()).update(
                documents=1, sections=len(indexed.sections), passages=len(lengths), words=sum(lengths)
            )
            key += len(indexed.sections)
        self._count(totals)
        self._database.copy("annai_documents", DOCUMENT_COLUMNS, rows[0], DOCUMENT_KINDS)
        write_metadata(self._database, [(file, each.document.front_matter) for file, each in documents])
        self._database.copy("annai_sections", SECTION_COLUMNS, rows[1], SECTION_KINDS)
        self._database.copy("annai_vectors", VECTOR_COLUMNS, rows[2], VECTOR_KINDS)
        self._database.copy("annai_tokens", ("section_id", "packed"), rows[3], ("int8", "bytea"))
        write_postings(self._database, keywords)

    def delete(self, files: Sequence[int]) -> int:
        """Delete the documents of some files, leave tombstones for the lists of words; returns how many there were."""
        deleted = self._database.rows(
            """DELETE FROM annai_documents WHERE id = ANY(%s)
            RETURNING first_section, section_count, collection_id, dimension, passages, words""",
            (files,),
        )
        if not deleted:
            return 0
        spans = ([row[0] for row in deleted], [row[0] + row[1] for row in deleted])
        for table, column in (("sections", "id"), ("vectors", "section_id"), ("tokens", "section_id")):
            self._database.rows(
                f"""DELETE FROM annai_{table} t USING unnest(%s::bigint[], %s::bigint[]) AS span (first, past)
                WHERE t.{column} >= first AND t.{column} < past""",
                spans,
            )
        self._database.rows("DELETE FROM annai_metadata WHERE document_id = ANY(%s)", (files,))
        self._database.rows(
            "INSERT INTO annai_tombstones SELECT * FROM unnest(%s::bigint[], %s::int[])",
            (spans[0], [row[1] for row in deleted]),
        )
        totals: Totals = {}
        for _, count, collection, dimension, passages, words in deleted:
            totals.setdefault((collection, dimension), Counter()).update(
                documents=-1, sections=-count, passages=-passages, words=-words
            )
        self._count(totals)
        return len(deleted)

    def delete_counters(self, collection: int) -> None:
        """Forget the counts of a collection that has no documents any more."""
        self._database.rows("DELETE FROM annai_counters WHERE collection_id = %s", (collection,))

    def delete_orphans(self) -> None:
        """Delete every row that belongs to no document."""
        for table, column in (("annai_sections", "id"), ("annai_vectors", "section_id")):
            self._database.rows(
                f"""DELETE FROM {table} t WHERE NOT EXISTS (
                    SELECT 1 FROM annai_documents d WHERE d.id = t.document_id
                    AND t.{column} >= d.first_section AND t.{column} < d.first_section + d.section_count)"""
            )
        self._database.rows("DELETE FROM annai_tokens WHERE section_id NOT IN (SELECT id FROM annai_sections)")
        self._database.rows("DELETE FROM annai_documents d WHERE id NOT IN (SELECT id FROM annai_files)")
        self._database.rows("DELETE FROM annai_metadata WHERE document_id NOT IN (SELECT id FROM annai_documents)")

    def recount(self) -> None:
        """Count again how much there is."""
        self._database.rows("DELETE FROM annai_counters")
        self._database.rows(
            """INSERT INTO annai_counters SELECT collection_id, dimension, 0, count(*), sum(section_count),
            sum(passages), sum(words) FROM annai_documents GROUP BY collection_id, dimension"""
        )

    def section_keys(self) -> NDArray[np.int64]:
        """The keys of all rows of `annai_sections`, ascending."""
        return self._keys("SELECT id FROM annai_sections ORDER BY 1")

    def vector_keys(self) -> NDArray[np.int64]:
        """The keys of all rows of `annai_vectors`, ascending."""
        return self._keys("SELECT section_id FROM annai_vectors ORDER BY 1")

    def _keys(self, sql: str) -> NDArray[np.int64]:
        return np.array([key for (key,) in self._database.rows(sql)], np.int64)

    def _count(self, totals: Totals) -> None:
        """Add to what is counted; one row for a collection, whatever was written."""
        for (collection, dimension), more in sorted(totals.items()):
            self._database.rows(
                """INSERT INTO annai_counters AS c VALUES (%s, %s, pg_backend_pid() %% %s, %s, %s, %s, %s)
                ON CONFLICT (collection_id, dimension, slot) DO UPDATE SET documents = c.documents + excluded.documents,
                sections = c.sections + excluded.sections, passages = c.passages + excluded.passages,
                words = c.words + excluded.words""",
                (collection, dimension, COUNTER_SLOTS, *(more[each] for each in _COUNTED)),
            )
