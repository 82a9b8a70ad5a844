"""What becomes of the queue? Requests are claimed, compared with the disk once more, indexed, and marked as done."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from annai.collection import check_owner, find, here
from annai.config import Config
from annai.errors import AnnaiError, CollectionError, EmbedderError, EmbedderMismatch, StoreError
from annai.files.scanner import Scan
from annai.indexing.comparison import Comparison, scan_collection, should_try
from annai.indexing.deletions import doubt_scan, keep_documents, record_origin
from annai.indexing.pipeline import Pipeline
from annai.indexing.preparation import TO_READ, Prepared
from annai.indexing.probe import KILLED_TWICE, find_killers
from annai.indexing.recipe import check_settings, fingerprint, record_settings
from annai.indexing.run import Run
from annai.stores.base import LONGEST_PAUSE_SECONDS, PROCESS_ENDED, STAGING_SUFFIX, RequestResult, Store
from annai.timer import timer, timestamp
from annai.types import Change, ChangeKind, Collection, LeftOut, Problem, Request

CLAIM_FILES, CLAIM_SHARE, CLAIM_SECONDS = 128, 1 / 32, 3.0
"""Requests taken from the queue at a time: at least so many, to embed them together, at least this share of a run,
since each time the folders of the files are listed, which must not grow faster than the work, and as many as take so
long, since those who prepare files wait while the last of them are written."""

RETRY_SECONDS, RETRY_FACTOR = 2.0, 4.0
"""Seconds before a failed request is retried, and how many times longer each further wait is."""

DELETED = "the file was deleted"
"""What a history says of a request that removed a document."""

BUILD_PASSES = 4
"""How often a collection that is built anew is compared with the disk: what is saved meanwhile is in it when searches
come to see it. What changes all the time is indexed again after that."""

Outcomes = dict[tuple[str, str], str]
"""(collection, path) → what became of the file: added, updated, deleted, unchanged, skipped or failed."""


class Replaced(NamedTuple):
    """What became of a collection that was indexed anew."""

    outcomes: Outcomes
    unchanged: int
    """How many files an earlier call had indexed."""
    left_out: tuple[LeftOut, ...]
    """The files that are not read."""


class Indexer:
    """Takes what is queued, or all of a collection, through the pipeline; who calls it holds the index lock."""

    def __init__(self, store: Store, config: Config, comparison: Comparison, pipeline: Pipeline) -> None:
        self._store = store
        self._config = config
        self._comparison = comparison
        self._pipeline = pipeline

    def step(self, run: Run) -> Outcomes | None:
        """Take the oldest requests that are due through the pipeline; None if none is due.

        Between batches, a run that should stop ends the step and makes the rest pending again. An error that is not
        about a document (the embedder, the disk) makes the collection's requests wait for a retry, and is raised when
        those of the other collections are done.
        """
        limit = max(CLAIM_FILES, int(run.total * CLAIM_SHARE), int(run.files_per_second * CLAIM_SECONDS))
        try:
            claimed = self._store.requests.claim(limit, here(self._store, self._config))
            if not claimed:
                return None
            outcomes, error = self._process_groups(_groups(claimed), run, more_follow=len(claimed) == limit)
        except BaseException:
            # Interrupted, or the store failed: this process has not died, and none of the files is to blame.
            with contextlib.suppress(StoreError):
                self._store.requests.recover(died=False)
            raise
        if len(outcomes) < len(claimed):
            self._store.requests.recover(died=False)
        if error:
            raise error
        return outcomes

    def _process_groups(
        self, groups: Iterable[Sequence[Request]], run: Run, *, more_follow: bool
    ) -> tuple[Outcomes, Exception | None]:
        """Take groups of requests through the pipeline; what became of the files, and the first error."""
        outcomes: Outcomes = {}
        errors: dict[str, Exception] = {}
        for group in groups:
            name = group[0].collection
            if name in errors or run.should_stop():
                continue
            remaining = {request.path: request for request in group}
            try:
                outcomes |= self._process_requests(name, remaining, run, more_follow=more_follow)
            except Exception as error:
                errors[name] = error
                retried = {path: self._retry(request, str(error)) for path, request in remaining.items()}
                self._finish(name, remaining, retried)
        # A folder that is gone concerns its own collection, and whoever compares that with the disk says so.
        raised = (error for error in errors.values() if not isinstance(error, CollectionError))
        return outcomes, next(raised, None)

    def log_times(self) -> None:
        """Log how long the steps of the pipeline took."""
        self._pipeline.log_times()

    def replace(
        self,
        collection: Collection,
        run: Run,
        *,
        allow_deletions: bool = False,
        adopt: bool = False,
        between: Callable[[], None] = lambda: None,
    ) -> Replaced | None:
        """Rebuild the collection next to the old data, which searches see until the new data is swapped in.

        `between` is called after each batch. When it fails or is interrupted, the new data is deleted; if its process
        dies, the next one deletes it. But where another model makes the vectors, what it made is kept, and the next
        call goes on from there. None if the run was stopped. If many files are gone, `FilesGone` is raised, unless
        `allow_deletions`.
        """
        if not adopt:
            check_owner(self._store, self._config, collection)
        begun = timestamp()
        known = self._store.states(collection.name)
        if known and not allow_deletions:
            found = scan_collection(self._store, self._config, collection, known)
            if doubt := doubt_scan(self._store, self._config, collection, found, known):
                raise doubt.error
        if not adopt:
            check_settings(self._store, self._config, collection)
        if all(each.name != collection.name for each in self._store.collections()):
            self._store.save_collection(collection)
        name = collection.name + STAGING_SUFFIX
        with self._store.bulk():
            staging = self._resumed(collection)
            if staging is None:
                self._store.delete_collection(name)
                empty = dataclasses.replace(collection, name=name, description="", enabled=False, imported_at="")
                empty = dataclasses.replace(empty, settings="", embedder="", probe="")
                staging = record_settings(self._store, self._config, empty)
            try:
                replaced = self._build(collection, staging, run, between, allow_deletions=allow_deletions)
            except BaseException as error:
                # What went wrong is the error to report.
                with contextlib.suppress(AnnaiError):
                    if isinstance(error, EmbedderMismatch) or not self._resumed(collection):
                        self._store.delete_collection(name)
                raise
            if replaced is None:
                return None
            self._store.swap_collection(name, collection.name)
        self._record_history(collection.name, begun)
        record_origin(self._store, self._config, find(self._store, self._config, collection.name), adopt=adopt)
        self.log_times()
        return replaced

    def _record_history(self, name: str, begun: str) -> None:
        """Add what became of each file to the history; each took the time of all of them."""
        ended = timestamp()
        self._store.requests.record(
            [
                Request(
                    id=0,
                    collection=name,
                    path=path,
                    hash=state.hash,
                    status=state.problem.kind if state.problem else "completed",
                    created_at=begun,
                    started_at=begun,
                    completed_at=ended,
                    error=state.problem.reason if state.problem else "",
                )
                for path, state in sorted(self._store.states(name).items())
            ]
        )

    def is_unfinished(self, staging: Collection) -> bool:
        """Whether a collection that is being built is worth going on with: another model makes its vectors."""
        return staging.embedder not in ("", self._replaced_embedder(staging))

    def is_wanted(self, staging: Collection) -> bool:
        """Whether it is unfinished, and the settings do not name the former model again."""
        try:
            # What is not trusted may name the other one.
            is_taken_back = self._config.is_trusted and self._asked(staging) == self._replaced_embedder(staging)
        except EmbedderError:
            is_taken_back = False
        return self.is_unfinished(staging) and not is_taken_back

    def _replaced_embedder(self, staging: Collection) -> str:
        """The embedder of the collection that is to be replaced; without one, that of what replaces it."""
        name = staging.name.removesuffix(STAGING_SUFFIX)
        found = next((each for each in self._store.collections() if each.name == name), staging)
        return found.embedder or staging.embedder

    def _asked(self, staging: Collection) -> str:
        return self._pipeline.embedder(staging).identity

    def _resumed(self, collection: Collection) -> Collection | None:
        """What was built of a collection with the very model and settings of now, as far as that came."""
        name = collection.name + STAGING_SUFFIX
        staging = next((each for each in self._store.collections() if each.name == name), None)
        if staging is None or not self.is_unfinished(staging):
            return None
        asked = dataclasses.replace(
            staging,
            embedder=self._asked(staging),
            settings=fingerprint(self._store, self._config, collection),
            source=collection.source,
            chunk_size=collection.chunk_size,
            chunk_overlap=collection.chunk_overlap,
        )
        return staging if staging == asked else None

    def _build(
        self,
        collection: Collection,
        staging: Collection,
        run: Run,
        between: Callable[[], None],
        *,
        allow_deletions: bool,
    ) -> Replaced | None:
        """Index everything of a collection into another one; None if the run was stopped."""
        outcomes: Outcomes = {}
        unchanged, left_out = 0, tuple[LeftOut, ...]()
        for number in range(BUILD_PASSES):
            known = self._store.states(staging.name)
            with timer("scan"):
                found = scan_collection(self._store, self._config, collection, known, count_left_out=not number)
            if not allow_deletions and (doubt := doubt_scan(self._store, self._config, collection, found, known)):
                raise doubt.error
            if not number:
                unchanged, left_out = found.unchanged, found.left_out
            changes = [each for each in found.changes if should_try(each, known, retry_failed=False)]
            if not changes:
                break
            run.expect(found.unchanged, found.unchanged + len(changes))
            for batch in self._pipeline.apply(staging, changes, run):
                # What was saved again meanwhile counts as what became of it first.
                outcomes = {(collection.name, each.change.path): each.outcome for each in batch} | outcomes
                run.check()
                if run.should_stop():
                    return None
                between()
        # Read it again: the embedder was noted meanwhile.
        built = next((each for each in self._store.collections() if each.name == staging.name), staging)
        self._store.save_collection(dataclasses.replace(built, imported_at=timestamp()))
        return Replaced(outcomes, unchanged, left_out)

    def _process_requests(self, name: str, requests: dict[str, Request], run: Run, *, more_follow: bool) -> Outcomes:
        """Compare the requested files with the disk, and index those that changed; what is done leaves `requests`."""
        try:
            collection = find(self._store, self._config, name)
        except CollectionError as error:
            skipped = {path: RequestResult(each.id, "skipped", str(error)) for path, each in requests.items()}
            self._finish(name, requests, skipped)
            return {}
        found = self._compare(collection, requests)
        # In the order of the queue: what does not fill a service's request is put back, and the first must not wait.
        changed = {change.path: change for change in found.changes}
        changes = [changed[path] for path in requests if path in changed]
        outcomes = self._finish_unchanged(collection.name, requests, found)
        killers = self._killers(collection, changes, requests)
        for batch in self._pipeline.apply(collection, changes, run, killers, more_follow=more_follow):
            self._comparison.note_indexed(collection.name, [each.change.path for each in batch])
            done = {each.change.path: self._result(requests[each.change.path], each) for each in batch}
            self._finish(collection.name, requests, done)
            outcomes |= {(collection.name, each.change.path): each.outcome for each in batch}
            for each in batch:
                if each.is_stale:
                    self._comparison.queue_again(collection.name, each.change.path)
            if run.should_stop():
                break
        # Read it again: someone may have changed its description or disabled it meanwhile.
        latest = find(self._store, self._config, name)
        # A first index is made when nothing waits any more; until then, searches wait for the process that makes it.
        is_made = bool(changes) if latest.imported_at else not self._store.requests.due([name])
        if is_made:
            self._store.save_collection(dataclasses.replace(latest, imported_at=timestamp()))
        return outcomes

    def _compare(self, collection: Collection, requests: dict[str, Request]) -> Scan:
        """Compare the requested files with the disk; those that are out of sight keep their documents, and are done."""
        known = self._store.states(collection.name, [*requests])
        found = scan_collection(self._store, self._config, collection, known, [*requests])
        doubt = doubt_scan(self._store, self._config, collection, found, None)
        if doubt and doubt.is_source:
            raise doubt.error
        if doubt:
            kept = {each.path for each in found.changes if each.kind is ChangeKind.DELETED}
            keep_documents(self._store, collection, [known[path] for path in sorted(kept)])
            skipped = {path: RequestResult(requests[path].id, "skipped", doubt.reason) for path in kept}
            self._finish(collection.name, requests, skipped)
        return found

    def _finish_unchanged(self, collection: str, requests: dict[str, Request], found: Scan) -> Outcomes:
        """Finish the requests for files that did not change; those that could not be looked at are retried."""
        unlisted = tuple(f"{path}/" for path in found.inaccessible)
        unchanged = requests.keys() - {change.path for change in found.changes}
        results = {
            path: self._retry(requests[path], "the file or its folder could not be accessed")
            if f"{path}/".startswith(unlisted)
            else RequestResult(requests[path].id, "skipped", "nothing has changed")
            for path in sorted(unchanged)
        }
        self._finish(collection, requests, results)
        return {(collection, path): "unchanged" for path in results}

    def _finish(self, collection: str, requests: dict[str, Request], results: Mapping[str, RequestResult]) -> None:
        """Record results by path, and drop their requests; documents whose requests failed for good are out of date."""
        failed = {path: each.error for path, each in results.items() if each.status == "failed"}
        known = self._store.states(collection, [*failed]) if failed else {}
        states = [
            dataclasses.replace(state, problem=Problem("failed", failed[path]))
            for path, state in known.items()
            if path in failed and state.problem is None
        ]
        if states:
            self._store.write(collection, states=states)
        self._store.requests.finish([*results.values()])
        for path in results:
            del requests[path]

    def _killers(self, collection: Collection, changes: Sequence[Change], requests: Mapping[str, Request]) -> set[str]:
        """Which of the files whose process died are to blame for it."""
        suspects = [
            change for change in changes if requests[change.path].error == PROCESS_ENDED and change.kind in TO_READ
        ]
        return find_killers(collection, suspects, self._config)

    def _result(self, request: Request, write: Prepared) -> RequestResult:
        """The result of a request whose file went through the pipeline."""
        problem = write.state.problem if write.state else None
        if problem:
            if problem.kind == "failed" and problem.reason != KILLED_TWICE:
                return self._retry(request, problem.reason)
            return RequestResult(request.id, problem.kind, problem.reason)
        state = write.document.state if write.document else write.state
        if write.outcome == "unchanged":
            return RequestResult(request.id, "skipped", "nothing has changed", state.hash if state else "")
        if state is None:
            return RequestResult(request.id, "completed", DELETED)
        return RequestResult(request.id, "completed", hash=state.hash)

    def _retry(self, request: Request, error: str) -> RequestResult:
        """Retry the request later, each time after a longer pause; after the last retry it has failed."""
        if request.attempts >= self._config.worker.retries:
            return RequestResult(request.id, "failed", error)
        pause = min(RETRY_SECONDS * RETRY_FACTOR**request.attempts, LONGEST_PAUSE_SECONDS)
        return RequestResult(request.id, "pending", error, pause=pause)


def _groups(requests: Iterable[Request]) -> list[list[Request]]:
    """Requests that are processed together, by collection.

    One that failed before is processed alone, so that it cannot make others fail with it again; those whose process
    died are first read in a process of their own.
    """
    groups: dict[tuple[str, int], list[Request]] = {}
    for request in requests:
        alone = -1 if request.error == PROCESS_ENDED else request.id if request.attempts else 0
        groups.setdefault((request.collection, alone), []).append(request)
    return [*groups.values()]
