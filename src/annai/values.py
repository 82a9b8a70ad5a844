"""Is this value what its type says? Plain values (JSON, TOML) checked and turned into ours, led by type hints.

The settings file, calls over the wire and an agent's tool arguments are all checked here, so that a wrong value gets
the same sentence wherever it comes from.
"""

import dataclasses
import functools
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from annai import plugins
from annai.errors import AnnaiError, QueryError

T = TypeVar("T")

Json = Any
"""A value as JSON has it: null, true or false, a number, a string, a list or an object."""

TypeHint = Any
"""A type as it stands in an annotation; Python has no type for these."""

MAX_REPEATED = 60
"""Characters of a wrong value that an error message repeats."""


class Limits(NamedTuple):
    """What a number or a string may be, beside its type."""

    minimum: float | None = None
    maximum: float | None = None
    """The least and the most that a number may be, or a string have in characters."""
    choices: tuple[str, ...] = ()
    """What a string must be one of; a `Literal` needs none."""
    plugins: str = ""
    """A group of entry points whose names are allowed beside the choices."""


NO_LIMITS = Limits()


def decode(
    kind: type[T],
    value: object,
    name: str = "the value",
    *,
    limits: Limits = NO_LIMITS,
    error: type[AnnaiError] = QueryError,
) -> T:
    """The value as this type; the limits hold for a number or a string, or for each one of a list.

    Raises `error`, with a sentence that begins with `name`, for anything else.
    """
    result: T = _Decoder(error)(kind, value, name, limits)
    return result


def decode_fields(
    hints: Mapping[str, TypeHint],
    values: object,
    name: str,
    *,
    required: Iterable[str] = (),
    error: type[AnnaiError] = QueryError,
) -> dict[str, Any]:
    """The members of an object, each decoded by its type hint: for dataclasses and for the parameters of calls."""
    return _Decoder(error).fields(hints, values, name, required)


def choices(literal: TypeHint) -> tuple[str, ...]:
    """What a `Literal` allows; nothing for any other type."""
    origin: TypeHint = get_origin(literal)
    return get_args(literal) if origin is Literal else ()


def suggest(name: object, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the one that was probably meant, or all there are."""
    import difflib  # only where something is wrong

    known = list(known)
    close = difflib.get_close_matches(str(name), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known) or 'none'}."


def shorten(value: object) -> str:
    """A wrong value as a message repeats it."""
    text = repr(value)
    return text if len(text) <= MAX_REPEATED else text[: MAX_REPEATED - 1] + "…"


_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
_PLURALS = {str: "strings", int: "whole numbers", float: "numbers", Path: "paths"}
_ACCEPTED: dict[TypeHint, tuple[type, ...]] = {float: (int, float), Path: (str, Path)}
_SCALARS = frozenset({str, int, bool, float})


class _Decoder:
    """Decodes by type hints, and raises one kind of error."""

    def __init__(self, error: type[AnnaiError]) -> None:
        self._error = error

    def __call__(self, kind: TypeHint, value: Json, name: str, limits: Limits) -> Any:  # noqa: ANN401 - of the kind
        # Most values of an answer are just what they should be; a number may be infinite.
        if type(value) is kind and limits is NO_LIMITS and kind in _SCALARS and (kind is not float or isfinite(value)):
            return value
        origin: TypeHint = _origin(kind)
        if origin in (types.UnionType, Union):
            result = self._optional(kind, value, name, limits)
        elif origin is Literal:
            result = self._choice(get_args(kind), value, name)
        elif origin in (tuple, list, Sequence):
            result = self._list(kind, value, name, limits)
        elif origin is Mapping:
            result = self._mapping(kind, value, name)
        elif hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_field_defaults"):
            hints, required = _members(kind)
            result = kind(**self.fields(hints, value, name, required))
        else:
            result = value if kind is object else self._scalar(kind, value, name, limits)
        return result

    def fields(
        self, hints: Mapping[str, TypeHint], values: object, name: str, required: Iterable[str]
    ) -> dict[str, Any]:
        if not isinstance(values, dict):
            raise self._error(f"{name} must be an object, not {shorten(values)}.")
        if not hints.keys() >= values.keys():
            key = next(key for key in values if key not in hints)
            raise self._error(f"{name} has no {shorten(key)}; {suggest(key, hints)}")
        for key in required:
            if key not in values:
                raise self._error(f"{name} must have {key!r}.")
        return {key: self(hints[key], value, key, NO_LIMITS) for key, value in values.items()}

    def _optional(self, kind: TypeHint, value: object, name: str, limits: Limits) -> object:
        """A value that may be missing; other unions are not used."""
        if value is None:
            return None
        (inner,) = (each for each in get_args(kind) if each is not type(None))
        return self(inner, value, name, limits)

    def _choice(self, allowed: Sequence[object], value: object, name: str) -> object:
        if value not in allowed or isinstance(value, bool):
            raise self._error(f"{name} must be one of {', '.join(map(str, allowed))}, not {shorten(value)}.")
        return value

    def _named(self, limits: Limits, value: str, name: str) -> None:
        """A choice that plugins may add to."""
        if value in limits.choices or not limits.plugins:
            self._choice(limits.choices, value, name)
            return
        others = plugins.installed(limits.plugins)
        if value not in others:
            import difflib  # only where something is wrong

            known = [*limits.choices, *others]
            close = difflib.get_close_matches(value, known, n=1)
            installed = f"installed plugins: {', '.join(others)}" if others else "no plugin is installed"
            raise self._error(
                f"{name} must be one of {', '.join(limits.choices)} ({installed}), not {shorten(value)}; "
                + (f"did you mean {close[0]!r}?" if close else "choose one, or install the package that brings it.")
            )

    def _list(self, kind: TypeHint, value: object, name: str, limits: Limits) -> object:
        origin: TypeHint = _origin(kind)
        arguments = get_args(kind)
        if not isinstance(value, list | tuple):
            raise self._wrong(kind, value, name)
        if origin is tuple and Ellipsis not in arguments:
            if len(value) != len(arguments):
                raise self._wrong(kind, value, name)
            return tuple(self(each, item, name, limits) for each, item in zip(arguments, value, strict=True))
        file, colon, key = name.rpartition(": ")
        each_name = f"{file}{colon}each of {key}"
        items = [self(arguments[0], item, each_name, limits) for item in value]
        return tuple(items) if origin is tuple else items

    def _mapping(self, kind: TypeHint, value: object, name: str) -> object:
        if not isinstance(value, dict):
            raise self._error(f"{name} must be an object, not {shorten(value)}.")
        of_keys, of_values = get_args(kind)
        return {
            self(of_keys, key, name, NO_LIMITS): self(of_values, each, name, NO_LIMITS) for key, each in value.items()
        }

    def _scalar(self, kind: TypeHint, value: object, name: str, limits: Limits) -> object:
        # To Python true is a number.
        if not isinstance(value, _ACCEPTED.get(kind, (kind,))) or (isinstance(value, bool) and kind is not bool):
            raise self._wrong(kind, value, name)
        if isinstance(value, str) and limits.choices:
            self._named(limits, value, name)
        if isinstance(value, str):
            self._check(limits, len(value), name, " characters")
        elif isinstance(value, int | float) and kind is not bool:
            # Neither infinity nor NaN, nor a whole number that no float can hold.
            if kind is float and not abs(value) <= sys.float_info.max:
                raise self._wrong(kind, value, name)
            self._check(limits, value, name)
        return kind(value) if kind in (float, Path) else value

    def _check(self, limits: Limits, size: float, name: str, unit: str = "") -> None:
        low, high = limits.minimum, limits.maximum
        is_low, is_high = low is not None and size < low, high is not None and size > high
        if is_low or is_high:
            if low is not None and high is not None:
                allowed = f"between {low:,} and {high:,}"
            else:
                allowed = f"at least {low:,}" if is_low else f"at most {high:,}"
            raise self._error(f"{name} must be {allowed}{unit}, not {f'{size:,}' if unit else shorten(size)}.")

    def _wrong(self, kind: TypeHint, value: object, name: str) -> AnnaiError:
        return self._error(f"{name} must be {_describe(kind)}, not {shorten(value)}.")


_origin = functools.cache(get_origin)
"""What a type is made with, such as `tuple`."""


@functools.cache
def _members(kind: type) -> tuple[dict[str, TypeHint], list[str]]:
    """The type hints of a dataclass or named tuple, and the names of the fields that have no default."""
    if (defaults := getattr(kind, "_field_defaults", None)) is not None:
        hints = get_type_hints(kind)
        return hints, [name for name in hints if name not in defaults]
    nothing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    required = [each.name for each in fields if each.default is nothing and each.default_factory is nothing]
    return get_type_hints(kind), required


def _describe(kind: TypeHint) -> str:
    """A type in words."""
    origin: TypeHint = get_origin(kind)
    arguments = get_args(kind)
    if origin is tuple and Ellipsis not in arguments:
        return f"a list of {len(arguments)}"
    if origin in (tuple, list, Sequence):
        return f"a list of {_PLURALS.get(arguments[0], 'objects')}"
    return _NAMES.get(kind, "an object")
