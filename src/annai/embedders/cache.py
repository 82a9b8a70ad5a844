"""Was this text embedded before? Vectors by model and text, in a file of their own beside the index.

So moved files, rebuilt collections and undone edits cost nothing. It is only a cache: it may be deleted at any time,
and if anything is wrong with it, annai embeds without it.
"""

import hashlib
import logging
import threading
from binascii import crc32
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Vectors, normalise_rows
from annai.models.probe import is_same_model
from annai.state import make_private_file

logger = logging.getLogger(__name__)

T = TypeVar("T")
HalfVector = NDArray[np.float16]

EVICTION_TARGET_SHARE = 0.8
"""How much of the allowed size the cache keeps when it evicts the vectors that were not used for longest."""

BUSY_TIMEOUT_MS = 2_000
"""How long to wait for another process that is writing; after that, the text is embedded again."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    key BLOB PRIMARY KEY,     -- of the embedder's identity and the text
    vector BLOB NOT NULL,     -- float16, and a checksum of it: a damaged one is embedded again
    used INTEGER NOT NULL     -- the higher, the later it was last used
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS vectors_used ON vectors (used);
CREATE TABLE IF NOT EXISTS models (identity TEXT PRIMARY KEY, probe TEXT NOT NULL) WITHOUT ROWID;
"""


class VectorCache:
    """Vectors in a file of bounded size. Several threads and processes may use it at once."""

    def __init__(self, file: Path, max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._broken = False

    def get_or_embed(self, identity: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
        """The vectors of texts: from the cache, or else embedded (equal texts once) and added to the cache."""
        keys = [_key(identity, text) for text in texts]
        vectors = self._attempt(lambda connection: _read(connection, keys)) or {}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing:
            rows = embed([*missing.values()]).astype(np.float16)
            fresh = dict(zip(missing, rows, strict=True))
            if any(len(vector) != rows.shape[1] for vector in vectors.values()):
                # The name now belongs to another model: its cached vectors are useless.
                everything = dict(zip(keys, texts, strict=True))
                fresh = dict(zip(everything, embed([*everything.values()]).astype(np.float16), strict=True))
            vectors |= fresh
            self._attempt(lambda connection: _write(connection, fresh, self._max_bytes))
        logger.debug("[embedding] %d texts, %d of them new", len(texts), len(missing))
        if not texts:
            return embed([])
        # New vectors are rounded too, so that a text has the same vector before and after it is cached.
        return normalise_rows(np.stack([vectors[key] for key in keys]).astype(np.float32))

    def missing(self, identity: str, texts: Sequence[str]) -> list[str]:
        """Those of the texts whose vectors are not in the cache."""
        keys = [_key(identity, text) for text in texts]
        known = self._attempt(lambda connection: _read(connection, keys)) or {}
        return [text for key, text in zip(keys, texts, strict=True) if key not in known]

    def check_model(self, identity: str, probe: str) -> None:
        """Forget everything if another model answers to this name than the one that made the vectors."""

        def compare(connection: apsw.Connection) -> None:
            with connection:
                kept = connection.execute("SELECT probe FROM models WHERE identity = ?", (identity,)).get
                if kept and not is_same_model(kept, probe):
                    connection.execute("DELETE FROM vectors")
                    connection.execute("DELETE FROM models")
                    kept = None
                if not kept:
                    connection.execute("INSERT INTO models VALUES (?, ?)", (identity, probe))

        self._attempt(compare)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _attempt(self, work: Callable[[apsw.Connection], T]) -> T | None:
        """Do the work; return None if the cache is busy or broken."""
        with self._lock:
            if self._broken:
                return None
            try:
                self._connection = self._connection or _connect(self._file)
                return work(self._connection)
            except (apsw.NotADBError, apsw.CorruptError):
                self._delete_file()
                return None
            except apsw.BusyError:
                return None
            except (apsw.Error, OSError) as error:
                logger.warning("the cache %s is not used (%s); delete it if this continues", self._file, error)
                self._broken = True
                return None

    def _delete_file(self) -> None:
        """It is damaged, and everything in it can be made again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        for suffix in ("", "-wal", "-shm"):
            self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)


def _connect(file: Path) -> apsw.Connection:
    file.parent.mkdir(parents=True, exist_ok=True)
    make_private_file(file)
    connection = apsw.Connection(str(file))
    try:
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        connection.execute(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _key(identity: str, text: str) -> bytes:
    whole = f"{identity}\0{text}".encode("utf-8", "replace")
    return hashlib.blake2b(whole, digest_size=16).digest()


def _checksum(key: bytes, vector: bytes) -> bytes:
    return crc32(key + vector).to_bytes(4, "little")


def _read(connection: apsw.Connection, keys: Sequence[bytes]) -> dict[bytes, HalfVector]:
    found = {}
    latest = _latest(connection)
    stale = []
    for key in dict.fromkeys(keys):
        for vector, used in connection.execute("SELECT vector, used FROM vectors WHERE key = ?", (key,)):
            if vector[-4:] != _checksum(key, vector[:-4]):
                continue
            found[key] = np.frombuffer(vector[:-4], np.float16)
            if used < latest:
                stale.append((latest, key))
    if stale:
        with connection:
            connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", stale)
    return found


def _write(connection: apsw.Connection, fresh: dict[bytes, HalfVector], max_bytes: int) -> None:
    with connection:
        used = _latest(connection) + 1
        rows = [(key, (raw := vector.tobytes()) + _checksum(key, raw), used) for key, vector in fresh.items()]
        connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        if _size(connection) > max_bytes:
            row_bytes = max(_size(connection) // max(_count(connection), 1), 1)
            kept_rows = int(EVICTION_TARGET_SHARE * max_bytes / row_bytes)
            connection.execute(
                "DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY used DESC LIMIT -1 OFFSET ?)",
                (kept_rows,),
            )


def _latest(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(used), 0) FROM vectors").get)


def _count(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM vectors").get)


def _size(connection: apsw.Connection) -> int:
    """Bytes in use; free pages do not count, since SQLite reuses them before the file grows."""
    pages = int(connection.pragma("page_count")) - int(connection.pragma("freelist_count"))
    return pages * int(connection.pragma("page_size"))
