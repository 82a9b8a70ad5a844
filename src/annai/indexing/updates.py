"""Who works the queue off? One process at a time: this one, if no other is indexing."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from annai import collection as collections
from annai.asking.references import Part
from annai.config import Config
from annai.errors import AnnaiError, FilesGone, IndexBusy
from annai.indexing.comparison import Comparison
from annai.indexing.indexer import Indexer, Outcomes
from annai.indexing.lock import IndexLock
from annai.indexing.run import Run
from annai.project import Done, Progress
from annai.stores.base import Store
from annai.types import Collection, FileState, ImportSummary, LeftOut, Request, join_left_out

IMPORT_WAIT_SECONDS = 30.0
"""How long an import waits for another process that is indexing."""

POLL_SECONDS = 0.02

DAY_SECONDS = 86_400.0

logger = logging.getLogger(__name__)


class Updates:
    """Brings an index up to date, under the lock that lets one process index at a time."""

    def __init__(self, store: Store, config: Config, comparison: Comparison, indexer: Indexer, lock: IndexLock) -> None:
        self._store = store
        self._config = config
        self._comparison = comparison
        self._indexer = indexer
        self._lock = lock

    def replace(
        self,
        collection: Collection,
        *,
        allow_deletions: bool = False,
        adopt: bool = False,
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
        between: Callable[[], None] = lambda: None,
        timeout: float = IMPORT_WAIT_SECONDS,
    ) -> ImportSummary:
        """Index all of a collection anew; searches find what it held before until that is done.

        What waits in the queue is indexed meanwhile. `between` is called after each batch.
        """
        with (
            self.alone(timeout),
            self._store.replacing(collection.name) as mine,
            Run(self._config, progress, stop) as run,
            Run(self._config, stop=run.should_stop) as aside,
        ):
            if not mine:
                raise IndexBusy(
                    f"Another process is replacing the collection {collection.name!r}",
                    "try again when it has finished.",
                )

            def work_between() -> None:
                between()
                self._process_aside(aside)

            replaced = self._indexer.replace(
                collection, run, allow_deletions=allow_deletions, adopt=adopt, between=work_between
            )
            if replaced is None:
                return ImportSummary()
            self._store.apply_settings()
        summary = _summary(replaced.outcomes, run.done, {"unchanged": replaced.unchanged})
        return replace(_logged(summary), left_out=replaced.left_out)

    def update(
        self,
        parts: Sequence[Part],
        *,
        force: bool = False,
        allow_deletions: bool = False,
        adopt: bool = False,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Queue what changed in parts of collections, and index it while nobody else does.

        Where many files are gone, what else changed is indexed before `FilesGone` is raised.
        """
        totals = Counter[str]()
        requested = set[tuple[str, str]]()
        left_out: list[LeftOut] = []
        errors: list[FilesGone] = []
        with self.alone(), Run(self._config, progress) as run:
            for collection, only in parts:
                try:
                    found = self._comparison.request(
                        collection,
                        only,
                        force=force,
                        allow_deletions=allow_deletions,
                        adopt=adopt,
                        count_left_out=only is None,
                    )
                except FilesGone as error:
                    errors.append(error)
                else:
                    totals.update(unchanged=found.unchanged, deleted=found.deleted)
                    requested.update((collection.name, path) for path in found.paths)
                    left_out += found.left_out
            outcomes = self._process(run, IMPORT_WAIT_SECONDS)
            self._store.apply_settings()
        if errors:
            raise errors[0]
        # What others queued, and was as it was, is among those that did not change already.
        counted = {file: each for file, each in outcomes.items() if each != "unchanged" or file in requested}
        return replace(_logged(_summary(counted, run.done, totals)), left_out=join_left_out(left_out))

    def update_first(
        self,
        collection: Collection,
        only: Sequence[str] | None,
        *,
        force: bool,
        allow_deletions: bool,
        progress: Progress | None,
        wake: Callable[[], None],
    ) -> ImportSummary:
        """Index what changed under some paths before all else that waits, here or in the process that is indexing."""
        before = self._store.states(collection.name, only)
        requested = self._comparison.request(collection, only, force=force, first=True, allow_deletions=allow_deletions)
        numbers = requested.ids
        wake()
        attempts = {each.id: each.attempts for each in self._store.requests.get(numbers)}

        def count_open() -> int:
            return sum(_is_open(each, attempts[each.id]) for each in self._store.requests.get(numbers))

        deadline, fewest = time.monotonic() + IMPORT_WAIT_SECONDS, len(numbers)
        with Run(self._config, stop=lambda: not count_open()) as run:
            while count := count_open():
                if progress:
                    progress(Done(len(numbers) - count, len(numbers)))
                with self._lock.exclusive(timeout=POLL_SECONDS) as mine:
                    done = self._step(run) if mine else None
                if done or count < fewest:
                    deadline, fewest = time.monotonic() + IMPORT_WAIT_SECONDS, count
                elif time.monotonic() > deadline:
                    raise IndexBusy("Another process is indexing this project", "try again when it has finished.")
                else:
                    # Asking for many takes longer.
                    time.sleep(POLL_SECONDS * (1 + len(numbers) / 100))
        outcomes = Counter({"unchanged": requested.unchanged, "deleted": requested.deleted})
        requests = self._store.requests.get(numbers)
        after = self._store.states(collection.name, [each.path for each in requests])
        became = {each.path: _outcome(each, before.get(each.path), after.get(each.path)) for each in requests}
        outcomes.update(became.values())
        # Counted from the index, since another process may have done it.
        indexed = [path for path, outcome in became.items() if outcome in ("added", "updated")]
        sections = (each for path in indexed for each in self._store.sections(collection.name, path))
        size = sum(after[path].size for path in indexed)
        return _counted(outcomes, size, sum(each.section.is_passage for each in sections))

    def process(
        self,
        *,
        timeout: float,
        patience: float = 0.0,
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Outcomes:
        """Index what is due in the queue, and return what became of each file.

        If another process or thread is indexing, wait `timeout` seconds for it, and `patience` after each file that it
        finishes.
        """
        with Run(self._config, progress, stop) as run:
            outcomes = self._process(run, timeout, patience)
        if outcomes:
            _logged(_summary(outcomes, run.done))
        return outcomes

    def _process(self, run: Run, timeout: float, patience: float = 0.0) -> Outcomes:
        outcomes: Outcomes = {}
        deadline, due, fewest = time.monotonic() + timeout, 0, math.inf
        here = collections.here(self._store, self._config)
        # Counting what is due takes the longer the more is: it is counted again when what was counted is done.
        while not run.should_stop() and (due > 0 or (due := self._store.requests.due(here))):
            if due < fewest:
                fewest, deadline = due, max(deadline, time.monotonic() + patience)
            total = max(run.total, len(outcomes) + due)
            run.expect(total - due, total)
            with self._lock.exclusive(timeout=POLL_SECONDS) as mine:
                done = self._step(run) if mine else None
            # A file that was queued again while it was being indexed counts once, and as what became of it first.
            outcomes |= {
                file: each for file, each in (done or {}).items() if each != "unchanged" or file not in outcomes
            }
            due = due - len(done) if done else 0
            if not mine or (done is None and self._store.shared):
                if time.monotonic() >= deadline:
                    break
                time.sleep(POLL_SECONDS if mine else 0)
        if run.total:
            run.expect(run.total, run.total)
        if outcomes and not run.should_stop():
            self._store.requests.prune(self._config.worker.keep_days * DAY_SECONDS)
            self._store.tidy()
        run.check()
        self._indexer.log_times()
        return outcomes

    def _process_aside(self, run: Run) -> None:
        """Index what is due while something else is being built; what cannot be embedded now waits."""
        here = collections.here(self._store, self._config)
        try:
            while not run.should_stop() and self._store.requests.due(here) and self._indexer.step(run):
                pass
        except AnnaiError as error:
            logger.warning("%s", error)

    def _step(self, run: Run) -> Outcomes | None:
        """Index the oldest requests; if there are none, requeue what a process that died left unfinished."""
        outcomes = self._indexer.step(run)
        if outcomes is None:
            self._store.requests.recover()
            self._store.delete_abandoned(self._indexer.is_unfinished)
        return outcomes

    @contextmanager
    def alone(self, timeout: float = IMPORT_WAIT_SECONDS) -> Iterator[None]:
        """A block within which nobody else indexes; raises `IndexBusy` if another process does not finish in time."""
        with self._lock.exclusive(timeout=timeout) as mine:
            if not mine:
                raise IndexBusy("Another process is indexing this project", "try again when it has finished.")
            self._store.delete_abandoned(self._indexer.is_unfinished)
            yield

    def delete_abandoned(self) -> None:
        """Delete what a process that died was building, unless somebody is indexing."""
        with self._lock.exclusive() as mine:
            if mine:
                self._store.delete_abandoned(self._indexer.is_wanted)


def _is_open(request: Request, attempts: int) -> bool:
    """Whether a request is still to be done: one that failed and is tried again later is not."""
    return request.status == "processing" or (request.status == "pending" and request.attempts == attempts)


def _outcome(request: Request, before: FileState | None, after: FileState | None) -> str:
    """What became of a file, whoever indexed it."""
    if request.status in ("pending", "failed"):
        return "failed"
    if after is None:
        return "deleted" if before else "unchanged"
    if after.problem:
        return after.problem.kind
    if before is None or before.problem:
        return "added"
    return "updated" if request.status == "completed" else "unchanged"


def _logged(summary: ImportSummary) -> ImportSummary:
    """Log what a run did, in one line."""
    counts = ", ".join(f"{name}={count}" for name, count in summary.counts.items())
    logger.info("[index] summary: %s, passages=%d, bytes=%d", counts, summary.passages, summary.size)
    return summary


def _summary(outcomes: Outcomes, done: Done, others: Mapping[str, int] | None = None) -> ImportSummary:
    totals = Counter(others or {})
    totals.update(outcomes.values())
    return _counted(totals, done.size, done.passages)


def _counted(totals: Counter[str], size: int, passages: int) -> ImportSummary:
    return ImportSummary(
        added=totals["added"],
        updated=totals["updated"],
        deleted=totals["deleted"],
        unchanged=totals["unchanged"],
        skipped=totals["skipped"],
        failed=totals["failed"],
        size=size,
        passages=passages,
    )
