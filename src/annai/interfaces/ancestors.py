"""How do the settings of mdvec, local-rag and search-docs become annai's? Key by key, from one table each."""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from pathlib import Path

from annai.config import read_settings_file
from annai.definitions import dataclass
from annai.errors import ConfigError
from annai.settings import SECTIONS, toml_value
from annai.text.nesting import parse_json, parse_toml, parse_yaml

Value = object
Convert = Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The setting of annai that stands for a key of an ancestor's."""

    setting: str
    convert: Convert = lambda value: value
    note: str = ""
    """What differs, for the table in docs/migrating.md."""
    implies: Mapping[str, Value] = field(default_factory=dict)
    """Settings that go with it."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A program whose settings annai understands."""

    name: str
    file: str
    """What its settings file is called."""
    read: Callable[[str], object]
    keys: Mapping[str, Counterpart]
    own_keys: frozenset[str]
    """Sections that only its file has: files of this name are common."""
    fixed: Mapping[str, Value]
    """Settings of annai that make it work as that program did, whatever the file says."""


@dataclass(frozen=True, slots=True)
class Converted:
    """An ancestor's settings as annai's."""

    ancestor: Ancestor
    settings: Mapping[str, Value]
    """By name, such as `chunking.size`."""
    unknown: tuple[str, ...]
    """Keys of the file that have no counterpart."""


def _globs(value: Value) -> Value:
    return tuple(f"**/*{extension}" for extension in _words(value))


def _folders(value: Value) -> Value:
    return tuple(f"{name}/" for name in _words(value))


def _megabytes(value: Value) -> Value:
    return value / 1_000_000 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _words(value: Value) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


ANCESTORS = (
    Ancestor(
        "mdvec",
        "config.toml",
        parse_toml,
        {
            "chunking.size": Counterpart("chunking.size"),
            "chunking.overlap": Counterpart("chunking.overlap"),
            "display.default_format": Counterpart("display.default_format"),
            "search.k": Counterpart("search.limit"),
            "model.auto_unload_minutes": Counterpart("model.auto_unload_minutes"),
            "model.memory_threshold": Counterpart("model.memory_threshold"),
        },
        frozenset({"database", "chunking"}),
        {"chunking.strategy": "tokens"},
    ),
    Ancestor(
        "local-rag",
        "config.yaml",
        parse_yaml,
        {
            "embedding.model": Counterpart("embedding.model"),
            "embedding.output_dimensionality": Counterpart("embedding.dimensions"),
            "embedding.batch_size": Counterpart("embedding.batch_size"),
            "embedding.task_type_document": Counterpart("embedding.task_type_document"),
            "embedding.task_type_query": Counterpart("embedding.task_type_query"),
            "chunker.max_chunk_chars": Counterpart("chunking.max_chars"),
            "chunker.min_chunk_chars": Counterpart(
                "chunking.min_chars", note="shorter pieces are merged into a neighbour, not dropped"
            ),
            "chunker.heading_levels": Counterpart("chunking.heading_levels"),
            "chromadb.collection_name": Counterpart("store.collection_name"),
            "chromadb.hnsw_construction_ef": Counterpart("store.hnsw_construction_ef"),
            "chromadb.hnsw_search_ef": Counterpart("store.hnsw_search_ef"),
            "chromadb.hnsw_M": Counterpart("store.hnsw_m"),
            "search.default_top_k": Counterpart("search.limit"),
            "retry.max_retries": Counterpart("retry.max_retries"),
            "retry.base_delay": Counterpart("retry.base_delay"),
            "retry.backoff_factor": Counterpart("retry.backoff_factor"),
            "scanner.file_extensions": Counterpart("files.include", _globs, "as patterns: `.md` is `**/*.md`"),
            "scanner.exclude_dirs": Counterpart("files.exclude", _folders, "as patterns: `data` is `data/`"),
        },
        frozenset({"chunker", "chromadb", "scanner"}),
        {"embedding.provider": "gemini", "chunking.strategy": "headings", "store.engine": "chroma"},
    ),
    Ancestor(
        "search-docs",
        ".search-docs.json",
        parse_json,
        {
            "project.name": Counterpart("project.name"),
            "project.root": Counterpart("project.root"),
            "files.include": Counterpart("files.include"),
            "files.exclude": Counterpart("files.exclude"),
            "files.ignoreGitignore": Counterpart("files.respect_gitignore"),
            "files.maxFileSize": Counterpart("files.max_file_mb", _megabytes, "in megabytes, not bytes"),
            "indexing.maxTokensPerSection": Counterpart("chunking.max_tokens"),
            "indexing.minTokensForSplit": Counterpart("chunking.min_tokens"),
            "indexing.maxDepth": Counterpart("chunking.max_depth"),
            "indexing.vectorDimension": Counterpart("embedding.dimensions"),
            "indexing.embeddingModel": Counterpart(
                "embedding.model",
                note='with `embedding.provider = "sentence-transformers"` (`annai[local]`)',
                implies={"embedding.provider": "sentence-transformers"},
            ),
            "search.defaultLimit": Counterpart("search.limit"),
            "server.host": Counterpart("server.host"),
            "server.port": Counterpart("server.port"),
            "watcher.enabled": Counterpart("watcher.enabled"),
            "watcher.debounceMs": Counterpart("watcher.debounce_ms"),
        },
        frozenset(),
        {},
    ),
)
"""In the order in which docs/migrating.md tells of them."""


def convert(file: Path) -> Converted:
    """An ancestor's settings file as settings of annai; raises `ConfigError` for any other file."""
    for ancestor in ANCESTORS:
        if Path(ancestor.file).suffix == file.suffix or ancestor.file == file.name:
            return _convert(ancestor, _read(ancestor, file))
    names = ", ".join(f"{each.name}'s {each.file}" for each in ANCESTORS)
    raise ConfigError(f"{file} is none of the files that annai can take over ({names})", "name one of them.")


def left_here(folder: Path) -> Path | None:
    """The settings file of an ancestor that a folder holds, if any."""
    for ancestor in ANCESTORS:
        file = folder / ancestor.file
        try:
            if file.is_file() and ancestor.own_keys <= _read(ancestor, file).keys():
                return file
        except (OSError, ConfigError):
            continue  # It is somebody else's file.
    return None


def settings_text(converted: Converted, source: Path) -> str:
    """The text of an annai.toml with these settings."""
    name = converted.ancestor.name
    lines = [f"# From {name}'s {source.name}; `annai init --force` would write every setting, explained."]
    if converted.unknown:
        lines += [f"# Without counterpart in annai: {', '.join(converted.unknown)}."]
    for section in SECTIONS:
        own = {
            key.partition(".")[2]: value
            for key, value in converted.settings.items()
            if key.partition(".")[0] == section
        }
        if own:
            lines += ["", f"[{section}]", *(f"{key} = {toml_value(value)}" for key, value in own.items())]
    return "\n".join(lines) + "\n"


def _read(ancestor: Ancestor, file: Path) -> dict[str, object]:
    try:
        table = ancestor.read(read_settings_file(file).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror})", "name an existing file.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text", "save it as such.") from error
    except ValueError as error:
        raise ConfigError(
            f"{file} cannot be read as {ancestor.name}'s settings: {error}", "correct it first."
        ) from error
    if not isinstance(table, dict):
        raise ConfigError(f"{file} has no settings in it", f"{ancestor.name}'s are sections with keys.")
    return {str(key): value for key, value in table.items()}


def _convert(ancestor: Ancestor, table: Mapping[str, object]) -> Converted:
    settings: dict[str, Value] = {}
    unknown: list[str] = []
    for key, value in _flat(table):
        counterpart = ancestor.keys.get(key)
        if counterpart is None:
            unknown.append(key)
        else:
            settings |= counterpart.implies
            settings[counterpart.setting] = _as_setting(counterpart.setting, counterpart.convert(value))
    return Converted(ancestor, {**ancestor.fixed, **settings}, tuple(unknown))


def _flat(table: Mapping[str, object]) -> list[tuple[str, Value]]:
    found: list[tuple[str, Value]] = []
    for section, values in table.items():
        if isinstance(values, dict):
            found += [(f"{section}.{key}", value) for key, value in values.items()]
        else:
            found.append((section, values))
    return found


def _as_setting(setting: str, value: Value) -> Value:
    """A value of the type that the setting has: YAML and JSON know no tuples, and JSON no whole floats."""
    section, _, key = setting.partition(".")
    default = next(item.default for item in fields(SECTIONS[section]) if item.name == key)
    if isinstance(default, tuple):
        return tuple(value) if isinstance(value, list | tuple) else (value,)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
