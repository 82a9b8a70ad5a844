"""What does annai write into a program's file, and what is there already? An entry per project, set and removed."""

import json
import os
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import yaml

from annai.config import CONFIG_NAME, Config
from annai.definitions import dataclass
from annai.errors import ConfigError, SkippedFile
from annai.files.inside import open_regular
from annai.interfaces.setup.edits import BOM, FORMATS, entries, remove_entry, set_entry
from annai.interfaces.setup.programs import Level, Program
from annai.interfaces.setup.values import Entry, Json, nested
from annai.serving.daemon import required_token
from annai.serving.pidfile import running

SERVER_NAME = "annai"
"""What the entry is called, or begins with."""

MAX_BYTES = 20_000_000
"""Of a program's file: some keep their history in it."""

_UV_CACHE = re.compile(r"(archive|environments|builds)-v\d+")
"""A folder of uv's cache, where uvx puts what it runs; it may be deleted at any time."""


@dataclass(frozen=True, slots=True)
class Target:
    """A program's file at one level, and the project that is added to it."""

    config: Config
    program: Program
    level: Level
    file: Path
    http: bool = False
    """Whether the program reaches the project's server, instead of starting annai itself."""

    @property
    def leads_outside(self) -> bool:
        """Whether links of the workspace, which others may have made, lead to a file outside of it."""
        return self.level == "project" and not self.file.is_relative_to(workspace(self.config))


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """A program's configuration file before and after it is changed."""

    file: Path
    before: str | None
    """The text of the file; None if it does not exist."""
    after: str | None
    """None if nothing is left that anybody wrote."""
    is_private: bool = False
    """Whether it contains a token."""
    inside: Path | None = None
    """Folders between this one and the file go with the last file in them."""

    @property
    def is_needed(self) -> bool:
        """Whether the file has to be written."""
        return self.before != self.after


def workspace(config: Config) -> Path:
    """The folder that programs are opened in: the repository of the current folder, or the project, or this folder."""
    here, home = Path.cwd().resolve(), Path.home().resolve()
    for folder in (here, *here.parents):
        if folder in (home, Path(folder.anchor)):
            break
        if (folder / ".git").exists():
            return folder
    return config.root if here.is_relative_to(config.root) and not config.named else here


def levels(config: Config, program: Program) -> tuple[Level, ...]:
    """Where a program has a file, its usual place first. The home folder is no project."""
    folder = workspace(config)
    is_project = folder not in (Path.home().resolve(), Path(folder.anchor))
    return (*(("project",) if program.project and is_project else ()), *(("user",) if program.user else ()))


def target(config: Config, program: Program, level: Level, *, http: bool = False) -> Target:
    """The program's file at a level that it has."""
    folder = workspace(config) if level == "project" else program.folder()
    files = [folder / name for name in getattr(program, level)]
    file = next((each for each in files if each.exists()), files[0])
    # A link stays a link: many people keep such files in a repository of their own.
    return Target(config, program, level, Path(os.path.realpath(file)), http)


def is_installed(program: Program) -> bool:
    """Whether the program is on this machine."""
    folder = program.folder()
    signs = [folder] if program.is_own else [folder / name for name in program.user]
    return any(map(shutil.which, program.commands)) or any(each.exists() for each in signs)


def is_set_up(place: Target) -> bool:
    """Whether the file has an entry for this project. Raises `ConfigError` if it cannot be read."""
    try:
        return bool(_own_names(place, _read(place.file) or ""))
    except ValueError as error:
        raise ConfigError(f"{place.file} cannot be read: {error}", "correct it.") from error


def plan_edit(place: Target) -> ConfigEdit:
    """What to write to add this project; nothing is written yet."""
    before, program = _read(place.file), place.program
    text = before or ""
    try:
        section, name = _section(program, text), _name(place, text)
        entry = _entry(place, name)
        found = entries(program.form, text, section).get(name)
        if found and (program.command_key in found) == place.http:
            # An entry with both a command and an address would be neither.
            text = remove_entry(program.form, text, section, name)
        after = set_entry(program.form, text, section, name, entry)
    except (ConfigError, ValueError) as error:
        raise _unsafe(place, error, "Add by hand what `annai setup … --print` shows") from error
    return ConfigEdit(place.file, before, after, is_private=place.http)


def plan_removal(place: Target) -> ConfigEdit:
    """What to write to remove this project; nothing is written yet."""
    before, program = _read(place.file), place.program
    after = before
    try:
        for name in _own_names(place, before or ""):
            after = remove_entry(program.form, after or "", _section(program, before or ""), name)
    except (ConfigError, ValueError) as error:
        raise _unsafe(place, error, "Remove the entry by hand") from error
    is_empty = after != before and (after or "").strip(f"{BOM}\r\n") in ("", "{}")
    inside = workspace(place.config) if place.level == "project" else None
    return ConfigEdit(place.file, before, None if is_empty else after, inside=inside)


def snippet(place: Target) -> str:
    """The entry as a complete file, even if the program's file cannot be read or changed safely."""
    program = place.program
    try:
        text = _read(place.file) or ""
        section, name = _section(program, text), _name(place, text)
    except (ConfigError, ValueError):
        section, name = program.section, _name(place, "")
    entry = _entry(place, name)
    if program.form == "yaml":
        return yaml.safe_dump(nested((*section, name), entry), allow_unicode=True, sort_keys=False)
    return FORMATS[program.form].show(section, name, entry)


def apply_edit(edit: ConfigEdit) -> Path | None:
    """Write the file atomically, and return the backup of an existing one. A file with nothing in it is deleted."""
    file = edit.file
    try:
        if edit.after is None:
            file.unlink()
            with suppress(OSError):  # other files are in it
                for folder in _folders(file, edit.inside):
                    folder.rmdir()
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        backup = _back_up(file) if edit.before is not None else None
        descriptor, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(edit.after)
        if backup and not edit.is_private:
            shutil.copymode(file, draft)
        else:
            Path(draft).chmod(0o600 if edit.is_private else 0o644)
        Path(draft).replace(file)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}", "make it writable, or change it by hand."
        ) from error
    return backup


def _folders(file: Path, inside: Path | None) -> list[Path]:
    """The folders between a file and the one that it is inside, from the innermost."""
    return [each for each in file.parents if inside and each != inside and each.is_relative_to(inside)]


def _unsafe(place: Target, error: Exception, advice: str) -> ConfigError:
    return ConfigError(f"{place.file} cannot be changed safely: {error}. {advice}.")


def _read(file: Path) -> str | None:
    try:
        with open_regular(os.fspath(file)) as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{file} has more than {MAX_BYTES:,} bytes", "make it smaller.")
        return content.decode()
    except FileNotFoundError:
        return None
    except (OSError, SkippedFile, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", "make it readable UTF-8.") from error


def _back_up(file: Path) -> Path:
    """Copy a file to a free name in the same folder."""
    copy, number = file.with_name(f"{file.name}.bak"), 2
    while os.path.lexists(copy):  # a link that leads nowhere yet is no free name
        copy, number = file.with_name(f"{file.name}.bak{number}"), number + 1
    shutil.copy2(file, copy)
    return copy


def _section(program: Program, text: str) -> tuple[str, ...]:
    """The keys that lead to the servers of a text."""
    has_other = program.other_section and entries(program.form, text, program.other_section)
    return program.other_section if has_other else program.section


def _name(place: Target, text: str) -> str:
    """What the entry is called; where several projects share a file, each has its own name."""
    if own := _own_names(place, text):
        return own[0]
    taken = entries(place.program.form, text, _section(place.program, text))
    if place.level == "project" and SERVER_NAME not in taken:
        return SERVER_NAME
    safe = re.sub(r"[^A-Za-z0-9_-]", "-", place.config.name).strip("-")
    base = f"{SERVER_NAME}-{safe or 'documents'}"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def _own_names(place: Target, text: str) -> list[str]:
    """The entries for this project in a text."""
    where, address = _where(place.config), _address(place.config)

    def is_ours(name: str, entry: Entry) -> bool:
        command = entry.get(place.program.command_key)
        words = command if isinstance(command, list) else entry.get("args")
        named = words[-2:] if isinstance(words, list) else []
        if named == where or entry.get(place.program.url_key) == address:
            return name.startswith(SERVER_NAME)
        # The project's own file has one entry, unless that is for another folder of documents.
        is_other = len(named) == 2 and named[0] in ("--docs-dir", "--config") and Path(named[1]).exists()
        return place.level == "project" and name == SERVER_NAME and not is_other

    found = entries(place.program.form, text, _section(place.program, text))
    return [name for name, entry in found.items() if is_ours(name, entry)]


def _entry(place: Target, name: str) -> dict[str, Json]:
    """The entry in the program's own form."""
    config, program = place.config, place.program
    own = {"name": name} if program.form == "yaml" else {}
    if place.http:
        headers = {"Authorization": f"Bearer {required_token(config)}"}
        return {**own, **program.http_extra, program.url_key: _address(config), program.headers_key: headers}
    words = [*_command(), "mcp", *_where(config)]
    if program.one_command:
        return {**own, **program.extra, program.command_key: words}
    return {**own, **program.extra, program.command_key: words[0], "args": words[1:]}


def _address(config: Config) -> str:
    """Where the project's server is, or will be, reached."""
    if record := running(config):
        return f"{record.url}/mcp"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.server.host, config.server.host)  # noqa: S104 - not bound
    return f"http://[{host}]:{config.server.port}/mcp" if ":" in host else f"http://{host}:{config.server.port}/mcp"


def _where(config: Config) -> list[str]:
    """How the command names this project: with an absolute path, since a program may know no folder."""
    is_default_file = config.file is None or config.file == config.root / CONFIG_NAME
    return ["--docs-dir", str(config.root)] if is_default_file else ["--config", str(config.file)]


def _command() -> list[str]:
    """How a program starts annai: with an absolute path, since it may know no PATH."""
    if any(map(_UV_CACHE.fullmatch, Path(sys.prefix).parts)):
        return _uvx_command()
    script = Path(sys.executable).with_name("annai.exe" if os.name == "nt" else "annai")
    return [str(script)] if script.exists() else [sys.executable, "-m", "annai"]


def _uvx_command() -> list[str]:
    """How uvx starts annai again: what it has in its cache may be deleted at any time."""
    uv = os.environ.get("UV")
    uvx = Path(uv).with_name("uvx.exe" if os.name == "nt" else "uvx") if uv else None
    command = str(uvx) if uvx and uvx.exists() else shutil.which("uvx") or "uvx"
    try:
        origin = json.loads(distribution("annai").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    if not origin:
        return [command, "annai"]
    version = origin.get("vcs_info", {})
    revision = f"@{version['requested_revision']}" if "requested_revision" in version else ""
    source = f"{version['vcs']}+{origin['url']}{revision}" if version else origin["url"]
    return [command, "--from", source, "annai"]
