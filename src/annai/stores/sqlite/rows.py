"""How do sections stand in the rows of an index file?"""

import json
from functools import lru_cache
from typing import Any

from annai.types import Problem, Section, StoredSection

SQLiteValue = None | int | float | bytes | str
"""What a column of an SQLite table holds."""

SECTION_COLUMNS = """
    s.id, d.first_section, c.name, f.path, d.title, d.japanese, f.problem_kind, f.problem_reason,
    s.ordinal, s.parent, s.depth, s.heading, s.heading_path, s.number, s.start_position, s.end_position,
    s.start_line, s.end_line, s.token_count, s.piece, s.last_depth, s.is_passage,
    EXISTS (SELECT 1 FROM index_requests r
        WHERE r.collection = c.name AND r.path = f.path AND r.status IN ('pending', 'processing'))
    FROM sections s JOIN documents d ON d.id = s.document_id
    JOIN files f ON f.id = s.document_id JOIN collections c ON c.id = f.collection_id
"""
"""What to select, and from where, to make a `StoredSection` of each row."""


def section_row(first: int, document_id: int, section: Section) -> tuple[SQLiteValue, ...]:
    """The row of `sections` for a section of a document whose sections begin at `first`."""
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


def stored_section(row: tuple[Any, ...]) -> StoredSection:
    """The section that a row of `SECTION_COLUMNS` tells of; by position, since a search makes hundreds of these."""
    key, root_key, collection, path, title, japanese, problem, reason = row[:8]
    order, parent, depth, heading, headings, number, start, end, start_line, end_line = row[8:18]
    tokens, piece, last_depth, is_passage, waiting = row[18:]
    place = (_headings(headings), _number(number), start, end, start_line, end_line)
    section = Section(order, parent, depth, heading, *place, tokens, piece, last_depth, bool(is_passage))
    trouble = Problem(problem, reason) if problem else None
    return StoredSection(key, root_key, collection, path, title, section, bool(japanese), trouble, bool(waiting))


@lru_cache(maxsize=8192)
def _headings(text: str) -> tuple[str, ...]:
    """The headings above a section; its neighbours have the same, and a search looks at hundreds."""
    return tuple(json.loads(text))


@lru_cache(maxsize=8192)
def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if text else ()
