"""How do sections and vectors stand in the rows of PostgreSQL, and how is a restriction said in SQL?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from annai.stores.base import Vectors, trim_prefix
from annai.stores.postgres.database import escape, unescape
from annai.stores.sqlite import rows
from annai.types import Section, StoredSection, Where

DOCUMENT_COLUMNS = tuple(
    """id collection_id first_section section_count passages words dimension title japanese format body_start
    front_matter text""".split()
)
DOCUMENT_KINDS = tuple("int8 int4 int8 int4 int4 int8 int4 text bool text int4 text text".split())

SECTION_COLUMNS = tuple(
    """id document_id ordinal parent depth last_depth heading heading_path number piece start_position end_position
    start_line end_line token_count is_passage""".split()
)
SECTION_KINDS = tuple("int8 int8 int4 int4 int2 int2 text text text int4 int4 int4 int4 int4 int4 bool".split())

VECTOR_COLUMNS = tuple("section_id document_id collection_id dimension is_passage vector".split())
VECTOR_KINDS = tuple("int8 int8 int4 int4 bool bytea".split())
"""The vector goes as the bytes that pgvector itself would send."""

SELECT_SECTIONS = """
    SELECT s.id, d.first_section, c.name, f.path, d.title, d.japanese, f.problem_kind, f.problem_reason,
    s.ordinal, s.parent, s.depth, s.heading, s.heading_path, s.number, s.start_position, s.end_position,
    s.start_line, s.end_line, s.token_count, s.piece, s.last_depth, s.is_passage,
    EXISTS (SELECT 1 FROM annai_requests r
        WHERE r.collection = c.name AND r.path = f.path AND r.status IN ('pending', 'processing'))
    FROM annai_sections s JOIN annai_documents d ON d.id = s.document_id
    JOIN annai_files f ON f.id = s.document_id JOIN annai_collections c ON c.id = f.collection_id
"""
"""The same columns as an SQLite file's."""

_HEADER = 4
"""Bytes before the numbers of a vector: their count, and two that are not used."""


def section_row(first: int, document_id: int, section: Section) -> tuple[object, ...]:
    """The row of a section of a document whose sections begin at `first`: an SQLite file's, with texts as kept here."""
    row = rows.section_row(first, document_id, section)
    return tuple(escape(value) if isinstance(value, str) else value for value in row)


def stored_section(row: Sequence[Any]) -> StoredSection:
    """The section that a row of `SELECT_SECTIONS` tells of."""
    return rows.stored_section(tuple(unescape(value) if isinstance(value, str) else value for value in row))


def binary_vector(vector: Vectors) -> bytes:
    """A vector as pgvector's halfvec goes over the wire."""
    return len(vector).to_bytes(2, "big") + b"\0\0" + vector.astype(">f2").tobytes()


def from_binary(rows: Sequence[bytes], dimension: int) -> Vectors:
    """The vectors that came over the wire, one a row."""
    raw = b"".join(row[_HEADER:] for row in rows)
    return np.frombuffer(raw, ">f2").astype(np.float32).reshape(len(rows), dimension)


def text_vector(vector: Vectors) -> str:
    """A vector as people write it."""
    return "[" + ",".join(f"{value:.7g}" for value in vector.tolist()) + "]"


def where_clause(where: Where, document: str, collections: Sequence[int] | None) -> tuple[str, list[object]]:
    """Conditions on the file that `document` is the id of, each with AND before it, and their values."""
    clauses, values = list[str](), list[object]()
    if collections is not None:
        clauses.append("w.collection_id = ANY(%s)")
        values.append(list(collections))
    for prefixes, form in ((where.paths, "({})"), (where.excludes, "NOT ({})")):
        if prefixes:
            clauses.append(form.format(" OR ".join(["w.path = %s OR (w.path > %s AND w.path < %s)"] * len(prefixes))))
            for prefix in map(trim_prefix, prefixes):
                values += [escape(prefix), escape(prefix) + "/", escape(prefix) + "0"]
    if where.clean_only:
        clauses.append(
            """w.problem_kind IS NULL AND NOT EXISTS (SELECT 1 FROM annai_requests r JOIN annai_collections c
            ON c.name = r.collection WHERE c.id = w.collection_id AND r.path = w.path
            AND r.status IN ('pending', 'processing'))"""
        )
    if not clauses:
        return "", []
    return f"AND EXISTS (SELECT 1 FROM annai_files w WHERE w.id = {document} AND {' AND '.join(clauses)})", values
