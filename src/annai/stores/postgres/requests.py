"""How do many machines share one queue? Each claims its own requests, for as long as it shows that it lives."""

import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from annai.errors import StoreError
from annai.stores.base import RequestResult, Requests
from annai.stores.postgres.database import PostgresDatabase, escape, unescape
from annai.types import Request, RequestStatus

BEATS = 3
"""How often a claim is renewed in the time that it stands by itself: one lost beat must not end it."""

_COLUMNS = "id, collection, path, hash, status, created_at, started_at, completed_at, error, attempts"
_NEWER = "a newer request came"


class PostgresRequests(Requests):
    """The queue, in the same database as the index.

    A claim stands for `lease` seconds and is renewed while its worker lives; after that it goes back to the others.
    """

    def __init__(self, database: PostgresDatabase, lease: float) -> None:
        self._database = database
        self._lease = lease
        self._worker = uuid4().hex
        self._heart: threading.Thread | None = None
        self._stop = threading.Event()

    def add(self, collection: str, paths: Iterable[str]) -> list[int]:
        """The pending ones of these paths step back; new rows wait."""
        wanted = [escape(path) for path in dict.fromkeys(paths)]
        with self._database.writing():
            self._take_turns()
            self._database.rows(
                """UPDATE annai_requests SET status = 'skipped', completed_at = clock_timestamp(), error = %s
                WHERE status = 'pending' AND collection = %s AND path = ANY(%s)""",
                (_NEWER, collection, wanted),
            )
            rows = self._database.rows(
                """INSERT INTO annai_requests (collection, path)
                SELECT %s, path FROM unnest(%s::text[]) WITH ORDINALITY AS w (path, place) ORDER BY place
                RETURNING id""",
                (collection, wanted),
            )
        return [number for (number,) in rows]

    def claim(self, limit: int, collections: Sequence[str] | None = None) -> list[Request]:
        """Those that nobody else is claiming at the same moment; first, what dead workers left goes back."""
        if self._database.number(
            "SELECT 1 FROM annai_requests WHERE status = 'processing' AND leased_until < clock_timestamp() LIMIT 1"
        ):
            self._give_back("leased_until < clock_timestamp()", ())
        with self._database.writing():
            rows = self._database.rows(
                f"""UPDATE annai_requests SET status = 'processing', started_at = clock_timestamp(), worker = %s,
                leased_until = clock_timestamp() + make_interval(secs => %s) WHERE id IN (
                    SELECT id FROM annai_requests p WHERE status = 'pending' AND due_at <= clock_timestamp()
                    AND (%s::text[] IS NULL OR collection = ANY(%s)) AND NOT EXISTS (
                        SELECT 1 FROM annai_requests q WHERE q.status = 'processing'
                        AND q.collection = p.collection AND q.path = p.path)
                    ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING {_COLUMNS}""",
                (self._worker, self._lease, _list(collections), _list(collections), limit),
            )
        if rows:
            self._beat()
        return sorted(map(_request, rows), key=lambda request: request.id)

    def finish(self, outcomes: Sequence[RequestResult]) -> None:
        """One row each; a claim that was lost meanwhile is another's to finish."""
        with self._database.writing():
            if any(outcome.status == "pending" for outcome in outcomes):
                self._take_turns()
            for outcome in outcomes:
                again = outcome.status == "pending" and not self._database.number(
                    """SELECT 1 FROM annai_requests n JOIN annai_requests o USING (collection, path)
                    WHERE o.id = %s AND n.status = 'pending'""",
                    (outcome.id,),
                )
                self._database.rows(
                    """UPDATE annai_requests SET status = %s, error = %s, hash = %s, attempts = attempts + %s,
                    completed_at = CASE WHEN %s THEN NULL ELSE clock_timestamp() END,
                    due_at = clock_timestamp() + make_interval(secs => %s), worker = '', leased_until = NULL
                    WHERE id = %s AND status = 'processing' AND worker = %s""",
                    (
                        "skipped" if outcome.status == "pending" and not again else outcome.status,
                        escape(outcome.error),
                        outcome.hash,
                        int(outcome.status == "pending"),
                        again,
                        outcome.pause,
                        outcome.id,
                        self._worker,
                    ),
                )

    def recover(self) -> int:
        """Only what this process claimed, and what nobody renews any more: others are at the rest."""
        return self._give_back("worker = %s OR leased_until < clock_timestamp()", (self._worker,))

    def counts(self) -> dict[RequestStatus, int]:
        """By status."""
        return dict(self._database.rows("SELECT status, count(*) FROM annai_requests GROUP BY status"))

    def latest(self, status: RequestStatus | None = None, collection: str = "", limit: int = 100) -> list[Request]:
        """The latest, newest first."""
        rows = self._database.rows(
            f"""SELECT {_COLUMNS} FROM annai_requests WHERE (%s::text IS NULL OR status = %s)
            AND (%s = '' OR collection = %s) ORDER BY id DESC LIMIT %s""",
            (status, status, collection, collection, limit),
        )
        return [_request(row) for row in rows]

    def due(self, collections: Sequence[str] | None = None) -> int:
        """Asked before every search: it reads only those that wait."""
        return self._database.number(
            """SELECT count(*) FROM annai_requests WHERE status IN ('pending', 'processing')
            AND (status = 'processing' OR due_at <= clock_timestamp())
            AND (%s::text[] IS NULL OR collection = ANY(%s))""",
            (_list(collections), _list(collections)),
        )

    def due_in(self) -> float | None:
        """The earliest due time, from now, by the server's clock."""
        row = self._database.row(
            """SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float8 FROM annai_requests
            WHERE status = 'pending'"""
        )
        return max(float(row[0]), 0.0) if row and row[0] is not None else None

    def prune(self, older_than: float) -> None:
        """Delete what ended before."""
        with self._database.writing():
            self._database.rows(
                """DELETE FROM annai_requests WHERE status NOT IN ('pending', 'processing')
                AND completed_at < clock_timestamp() - make_interval(secs => %s)""",
                (older_than,),
            )

    def close(self) -> None:
        """Let the heart rest."""
        self._stop.set()
        if self._heart is not None:
            self._heart.join()

    def _give_back(self, which: str, values: tuple[object, ...]) -> int:
        """Claims become pending again, or step back for a newer request of the same path."""
        with self._database.writing():
            self._take_turns()
            rows = self._database.rows(
                f"""UPDATE annai_requests o SET worker = '', leased_until = NULL, started_at = NULL,
                (status, completed_at, error) = (SELECT
                    CASE WHEN newer THEN 'skipped' ELSE 'pending' END,
                    CASE WHEN newer THEN clock_timestamp() END,
                    CASE WHEN newer THEN %s ELSE o.error END
                    FROM (SELECT EXISTS (SELECT 1 FROM annai_requests n WHERE n.status = 'pending'
                        AND n.collection = o.collection AND n.path = o.path) AS newer) AS compared)
                WHERE status = 'processing' AND ({which}) RETURNING id""",
                (_NEWER, *values),
            )
        return len(rows)

    def _take_turns(self) -> None:
        """Let no two transactions make a request of the same path pending at once."""
        self._database.rows("SELECT pg_advisory_xact_lock(hashtext(current_schema() || '.annai_requests'))")

    def _beat(self) -> None:
        """See to it that this process's claims are renewed for as long as it has some."""
        if self._heart is None:
            self._heart = threading.Thread(target=self._renew, name="annai-lease", daemon=True)
            self._heart.start()

    def _renew(self) -> None:
        while not self._stop.wait(self._lease / BEATS):
            try:
                self._database.rows(
                    """UPDATE annai_requests SET leased_until = clock_timestamp() + make_interval(secs => %s)
                    WHERE status = 'processing' AND worker = %s""",
                    (self._lease, self._worker),
                )
            except StoreError:
                # The server is away. Whoever claimed something hears of it too; the next beat tries again.
                continue


def _request(row: tuple[Any, ...]) -> Request:
    number, collection, path, digest, status, created, started, completed, error, attempts = row
    return Request(
        number, collection, unescape(path), digest, status, _time(created), _time(started), _time(completed),
        unescape(error), attempts,
    )  # fmt: skip


def _time(moment: datetime | None) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds") if moment else ""


def _list(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)
