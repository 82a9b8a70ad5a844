"""How does a changed file become searchable? Queue, scan, read, split, embed, write; nothing else writes documents."""

import contextlib
import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import NamedTuple

from annai.collection import NAMED, check_owner, chunking_of, find, here, within_root
from annai.config import Config
from annai.embedders.base import Embedder
from annai.errors import (
    AnnaiError,
    CollectionError,
    EmbedderError,
    EmbedderMismatch,
    StoreError,
)
from annai.files.scanner import Scan, is_same_time, scan
from annai.indexing.deletions import GONE, Doubt, doubt_deletions, doubt_source, identify
from annai.indexing.pace import KEEPS_CHANGING, Pace
from annai.indexing.preparation import (
    ADDITIVE_BATCH_PASSAGES,
    BATCH_FILES,
    BATCH_PASSAGES,
    TO_READ,
    Prepared,
    batches,
    embed,
    failure,
    log_details,
    log_problem,
    prepare,
    prepare_together,
    problem_of,
)
from annai.indexing.probe import KILLED_TWICE, find_killers
from annai.indexing.processes import process_count
from annai.indexing.recipe import check_settings, fingerprint
from annai.indexing.recognition import check_model, record_model
from annai.indexing.run import Run
from annai.project import Confirm
from annai.splitters.base import load_splitter
from annai.stores.base import (
    LONGEST_PAUSE_SECONDS,
    PROCESS_ENDED,
    STAGING_SUFFIX,
    RequestResult,
    Store,
)
from annai.stores.machine import machine_name
from annai.timer import Stopwatch, timer, timestamp
from annai.trust import is_inside
from annai.types import (
    IMPLICIT_COLLECTION,
    Change,
    ChangeKind,
    Collection,
    Document,
    FileState,
    LeftOut,
    Problem,
    Request,
)

logger = logging.getLogger(__name__)

PIPELINE_VERSION = 5
"""Raised when sections, words or embedded texts are made differently: every index is then rebuilt."""

CLAIM_FILES, CLAIM_SHARE = 128, 1 / 32
"""Requests taken from the queue at a time: at least so many, to embed them together, and at least this share of a
run: each time the folders of the files are listed, which must not grow faster than the work."""

RETRY_SECONDS, RETRY_FACTOR = 2.0, 4.0
"""Seconds before a failed request is retried, and how many times longer each further wait is."""

MAX_UNCONFIRMED_FILES = 5_000
"""A first index of more files than this must be confirmed."""

SAMPLE_FILES = 12
"""How many files are indexed on trial to estimate how long a first index will take."""

Outcomes = Counter[tuple[str, str]]
"""(collection, outcome) → files; an outcome is added, updated, deleted, unchanged, skipped or failed."""


class Requested(NamedTuple):
    """What became of a comparison with the disk."""

    ids: list[int]
    """Of the requests that were queued, or waited already."""
    unchanged: int
    """How many files did not change."""
    deleted: int = 0
    """How many were removed at once, since that was allowed."""


class Indexer:
    """Brings a store up to date with the directories of its collections.

    `request` queues what changed, `step` takes a part of the queue through the pipeline. The caller of `step` or
    `replace` must hold the index lock.
    """

    def __init__(self, store: Store, embedder_of: Callable[[str], Embedder], config: Config) -> None:
        self._store = store
        self._embedder_of = embedder_of
        self._config = config
        self._clock = Stopwatch()
        self._pace = Pace()
        self.left_out: dict[str, tuple[LeftOut, ...]] = {}
        """The files of a collection that are not read, as the last scan that counted them saw it."""

    def request(
        self,
        collection: Collection,
        only: Sequence[str] | None = None,
        *,
        force: bool = False,
        retry_failed: bool = True,
        at_once: bool = True,
        first: bool = False,
        allow_deletions: bool = False,
        adopt: bool = False,
        confirm: Confirm | None = None,
        count_left_out: bool = False,
    ) -> Requested:
        """Compare the collection, or only these paths, with the disk and queue what differs; with `force`, everything.

        With `retry_failed`, files that failed and have not changed since are queued too, except those that kill
        processes. Unless `at_once`, a file that keeps changing waits for its turn; what is to be done `first` comes
        before all that waits.

        If so many files are gone that it must be confirmed, the rest is queued and `FilesGone` raised; with
        `allow_deletions`, they are removed here and now, since nobody who claims a request knows what was allowed.
        """
        if not adopt:
            check_owner(self._store, self._config, collection)
        self.check_embedder(collection)
        # Nothing is written while the folder may be the wrong one, not even other settings.
        if not allow_deletions and (doubt := self.doubt_source(collection)):
            raise doubt.error
        collection = self._record_settings(collection, adopt=adopt)
        if force:
            self._mark_as_changed(collection, only)
        known = self._store.states(collection.name, only)
        with timer("scan"):
            found = self._scan(collection, known, only, count_left_out=count_left_out)
        if confirm and not known and len(found.changes) > MAX_UNCONFIRMED_FILES:
            self._confirm_first_index(confirm, collection, found)
        gone = {change.path for change in found.changes if change.kind is ChangeKind.DELETED}
        doubt = None if allow_deletions else self._doubt(collection, found, known if only is None else None)
        if doubt and doubt.is_source:
            raise doubt.error
        removed = gone if allow_deletions or collection.origin == NAMED else set[str]()
        self._remove(collection, sorted(removed))
        left_out = gone if doubt else removed
        paths = [
            change.path
            for change in found.changes
            if change.path not in left_out and _should_try(change, known, retry_failed)
        ]
        kinds = Counter(str(change.kind) for change in found.changes)
        counts = ", ".join(f"{kind}={kinds[kind]}" for kind in ChangeKind)
        files = len(found.changes) - kinds[ChangeKind.DELETED] + found.unchanged
        logger.debug("[index] %s: %d files (%s, unchanged=%d)", collection.name, files, counts, found.unchanged)
        if doubt:
            self._keep(collection, [known[path] for path in sorted(gone)])
        elif only is None and (known or found.changes):
            collection = self._record_origin(collection, adopt=adopt)
        if not paths and not collection.imported_at:
            self._store.save_collection(dataclasses.replace(collection, imported_at=timestamp()))
        numbers = self._queue(collection.name, paths, at_once, first) if paths else []
        if doubt:
            raise doubt.error
        return Requested(numbers, found.unchanged, len(removed))

    def step(self, run: Run) -> Outcomes | None:
        """Take the oldest requests that are due through the pipeline; None if none is due.

        Between batches, a run that should stop ends the step and makes the rest pending again. An error that is not
        about a document (the embedder, the disk) makes the collection's requests wait for a retry, and is raised when
        those of the other collections are done.
        """
        limit = max(CLAIM_FILES, int(run.total * CLAIM_SHARE))
        claimed = self._store.requests.claim(limit, here(self._store, self._config))
        if not claimed:
            return None
        try:
            outcomes, error = self._process_groups(_groups(claimed), run)
        except BaseException:
            # Interrupted, or the store failed: this process has not died, and none of the files is to blame.
            with contextlib.suppress(StoreError):
                self._store.requests.recover(died=False)
            raise
        if error or run.should_stop():
            self._store.requests.recover(died=False)
        if error:
            raise error
        return outcomes

    def _process_groups(self, groups: Iterable[Sequence[Request]], run: Run) -> tuple[Outcomes, Exception | None]:
        """Take groups of requests through the pipeline; what became of the files, and the first error."""
        outcomes: Outcomes = Counter()
        errors: dict[str, Exception] = {}
        for group in groups:
            name = group[0].collection
            if name in errors or run.should_stop():
                continue
            remaining = {request.path: request for request in group}
            try:
                outcomes += self._process_requests(name, remaining, run)
            except Exception as error:
                errors[name] = error
                retried = {path: self._retry(request, str(error)) for path, request in remaining.items()}
                self._finish(name, remaining, retried)
        # A folder that is gone concerns its own collection, and whoever compares that with the disk says so.
        raised = (error for error in errors.values() if not isinstance(error, CollectionError))
        return outcomes, next(raised, None)

    def log_times(self) -> None:
        """Log how long the steps of the pipeline took."""
        self._clock.report()

    def replace(
        self, collection: Collection, run: Run, *, allow_deletions: bool = False, adopt: bool = False
    ) -> Outcomes:
        """Rebuild the collection next to the old data, which searches see until the new data is swapped in.

        When it fails or is interrupted, the new data is deleted; if its process dies, the next one deletes it. If many
        files are gone, `FilesGone` is raised, unless `allow_deletions`.
        """
        if not adopt:
            check_owner(self._store, self._config, collection)
        known = self._store.states(collection.name)
        if known and not allow_deletions:
            doubt = self._doubt(collection, self._scan(collection, known), known)
            if doubt:
                raise doubt.error
        if self._store.shared and not adopt:
            check_settings(collection, self._fingerprint(collection))
        if all(each.name != collection.name for each in self._store.collections()):
            self._store.save_collection(collection)
        name = collection.name + STAGING_SUFFIX
        with self._store.bulk():
            self._store.delete_collection(name)
            try:
                outcomes = self._build(collection, name, run)
            except BaseException:
                # What went wrong is the error to report.
                with suppress(AnnaiError):
                    self._store.delete_collection(name)
                raise
            self._store.swap_collection(name, collection.name)
        self._record_origin(find(self._store, self._config, collection.name), adopt=adopt)
        self._clock.report()
        return outcomes

    def _build(self, collection: Collection, name: str, run: Run) -> Outcomes:
        """Index everything of a collection into another one."""
        empty = dataclasses.replace(collection, name=name, description="", enabled=False, imported_at="")
        staging = self._record_settings(dataclasses.replace(empty, settings="", embedder="", probe=""))
        with timer("scan"):
            found = self._scan(collection, {}, count_left_out=True)
        outcomes: Outcomes = Counter()
        run.expect(0, len(found.changes))
        for batch in self._apply(staging, found.changes, run):
            outcomes.update((collection.name, each.outcome) for each in batch)
            run.check()
        # Read it again: the embedder was noted meanwhile.
        built = next((each for each in self._store.collections() if each.name == name), staging)
        self._store.save_collection(dataclasses.replace(built, imported_at=timestamp()))
        return outcomes

    def restore(self, collection: Collection, document: Document) -> None:
        """Split, embed and write a document again, from its text in the index."""
        from annai.text.outline import outline  # only a repair needs it here

        embedder = self._embedder(collection)
        if not embedder.is_additive:
            check_model(self._store, collection, embedder.identity, embedder.probed or embedder.probe())
        whole = dataclasses.replace(document, outline=outline(document.text, document.format, document.body_start))
        chunking = chunking_of(self._config, collection)
        sections = load_splitter(chunking.strategy)(whole, chunking)
        change = Change(ChangeKind.UPDATED, document.path, collection.source / document.path)
        self._write(collection, [Prepared(change, whole, sections)])

    def _scan(
        self,
        collection: Collection,
        known: Mapping[str, FileState],
        only: Sequence[str] | None = None,
        *,
        count_left_out: bool = False,
    ) -> Scan:
        """Compare a collection with the disk; what lies in another collection's folder is not the root's too."""
        is_root = collection.name == IMPLICIT_COLLECTION
        without = within_root(self._store, self._config) if is_root else ()
        files = self._config.files
        found = scan(collection.source, files, known, only=only, without=without, count_left_out=count_left_out)
        if count_left_out:
            self.left_out[collection.name] = found.left_out
        return found

    def doubt_source(self, collection: Collection) -> Doubt | None:
        """Why the folder may not be the one that was indexed; if nothing is gone from it, it is."""
        if not self._is_tracked(collection):
            return None
        doubt = doubt_source(collection, lambda: self._store.statistics(collection.name).documents)
        if doubt is None:
            return None
        known = self._store.states(collection.name)
        found = self._scan(collection, known)
        return doubt if any(change.kind is ChangeKind.DELETED for change in found.changes) else None

    def _doubt(self, collection: Collection, found: Scan, known: Mapping[str, FileState] | None) -> Doubt | None:
        """Why the files that a comparison did not find are not believed to be deleted.

        `known` are all files of the collection; None if only some were compared.
        """
        gone = [change.file for change in found.changes if change.kind is ChangeKind.DELETED]
        if not gone:
            return None
        if not self._is_tracked(collection):
            collection = dataclasses.replace(collection, origin="")
        everything = self._store.states(collection.name) if known is None else known
        return doubt_deletions(collection, gone, len(everything))

    def _is_tracked(self, collection: Collection) -> bool:
        """Whether the folder's file system is noted: not where the index is in that folder, and goes with it."""
        return self._store.shared or not is_inside(collection.source, self._config.database_path)

    def _record_origin(self, collection: Collection, *, adopt: bool) -> Collection:
        """Note on which file system the folder is and, where machines share the index, that this one indexes it."""
        if not self._is_tracked(collection) and collection.origin != NAMED:
            return collection
        origin = identify(collection.source) if self._is_tracked(collection) else ""
        owner = machine_name(self._config) if self._store.shared else ""
        recorded = dataclasses.replace(collection, origin=origin, owner=owner)
        if recorded != collection:
            if not adopt:
                # Read it again: another machine may have been faster.
                check_owner(self._store, self._config, find(self._store, self._config, collection.name))
            self._store.save_collection(recorded)
        return recorded

    def _remove(self, collection: Collection, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), BATCH_FILES):
            self._store.write(collection.name, removed=paths[start : start + BATCH_FILES])

    def _keep(self, collection: Collection, gone: Iterable[FileState]) -> None:
        """Remember of files that are gone that their documents are out of date."""
        kept = [dataclasses.replace(state, problem=Problem("failed", GONE)) for state in gone if state.problem is None]
        if kept:
            self._store.write(collection.name, states=kept)

    def check_embedder(self, collection: Collection) -> None:
        """Raise `EmbedderMismatch` if another embedder made the index: their vectors cannot be compared."""
        expected = self._embedder(collection).identity
        # An index without documents has no vectors to compare: the settings may change their mind.
        if collection.embedder not in ("", expected) and self._store.dimension(collection.name):
            raise EmbedderMismatch(
                f"The collection {collection.name!r} was indexed with {collection.embedder}, but the settings ask for "
                f"{expected}; run `annai import -c {collection.name} -m replace`."
            )

    def _queue(self, collection: str, paths: Sequence[str], at_once: bool, first: bool) -> list[int]:
        """Queue the paths and return the requests' ids; a pending one that was not tried yet is kept, unless `first`.

        One whose process died is kept in any case: it may be the file's fault.
        """
        waiting = {
            request.path: request.id
            for request in self._store.requests.pending(collection, paths)
            if request.error == PROCESS_ENDED or not (first or request.attempts or (at_once and request.error))
        }
        numbers = [waiting[path] for path in paths if path in waiting]
        new = [path for path in paths if path not in waiting]
        pauses = {path: 0.0 if at_once else self._pace.pause(collection, path) for path in new}
        numbers += self._store.requests.add(collection, [path for path in new if not pauses[path]], first=first)
        for path in new:
            if pauses[path]:
                numbers += self._store.requests.add(collection, [path], pause=pauses[path], error=KEEPS_CHANGING)
        return numbers

    def _embedder(self, collection: Collection) -> Embedder:
        return self._embedder_of(collection.name.removesuffix(STAGING_SUFFIX))

    def _record_settings(self, collection: Collection, *, adopt: bool = False) -> Collection:
        """Store the settings that the index is made with; if they changed, index every file.

        In an index that machines share, that needs a word of its own: another's settings would do so by turns.
        """
        made_with = self._fingerprint(collection)
        if self._store.shared and not adopt:
            check_settings(collection, made_with)
        recorded = dataclasses.replace(collection, settings=made_with)
        if recorded != collection:
            # In this order: killed in between, the next run finds the old settings and marks the files again.
            if collection.settings != recorded.settings:
                self._mark_as_changed(collection, None)
            self._store.save_collection(recorded)
        return recorded

    def _mark_as_changed(self, collection: Collection, only: Sequence[str] | None) -> None:
        """Mark every file as changed, so that it is read again; its document stays until then."""
        known = self._store.states(collection.name, only)
        states = [dataclasses.replace(state, size=-1, hash="") for state in known.values()]
        if states:
            self._store.write(collection.name, states=states)

    def _process_requests(self, name: str, requests: dict[str, Request], run: Run) -> Outcomes:
        """Compare the requested files with the disk, and index those that changed; what is done leaves `requests`."""
        try:
            collection = find(self._store, self._config, name)
        except CollectionError as error:
            skipped = {path: RequestResult(each.id, "skipped", str(error)) for path, each in requests.items()}
            self._finish(name, requests, skipped)
            return Counter()
        known = self._store.states(collection.name, [*requests])
        found = self._scan(collection, known, [*requests])
        doubt = self._doubt(collection, found, None)
        if doubt and doubt.is_source:
            raise doubt.error
        kept = {each.path for each in found.changes if each.kind is ChangeKind.DELETED} if doubt else set[str]()
        if doubt:
            self._keep(collection, [known[path] for path in sorted(kept)])
            self._finish(name, requests, {p: RequestResult(requests[p].id, "skipped", doubt.reason) for p in kept})
        changes = [change for change in found.changes if change.path in requests]
        unlisted = tuple(f"{path}/" for path in found.inaccessible)
        unchanged = requests.keys() - {change.path for change in changes}
        outcomes: Outcomes = Counter({(collection.name, "unchanged"): len(unchanged)})
        results = {
            path: self._retry(requests[path], "the file or its folder could not be accessed")
            if f"{path}/".startswith(unlisted)
            else RequestResult(requests[path].id, "skipped", "nothing has changed")
            for path in sorted(unchanged)
        }
        self._finish(collection.name, requests, results)
        killers = self._killers(collection, changes, requests)
        for batch in self._apply(collection, changes, run, killers):
            self._pace.note(collection.name, [each.change.path for each in batch])
            done = {each.change.path: self._result(requests[each.change.path], each) for each in batch}
            self._finish(collection.name, requests, done)
            outcomes.update((collection.name, each.outcome) for each in batch)
            for each in batch:
                if each.is_stale:
                    path = each.change.path
                    pause = self._pace.pause(collection.name, path, changed_meanwhile=True)
                    self._store.requests.add(collection.name, [path], pause=pause, error=KEEPS_CHANGING)
            if run.should_stop():
                break
        if changes:
            # Read it again: someone may have changed its description or disabled it meanwhile.
            latest = find(self._store, self._config, name)
            self._store.save_collection(dataclasses.replace(latest, imported_at=timestamp()))
        return outcomes

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

    def _apply(
        self, collection: Collection, changes: Sequence[Change], run: Run, killers: Container[str] = ()
    ) -> Iterator[list[Prepared]]:
        """Take changes through the pipeline, batch by batch; each batch is written when it is yielded."""
        embedder = self._embedder(collection)
        # A service gets full requests, filled across files, several at a time.
        least = ADDITIVE_BATCH_PASSAGES if embedder.is_additive else BATCH_PASSAGES
        max_passages = max(least, embedder.batch_size * embedder.parallel_batches)
        # What needs no embedder comes first: it is in the first batch, and done even if there is none.
        ordered = sorted(changes, key=lambda change: change.kind in TO_READ)
        is_checked = False
        for batch in batches(self._prepare(collection, ordered, killers, run), max_passages):
            try:
                if not is_checked and any(each.document for each in batch):
                    collection, is_checked = record_model(self._store, collection, embedder), True
                written = self._write(collection, batch)
            except EmbedderError:
                yield self._write(collection, [each for each in batch if not each.document])
                raise
            yield written

    def _prepare(
        self, collection: Collection, changes: Sequence[Change], killers: Container[str], run: Run
    ) -> Iterator[Prepared]:
        """Read and split files, in their order, and count them."""
        for prepared in self._prepare_all(collection, changes, killers, run):
            log_problem(prepared)
            log_details(prepared)
            run.count(prepared)
            yield prepared

    def _prepare_all(
        self, collection: Collection, changes: Sequence[Change], killers: Container[str], run: Run
    ) -> Iterator[Prepared]:
        """Read and split files; where there are many to embed in Python, in several processes."""

        def here(own: Collection, part: Sequence[Change]) -> list[Prepared]:
            return prepare_together(own, part, self._config, self._embedder(own))

        to_read = [change for change in changes if change.kind in TO_READ and change.path not in killers]
        is_shared = self._embedder(collection).is_additive and run.processes.are_worth_it(to_read, run.total)
        for change in changes:
            if change.path in killers:
                yield problem_of(change, KILLED_TWICE)
            elif not (is_shared and change.kind in TO_READ):
                yield prepare(collection, change, self._config, self._clock)
        if is_shared:
            yield from run.processes.prepare(collection, to_read, here)

    def _write(self, collection: Collection, batch: list[Prepared]) -> list[Prepared]:
        """Embed and write a batch; a document that makes this fail is isolated and stored as a problem."""
        passages = sum(each.passages for each in batch)
        logger.debug("[index] batch: %d files, %d passages", len(batch), passages)
        try:
            with self._clock.measure("embed"):
                documents = [each.indexed for each in batch if each.indexed]
                documents += embed([each for each in batch if not each.indexed], self._embedder(collection))
            with self._clock.measure("write"):
                self._store.write(
                    collection.name,
                    documents,
                    removed=[each.change.path for each in batch if each.outcome == "deleted"],
                    states=[each.state for each in batch if each.state],
                )
        except AnnaiError:
            raise
        except Exception as error:
            if len(batch) > 1:
                return [written for each in batch for written in self._write(collection, [each])]
            failed = failure(batch[0].change, error)
            log_problem(failed)
            self._store.write(collection.name, states=[failed.state] if failed.state else [])
            return [failed]
        return batch

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
        return RequestResult(request.id, "completed", hash=state.hash if state else "")

    def _retry(self, request: Request, error: str) -> RequestResult:
        """Retry the request later, each time after a longer pause; after the last retry it has failed."""
        if request.attempts >= self._config.worker.retries:
            return RequestResult(request.id, "failed", error)
        pause = min(RETRY_SECONDS * RETRY_FACTOR**request.attempts, LONGEST_PAUSE_SECONDS)
        return RequestResult(request.id, "pending", error, pause=pause)

    def _confirm_first_index(self, confirm: Confirm, collection: Collection, found: Scan) -> None:
        """Estimate from a sample how long the first index will take, and stop unless the user agrees."""
        step = max(len(found.changes) // SAMPLE_FILES, 1)
        first, *sample = found.changes[::step][:SAMPLE_FILES]
        # The first file loads what is loaded only once; it would spoil the estimate.
        embedder = self._embedder(collection)
        embed([prepare(collection, first, self._config, self._clock)], embedder)
        start = perf_counter()
        embed([prepare(collection, change, self._config, self._clock) for change in sample], embedder)
        share = sum(change.size for change in sample) / max(found.total_bytes, 1)
        # One process measured, and all of them will work.
        workers = process_count(self._config) if embedder.is_additive else 1
        seconds = (perf_counter() - start) / max(share, 1e-9) / workers
        if not confirm(len(found.changes), seconds):
            raise CollectionError(
                f"{collection.source} was not indexed, because it has {len(found.changes):,} files; "
                "`--yes` indexes them all, and [files] in annai.toml excludes some."
            )

    def _fingerprint(self, collection: Collection) -> str:
        """Everything besides the documents that a collection's sections depend on."""
        chunking = chunking_of(self._config, collection)
        return fingerprint(self._config, chunking, PIPELINE_VERSION, shared=self._store.shared)


def _should_try(change: Change, known: Mapping[str, FileState], retry_failed: bool) -> bool:
    """Whether to queue a change: not if it failed before and has not changed since, unless that is to be retried."""
    state = known.get(change.path)
    if change.kind is not ChangeKind.UPDATED or state is None or state.problem is None:
        return True
    if change.size != state.size or not is_same_time(change.mtime_ns, change.ctime_ns, state):
        return True
    return retry_failed and state.problem.reason != KILLED_TWICE


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
