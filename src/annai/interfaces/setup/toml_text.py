"""How is a table of a TOML text set and removed, with its comments and order kept?"""

import re
from functools import reduce

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import InlineTable

from annai.errors import ConfigError
from annai.interfaces.setup.values import Entry, Json, Path, nested
from annai.text.nesting import parse_toml


def parse(text: str) -> dict[str, Json]:
    """The values of a TOML text."""
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"it is not valid TOML ({error})") from error


def put(text: str, path: Path, name: str, entry: Entry) -> str:
    """Set a table; one that is there keeps its other keys. A new one is put at the end, or beside inline ones."""
    document = tomlkit.parse(text)
    above = _above(document, path)
    if name not in above and not isinstance(above, InlineTable):
        separator = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return text + separator + show(path, name, entry)
    if name not in above:
        above[name] = tomlkit.inline_table()
    _set(above[name], entry)
    return tomlkit.dumps(document)


def drop(text: str, path: Path, name: str) -> str:
    """Remove a table and the tables inside it."""
    lines = text.split("\n")
    while (start := _find(lines, path, name)) is not None:
        headers = (at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("["))
        end = next((at for at in headers if _is_whole(lines[start:at])), len(lines))
        # What stands right above the next table belongs to it.
        while end - 1 > start and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        if start and not lines[start - 1].strip():
            start -= 1
        del lines[start:end]
    document = tomlkit.parse("\n".join(lines))
    # One without a header of its own is left: in a line of its own, or of several.
    _above(document, path).pop(name, None)
    return tomlkit.dumps(document)


def show(path: Path, name: str, entry: Entry) -> str:
    """The table alone, as a complete file."""
    table = tomlkit.table()
    _set(table, entry)
    return tomlkit.dumps(nested((*path, name), table))


def _above(document: TOMLDocument, path: Path) -> Json:
    """The table that holds the entries; an empty one that is no part of the document, if there is none yet."""
    return reduce(lambda found, key: found.get(key, {}), path, document)


def _set(table: Json, entry: Entry) -> None:
    for key, value in entry.items():
        if isinstance(value, dict):
            table[key] = tomlkit.inline_table()
            table[key].update(value)
        else:
            table[key] = value


def _find(lines: list[str], path: Path, name: str) -> int | None:
    """The line of the header of the table, or of a table inside it."""
    keys = r"\s*\.\s*".join(rf"([\"']?){re.escape(key)}\{number}" for number, key in enumerate((*path, name), 1))
    header = re.compile(rf"\s*\[\s*{keys}\s*(\..*)?\]\s*(#.*)?")
    found = (number for number, line in enumerate(lines) if header.fullmatch(line))
    return next((number for number in found if _is_whole(lines[:number])), None)


def _is_whole(lines: list[str]) -> bool:
    """Whether no string or list of several lines goes on after these."""
    try:
        parse_toml("\n".join(lines))
    except ValueError:
        return False
    return True
