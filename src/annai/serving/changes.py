"""Has the project's settings file come to name another store since a process started? Then its answers are of the old.

Other settings are read when a server starts, and change nothing in one that runs.
"""

import dataclasses
import os
from binascii import crc32
from pathlib import Path

from annai.config import CONFIG_NAME, CONFIG_VARIABLE, Config, find_settings, load_config
from annai.errors import ConfigError

SECTIONS = ("store", "database")
"""What says where the index is."""


def store_digest(config: Config) -> str:
    """Which store the settings name, without telling its address, which may have a password in it."""
    store = config.store
    address = ""
    if store.url:
        import hashlib  # OpenSSL takes milliseconds to load, and a file beside the index has no address

        address = hashlib.blake2b(store.url.encode(), digest_size=8).hexdigest()
    return repr((store.engine, address, store.schema, store.collection_name))


def models_digest(config: Config) -> str:
    """Which models the settings name for documents."""
    return f"{crc32(repr((config.embedding, dict(config.collections))).encode()):08x}"


class StoreChanges:
    """Watches a project's settings file for another `[store]`, at the cost of one look at its time."""

    def __init__(self, config: Config) -> None:
        self._file = config.file or config.root / CONFIG_NAME
        self._seen = self._stat()
        self._started_with = self._read()
        self._changed: list[str] = []

    def reason(self) -> str:
        """What has changed, in words; empty if nothing has."""
        seen = self._stat()
        if seen == self._seen:
            return ""
        now = self._read()
        if now is None:
            return ""  # It is being written, cannot be understood, or is not trusted: it may be the next time.
        if self._started_with is None:
            self._started_with = now
        self._changed = [name for name in SECTIONS if now.get(name) != self._started_with.get(name)]
        if not self._changed:
            self._seen = seen
            return ""
        return f"{' and '.join(f'[{name}]' for name in self._changed)} in {self._file.name} changed"

    def renewed(self, config: Config) -> Config:
        """The same settings with what has changed, as the file says it now."""
        docs_dir = config.root if config.named else None
        loaded = load_config(config=self._named_file(), docs_dir=docs_dir, start=config.root)
        # What has not changed stays: the command line may have said it.
        database = loaded.database if "database" in self._changed else config.database
        return dataclasses.replace(config, file=loaded.file, store=loaded.store, database=database)

    def _read(self) -> dict[str, object] | None:
        if not self._file.is_file():
            return {}
        try:
            found = find_settings(config=self._named_file())
        except (ConfigError, OSError):
            return None
        return {name: found.table.get(name) for name in SECTIONS} if found.is_trusted else None

    def _named_file(self) -> Path | None:
        """The file, as it is to be named; None if there is none, or if the environment names it."""
        named = Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None
        is_users_own = named is not None and named.resolve() == self._file.resolve()
        return None if is_users_own or not self._file.is_file() else self._file

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
