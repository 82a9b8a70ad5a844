"""What did the user set? Find the settings, read them, check them, and return one frozen `Config`.

`settings.py` is the table of what can be set. No other module reads the environment for settings.
"""

import dataclasses
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from annai.errors import ConfigError
from annai.settings import (
    SECTIONS,
    Chunking,
    Database,
    Display,
    Embedding,
    Files,
    Logging,
    Model,
    Project,
    Rerank,
    Retry,
    Search,
    Server,
    StoreSettings,
    Watcher,
    Worker,
)
from annai.values import TypeHint, decode, suggest

CONFIG_NAME = "annai.toml"
STATE_FOLDER = ".annai"
CONFIG_VARIABLE = "ANNAI_CONFIG"
SERVER_VARIABLE = "ANNAI_SERVER"


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, and where the project is."""

    root: Path
    """The project's folder, resolved."""
    file: Path | None = None
    """The file the settings came from, if any."""
    named: bool = False
    """Whether the user named the folder with --docs-dir: only then may it be the home folder."""
    server_url: str = ""
    """The server that the user named (--server, ANNAI_SERVER), used instead of the project's own."""
    project: Project = field(default_factory=Project)
    database: Database = field(default_factory=Database)
    store: StoreSettings = field(default_factory=StoreSettings)
    files: Files = field(default_factory=Files)
    chunking: Chunking = field(default_factory=Chunking)
    embedding: Embedding = field(default_factory=Embedding)
    model: Model = field(default_factory=Model)
    retry: Retry = field(default_factory=Retry)
    search: Search = field(default_factory=Search)
    rerank: Rerank = field(default_factory=Rerank)
    server: Server = field(default_factory=Server)
    watcher: Watcher = field(default_factory=Watcher)
    worker: Worker = field(default_factory=Worker)
    display: Display = field(default_factory=Display)
    logging: Logging = field(default_factory=Logging)
    collections: Mapping[str, Embedding] = field(default_factory=dict)
    """[collections.NAME.embedding]: the collections that have an embedder of their own."""

    def embedding_of(self, collection: str) -> Embedding:
        """How a collection's texts become vectors."""
        return self.collections.get(collection, self.embedding)

    @property
    def database_path(self) -> Path:
        """The index file; beside another engine, that engine's name is part of its name."""
        path = self.root / self.database.path
        beside = self.store.engine in ("lancedb", "chroma", "qdrant")
        return path.with_name(f"{path.stem}.{self.store.engine}{path.suffix}") if beside else path

    @property
    def state_folder(self) -> Path:
        """The folder of annai's own files: the index, the pid file, the log."""
        return self.root / STATE_FOLDER

    @property
    def pid_path(self) -> Path:
        """Where a running server announces itself."""
        return self.state_folder / "server.pid"

    @property
    def log_path(self) -> Path:
        """Where a server writes its log."""
        return self.root / self.logging.file

    @property
    def name(self) -> str:
        """The project's name for people."""
        return self.project.name or self.root.name


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


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
    if config is None and environment.get(CONFIG_VARIABLE):
        config = Path(environment[CONFIG_VARIABLE])
    if docs_dir is not None and not docs_dir.is_dir():
        raise ConfigError(f"There is no folder {docs_dir}; name an existing one with --docs-dir.")
    found: tuple[Path, Path | None]
    if config is not None:
        if not config.is_file():
            raise ConfigError(f"There is no settings file {config}; `annai init` writes one.")
        found = config.resolve().parent, config.resolve()
    elif docs_dir is not None:
        found = docs_dir.resolve(), _config_file(docs_dir.resolve())
    else:
        found = _find_project((start or Path.cwd()).resolve())
    folder, file = found

    table = _read_table(file) if file else {}
    loaded = _checked(table, file) if file else {}
    project: Project = loaded.get("project", Project())
    root = docs_dir.resolve() if docs_dir else (folder / Path(project.root).expanduser()).resolve()
    if not root.is_dir():
        raise ConfigError(f"{file}: project.root is {project.root!r}, and {root} is not a folder; correct it.")
    url = environment.get(SERVER_VARIABLE, "")
    result = Config(root=root, file=file, named=docs_dir is not None, server_url=url, **loaded)
    result = _with_model_folders(result, folder)
    if environment.get("NO_COLOR") and result.display.color == "auto":
        result = override(result, "display", color="never")
    if result.chunking.overlap >= result.chunking.size:
        raise ConfigError(
            f"{file}: chunking.overlap ({result.chunking.overlap}) must be less than chunking.size "
            f"({result.chunking.size}); make it smaller."
        )
    return result


def override(config: Config, section: str, **values: object) -> Config:
    """The same settings with some values of one section replaced, checked like those of the file.

    A value of None leaves the setting as it is.
    """
    given = {key: value for key, value in values.items() if value is not None}
    checked = _check_section(section, given, "the command line")
    current = getattr(config, section)
    return dataclasses.replace(
        config, **{section: dataclasses.replace(current, **{key: getattr(checked, key) for key in given})}
    )


def secret(*names: str, environment: Mapping[str, str] = os.environ) -> str:
    """The first of these environment variables that is set; empty if none is.

    Raises `ConfigError` for what cannot be a variable's name, without repeating it: it may be the key itself.
    """
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ConfigError(
                "api_key_env must be the name of an environment variable, such as OPENAI_API_KEY, and never the key "
                "itself; correct it in annai.toml."
            )
    return next((environment[name].strip() for name in names if environment.get(name, "").strip()), "")


def make_state_folder(folder: Path) -> None:
    """Make a folder for files of annai's own; one that is named `.annai` is kept out of version control.

    Raises `OSError` if it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if folder.name == STATE_FOLDER and not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def _find_project(start: Path) -> tuple[Path, Path | None]:
    """Walk up to a folder that holds a config file or an index; else `start` itself."""
    home = Path.home().resolve()
    for folder in (start, *start.parents):
        if file := _config_file(folder):
            return folder, file
        # An index in the home folder must not make every folder below it part of one project.
        if (folder / STATE_FOLDER).is_dir() and folder not in (home, Path(folder.anchor)):
            return folder, None
    return start, None


def _config_file(folder: Path) -> Path | None:
    if (folder / CONFIG_NAME).is_file():
        return folder / CONFIG_NAME
    pyproject = folder / "pyproject.toml"
    if pyproject.is_file() and "annai" in _parse(pyproject).get("tool", {}):
        return pyproject
    return None


def _read_table(file: Path) -> dict[str, Any]:
    table = _parse(file)
    if file.name == "pyproject.toml":
        table = table.get("tool", {}).get("annai", {})
    return table


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}. Correct it there.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8: {error}. Save it as UTF-8.") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error


def _checked(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Turn a parsed file into settings sections."""
    result = {}
    for name, values in table.items():
        if name == "collections":
            result[name] = _checked_collections(values, file)
            continue
        if name not in SECTIONS:
            raise ConfigError(f"{file}: unknown section [{name}]; {suggest(name, SECTIONS)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{file}: {name} must be a section: write [{name}] on its own line.")
        result[name] = _check_section(name, values, str(file))
    return result


def _checked_collections(table: object, file: Path) -> dict[str, Embedding]:
    result = {}
    for name, values in table.items() if isinstance(table, dict) else [("", table)]:
        if not isinstance(values, dict) or set(values) != {"embedding"} or not isinstance(values["embedding"], dict):
            raise ConfigError(f"{file}: collections has only sections [collections.NAME.embedding]; correct it there.")
        result[name] = _check_section("embedding", values["embedding"], f"{file}: collections.{name}")
    return result


def _with_model_folders(config: Config, folder: Path) -> Config:
    """Models that are folders beside the config file, with absolute paths."""

    def placed(settings: Any) -> Any:  # noqa: ANN401 - any settings with a model
        path = folder / Path(settings.model).expanduser()
        return dataclasses.replace(settings, model=str(path)) if settings.model and path.is_dir() else settings

    return dataclasses.replace(
        config,
        embedding=placed(config.embedding),
        rerank=placed(config.rerank),
        collections={name: placed(settings) for name, settings in config.collections.items()},
    )


def _check_section(name: str, values: Mapping[str, object], origin: str) -> Any:  # noqa: ANN401 - one of SECTIONS
    known = {item.name: item for item in fields(SECTIONS[name])}
    checked = {}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{origin}: unknown key {name}.{key}; {suggest(key, known)}")
        item = known[key]
        hint: TypeHint = item.type
        checked[key] = decode(hint, value, f"{origin}: {name}.{key}", limits=item.metadata["limits"], error=ConfigError)
    return SECTIONS[name](**checked)
