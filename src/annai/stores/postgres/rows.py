"""How do values stand in the rows of PostgreSQL, and how is a restriction said in SQL?

The rows are those of an SQLite file (`stores.rows`), with texts escaped.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from annai.answers import Where
from annai.stores import rows
from annai.stores.base import Vectors
from annai.stores.paths import trim_prefix
from annai.stores.rows import Row, read_halves
from annai.types import Collection, Document, FileState, Section, StoredSection

DOCUMENT_COLUMNS = tuple(
    """id collection_id first_section section_count passages words dimension title japanese format body_start
    front_matter text""".split()
)
DOCUMENT_KINDS = tuple("int8 int4 int8 int4 int4 int8 int4 text bool text int4 text text".split())

SECTION_KINDS = tuple("int8 int8 int4 int4 int2 int2 text text text int4 int4 int4 int4 int4 int4 bool".split())

VECTOR_COLUMNS = tuple("section_id document_id collection_id dimension is_passage vector".split())
VECTOR_KINDS = tuple("int8 int8 int4 int4 bool bytea".split())
"""The vector goes as the bytes that pgvector itself would send."""

ESCAPE_CHARACTER = "\ue000"
"""A private character that stands before what PostgreSQL cannot hold in a text (NUL), and before itself."""

_VECTOR_HEADER_BYTES = 4
"""Before the numbers of a vector: their count, and two bytes that are not used."""

T = TypeVar("T")


def escape(text: str) -> str:
    """A text as PostgreSQL can hold it: the same one, unless it has a NUL in it."""
    if ESCAPE_CHARACTER not in text and "\0" not in text:
        return text
    return text.replace(ESCAPE_CHARACTER, ESCAPE_CHARACTER + "1").replace("\0", ESCAPE_CHARACTER + "0")


def unescape(text: str) -> str:
    """The text that was escaped."""
    if ESCAPE_CHARACTER not in text:
        return text
    return text.replace(ESCAPE_CHARACTER + "0", "\0").replace(ESCAPE_CHARACTER + "1", ESCAPE_CHARACTER)


def collection_row(collection: Collection) -> tuple[object, ...]:
    """The values of `COLLECTION_COLUMNS`; what comes from the user is escaped."""
    name, source, description, *rest = rows.collection_row(collection)
    return (name, _escape_value(source), _escape_value(description), *rest)


def read_collection(row: Row) -> Collection:
    """The collection of a row of `COLLECTION_COLUMNS`."""
    name, source, description, *rest = row
    return rows.read_collection((name, unescape(source), unescape(description), *rest))


def state_row(state: FileState) -> tuple[object, ...]:
    """The values of `STATE_COLUMNS`."""
    return tuple(map(_escape_value, rows.state_row(state)))


def read_state(row: Row) -> FileState:
    """The file state of a row of `STATE_COLUMNS`."""
    return rows.read_state([*map(_unescape_value, row)])


def read_document(collection: str, state: Row, document: Row) -> Document:
    """The document of a row of `STATE_COLUMNS` and one of `stores.rows.DOCUMENT_COLUMNS`."""
    title, text, *rest = document
    return rows.read_document(collection, [*map(_unescape_value, state)], (unescape(title), unescape(text), *rest))


def section_row(first: int, document_id: int, section: Section) -> tuple[object, ...]:
    """The values of `SECTION_COLUMNS` for a section of a document whose sections begin at the key `first`."""
    return tuple(map(_escape_value, rows.section_row(first, document_id, section)))


def read_section(row: Row) -> StoredSection:
    """The section of a row of `select_sections`."""
    return rows.read_section(tuple(map(_unescape_value, row)))


def _escape_value(value: T) -> T | str:
    return escape(value) if isinstance(value, str) else value


def _unescape_value(value: T) -> T | str:
    return unescape(value) if isinstance(value, str) else value


def binary_vector(vector: Vectors) -> bytes:
    """A vector as pgvector's halfvec goes over the wire."""
    return len(vector).to_bytes(2, "big") + b"\0\0" + vector.astype(">f2").tobytes()


def read_vectors(vectors: Sequence[bytes], dimension: int) -> Vectors:
    """The vectors that came over the wire, one a row."""
    raw = b"".join(vector[_VECTOR_HEADER_BYTES:] for vector in vectors)
    return read_halves(np.frombuffer(raw, ">i2")).reshape(len(vectors), dimension)


def zero_vector(dimension: int) -> bytes:
    """The bytes of a vector of zeros, as `read_vectors` takes them."""
    return bytes(_VECTOR_HEADER_BYTES + 2 * dimension)


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
    if where.documents is not None:
        clauses.append("w.path = ANY(%s)")
        values.append([*map(escape, where.documents)])
    if where.clean_only:
        clauses.append(
            """w.problem_kind IS NULL AND NOT EXISTS (SELECT 1 FROM annai_requests r JOIN annai_collections c
            ON c.name = r.collection WHERE c.id = w.collection_id AND r.path = w.path
            AND r.status IN ('pending', 'processing'))"""
        )
    if not clauses:
        return "", []
    return f"AND EXISTS (SELECT 1 FROM annai_files w WHERE w.id = {document} AND {' AND '.join(clauses)})", values
