"""What may be asked? The bounds of a query, in one place for every interface."""

from annai.errors import QueryError
from annai.types import Query

LONGEST_QUERY = 10_000
"""Characters; more is a document, not a question."""

MOST_RESULTS = 1000
"""A person reads ten, a model a hundred; more is a listing."""

DEEPEST = 3
"""Sections have headings of levels 1 to 3; the document itself has depth 0."""

MOST_NAMES = 100
"""Collections, paths, excludes and depths that one query may name: each is compared with every document's path."""

LONGEST_NAME = 4096
"""Characters of one of them, as long as a path can be."""


def check_query(query: Query) -> None:
    """Raise `QueryError` for a query that cannot be answered."""
    if not query.text.strip():
        raise QueryError("The query is empty; ask a question or give some words.")
    if len(query.text) > LONGEST_QUERY:
        raise QueryError(
            f"The query has {len(query.text):,} characters, and at most {LONGEST_QUERY:,} can be searched; shorten it."
        )
    if not 1 <= query.limit <= MOST_RESULTS:
        raise QueryError(f"limit must be between 1 and {MOST_RESULTS:,}, not {query.limit}.")
    if any(not 0 <= depth <= DEEPEST for depth in query.depths):
        raise QueryError(f"depths must be between 0 and {DEEPEST}.")
    where = query.where
    named = {"collections": where.collections, "paths": where.paths, "excludes": where.excludes}
    for name, values in (*named.items(), ("depths", query.depths)):
        if len(values) > MOST_NAMES:
            raise QueryError(f"{name} must be at most {MOST_NAMES} at once, not {len(values):,}.")
    for name, texts in named.items():
        if any(len(text) > LONGEST_NAME for text in texts):
            raise QueryError(f"Each of {name} must have at most {LONGEST_NAME:,} characters.")
