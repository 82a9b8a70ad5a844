"""What may be asked? How a query is made from a text and options, and its limits, once for every interface."""

from collections.abc import Sequence
from typing import Unpack, cast, get_type_hints

from annai.answers import PREVIEW_LINES, WINDOW_TOKENS, Condition, Query, QueryOptions, Where
from annai.errors import QueryError
from annai.settings import Search
from annai.values import decode_fields

MAX_QUERY_CHARACTERS = 10_000
"""More is a document, not a question."""

MAX_RESULTS = 1000
"""A person reads ten, a model a hundred; more is a listing."""

MAX_LINES = 100_000
"""Lines of an exact search, which is a listing; `offset` goes on from there."""

MAX_DEPTH = 3
"""Sections have headings of levels 1 to 3; the document itself has depth 0."""

MAX_PREVIEW_LINES = 100
"""More is the text itself, which `content` gives."""

MAX_WINDOW_TOKENS = 200_000
"""As long as an answer may be."""

MAX_FILTERS = 100
"""Collections, paths, excludes or depths in one query: each is compared with every document's path."""

MAX_PATH_CHARACTERS = 4096
"""Characters of one collection name, path or exclude: as long as a path can be."""


MAX_CONDITION_CHARACTERS = 500
"""Characters of one condition; longer values are not kept."""


def question_of(query: object, options: QueryOptions) -> tuple[str, QueryOptions]:
    """The text and the options of a question. Raises `QueryError` for what is not of their types."""
    text: object = query
    if isinstance(query, Query):
        text, options = query.text, query_options(query)
        if empty := [name for name, value in options.items() if value is None]:
            raise QueryError(f"{empty[0]} of a query must not be None", "leave it out.")
    given = decode_fields(_HINTS, {"query": text, **options}, "a search")
    return given.pop("query"), cast(QueryOptions, given)


_HINTS = {"query": str, **get_type_hints(QueryOptions)}


def make_query(text: str, defaults: Search, **options: Unpack[QueryOptions]) -> Query:
    """A query from its text and options; what they leave out is as [search] in the settings says.

    Raises `QueryError` for a condition that is none.
    """
    mode = options.get("mode") or defaults.mode
    limit, per_document = options.get("limit"), options.get("per_document")
    usual = MAX_LINES if mode == "exact" else defaults.limit
    return Query(
        text=text,
        limit=usual if limit is None else limit,
        offset=options.get("offset", 0),
        per_document=defaults.per_document if per_document is None else per_document,
        where=Where(
            collections=tuple(options.get("collections", ())),
            paths=tuple(options.get("paths", ())),
            excludes=tuple(options.get("excludes", ())),
            clean_only=options.get("clean_only", False),
            conditions=make_conditions(options.get("where", ()), options.get("since", ""), options.get("until", "")),
        ),
        depths=tuple(options.get("depths", ())),
        mode=mode,
        sort=options.get("sort", "score"),
        content=options.get("content") or defaults.content,
        preview_lines=options.get("preview_lines", PREVIEW_LINES),
        max_tokens=options.get("max_tokens", WINDOW_TOKENS),
    )


def make_conditions(where: Sequence[str], since: str = "", until: str = "") -> tuple[Condition, ...]:
    """What documents must say about themselves. Raises `QueryError` for a condition that is none."""
    if not (where or since or until):
        return ()
    from annai.asking.conditions import parse_conditions  # most questions have none

    if len(where) > MAX_FILTERS:
        raise QueryError(f"where takes at most {MAX_FILTERS} values, not {len(where):,}.")
    if any(len(text) > MAX_CONDITION_CHARACTERS for text in (*where, since, until)):
        raise QueryError(f"Each of where must have at most {MAX_CONDITION_CHARACTERS:,} characters.")
    return parse_conditions(where, since, until)


def query_options(query: Query) -> QueryOptions:
    """The options that `make_query` makes this query of."""
    where = query.where
    return {
        "limit": query.limit,
        "offset": query.offset,
        "per_document": query.per_document,
        "collections": where.collections,
        "paths": where.paths,
        "excludes": where.excludes,
        "clean_only": where.clean_only,
        "where": [*map(str, where.conditions)],
        "depths": query.depths,
        "mode": query.mode,
        "sort": query.sort,
        "content": query.content,
        "preview_lines": query.preview_lines,
        "max_tokens": query.max_tokens,
    }


def check_query(query: Query) -> None:
    """Raise `QueryError` for a query that cannot be answered."""
    is_exact = query.mode == "exact"
    if not (query.text if is_exact else query.text.strip()):
        raise QueryError("The query is empty", "ask a question or give some words.")
    if len(query.text) > MAX_QUERY_CHARACTERS:
        raise QueryError(
            f"The query has {len(query.text):,} characters, and at most {MAX_QUERY_CHARACTERS:,} can be searched",
            "shorten it.",
        )
    most = MAX_LINES if is_exact else MAX_RESULTS
    if not 1 <= query.limit <= most:
        raise QueryError(f"limit must be between 1 and {most:,}, not {query.limit}.")
    if query.offset < 0 or (query.offset > most and not is_exact):
        raise QueryError(f"offset must be between 0 and {most:,}, not {query.offset}.")
    for name, value, none, highest in (
        ("per_document", query.per_document, "0 (no limit)", MAX_RESULTS),
        ("preview_lines", query.preview_lines, "0", MAX_PREVIEW_LINES),
        ("max_tokens", query.max_tokens, "0", MAX_WINDOW_TOKENS),
    ):
        if not 0 <= value <= highest:
            raise QueryError(f"{name} must be between {none} and {highest:,}, not {value}.")
    if any(not 0 <= depth <= MAX_DEPTH for depth in query.depths):
        raise QueryError(f"depths must be between 0 and {MAX_DEPTH}.")
    if is_exact:
        _check_exact(query)
    where = query.where
    filters = {"collections": where.collections, "paths": where.paths, "excludes": where.excludes}
    for name, values in (*filters.items(), ("where", where.conditions), ("depths", query.depths)):
        if len(values) > MAX_FILTERS:
            raise QueryError(f"{name} takes at most {MAX_FILTERS} values, not {len(values):,}.")
    for name, texts in filters.items():
        if any(len(text) > MAX_PATH_CHARACTERS for text in texts):
            raise QueryError(f"Each of {name} must have at most {MAX_PATH_CHARACTERS:,} characters.")


def _check_exact(query: Query) -> None:
    """Raise `QueryError` for what cannot be looked for, or asked of lines."""
    from annai.asking.exact import Wanted  # other searches do without it

    if query.depths or query.sort not in ("score", "path"):
        raise QueryError("An exact search finds lines, in the order of their paths", "leave out depths and sort.")
    Wanted(query.text)
