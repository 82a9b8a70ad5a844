"""How does an SQLite file hold the queue? One row a request, written in one step."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter

from annai.stores.base import LONGEST_PAUSE_SECONDS, PROCESS_ENDED, RequestResult, Requests
from annai.stores.rows import REQUEST_COLUMNS, SUPERSEDED, names
from annai.stores.sqlite.database import Database
from annai.timer import timestamp
from annai.types import Request, RequestStatus

_ENDED = attrgetter("collection", "path", "hash", "status", "created_at", "started_at", "completed_at", "error")


class SqliteRequests(Requests):
    """The queue, in the same file as the index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, collection: str, paths: Iterable[str], *, pause: float = 0.0, error: str = "", first: bool = False
    ) -> list[int]:
        """Skip what is pending for these paths, then insert new rows; without a pause they are due by any clock."""
        unique = list(dict.fromkeys(paths))
        wanted, now = json.dumps(unique), timestamp()
        with self._database.writing():
            self._database.rows(
                """UPDATE index_requests SET status = 'skipped', completed_at = ?, error = ?
                WHERE status = 'pending' AND collection = ? AND path IN (SELECT value FROM json_each(?))""",
                (now, SUPERSEDED, collection, wanted),
            )
            lowest = self._database.number("SELECT min(id) FROM index_requests") - len(unique) if first else None
            rows = self._database.rows(
                """INSERT INTO index_requests (id, collection, path, created_at, due_at, error)
                SELECT ? + key, ?, value, ?, ?, ? FROM json_each(?) WHERE true RETURNING id""",
                (lowest, collection, now, timestamp(pause) if pause else "", error, wanted),
            )
        return [number for (number,) in rows]

    def claim(self, limit: int, collections: Sequence[str] | None = None) -> list[Request]:
        """Mark and return, in one statement."""
        # By itself SQLite sorts all that is pending, and goes through all that is processing for each of them.
        with self._database.writing():
            rows = self._database.rows(
                f"""UPDATE index_requests SET status = 'processing', started_at = ?1 WHERE id IN (
                    SELECT id FROM index_requests p INDEXED BY pending_in_order
                    WHERE status = 'pending' AND (due_at <= ?1 OR due_at > ?2)
                    AND (?4 IS NULL OR collection IN (SELECT value FROM json_each(?4))) AND NOT EXISTS (
                        SELECT 1 FROM index_requests q INDEXED BY waiting_requests
                        WHERE q.status IN ('pending', 'processing') AND q.status = 'processing'
                        AND q.collection = p.collection AND q.path = p.path)
                    ORDER BY id LIMIT ?3) RETURNING {names(REQUEST_COLUMNS)}""",
                (timestamp(), timestamp(LONGEST_PAUSE_SECONDS), limit, _json(collections)),
            )
        return sorted((Request(*row) for row in rows), key=lambda request: request.id)

    def finish(self, results: Sequence[RequestResult]) -> None:
        """One row each, in one go."""
        now = timestamp()
        with self._database.writing():
            again = {result.id for result in results if result.status == "pending" and not self._is_queued(result.id)}
            self._database.insert(
                """UPDATE index_requests SET status = ?, completed_at = ?, error = ?, hash = ?, due_at = ?,
                attempts = attempts + ? WHERE id = ? AND status = 'processing'""",
                [
                    (
                        result.status if result.status != "pending" or result.id in again else "skipped",
                        "" if result.id in again else now,
                        result.error,
                        result.hash,
                        timestamp(result.pause) if result.pause else now,
                        result.status == "pending",
                        result.id,
                    )
                    for result in results
                ],
            )

    def record(self, ended: Sequence[Request]) -> None:
        """One row each, in one go."""
        with self._database.writing():
            self._database.insert(
                """INSERT INTO index_requests
                (collection, path, hash, status, created_at, started_at, completed_at, error)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
                [*map(_ENDED, ended)],
            )

    def _is_queued(self, number: int) -> bool:
        """Whether the path of a request was queued again."""
        return bool(
            self._database.number(
                """SELECT 1 FROM index_requests n JOIN index_requests o USING (collection, path)
                WHERE o.id = ? AND n.status = 'pending'""",
                (number,),
            )
        )

    def recover(self, *, died: bool = True) -> int:
        """Skip those whose path was queued again; the others are pending again."""
        with self._database.writing():
            if died:
                self._database.rows(
                    """UPDATE index_requests SET attempts = attempts + 1, error = ? WHERE status = 'pending'
                    AND (collection, path) IN (SELECT collection, path FROM index_requests
                    WHERE status = 'processing')""",
                    (PROCESS_ENDED,),
                )
            recovered = self._database.rows(
                """UPDATE index_requests SET status = 'skipped', completed_at = ?, error = ?
                WHERE status = 'processing' AND EXISTS (SELECT 1 FROM index_requests n
                WHERE n.status = 'pending' AND n.collection = index_requests.collection
                AND n.path = index_requests.path) RETURNING id""",
                (timestamp(), SUPERSEDED),
            )
            recovered += self._database.rows(
                """UPDATE index_requests SET status = 'pending', started_at = '', attempts = attempts + ?1,
                error = CASE WHEN ?1 THEN ?2 ELSE error END WHERE status = 'processing' RETURNING id""",
                (died, PROCESS_ENDED),
            )
        return len(recovered)

    def pending(self, collection: str, paths: Sequence[str]) -> list[Request]:
        """By the index of what is pending."""
        rows = self._database.rows(
            f"""SELECT {names(REQUEST_COLUMNS, "r")} FROM (SELECT DISTINCT value FROM json_each(?)) AS w CROSS JOIN
            index_requests r ON r.collection = ? AND r.path = w.value AND r.status = 'pending'""",
            (_json(paths), collection),
        )
        return [Request(*row) for row in rows]

    def get(self, ids: Sequence[int]) -> list[Request]:
        """By key."""
        rows = self._database.rows(
            f"""SELECT {names(REQUEST_COLUMNS)} FROM index_requests
            WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id DESC""",
            (json.dumps(list(ids)),),
        )
        return [Request(*row) for row in rows]

    def counts(self, collections: Sequence[str] | None = None) -> dict[RequestStatus, int]:
        """By status."""
        rows = self._database.rows(
            """SELECT status, count(*) FROM index_requests
            WHERE (?1 IS NULL OR collection IN (SELECT value FROM json_each(?1))) GROUP BY status""",
            (_json(collections),),
        )
        return dict(rows)

    def latest(
        self,
        status: RequestStatus | None = None,
        collection: str = "",
        limit: int = 100,
        under: Sequence[str] | None = None,
    ) -> list[Request]:
        """Those of one status come from an index that has them in this order."""
        rows = self._database.rows(
            f"""SELECT {names(REQUEST_COLUMNS)} FROM index_requests r
            WHERE {"status = ?1" if status else "?1 IS NULL"} AND (?2 = '' OR collection = ?2)
            AND (?3 IS NULL OR EXISTS (SELECT 1 FROM json_each(?3)
                WHERE r.path = value OR (r.path > value || '/' AND r.path < value || '0')))
            ORDER BY {"" if status else "completed_at = '' DESC,"} completed_at DESC, id DESC LIMIT ?4""",
            (status, collection, _json(under), limit),
        )
        return [Request(*row) for row in rows]

    def due(self, collections: Sequence[str] | None = None) -> int:
        """Called before every search, so it reads only what is pending or processing."""
        return self._database.number(
            """SELECT count(*) FROM (SELECT DISTINCT collection, path FROM index_requests INDEXED BY waiting_requests
            WHERE status IN ('pending', 'processing') AND (status = 'processing' OR due_at <= ?1 OR due_at > ?2)
            AND (?3 IS NULL OR collection IN (SELECT value FROM json_each(?3))))""",
            (timestamp(), timestamp(LONGEST_PAUSE_SECONDS), _json(collections)),
        )

    def due_in(self, collections: Sequence[str] | None = None) -> float | None:
        """The earliest due time, from now."""
        row = self._database.row(
            """SELECT min(CASE WHEN due_at > ?1 THEN '' ELSE due_at END) FROM index_requests WHERE status = 'pending'
            AND (?2 IS NULL OR collection IN (SELECT value FROM json_each(?2)))""",
            (timestamp(LONGEST_PAUSE_SECONDS), _json(collections)),
        )
        if row is None or row[0] is None:
            return None
        return max((datetime.fromisoformat(row[0]) - datetime.now(UTC)).total_seconds(), 0.0) if row[0] else 0.0

    def prune(self, older_than: float) -> None:
        """Delete what ended before."""
        with self._database.writing():
            self._database.rows(
                "DELETE FROM index_requests WHERE status IN ('completed', 'failed', 'skipped') AND completed_at < ?",
                (timestamp(-older_than),),
            )


def _json(names: Sequence[str] | None) -> str | None:
    return None if names is None else json.dumps(list(names))
