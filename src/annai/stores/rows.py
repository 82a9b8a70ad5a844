"""How do values become rows of a table, and rows values? What SQLite and PostgreSQL have in common."""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from annai.text.metadata import document_times
from annai.types import (
    Collection,
    Document,
    FileState,
    Format,
    ListedDocument,
    Problem,
    Section,
    StoredSection,
)

Row = Sequence[Any]
"""A row as a database returns it; the types of its values are the schema's."""

SQLValue = None | int | float | bytes | str
"""What a column holds."""

COLLECTION_COLUMNS = (
    *("name", "source", "description", "enabled", "imported_at", "embedder", "settings", "chunk_size", "chunk_overlap"),
    *("owner", "origin", "probe"),
)
KEPT_COLUMNS = ("name", "description", "source", "enabled", "owner", "origin")
"""What a collection keeps of its own when another's documents become its own."""
STATE_COLUMNS = ("path", "size", "mtime_ns", "hash", "problem_kind", "problem_reason", "ctime_ns")
DOCUMENT_COLUMNS = ("title", "text", "format", "body_start", "front_matter")
REQUEST_COLUMNS = (
    *("id", "collection", "path", "hash", "status", "created_at", "started_at", "completed_at", "error", "attempts"),
)
SECTION_COLUMNS = (
    *("id", "document_id", "ordinal", "parent", "depth", "last_depth", "heading", "heading_path", "number", "piece"),
    *("start_position", "end_position", "start_line", "end_line", "token_count", "is_passage"),
)

NOT_TEXT = "A text has half of a surrogate pair in it, which no index can hold; correct it."
"""JSON, and the names of files in no encoding, can carry one."""

_READ_JSON = json.JSONDecoder().raw_decode
"""As `json.loads`, in a third of the time for a short text, without blanks around what was written here."""

NO_FRONT_MATTER = "{}"
"""What is kept of a document that says nothing about itself."""

SUPERSEDED = "a newer request came"
"""Why a request was skipped when its path was queued again."""


def names(columns: Iterable[str], table: str = "") -> str:
    """Columns as a statement lists them, each with the short name of its table before it, if one is given."""
    return ", ".join(f"{table}.{column}" if table else column for column in columns)


def overwrite(columns: Iterable[str]) -> str:
    """The assignments of an upsert: every column takes the value that was to be inserted."""
    return ", ".join(f"{column} = excluded.{column}" for column in columns)


def select_sections(prefix: str, requests: str, sections: str = "") -> str:
    """The statement that reads what `read_section` needs, without a condition; `prefix` begins the tables' names.

    `sections` are the rows `s` that it reads, if not all of them.
    """
    return f"""
        SELECT s.id, d.first_section, c.name, f.path, d.title, d.japanese, f.problem_kind, f.problem_reason,
        s.ordinal, s.parent, s.depth, s.heading, s.heading_path, s.number, s.start_position, s.end_position,
        s.start_line, s.end_line, s.token_count, s.piece, s.last_depth, s.is_passage,
        EXISTS (SELECT 1 FROM {requests} WHERE status IN ('pending', 'processing'))  -- once: seldom any waits
        AND EXISTS (SELECT 1 FROM {requests} r
            WHERE r.collection = c.name AND r.path = f.path AND r.status IN ('pending', 'processing'))
        FROM {sections or f"{prefix}sections s"} JOIN {prefix}documents d ON d.id = s.document_id
        JOIN {prefix}files f ON f.id = s.document_id JOIN {prefix}collections c ON c.id = f.collection_id
    """


def read_listed(row: Row) -> ListedDocument:
    """A document of a list: path, title, sections and tokens, the front matter, and the time of its file."""
    path, title, sections, tokens, front_matter, mtime_ns = row
    values = json.loads(front_matter) if front_matter != NO_FRONT_MATTER else {}
    return ListedDocument(path, title, sections, tokens, *document_times(values, mtime_ns))


def collection_row(collection: Collection) -> tuple[SQLValue, ...]:
    """The values of `COLLECTION_COLUMNS`."""
    return (
        collection.name,
        str(collection.source),
        collection.description,
        collection.enabled,
        collection.imported_at,
        collection.embedder,
        collection.settings,
        collection.chunk_size,
        collection.chunk_overlap,
        collection.owner,
        collection.origin,
        collection.probe,
    )


def read_collection(row: Row) -> Collection:
    """The collection of a row of `COLLECTION_COLUMNS`."""
    name, source, description, enabled, *rest = row
    return Collection(name, Path(source), description, bool(enabled), *rest)


def state_row(state: FileState) -> tuple[SQLValue, ...]:
    """The values of `STATE_COLUMNS`."""
    problem = (state.problem.kind, state.problem.reason) if state.problem else (None, None)
    return (state.path, state.size, state.mtime_ns, state.hash, *problem, state.ctime_ns)


def read_state(row: Row) -> FileState:
    """The file state of a row of `STATE_COLUMNS`."""
    path, size, mtime_ns, digest, kind, reason, ctime_ns = row
    return FileState(path, size, mtime_ns, digest, Problem(kind, reason) if kind else None, ctime_ns)


def read_document(collection: str, state: Row, document: Row) -> Document:
    """The document of a row of `STATE_COLUMNS` and one of `DOCUMENT_COLUMNS`."""
    title, text, kind, body_start, front_matter = document
    return Document(
        collection=collection,
        path=state[0],
        title=title,
        text=text,
        state=read_state(state),
        format=cast(Format, kind),
        body_start=body_start,
        front_matter=json.loads(front_matter),
    )


def read_halves(bits: NDArray[np.int16]) -> NDArray[np.float32]:
    """The numbers of a vector that is kept as 16-bit floats, given as their bits; all are finite.

    A seventh of the time that numpy's own conversion takes: exponent and fraction move to where 32 bits have them, and
    the exponent, which counts from another number there, is put right by multiplying.
    """
    moved = bits.astype(np.int32)
    moved <<= 13
    moved &= ~np.int32(0x70000000)  # the copies of the sign
    numbers = moved.view(np.float32)
    numbers *= np.float32(2.0**112)
    return numbers


def section_row(first: int, document_id: int, section: Section) -> tuple[SQLValue, ...]:
    """The values of `SECTION_COLUMNS` for a section of a document whose sections begin at the key `first`."""
    return (
        first + section.order,
        document_id,
        section.order,
        section.parent,
        section.depth,
        section.last_depth,
        section.heading,
        json.dumps(section.heading_path, ensure_ascii=False),
        ".".join(map(str, section.number)),
        section.piece,
        section.start,
        section.end,
        section.start_line,
        section.end_line,
        section.token_count,
        section.is_passage,
    )


def read_section(row: Row) -> StoredSection:
    """The section of a row of `select_sections`; by position, since a search makes hundreds of these."""
    key, root_key, collection, path, title, is_cjk, problem, reason = row[:8]
    order, parent, depth, heading, headings, number, start, end, start_line, end_line = row[8:18]
    tokens, piece, last_depth, is_passage, waiting = row[18:]
    span = (_headings(headings), _number(number), start, end, start_line, end_line)
    section = Section(order, parent, depth, heading, *span, tokens, piece, last_depth, bool(is_passage))
    trouble = Problem(problem, reason) if problem else None
    return StoredSection(key, root_key, collection, path, title, section, bool(is_cjk), trouble, bool(waiting))


@lru_cache(maxsize=8192)
def _headings(text: str) -> tuple[str, ...]:
    """The headings above a section; its neighbours have the same, and a search looks at hundreds."""
    return tuple(_READ_JSON(text)[0])


@lru_cache(maxsize=8192)
def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if text else ()
