"""What may a tool be given? One table per tool: its JSON schema for the model, and what the model sent, understood.

Models and the programs around them are loose with arguments: they fill optional ones with empty strings, put numbers in
quotes, call `limit` `top_k`. What can only mean one thing is taken for that, here and for every tool; anything else is
refused with a sentence to act on.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from annai.definitions import dataclass
from annai.errors import QueryError
from annai.text.nesting import parse_json
from annai.values import Limits, TypeHint, decode, shorten, suggest

Kind = Literal["string", "path", "condition", "integer", "boolean"]

_TYPES: dict[Kind, type] = {"string": str, "path": str, "condition": str, "integer": int, "boolean": bool}

ALIASES = {
    "query": ("q", "question", "text", "query_text", "search_query"),
    "limit": ("top_k", "topk", "k", "n", "max_results", "num_results", "n_results", "count", "size"),
    "offset": ("skip", "next_offset"),
    "path": (
        *("paths", "id", "file", "files", "file_path", "filepath", "filename", "folder", "directory", "glob"),
        *("document", "document_id", "doc_id", "section", "section_id", "uri", "url", "reference"),
    ),
    "collections": ("collection", "collection_name", "collection_names"),
    "depth": ("depths",),
    "mode": ("search_mode", "search_type"),
    "sort": ("sort_by",),
    "excludes": ("exclude",),
    "where": ("filter", "filters", "condition", "conditions", "metadata"),
    "since": ("after_date", "updated_since", "updated_after", "from_date"),
    "until": ("before_date", "updated_until", "updated_before", "to_date"),
    "start_line": ("line", "from_line", "line_start"),
    "end_line": ("to_line", "line_end"),
    "page": ("next_page", "page_number"),
}
"""Other names by which models call an argument, in every tool that has it."""

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_NOTHING = frozenset({"", "null", "undefined"})
"""What stands in an optional argument that is left out."""

_WHOLE_NUMBER = re.compile(r"-?\d{1,18}(\.0+)?")

_INSIDE_NAME = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-\s]+")
"""Where `startLine` and `start-line` have the underscore of `start_line`."""

_QUOTES = " \t\r\n`'\"<>"
"""What models leave around a path that they copy."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool."""

    name: str
    kind: Kind
    text: str
    """What it means, for the model."""
    required: bool = False
    default: object = None
    """The value that leaving it out stands for, if there is one; of one with `several`, the empty tuple."""
    minimum: int | None = None
    maximum: int | None = None
    """Limits of a number, or of a string's length."""
    choices: tuple[str, ...] = ()
    names_choices: bool = False
    """Whether the text names the choices, so that the schema does not repeat them."""
    several: bool = False
    """Whether it takes a list too; the value is a tuple then."""
    is_list: bool = False
    """Whether the schema calls it a list; one value alone is taken as well."""
    hidden: bool = False
    """Whether it is accepted without being in the schema, which a model pays for in every conversation."""


def schema(arguments: Sequence[Argument]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: what a model needs to choose them, while `check_arguments` checks them."""
    result: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: _property(each) for each in arguments if not each.hidden},
    }
    if required := [each.name for each in arguments if each.required]:
        result["required"] = required
    return result


def check_arguments(tool: str, arguments: Sequence[Argument], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were sent, each as its kind, and the defaults of the others.

    Raises `QueryError`, with a sentence to act on, for what cannot be understood.
    """
    sent = _named(tool, arguments, values)
    for each in arguments:
        if each.required and each.name not in sent:
            raise QueryError(f"{tool} needs the argument {each.name!r}: {each.text}")
    return {
        each.name: _decoded(each, sent[each.name]) if each.name in sent else () if each.several else each.default
        for each in arguments
    }


def _named(tool: str, arguments: Sequence[Argument], values: Mapping[str, Any]) -> dict[str, Any]:
    """What was sent, by the arguments' own names, without what says nothing; an own name goes before an alias."""
    names = {alias: each for each in arguments for alias in ALIASES.get(each.name, ())}
    names |= {each.name: each for each in arguments}
    sent: dict[str, Any] = {}
    for name, value in values.items():
        argument = names.get(name) or names.get(_INSIDE_NAME.sub("_", name).lower())
        if _is_empty(value) and not (argument and argument.required):
            continue
        if argument is None:
            shown = [each.name for each in arguments if not each.hidden]
            raise QueryError(f"{tool} has no argument {shorten(name)}", suggest(name, shown))
        if value is not None and (name == argument.name or argument.name not in sent):
            sent[argument.name] = value
    return sent


def _is_empty(value: object) -> bool:
    return value in (None, [], {}) or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _decoded(argument: Argument, value: object) -> object:
    kind: TypeHint = _TYPES[argument.kind]
    if argument.several:
        kind, value = tuple[kind, ...], [_coerce(argument, each) for each in _as_list(argument, value)]
    else:
        value = _coerce(argument, value[0] if isinstance(value, list) and len(value) == 1 else value)
    limits = Limits(argument.minimum, argument.maximum, argument.choices)
    decoded: object = decode(kind, value, argument.name, limits=limits)
    return decoded


def _as_list(argument: Argument, value: object) -> list[object]:
    """The list that is meant: as it is, written as JSON in a string, with commas, of one value, or of an object's."""
    if argument.kind == "condition" and isinstance(value, dict):
        return [_condition(name, each) for name, each in value.items()]
    if not isinstance(value, str):
        return value if isinstance(value, list) else [value]
    if value.startswith("["):
        try:
            read = parse_json(value)
        except ValueError:
            read = None  # a glob may begin so
        if isinstance(read, list) and all(isinstance(each, str | int) for each in read):
            return read
    has_commas = argument.kind == "integer" or (argument.choices and value not in argument.choices)
    return [each.strip() for each in value.split(",")] if has_commas else [value]


def _condition(name: str, value: object) -> str:
    """A condition that an object has: `{"status": "draft"}`, `{"date": ">=2025-01-01"}`."""
    text = json.dumps(value) if isinstance(value, bool | int | float) else str(value)
    return f"{name}{text}" if text.startswith(("=", "!=", "<", ">")) else f"{name}={text}"


def _coerce(argument: Argument, value: object) -> object:
    """One value as its kind, if that is what it means."""
    if argument.kind == "integer":
        if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
            return int(value.strip().partition(".")[0])
        return int(value) if isinstance(value, float) and value.is_integer() else value
    if argument.kind == "boolean":
        return _BOOLEANS.get(str(value).strip().lower(), value) if isinstance(value, str | int) else value
    if isinstance(value, str) and argument.kind == "path":
        return value.strip(_QUOTES)
    if isinstance(value, str) and argument.choices:
        return {each.lower(): each for each in argument.choices}.get(value.strip().lower(), value)
    return value


def _property(argument: Argument) -> dict[str, Any]:
    # A model that is shown limits still oversteps them, and every one of them costs tokens.
    value: dict[str, Any] = {"type": argument.kind if argument.kind in ("integer", "boolean") else "string"}
    if argument.choices and not argument.names_choices:
        value["enum"] = list(argument.choices)
    if argument.is_list:
        value = {"type": "array", "items": value}
    return {**value, "description": argument.text}
