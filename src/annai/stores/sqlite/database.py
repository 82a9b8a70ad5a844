"""How is an index file opened, checked and used, so that every error says what to do?

Every page has a checksum, by an extension of SQLite's that apsw brings: what was not written as it is read is an error,
never an answer. Where apsw comes without it, the file has none, and only what SQLite itself notices is found.
"""

import errno
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np

from annai.config import Config, make_folders
from annai.errors import DamagedIndex, NewerIndex, NotAnIndex, QueryError, StoreError, StoreFull, StoreReadOnly
from annai.state import make_private_file
from annai.stores.rows import NOT_TEXT, SQLValue
from annai.stores.sqlite.schema import APPLICATION_ID, SCHEMA, VERSION

if TYPE_CHECKING:
    Binding = SQLValue | apsw.CArrayBinding
    """What a statement is given."""

logger = logging.getLogger(__name__)

CACHE_KIB = 2_000
"""What a connection keeps of the file in memory. More is no quicker: what searches read again is kept elsewhere."""

BUSY_TIMEOUT_MS = 30_000
"""How long to wait for another process that is writing."""

CHECKSUMS = Path(apsw.__file__).parent / "sqlite_extra_binaries" / "cksumvfs"
"""The extension that writes and compares checksums. apsw.sqlite_extra would take 40 ms to say the same."""

VERIFYING = "cksmvfs"
"""What the extension calls itself: a way to files."""

CHECKSUM_BYTES = 8
"""What it takes at the end of every page."""

WAY_OUT = "annai store check --repair"
"""What builds a damaged index again."""

FileId = tuple[int, int]
"""Which file it is, whatever its name: its device and its inode."""


class _Thread(threading.local):
    """What each thread has open."""

    connection: apsw.Connection | None = None
    file: FileId | None = None
    opening = 0


class Database:
    """An index file in WAL mode: any number of readers beside one writer, in any number of processes.

    Every thread has a connection of its own. If the file is deleted, or another is put in its place, every thread goes
    on with the file that is there then, which is made if there is none. Every error of SQLite's leaves it as a
    `StoreError` whose message says what to do.
    """

    def __init__(self, path: Path, make_file: Callable[[], None] = lambda: None) -> None:
        """`make_file` is called when the file was deleted or replaced: it makes one, where that is right."""
        self.path = path
        self._make_file = make_file
        self.read_only = False
        self.on_replaced: Callable[[], None] = lambda: None
        """Called when another file was opened than before, until it succeeds."""
        self._is_full = False
        """Whether there was no space to open the file other than for reading."""
        self._thread = _Thread()
        self._lock = threading.RLock()
        self._file: FileId | None = None
        self._logs: dict[Path, FileId | None] = {}
        self._openings = 0
        self._opened: list[apsw.Connection] = []
        with self._translate_errors():
            try:
                self._connect()
            except BaseException:
                self.close()
                raise

    @property
    def connection(self) -> apsw.Connection:
        """The calling thread's own connection, opened when it is first needed or when the file was replaced."""
        connection, file = self._thread.connection, self._thread.file
        if connection is not None and (connection.in_transaction or _identify(self.path) == file):
            return connection
        return self._connect()

    @property
    def opening(self) -> int:
        """Which of the files that were opened here the calling thread reads: another number, another file."""
        return self._thread.opening if self.connection else 0

    @property
    def is_writing(self) -> bool:
        """Whether the calling thread is within a transaction that has written."""
        return self.connection.txn_state("main") == apsw.SQLITE_TXN_WRITE

    def rows(self, sql: str, values: "Sequence[Binding]" = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return all its rows; the types of their values are the schema's."""
        try:
            return self.connection.execute(sql, values).fetchall()
        except Exception:
            with self._translate_errors():  # Only now: a search runs many statements.
                raise

    def stream(self, sql: str, values: "Sequence[Binding]" = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement one by one, where all of them together are too much."""
        with self._translate_errors():
            yield from self.connection.execute(sql, values)

    def rows_of(self, keys: Sequence[int], sql: str, values: Sequence[SQLValue] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement finds for some keys, which it reads with `carray(?)` as its first value."""
        if not len(keys):
            return []
        # In their order, since neighbours are on the same page.
        asked = apsw.carray(np.sort(np.array(keys, np.int64)), flags=apsw.SQLITE_CARRAY_INT64)
        return self.rows(sql, (asked, *values))

    def row(self, sql: str, values: Sequence[SQLValue] = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def number(self, sql: str, values: Sequence[SQLValue] = ()) -> int:
        """The first number of the first row; 0 if there is none."""
        row = self.row(sql, values)
        return int(row[0] or 0) if row else 0

    def insert(self, sql: str, rows: Sequence[Sequence[SQLValue]]) -> None:
        """Run a statement once for each row."""
        with self._translate_errors():
            self.connection.executemany(sql, rows)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that writes: wholly, or not at all."""
        if self._is_full:
            raise StoreFull(no_space(self.path))
        if self.read_only:
            raise StoreReadOnly(cannot_write(self.path))
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction within which every read sees the same state; within another, that one."""
        if self.connection.in_transaction:
            yield
            return
        with self._transaction("BEGIN"):
            yield

    def size_on_disk(self) -> int:
        """Bytes of the file and its write-ahead log."""
        return sum(file.stat().st_size for file in (self.path, *_log_paths(self.path)) if file.exists())

    def close(self) -> None:
        """Close the file, for every thread; closing twice is fine."""
        while self._opened:
            self._opened.pop().close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self.rows(begin)
        connection = self.connection
        try:
            yield
            self.rows("COMMIT")
        except BaseException:
            # The first error is the one to report; some of SQLite's have ended the transaction already.
            with suppress(apsw.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            raise

    def _connect(self) -> apsw.Connection:
        """Open the file for the calling thread; the first thread that opens another file makes it an index."""
        with self._lock:
            # Compared while the one before is still open: once it is closed, the new file may get its inode.
            file = _identify(self.path)
            is_new = file is None or file != self._file
            is_replaced = is_new and self._file is not None
            self._disconnect()
            if is_replaced:
                file = self._prepare_new_file()
            connection = self._open()
            self._opened.append(connection)
            self._thread.connection, self._thread.file = connection, file or _identify(self.path)
            self._thread.opening = self._openings + is_new
            if is_new:
                try:
                    self._make_tables()
                    if is_replaced:
                        self.on_replaced()
                except BaseException:
                    self._disconnect()
                    raise
                self._openings += 1
                self._file = self._thread.file
                self._logs = {log: _identify(log) for log in _log_paths(self.path)}
            if is_replaced:
                logger.warning("%s was deleted or replaced, so it was opened anew", self.path)
            return connection

    def _disconnect(self) -> None:
        """Close the calling thread's connection, if it has one."""
        connection, self._thread.connection = self._thread.connection, None
        if connection in self._opened:
            self._opened.remove(connection)
            connection.close()

    def _prepare_new_file(self) -> FileId | None:
        """Make the file if it was deleted, and remove the logs of the one before: SQLite would add them to this one."""
        _delete_logs(self._logs)
        self._make_file()
        return _identify(self.path)

    def _open(self) -> apsw.Connection:
        try:
            connection = _connect(str(self.path))
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            if can_verify() and not _size(self.path):
                connection.reserve_bytes("main", CHECKSUM_BYTES)
            # Asking for WAL where it already is reads only; a file or folder that cannot be written shows here.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            self._check_length(connection)
            self.read_only = connection.readonly("main")
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError) as error:
            if _is_damage(error):
                raise
            self._is_full = isinstance(error, apsw.IOError | apsw.FullError)
            if self._is_full and not (self.path.is_file() and self.path.stat().st_size):
                raise
            if not self.path.is_file():
                raise StoreReadOnly(cannot_write(self.path)) from error
            # Without space or a writable folder there is no shared memory for WAL: read the files as they are.
            connection = self._open_as_it_is()
            self.read_only = True
        return connection

    def _check_length(self, connection: apsw.Connection) -> None:
        """Raise `DamagedIndex` if the last page is cut off: SQLite would take what is missing for zeros."""
        page = int(connection.pragma("page_size"))
        if _size(self.path) % page:
            # Perhaps its writer died, and the log has it whole.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if _size(self.path) % page:
                raise DamagedIndex(damaged(self.path))

    def _open_as_it_is(self) -> apsw.Connection:
        """A connection that writes nothing at all; nobody else has the file open, or there would be shared memory."""
        log = self.path.with_name(self.path.name + "-wal")
        if "unix-none" in apsw.vfs_names() and log.is_file() and log.stat().st_size:
            connection = _connect(str(self.path), apsw.SQLITE_OPEN_READONLY, "unix-none")
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # keeps the index of the log in its own memory
            return connection
        uri = f"file:{self.path.as_posix().replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?immutable=1"
        return _connect(uri, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)

    def _make_tables(self) -> None:
        """Make a new file an index, and one of an older version a new one; its documents are indexed again."""
        version = self.number("PRAGMA user_version")
        ours = self.number("PRAGMA application_id") == APPLICATION_ID
        if not ours and self.number("SELECT count(*) FROM sqlite_schema"):
            raise NotAnIndex(
                f"{self.path} is a database, but not an annai index", "name another file in database.path."
            )
        if version > VERSION:
            raise NewerIndex(
                f"{self.path} was written by a newer annai (its version is {version}, this annai knows {VERSION})",
                "upgrade annai, or delete the file and annai builds a new one.",
            )
        expected = CHECKSUM_BYTES if can_verify() else 0
        if version < VERSION:
            with self.writing():
                # Another process may have done it while this one waited for the lock.
                if self.number("PRAGMA user_version") != VERSION:
                    self._drop_tables()
                    self.connection.execute(SCHEMA)
                    self.connection.execute(f"PRAGMA user_version = {VERSION}")
                    self.connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            if self.connection.reserve_bytes("main") < expected:
                self.connection.reserve_bytes("main", expected)
                self.connection.execute("VACUUM")
        if not self.read_only and self.connection.reserve_bytes("main") != expected:
            # The number itself was damaged; or apsw came, or went, with its checksums, and both cannot write one file.
            raise DamagedIndex(damaged(self.path))

    def _drop_tables(self) -> None:
        for (name,) in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"):
            self.connection.execute('DROP TABLE "{}"'.format(name.replace('"', '""')))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn SQLite's errors into sentences."""
        try:
            yield
        except UnicodeEncodeError as error:
            raise QueryError(NOT_TEXT) from error
        except apsw.NotADBError as error:
            raise DamagedIndex(
                f"{self.path} is not an annai index, or it is damaged",
                f"name another file in database.path, or let `{WAY_OUT}` rename it and build a new one.",
            ) from error
        except (apsw.CorruptError, UnicodeDecodeError) as error:
            raise DamagedIndex(damaged(self.path)) from error
        except apsw.FullError as error:
            raise StoreFull(no_space(self.path)) from error
        except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
            if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
                raise StoreError(f"{self.path} was replaced while it was written", "run the command again.") from error
            raise StoreReadOnly(cannot_write(self.path)) from error
        except apsw.BusyError as error:
            raise StoreError(f"Another process is writing {self.path}", "try again when it is done.") from error
        except apsw.NoMemError as error:
            raise MemoryError from error
        except apsw.IOError as error:
            if _is_damage(error):
                raise DamagedIndex(damaged(self.path)) from error
            raise StoreFull(
                f"Writing {self.path} failed ({error})",
                "check that the disk has space and is healthy, then run the command again.",
            ) from error


def set_aside(path: Path) -> Path:
    """Rename a damaged index file, so that a new one can be made; whoever has it open goes on with that one."""
    logs, aside = {log: _identify(log) for log in _log_paths(path)}, path.with_name(f"{path.name}.damaged")
    try:
        path.replace(aside)
    except OSError as error:
        raise StoreError(
            f"{path} is damaged and could not be renamed ({error.strerror})",
            f"stop what uses it, then run `{WAY_OUT}` again.",
        ) from error
    _delete_logs(logs)
    return aside


def can_verify() -> bool:
    """Whether pages get checksums here: apsw's wheels bring what writes and compares them, other builds may not."""
    return _load_checksums(CHECKSUMS)


@functools.cache
def _load_checksums(extension: Path) -> bool:
    default = apsw.vfs_names()[0]
    loader = apsw.Connection(":memory:")
    try:
        loader.enable_load_extension(True)
        loader.load_extension(str(extension))
    except (AttributeError, apsw.Error):
        return False
    finally:
        loader.close()
    # It makes itself the default, also for others who use SQLite in this process.
    apsw.set_default_vfs(default)
    return True


def _connect(
    name: str, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, vfs: str | None = None
) -> apsw.Connection:
    """Open a file whose checksums are compared, if that can be, and whose schema may call nothing."""
    connection = apsw.Connection(name, flags=flags, vfs=vfs or (VERIFYING if can_verify() else None))
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return connection


def _is_damage(error: apsw.Error) -> bool:
    """Whether a page is not as it was written."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA


def _log_paths(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]


def _delete_logs(logs: Mapping[Path, FileId | None]) -> None:
    """Delete the logs that are still those that were known."""
    for log, known in logs.items():
        if known is not None and _identify(log) == known:
            log.unlink()


def _identify(path: Path) -> FileId | None:
    """Which file is there; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - before every statement, and pathlib takes twice as long
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _size(path: Path) -> int:
    """The bytes of a file; 0 if it was deleted meanwhile."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def make_index_file(config: Config) -> None:
    """Make the folder and the file of an index, for their user alone, unless the file is there and can only be read."""
    path = config.database_path
    try:
        make_folders(config)
        make_private_file(path)
    except OSError as error:
        if not config.root.is_dir():
            raise StoreError(f"The folder {config.root} is gone", "put it back, or start annai in another.") from error
        if not path.exists():
            raise write_failed(path, error) from error


def damaged(path: Path) -> str:
    """The sentence for an index that is not as it was written."""
    return f"{path} is damaged; run `{WAY_OUT}`, which builds it again from the files and keeps what you registered."


def no_space(path: Path) -> str:
    """The sentence for a disk that is full."""
    return f"There is no space left to write {path}; free some and run the command again."


def write_failed(path: Path, error: OSError) -> StoreError:
    """What to raise if a file could not be written."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StoreFull(no_space(path)) if is_full else StoreReadOnly(cannot_write(path))


def cannot_write(path: Path) -> str:
    """The sentence for an index that cannot be written."""
    return f"{path} cannot be written; make its folder writable, or name another folder in ANNAI_STATE."
