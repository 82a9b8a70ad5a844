"""What may a project's own files do? Only what stays inside it and on this machine, until the user trusts them.

The settings of a cloned repository are somebody else's text. What in them would reach further (a network address, the
name of a key, a path outside, a model other than the bundled ones) is a *demand*: without trust it is ignored.
docs/security.md has the threat model.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from annai.errors import ConfigError
from annai.plugins import BUILT_IN

Table = Mapping[str, Any]
"""A settings file as TOML has it, already checked."""

TRUST_NAME = "trust.json"
BUNDLED_PROVIDERS = frozenset({"static", "hashing", "use"})
"""Embedders whose weights come with a package: they need neither the network nor a file of the project."""

_PATHS = (
    ("project", "root", "indexes the files of a folder outside this one"),
    ("database", "path", "writes an index outside the project"),
    ("logging", "file", "writes a log outside the project"),
    ("logging", "audit_file", "writes a log outside the project"),
)
_PLAIN_PATH = re.compile(r"[\w./ -]+")
"""What no engine takes for an address. `host=x dbname=y` and `http:/<tab>/x` are addresses too, so `://` is no sign."""

_MODEL_KEYS = {
    "model": "loads a model that is not annai's own",
    "base_url": "sends your documents or questions to this address",
    "api_key_env": "sends the secret in this environment variable to the service",
    "trust_remote_code": "runs Python code that comes with the model",
}


_SERVER_KEYS = {
    "host_names": "lets web pages of these names reach your server",
    "trusted_proxies": "believes these addresses when they say whose requests they pass on",
    "open_metrics": "shows everybody who can reach your server how it is used",
    "addable_folders": "lets holders of a token index these folders",
}


class Demand(NamedTuple):
    """Something that a project's files ask for and that needs the user's trust."""

    setting: str
    value: str
    consequence: str


def demands(table: Table, folder: Path, state_folder: Path) -> list[Demand]:
    """Everything in a project's settings and state files that reaches beyond the project or this machine."""
    return [*_settings_demands(table, folder), *_link_demands(folder, state_folder)]


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
    """What is remembered of trusted settings: change a letter, and the user is asked again."""
    import hashlib  # most projects ask for nothing

    return hashlib.sha256(content + repr(asked).encode("utf-8", "surrogateescape")).hexdigest()


class TrustStore:
    """What the user has trusted on this machine: settings files by content, and folders outside of projects."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / TRUST_NAME

    def files(self) -> dict[str, str]:
        """Trusted settings files (or projects without one), with the digest of what was trusted."""
        return self._read("files")

    def sources(self, root: Path) -> list[str]:
        """Folders outside a project that the user registered as its collections."""
        return list(self._read("sources").get(str(root), []))

    def all_sources(self) -> dict[str, list[str]]:
        """The same for every project, by its folder."""
        return self._read("sources")

    def trust_file(self, file: Path, value: str) -> None:
        """Remember a settings file."""
        self._change("files", {**self.files(), str(file): value})

    def trust_source(self, root: Path, source: Path) -> None:
        """Remember a folder outside of a project."""
        known = self._read("sources")
        self._change("sources", {**known, str(root): sorted({*known.get(str(root), []), str(source)})})

    def revoke(self, path: Path) -> bool:
        """Forget a settings file, or what was registered outside of a project; whether there was anything."""
        found = False
        for kind in ("files", "sources"):
            known = self._read(kind)
            if str(path) in known:
                found = True
                self._change(kind, {key: value for key, value in known.items() if key != str(path)})
        return found

    def _read(self, kind: str) -> dict[str, Any]:
        import json  # most projects ask for nothing

        try:
            values = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self._file} cannot be read ({error}); correct it, or delete it to trust anew."
            ) from error
        found = values.get(kind) if isinstance(values, dict) else None
        return found if isinstance(found, dict) else {}

    def _change(self, kind: str, values: Mapping[str, Any]) -> None:
        import json  # most projects ask for nothing

        everything = {each: self._read(each) for each in ("files", "sources")} | {kind: values}
        draft = self._file.with_name(f"{TRUST_NAME}.{os.getpid()}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(everything, stream, indent=2, ensure_ascii=True)
            draft.replace(self._file)
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be written: {error.strerror}; make its folder writable.") from error


def _settings_demands(table: Table, folder: Path) -> Iterator[Demand]:
    for section, key, consequence in _PATHS:
        value = table.get(section, {}).get(key, "")
        if value and not is_inside(folder, value):
            yield Demand(f"{section}.{key}", value, consequence)
    url = table.get("store", {}).get("url", "")
    if url and not (_PLAIN_PATH.fullmatch(url) and is_inside(folder, url)):
        yield Demand("store.url", url, "keeps the index, with your documents in it, at this address")
    parts = {f"store.{key}": table.get("store", {}).get(key, "") for key in ("schema", "machine")}
    named = [(name, value) for name, value in parts.items() if value]
    yield from (Demand(*each, "uses another index of your database, or as another machine") for each in named)
    for section, key, group in (("store", "engine", "annai.stores"), ("chunking", "strategy", "annai.splitters")):
        name = table.get(section, {}).get(key, "")
        if name and name not in BUILT_IN[group]:
            yield Demand(f"{section}.{key}", name, "hands your documents to a package that is not annai's own")
    yield from _embedding_demands("embedding", table.get("embedding", {}))
    for name, values in table.get("collections", {}).items():
        yield from _embedding_demands(f"collections.{name}.embedding", values["embedding"])
    if table.get("search", {}).get("rerank", "off") != "off":
        yield Demand("search.rerank", table["search"]["rerank"], "lets another model or a service read your results")
    yield from _model_demands("rerank", table.get("rerank", {}))
    server = table.get("server", {})
    if not is_loopback(server.get("host", "localhost")):
        yield Demand("server.host", server["host"], "lets other machines reach your server")
    if server.get("token"):
        yield Demand("server.token", "…", "sets the token of your server to one that others know")
    for key, consequence in _SERVER_KEYS.items():
        if server.get(key):
            yield Demand(f"server.{key}", str(server[key]), consequence)


def _embedding_demands(name: str, values: Table) -> Iterator[Demand]:
    provider = values.get("provider", "static")
    if provider not in BUNDLED_PROVIDERS:
        yield Demand(
            f"{name}.provider", provider, "embeds your documents with a model or service that is not annai's own"
        )
    yield from _model_demands(name, values)


def _model_demands(name: str, values: Table) -> Iterator[Demand]:
    for key, consequence in _MODEL_KEYS.items():
        if values.get(key):
            yield Demand(f"{name}.{key}", str(values[key]), consequence)


def _link_demands(folder: Path, state_folder: Path) -> Iterator[Demand]:
    """Links that came with the project and would make annai write somewhere else."""
    links = [state_folder] if state_folder.is_symlink() else []
    if not links and state_folder.is_dir():
        with os.scandir(state_folder) as entries:
            links = [Path(entry.path) for entry in entries if entry.is_symlink()]
    for link in sorted(links):
        if not is_inside(folder, link):
            yield Demand(str(link.relative_to(folder)), str(link.resolve()), "makes annai write to this place")
