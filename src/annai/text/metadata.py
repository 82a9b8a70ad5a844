"""What does a document say about itself? Its front matter or properties as names and values, and its dates."""

import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from annai.definitions import lazy_pattern

MAX_VALUES = 500
"""Values that are kept of one document; nobody writes more by hand."""

MAX_VALUE_CHARACTERS, MAX_NAME_CHARACTERS = 200, 100
"""A longer value is a text, which is searched, and no value to filter by; a longer name is nobody's. Neither is kept:
PostgreSQL's index holds no rows beyond 2,700 bytes."""

MAX_DEPTH, MAX_LOOKED_AT = 20, 10_000
"""How deeply objects and lists are looked into, and how many values of one document are looked at."""

CREATED, UPDATED = "created", "updated"
"""The two names that every document may have, whatever its own names for them are."""

TIME_NAMES = {
    CREATED: (
        *("created", "created_at", "date_created", "creation_date", "date", "published", "published_at"),
        *("publish_date", "publishdate", "pubdate"),
    ),
    UPDATED: (
        *("updated", "updated_at", "date_updated", "lastmod", "last_modified", "last_modified_at", "last_updated"),
        *("last_update", "modified", "modified_at", "date_modified", "modification_date"),
    ),
}
"""Under which names documents say when they were written and changed, the surest first."""

_ALL_TIME_NAMES = frozenset(name for names in TIME_NAMES.values() for name in names)

_LISTS = frozenset({"tag", "tags", "category", "categories", "keyword", "keywords"})
"""Names under which a string with commas is a list."""

_SEPARATORS = lazy_pattern(r"\s*[,;、，；]\s*")
_NAME_GAPS = lazy_pattern(r"[\s\-]+")

_DATE = lazy_pattern(
    r"(?P<year>\d{4})(?:[-/年](?P<month>\d{1,2})(?:[-/月](?P<day>\d{1,2})日?"
    r"(?:[Tt\s]\s*(?P<time>\d{1,2}:\d{2})(?P<second>:\d{2})?(?:[.,]\d+)?\s*(?P<zone>[Zz]|[+-]\d{2}:?\d{2})?)?)?月?)?年?"
)


class Span(NamedTuple):
    """The time that a date stands for, in seconds since 1970: a year, a month, a day, a minute or a second."""

    start: float
    end: float
    text: str
    """As ISO 8601 has it."""


def metadata(front_matter: Mapping[str, object]) -> list[tuple[str, str]]:
    """Every name and value, the value as JSON; of lists every item, of nested objects names like `a.b`.

    Names are compared without regard to case, and kept so. `created` and `updated` are what the document says under
    any of `TIME_NAMES`.
    """
    if not front_matter:
        return []
    found = _all_values(front_matter)
    kept = [(name, value) for name, value in found if name not in TIME_NAMES][: MAX_VALUES - len(TIME_NAMES)]
    given = _given_times(front_matter)
    return [*kept, *((name, json.dumps(given[name].text)) for name in TIME_NAMES if name in given)]


def document_times(front_matter: Mapping[str, object], mtime_ns: int) -> tuple[str, str]:
    """When a document was created, if it says so, and updated: when it says so, or when its file was changed."""
    given = _given_times(front_matter) if front_matter else {}
    created, updated = given.get(CREATED), given.get(UPDATED)
    return created.text if created else "", updated.text if updated else file_time(mtime_ns)


def file_time(mtime_ns: int) -> str:
    """The time of a file, as ISO 8601 in UTC; empty for what no calendar has."""
    try:
        return datetime.fromtimestamp(mtime_ns // 1_000_000_000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def read_values(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Values, given as JSON, as people write them, with their counts."""
    found: dict[str, int] = {}
    for value, count in counts:
        text = value_text(value)
        found[text] = found.get(text, 0) + count
    return found


def value_text(value: str) -> str:
    """A value, given as JSON, as people write it."""
    read = json.loads(value)
    return read if isinstance(read, str) else value


def fold(text: str) -> str:
    """A name or a value as it is compared: without regard to case, width and spaces around it."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


@lru_cache(maxsize=65_536)
def parse_date(text: str) -> Span | None:
    """What a date stands for: `2025`, `2025-01`, `2025/1/31`, `2025年1月31日`, `2025-01-31T10:00+09:00`; or None.

    Without a zone it is of this machine's.
    """
    match = _DATE.fullmatch(unicodedata.normalize("NFKC", text).strip())
    if match is None:
        return None
    year, month, day = (int(match[part]) if match[part] else None for part in ("year", "month", "day"))
    try:
        if match["time"]:
            clock = f"{match['time'].zfill(5)}{match['second'] or ':00'}{(match['zone'] or '').upper()}"
            moment = datetime.fromisoformat(f"{year:04}-{month:02}-{day:02}T{clock}")
            start = moment.timestamp()
            return Span(start, start + (1 if match["second"] else 60), moment.isoformat())
        first = datetime(year or 0, month or 1, day or 1)
        written = f"{year:04}" + (f"-{month:02}" if month else "") + (f"-{day:02}" if day else "")
        return Span(first.timestamp(), _end(first, month, day), written)
    except (ValueError, OverflowError, OSError):
        return None


def _end(first: datetime, month: int | None, day: int | None) -> float:
    """When the day, the month or the year that begins then is over."""
    try:
        if day:
            return (first + timedelta(days=1)).timestamp()
        after = (first.year + first.month // 12, first.month % 12 + 1) if month else (first.year + 1, 1)
        return first.replace(year=after[0], month=after[1]).timestamp()
    except (ValueError, OverflowError, OSError):
        return float("inf")


def _given_times(front_matter: Mapping[str, object]) -> dict[str, Span]:
    """When the document says it was created and updated; made for lists, so it looks at these names alone."""
    values: dict[str, object] = {}
    for key, value in islice(front_matter.items(), MAX_LOOKED_AT):
        name = _NAME_GAPS.sub("_", fold(str(key)[:MAX_NAME_CHARACTERS]))
        if name in _ALL_TIME_NAMES:
            # Docusaurus has an object with the date, and who changed it.
            values.setdefault(name, value.get("date") if isinstance(value, Mapping) else value)
    given: dict[str, Span] = {}
    for name, aliases in TIME_NAMES.items():
        texts = (str(values[alias]) for alias in aliases if isinstance(values.get(alias), str | int))
        spans = (parse_date(text) for text in texts if len(text) <= MAX_VALUE_CHARACTERS)
        if span := next(filter(None, spans), None):
            given[name] = span
    return given


def _all_values(front_matter: Mapping[str, object]) -> dict[tuple[str, str], None]:
    """Each name with each of its values, once, in their order."""
    return dict.fromkeys(islice(_flatten("", front_matter, 0), MAX_LOOKED_AT))


def _flatten(name: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    """The names and values in a value, in their order."""
    if isinstance(value, Mapping):
        for key, inner in value.items() if depth < MAX_DEPTH else ():
            own = fold(str(key)[: 2 * MAX_NAME_CHARACTERS])
            whole = f"{name}.{own}" if name else own
            if own and len(whole) <= MAX_NAME_CHARACTERS and whole.isprintable():
                yield from _flatten(whole, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value[:MAX_VALUES] if depth < MAX_DEPTH else ():
            yield from _flatten(name, item, depth + 1)
    elif isinstance(value, str) and name in _LISTS:
        for item in _SEPARATORS.split(value[: MAX_VALUES * MAX_VALUE_CHARACTERS]):
            yield from _value(name, item)
    elif value is not None:
        yield from _value(name, value)


def _value(name: str, value: object) -> Iterator[tuple[str, str]]:
    """The value as JSON, unless it is nothing, or too long."""
    if isinstance(value, float) and not math.isfinite(value):
        value = str(value)
    if not isinstance(value, bool | int | float):
        value = str(value).strip().encode("utf-8", "replace").decode()
    size = value.bit_length() if isinstance(value, int) else len(value) if isinstance(value, str) else 1
    if 0 < size <= MAX_VALUE_CHARACTERS or (isinstance(value, int) and not value):
        yield name, json.dumps(value, ensure_ascii=False)
