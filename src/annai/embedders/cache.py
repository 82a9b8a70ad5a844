"""Was this text embedded before? Vectors by model and text, in a file of their own beside the index.

A file that was moved, a collection that is built anew or a heading that is set back costs nothing then. It is only
a memory: it may be deleted at any time, and whatever is wrong with it, embedding goes on without it.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Vectors, normalised

logger = logging.getLogger(__name__)

T = TypeVar("T")
Halves = NDArray[np.float16]

KEPT_SHARE = 0.8
"""How much of the allowed size is left when the oldest vectors have been forgotten."""

BUSY_MS = 2_000
"""How long to wait for another process that is writing; after that, the text is embedded again."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    key BLOB PRIMARY KEY,     -- of the embedder's identity and the text
    vector BLOB NOT NULL,     -- float16
    used INTEGER NOT NULL     -- the higher, the later it was last needed
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS vectors_used ON vectors (used);
"""


class VectorCache:
    """Vectors in a file of bounded size. Several threads and processes may use it at once."""

    def __init__(self, file: Path, most_bytes: int) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._broken = False

    def fill(self, identity: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
        """The vectors of texts: those that are remembered, and the others embedded, each once, and remembered."""
        keys = [_key(identity, text) for text in texts]
        known = self._attempt(lambda connection: _recall(connection, keys)) or {}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            rows = embed([*missing.values()]).astype(np.float16)
            fresh = dict(zip(missing, rows, strict=True))
            if any(len(vector) != rows.shape[1] for vector in known.values()):
                # Another model answers to the same name now: what was remembered of it is of no use.
                everything = dict(zip(keys, texts, strict=True))
                fresh = dict(zip(everything, embed([*everything.values()]).astype(np.float16), strict=True))
            known |= fresh
            self._attempt(lambda connection: _remember(connection, fresh, self._most_bytes))
        logger.debug("[embedding] %d texts, %d of them new", len(texts), len(missing))
        if not texts:
            return embed([])
        # What is new is rounded too, so that a text has one vector and not two.
        return normalised(np.stack([known[key] for key in keys]).astype(np.float32))

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _attempt(self, work: Callable[[apsw.Connection], T]) -> T | None:
        """Do it, or do without."""
        with self._lock:
            if self._broken:
                return None
            try:
                self._connection = self._connection or _open(self._file)
                return work(self._connection)
            except apsw.BusyError:
                return None
            except (apsw.Error, OSError) as error:
                logger.warning("%s is not used (%s); delete it if that goes on.", self._file, error)
                self._broken = True
                return None


def _open(file: Path) -> apsw.Connection:
    try:
        return _connect(file)
    except (apsw.NotADBError, apsw.CorruptError):
        # It holds nothing that cannot be made again.
        for path in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
            path.unlink(missing_ok=True)
        return _connect(file)


def _connect(file: Path) -> apsw.Connection:
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = apsw.Connection(str(file))
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        connection.execute(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _key(identity: str, text: str) -> bytes:
    whole = f"{identity}\0{text}".encode("utf-8", "replace")
    return hashlib.blake2b(whole, digest_size=16).digest()


def _recall(connection: apsw.Connection, keys: Sequence[bytes]) -> dict[bytes, Halves]:
    found = {}
    latest = _latest(connection)
    stale = []
    for key in dict.fromkeys(keys):
        for vector, used in connection.execute("SELECT vector, used FROM vectors WHERE key = ?", (key,)):
            found[key] = np.frombuffer(vector, np.float16)
            if used < latest:
                stale.append((latest, key))
    if stale:
        with connection:
            connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", stale)
    return found


def _remember(connection: apsw.Connection, fresh: dict[bytes, Halves], most_bytes: int) -> None:
    with connection:
        used = _latest(connection) + 1
        rows = [(key, vector.tobytes(), used) for key, vector in fresh.items()]
        connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        if _size(connection) > most_bytes:
            row_bytes = max(_size(connection) // max(_count(connection), 1), 1)
            kept = int(KEPT_SHARE * most_bytes / row_bytes)
            connection.execute(
                "DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY used DESC LIMIT -1 OFFSET ?)",
                (kept,),
            )


def _latest(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(used), 0) FROM vectors").get)


def _count(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM vectors").get)


def _size(connection: apsw.Connection) -> int:
    """Bytes in use; pages that were freed are used again before the file grows."""
    pages = int(connection.pragma("page_count")) - int(connection.pragma("freelist_count"))
    return pages * int(connection.pragma("page_size"))
