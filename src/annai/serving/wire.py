"""How do values travel? Dataclasses to plain JSON values and back again, led by their type hints."""

import dataclasses
import difflib
import functools
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annai.errors import QueryError

T = TypeVar("T")

LONGEST_SHOWN = 60
"""Characters of a wrong value that a message repeats."""

_PLAIN_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
_ACCEPTED: dict[type, tuple[type, ...]] = {float: (int, float), Path: (str,)}


def plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """A value as JSON can hold it: dataclasses as objects, tuples as lists, paths as strings."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} does not travel")


def decode(kind: type[T], value: object, name: str = "the value") -> T:
    """The value of this type that `plain` made `value` of.

    Raises `QueryError`, with a sentence that begins with `name`, for anything that is not of the type.
    """
    return _decode(kind, value, name)  # type: ignore[no-any-return]


def decode_fields(hints: Mapping[str, Any], required: Iterable[str], values: object, name: str) -> dict[str, Any]:
    """The members of a JSON object, each decoded by its type hint; for dataclasses and the parameters of calls."""
    if not isinstance(values, dict):
        raise QueryError(f"{name} must be an object, not {_shown(values)}.")
    for key in values:
        if key not in hints:
            close = difflib.get_close_matches(str(key), hints, n=1)
            there_are = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(hints) or 'none'}."
            raise QueryError(f"{name} has no {_shown(key)}; {there_are}")
    for key in required:
        if key not in values:
            raise QueryError(f"{name} must have {key!r}.")
    return {key: _decode(hints[key], value, key) for key, value in values.items()}


def to_json(value: object) -> bytes:
    """A plain value as JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # The name of a file may hold bytes that are no text; only escapes carry those.
        return json.dumps(value, separators=(",", ":")).encode()


def from_json(text: bytes) -> Any:  # noqa: ANN401 - a JSON value
    """The plain value of a JSON text. Raises `ValueError` for what is not JSON."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _decode(kind: Any, value: object, name: str) -> Any:  # noqa: ANN401, PLR0911 - one for each kind of type
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is object:
        return value
    if origin in (types.UnionType, Union):
        return _decode_optional(arguments, value, name)
    if origin is Literal:
        if value not in arguments or isinstance(value, bool):
            raise QueryError(f"{name} must be {_type_name(kind)}, not {_shown(value)}.")
        return value
    if origin in (tuple, list, Sequence):
        return _decode_list(kind, value, name)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise QueryError(f"{name} must be an object, not {_shown(value)}.")
        key_kind, value_kind = arguments
        return {_decode(key_kind, key, name): _decode(value_kind, each, name) for key, each in value.items()}
    if dataclasses.is_dataclass(kind):
        hints, required = _members(kind)  # type: ignore[arg-type] # mypy takes it for an instance
        return kind(**decode_fields(hints, required, value, name))  # type: ignore[operator]
    return _decode_scalar(kind, value, name)


def _decode_scalar(kind: type[Any], value: Any, name: str) -> object:  # noqa: ANN401 - any JSON value
    # To Python true is a number.
    if not isinstance(value, _ACCEPTED.get(kind, (kind,))) or (isinstance(value, bool) and kind is not bool):
        raise QueryError(f"{name} must be {_type_name(kind)}, not {_shown(value)}.")
    return kind(value) if kind in (float, Path) else value


def _decode_optional(kinds: Sequence[Any], value: object, name: str) -> object:
    """A value that may be missing; other unions do not travel."""
    (kind,) = (each for each in kinds if each is not type(None))
    return None if value is None else _decode(kind, value, name)


def _decode_list(kind: Any, value: object, name: str) -> object:  # noqa: ANN401 - a type
    origin, arguments = get_origin(kind), get_args(kind)
    if not isinstance(value, list):
        raise QueryError(f"{name} must be {_type_name(kind)}, not {_shown(value)}.")
    if origin is tuple and Ellipsis not in arguments:
        if len(value) != len(arguments):
            raise QueryError(f"{name} must be {_type_name(kind)}, not {_shown(value)}.")
        return tuple(_decode(each, item, name) for each, item in zip(arguments, value, strict=True))
    items = [_decode(arguments[0], item, f"each of {name}") for item in value]
    return tuple(items) if origin is tuple else items


@functools.cache
def _members(kind: type) -> tuple[dict[str, Any], list[str]]:
    """A dataclass's type hints, and the names of the fields that have no default."""
    nothing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    required = [each.name for each in fields if each.default is nothing and each.default_factory is nothing]
    return get_type_hints(kind), required


def _type_name(kind: Any) -> str:  # noqa: ANN401 - a type
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin is tuple and Ellipsis not in arguments:
        return f"a list of {len(arguments)}"
    if origin in (tuple, list, Sequence):
        return f"a list, each {_type_name(arguments[0])}"
    return _PLAIN_NAMES.get(kind, "an object")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
