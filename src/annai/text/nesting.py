"""What do JSON, TOML and YAML of a stranger say? Parsed once it is known that they are not nested deeply.

Parsers descend by recursion, some of them in C: thirty kilobytes of brackets exhaust Python's stack, or the process's.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 100
"""Levels of brackets, of indentation, or of keys with dots between them; no one writes a tenth of it."""

MAX_VALUES = 10_000
"""Of a YAML text: with aliases a few lines of it can stand for billions; no one writes more than this by hand."""

_TOO_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"

_JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_TOML_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{0,5}'
    r"|'''(?:[^']++|'(?!''))*+'{0,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
_NO_BRACKET = re.compile(r"[^\[\]{}]+")
_KEY_END = re.compile(r"[\n=,\[\]{}]")

_YAML_INDICATORS = "[{-?:"
"""Every level of a YAML text begins with one of them."""


def parse_json(
    text: str | bytes,
    *,
    parse_float: Callable[[str], float] | None = None,
    parse_constant: Callable[[str], object] | None = None,
) -> Any:  # noqa: ANN401 - whatever JSON has
    """The value of a JSON text. Raises `ValueError` for what is none, or is nested too deeply."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    # Nearly every text has too few brackets to be deep.
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_brackets(_JSON_STRING.sub("", text))
    return json.loads(text, parse_float=parse_float, parse_constant=parse_constant)


def parse_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text. Raises `ValueError` for what is none, or is nested too deeply."""
    import tomllib  # most projects have no settings file

    bare = _TOML_STRING_OR_COMMENT.sub("", text)
    _check_brackets(bare)
    if any(key.count(".") > MAX_DEPTH for key in _KEY_END.split(bare)):
        raise ValueError(_TOO_DEEP)
    return tomllib.loads(text)


def parse_yaml(text: str) -> Any:  # noqa: ANN401 - whatever YAML has
    """The value of a YAML text. Raises `ValueError` for what is none, is nested too deeply or stands for too much."""
    import yaml  # takes a fifth of a cold search, and many pages have no front matter

    # PyYAML does not catch the errors of Python's own constructors, as for `!!int x`.
    try:
        _check_yaml_nesting(text)
        loader = _loader()(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _measure(node, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def _check_brackets(bare: str) -> None:
    """Raise `ValueError` if the brackets of a text without strings and comments are nested too deeply."""
    if max(accumulate(map(_STEPS.__getitem__, _NO_BRACKET.sub("", bare))), default=0) > MAX_DEPTH:
        raise ValueError(_TOO_DEEP)


def _check_yaml_nesting(text: str) -> None:
    """The same for YAML, by its events: what makes nodes of them is recursive, what finds them is not."""
    import yaml

    if sum(map(text.count, _YAML_INDICATORS)) <= MAX_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, _loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)


@cache
def _loader() -> "type[yaml.SafeLoader]":
    """PyYAML's safe loader, the fast one if it is there; an impossible date stays as it is written."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader_class: type[yaml.SafeLoader] = type("Loader", (base,), {})

    def timestamp(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
        try:
            return loader.construct_yaml_timestamp(node)
        except ValueError:
            return node.value

    loader_class.add_constructor("tag:yaml.org,2002:timestamp", timestamp)
    return loader_class


def _measure(node: "yaml.Node", known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values a node stands for when its aliases are expanded, and in how many levels."""
    key = id(node)
    if key not in known:
        # While a node is being measured it counts as too much, so that one that contains itself is refused.
        known[key] = MAX_VALUES + 1, 0
        values, depth = 1, 0
        if isinstance(node.value, list):
            for part in (part for item in node.value for part in (item if isinstance(item, tuple) else (item,))):
                inner, levels = _measure(part, known)
                values, depth = values + inner, max(depth, levels + 1)
        known[key] = values, depth
    if known[key][0] > MAX_VALUES or known[key][1] > MAX_DEPTH:
        raise ValueError("its aliases stand for too many values")
    return known[key]
