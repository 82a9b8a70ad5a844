"""What does a page say about itself? The YAML or TOML block at the top of a Markdown file."""

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from annai.text.nesting import parse_toml, parse_yaml

MAX_CHARACTERS = 65_536
"""A block without an end within this many characters is not front matter."""
MAX_DEPTH = 20
MAX_INTEGER_BITS = 1_000
"""Longer integers become text: Python itself refuses to print very long ones."""

_YAML = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"\s*[\w\"'][^\n:]*:(?:\s|$)")


class FrontMatter(NamedTuple):
    """The block at the top of a page."""

    values: Mapping[str, object]
    """Only values that JSON can hold."""
    body_start: int
    """Position after the block and its line ending; 0 if there is none."""


def split_front_matter(text: str) -> FrontMatter:
    """Find and parse the front matter of a Markdown text.

    A block that is not a mapping is not front matter: the page begins with a horizontal rule. A block that is meant
    as front matter but cannot be parsed is still not part of the body; it has no values.
    """
    if text.startswith("---") and (match := _YAML.match(text, 0, MAX_CHARACTERS)):
        values = _parse_yaml(match[1])
        return FrontMatter(values, match.end()) if values is not None else FrontMatter({}, 0)
    if text.startswith("+++") and (match := _TOML.match(text, 0, MAX_CHARACTERS)):
        return FrontMatter(_parse_toml(match[1]), match.end())
    return FrontMatter({}, 0)


def _parse_toml(block: str) -> dict[str, object]:
    try:
        return _to_json_object(parse_toml(block.replace("\r\n", "\n")))
    except ValueError:
        return {}


def _parse_yaml(block: str) -> dict[str, object] | None:
    """The block's values; None if it is not front matter."""
    try:
        values = parse_yaml(block)
        if isinstance(values, dict):
            return _to_json_object(values)
    except ValueError:
        return {} if _KEY.match(block) else None
    # A block with only comments is a Markdown heading between two rules.
    return None if block.strip() else {}


def _to_json_object(values: Mapping[Any, object], depth: int = 0) -> dict[str, object]:
    return {_to_json_key(key): _to_json(value, depth + 1) for key, value in values.items()}


def _to_json_key(key: object) -> str:
    names = {True: "true", False: "false", None: "null"}
    return names[key] if key is None or isinstance(key, bool) else str(_to_json(key, 0))


def _to_json(value: object, depth: int) -> object:  # noqa: PLR0911 - one return for each type of value
    """The value as JSON can hold it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_INTEGER_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        return _to_json_object(value, depth)
    if isinstance(value, set):
        return sorted((_to_json(item, depth + 1) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [_to_json(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
