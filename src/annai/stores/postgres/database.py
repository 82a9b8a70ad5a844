"""How is a PostgreSQL database reached, upgraded and used, so that every error says what to do?"""

import functools
import logging
import re
import selectors
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from annai.errors import QueryError, StoreError, StoreFull, StoreReadOnly
from annai.settings import StoreSettings
from annai.stores.postgres.schema import MIGRATIONS
from annai.stores.postgres.upgrade import Connection, newer, open_place
from annai.stores.rows import NOT_TEXT

logger = logging.getLogger(__name__)
# The pool logs every attempt to connect again; what matters of it becomes an error of ours.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)

KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""A server whose machine has vanished is given up after a minute, not after hours, unless store.url says otherwise."""

ANSWER_GRACE_SECONDS = 5.0
"""How much longer than the server's own time limit to wait: a server that is frozen does not keep it."""

STATEMENT_CHARACTERS = 80
"""How much of a statement an error or the log shows."""

_WRONG_PASSWORD = ("password", "authentication failed", "認証に失敗")
_MISSING_DATABASE = ("does not exist", "存在しません")
_QUOTA_FULL = ("could not extend file", "拡張できませんでした")
"""What servers say, in English and in Japanese, where there is no error code: before a connection is made, and when not
the disk but a quota is full."""

_OWN_TABLES = "relnamespace = %s::regnamespace AND relkind = 'r' AND relname LIKE 'annai\\_%%'"
"""The condition on `pg_class` for the tables of an index in a schema."""

RECENT_SECONDS = 1.0
"""How long a server that has answered is taken to be there, unless it closes the connection."""

_NAME = re.compile(r'(?<![\w."])annai_(?=[a-z])')
"""Where a statement names a table of annai's, whose schema is put before it."""


T = TypeVar("T")


class _NoAnswer(psycopg.OperationalError):  # type: ignore[misc]  # psycopg is optional, and has no types here
    """The server is there and says nothing."""


class _LimitedConnection(psycopg.Connection[Any]):  # type: ignore[misc]  # as above
    """A connection that is given up when the server does not answer in time."""

    seconds: float | None = None
    """How long a statement may take; None: as long as it needs."""
    is_pooled: bool = False
    """Whether a pooler is in between, which keeps no settings of ours: then this side ends what takes too long."""
    answered_at: float = 0.0
    """When the server last said something."""

    def execute(self, query: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - as psycopg has it
        """Run a statement, and log it: each is a way to the server and back."""
        log_statement(query)
        return super().execute(query, *args, **named)

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **named: Any) -> Any:  # noqa: ANN401 - as psycopg has it
        """Wait for the server, but no longer than the limit; whatever waits for it waits here."""
        answer = super().wait(gen if self.seconds is None else self._until(gen, self.seconds), *args, **named)
        self.answered_at = time.monotonic()
        return answer

    def is_there(self) -> bool:
        """Whether the server has just answered and has not said goodbye since: known without asking."""
        # Between statements it has nothing else to say.
        if time.monotonic() > self.answered_at + RECENT_SECONDS or self.closed:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(self.pgconn.socket, selectors.EVENT_READ)
            return not selector.select(0)

    def _until(self, gen: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
        deadline = time.monotonic() + seconds
        is_cancelled = not self.is_pooled
        try:
            state = next(gen)
            while True:
                ready = yield state
                # Nothing was ready: psycopg asks several times a second.
                if not ready and time.monotonic() > deadline and not is_cancelled:
                    with suppress(psycopg.Error):
                        self.cancel_safe(timeout=ANSWER_GRACE_SECONDS)
                    deadline, is_cancelled = time.monotonic() + ANSWER_GRACE_SECONDS, True
                elif not ready and time.monotonic() > deadline:
                    self.pgconn.finish()
                    raise _NoAnswer("it does not answer")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


class PostgresDatabase:
    """Connections to one database, shared by the threads of this process.

    A connection that was lost, because the server was restarted, is replaced when the next one is needed. Every error
    leaves as a `StoreError` whose message says what to do, and no message shows the password.
    """

    def __init__(self, settings: StoreSettings, project: str = "") -> None:
        self.read_only = False
        self.is_pooled = False
        """Whether a pooler such as PgBouncer is in between: a setting of one statement is not there for the next."""
        self._query_timeout_seconds = settings.query_timeout_seconds
        self._thread = threading.local()
        named = _parse_url(settings.url)
        self._server = f"{named.get('host', 'localhost')}:{named.get('port', 5432)}/{named.get('dbname', '')}"
        seconds = str(named.get("connect_timeout", ""))
        is_in_url = seconds.isdecimal() and int(seconds)
        self._timeout_seconds = int(seconds) if is_in_url else max(round(settings.connect_timeout_seconds), 1)
        options = {**KEEPALIVE, **named, "connect_timeout": self._timeout_seconds, "autocommit": True}
        with self.translate_errors():
            # Once without the pool, which would only say that it got no connection.
            with _LimitedConnection.connect(**options) as connection:
                connection.seconds = self._timeout_seconds
                # A pooler makes up the number of the process that a client sees.
                own = connection.execute("SELECT pg_backend_pid()").fetchone()
                self.is_pooled = own != (connection.info.backend_pid,)
                self.read_only = connection.execute("SHOW transaction_read_only").fetchone() == ("on",)
                connection.seconds = None
                place = open_place(connection, self._server, settings.schema, project, read_only=self.read_only)
            self.schema, self.vectors = place.schema, place.vectors
            self.read_only = self.read_only or place.is_newer
            self._is_newer = place.is_newer
            # What one client prepared in a pooler's connection, the next one does not know.
            prepare = {"prepare_threshold": None} if self.is_pooled else {}
            self._pool = ConnectionPool(
                connection_class=_LimitedConnection,
                configure=self._limit,
                kwargs=options | prepare,
                min_size=1,
                max_size=settings.max_connections,
                timeout=self._timeout_seconds,
                # Its pauses between attempts double up to this: a server that was away for long is soon used again.
                reconnect_timeout=self._timeout_seconds,
                check=self._check,
                open=True,
            )

    @property
    def address(self) -> str:
        """The server and the database; nothing secret."""
        return f"postgresql://{self._server}"

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for the block, used by this thread only; within another such block, the same one."""
        current = getattr(self._thread, "connection", None)
        if current is not None:
            yield current
            return
        with self.translate_errors(), self._pool.connection() as connection:
            yield connection

    def rows(self, sql: str, values: object = (), *, binary: bool = False) -> list[tuple[Any, ...]]:
        """Run a statement and return all its rows; the types of their values are the schema's."""
        with self.connection() as connection, self._report_timeout(sql):
            cursor = connection.execute(self.qualify(sql), values, binary=binary)
            return list(cursor.fetchall()) if cursor.description else []

    def rows_with(self, settings: Mapping[str, object], sql: str, values: object = ()) -> list[tuple[Any, ...]]:
        """The same with settings for the rest of the transaction, in one exchange: the values are in the statement."""
        own = "".join(f"SET LOCAL {name} = {value}; " for name, value in settings.items())
        with self.connection() as connection, self._report_timeout(sql):
            log_statement(own + sql)
            cursor = psycopg.ClientCursor(connection)
            cursor.execute(own + self.qualify(sql), values)
            while cursor.nextset():
                pass
            return list(cursor.fetchall())

    def qualify(self, sql: str) -> str:
        """The statement with the schema before the names of annai's tables: so it needs no search_path."""
        return _qualify(sql, self.schema)

    def lock_name(self, name: str) -> str:
        """What an advisory lock of this index is the hash of."""
        return f"{self.schema.strip(chr(34))}.annai_{name}"

    def row(self, sql: str, values: object = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def number(self, sql: str, values: object = ()) -> int:
        """The first number of the first row; 0 if there is none."""
        row = self.row(sql, values)
        return int(row[0] or 0) if row else 0

    def copy(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], kinds: Sequence[str]) -> None:
        """Insert many rows in one stream; `kinds` names the columns' types."""
        if not rows:
            return
        sql = f"COPY {self.schema}.{table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        with (
            self.connection() as connection,
            self._report_timeout(sql),
            connection.cursor() as cursor,
            cursor.copy(sql) as copy,
        ):
            copy.set_types(kinds)
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that writes: wholly, or not at all."""
        if self._is_newer:
            raise newer(self._server, self.number("SELECT version FROM annai_schema"))
        if self.read_only:
            raise StoreReadOnly(
                f"The PostgreSQL at {self._server} can only be read with this store.url (it is a read replica, or its "
                "user may not write)",
                "change the index on the machine that indexes it.",
            )
        with self._transaction("BEGIN"):
            # Whoever upgrades the index waits for this transaction, or this one for the upgrade.
            self.rows("SELECT pg_advisory_xact_lock_shared(hashtext(%s))", (self.lock_name("schema"),))
            if (version := self.number("SELECT version FROM annai_schema")) > len(MIGRATIONS):
                raise newer(self._server, version)
            yield

    @contextmanager
    def reading(self, sql: str, make: Callable[[tuple[Any, ...]], T]) -> Iterator[T]:
        """A transaction within which every read sees the same state; within another, that one.

        Yields what is made of the row of a statement, which has no values: it is read with the beginning, and once.
        """
        known = getattr(self._thread, "known", None)
        if known is not None:
            yield known
            return
        current = getattr(self._thread, "connection", None)
        if current is not None and current.info.transaction_status != TransactionStatus.IDLE:
            yield make(self.rows(sql)[0])
            return
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._report_timeout(sql), self._transaction(f"{begin}; {self.qualify(sql)}") as cursor:
            cursor.nextset()
            self._thread.known = known = make(cursor.fetchone())
            try:
                yield known
            finally:
                self._thread.known = None

    @contextmanager
    def unlimited(self) -> Iterator[Connection]:
        """Within the block, which uses one connection, statements take as long as they need: upkeep, not searches."""
        with self.connection() as connection, self._pin(connection):
            limit, connection.seconds = connection.seconds, None
            if not self.is_pooled:
                connection.execute("SET statement_timeout = 0")
            with clean_up(lambda: self._limit(connection)):
                try:
                    yield connection
                finally:
                    connection.seconds = limit

    @contextmanager
    def advisory_lock(self, name: str, *, shared: bool = False) -> Iterator[bool]:
        """Hold a lock within the block, which is lost with this process; yields whether nobody held it.

        Others may hold a shared one too, and whoever holds it alone is waited for.
        """
        # In a transaction of its own, so that a pooler does not give the connection to others meanwhile.
        with self.translate_errors(), self._pool.connection() as connection:
            connection.execute("BEGIN")
            with clean_up(lambda: connection.execute("ROLLBACK")):
                lock = "pg_advisory_xact_lock_shared" if shared else "pg_try_advisory_xact_lock"
                row = connection.execute(f"SELECT {lock}(hashtext(%s))", (self.lock_name(name),)).fetchone()
                # It also ends the statement before, whose view of the index others would wait for.
                connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                yield row != (False,)

    def size_on_disk(self) -> int:
        """Bytes that the tables and their indexes take on the server."""
        return self.number(f"SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE {_OWN_TABLES}", (self.schema,))

    def vacuum(self) -> None:
        """PostgreSQL's own vacuum of every table."""
        with self.unlimited():
            for (table,) in self.rows(f"SELECT relname FROM pg_class WHERE {_OWN_TABLES}", (self.schema,)):
                self.rows(f"VACUUM (ANALYZE) {table}")

    def close(self) -> None:
        """Close every connection; closing twice is fine."""
        self._pool.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Any]:
        """A transaction; yields the cursor of the statements that begin it."""
        with self.connection() as connection, self._pin(connection):
            try:
                cursor = connection.execute(begin, prepare=False)
                if connection.seconds is None:
                    connection.execute("SET LOCAL statement_timeout = 0")
                yield cursor
                connection.execute("COMMIT")
            except BaseException:
                # The first error is the one to report; without its connection a transaction is rolled back anyway.
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _pin(self, connection: Connection) -> Iterator[None]:
        """Within the block this thread uses no other connection."""
        before = getattr(self._thread, "connection", None)
        self._thread.connection = connection
        try:
            yield
        finally:
            self._thread.connection = before

    @contextmanager
    def _report_timeout(self, sql: str) -> Iterator[None]:
        """Say which statement took too long."""
        try:
            yield
        except (_NoAnswer, errors.QueryCanceled) as error:
            statement = " ".join(sql.split())[:STATEMENT_CHARACTERS]
            raise StoreError(
                f"The PostgreSQL at {self._server} did not finish {statement!r} in time ({_first_line(error)})",
                f"check "
                f"whether it is overloaded or locked, or raise store.query_timeout_seconds (now "
                f"{self._query_timeout_seconds:g}). Nothing is lost: what was not written is indexed again later.",
            ) from error

    def _limit(self, connection: Connection) -> None:
        """Let the server end a statement that takes too long, unless it is set to end it earlier."""
        connection.is_pooled = self.is_pooled
        connection.seconds = self._query_timeout_seconds + (0.0 if self.is_pooled else ANSWER_GRACE_SECONDS)
        if self.is_pooled:
            return
        connection.execute("RESET statement_timeout")
        connection.execute(
            """SELECT set_config('statement_timeout', %s, false) FROM pg_settings
            WHERE name = 'statement_timeout' AND (setting::bigint = 0 OR setting::bigint > %s)""",
            (f"{self._query_timeout_seconds:.3f}s", self._query_timeout_seconds * 1000),
        )

    def _check(self, connection: Connection) -> None:
        """Whether the server still answers; it need not wait for anything to do so."""
        if connection.is_there():
            return
        limit, connection.seconds = connection.seconds, self._timeout_seconds
        ConnectionPool.check_connection(connection)
        connection.seconds = limit

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn PostgreSQL's errors into sentences."""
        try:
            yield
        except UnicodeEncodeError as error:
            raise QueryError(NOT_TEXT) from error
        except (errors.DiskFull, errors.OutOfMemory) as error:
            raise StoreFull(
                f"The PostgreSQL at {self._server} has no space left", "free some and run the command again."
            ) from error
        except errors.ReadOnlySqlTransaction as error:
            raise StoreReadOnly(
                f"The PostgreSQL at {self._server} cannot be written now", "write to its primary, or try again."
            ) from error
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"The user of store.url may not do this at {self._server} ({_first_line(error)})",
                "let its owner grant the right to make tables, as `GRANT ALL ON SCHEMA public TO …` does.",
            ) from error
        except (errors.UndefinedFile, errors.FeatureNotSupported) as error:
            raise StoreError(
                f"The PostgreSQL at {self._server} lacks the extension pgvector",
                "install it there (the package is often named postgresql-17-pgvector) and run the command again.",
            ) from error
        except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
            raise StoreError(
                f"A table of the index at {self._server} is missing ({_first_line(error)})",
                "check that store.url names the right database and schema.",
            ) from error
        except PoolTimeout as error:
            raise StoreError(
                _unreachable(self._server, f"no connection within {self._timeout_seconds} seconds")
            ) from error
        except psycopg.OperationalError as error:
            raise StoreError(self._connection_message(error)) from error
        except psycopg.DatabaseError as error:
            text = _first_line(error)
            if any(word in text for word in _QUOTA_FULL):
                raise StoreFull(
                    f"The PostgreSQL at {self._server} cannot write more ({text})",
                    "check that its disk and its quota have space, and run the command again.",
                ) from error
            raise StoreError(f"The PostgreSQL at {self._server} refused: {text}.") from error

    def _connection_message(self, error: Exception) -> str:
        text = _first_line(error)
        if any(word in text for word in _WRONG_PASSWORD):
            return f"The PostgreSQL at {self._server} does not accept this user and password; correct store.url."
        if any(word in text for word in _MISSING_DATABASE):
            return f"The PostgreSQL at {self._server} says: {text}; correct store.url, or create what is missing."
        if "startup parameter" in text:
            return (
                f"The pooler at {self._server} does not take the options in store.url ({text}); name the schema in "
                "store.schema and remove them."
            )
        return _unreachable(self._server, text)


def log_statement(sql: object) -> None:
    """Log a statement on one line."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("[postgres] %s", " ".join(str(sql).split())[:STATEMENT_CHARACTERS] or "are you there?")


@functools.lru_cache(maxsize=512)
def _qualify(sql: str, schema: str) -> str:
    return _NAME.sub(f"{schema}.annai_", sql)


@contextmanager
def clean_up(clean: Callable[[], object]) -> Iterator[None]:
    """Clean up after the block; if the block fails, its own error is the one to report."""
    try:
        yield
    except BaseException:
        with suppress(psycopg.Error):
            clean()
        raise
    clean()


def _parse_url(url: str) -> dict[str, Any]:
    """What a URL says, part by part."""
    try:
        parts: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise StoreError(
            "store.url is not a PostgreSQL URL", "write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE."
        ) from error
    ports = str(parts.get("port") or 0).split(",")
    if not all(port.isdigit() for port in ports) or "@" in f"{parts.get('host')}{parts.get('dbname')}":
        # Parts of the password were taken for something else, and would be shown.
        raise StoreError(
            "store.url cannot be understood",
            "if its password has one of @ / : % in it, write these as %40 %2F %3A %25.",
        )
    return parts


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["it gave no reason"])[0].rstrip(".")


def _unreachable(server: str, reason: str) -> str:
    return (
        f"The PostgreSQL at {server} cannot be reached ({reason}); check that it runs and that store.url is right. "
        "Nothing is lost: what was not written is indexed again later."
    )
