"""How is one entry of somebody else's file changed, and nothing else of it? Text edits of JSON and TOML.

A file that people write holds more than its values: comments, an order, blank lines. So it is not written anew; the
place of the entry is found and only that is changed, and the result is read back before anyone relies on it.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from annai.errors import ConfigError

Entry = Mapping[str, Any]

_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_STRING_OR_COMMENT = re.compile(f"({_STRING})|{_COMMENT}", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_BLANK = re.compile(rf"(?:\s|{_COMMENT})*", re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}/]+")


def parse_json(text: str) -> Any:  # noqa: ANN401 - JSON
    """The values of a JSON text that may hold comments and trailing commas. Raises `ValueError`."""
    without = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text)
    return json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or "", without)) if without.strip() else {}


def set_json(text: str, section: str, name: str, entry: Entry) -> str:
    """The text with `{section: {name: entry}}` set in it; other keys of an entry that is there stay."""
    before = _object(parse_json(text), "the file")
    servers = _object(before.get(section, {}), section)
    wanted = {**_object(servers.get(name, {}), name), **entry}
    if servers.get(name) == wanted:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    changed = _changed_json(text.replace("\r\n", "\n"), section, name, wanted).replace("\n", newline)
    if parse_json(changed) != {**before, section: {**servers, name: wanted}}:
        raise ConfigError("its form is an unusual one")
    return changed


def set_toml(text: str, section: str, name: str, entry: Entry) -> str:
    """The text with the table `[section.name]` set in it; other keys of a table that is there stay."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"it is not valid TOML ({error})") from error
    servers = before.get(section, {})
    wanted = {**servers.get(name, {}), **entry}
    if servers.get(name) == wanted:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    changed = _changed_toml(text.replace("\r\n", "\n"), section, name, entry).replace("\n", newline)
    try:
        is_right = tomllib.loads(changed) == {**before, section: {**servers, name: wanted}}
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ConfigError("its form is an unusual one")
    return changed


def toml_table(section: str, name: str, entry: Entry) -> str:
    """A table as TOML writes it."""
    # What JSON writes of strings and lists of them, TOML reads.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[{section}.{name}]", *lines]) + "\n"


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of a JSON object, by the positions of its name and value."""

    name: str
    start: int
    value: int
    end: int


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is not an object")
    return value


def _changed_json(text: str, section: str, name: str, wanted: Entry) -> str:
    if not _BLANK.sub("", text, count=1):
        return text + json.dumps({section: {name: wanted}}, indent=2, ensure_ascii=False) + "\n"
    root = _after_blank(text, 0)
    outer = {each.name: each for each in _members(text, root)}
    if section not in outer:
        return _with_member(text, root, section, {name: wanted})
    inner = {each.name: each for each in _members(text, outer[section].value)}
    if name not in inner:
        return _with_member(text, outer[section].value, name, wanted)
    member = inner[name]
    return text[: member.value] + _rendered(wanted, _indent(text, member.start)) + text[member.end :]


def _with_member(text: str, opening: int, name: str, value: object) -> str:
    """The text with a member added at the end of the object that opens there."""
    members = [*_members(text, opening)]
    if not members:
        indent = _indent(text, opening)
        inner = indent + "  "
        return f"{text[: opening + 1]}\n{inner}{json.dumps(name)}: {_rendered(value, inner)}\n{indent}" + _closing(
            text, opening
        )
    last = members[-1]
    indent = _indent(text, members[0].start)
    added = f"\n{indent}{json.dumps(name)}: {_rendered(value, indent)}"
    line_end = text.find("\n", last.end)
    rest = text[last.end : line_end] if line_end >= 0 else ""
    is_comma_there = rest.lstrip().startswith(",")
    if line_end < 0 or _BLANK.sub("", rest.lstrip().removeprefix(","), count=1):
        return f"{text[: last.end]},{added}{text[last.end :].lstrip(',') if is_comma_there else text[last.end :]}"
    # A comment behind the last member stays behind it.
    comma = "" if is_comma_there else ","
    return f"{text[: last.end]}{comma}{rest}{added}{',' if is_comma_there else ''}{text[line_end:]}"


def _closing(text: str, opening: int) -> str:
    """What follows an object without members, from its closing brace on; comments inside it stay before that."""
    inside = text[opening + 1 : _after_blank(text, opening + 1)]
    kept = inside.strip()
    return (f"{kept}\n" if kept else "") + text[_after_blank(text, opening + 1) :]


def _members(text: str, opening: int) -> Iterator[_Member]:
    """The members of the object that opens at a position."""
    at = _after_blank(text, opening + 1)
    while text[at] != "}":
        start, end = at, _value_end(text, at)
        value = _after_blank(text, _after_blank(text, end) + 1)
        yield _Member(json.loads(text[start:end]), start, value, _value_end(text, value))
        at = _after_blank(text, _value_end(text, value))
        if text[at] == ",":
            at = _after_blank(text, at + 1)


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


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _indent(text: str, at: int) -> str:
    """What the line that holds the position begins with, as far as it is blank."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _rendered(value: object, indent: str) -> str:
    unit = "\t" if indent.startswith("\t") else 2
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{indent}")


def _changed_toml(text: str, section: str, name: str, entry: Entry) -> str:
    lines = text.split("\n")
    header = re.compile(rf'\s*\[\s*{re.escape(section)}\s*\.\s*(["\']?){re.escape(name)}\1\s*\]\s*(#.*)?')
    start = next((number for number, line in enumerate(lines) if header.fullmatch(line)), None)
    if start is None:
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return text + gap + toml_table(section, name, entry)
    for key, value in entry.items():
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        first, last = _toml_lines(lines, start, key)
        lines[first:last] = [line]
    return "\n".join(lines)


def _toml_lines(lines: list[str], start: int, key: str) -> tuple[int, int]:
    """Which lines of the table hold the key; an empty range behind its header, if none does."""
    wanted = re.compile(rf"\s*{re.escape(key)}\s*=")
    for first in range(start + 1, len(lines)):
        if lines[first].lstrip().startswith("["):
            break
        if not wanted.match(lines[first]):
            continue
        for last in range(first + 1, len(lines) + 1):
            try:
                tomllib.loads("\n".join(lines[first:last]))
            except tomllib.TOMLDecodeError:
                continue
            return first, last
    return start + 1, start + 1
