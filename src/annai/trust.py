"""What may a project's own files do? Only what stays inside it and on this machine, until the user trusts them.

The settings of a cloned repository are somebody else's text. What in them would reach further (a network address, the
name of a key, a path outside, a model other than the bundled ones) is a *demand*: without trust it is ignored.
docs/security.md has the threat model.
"""

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from annai.errors import ConfigError
from annai.plugins import BUILT_IN

Table = Mapping[str, Any]
"""A settings file as TOML has it, already checked."""

TRUST_NAME = "trust.json"
BUNDLED_PROVIDERS = frozenset({"static", "hashing", "use"})
"""Embedders whose weights come with a package: they need neither the network nor a file of the project."""

SERVICES = frozenset({"gemini", "http", "openai"})
"""Embedders and rerankers that are another machine's; those that are neither load a model here."""

MAX_MODEL_FILES = 1000
"""A folder with more files holds more than a model, and is not trusted: each command looks at all of them."""

MAX_HASHED_BYTES = 8_000_000
"""Larger files, the weights, are known by when they changed: to read gigabytes would keep every command waiting."""

Kind = Literal["files", "server", "network", "code"]

KINDS: dict[Kind, str] = {
    "files": "reach outside of the project's folder",
    "server": "open your server to others",
    "network": "send documents, questions or secrets to others",
    "code": "load a model or code that is not annai's own",
}
"""What demands do, the most dangerous last: that is what a user sees who is asked."""

_PATHS = (
    ("database", "path", "keeps the index in this place, and believes what is there"),
    ("logging", "file", "writes a log to this place"),
    ("logging", "audit_file", "writes a log to this place"),
)

_MODEL_KEYS: dict[str, tuple[Kind, str]] = {
    "model": ("code", "loads a model that is not annai's own"),
    "base_url": ("network", "sends your documents or questions to this address"),
    "api_key_env": ("network", "sends the secret in this environment variable to the service"),
    "trust_remote_code": ("code", "runs Python code that comes with the model"),
}


_SERVER_KEYS = {
    "host_names": "lets web pages of these names reach your server",
    "trusted_proxies": "believes these addresses when they say whose requests they pass on",
    "open_metrics": "shows everybody who can reach your server how it is used",
    "addable_folders": "lets holders of a token index these folders",
}


class Demand(NamedTuple):
    """Something that a project's files ask for and that needs the user's trust."""

    kind: Kind
    setting: str
    value: str
    consequence: str


def without_demands(table: Table, asked: Sequence[Demand]) -> dict[str, Any]:
    """The settings without what was asked for; a model's or an engine's section goes as a whole, since it is one."""
    sections = {demand.setting.partition(".")[0] for demand in asked}
    kept = {name: values for name, values in table.items() if name not in sections & {"embedding", "rerank", "store"}}
    for demand in asked:
        section, _, key = demand.setting.partition(".")
        if section == "collections":
            # By the whole prefix: the name of a collection may have dots in it here.
            kept["collections"] = {
                each: values
                for each, values in kept["collections"].items()
                if not demand.setting.startswith(f"collections.{each}.embedding.")
            }
        elif section in kept:
            kept[section] = {each: value for each, value in kept[section].items() if each != key}
    return kept


def is_inside(folder: Path, path: str | Path) -> bool:
    """Whether a path, links followed, lies in the folder or is the folder itself."""
    try:
        return (folder / Path(path).expanduser()).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host in ("localhost", "127.0.0.1", "::1"):
        return True
    import ipaddress  # every command comes here, and few need it

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def digest(content: bytes, asked: Sequence[Demand]) -> str:
    """What is remembered of trusted settings: change a letter, or a file of a model, and the user is asked again.

    Empty if a folder has too many files to be a model.
    """
    import hashlib  # most projects ask for nothing

    whole = hashlib.sha256(content + repr(asked).encode("utf-8", "surrogateescape"))
    for folder in model_folders(asked):
        files = _files_below(folder)
        if files is None:
            return ""
        states = [(file, _state_of(file)) for file in files]
        whole.update(repr(states).encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def model_folders(asked: Sequence[Demand]) -> list[str]:
    """The folders of models that settings name, each once."""
    named = dict.fromkeys(each.value for each in asked if each.setting.endswith(".model"))
    return [each for each in named if os.path.isabs(each) and os.path.isdir(each)]  # noqa: PTH112, PTH117


def _files_below(folder: str) -> list[str] | None:
    """The files of a folder, in order, with what its links lead to; None if they are more than those of a model."""
    files: list[str] = []
    visited: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        # What git keeps there changes all the time, and no model is loaded from it.
        folders[:] = [] if real in visited else sorted(each for each in folders if each != ".git")
        visited.add(real)
        files += [os.path.join(parent, name) for name in sorted(names)]  # noqa: PTH118 - strings all along
        if max(len(files), len(visited)) > MAX_MODEL_FILES:
            return None
    return files


def _state_of(file: str) -> object:
    """What changes whenever a file of a model does: its content, or for a large one, when the system last changed it.

    Of the times of a file, only `ctime` is out of reach of whoever writes it; Windows has none.
    """
    import hashlib  # as above

    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        return error.errno
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return "no file"
        if status.st_size <= MAX_HASHED_BYTES or sys.platform == "win32":
            return hashlib.file_digest(stream, "sha256").hexdigest()
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class TrustStore:
    """Which settings files the user has trusted on this machine, by content."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / TRUST_NAME

    def files(self) -> dict[str, str]:
        """Trusted settings files, with the digest of what was trusted."""
        import json  # most projects ask for nothing

        try:
            values = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self._file} cannot be read ({error})", "correct it, or delete it to trust anew."
            ) from error
        found = values.get("files") if isinstance(values, dict) else None
        return found if isinstance(found, dict) else {}

    def trust_file(self, file: Path, value: str) -> None:
        """Remember a settings file."""
        self._write({**self.files(), str(file): value})

    def revoke(self, file: Path) -> bool:
        """Forget a settings file; whether it was trusted."""
        known = self.files()
        if known.pop(str(file), None) is None:
            return False
        self._write(known)
        return True

    def _write(self, files: Mapping[str, str]) -> None:
        import json  # most projects ask for nothing

        draft = self._file.with_name(f"{TRUST_NAME}.{os.getpid()}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump({"files": files}, stream, indent=2, ensure_ascii=True)
            draft.replace(self._file)
        except OSError as error:
            raise ConfigError(
                f"{self._file} cannot be written: {error.strerror}", "make its folder writable."
            ) from error


def demands(table: Table, folder: Path) -> Iterator[Demand]:
    """Everything in a project's settings that reaches beyond the project or this machine."""
    root = table.get("project", {}).get("root", "")
    if root and not is_inside(folder, root):
        yield Demand("files", "project.root", root, "indexes the files of a folder outside this one")
    for section, key, consequence in _PATHS:
        if value := table.get(section, {}).get(key, ""):
            yield Demand("files", f"{section}.{key}", value, consequence)
    if url := table.get("store", {}).get("url", ""):
        yield Demand("network", "store.url", url, "keeps the index, with your documents in it, at this address")
    parts = {f"store.{key}": table.get("store", {}).get(key, "") for key in ("schema", "machine")}
    named = [(name, value) for name, value in parts.items() if value]
    yield from (Demand("files", *each, "uses another index of your database, or as another machine") for each in named)
    for section, key, group in (("store", "engine", "annai.stores"), ("chunking", "strategy", "annai.splitters")):
        name = table.get(section, {}).get(key, "")
        if name and name not in BUILT_IN[group]:
            yield Demand("code", f"{section}.{key}", name, "hands your documents to a package that is not annai's own")
    yield from _embedding_demands("embedding", table.get("embedding", {}))
    for name, values in table.get("collections", {}).items():
        yield from _embedding_demands(f"collections.{name}.embedding", values["embedding"])
    if table.get("search", {}).get("rerank", "off") != "off":
        reranker = table["search"]["rerank"]
        yield Demand(_kind_of(reranker), "search.rerank", reranker, "lets another model or a service read your results")
    yield from _model_demands("rerank", table.get("rerank", {}))
    server = table.get("server", {})
    if not is_loopback(server.get("host", "localhost")):
        yield Demand("server", "server.host", server["host"], "lets other machines reach your server")
    if server.get("token"):
        yield Demand("server", "server.token", "…", "sets the token of your server to one that others know")
    for key, consequence in _SERVER_KEYS.items():
        if server.get(key):
            yield Demand("server", f"server.{key}", str(server[key]), consequence)


def _embedding_demands(name: str, values: Table) -> Iterator[Demand]:
    provider = values.get("provider", "static")
    if provider not in BUNDLED_PROVIDERS:
        yield Demand(
            _kind_of(provider),
            f"{name}.provider",
            provider,
            "embeds your documents with a model or service that is not annai's own",
        )
    yield from _model_demands(name, values)


def _model_demands(name: str, values: Table) -> Iterator[Demand]:
    for key, (kind, consequence) in _MODEL_KEYS.items():
        if values.get(key):
            yield Demand(kind, f"{name}.{key}", str(values[key]), consequence)


def _kind_of(provider: str) -> Kind:
    return "network" if provider in SERVICES else "code"
