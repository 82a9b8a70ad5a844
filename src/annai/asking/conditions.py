"""Which documents say this about themselves? Conditions as people type them, and the one rule by which they hold.

`status=draft`, `tags=k8s`, `date>=2025-01-01`: numbers are compared as numbers, dates as dates (`2025` is the whole
year), anything else as text without regard to case and width. A field with several values meets a condition if one of
them does; `!=` is met by every document that does not meet `=`, also by one without the field. Stores only keep names
and values, so that all of them answer alike.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, cast

from annai.answers import Condition, Operator
from annai.definitions import lazy_pattern
from annai.errors import QueryError
from annai.text.metadata import TIME_NAMES, UPDATED, Span, fold, parse_date, value_text
from annai.values import shorten

MAX_SUGGESTED = 5
"""Values or names that a sentence about an unmet condition tells."""

_CONDITION = lazy_pattern(r"\s*(?P<field>[^=<>!]+?)\s*(?P<operator>!=|<=|>=|==|=|<|>)\s*(?P<value>.*?)\s*", re.DOTALL)
_SIGNS = str.maketrans({"≠": "!=", "≤": "<=", "≥": ">="})

_NUMBER = lazy_pattern(r"[+-]?(\d{1,300}\.?\d{0,300}|\.\d{1,300})(e[+-]?\d{1,3})?")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

_AGO = lazy_pattern(r"(?P<count>\d{1,6})\s*(?P<unit>h|hours?|d|days?|w|weeks?|m|mo|months?|y|years?)(?:\s+ago)?")
_NAMED_DAYS = {"today": 0, "yesterday": 1, "今日": 0, "昨日": 1}


def parse_condition(text: str) -> Condition:
    """A condition as it is typed. Raises `QueryError` for what is none."""
    match = _CONDITION.fullmatch(unicodedata.normalize("NFKC", text).translate(_SIGNS))
    if match is None or not fold(match["field"]):
        raise QueryError(
            f"where takes FIELD=VALUE, or !=, <, <=, >, >= (status=draft, date>=2025-01-01), not {shorten(text)}."
        )
    operator, value = match["operator"].replace("==", "="), match["value"]
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    if not value and operator not in ("=", "!="):
        raise QueryError(f"where needs a value to compare with after {match['field']}{operator}, as in date>=2025-01.")
    field = fold(match["field"])
    if field in TIME_NAMES and _AGO.fullmatch(fold(value)):
        value = parse_moment(field, value, datetime.now().astimezone())
    return Condition(field, cast(Operator, operator), value)


def parse_conditions(where: Iterable[str], since: str = "", until: str = "") -> tuple[Condition, ...]:
    """All conditions of a query, those on when a document was updated among them."""
    now = datetime.now().astimezone()
    times = [
        Condition(UPDATED, operator, parse_moment(name, text, now))
        for name, operator, text in _times(since, until)
        if text.strip()
    ]
    return (*map(parse_condition, where), *times)


def _times(since: str, until: str) -> tuple[tuple[str, Operator, str], ...]:
    return (("since", ">=", since), ("until", "<=", until))


def parse_moment(name: str, text: str, now: datetime) -> str:
    """A date as it is, or how long ago (`2w`), as a date."""
    plain = fold(text)
    if parse_date(plain):
        return plain
    if plain in _NAMED_DAYS:
        return (now - timedelta(days=_NAMED_DAYS[plain])).date().isoformat()
    if match := _AGO.fullmatch(plain):
        with suppress(ValueError, OverflowError):  # no calendar goes back so far
            return _before(now, int(match["count"]), match["unit"][0]).isoformat(timespec="seconds")
    raise QueryError(f"{name} takes a time ago (12h, 3d, 2w, 6m, 1y) or a date (2025-01-31), not {shorten(text)}.")


def _before(now: datetime, count: int, unit: str) -> datetime:
    if unit in "hdw":
        return now - count * {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}[unit]
    from calendar import monthrange  # seldom needed

    year, month = divmod(now.year * 12 + now.month - 1 - count * (12 if unit == "y" else 1), 12)
    return now.replace(year=year, month=month + 1, day=min(now.day, monthrange(year, month + 1)[1]))


class Comparison:
    """Tells which values meet a condition, each of them once."""

    def __init__(self, condition: Condition) -> None:
        self._wanted = _Value.of(condition.value)
        self._compare: Callable[[_Value, _Value], bool] = (
            _is_equal if condition.operator in ("=", "!=") else partial(_is_ordered, condition.operator)
        )
        self._known: dict[str, bool] = {}

    def holds(self, value: str) -> bool:
        """Whether a value, as JSON, meets the condition; for `!=`, the one with `=`."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._compare(_Value.of(json.loads(value)), self._wanted)
        return known


class _Value(NamedTuple):
    """A value as everything that it may be compared as."""

    text: str
    number: float | None
    date: Span | None
    boolean: bool | None
    is_text: bool
    """Whether it is a string, in which digits are characters."""

    @classmethod
    def of(cls, value: object) -> "_Value":
        if isinstance(value, bool):
            return cls("true" if value else "false", None, None, value, False)
        text = fold(str(value))
        number = value if isinstance(value, int | float) else _number(text)
        return cls(text, number, parse_date(text), _BOOLEANS.get(text), isinstance(value, str))


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)


def _is_equal(own: _Value, wanted: _Value) -> bool:
    if own.text == wanted.text:
        return True
    if own.date and wanted.date and wanted.date.start <= own.date.start and own.date.end <= wanted.date.end:
        return True
    if own.is_text:
        return False
    return own.boolean == wanted.boolean if own.boolean is not None else own.number == wanted.number is not None


def _is_ordered(operator: Operator, own: _Value, wanted: _Value) -> bool:
    """Whether a value comes before or after another; those that cannot be compared do neither."""
    if own.number is not None and wanted.number is not None:
        return _in_order(operator, own.number, wanted.number, own.number <= wanted.number)
    if own.date and wanted.date:
        # Before is before its first second, after is after its last.
        return _in_order(operator, own.date.start, wanted.date.start, own.date.start < wanted.date.end)
    if wanted.number is not None or wanted.date or not own.is_text:
        return False
    return _in_order(operator, own.text, wanted.text, own.text <= wanted.text)


def _in_order(operator: Operator, own: float | str, wanted: float | str, is_not_after: bool) -> bool:
    is_before = cast(float, own) < cast(float, wanted)
    return {"<": is_before, ">=": not is_before, "<=": is_not_after, ">": not is_not_after}[operator]


def why_unmet(condition: Condition, values: Sequence[str], names: Sequence[str]) -> str:
    """Why no document meets a condition, given the values (as JSON, frequent ones first) and names that there are."""
    if not values:
        close = _closest(condition.field, names)
        known = f"there are {', '.join(close)}" if close else "no document has any"
        return f"No document has the field {condition.field!r}; {known} (`annai status --fields` lists them)."
    texts = [*dict.fromkeys(map(value_text, values))]
    if condition.operator in ("=", "!="):
        shown = ", ".join(map(shorten_value, _closest(condition.value, texts)))
        return f"No document has {condition}; there {'are' if len(texts) > 1 else 'is'} {shown}."
    ordered = sorted(texts, key=_order)
    ends = dict.fromkeys((ordered[0], ordered[-1]))
    return f"No document has {condition}; {condition.field} is {' to '.join(map(shorten_value, ends))}."


def shorten_value(text: str, most: int = 60) -> str:
    """A value as a sentence or a table shows it: one line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _order(text: str) -> tuple[int, float, str]:
    value = _Value.of(text)
    if value.date:
        return (1, value.date.start, value.text)
    return (0, value.number, value.text) if value.number is not None else (2, 0.0, value.text)


def _closest(wanted: str, known: Sequence[str]) -> list[str]:
    """What is spelled almost so, and then the most frequent."""
    import difflib  # only where something is not found

    folded = {fold(each): each for each in reversed(known[:1000])}
    close = [folded[each] for each in difflib.get_close_matches(fold(wanted), folded, n=MAX_SUGGESTED)]
    return [*dict.fromkeys((*close, *known[:MAX_SUGGESTED]))][:MAX_SUGGESTED]
