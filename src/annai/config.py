"""What did the user set? Find the settings, read them, check them, and return one frozen `Config`.

`settings.py` is the table of what can be set. No other module reads the environment for settings.
"""

import dataclasses
import logging
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, fields
from pathlib import Path
from typing import Any, NamedTuple

from annai import state
from annai.definitions import dataclass
from annai.errors import ConfigError
from annai.settings import (
    SECTIONS,
    USER_SETTINGS,
    Chunking,
    ColorMode,
    Database,
    Display,
    Documents,
    Embedding,
    Files,
    Logging,
    Mcp,
    Model,
    Project,
    Rerank,
    Retry,
    Search,
    Server,
    StoreSettings,
    Trust,
    Watcher,
    Worker,
)
from annai.text.nesting import parse_toml
from annai.trust import Demand, TrustStore, demands, digest, without_demands
from annai.values import TypeHint, decode, suggest

logger = logging.getLogger(__name__)

CONFIG_NAME, PYPROJECT_NAME = "annai.toml", "pyproject.toml"
USER_CONFIG_NAME = "config.toml"
PID_FILE = "server.pid"
CONFIG_VARIABLE = "ANNAI_CONFIG"
SERVER_VARIABLE = "ANNAI_SERVER"
TOKEN_VARIABLE = "ANNAI_TOKEN"  # noqa: S105 - the name of the variable
MAX_BYTES = 1_000_000
"""Of a settings file: no one writes a longer one, and one of a stranger may be of any size."""

MOST_NAMED = 20
"""Settings that one warning names."""


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, and where the project is."""

    root: Path
    """The project's folder, resolved."""
    state_folder: Path
    """The folder of annai's own files of the project: the index, the token, the pid file, the logs."""
    file: Path | None = None
    """The file the settings came from, if any."""
    is_around: bool = False
    """Whether it was found above the folder one stands in."""
    named: bool = False
    """Whether the user named the folder with --docs-dir: only then may it be the home folder."""
    is_trusted: bool = True
    """Whether the user trusts all that the project's own file asks for; otherwise some of it is ignored."""
    server_url: str = ""
    """The server that the user named (--server, ANNAI_SERVER), used instead of the project's own."""
    project: Project = field(default_factory=Project)
    database: Database = field(default_factory=Database)
    store: StoreSettings = field(default_factory=StoreSettings)
    files: Files = field(default_factory=Files)
    documents: Documents = field(default_factory=Documents)
    chunking: Chunking = field(default_factory=Chunking)
    embedding: Embedding = field(default_factory=Embedding)
    model: Model = field(default_factory=Model)
    retry: Retry = field(default_factory=Retry)
    search: Search = field(default_factory=Search)
    rerank: Rerank = field(default_factory=Rerank)
    server: Server = field(default_factory=Server)
    mcp: Mcp = field(default_factory=Mcp)
    watcher: Watcher = field(default_factory=Watcher)
    worker: Worker = field(default_factory=Worker)
    display: Display = field(default_factory=Display)
    logging: Logging = field(default_factory=Logging)
    trust: Trust = field(default_factory=Trust)
    collections: Mapping[str, Embedding] = field(default_factory=dict)
    """[collections.NAME.embedding]: the collections that have an embedder of their own."""

    def embedding_of(self, collection: str) -> Embedding:
        """How a collection's texts become vectors."""
        return self.collections.get(collection, self.embedding)

    @property
    def database_path(self) -> Path:
        """The index file; beside another engine, that engine's name is part of its name."""
        path = self._own_file(self.database.path)
        beside = self.store.engine in ("lancedb", "chroma", "qdrant")
        return path.with_name(f"{path.stem}.{self.store.engine}{path.suffix}") if beside else path

    @property
    def pid_path(self) -> Path:
        """Where a running server announces itself."""
        return self.state_folder / PID_FILE

    @property
    def log_path(self) -> Path:
        """Where a server writes its log."""
        return self._own_file(self.logging.file)

    @property
    def audit_path(self) -> Path | None:
        """Where a server notes who changed the index, if it does."""
        return self._own_file(self.logging.audit_file) if self.logging.audit_file else None

    @property
    def machine(self) -> str:
        """The name under which an index that machines share knows this one; empty if it could not be kept."""
        return self.store.machine or state.machine_name(self.state_folder.parent.parent)

    @property
    def name(self) -> str:
        """The project's name for people."""
        return self.project.name or self.root.name

    def _own_file(self, path: str) -> Path:
        return self.state_folder / _expanded(path)


_NAME, _MENTION = b"annai", b"tool.annai"
"""What is in a pyproject.toml with settings of annai's."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class FoundSettings(NamedTuple):
    """A project's own settings as they were found, and what they ask for beyond the project and this machine."""

    folder: Path
    file: Path | None
    table: dict[str, Any]
    content: bytes
    demands: tuple[Demand, ...]
    is_trusted: bool

    @property
    def digest(self) -> str:
        """Of the file, its demands and the models that it names: what trust is remembered by; empty if it cannot be."""
        return digest(self.content, self.demands)

    @property
    def key(self) -> Path:
        """What trust is remembered for: the file, or a project without one."""
        return self.file or self.folder


def load_config(
    *,
    config: Path | None = None,
    docs_dir: Path | None = None,
    start: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """Find and read the settings.

    A file named by `config` or by ANNAI_CONFIG is taken as it is. Otherwise `docs_dir`, or the folder found by
    walking up from `start`, is the project. Raises `ConfigError` for anything it does not understand.
    """
    found = find_settings(config=config, docs_dir=docs_dir, start=start, environment=environment)
    folder, file, table = found.folder, found.file, found.table
    if not found.is_trusted:
        names = [demand.setting for demand in found.demands]
        more = f" and {len(names) - MOST_NAMED} more settings" if len(names) > MOST_NAMED else ""
        logger.warning(
            "%s sets %s%s, which would reach beyond this project and this machine, so it is ignored; "
            "`annai trust` shows what that means and allows it.",
            file,
            ", ".join(names[:MOST_NAMED]),
            more,
        )
        table = without_demands(table, found.demands)
    user_file = user_folder(environment) / USER_CONFIG_NAME
    if user_file.is_file():
        table = _merged(_read_user_table(user_file), table)
    loaded = _checked(table, file or user_file)
    project: Project = loaded.get("project", Project())
    root = state.as_stored(docs_dir.resolve() if docs_dir else (folder / _expanded(project.root)).resolve())
    if not os.path.isdir(root):  # noqa: PTH112 - what is too long for a path is no folder, and no error
        raise ConfigError(f"{file}: project.root is {project.root!r}, and {root} is not a folder", "correct it.")
    if any("\ud800" <= character <= "\udfff" for character in str(root)):
        raise ConfigError(f"The path of this folder, {os.fsencode(root)!r}, is not valid UTF-8", "rename it.")
    result = Config(
        root=root,
        state_folder=state.locate(root, environment),
        file=file,
        is_around=not (config or docs_dir or environment.get(CONFIG_VARIABLE))
        and folder != state.as_stored((start or Path.cwd()).resolve()),
        named=docs_dir is not None,
        is_trusted=found.is_trusted,
        server_url=environment.get(SERVER_VARIABLE, ""),
        **loaded,
    )
    _check_together(result, str(file or user_file))
    if environment.get(TOKEN_VARIABLE):
        result = override(result, "server", token=environment[TOKEN_VARIABLE])
    if result.display.color == "auto":
        result = override(result, "display", color=_color(environment))
    return result


def _color(environment: Mapping[str, str]) -> ColorMode:
    """When to use colours where the settings leave it to the environment."""
    forced = environment.get("FORCE_COLOR", "")
    if environment.get("NO_COLOR") or forced in ("0", "false"):
        return "never"
    if forced:
        return "always"
    return "never" if environment.get("TERM") == "dumb" else "auto"


def _expanded(path: str) -> str:
    """The path with `~` as the home folder; Path's own way to do so fails for a user that does not exist."""
    return os.path.expanduser(path)  # noqa: PTH111


def find_settings(
    *,
    config: Path | None = None,
    docs_dir: Path | None = None,
    start: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> FoundSettings:
    """Find a project's own settings, and see what they ask for and whether the user trusts them.

    A file that the environment names is the user's own word, and asks for nothing.
    """
    is_users_own = config is None and bool(environment.get(CONFIG_VARIABLE))
    if is_users_own:
        config = Path(environment[CONFIG_VARIABLE])
    if docs_dir is not None and not docs_dir.is_dir():
        raise ConfigError(f"There is no folder {docs_dir}", "name an existing one with --docs-dir.")
    folder: Path
    file: Path | None
    if config is not None:
        if not config.is_file():
            raise ConfigError(f"There is no settings file {config}", "`annai init` writes one.")
        folder, file = config.resolve().parent, config.resolve()
    elif docs_dir is not None:
        folder = state.as_stored(docs_dir.resolve())
        file = _config_file(folder)
        if file is None and (around := _find_project(folder, environment)[1]):
            # The folder's own settings come first, then those of the project around it.
            folder, file = around.parent, around
    else:
        folder, file = _find_project(state.as_stored((start or Path.cwd()).resolve()), environment)
    table, content = _read_table(file) if file else ({}, b"")
    if file:
        _checked(table, file)
        for name in sorted(USER_SETTINGS):
            section, _, key = name.partition(".")
            if key in table.get(section, {}):
                own = user_folder(environment) / USER_CONFIG_NAME
                raise ConfigError(f"{file}: {name} belongs in {own}", "move it there.")
    asked = () if is_users_own else tuple(demands(table, folder))
    found = FoundSettings(folder, file, table, content, asked, is_trusted=not asked)
    known = TrustStore(user_folder(environment)).files().get(str(found.key)) if asked else None
    return found._replace(is_trusted=True) if known and known == found.digest else found


def check_settings(text: str, source: Path) -> None:
    """Raise `ConfigError` if this is not the text of a settings file; `source` is what to name then."""
    _checked(parse_toml(text), source)


def override(config: Config, section: str, origin: str = "the command line", /, **values: object) -> Config:
    """The same settings with some values of one section replaced, checked like those of the file.

    A value of None leaves the setting as it is. `origin` is what an error names as their source.
    """
    given = {key: value for key, value in values.items() if value is not None}
    checked = _check_section(section, given, origin)
    current = getattr(config, section)
    changed = dataclasses.replace(
        config, **{section: dataclasses.replace(current, **{key: getattr(checked, key) for key in given})}
    )
    _check_together(changed, origin)
    return changed


def read_settings_file(file: Path) -> bytes:
    """The bytes of a settings file. Raises `OSError`, and `ConfigError` for one that no one would write."""
    with file.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{file} has more than {MAX_BYTES:,} bytes, so it is not read", "make it smaller.")
    return content


def make_folders(config: Config) -> None:
    """Make the project's state folder, and the folder of the index, if it is another.

    Raises `OSError` if one cannot be made, or if the project's folder is gone.
    """
    state.make(config.state_folder, config.root)
    config.database_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def user_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the user's own settings are, and what the user trusts."""
    if named := state.absolute("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", environment):
        return named / "annai"
    try:
        return state.user_home() / ("AppData/Roaming" if os.name == "nt" else ".config") / "annai"
    except RuntimeError:
        return state.temporary_home()


def secret(*names: str, environment: Mapping[str, str] = os.environ) -> str:
    """The first of these environment variables that is set; empty if none is.

    Raises `ConfigError` for what cannot be a variable's name, without repeating it: it may be the key itself.
    """
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ConfigError(
                "api_key_env must be the name of an environment variable, such as OPENAI_API_KEY, and never the key "
                "itself",
                "correct it in annai.toml.",
            )
    return variable(*names, environment=environment)


def variable(*names: str, environment: Mapping[str, str] = os.environ) -> str:
    """The first of these environment variables that is set; empty if none is."""
    return next((environment[name].strip() for name in names if environment.get(name, "").strip()), "")


def _find_project(start: Path, environment: Mapping[str, str]) -> tuple[Path, Path | None]:
    """Walk up to a folder that holds a config file or was searched before; else `start` itself."""
    folders, known_in = (start, *start.parents), state.state_home(environment)
    for folder in folders:
        if file := _config_file(folder, None if folder == start else environment):
            return folder, file
        # One that was named once must not make every folder below it part of one project.
        if state.is_known(folder, known_in) and not state.found_by_chance(folder, environment):
            return folder, None
    moved = state.moved_here(folders, known_in)
    return (moved if moved and not state.found_by_chance(moved, environment) else start), None


def _is_believed(file: Path, environment: Mapping[str, str]) -> bool:
    """Whether settings in a folder above count: not what another user left in a shared folder, unless it is trusted.

    On Windows, who owns a file is not looked at.
    """
    if sys.platform == "win32":
        return True
    owners = {0, os.getuid(), *(int(each) for each in [environment.get("SUDO_UID", "")] if each.isdecimal())}
    status = file.stat()
    is_own = {status.st_uid, file.lstat().st_uid} <= owners
    if is_own and (not status.st_mode & stat.S_IWOTH or state.is_modeless(file)):
        return True
    user_file = user_folder(environment) / USER_CONFIG_NAME
    trusted = _read_user_table(user_file).get("trust", {}).get("folders", ()) if user_file.is_file() else ()
    if any(file.is_relative_to(Path(_expanded(each)).resolve()) for each in trusted):
        return True
    if file.name == CONFIG_NAME or _contains(file, _MENTION):
        logger.warning(
            "%s %s, so it is not used; `folders` under [trust] in %s names folders where it is.",
            file,
            "can be changed by everybody" if is_own else "belongs to another user",
            user_file,
        )
    return False


def _config_file(folder: Path, environment: Mapping[str, str] | None = None) -> Path | None:
    """The settings file in a folder; with `environment` it is one above the project, and must be believed."""
    for file in (folder / CONFIG_NAME, folder / PYPROJECT_NAME):
        is_there = file.is_file() and (environment is None or _is_believed(file, environment))
        if is_there and (file.name == CONFIG_NAME or _speaks_of_annai(file)):
            return file
    return None


def _speaks_of_annai(pyproject: Path) -> bool:
    """Whether a pyproject.toml has settings for annai; one that is broken or has none is no business of ours."""
    if not _contains(pyproject, _NAME):
        return False
    try:
        tool = _parse(pyproject)[0].get("tool")
    except ConfigError:
        if _contains(pyproject, _MENTION):
            raise
        return False
    return isinstance(tool, dict) and "annai" in tool


def _contains(pyproject: Path, words: bytes) -> bool:
    """Whether a pyproject.toml contains these bytes; it may be anybody's, of any size."""
    with suppress(OSError), pyproject.open("rb") as stream:
        return words in stream.read(MAX_BYTES)
    return False


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two settings files as one, key by key; `above` has the last word."""
    return {name: {**below.get(name, {}), **above.get(name, {})} for name in {**below, **above}}


def _read_user_table(file: Path) -> dict[str, Any]:
    """The user's own settings, which hold for every project."""
    table, _ = _read_table(file)
    _checked(table, file)
    if "project" in table:
        raise ConfigError(f"{file}: [project] belongs into the annai.toml of a project", "remove it here.")
    return table


def _read_table(file: Path) -> tuple[dict[str, Any], bytes]:
    """A settings file as it is, with the models beside it as absolute paths, and its bytes."""
    table, content = _parse(file)
    if file.name == PYPROJECT_NAME:
        table = table.get("tool", {}).get("annai", {})
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: tool.annai must be a table", "write [tool.annai.search] and so on.")
    models = [table.get("embedding"), table.get("rerank")]
    if isinstance(table.get("collections"), dict):
        models += [each.get("embedding") for each in table["collections"].values() if isinstance(each, dict)]
    for values in models:
        if isinstance(values, dict) and isinstance(values.get("model"), str) and values["model"]:
            path = file.parent / _expanded(values["model"])
            values["model"] = str(path) if os.path.isdir(path) else values["model"]  # noqa: PTH112 - as above
    return table, content


def _parse(file: Path) -> tuple[dict[str, Any], bytes]:
    try:
        content = read_settings_file(file)
        return parse_toml(content.decode("utf-8-sig")), content
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8: {error}. Save it as UTF-8.") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}. Correct it there.") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", "make it readable, or remove it.") from error


def _checked(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Turn a parsed file into settings sections."""
    result = {}
    for name, values in table.items():
        if name == "collections":
            result[name] = _checked_collections(values, file)
            continue
        if name not in SECTIONS:
            raise ConfigError(f"{file}: unknown section [{name}]", suggest(name, SECTIONS))
        if not isinstance(values, dict):
            raise ConfigError(f"{file}: {name} must be a section: write [{name}] on its own line.")
        result[name] = _check_section(name, values, str(file))
    return result


def _checked_collections(table: object, file: Path) -> dict[str, Embedding]:
    result = {}
    for name, values in table.items() if isinstance(table, dict) else [("", table)]:
        if not isinstance(values, dict) or set(values) != {"embedding"} or not isinstance(values["embedding"], dict):
            raise ConfigError(
                f"{file}: collections has only sections [collections.NAME.embedding]", "correct it there."
            )
        # In NFC, as collections are named.
        result[unicodedata.normalize("NFC", name)] = _check_section(
            "embedding", values["embedding"], f"{file}: collections.{name}"
        )
    return result


def _check_together(config: Config, origin: str) -> None:
    """Raise `ConfigError` for values that are allowed by themselves, and lead nowhere."""
    for folder in config.files.linked_folders:
        if not os.path.isabs(_expanded(folder)):  # noqa: PTH117 - Path's own fails for a user that does not exist
            raise ConfigError(
                f"{origin}: files.linked_folders names {folder!r}", "give its whole path, or begin with ~/."
            )
    chunking = config.chunking
    if chunking.overlap >= chunking.size:
        raise ConfigError(
            f"{origin}: chunking.overlap ({chunking.overlap}) must be less than chunking.size ({chunking.size})",
            "make it smaller.",
        )
    for setting, path in (("database.path", config.database.path), ("logging.file", config.logging.file)):
        if not Path(path).name:
            raise ConfigError(f"{origin}: {setting} must name a file, not {path!r}.")


def _check_section(name: str, values: Mapping[str, object], origin: str) -> Any:  # noqa: ANN401 - one of SECTIONS
    known = {item.name: item for item in fields(SECTIONS[name])}
    checked = {}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{origin}: unknown key {name}.{key}", suggest(key, known))
        item = known[key]
        hint: TypeHint = item.type
        checked[key] = decode(hint, value, f"{origin}: {name}.{key}", limits=item.metadata["limits"], error=ConfigError)
    return SECTIONS[name](**checked)
