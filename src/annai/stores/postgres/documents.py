"""How are documents written to PostgreSQL? All of a batch in one stream a table, within the caller's transaction."""

import json
from collections.abc import Sequence
from typing import Any

from annai.stores.base import IndexedDocument
from annai.stores.postgres.database import PostgresDatabase, escape
from annai.stores.postgres.postings import write_postings
from annai.stores.postgres.rows import (
    DOCUMENT_COLUMNS,
    DOCUMENT_KINDS,
    SECTION_COLUMNS,
    SECTION_KINDS,
    VECTOR_COLUMNS,
    VECTOR_KINDS,
    binary_vector,
    section_row,
)
from annai.text.keywords import Keywords
from annai.types import FileState

SLOTS = 16
"""Rows that count a collection: as many writers seldom wait for each other."""


class Documents:
    """The documents of a database, with their sections, vectors, tokens and words."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def save_state(self, collection: int, state: FileState) -> int:
        """Remember what is known of a file; its number."""
        problem = (state.problem.kind, escape(state.problem.reason)) if state.problem else (None, None)
        return self._database.number(
            """INSERT INTO annai_files (collection_id, path, size, mtime_ns, hash, problem_kind, problem_reason)
            VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (collection_id, path) DO UPDATE SET size = excluded.size,
            mtime_ns = excluded.mtime_ns, hash = excluded.hash, problem_kind = excluded.problem_kind,
            problem_reason = excluded.problem_reason RETURNING id""",
            (collection, escape(state.path), state.size, state.mtime_ns, state.hash, *problem),
        )

    def insert(self, collection: int, documents: Sequence[tuple[int, IndexedDocument]]) -> None:
        """Write documents whose files are known, everything of them in one stream a table."""
        wanted = sum(len(indexed.sections) for _, indexed in documents)
        key = self._database.number("SELECT annai_take_keys(%s)", (wanted,)) if wanted else 0
        rows: tuple[list[Any], ...] = ([], [], [], [])
        keywords: dict[int, Keywords] = {}
        for file_id, indexed in documents:
            document, first, dimension = indexed.document, key, indexed.vectors.shape[1]
            lengths = [words.length for words in indexed.keywords.values()]
            counts = (len(indexed.sections), len(lengths), sum(lengths), dimension)
            rows[0].append(
                (
                    *(file_id, collection, first, *counts, escape(document.title), indexed.is_cjk, document.format),
                    document.body_start,
                    json.dumps(document.front_matter, ensure_ascii=False),
                    escape(document.text),
                )
            )
            rows[1].extend(section_row(first, file_id, section) for section in indexed.sections)
            rows[2].extend(
                (first + order, file_id, collection, dimension, order in indexed.keywords, binary_vector(row))
                for order, row in enumerate(indexed.vectors)
            )
            rows[3].extend((first + order, packed) for order, packed in indexed.tokens.items())
            keywords |= {first + order: words for order, words in indexed.keywords.items()}
            self._count(collection, dimension, (1, len(indexed.sections), len(lengths), sum(lengths)))
            key += len(indexed.sections)
        self._database.copy("annai_documents", DOCUMENT_COLUMNS, rows[0], DOCUMENT_KINDS)
        self._database.copy("annai_sections", SECTION_COLUMNS, rows[1], SECTION_KINDS)
        self._database.copy("annai_vectors", VECTOR_COLUMNS, rows[2], VECTOR_KINDS)
        self._database.copy("annai_tokens", ("section_id", "packed"), rows[3], ("int8", "bytea"))
        write_postings(self._database, keywords)

    def drop(self, files: Sequence[int]) -> None:
        """Delete the documents of some files, and leave word of it beside the lists."""
        dropped = self._database.rows(
            """DELETE FROM annai_documents WHERE id = ANY(%s)
            RETURNING first_section, section_count, collection_id, dimension, passages, words""",
            (files,),
        )
        if not dropped:
            return
        spans = ([row[0] for row in dropped], [row[0] + row[1] for row in dropped])
        for table, column in (("sections", "id"), ("vectors", "section_id"), ("tokens", "section_id")):
            self._database.rows(
                f"""DELETE FROM annai_{table} t USING unnest(%s::bigint[], %s::bigint[]) AS span (first, past)
                WHERE t.{column} >= first AND t.{column} < past""",
                spans,
            )
        self._database.rows(
            "INSERT INTO annai_tombstones SELECT * FROM unnest(%s::bigint[], %s::int[])",
            (spans[0], [row[1] for row in dropped]),
        )
        for _, count, collection, dimension, passages, words in dropped:
            self._count(collection, dimension, (-1, -count, -passages, -words))

    def empty(self, collection: int) -> None:
        """Delete a collection's documents, and what is known of its files."""
        files = self._database.rows("DELETE FROM annai_files WHERE collection_id = %s RETURNING id", (collection,))
        self.drop([file for (file,) in files])
        self._database.rows("DELETE FROM annai_counters WHERE collection_id = %s", (collection,))

    def _count(self, collection: int, dimension: int, more: tuple[int, int, int, int]) -> None:
        self._database.rows(
            """INSERT INTO annai_counters AS c VALUES (%s, %s, pg_backend_pid() %% %s, %s, %s, %s, %s)
            ON CONFLICT (collection_id, dimension, slot) DO UPDATE SET documents = c.documents + excluded.documents,
            sections = c.sections + excluded.sections, passages = c.passages + excluded.passages,
            words = c.words + excluded.words""",
            (collection, dimension, SLOTS, *more),
        )
