"""How is an index file opened, upgraded and used, so that every error says what to do?"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from annai.config import make_private_file, make_state_folder
from annai.errors import NewerIndex, NotAnIndex, StoreError, StoreFull, StoreReadOnly
from annai.stores.rows import SQLValue
from annai.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS

logger = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 30_000
"""How long to wait for another process that is writing."""


class Database:
    """An index file in WAL mode: any number of readers beside one writer, in any number of processes.

    Every thread has a connection of its own. Every error of SQLite's leaves it as a `StoreError` whose message says
    what to do.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_only = False
        self._is_full = False
        """Whether there was no space to open the file other than for reading."""
        self._thread = threading.local()
        self._opened: list[apsw.Connection] = []
        with self._translate_errors():
            try:
                self._migrate()
            except BaseException:
                self.close()
                raise

    @property
    def connection(self) -> apsw.Connection:
        """The calling thread's own connection, opened when it is first needed."""
        connection: apsw.Connection | None = getattr(self._thread, "connection", None)
        if connection is None:
            connection = self._thread.connection = self._open()
            self._opened.append(connection)
        return connection

    def rows(self, sql: str, values: Sequence[SQLValue] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return all its rows; the types of their values are the schema's."""
        with self._translate_errors():
            return self.connection.execute(sql, values).fetchall()

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
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.rows("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction within which every read sees the same state; within another, that one."""
        if self.connection.in_transaction:
            yield
            return
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rows("COMMIT")

    def size_on_disk(self) -> int:
        """Bytes of the file and its write-ahead log."""
        files = (self.path.with_name(self.path.name + suffix) for suffix in ("", "-wal", "-shm"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close the file, for every thread; closing twice is fine."""
        while self._opened:
            self._opened.pop().close()

    def _open(self) -> apsw.Connection:
        try:
            connection = apsw.Connection(str(self.path))
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # Asking for WAL where it already is reads only; a file or folder that cannot be written shows here.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            self.read_only = connection.readonly("main")
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError) as error:
            self._is_full = isinstance(error, apsw.IOError | apsw.FullError)
            if self._is_full and not (self.path.is_file() and self.path.stat().st_size):
                raise
            if not self.path.is_file():
                raise StoreReadOnly(cannot_write(self.path)) from error
            # Without space or a writable folder there is no shared memory for WAL: read the files as they are.
            connection = self._open_as_it_is()
            self.read_only = True
        return connection

    def _open_as_it_is(self) -> apsw.Connection:
        """A connection that writes nothing at all; nobody else has the file open, or there would be shared memory."""
        log = self.path.with_name(self.path.name + "-wal")
        if "unix-none" in apsw.vfs_names() and log.is_file() and log.stat().st_size:
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY, vfs="unix-none")
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # keeps the index of the log in its own memory
            return connection
        uri = f"file:{self.path.as_posix().replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?immutable=1"
        return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)

    def _migrate(self) -> None:
        version = self.number("PRAGMA user_version")
        ours = self.number("PRAGMA application_id") == APPLICATION_ID
        if not ours and self.number("SELECT count(*) FROM sqlite_schema"):
            raise NotAnIndex(f"{self.path} is a database, but not an annai index; name another file in database.path.")
        if version > len(MIGRATIONS):
            raise NewerIndex(
                f"{self.path} was written by a newer annai (its version is {version}, this annai knows "
                f"{len(MIGRATIONS)}); upgrade annai, or delete the file and annai builds a new one."
            )
        if version == len(MIGRATIONS):
            return
        with self.writing():
            # Another process may have done it while this one waited for the lock.
            for number in range(self.number("PRAGMA user_version"), len(MIGRATIONS)):
                self.connection.execute(MIGRATIONS[number])
                self.connection.execute(f"PRAGMA user_version = {number + 1}")
            self.connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn SQLite's errors into sentences."""
        try:
            yield
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise NotAnIndex(
                f"{self.path} is not an annai index, or it is damaged; move it away and annai builds a new one."
            ) from error
        except apsw.FullError as error:
            raise StoreFull(no_space(self.path)) from error
        except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
            raise StoreReadOnly(cannot_write(self.path)) from error
        except apsw.BusyError as error:
            raise StoreError(f"Another process is writing {self.path}; try again when it is done.") from error
        except apsw.IOError as error:
            raise StoreFull(
                f"Writing {self.path} failed ({error}); check that the disk has space and is healthy, then run the "
                "command again."
            ) from error


def make_index_folder(path: Path) -> None:
    """Make the folder and the file of an index, for their user alone, unless the file is there and can only be read."""
    try:
        make_state_folder(path.parent)
        make_private_file(path)
    except OSError as error:
        if not path.exists():
            raise StoreReadOnly(cannot_write(path)) from error


def no_space(path: Path) -> str:
    """The sentence for a disk that is full."""
    return f"There is no space left to write {path}; free some and run the command again."


def cannot_write(path: Path) -> str:
    """The sentence for an index that cannot be written."""
    return f"{path} cannot be written; make its folder writable, or name another file in database.path of annai.toml."
