"""What may a tool be given? One table a tool: its JSON schema for the model, and the check of what the model sent."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from annai.errors import QueryError

LONGEST_SHOWN = 60
"""Characters of a wrong value that a sentence repeats."""

_KINDS = {
    "string": "a string",
    "integer": "a whole number",
    "boolean": "true or false",
    "strings": "a list of strings",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool."""

    name: str
    kind: Literal["string", "integer", "boolean", "strings"]
    text: str
    """What it means, for the model."""
    required: bool = False
    default: object = None
    """What its absence means, where one value says that."""
    minimum: int | None = None
    maximum: int | None = None
    """Bounds of a number, or of a string's length."""
    choices: tuple[str, ...] = ()


def schema(arguments: Sequence[Argument]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    result: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: _property(each) for each in arguments},
        "additionalProperties": False,
    }
    if required := [each.name for each in arguments if each.required]:
        result["required"] = required
    return result


def checked(tool: str, arguments: Sequence[Argument], values: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, each as its kind; what was left out has its default.

    A number in quotes, or one string for a list, is taken for what it means. Raises `QueryError`, with a sentence to
    act on, for what cannot be meant.
    """
    known = {each.name: each for each in arguments}
    for name in values:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            there_are = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known) or 'none'}."
            raise QueryError(f"{tool} has no argument {_shown(name)}; {there_are}")
    given = {name: value for name, value in values.items() if value is not None}
    for each in arguments:
        if each.required and each.name not in given:
            raise QueryError(f"{tool} needs the argument {each.name!r}: {each.text}")
    return {each.name: _checked(each, given[each.name]) if each.name in given else each.default for each in arguments}


def _property(argument: Argument) -> dict[str, Any]:
    result: dict[str, Any] = {"type": argument.kind, "description": argument.text}
    if argument.kind == "strings":
        result["type"] = "array"
        result["items"] = {"type": "string", **({"enum": list(argument.choices)} if argument.choices else {})}
    elif argument.choices:
        result["enum"] = list(argument.choices)
    least, most = ("minLength", "maxLength") if argument.kind == "string" else ("minimum", "maximum")
    bounds = {least: argument.minimum, most: argument.maximum, "default": argument.default}
    return result | {key: value for key, value in bounds.items() if value is not None}


def _checked(argument: Argument, value: object) -> object:
    value = _meant(argument, value)
    fits = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "strings": isinstance(value, list) and all(isinstance(each, str) for each in value),
    }[argument.kind]
    if not fits:
        raise QueryError(f"{argument.name} must be {_KINDS[argument.kind]}, not {_shown(value)}.")
    chosen = value if isinstance(value, list) else [value]
    for each in chosen if argument.choices else ():
        if each not in argument.choices:
            raise QueryError(f"{argument.name} must be one of {', '.join(argument.choices)}, not {_shown(each)}.")
    if isinstance(value, int):
        _check_bounds(argument, value, f"{value}", "")
    elif isinstance(value, str):
        _check_bounds(argument, len(value), f"{len(value):,}", " characters")
    return tuple(value) if isinstance(value, list) else value


def _meant(argument: Argument, value: object) -> object:
    """Models write numbers and truths in quotes, whole numbers as 5.0, and one for a list of one."""
    if argument.kind == "integer":
        if isinstance(value, str) and value.strip().removeprefix("-").isdecimal() and len(value) < 20:
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
    if argument.kind == "boolean" and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if argument.kind == "strings" and isinstance(value, str):
        return [value]
    return value


def _check_bounds(argument: Argument, size: int, shown: str, unit: str) -> None:
    least, most = argument.minimum, argument.maximum
    if least is not None and size < least:
        wanted = f"at least {least:,}{unit}" if most is None else f"between {least:,} and {most:,}{unit}"
        raise QueryError(f"{argument.name} must be {wanted}, not {shown}.")
    if most is not None and size > most:
        raise QueryError(f"{argument.name} must be at most {most:,}{unit}, not {shown}.")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
