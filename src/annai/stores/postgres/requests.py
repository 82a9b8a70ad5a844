"""How do many machines share one queue? Each claims its own requests, and keeps them while it renews its lease."""

import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import uuid4

from annai.errors import StoreError
from annai.stores.base import LONGEST_PAUSE_SECONDS, PROCESS_ENDED, RequestResult, Requests
from annai.stores.postgres.database import PostgresDatabase
from annai.stores.postgres.rows import escape, unescape
from annai.stores.rows import REQUEST_COLUMNS, SUPERSEDED, Row, names
from annai.types import Request, RequestStatus

_IS_DUE = f"""(due_at <= clock_timestamp()
    OR due_at > clock_timestamp() + make_interval(secs => {LONGEST_PAUSE_SECONDS}))"""

HEARTBEATS_PER_LEASE = 3
"""How often a lease is renewed before it would end: one lost heartbeat must not end it."""


class PostgresRequests(Requests):
    """The queue, in the same database as the index.

    A claim is a lease of some seconds, which is renewed while its worker lives; then others may claim the request.
    """

    def __init__(self, database: PostgresDatabase, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._worker = uuid4().hex
        self._heartbeat: threading.Thread | None = None
        self._stop = threading.Event()

    def add(
        self, collection: str, paths: Iterable[str], *, pause: float = 0.0, error: str = "", first: bool = False
    ) -> list[int]:
        """Skip what is pending for these paths, then insert new rows."""
        escaped = [escape(path) for path in dict.fromkeys(paths)]
        with self._database.writing():
            self._lock_pending()
            self._database.rows(
                """UPDATE annai_requests SET status = 'skipped', completed_at = clock_timestamp(), error = %s
                WHERE status = 'pending' AND collection = %s AND path = ANY(%s)""",
                (SUPERSEDED, collection, escaped),
            )
            rows = self._database.rows(
                """INSERT INTO annai_requests (id, collection, path, error, due_at) OVERRIDING SYSTEM VALUE
                SELECT CASE WHEN %s THEN (SELECT least(min(id), 1) FROM annai_requests) - 1 - %s + position
                ELSE nextval(pg_get_serial_sequence('annai_requests', 'id')) END, %s, path, %s,
                CASE WHEN %s THEN clock_timestamp() + make_interval(secs => %s) ELSE '-infinity' END
                FROM unnest(%s::text[]) WITH ORDINALITY AS w (path, position) ORDER BY position RETURNING id""",
                (first, len(escaped), collection, escape(error), pause > 0, pause, escaped),
            )
        return [number for (number,) in rows]

    def claim(self, limit: int, collections: Sequence[str] | None = None) -> list[Request]:
        """Those that nobody else is claiming at the same moment; first, the claims of dead workers are released."""
        if self._database.number(
            "SELECT 1 FROM annai_requests WHERE status = 'processing' AND leased_until < clock_timestamp() LIMIT 1"
        ):
            self._release("o.leased_until < clock_timestamp()", ())
        with self._database.writing():
            rows = self._database.rows(
                f"""UPDATE annai_requests SET status = 'processing', started_at = clock_timestamp(), worker = %s,
                leased_until = clock_timestamp() + make_interval(secs => %s) WHERE id IN (
                    SELECT id FROM annai_requests p WHERE status = 'pending' AND {_IS_DUE}
                    AND (%s::text[] IS NULL OR collection = ANY(%s)) AND NOT EXISTS (
                        SELECT 1 FROM annai_requests q WHERE q.status = 'processing'
                        AND q.collection = p.collection AND q.path = p.path)
                    ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING {names(REQUEST_COLUMNS)}""",
                (self._worker, self._lease_seconds, _list(collections), _list(collections), limit),
            )
        if rows:
            self._start_heartbeat()
        return sorted(map(_request, rows), key=lambda request: request.id)

    def finish(self, results: Sequence[RequestResult]) -> None:
        """In one statement; a claim that was lost in the meantime is another worker's to finish."""
        rows = [(each.id, each.status, escape(each.error), each.hash, each.pause) for each in results]
        if not rows:
            return
        with self._database.writing():
            if any(result.status == "pending" for result in results):
                self._lock_pending()
            self._database.rows(
                """UPDATE annai_requests o SET status = CASE WHEN newer THEN 'skipped' ELSE r.status END,
                error = r.error, hash = r.hash, attempts = attempts + (r.status = 'pending')::int,
                completed_at = CASE WHEN r.status = 'pending' AND NOT newer THEN NULL ELSE clock_timestamp() END,
                due_at = clock_timestamp() + make_interval(secs => r.pause), worker = '', leased_until = NULL
                FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::float8[])
                    AS r (id, status, error, hash, pause), LATERAL (
                        SELECT r.status = 'pending' AND EXISTS (SELECT 1 FROM annai_requests n JOIN annai_requests p
                            USING (collection, path) WHERE p.id = r.id AND n.status = 'pending') AS newer) AS waiting
                WHERE o.id = r.id AND o.status = 'processing' AND o.worker = %s""",
                (*map(list, zip(*rows, strict=True)), self._worker),
            )

    def record(self, ended: Sequence[Request]) -> None:
        """In one statement."""
        rows = [
            (one.collection, escape(one.path), one.hash, one.status, escape(one.error), *_stamps(one)) for one in ended
        ]
        if rows:
            self._database.rows(
                """INSERT INTO annai_requests
                (collection, path, hash, status, error, created_at, started_at, completed_at)
                SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
                    %s::timestamptz[], %s::timestamptz[], %s::timestamptz[])""",
                tuple(map(list, zip(*rows, strict=True))),
            )

    def recover(self, *, died: bool = True) -> int:  # noqa: ARG002 - the leases tell who died
        """Only what this process claimed, and what nobody renews any more: others are processing the rest."""
        return self._release("o.worker = %s OR o.leased_until < clock_timestamp()", (self._worker,))

    def pending(self, collection: str, paths: Sequence[str]) -> list[Request]:
        """By the index of what is pending."""
        rows = self._database.rows(
            f"""SELECT {names(REQUEST_COLUMNS, "r")} FROM unnest(%s::text[]) AS w JOIN annai_requests r
            ON r.collection = %s AND r.path = w AND r.status = 'pending'""",
            (sorted({escape(path) for path in paths}), collection),
        )
        return [_request(row) for row in rows]

    def get(self, ids: Sequence[int]) -> list[Request]:
        """By key."""
        rows = self._database.rows(
            f"SELECT {names(REQUEST_COLUMNS)} FROM annai_requests WHERE id = ANY(%s) ORDER BY id DESC", (list(ids),)
        )
        return [_request(row) for row in rows]

    def counts(self, collections: Sequence[str] | None = None) -> dict[RequestStatus, int]:
        """By status."""
        rows = self._database.rows(
            """SELECT status, count(*) FROM annai_requests WHERE (%s::text[] IS NULL OR collection = ANY(%s))
            GROUP BY status""",
            (_list(collections), _list(collections)),
        )
        return dict(rows)

    def latest(
        self,
        status: RequestStatus | None = None,
        collection: str = "",
        limit: int = 100,
        under: Sequence[str] | None = None,
    ) -> list[Request]:
        """The latest."""
        paths = None if under is None else [escape(path) for path in under]
        rows = self._database.rows(
            f"""SELECT {names(REQUEST_COLUMNS)} FROM annai_requests WHERE (%s::text IS NULL OR status = %s)
            AND (%s = '' OR collection = %s) AND (%s::text[] IS NULL OR EXISTS (SELECT 1 FROM unnest(%s::text[]) AS w
                WHERE path = w OR (path > w || '/' AND path < w || '0')))
            ORDER BY completed_at DESC NULLS FIRST, id DESC LIMIT %s""",
            (status, status, collection, collection, paths, paths, limit),
        )
        return [_request(row) for row in rows]

    def due(self, collections: Sequence[str] | None = None) -> int:
        """Called before every search, so it reads only what is pending or processing."""
        if collections is not None and not collections:
            return 0
        return self._database.number(
            f"""SELECT count(DISTINCT (collection, path)) FROM annai_requests WHERE status IN ('pending', 'processing')
            AND (status = 'processing' OR {_IS_DUE})
            AND (%s::text[] IS NULL OR collection = ANY(%s))""",
            (_list(collections), _list(collections)),
        )

    def due_in(self, collections: Sequence[str] | None = None) -> float | None:
        """The earliest due time, from now, by the server's clock."""
        row = self._database.row(
            f"""SELECT min(CASE WHEN {_IS_DUE} THEN 0 ELSE extract(epoch FROM due_at - clock_timestamp()) END)::float8
            FROM annai_requests WHERE status = 'pending' AND (%s::text[] IS NULL OR collection = ANY(%s))""",
            (_list(collections), _list(collections)),
        )
        return max(float(row[0]), 0.0) if row and row[0] is not None else None

    def prune(self, older_than: float) -> None:
        """Delete what ended before."""
        with self._database.writing():
            self._database.rows(
                """DELETE FROM annai_requests WHERE status IN ('completed', 'failed', 'skipped')
                AND completed_at < clock_timestamp() - make_interval(secs => %s)""",
                (older_than,),
            )

    def close(self) -> None:
        """Stop renewing leases."""
        self._stop.set()
        if self._heartbeat is not None:
            self._heartbeat.join()

    def _release(self, which: str, values: tuple[object, ...]) -> int:
        """Make claims pending again, or skip them if their path was queued again; another's worker has died."""
        with self._database.writing():
            self._lock_pending()
            self._database.rows(
                f"""UPDATE annai_requests n SET attempts = attempts + 1, error = %s WHERE status = 'pending'
                AND EXISTS (SELECT 1 FROM annai_requests o WHERE o.status = 'processing' AND o.worker <> %s
                AND o.collection = n.collection AND o.path = n.path AND ({which}))""",
                (PROCESS_ENDED, self._worker, *values),
            )
            rows = self._database.rows(
                f"""UPDATE annai_requests o SET worker = '', leased_until = NULL, started_at = NULL,
                attempts = attempts + (worker <> %s)::int, (status, completed_at, error) = (SELECT
                    CASE WHEN newer THEN 'skipped' ELSE 'pending' END,
                    CASE WHEN newer THEN clock_timestamp() END,
                    CASE WHEN newer THEN %s WHEN o.worker <> %s THEN %s ELSE o.error END
                    FROM (SELECT EXISTS (SELECT 1 FROM annai_requests n WHERE n.status = 'pending'
                        AND n.collection = o.collection AND n.path = o.path) AS newer) AS compared)
                WHERE status = 'processing' AND ({which}) RETURNING id""",
                (self._worker, SUPERSEDED, self._worker, PROCESS_ENDED, *values),
            )
        return len(rows)

    def _lock_pending(self) -> None:
        """Make other transactions that add pending requests wait until this one ends."""
        self._database.rows("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._database.lock_name("requests"),))

    def _start_heartbeat(self) -> None:
        """Renew the leases of this process from now on."""
        if self._heartbeat is None:
            self._heartbeat = threading.Thread(target=self._renew_leases, name="annai-lease", daemon=True)
            self._heartbeat.start()

    def _renew_leases(self) -> None:
        while not self._stop.wait(self._lease_seconds / HEARTBEATS_PER_LEASE):
            try:
                self._database.rows(
                    """UPDATE annai_requests SET leased_until = clock_timestamp() + make_interval(secs => %s)
                    WHERE status = 'processing' AND worker = %s""",
                    (self._lease_seconds, self._worker),
                )
            except StoreError:
                # The server is away. The indexer gets the same error; the next heartbeat tries again.
                continue


def _request(row: Row) -> Request:
    number, collection, path, digest, status, created, started, completed, error, attempts = row
    times = (_time(created), _time(started), _time(completed))
    return Request(number, collection, unescape(path), digest, status, *times, unescape(error), attempts)


def _stamps(request: Request) -> tuple[str, str, str]:
    return request.created_at, request.started_at, request.completed_at


def _time(moment: datetime | None) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds") if moment else ""


def _list(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)
