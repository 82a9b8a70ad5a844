"""How is the index brought up to date for an agent, and what does the agent hear meanwhile?"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from typing import TypeVar

from annai.errors import AnnaiError, EmbedderMismatch, ServerError
from annai.interfaces.mcp.access import Access
from annai.project import Progress, Project
from annai.types import IMPLICIT_COLLECTION, Freshness, ImportSummary

T = TypeVar("T")

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells the client how far a request is: done, of how many, in words."""

FIRST_INDEX_SECONDS = 40.0
"""How long a first search waits for the index; clients give up on a tool after a minute."""

REPORT_SECONDS = 0.3
"""How often progress is told."""

REFRESH_SHARE, LONGEST_PAUSE = 0.05, 5.0
"""Comparing with the disk before every search takes at most this share of the time, while the worker watches; after so
many seconds a search looks in any case."""

SMALL_QUEUE = 20
"""Requests that are looked at one by one."""

THREADS = 8
"""Calls that are at work at once; the others wait for their turn."""


class Indexing:
    """Works with the project in threads, and tells how that goes on."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._threads = ThreadPoolExecutor(THREADS, "mcp")
        self._long = ThreadPoolExecutor(1, "mcp-long")
        self._stopping = threading.Event()
        self._next_refresh: dict[tuple[str, ...], float] = {}
        self._filled: set[tuple[str, ...]] = set()
        """Which collections, searched together, are known to hold something."""
        self._is_behind = False
        """Whether files were left waiting when the disk was last looked at."""

    async def use(self, work: Callable[[Project], T], *, is_long: bool = False) -> T:
        """Do something with the project, without holding up other requests."""
        threads = self._long if is_long else self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, self._access.use, work)

    def close(self) -> None:
        """Let what is at work come to its end; what has not begun is dropped."""
        self._stopping.set()
        for threads in (self._threads, self._long):
            threads.shutdown(wait=False, cancel_futures=True)

    async def refresh(self, names: tuple[str, ...], report: Report) -> Freshness:
        """Bring what a search of these collections looks at up to date.

        It never waits long, except for the first index: without it there is nothing to search. What stands in its
        way is told, and need not keep the old state from being searched.
        """
        if time.monotonic() < self._next_refresh.get(names, 0.0):
            return Freshness()
        try:
            return await self._refresh(names, report)
        except AnnaiError as error:
            return Freshness(problem=str(error))

    async def _refresh(self, names: tuple[str, ...], report: Report) -> Freshness:
        start = time.monotonic()
        is_first = names not in self._filled and await self.use(lambda project: _is_empty(project, names))
        self._filled |= set() if is_first else {names}
        if self._is_behind and not is_first and (waiting := await self.use(_waiting)):
            # Much is being indexed: a search does without it, and asking for it again would only hold it up.
            return Freshness(waiting)
        telling = _Telling(report)
        freshness = await self._told(lambda project, _: project.refresh(names), telling)
        took, waiting = time.monotonic() - start, freshness.waiting
        while waiting and is_first and time.monotonic() < start + FIRST_INDEX_SECONDS:
            await telling.tell_queue(waiting)
            await asyncio.sleep(REPORT_SECONDS)
            waiting = await self.use(_waiting)
        self._is_behind = bool(waiting)
        if self._access.config.watcher.enabled and not waiting:
            self._next_refresh[names] = time.monotonic() + min(took / REFRESH_SHARE, LONGEST_PAUSE)
        return Freshness(waiting, freshness.problem)

    async def reindex(self, paths: Sequence[str], force: bool, report: Report) -> ImportSummary:
        """Compare everything, or what lies under the paths, with the disk, and index what differs."""
        self._next_refresh.clear()
        return await self._told(
            lambda project, progress: _reindex(project, paths, force, progress), _Telling(report), is_long=True
        )

    async def _told(self, work: Callable[[Project, Progress], T], telling: "_Telling", *, is_long: bool = False) -> T:
        """Do something that may take long, and tell how far it is: as it says itself, or as the queue shows it."""
        abandoned = threading.Event()
        latest: list[tuple[int, int]] = []

        def progress(done: int, total: int) -> None:
            if abandoned.is_set() or self._stopping.is_set():
                raise ServerError("This was cancelled; what was indexed so far is kept.")
            latest[:] = [(done, total)]

        working = asyncio.ensure_future(self.use(lambda project: work(project, progress), is_long=is_long))
        try:
            while not (await asyncio.wait({working}, timeout=REPORT_SECONDS))[0]:
                if latest:
                    await telling.tell(*latest[0])
                else:
                    await telling.tell_queue(await self.use(_waiting))
        except asyncio.CancelledError:
            abandoned.set()
            working.cancel()
            raise
        return working.result()


class _Telling:
    """Tells a client how far something is; what it is told only ever grows."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._told = -1
        self._most = 0

    async def tell(self, done: int, total: int) -> None:
        """So many files of so many are done."""
        if total and done > self._told:
            self._told = done
            await self._report(done, total, f"{done:,} of {total:,} files indexed")

    async def tell_queue(self, waiting: int) -> None:
        """The same, by how many files still wait."""
        self._most = max(self._most, waiting)
        await self.tell(self._most - waiting, self._most)


def _waiting(project: Project) -> int:
    """How many files are still to be indexed; those that failed and are tried again later do not count."""
    counts = project.status().requests
    pending, processing = counts.get("pending", 0), counts.get("processing", 0)
    if (
        not processing
        and pending <= SMALL_QUEUE
        and all(each.attempts for each in project.requests("pending", limit=SMALL_QUEUE))
    ):
        return 0
    return pending + processing


def _is_empty(project: Project, names: Sequence[str]) -> bool:
    return not any(project.document_paths(name) for name in names or searched(project))


def _reindex(project: Project, paths: Sequence[str], force: bool, progress: Progress) -> ImportSummary:
    try:
        return project.rebuild(paths, force=force, progress=progress)
    except EmbedderMismatch:
        if not force:
            raise
        return _anew(project, progress)


def _anew(project: Project, progress: Progress) -> ImportSummary:
    """Build every collection anew, which is what another embedding model asks for."""
    done = [project.import_collection(name, "replace", progress=progress) for name in searched(project)]
    return ImportSummary(*(sum(counts) for counts in zip(*map(astuple, done), strict=True)))


def searched(project: Project) -> list[str]:
    """The names of the collections that a search looks at: the enabled ones, or the project itself."""
    known = project.list_collections()
    return [each.name for each in known if each.enabled] if known else [IMPLICIT_COLLECTION]
