"""What may a project's own files do? Only what stays inside it and on this machine, until the user trusts them.

The settings of a cloned repository are somebody else's text. What in them would reach further (a network address, the
name of a key, a path outside, a model other than the bundled ones) is a *demand*: without trust it is ignored.
docs/security.md has the threat model.
"""

import os
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
    ("database", "path", "keeps the index in this place, and believes what is there"),
    ("logging", "file", "writes a log to this place"),
    ("logging", "audit_file", "writes a log to this place"),
)

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
                f"{self._file} cannot be read ({error}); correct it, or delete it to trust anew."
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
            raise ConfigError(f"{self._file} cannot be written: {error.strerror}; make its folder writable.") from error


def demands(table: Table, folder: Path) -> Iterator[Demand]:
    """Everything in a project's settings that reaches beyond the project or this machine."""
    root = table.get("project", {}).get("root", "")
    if root and not is_inside(folder, root):
        yield Demand("project.root", root, "indexes the files of a folder outside this one")
    for section, key, consequence in _PATHS:
        if value := table.get(section, {}).get(key, ""):
            yield Demand(f"{section}.{key}", value, consequence)
    if url := table.get("store", {}).get("url", ""):
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
