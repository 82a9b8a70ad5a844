"""How is one entry of another program's file changed, and nothing else?

A file that people write holds more than its values: comments, an order, blank lines. So only the text of the entry is
changed, and the result is parsed and checked before it is written.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from annai.errors import ConfigError
from annai.interfaces.setup import json_text, toml_text
from annai.interfaces.setup.values import Entry, Json, Path

Form = Literal["json", "toml", "yaml"]
"""How a file is written; JSON may contain comments and trailing commas. YAML is shown, and never changed."""

BOM = "\ufeff"


class _Format(Protocol):
    def parse(self, text: str) -> Json: ...
    def put(self, text: str, path: Path, name: str, entry: Entry) -> str: ...
    def drop(self, text: str, path: Path, name: str) -> str: ...
    def show(self, path: Path, name: str, entry: Entry) -> str: ...


FORMATS: dict[Form, _Format] = {"json": json_text, "toml": toml_text}


def parse(form: Form, text: str) -> Json:
    """The values of a text. Raises `ValueError` or `ConfigError`."""
    return FORMATS[form].parse(text.removeprefix(BOM))


def entries(form: Form, text: str, path: Path) -> dict[str, Entry]:
    """The entries that are in the text."""
    found = parse(form, text) if text else {}
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return {key: each for key, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def set_entry(form: Form, text: str, path: Path, name: str, entry: Entry) -> str:
    """Set an entry; one that is there keeps its other keys. Raises `ConfigError` if that is not safe."""
    before = parse(form, text)
    servers = _inside(before, path)
    merged = {**_object(servers.get(name, {}), name), **entry}
    if servers.get(name) == merged:
        return text
    expected = _replaced(before, path, {**servers, name: merged})
    return _edited(form, text, [expected], lambda plain: FORMATS[form].put(plain, path, name, entry))


def remove_entry(form: Form, text: str, path: Path, name: str) -> str:
    """Remove an entry and what it leaves empty above it. Raises `ConfigError` if that is not safe."""
    before = parse(form, text)
    servers = _inside(before, path)
    if name not in servers:
        return text
    left = {key: each for key, each in servers.items() if key != name}
    # A section that still has comments stays.
    expected = [_replaced(before, path, left), _replaced(before, path, left, keep=True)]
    return _edited(form, text, expected, lambda plain: FORMATS[form].drop(plain, path, name))


def _edited(form: Form, text: str, expected: list[Json], edit: Callable[[str], str]) -> str:
    """Edit the text, and check that the result says what it should and nothing else changed."""
    newline = "\r\n" if "\r\n" in text else "\n"
    mark = BOM if text.startswith(BOM) else ""
    after = mark + edit(text.removeprefix(BOM).replace("\r\n", "\n")).replace("\n", newline)
    try:
        is_right = parse(form, after) in expected
    except (ConfigError, ValueError):
        is_right = False
    if not is_right:
        raise ConfigError("it is written in an unusual way")
    return after


def _inside(value: Json, path: Path) -> dict[str, Json]:
    """The object under these keys; empty if there is none yet."""
    found = _object(value, "the file")
    for key in path:
        found = _object(found.get(key, {}), key)
    return found


def _replaced(value: dict[str, Json], path: Path, servers: dict[str, Json], *, keep: bool = False) -> dict[str, Json]:
    """The values with other servers; a section without any is left out, or kept."""
    if not path:
        return servers
    inner = _replaced(value.get(path[0], {}), path[1:], servers, keep=keep)
    if inner or keep:
        return {**value, path[0]: inner}
    return {key: each for key, each in value.items() if key != path[0]}


def _object(value: Json, name: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is not an object")
    return value
