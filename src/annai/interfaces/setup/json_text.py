"""How is an entry of a JSON text set and removed, with its comments, order and trailing commas kept?"""

import json
import re
from collections.abc import Iterator

from annai.definitions import dataclass
from annai.interfaces.setup.values import Entry, Json, Path, nested
from annai.text.nesting import parse_json

# What has no end reaches to the end of the text, so that it is looked for once; it stays, and is no JSON.
_STRING = r'"(?:\\.|[^"\\])*+"?|/\*(?:[^*]|\*(?!/))*+\Z'
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_STRING_OR_COMMENT = re.compile(f"({_STRING})|{_COMMENT}", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_BLANK = re.compile(rf"(?:\s|{_COMMENT})*", re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}/]+")


def parse(text: str) -> Json:
    """The value of a JSON text that may contain comments and trailing commas. Raises `ValueError`."""
    without_comments = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text)
    if not without_comments.strip():
        return {}
    return parse_json(_TRAILING_COMMA.sub(lambda match: match[1] or "", without_comments))


def line_beyond_json(text: str) -> int:
    """The first line with what only some programs read, a comment or a trailing comma; 0 if there is none."""
    try:
        parse_json(text or "{}")
    except json.JSONDecodeError as error:
        return error.lineno
    return 0


def put(text: str, path: Path, name: str, entry: Entry) -> str:
    """Set an entry; one that is there keeps its other keys."""
    if not _BLANK.sub("", text, count=1):
        return text + show(path, name, entry)
    opening = _skip_blank(text, 0)
    keys = (*path, name)
    for number, key in enumerate(keys):
        members = {each.name: each for each in _members(text, opening)}
        if key not in members:
            return _add_member(text, opening, key, nested(keys[number + 1 :], entry))
        member = members[key]
        opening = member.value
    merged = {**parse(text[member.value : member.end]), **entry}
    return text[: member.value] + _to_json(merged, _indent(text, member.start)) + text[member.end :]


def drop(text: str, path: Path, name: str) -> str:
    """Remove an entry, and what it leaves empty above it."""
    openings = [_skip_blank(text, 0)]
    for key in path:
        members = {each.name: each for each in _members(text, openings[-1])}
        openings.append(members[key].value)
    for opening, key in zip(reversed(openings), reversed((*path, name)), strict=True):
        text = _drop_member(text, opening, key)
        if text[opening + 1] != "}":  # something is left in it, if only a comment
            break
    return text


def show(path: Path, name: str, entry: Entry) -> str:
    """The entry alone, as a complete file."""
    return json.dumps(nested((*path, name), entry), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of a JSON object: its name, and where name and value are in the text."""

    name: str
    start: int
    value: int
    end: int


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


def _drop_member(text: str, opening: int, name: str) -> str:
    """Remove a member of the object that opens at a position, with the comma that separated it."""
    members = [*_members(text, opening)]
    number = next(number for number, each in enumerate(members) if each.name == name)
    start, end = members[number].start, members[number].end
    if has_comma := text[end:].lstrip().startswith(","):
        end = text.index(",", end) + 1
    before, rest = text[:start].rstrip(" \t"), text[end:].partition("\n")[0].strip()
    is_own_line = before.endswith("\n") and not (rest and _ends_in_comment(before.splitlines()[-1]))
    start = len(before) - 1 if is_own_line else len(before)
    if number == len(members) - 1 and number and not has_comma:
        # The comma after the member before ours separated the two.
        comma = _skip_blank(text, members[number - 1].end)
        return text[:comma] + text[comma + 1 : start] + text[end:]
    text = text[:start] + text[end:]
    closing = _skip_blank(text, opening + 1)
    gap = text[opening + 1 : closing]
    is_left = gap.isspace() and (text[closing] == "}" or "\n" not in gap)
    return text[: opening + 1] + text[closing:] if is_left else text


def _ends_in_comment(line: str) -> bool:
    return any(match[0].startswith("//") for match in _STRING_OR_COMMENT.finditer(line))


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
