"""How is a table of a TOML text set and removed, with its comments and order kept?"""

import json
import re

from annai.errors import ConfigError
from annai.interfaces.setup.values import Entry, Json, Path
from annai.text.nesting import parse_toml


def parse(text: str) -> dict[str, Json]:
    """The values of a TOML text."""
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"it is not valid TOML ({error})") from error


def put(text: str, path: Path, name: str, entry: Entry) -> str:
    """Set a table; one that is there keeps its other keys."""
    lines = text.split("\n")
    start = _find(lines, path, name)
    if start is None:
        separator = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return text + separator + show(path, name, entry)
    for key, value in entry.items():
        first, last = _key_lines(lines, start, key)
        lines[first:last] = [f"{key} = {_to_toml(value)}"]
    return "\n".join(lines)


def drop(text: str, path: Path, name: str) -> str:
    """Remove a table and the tables inside it."""
    lines = text.split("\n")
    while (start := _find(lines, path, name, inside=True)) is not None:
        end = next((at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
        # What stands right above the next table belongs to it.
        while end - 1 > start and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        if start and not lines[start - 1].strip():
            start -= 1
        del lines[start:end]
    return "\n".join(lines)


def show(path: Path, name: str, entry: Entry) -> str:
    """The table alone, as a complete file."""
    lines = [f"{key} = {_to_toml(value)}" for key, value in entry.items()]
    return "\n".join([f"[{'.'.join((*path, name))}]", *lines]) + "\n"


def _to_toml(value: Json) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_to_toml(each)}" for key, each in value.items()) + " }"
    # JSON's strings and lists of strings are valid TOML.
    return json.dumps(value, ensure_ascii=False)


def _find(lines: list[str], path: Path, name: str, *, inside: bool = False) -> int | None:
    """The line of the table's header, or also of a table inside it."""
    keys = r"\s*\.\s*".join(rf"([\"']?){re.escape(key)}\{number}" for number, key in enumerate((*path, name), 1))
    more = r"\s*(\..*)?" if inside else r"\s*"
    header = re.compile(rf"\s*\[\s*{keys}{more}\]\s*(#.*)?")
    return next((number for number, line in enumerate(lines) if header.fullmatch(line)), None)


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
                parse_toml("\n".join(lines[first:last]))
            except ValueError:
                continue
            return first, last
    return start + 1, start + 1
