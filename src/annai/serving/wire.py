"""How do values travel? As plain JSON; `values.decode` makes them ours again."""

import dataclasses
import functools
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

from annai.text.nesting import parse_json
from annai.values import Json

_BYTES_BESIDE_TEXT = 16
"""Of each value: a number, or a text's quotes and its name."""

_PLAIN = frozenset({type(None), bool, int, float, str})
_SURROGATE = re.compile("[\ud800-\udfff]")


def plain(value: object) -> Json:
    """A value as JSON can hold it: dataclasses and named tuples as objects, tuples as lists, paths as strings."""
    # Most values are plain already.
    if type(value) in _PLAIN or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and (names := getattr(value, "_fields", ())):
        return {name: plain(each) for name, each in zip(names, value, strict=True)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _field_names(type(value))}
    raise TypeError(f"{type(value).__name__} does not travel")


def to_json(value: object) -> bytes:
    """A plain value as JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # The name of a file may hold bytes that are no text; only escapes carry those.
        return json.dumps(value, separators=(",", ":")).encode()


def size_of(value: Json) -> int:
    """About how many bytes a plain value has as JSON text."""
    size, rest = 0, [value]
    while rest:
        each = rest.pop()
        size += _BYTES_BESIDE_TEXT
        if isinstance(each, str):
            size += len(each) if each.isascii() else len(each.encode(errors="surrogatepass"))
        elif isinstance(each, dict):
            rest += each.values()
        elif isinstance(each, list):
            rest += each
    return size


def from_json(text: bytes) -> Json:
    """The plain value of a JSON text. Raises `ValueError` for what is not JSON."""
    return parse_json(text, parse_constant=_refuse_constant, parse_float=_finite)


def mend_json(text: bytes) -> bytes:
    """A JSON text in which what is no text became U+FFFD: half of a surrogate pair, as of an emoji that was cut in two.

    Raises `ValueError` for what is not JSON.
    """
    value = from_json(text.decode(errors="replace").encode())
    return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)).encode()


@functools.cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _finite(number: str) -> float:
    if math.isinf(value := float(number)):
        raise ValueError(f"{number} is too large a number")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
