"""How is the index brought up to date for an agent, and how is progress reported meanwhile?"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from annai.answers import Freshness
from annai.errors import AnnaiError, EmbedderMismatch, ServerError
from annai.interfaces.mcp.access import Access
from annai.project import Done, Progress, Project
from annai.types import IMPLICIT_COLLECTION, ImportSummary

T = TypeVar("T")

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Reports progress to the client: done, of how many, in words."""

FIRST_INDEX_SECONDS = 40.0
"""How long a first search waits for the index; clients give up on a tool after a minute."""

REPORT_SECONDS = 0.3
"""How often progress is reported."""

SMALL_QUEUE = 20
"""Up to this many waiting requests are looked at one by one."""

THREADS = 8
"""Calls that run at once; others wait."""


class Indexing:
    """Works with the project in threads, and reports progress."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._threads = ThreadPoolExecutor(THREADS, "mcp")
        self._long = ThreadPoolExecutor(1, "mcp-long")
        self._stopping = threading.Event()

    async def use(self, work: Callable[[Project], T], *, is_long: bool = False) -> T:
        """Do something with the project, without delaying other requests."""
        threads = self._long if is_long else self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, self._access.use, work)

    def close(self) -> None:
        """Let running calls finish; drop those that have not started."""
        self._stopping.set()
        for threads in (self._threads, self._long):
            threads.shutdown(wait=False, cancel_futures=True)

    async def refresh(self, names: tuple[str, ...], report: Report, *, wait: bool = True) -> Freshness:
        """Bring what a search of these collections looks at up to date.

        It waits long only for a first index of which nothing is there to be searched yet, and only if `wait` says so. A
        problem is reported with the answer, and the index can be searched as it is.
        """
        try:
            # Asked every time: somebody may have deleted the index.
            is_empty = await self.use(lambda project: _is_empty(project, names))
            return await self._refresh(names, report, wait=wait and is_empty)
        except AnnaiError as error:
            return Freshness(problem=str(error))

    async def _refresh(self, names: tuple[str, ...], report: Report, *, wait: bool) -> Freshness:
        start = time.monotonic()
        reporter = _ProgressReporter(report)
        freshness = await self._run_with_progress(lambda project, _: project.refresh(names, wait=False), reporter)
        while freshness.is_first and wait and time.monotonic() < start + FIRST_INDEX_SECONDS:
            await reporter.report_waiting(freshness.waiting)
            await asyncio.sleep(REPORT_SECONDS)
            waiting = await self.use(_waiting_files)
            freshness = replace(freshness, waiting=waiting, is_first=waiting > 0)
        return freshness

    async def reindex(self, paths: Sequence[str], force: bool, report: Report) -> ImportSummary:
        """Compare everything, or what lies under the paths, with the disk, and index what differs."""
        return await self._run_with_progress(
            lambda project, progress: _reindex(project, paths, force, progress),
            _ProgressReporter(report),
            is_long=not paths,
        )

    async def _run_with_progress(
        self, work: Callable[[Project, Progress], T], reporter: "_ProgressReporter", *, is_long: bool = False
    ) -> T:
        """Do something that may take long and report its progress: its own, or that of the queue."""
        abandoned = threading.Event()
        latest: list[tuple[int, int]] = []

        def progress(done: Done) -> None:
            if abandoned.is_set() or self._stopping.is_set():
                raise ServerError("This was cancelled", "what was indexed so far is kept.")
            latest[:] = [(done.files, done.total)]

        working = asyncio.ensure_future(self.use(lambda project: work(project, progress), is_long=is_long))
        try:
            while not (await asyncio.wait({working}, timeout=REPORT_SECONDS))[0]:
                if latest:
                    await reporter.report_done(*latest[0])
                else:
                    await reporter.report_waiting(await self.use(_waiting_files))
        except asyncio.CancelledError:
            abandoned.set()
            working.cancel()
            raise
        return working.result()


class _ProgressReporter:
    """Reports progress to a client; the number done only ever grows."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._run_with_progress = -1
        self._most = 0

    async def report_done(self, done: int, total: int) -> None:
        """Report that this many files are done."""
        if total and done > self._run_with_progress:
            self._run_with_progress = done
            await self._report(done, total, f"{done:,} of {total:,} files indexed")

    async def report_waiting(self, waiting: int) -> None:
        """Report progress by how many files still wait."""
        self._most = max(self._most, waiting)
        await self.report_done(self._most - waiting, self._most)


def _waiting_files(project: Project) -> int:
    """How many files are still to be indexed; those that failed or keep changing, and wait for later, do not count."""
    counts = project.status().requests
    pending, processing = counts.get("pending", 0), counts.get("processing", 0)
    if (
        not processing
        and pending <= SMALL_QUEUE
        and all(each.attempts or each.error for each in project.requests("pending", limit=SMALL_QUEUE))
    ):
        return 0
    return pending + processing


def _is_empty(project: Project, names: Sequence[str]) -> bool:
    return not any(project.document_paths(name, limit=1) for name in names or searched_names(project))


def _reindex(project: Project, paths: Sequence[str], force: bool, progress: Progress) -> ImportSummary:
    try:
        return project.rebuild(paths, force=force, progress=progress)
    except EmbedderMismatch:
        if not force:
            raise
        return _replace_all(project, progress)


def _replace_all(project: Project, progress: Progress) -> ImportSummary:
    """Build every collection again, as another embedding model requires."""
    done = [project.import_collection(name, "replace", progress=progress) for name in searched_names(project)]
    return sum(done, ImportSummary())


def searched_names(project: Project) -> list[str]:
    """The names of the collections that a search looks at: the enabled ones, or the project itself."""
    known = project.list_collections()
    return [each.name for each in known if each.enabled] if known else [IMPLICIT_COLLECTION]
