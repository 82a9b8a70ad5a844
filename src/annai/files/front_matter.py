"""What does a page say about itself? The YAML or TOML block at the top of a Markdown file."""

import datetime
import math
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import yaml

MAX_LENGTH = 65_536
"""Front matter that has not ended after so many characters is taken for something else."""
MAX_NODES = 10_000
"""Aliases let a few lines of YAML stand for billions of values; nobody writes more than this by hand."""
MAX_DEPTH = 20
MAX_BITS = 1_000
"""Longer whole numbers become text: Python itself refuses to print very long ones."""

_YAML = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"\s*[\w\"'][^\n:]*:(?:\s|$)")


class FrontMatter(NamedTuple):
    """What was found at the top of a page."""

    values: Mapping[str, object]
    """Only what JSON can hold."""
    body_start: int
    """Position after the block and its line ending; 0 if there is none."""


def split_front_matter(text: str) -> FrontMatter:
    """Find and parse the front matter of a Markdown text.

    A block that is no mapping is not front matter but a page that begins with a rule. One that is meant as front
    matter and cannot be parsed is left out of the body all the same, without values.
    """
    if text.startswith("---") and (match := _YAML.match(text, 0, MAX_LENGTH)):
        values = _parse_yaml(match[1])
        return FrontMatter(values, match.end()) if values is not None else FrontMatter({}, 0)
    if text.startswith("+++") and (match := _TOML.match(text, 0, MAX_LENGTH)):
        return FrontMatter(_parse_toml(match[1]), match.end())
    return FrontMatter({}, 0)


def _parse_toml(block: str) -> dict[str, object]:
    try:
        return _plain_mapping(tomllib.loads(block.replace("\r\n", "\n")))
    except (ValueError, RecursionError):
        return {}


def _parse_yaml(block: str) -> dict[str, object] | None:
    """The block's values; None if it is not front matter."""
    import yaml  # a fifth of a cold search's time, and many pages have no front matter

    try:
        loader = _loader()(block)
        try:
            node = loader.get_single_node()
            if node is None:
                # A block of comments alone is a Markdown heading between two rules.
                return None if block.strip() else {}
            if not isinstance(node, yaml.MappingNode):
                return None
            _count(node, {})
            return _plain_mapping(loader.construct_document(node))
        finally:
            loader.dispose()
    # PyYAML lets the errors of Python's own constructors through for values such as `!!int x`.
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return {} if _KEY.match(block) else None


@cache
def _loader() -> "type[yaml.SafeLoader]":
    """PyYAML's safe loader, the fast one where there is one, which keeps an impossible date as it is written."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    def timestamp(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
        try:
            return loader.construct_yaml_timestamp(node)
        except ValueError:
            return node.value

    Loader.add_constructor("tag:yaml.org,2002:timestamp", timestamp)
    return Loader


def _count(node: "yaml.Node", counts: dict[int, int]) -> int:
    """How many values a node stands for once its aliases are written out; raises ValueError beyond the limit."""
    key = id(node)
    if key not in counts:
        # While a node is being counted it stands for too many: one that contains itself has no end.
        counts[key] = MAX_NODES + 1
        if isinstance(node.value, list):
            children = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
            counts[key] = 1 + sum(_count(child, counts) for child in children)
        else:
            counts[key] = 1
    if counts[key] > MAX_NODES:
        raise ValueError("too many values")
    return counts[key]


def _plain_mapping(values: Mapping[Any, object], depth: int = 0) -> dict[str, object]:
    return {_plain_key(key): _plain(value, depth + 1) for key, value in values.items()}


def _plain_key(key: object) -> str:
    names = {True: "true", False: "false", None: "null"}
    return names[key] if key is None or isinstance(key, bool) else str(_plain(key, 0))


def _plain(value: object, depth: int) -> object:  # noqa: PLR0911 - one for each kind of value
    """The value as JSON can hold it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        return _plain_mapping(value, depth)
    if isinstance(value, set):
        return sorted((_plain(item, depth + 1) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
