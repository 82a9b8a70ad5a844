"""How is a PostgreSQL database reached, brought up to date, and kept from failing in riddles?"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from annai.errors import NewerIndex, StoreError, StoreFull, StoreReadOnly
from annai.stores.postgres.schema import MIGRATIONS

logger = logging.getLogger(__name__)
# The pool tells of every attempt to connect again; what matters of it becomes an error of ours.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)

CONNECT_SECONDS = 10
"""How long to wait for a server that does not answer, and for a connection to become free; `connect_timeout` in
store.url says otherwise."""

HEARD_FROM = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""A server whose machine is gone without a word is given up after a minute, not after hours; unless store.url says
otherwise."""

MOST_CONNECTIONS = 16
"""For one process; PostgreSQL allows a hundred in all unless it is told otherwise."""

OLDEST_PGVECTOR = (0, 8)
"""The first that goes on searching its index when a filter left too few."""

_REFUSED = ("password", "authentication failed", "認証に失敗")
_MISSING = ("does not exist", "存在しません")
_CANNOT_GROW = ("could not extend file", "拡張できませんでした")
"""What servers say, in English and in Japanese, where there is no code to go by: before a connection is made, and when
not the disk but a quota is full."""

SHIFT = "\ue000"
"""A private character that stands before what PostgreSQL cannot hold in a text (NUL), and before itself."""


class PostgresDatabase:
    """Connections to one database, shared by the threads of this process.

    A connection that was lost, because the server was started anew, is replaced when the next one is asked for. Every
    error leaves as a `StoreError` whose message says what to do, and no message tells the password.
    """

    def __init__(self, url: str) -> None:
        self.read_only = False
        self._own = threading.local()
        named = _parts(url)
        self._server = f"{named.get('host', 'localhost')}:{named.get('port', 5432)}/{named.get('dbname', '')}"
        seconds = str(named.get("connect_timeout", ""))
        self._patience = int(seconds) if seconds.isdecimal() and int(seconds) else CONNECT_SECONDS
        wanted = {**HEARD_FROM, **named, "connect_timeout": self._patience, "autocommit": True}
        with self.translate_errors():
            # By hand first: the pool would only say that it waited in vain.
            with psycopg.connect(**wanted) as connection:
                self.read_only = connection.execute("SHOW transaction_read_only").fetchone() == ("on",)
                self._migrate(connection)
            self._pool = ConnectionPool(
                kwargs=wanted,
                min_size=1,
                max_size=MOST_CONNECTIONS,
                timeout=self._patience,
                # Its pauses between attempts double until then: a server that was away for long is soon used again.
                reconnect_timeout=self._patience,
                check=ConnectionPool.check_connection,
                open=True,
            )

    @property
    def address(self) -> str:
        """Which server and database this is; nothing secret."""
        return f"postgresql://{self._server}"

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection of this thread's own for the block; the same one within a block around it."""
        held = getattr(self._own, "connection", None)
        if held is not None:
            yield held
            return
        with self.translate_errors(), self._pool.connection() as connection:
            yield connection

    def rows(self, sql: str, values: object = (), *, binary: bool = False) -> list[tuple[Any, ...]]:
        """Run a statement and return all its rows; the types of their values are the schema's."""
        with self.connection() as connection:
            cursor = connection.execute(sql, values, binary=binary)
            return list(cursor.fetchall()) if cursor.description else []

    def row(self, sql: str, values: object = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        found = self.rows(sql, values)
        return found[0] if found else None

    def number(self, sql: str, values: object = ()) -> int:
        """The first number of the first row; 0 if there is none."""
        row = self.row(sql, values)
        return int(row[0] or 0) if row else 0

    def copy(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], kinds: Sequence[str]) -> None:
        """Insert many rows in one stream; `kinds` names the columns' types."""
        if not rows:
            return
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        with self.connection() as connection, connection.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types(kinds)
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that writes: wholly, or not at all."""
        if self.read_only:
            raise StoreReadOnly(f"The PostgreSQL at {self._server} is a read replica; write to its primary instead.")
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction within which every read sees the same state; within another, that one."""
        if getattr(self._own, "connection", None) is not None:
            yield
            return
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    def close(self) -> None:
        """Let go of every connection; closing twice is fine."""
        self._pool.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self.connection() as connection:
            self._own.connection = connection
            try:
                connection.execute(begin)
                yield
                connection.execute("COMMIT")
            except BaseException:
                if not connection.closed:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._own.connection = None

    def _migrate(self, connection: Any) -> None:  # noqa: ANN401 - psycopg is there or not
        version = self._version(connection)
        if version > len(MIGRATIONS):
            raise NewerIndex(
                f"The index at {self._server} was written by a newer annai (its version is {version}, this annai knows "
                f"{len(MIGRATIONS)}); upgrade annai."
            )
        if version == len(MIGRATIONS) or self.read_only:
            if not version:
                raise StoreError(f"There is no annai index at {self._server}, and it cannot be written.")
            return
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('annai_schema'))")
            self._extend(connection)
            (installed,) = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
            if tuple(map(int, installed.split(".")[:2])) < OLDEST_PGVECTOR:
                raise StoreError(
                    f"The PostgreSQL at {self._server} has pgvector {installed}, and annai needs 0.8 or newer; install "
                    "it there and run `ALTER EXTENSION vector UPDATE`."
                )
            # Another process may have done it while this one waited for its turn.
            for number in range(self._version(connection), len(MIGRATIONS)):
                connection.execute(MIGRATIONS[number])
            connection.execute("CREATE TABLE IF NOT EXISTS annai_schema (version integer NOT NULL)")
            connection.execute("DELETE FROM annai_schema")
            connection.execute("INSERT INTO annai_schema VALUES (%s)", (len(MIGRATIONS),))

    def _extend(self, connection: Any) -> None:  # noqa: ANN401 - psycopg is there or not
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"The database at {self._server} lacks the extension pgvector, and the user of store.url may not "
                "create it; let a superuser run `CREATE EXTENSION vector` in this database."
            ) from error

    @staticmethod
    def _version(connection: Any) -> int:  # noqa: ANN401 - psycopg is there or not
        if connection.execute("SELECT to_regclass('annai_schema')").fetchone() == (None,):
            return 0
        row = connection.execute("SELECT version FROM annai_schema").fetchone()
        return int(row[0]) if row else 0

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn PostgreSQL's errors into sentences."""
        try:
            yield
        except (errors.DiskFull, errors.OutOfMemory) as error:
            raise StoreFull(
                f"The PostgreSQL at {self._server} has no space left; free some and run the command again."
            ) from error
        except errors.ReadOnlySqlTransaction as error:
            raise StoreReadOnly(
                f"The PostgreSQL at {self._server} cannot be written now; write to its primary, or try again."
            ) from error
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"The user of store.url may not do this at {self._server} ({_first_line(error)}); let its owner grant "
                "the right to make tables, as `GRANT ALL ON SCHEMA public TO …` does."
            ) from error
        except (errors.UndefinedFile, errors.FeatureNotSupported) as error:
            raise StoreError(
                f"The PostgreSQL at {self._server} lacks the extension pgvector; install it there "
                "(the package is often named postgresql-17-pgvector) and run the command again."
            ) from error
        except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
            raise StoreError(
                f"The index at {self._server} lacks a part ({_first_line(error)}); see that store.url names the right "
                "database and schema."
            ) from error
        except PoolTimeout as error:
            raise StoreError(_unreachable(self._server, f"no connection within {self._patience} seconds")) from error
        except psycopg.OperationalError as error:
            raise StoreError(self._told(error)) from error
        except psycopg.DatabaseError as error:
            text = _first_line(error)
            if any(word in text for word in _CANNOT_GROW):
                raise StoreFull(
                    f"The PostgreSQL at {self._server} cannot write more ({text}); see that its disk and its quota "
                    "have space, and run the command again."
                ) from error
            raise StoreError(f"The PostgreSQL at {self._server} refused: {text}.") from error

    def _told(self, error: Exception) -> str:
        text = _first_line(error)
        if any(word in text for word in _REFUSED):
            return f"The PostgreSQL at {self._server} does not take this user and password; correct store.url."
        if any(word in text for word in _MISSING):
            return f"The PostgreSQL at {self._server} says: {text}; correct store.url, or create what is missing."
        return _unreachable(self._server, text)


def escape(text: str) -> str:
    """A text as PostgreSQL can hold it: the same one, unless it has a NUL in it."""
    if SHIFT not in text and "\0" not in text:
        return text
    return text.replace(SHIFT, SHIFT + "1").replace("\0", SHIFT + "0")


def unescape(text: str) -> str:
    """The text that was kept."""
    return text.replace(SHIFT + "0", "\0").replace(SHIFT + "1", SHIFT) if SHIFT in text else text


def _parts(url: str) -> dict[str, Any]:
    """What a URL says, part by part."""
    try:
        parts: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise StoreError(
            "store.url is not one of PostgreSQL; write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE."
        ) from error
    ports = str(parts.get("port") or 0).split(",")
    if not all(port.isdigit() for port in ports) or "@" in f"{parts.get('host')}{parts.get('dbname')}":
        # Parts of the password were taken for something else, and would be shown as such.
        raise StoreError(
            "store.url cannot be understood; if its password has one of @ / : % in it, write these as %40 %2F %3A %25."
        )
    return parts


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["it gave no reason"])[0].rstrip(".")


def _unreachable(place: str, reason: str) -> str:
    return (
        f"The PostgreSQL at {place} cannot be reached ({reason}); see that it runs and that store.url is right. "
        "Nothing is lost: what was not written is done again."
    )
