"""How is one entry of another program's file changed, and nothing else? Text edits of JSON and TOML.

A file that people write holds more than its values: comments, an order, blank lines. So only the text of the entry is
changed, and the result is parsed and checked before it is written.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from annai.errors import ConfigError

Json = Any
"""A value that JSON or TOML can express."""

Entry = Mapping[str, Json]
"""One server's settings."""

_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_STRING_OR_COMMENT = re.compile(f"({_STRING})|{_COMMENT}", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_BLANK = re.compile(rf"(?:\s|{_COMMENT})*", re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}/]+")


def parse_json(text: str) -> Json:
    """The value of a JSON text that may contain comments and trailing commas. Raises `ValueError`."""
    without_comments = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text)
    if not without_comments.strip():
        return {}
    return json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or "", without_comments))


def set_json(text: str, section: str, name: str, entry: Entry) -> str:
    """Set `{section: {name: entry}}` in a JSON text; an existing entry keeps its other keys."""
    return _set_entry(text, section, name, entry, parse_json, _edit_json)


def set_toml(text: str, section: str, name: str, entry: Entry) -> str:
    """Set the table `[section.name]` in a TOML text; an existing table keeps its other keys."""
    return _set_entry(text, section, name, entry, _parse_toml, _edit_toml)


def toml_table(section: str, name: str, entry: Entry) -> str:
    """A table in TOML."""
    # JSON's strings and lists of strings are valid TOML.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[{section}.{name}]", *lines]) + "\n"


def _set_entry(
    text: str,
    section: str,
    name: str,
    entry: Entry,
    parse: Callable[[str], Json],
    edit: Callable[[str, str, str, Entry], str],
) -> str:
    """Edit the text, and check that the result says what it should and nothing else changed."""
    before = _object(parse(text), "the file")
    servers = _object(before.get(section, {}), section)
    merged = {**_object(servers.get(name, {}), name), **entry}
    if servers.get(name) == merged:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    after = edit(text.replace("\r\n", "\n"), section, name, entry).replace("\n", newline)
    try:
        is_right = parse(after) == {**before, section: {**servers, name: merged}}
    except (ConfigError, ValueError):
        is_right = False
    if not is_right:
        raise ConfigError("it is written in an unusual way")
    return after


def _parse_toml(text: str) -> dict[str, Json]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"it is not valid TOML ({error})") from error


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of a JSON object: its name, and where name and value are in the text."""

    name: str
    start: int
    value: int
    end: int


def _object(value: Json, name: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is not an object")
    return value


def _edit_json(text: str, section: str, name: str, entry: Entry) -> str:
    if not _BLANK.sub("", text, count=1):
        return text + json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    root = _skip_blank(text, 0)
    outer = {each.name: each for each in _members(text, root)}
    if section not in outer:
        return _add_member(text, root, section, {name: entry})
    inner = {each.name: each for each in _members(text, outer[section].value)}
    if name not in inner:
        return _add_member(text, outer[section].value, name, entry)
    member = inner[name]
    merged = {**parse_json(text[member.value : member.end]), **entry}
    return text[: member.value] + _to_json(merged, _indent(text, member.start)) + text[member.end :]


def _add_member(text: str, opening: int, name: str, value: Json) -> str:
    """Add a member at the end of the object that opens at a position."""
    members = [*_members(text, opening)]
    if not members:
        indent = _indent(text, opening)
        inner = indent + "  "
        added = f"\n{inner}{json.dumps(name)}: {_to_json(value, inner)}\n{indent}"
        return text[: opening + 1] + added + _rest_of_empty_object(text, opening)
    last = members[-1]
    indent = _indent(text, members[0].start)
    added = f"\n{indent}{json.dumps(name)}: {_to_json(value, indent)}"
    line_end = text.find("\n", last.end)
    rest = text[last.end : line_end] if line_end >= 0 else ""
    has_comma = rest.lstrip().startswith(",")
    if line_end < 0 or _BLANK.sub("", rest.lstrip().removeprefix(","), count=1):
        return f"{text[: last.end]},{added}{text[last.end :].lstrip(',') if has_comma else text[last.end :]}"
    # A comment after the last member stays after it.
    comma = "" if has_comma else ","
    return f"{text[: last.end]}{comma}{rest}{added}{',' if has_comma else ''}{text[line_end:]}"


def _rest_of_empty_object(text: str, opening: int) -> str:
    """The text from the closing brace of an object without members, with the comments inside it before that."""
    closing = _skip_blank(text, opening + 1)
    comments = text[opening + 1 : closing].strip()
    return (f"{comments}\n" if comments else "") + text[closing:]


def _members(text: str, opening: int) -> Iterator[_Member]:
    """The members of the object that opens at a position."""
    at = _skip_blank(text, opening + 1)
    while text[at] != "}":
        start, end = at, _value_end(text, at)
        value = _skip_blank(text, _skip_blank(text, end) + 1)
        yield _Member(json.loads(text[start:end]), start, value, _value_end(text, value))
        at = _skip_blank(text, _value_end(text, value))
        if text[at] == ",":
            at = _skip_blank(text, at + 1)


def _value_end(text: str, at: int) -> int:
    """Where the value that begins at a position ends."""
    if match := re.compile(_STRING, re.DOTALL).match(text, at):
        return match.end()
    if text[at] not in "{[":
        found = _SCALAR.match(text, at)
        return found.end() if found else at
    depth = 0
    while True:
        if match := _STRING_OR_COMMENT.match(text, at):
            at = match.end()
            continue
        depth += (text[at] in "{[") - (text[at] in "}]")
        at += 1
        if depth == 0:
            return at


def _skip_blank(text: str, at: int) -> int:
    """The next position that is neither white space nor comment."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _indent(text: str, at: int) -> str:
    """The white space at the beginning of the line with this position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _to_json(value: Json, indent: str) -> str:
    unit = "\t" if indent.startswith("\t") else 2
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{indent}")


def _edit_toml(text: str, section: str, name: str, entry: Entry) -> str:
    lines = text.split("\n")
    header = re.compile(rf'\s*\[\s*{re.escape(section)}\s*\.\s*(["\']?){re.escape(name)}\1\s*\]\s*(#.*)?')
    start = next((number for number, line in enumerate(lines) if header.fullmatch(line)), None)
    if start is None:
        separator = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return text + separator + toml_table(section, name, entry)
    for key, value in entry.items():
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        first, last = _key_lines(lines, start, key)
        lines[first:last] = [line]
    return "\n".join(lines)


def _key_lines(lines: list[str], start: int, key: str) -> tuple[int, int]:
    """The range of lines that set a key of the table; if none does, an empty range after its header."""
    assignment = re.compile(rf"\s*{re.escape(key)}\s*=")
    for first in range(start + 1, len(lines)):
        if lines[first].lstrip().startswith("["):
            break
        if not assignment.match(lines[first]):
            continue
        for last in range(first + 1, len(lines) + 1):
            try:
                tomllib.loads("\n".join(lines[first:last]))
            except tomllib.TOMLDecodeError:
                continue
            return first, last
    return start + 1, start + 1
