"""How is an entry of a YAML text set and removed, with its comments and order kept? In block mappings."""

import json
import re
from collections.abc import Iterator

from annai.definitions import dataclass
from annai.errors import ConfigError
from annai.interfaces.setup.values import Entry, Json, Path
from annai.text.nesting import parse_yaml

_KEY = re.compile(r"""(?P<indent> *)(?P<quote>["']?)(?P<key>[^\s#:"'-][^:#"']*)(?P=quote):(?:\s+(?P<value>.*))?""")
_INDENT = "  "


def parse(text: str) -> Json:
    """The values of a YAML text."""
    try:
        return parse_yaml(text) or {}
    except ValueError as error:
        raise ConfigError(f"it is not valid YAML ({error})") from error


def put(text: str, path: Path, name: str, entry: Entry) -> str:
    """Set an entry; one that is there keeps its other keys."""
    (section,) = path
    lines = text.split("\n")
    block = _find(lines, section)
    if block is None:
        separator = "" if not text or text.endswith("\n") else "\n"
        return text + separator + show(path, name, entry)
    if block.value not in ("", "{}"):
        raise ConfigError(f"{section} is written in an unusual way")
    lines[block.start] = lines[block.start].removesuffix(" {}")
    inner = {each.key: each for each in _blocks(lines, block.start + 1, block.end)}
    indent = next(iter(inner.values())).indent if inner else _INDENT
    if name not in inner:
        lines[block.end : block.end] = _entry_lines(name, entry, indent)
        return "\n".join(lines)
    for key, value in entry.items():
        ours = next(each for each in _blocks(lines, block.start + 1, len(lines)) if each.key == name)
        settings = {each.key: each for each in _blocks(lines, ours.start + 1, ours.end)}
        deeper = next(iter(settings.values())).indent if settings else indent + _INDENT
        old = settings.get(key)
        first, last = (old.start, old.end) if old else (ours.end, ours.end)
        lines[first:last] = [f"{deeper}{key}: {_to_yaml(value)}"]
    return "\n".join(lines)


def drop(text: str, path: Path, name: str) -> str:
    """Remove an entry, and its section if that is empty then."""
    (section,) = path
    lines = text.split("\n")
    block = _find(lines, section)
    if block:
        inner = [*_blocks(lines, block.start + 1, block.end)]
        ours = next(each for each in inner if each.key == name)
        del lines[ours.start : ours.end]
        if len(inner) == 1:
            del lines[block.start]
    return "\n".join(lines)


def show(path: Path, name: str, entry: Entry) -> str:
    """The entry alone, as a complete file."""
    (section,) = path
    return "\n".join([f"{section}:", *_entry_lines(name, entry, _INDENT)]) + "\n"


@dataclass(frozen=True, slots=True)
class _Block:
    """A key with its value: its lines, and what stands beside the key."""

    key: str
    indent: str
    value: str
    start: int
    end: int


def _find(lines: list[str], key: str) -> _Block | None:
    return next((each for each in _blocks(lines, 0, len(lines)) if each.key == key), None)


def _blocks(lines: list[str], start: int, end: int) -> Iterator[_Block]:
    """The keys of the mapping in these lines."""
    at = next((at for at in range(start, end) if _KEY.fullmatch(lines[at])), end)
    indent = _KEY.fullmatch(lines[at])["indent"] if at < end else ""  # type: ignore[index]
    while at < end:
        match = _KEY.fullmatch(lines[at])
        first, at = at, at + 1
        while at < end and _continues(lines[at], indent):
            at += 1
        if match and match["indent"] == indent:
            last = at
            while last - 1 > first and _is_blank(lines[last - 1]):
                last -= 1
            yield _Block(match["key"], indent, _without_comment(match["value"] or ""), first, last)


def _without_comment(value: str) -> str:
    return value if value.startswith(("'", '"', "[")) else re.sub(r"(^|\s+)#.*", "", value)


def _continues(line: str, indent: str) -> bool:
    """Whether a line belongs to the key above it, at this indent. A list may stand right below its key."""
    return _is_blank(line) or line.startswith((f"{indent} ", f"{indent}- "))


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _entry_lines(name: str, entry: Entry, indent: str) -> list[str]:
    settings = [f"{indent}{_INDENT}{key}: {_to_yaml(value)}" for key, value in entry.items()]
    return [f"{indent}{name}:", *settings]


def _to_yaml(value: Json) -> str:
    # JSON is YAML.
    return json.dumps(value, ensure_ascii=False)
