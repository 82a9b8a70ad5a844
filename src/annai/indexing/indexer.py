"""How does a changed file become searchable? Queue, scan, read, split, embed, write; nothing else writes documents."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter

from annai.collection import find, here
from annai.config import Config
from annai.embedders.base import Embedder
from annai.errors import AnnaiError, CollectionError, EmbedderMismatch, ReadError, SkippedFile
from annai.files.scanner import Scan, scan
from annai.project import Confirm, Progress
from annai.splitters.base import load_splitter
from annai.stores.base import STAGING_SUFFIX, DocumentWriter, IndexedDocument, RequestResult
from annai.timer import Stopwatch, timer, timestamp
from annai.types import Change, ChangeKind, Collection, Document, FileState, Problem, Request, Section

logger = logging.getLogger(__name__)

PIPELINE_VERSION = 2
"""Raised when sections, words or embedded texts are made differently: every index is then rebuilt."""

BATCH_PASSAGES, BATCH_CHARACTERS, BATCH_FILES = 128, 1_000_000, 512
"""A batch is written when it holds this much: this limits memory, and the work that an interruption loses."""

CLAIM_FILES = 128
"""Requests taken from the queue at a time: enough to embed them together, few enough to stop soon."""

MAX_PENDING = 1_000_000
"""Pending requests that are read to see which paths are queued already."""

RETRY_SECONDS, RETRY_FACTOR = 2.0, 4.0
"""Seconds before a failed request is retried, and how many times longer each further wait is."""

MAX_UNCONFIRMED_FILES = 5_000
"""A first index of more files than this must be confirmed."""

SAMPLE_FILES = 12
"""How many files are indexed on trial to estimate how long a first index will take."""

Outcomes = Counter[tuple[str, str]]
"""(collection, outcome) → files; an outcome is added, updated, deleted, unchanged, skipped or failed."""


@dataclass(frozen=True, slots=True)
class _PendingWrite:
    """A change that was read and split: a document to write, a state to remember, or a path to delete."""

    change: Change
    document: Document | None = None
    sections: Sequence[Section] = ()
    state: FileState | None = None

    @property
    def outcome(self) -> str:
        if self.document:
            return "added" if self.change.kind is ChangeKind.NEW else "updated"
        if self.state:
            return self.state.problem.kind if self.state.problem else "unchanged"
        return "deleted"

    @property
    def is_stale(self) -> bool:
        """Whether the file has changed on disk since it was read."""
        if self.document is None:
            return False
        try:
            status = self.change.file.stat()
        except OSError:
            return True
        return (status.st_size, status.st_mtime_ns) != (self.document.state.size, self.document.state.mtime_ns)


class Indexer:
    """Brings a store up to date with the directories of its collections.

    `request` queues what changed, `step` takes a part of the queue through the pipeline. The caller of `step` or
    `replace` must hold the index lock.
    """

    def __init__(self, store: DocumentWriter, embedder_of: Callable[[str], Embedder], config: Config) -> None:
        self._store = store
        self._embedder_of = embedder_of
        self._config = config
        self._clock = Stopwatch()

    def request(
        self,
        collection: Collection,
        only: Sequence[str] | None = None,
        *,
        force: bool = False,
        retry_failed: bool = True,
        confirm: Confirm | None = None,
    ) -> tuple[list[int], int]:
        """Compare the collection, or only these paths, with the disk and queue what differs; with `force`, everything.

        With `retry_failed`, files that failed and have not changed since are queued too. Returns the requests' ids,
        and how many files are unchanged.
        """
        self.check_embedder(collection)
        collection = self._record_settings(collection)
        if force:
            self._mark_as_changed(collection, only)
        known = self._store.states(collection.name, only)
        with timer("scan"):
            found = scan(collection.source, self._config.files, known, only=only)
        if confirm and not known and len(found.changes) > MAX_UNCONFIRMED_FILES:
            self._confirm_first_index(confirm, collection, found)
        paths = [change.path for change in found.changes if retry_failed or not _has_failed_before(change, known)]
        logger.debug("[index] %s: %d changes, %d unchanged", collection.name, len(paths), found.unchanged)
        if not paths and not collection.imported_at:
            self._store.save_collection(dataclasses.replace(collection, imported_at=timestamp()))
        return self._queue(collection.name, paths) if paths else [], found.unchanged

    def step(self, stop: Callable[[], bool] = lambda: False) -> Outcomes | None:
        """Take the oldest requests that are due through the pipeline; None if there are none.

        Between batches, a true `stop()` ends the step and makes the rest pending again. An error that is not about a
        document (the embedder, the disk) makes the requests wait for a retry and is raised.
        """
        claimed = self._store.requests.claim(CLAIM_FILES, here(self._store, self._config))
        if not claimed:
            return None
        # A request that failed before is processed alone, so that it cannot make others fail with it again.
        groups: dict[tuple[str, int], list[Request]] = {}
        for request in claimed:
            groups.setdefault((request.collection, request.id if request.attempts else 0), []).append(request)
        outcomes: Outcomes = Counter()
        for (name, _), group in groups.items():
            try:
                outcomes += self._process_requests(name, group, stop)
            except Exception as error:
                self._store.requests.finish([self._retry(request, str(error)) for request in group])
                self._store.requests.recover()
                raise
        if stop():
            self._store.requests.recover()
        return outcomes

    def log_times(self) -> None:
        """Log how long the steps of the pipeline took."""
        self._clock.report()

    def replace(self, collection: Collection, *, progress: Progress | None = None) -> Outcomes:
        """Rebuild the collection next to the old data, which searches see until the new data is swapped in.

        When it fails or is interrupted, the new data is deleted; if its process dies, the next one deletes it.
        """
        self._store.save_collection(collection)
        name = collection.name + STAGING_SUFFIX
        with self._store.bulk():
            self._store.delete_collection(name)
            try:
                outcomes = self._build(collection, name, progress)
            except BaseException:
                # What went wrong is the error to report.
                with suppress(AnnaiError):
                    self._store.delete_collection(name)
                raise
            self._store.swap_collection(name, collection.name)
        self._clock.report()
        return outcomes

    def _build(self, collection: Collection, name: str, progress: Progress | None) -> Outcomes:
        """Index everything of a collection into another one."""
        staging = self._record_settings(Collection(name, collection.source, enabled=False))
        with timer("scan"):
            found = scan(collection.source, self._config.files, {})
        outcomes: Outcomes = Counter()
        for batch in self._apply(staging, found.changes):
            outcomes.update((collection.name, each.outcome) for each in batch)
            if progress:
                progress(outcomes.total(), len(found.changes))
        self._store.save_collection(dataclasses.replace(staging, imported_at=timestamp()))
        return outcomes

    def restore(self, collection: Collection, document: Document) -> None:
        """Split, embed and write a document again, from its text in the index."""
        from annai.text.outline import outline  # only a repair needs it here

        whole = dataclasses.replace(document, outline=outline(document.text, document.format, document.body_start))
        sections = load_splitter(self._config.chunking.strategy)(whole, self._config.chunking)
        change = Change(ChangeKind.UPDATED, document.path, collection.source / document.path)
        self._write(collection, [_PendingWrite(change, whole, sections)])

    def check_embedder(self, collection: Collection) -> None:
        """Raise `EmbedderMismatch` if another embedder made the index: their vectors cannot be compared."""
        expected = self._embedder(collection).identity
        # An index without documents has no vectors to compare: the settings may change their mind.
        if collection.embedder not in ("", expected) and self._store.statistics(collection.name).documents:
            raise EmbedderMismatch(
                f"The collection {collection.name!r} was indexed with {collection.embedder}, but the settings ask for "
                f"{expected}; run `annai import -n {collection.name} -m replace`."
            )

    def _queue(self, collection: str, paths: Sequence[str]) -> list[int]:
        """Queue the paths and return the requests' ids; a pending request that was not tried yet is kept."""
        pending = self._store.requests.latest("pending", collection, limit=MAX_PENDING)
        waiting = {request.path: request.id for request in pending if not request.attempts}
        added = self._store.requests.add(collection, [path for path in paths if path not in waiting])
        return [*(waiting[path] for path in paths if path in waiting), *added]

    def _embedder(self, collection: Collection) -> Embedder:
        return self._embedder_of(collection.name.removesuffix(STAGING_SUFFIX))

    def _record_settings(self, collection: Collection) -> Collection:
        """Store the embedder and settings that the index is made with; if the settings changed, index every file."""
        embedder = self._embedder(collection).identity
        recorded = dataclasses.replace(collection, embedder=embedder, settings=self._fingerprint())
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

    def _process_requests(self, name: str, requests: Sequence[Request], stop: Callable[[], bool]) -> Outcomes:
        """Compare the requested files with the disk, and index those that changed."""
        try:
            collection = find(self._store, self._config, name)
        except CollectionError as error:
            self._store.requests.finish([RequestResult(request.id, "skipped", str(error)) for request in requests])
            return Counter()
        by_path = {request.path: request for request in requests}
        known = self._store.states(collection.name, [*by_path])
        found = scan(collection.source, self._config.files, known, only=[*by_path])
        changes = [change for change in found.changes if change.path in by_path]
        unlisted = tuple(f"{path}/" for path in found.inaccessible)
        unchanged = by_path.keys() - {change.path for change in changes}
        outcomes: Outcomes = Counter({(collection.name, "unchanged"): len(unchanged)})
        self._store.requests.finish(
            [
                self._retry(by_path[path], "the file or its folder could not be accessed")
                if f"{path}/".startswith(unlisted)
                else RequestResult(by_path[path].id, "skipped", "nothing has changed")
                for path in sorted(unchanged)
            ]
        )
        for batch in self._apply(collection, changes):
            self._store.requests.finish([self._result(by_path[each.change.path], each) for each in batch])
            outcomes.update((collection.name, each.outcome) for each in batch)
            stale = [each.change.path for each in batch if each.is_stale]
            if stale:
                self._store.requests.add(collection.name, stale)
            if stop():
                break
        if changes:
            # Read it again: someone may have changed its description or disabled it meanwhile.
            latest = find(self._store, self._config, name)
            self._store.save_collection(dataclasses.replace(latest, imported_at=timestamp()))
        return outcomes

    def _apply(self, collection: Collection, changes: Sequence[Change]) -> Iterator[list[_PendingWrite]]:
        """Take changes through the pipeline, batch by batch; each batch is written when it is yielded."""
        embedder = self._embedder(collection)
        # A service gets full requests, filled across files, several at a time.
        max_passages = max(BATCH_PASSAGES, embedder.batch_size * embedder.parallel_batches)
        for batch in _batches((self._prepare(collection, change) for change in changes), max_passages):
            yield self._write(collection, batch)

    def _write(self, collection: Collection, batch: list[_PendingWrite]) -> list[_PendingWrite]:
        """Embed and write a batch; a document that makes this fail is isolated and stored as a problem."""
        try:
            with self._clock.measure("embed"):
                documents = self._add_features(collection, batch)
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
            failed = _failure(batch[0].change, error)
            self._store.write(collection.name, states=[failed.state] if failed.state else [])
            return [failed]
        return batch

    def _result(self, request: Request, write: _PendingWrite) -> RequestResult:
        """The result of a request whose file went through the pipeline."""
        problem = write.state.problem if write.state else None
        if problem:
            return (
                self._retry(request, problem.reason)
                if problem.kind == "failed"
                else RequestResult(request.id, "skipped", problem.reason)
            )
        state = write.document.state if write.document else write.state
        if write.outcome == "unchanged":
            return RequestResult(request.id, "skipped", "nothing has changed", state.hash if state else "")
        return RequestResult(request.id, "completed", hash=state.hash if state else "")

    def _retry(self, request: Request, error: str) -> RequestResult:
        """Retry the request later, each time after a longer pause; after the last retry it has failed."""
        if request.attempts >= self._config.worker.retries:
            return RequestResult(request.id, "failed", error)
        return RequestResult(request.id, "pending", error, pause=RETRY_SECONDS * RETRY_FACTOR**request.attempts)

    def _prepare(self, collection: Collection, change: Change) -> _PendingWrite:
        """Read and split one file; whatever is wrong with it is stored as a problem and stops nothing."""
        state = FileState(change.path, change.size, change.mtime_ns, change.hash)
        if change.kind is ChangeKind.DELETED:
            return _PendingWrite(change)
        if change.kind is ChangeKind.TOUCHED:
            return _PendingWrite(change, state=state)
        # Most searches find nothing changed and need no reader.
        from annai.files.reader import read_document

        split = load_splitter(self._config.chunking.strategy)
        try:
            with self._clock.measure("read"):
                document = read_document(collection.name, collection.source, change, self._config.files)
            with self._clock.measure("split"):
                return _PendingWrite(change, document, split(document, self._config.chunking))
        except ReadError as error:
            problem = Problem("skipped" if isinstance(error, SkippedFile) else "failed", str(error))
            logger.info("%s: %s: %s", problem.kind, change.path, error)
            return _PendingWrite(change, state=dataclasses.replace(state, problem=problem))
        except Exception as error:
            return _failure(change, error)

    def _add_features(self, collection: Collection, batch: Iterable[_PendingWrite]) -> list[IndexedDocument]:
        """The documents of a batch, embedded together and ready to write."""
        # Most searches find nothing changed and do not need this.
        from annai.indexing.features import add_features

        documents = [(each.document, each.sections) for each in batch if each.document]
        return add_features(documents, self._embedder(collection))

    def _confirm_first_index(self, confirm: Confirm, collection: Collection, found: Scan) -> None:
        """Estimate from a sample how long the first index will take, and stop unless the user agrees."""
        step = max(len(found.changes) // SAMPLE_FILES, 1)
        first, *sample = found.changes[::step][:SAMPLE_FILES]
        # The first file loads what is loaded only once; it would spoil the estimate.
        self._add_features(collection, [self._prepare(collection, first)])
        start = perf_counter()
        self._add_features(collection, [self._prepare(collection, change) for change in sample])
        share = sum(change.size for change in sample) / max(found.total_bytes, 1)
        seconds = (perf_counter() - start) / max(share, 1e-9)
        if not confirm(len(found.changes), seconds):
            raise CollectionError(
                f"{collection.source} was not indexed, because it has {len(found.changes):,} files; "
                "`--yes` indexes them all, and [files] in annai.toml excludes some."
            )

    def _fingerprint(self) -> str:
        """Everything besides the documents that sections depend on."""
        return f"{PIPELINE_VERSION}; {self._config.chunking}; {self._config.files.max_file_mb} MB"


def _failure(change: Change, error: Exception) -> _PendingWrite:
    """A file that the pipeline failed on, stored as a problem: it must not stop the others. The trace is for us."""
    logger.error("failed: %s", change.path, exc_info=error)
    problem = Problem("failed", f"annai could not index it ({type(error).__name__}: {error}); please report this")
    return _PendingWrite(change, state=FileState(change.path, change.size, change.mtime_ns, change.hash, problem))


def _has_failed_before(change: Change, known: Mapping[str, FileState]) -> bool:
    """Whether the file failed before and has not changed since."""
    state = known.get(change.path)
    failed = state is not None and state.problem is not None and state.problem.kind == "failed"
    return failed and state is not None and (change.size, change.mtime_ns) == (state.size, state.mtime_ns)


def _batches(writes: Iterable[_PendingWrite], max_passages: int) -> Iterator[list[_PendingWrite]]:
    """Group what is written together; only one group is in memory at a time."""
    batch: list[_PendingWrite] = []
    passages = characters = 0
    for each in writes:
        batch.append(each)
        passages += sum(section.is_passage for section in each.sections)
        characters += len(each.document.text) if each.document else 0
        if passages >= max_passages or characters >= BATCH_CHARACTERS or len(batch) >= BATCH_FILES:
            yield batch
            batch, passages, characters = [], 0, 0
    if batch:
        yield batch
