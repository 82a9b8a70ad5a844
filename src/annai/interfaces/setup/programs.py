"""Which programs can use annai, and where are they configured? Their files, with an entry for annai."""

import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from annai.config import CONFIG_NAME, Config
from annai.errors import ConfigError
from annai.interfaces.setup.edits import Entry, Json, parse_json, set_json, set_toml, toml_table

SERVER_NAME = "annai"
"""What the entry is called, or begins with."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program with an agent in it, and how it is configured."""

    title: str
    file: Callable[[Path], Path]
    """Its configuration file, given the project's root."""
    section: str
    """The key of the file that holds its servers."""
    next_step: str
    """What the user has to do after the file is written."""
    form: Literal["json", "toml"] = "json"
    extra: dict[str, str] = field(default_factory=dict)
    """What an entry needs besides the command."""
    is_shared: bool = False
    """Whether one file holds the servers of all projects."""


PROGRAMS: dict[str, Program] = {
    "claude-code": Program(
        "Claude Code",
        lambda root: root / ".mcp.json",
        "mcpServers",
        "Start `claude` in this folder and allow the server; `/mcp` shows it.",
        extra={"type": "stdio"},
    ),
    "claude-desktop": Program(
        "Claude Desktop",
        lambda _: _desktop_folder() / "Claude" / "claude_desktop_config.json",
        "mcpServers",
        "Quit Claude Desktop and start it again.",
        is_shared=True,
    ),
    "cursor": Program(
        "Cursor",
        lambda root: root / ".cursor" / "mcp.json",
        "mcpServers",
        "Open this folder in Cursor and enable the server in its settings, under MCP.",
    ),
    "vscode": Program(
        "VS Code",
        lambda root: root / ".vscode" / "mcp.json",
        "servers",
        "Open this folder in VS Code and start the server from the command “MCP: List Servers”.",
        extra={"type": "stdio"},
    ),
    "codex": Program(
        "Codex",
        lambda _: Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml",
        "mcp_servers",
        "Restart `codex`; `/mcp` shows the server.",
        form="toml",
        is_shared=True,
    ),
    "gemini-cli": Program(
        "Gemini CLI",
        lambda root: root / ".gemini" / "settings.json",
        "mcpServers",
        "Start `gemini` in this folder; `/mcp` shows the server.",
    ),
}
"""The programs by the names that `annai setup` takes."""


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """A program's configuration file before and after annai is added to it."""

    file: Path
    before: str | None
    """The text of the file; None if it does not exist."""
    after: str

    @property
    def is_needed(self) -> bool:
        """Whether the file has to be written."""
        return self.before != self.after


def plan_edit(config: Config, program: Program) -> ConfigEdit:
    """What to write for this project; nothing is written yet."""
    file = _file(config, program)
    before = _read(file)
    entry = {**program.extra, **_command(config)}
    try:
        name = _entry_name(config, program, before or "", entry)
        set_entry = set_json if program.form == "json" else set_toml
        after = set_entry(before or "", program.section, name, entry)
    except (ConfigError, ValueError) as error:
        raise ConfigError(
            f"{file} cannot be changed safely: {error}. Add by hand what `annai setup … --print` shows."
        ) from error
    return ConfigEdit(file, before, after)


def plan_snippet(config: Config, program: Program) -> tuple[Path, str]:
    """The file to change by hand, and the entry for it, even if that file cannot be read or changed safely."""
    file, entry = _file(config, program), {**program.extra, **_command(config)}
    try:
        name = _entry_name(config, program, _read(file) or "", entry)
    except (ConfigError, ValueError):
        name = _entry_name(config, program, "", entry)
    return file, _snippet(program, name, entry)


def apply_edit(edit: ConfigEdit) -> Path | None:
    """Write the file atomically, and return the backup of an existing one."""
    file = edit.file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        backup = _back_up(file) if edit.before is not None else None
        descriptor, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(edit.after)
        if backup:
            shutil.copymode(file, draft)
        else:
            Path(draft).chmod(0o644)
        Path(draft).replace(file)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
    return backup


def _file(config: Config, program: Program) -> Path:
    file = program.file(config.root)
    # A link stays a link: many people keep such files in a repository of their own.
    return file.resolve() if file.is_symlink() else file


def _snippet(program: Program, name: str, entry: Entry) -> str:
    """The entry alone, as a complete file."""
    if program.form == "toml":
        return toml_table(program.section, name, entry)
    return json.dumps({program.section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error


def _back_up(file: Path) -> Path:
    """Copy a file to a free name in the same folder."""
    copy, number = file.with_name(f"{file.name}.bak"), 2
    while copy.exists():
        copy, number = file.with_name(f"{file.name}.bak{number}"), number + 1
    shutil.copy2(file, copy)
    return copy


def _command(config: Config) -> dict[str, Json]:
    """How a program starts annai for this project: with absolute paths, since it may know neither PATH nor folder."""
    script = Path(sys.executable).with_name("annai.exe" if os.name == "nt" else "annai")
    command, *rest = [str(script)] if script.exists() else [sys.executable, "-m", "annai"]
    is_default_file = config.file is None or config.file == config.root / CONFIG_NAME
    where = ["--docs-dir", str(config.root)] if is_default_file else ["--config", str(config.file)]
    return {"command": command, "args": [*rest, "mcp", *where]}


def _entry_name(config: Config, program: Program, text: str, entry: Entry) -> str:
    """What the server is called; where all projects share a file, each has its own name."""
    if not program.is_shared:
        return SERVER_NAME
    servers = _servers(program, text)
    safe_name = "".join(each if each.isascii() and (each.isalnum() or each in "_-") else "-" for each in config.name)
    base = f"{SERVER_NAME}-{safe_name.strip('-') or 'documents'}"
    name, number = base, 2
    while name in servers and servers[name].get("args", [])[-2:] != entry["args"][-2:]:
        name, number = f"{base}-{number}", number + 1
    return name


def _servers(program: Program, text: str) -> dict[str, Json]:
    """The servers that are in the file already."""
    values = tomllib.loads(text) if program.form == "toml" else parse_json(text)
    servers = values.get(program.section) if isinstance(values, dict) else None
    if not isinstance(servers, dict):
        return {}
    return {key: each for key, each in servers.items() if isinstance(each, dict)}


def _desktop_folder() -> Path:
    """Where desktop programs keep their settings."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if os.name == "nt":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
