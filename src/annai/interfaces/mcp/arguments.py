"""What may a tool be given? One table per tool: its JSON schema for the model, and the check of what the model sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from annai.errors import QueryError
from annai.values import Limits, TypeHint, decode, shorten, suggest

Kind = Literal["string", "integer", "boolean", "strings"]

_TYPES: dict[Kind, TypeHint] = {"string": str, "integer": int, "boolean": bool, "strings": tuple[str, ...]}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool."""

    name: str
    kind: Kind
    text: str
    """What it means, for the model."""
    required: bool = False
    default: object = None
    """The value that leaving it out stands for, if there is one."""
    minimum: int | None = None
    maximum: int | None = None
    """Limits of a number, or of a string's length."""
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


def check_arguments(tool: str, arguments: Sequence[Argument], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were sent, each as its kind, and the defaults of the others.

    A number in quotes, or one string for a list, is taken for what it means. Raises `QueryError`, with a sentence to
    act on, for anything else.
    """
    known = {each.name: each for each in arguments}
    for name in values:
        if name not in known:
            raise QueryError(f"{tool} has no argument {shorten(name)}; {suggest(name, known)}")
    sent = {name: value for name, value in values.items() if value is not None}
    for each in arguments:
        if each.required and each.name not in sent:
            raise QueryError(f"{tool} needs the argument {each.name!r}: {each.text}")
    return {
        each.name: decode(
            _TYPES[each.kind],
            _coerce(each, sent[each.name]),
            each.name,
            limits=Limits(each.minimum, each.maximum, each.choices),
        )
        if each.name in sent
        else each.default
        for each in arguments
    }


def _property(argument: Argument) -> dict[str, Any]:
    result: dict[str, Any] = {"type": argument.kind, "description": argument.text}
    if argument.kind == "strings":
        result["type"] = "array"
        result["items"] = {"type": "string", **({"enum": list(argument.choices)} if argument.choices else {})}
    elif argument.choices:
        result["enum"] = list(argument.choices)
    least, most = ("minLength", "maxLength") if argument.kind == "string" else ("minimum", "maximum")
    limits = {least: argument.minimum, most: argument.maximum, "default": argument.default}
    return result | {key: value for key, value in limits.items() if value is not None}


def _coerce(argument: Argument, value: object) -> object:
    """Models put numbers and booleans in quotes, write whole numbers as 5.0, and send one string for a list of one."""
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
