"""How would the queue behave with nothing to go wrong? The reference: rows in a dictionary."""

import dataclasses
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from annai.stores.base import LONGEST_PAUSE_SECONDS, PROCESS_ENDED, RequestResult, Requests, newest_first
from annai.stores.paths import is_under
from annai.stores.rows import SUPERSEDED
from annai.timer import timestamp
from annai.types import Request, RequestStatus

Value = Any
"""The value of any field of a request."""


class MemoryRequests(Requests):
    """Keeps the queue in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._rows: dict[int, Request] = {}
        self._due: dict[int, float] = {}
        self._open: dict[int, Request] = {}
        """The rows that are pending or being processed, oldest first."""
        self._of_path: dict[tuple[str, str], set[int]] = {}
        """Collection and path → the numbers of its rows among those."""

    def add(
        self, collection: str, paths: Iterable[str], *, pause: float = 0.0, error: str = "", first: bool = False
    ) -> list[int]:
        """Skip what is pending for these paths, then add new rows; those to be done first in front of the others."""
        with self._lock:
            unique = list(dict.fromkeys(paths))
            lowest = min(self._rows, default=1) - len(unique)
            added = []
            for index, path in enumerate(unique):
                for row in self._of(collection, path, "pending"):
                    self._change(row, status="skipped", completed_at=timestamp(), error=SUPERSEDED)
                number = lowest + index if first else next(self._numbers)
                self._due[number] = time.time() + pause if pause else 0.0
                self._keep(Request(number, collection, path, created_at=timestamp(), error=error))
                added.append(number)
            if first:
                self._rows, self._open = dict(sorted(self._rows.items())), dict(sorted(self._open.items()))
            return added

    def claim(self, limit: int, collections: Sequence[str] | None = None) -> list[Request]:
        """The oldest that are due."""
        with self._lock:
            due = (
                row
                for row in self._open.values()
                if row.status == "pending"
                and (collections is None or row.collection in collections)
                and self._is_due(row)
                and not self._of(row.collection, row.path, "processing")
            )
            claimed = [*itertools.islice(due, limit)]
            return [self._change(row, status="processing", started_at=timestamp()) for row in claimed]

    def finish(self, results: Sequence[RequestResult]) -> None:
        """One row each."""
        with self._lock:
            for result in results:
                row = self._rows.get(result.id)
                if row is None or row.status != "processing":
                    continue
                again = result.status == "pending" and not self._of(row.collection, row.path, "pending")
                self._due[row.id] = time.time() + result.pause
                self._change(
                    row,
                    status="skipped" if result.status == "pending" and not again else result.status,
                    completed_at="" if again else timestamp(),
                    error=result.error,
                    hash=result.hash,
                    attempts=row.attempts + (result.status == "pending"),
                )

    def record(self, ended: Sequence[Request]) -> None:
        """Under new numbers."""
        with self._lock:
            for each in ended:
                self._keep(dataclasses.replace(each, id=next(self._numbers)))

    def recover(self, *, died: bool = True) -> int:
        """Skip those whose path was queued again; the others are pending again."""
        with self._lock:
            recovered = [row for row in self._open.values() if row.status == "processing"]
            for row in recovered:
                newer = self._of(row.collection, row.path, "pending")
                if newer:
                    self._change(row, status="skipped", completed_at=timestamp(), error=SUPERSEDED)
                else:
                    newer = [self._change(row, status="pending", started_at="")]
                for each in newer if died else ():
                    self._change(each, attempts=each.attempts + 1, error=PROCESS_ENDED)
            return len(recovered)

    def pending(self, collection: str, paths: Sequence[str]) -> list[Request]:
        """By path."""
        with self._lock:
            return [row for path in dict.fromkeys(paths) for row in self._of(collection, path, "pending")]

    def get(self, ids: Sequence[int]) -> list[Request]:
        """By key."""
        with self._lock:
            return [self._rows[number] for number in sorted({*ids}, reverse=True) if number in self._rows]

    def counts(self, collections: Sequence[str] | None = None) -> dict[RequestStatus, int]:
        """By status."""
        with self._lock:
            rows = self._rows.values()
            return Counter(row.status for row in rows if collections is None or row.collection in collections)

    def latest(
        self,
        status: RequestStatus | None = None,
        collection: str = "",
        limit: int = 100,
        under: Sequence[str] | None = None,
    ) -> list[Request]:
        """The latest."""
        with self._lock:
            rows = [*self._rows.values()]
        wanted = (
            row
            for row in rows
            if status in (None, row.status)
            and collection in ("", row.collection)
            and (under is None or is_under(row.path, under))
        )
        return newest_first(wanted)[:limit]

    def due(self, collections: Sequence[str] | None = None) -> int:
        """What is being processed, and what is pending and due."""
        with self._lock:
            return len(
                {
                    (row.collection, row.path)
                    for row in self._open.values()
                    if (row.status == "processing" or self._is_due(row))
                    and (collections is None or row.collection in collections)
                }
            )

    def due_in(self, collections: Sequence[str] | None = None) -> float | None:
        """The earliest due time, from now."""
        with self._lock:
            due = [
                0.0 if self._is_due(row) else self._due[row.id] - time.time()
                for row in self._open.values()
                if row.status == "pending" and (collections is None or row.collection in collections)
            ]
        return max(min(due), 0.0) if due else None

    def prune(self, older_than: float) -> None:
        """Forget what ended before."""
        with self._lock:
            for row in [*self._rows.values()]:
                if row.status not in ("pending", "processing") and row.completed_at < timestamp(-older_than):
                    del self._rows[row.id]

    def forget(self, collection: str) -> None:
        """Drop a collection's requests."""
        with self._lock:
            for row in [each for each in self._rows.values() if each.collection == collection]:
                self._close(row)
                del self._rows[row.id]

    def is_waiting(self, collection: str, path: str) -> bool:
        """Whether a request for the file is pending or being processed."""
        with self._lock:
            return bool(self._of(collection, path, "pending") or self._of(collection, path, "processing"))

    def _is_due(self, row: Request) -> bool:
        return not 0 < self._due.get(row.id, 0.0) - time.time() <= LONGEST_PAUSE_SECONDS

    def _of(self, collection: str, path: str, status: RequestStatus) -> list[Request]:
        own = (self._rows[number] for number in sorted(self._of_path.get((collection, path), ())))
        return [row for row in own if row.status == status]

    def _change(self, row: Request, **values: Value) -> Request:
        changed = dataclasses.replace(row, **values)
        self._keep(changed)
        return changed

    def _keep(self, row: Request) -> None:
        self._rows[row.id] = row
        if row.status in ("pending", "processing"):
            self._open[row.id] = row
            self._of_path.setdefault((row.collection, row.path), set()).add(row.id)
        else:
            self._close(row)

    def _close(self, row: Request) -> None:
        self._open.pop(row.id, None)
        own = self._of_path.get((row.collection, row.path), set())
        own.discard(row.id)
        if not own:
            self._of_path.pop((row.collection, row.path), None)
