"""How does a changed file become searchable? Queue, scan, read, split, embed, write; nothing else writes documents."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from annai.collection import STAGING_SUFFIX, find, here
from annai.config import Config
from annai.embedders.base import Embedder
from annai.errors import AnnaiError, CollectionError, EmbedderMismatch, ReadError, SkippedFile
from annai.files.scanner import Scan, scan
from annai.project import Confirm, Progress
from annai.splitters.base import load_splitter
from annai.stores.base import IndexedDocument, RequestResult, Store
from annai.timer import Stopwatch, timer, timestamp
from annai.types import Change, ChangeKind, Collection, Document, FileState, Problem, Request, Section

logger = logging.getLogger(__name__)

PIPELINE_VERSION = 2
"""Raised when sections, words or embedded texts are made differently: every index then renews itself."""

BATCH_PASSAGES, BATCH_CHARACTERS, BATCH_FILES = 128, 1_000_000, 512
"""A batch is written when it holds this much: it bounds memory, and what an interruption costs."""

CLAIM_FILES = 128
"""Requests taken from the queue at a time: enough to embed them together, few enough to stop soon."""

MOST_PENDING = 1_000_000
"""Requests that are looked at to see whether a path waits already."""

RETRY_PAUSE, RETRY_GROWTH = 2.0, 4.0
"""Seconds before a failed request is tried again, and how many times longer every further wait is."""

LARGE_FIRST_INDEX = 5_000
"""A first index of more files than this is confirmed before it begins."""

SAMPLE_FILES = 12
"""How many files are tried to tell how long a first index will take."""

Outcomes = Counter[tuple[str, str]]
"""How many files of which collection came to which end: added, updated, deleted, unchanged, skipped or failed."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A change that has been read and split: a document to write, a state to remember, or a path to forget."""

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
    def has_moved_on(self) -> bool:
        """Whether the file on disk is no longer the one that was read."""
        if self.document is None:
            return False
        try:
            status = self.change.file.stat()
        except OSError:
            return True
        return (status.st_size, status.st_mtime_ns) != (self.document.state.size, self.document.state.mtime_ns)


class Indexer:
    """Brings a store up to date with the directories of its collections.

    `request` puts what changed into the queue, `step` takes a part of the queue through the pipeline. Whoever calls
    `step` or `replace` has the index lock.
    """

    def __init__(self, store: Store, embedder_of: Callable[[str], Embedder], config: Config) -> None:
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
        again: bool = True,
        confirm: Confirm | None = None,
    ) -> tuple[list[int], int]:
        """Compare with the disk, all of it or only these paths, and queue what differs; with `force`, everything.

        With `again`, files that failed and have not changed since are queued too. Returns the requests' ids, and how
        many files need nothing.
        """
        self.check_embedder(collection)
        collection = self._begin(collection)
        if force:
            self._forget_contents(collection, only)
        known = self._store.states(collection.name, only)
        with timer("scan"):
            found = scan(collection.source, self._config.files, known, only=only)
        if confirm and not known and len(found.changes) > LARGE_FIRST_INDEX:
            self._ask(confirm, collection, found)
        paths = [change.path for change in found.changes if again or not _failed_as_it_is(change, known)]
        logger.debug("[index] %s: %d changes, %d unchanged", collection.name, len(paths), found.unchanged)
        if not paths and not collection.imported_at:
            self._store.save_collection(dataclasses.replace(collection, imported_at=timestamp()))
        return self._queue(collection.name, paths) if paths else [], found.unchanged

    def _queue(self, collection: str, paths: Sequence[str]) -> list[int]:
        """Ask for the paths, and return the requests' ids; one that waits for its first attempt is as good as new."""
        pending = self._store.requests.latest("pending", collection, limit=MOST_PENDING)
        waiting = {request.path: request.id for request in pending if not request.attempts}
        added = self._store.requests.add(collection, [path for path in paths if path not in waiting])
        return [*(waiting[path] for path in paths if path in waiting), *added]

    def step(self, stop: Callable[[], bool] = lambda: False) -> Outcomes | None:
        """Take the oldest requests that are due through the pipeline; None if there are none.

        `stop` is asked between batches, and what is left then waits again. When something outside of the documents
        stands in the way (the embedder, the disk), the requests wait to be tried again and the error goes on to the
        caller.
        """
        claimed = self._store.requests.claim(CLAIM_FILES, here(self._store, self._config))
        if not claimed:
            return None
        # What failed before goes alone, so that it cannot draw its neighbours down with it again.
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

    def tell_times(self) -> None:
        """Log how long the steps of the pipeline have taken."""
        self._clock.report()

    def replace(self, collection: Collection, *, progress: Progress | None = None) -> Outcomes:
        """Build the collection anew beside the old data and swap it in at the end; searches see the old until then."""
        self._store.save_collection(collection)
        self._store.delete_collection(collection.name + STAGING_SUFFIX)
        staging = self._begin(Collection(collection.name + STAGING_SUFFIX, collection.source, enabled=False))
        with timer("scan"):
            found = scan(collection.source, self._config.files, {})
        outcomes: Outcomes = Counter()
        with self._store.bulk():
            for batch in self._apply(staging, found.changes):
                outcomes.update((collection.name, each.outcome) for each in batch)
                if progress:
                    progress(outcomes.total(), len(found.changes))
        self._clock.report()
        self._store.save_collection(dataclasses.replace(staging, imported_at=timestamp()))
        self._store.swap_collection(staging.name, collection.name)
        return outcomes

    def restore(self, collection: Collection, document: Document) -> None:
        """Split, embed and write a document once more, from the text that the index itself holds."""
        from annai.text.outline import outline  # only a repair needs it here

        whole = dataclasses.replace(document, outline=outline(document.text, document.format, document.body_start))
        sections = load_splitter(self._config.chunking.strategy)(whole, self._config.chunking)
        change = Change(ChangeKind.UPDATED, document.path, collection.source / document.path)
        self._write(collection, [_Prepared(change, whole, sections)])

    def check_embedder(self, collection: Collection) -> None:
        """Vectors of two embedders cannot be compared: say how to get out of it."""
        wanted = self._embedder(collection).identity
        if collection.embedder not in ("", wanted):
            raise EmbedderMismatch(
                f"The collection {collection.name!r} was indexed with {collection.embedder}, and the settings ask for "
                f"{wanted}; run `annai import -n {collection.name} -m replace`."
            )

    def _embedder(self, collection: Collection) -> Embedder:
        return self._embedder_of(collection.name.removesuffix(STAGING_SUFFIX))

    def _begin(self, collection: Collection) -> Collection:
        """Note what the index is made with; if that has changed, no file counts as indexed any more."""
        embedder = self._embedder(collection).identity
        noted = dataclasses.replace(collection, embedder=embedder, settings=self._fingerprint())
        if noted != collection:
            self._store.save_collection(noted)
            if collection.settings != noted.settings:
                self._forget_contents(collection, None)
        return noted

    def _forget_contents(self, collection: Collection, only: Sequence[str] | None) -> None:
        """Let no file count as indexed, so that each is read again; its document stays until then."""
        known = self._store.states(collection.name, only)
        states = [dataclasses.replace(state, size=-1, hash="") for state in known.values()]
        if states:
            self._store.write(collection.name, states=states)

    def _process_requests(self, name: str, requests: Sequence[Request], stop: Callable[[], bool]) -> Outcomes:
        """Look again at the files that were asked for, and index those that changed."""
        try:
            collection = find(self._store, self._config, name)
        except CollectionError as error:
            self._store.requests.finish([RequestResult(request.id, "skipped", str(error)) for request in requests])
            return Counter()
        by_path = {request.path: request for request in requests}
        known = self._store.states(collection.name, [*by_path])
        found = scan(collection.source, self._config.files, known, only=[*by_path])
        changes = [change for change in found.changes if change.path in by_path]
        hidden = tuple(f"{path}/" for path in found.inaccessible)
        idle = by_path.keys() - {change.path for change in changes}
        outcomes: Outcomes = Counter({(collection.name, "unchanged"): len(idle)})
        self._store.requests.finish(
            [
                self._retry(by_path[path], "it could not be looked at")
                if f"{path}/".startswith(hidden)
                else RequestResult(by_path[path].id, "skipped", "nothing has changed")
                for path in sorted(idle)
            ]
        )
        for batch in self._apply(collection, changes):
            ends = [self._end(by_path[each.change.path], each) for each in batch]
            self._store.requests.finish(ends)
            outcomes.update((collection.name, each.outcome) for each in batch)
            moved = [each.change.path for each in batch if each.has_moved_on]
            if moved:
                self._store.requests.add(collection.name, moved)
            if stop():
                break
        if changes:
            # Read again: someone may have changed its description or disabled it meanwhile.
            latest = find(self._store, self._config, name)
            self._store.save_collection(dataclasses.replace(latest, imported_at=timestamp()))
        return outcomes

    def _apply(self, collection: Collection, changes: Sequence[Change]) -> Iterator[list[_Prepared]]:
        """Take changes through the pipeline, batch by batch; each is written when it is handed out."""
        embedder = self._embedder(collection)
        # Requests to a service are filled across files, several at a time.
        most = max(BATCH_PASSAGES, embedder.batch_size * embedder.parallel_batches)
        for batch in _batches((self._prepare(collection, change) for change in changes), most):
            yield self._write(collection, batch)

    def _write(self, collection: Collection, batch: list[_Prepared]) -> list[_Prepared]:
        """Embed and write a batch; a document that breaks this is found out, and becomes a remembered problem."""
        try:
            with self._clock.measure("embed"):
                documents = self._with_features(collection, batch)
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
                return [done for each in batch for done in self._write(collection, [each])]
            failed = _broken(batch[0].change, error)
            self._store.write(collection.name, states=[failed.state] if failed.state else [])
            return [failed]
        return batch

    def _end(self, request: Request, prepared: _Prepared) -> RequestResult:
        """What is written down of a request whose file went through the pipeline."""
        problem = prepared.state.problem if prepared.state else None
        if problem:
            return (
                self._retry(request, problem.reason)
                if problem.kind == "failed"
                else RequestResult(request.id, "skipped", problem.reason)
            )
        state = prepared.document.state if prepared.document else prepared.state
        if prepared.outcome == "unchanged":
            return RequestResult(request.id, "skipped", "nothing has changed", state.hash if state else "")
        return RequestResult(request.id, "completed", hash=state.hash if state else "")

    def _retry(self, request: Request, error: str) -> RequestResult:
        """Have it tried again after a while, each time a longer one, until that was often enough."""
        if request.attempts >= self._config.worker.retries:
            return RequestResult(request.id, "failed", error)
        return RequestResult(request.id, "pending", error, pause=RETRY_PAUSE * RETRY_GROWTH**request.attempts)

    def _prepare(self, collection: Collection, change: Change) -> _Prepared:
        """Read and split one file; whatever is wrong with it becomes a remembered problem, never an end."""
        state = FileState(change.path, change.size, change.mtime_ns, change.hash)
        if change.kind is ChangeKind.DELETED:
            return _Prepared(change)
        if change.kind is ChangeKind.TOUCHED:
            return _Prepared(change, state=state)
        # Most searches find nothing changed, and need no reader.
        from annai.files.reader import read_document

        split = load_splitter(self._config.chunking.strategy)
        try:
            with self._clock.measure("read"):
                document = read_document(collection.name, collection.source, change, self._config.files)
            with self._clock.measure("split"):
                return _Prepared(change, document, split(document, self._config.chunking))
        except ReadError as error:
            problem = Problem("skipped" if isinstance(error, SkippedFile) else "failed", str(error))
            logger.info("%s: %s: %s", problem.kind, change.path, error)
            return _Prepared(change, state=dataclasses.replace(state, problem=problem))
        except Exception as error:
            return _broken(change, error)

    def _with_features(self, collection: Collection, batch: Iterable[_Prepared]) -> list[IndexedDocument]:
        """The documents of a batch, embedded together and ready to be written."""
        # Most searches find nothing changed, and need neither this nor the reader.
        from annai.indexing.features import add_features

        documents = [(each.document, each.sections) for each in batch if each.document]
        return add_features(documents, self._embedder(collection))

    def _ask(self, confirm: Confirm, collection: Collection, found: Scan) -> None:
        """Tell how much there is to do, going by a sample, and stop unless that is wanted."""
        step = max(len(found.changes) // SAMPLE_FILES, 1)
        first, *sample = found.changes[::step][:SAMPLE_FILES]
        # What is loaded with the first file is loaded only once.
        self._with_features(collection, [self._prepare(collection, first)])
        start = perf_counter()
        self._with_features(collection, [self._prepare(collection, change) for change in sample])
        share = sum(change.size for change in sample) / max(found.total_bytes, 1)
        seconds = (perf_counter() - start) / max(share, 1e-9)
        if not confirm(len(found.changes), seconds):
            raise CollectionError(
                f"{collection.source} was not indexed: {len(found.changes):,} files are many; "
                "`--yes` indexes them all, and [files] in annai.toml can leave some out."
            )

    def _fingerprint(self) -> str:
        """What the sections depend on besides the documents."""
        return f"{PIPELINE_VERSION}; {self._config.chunking}; {self._config.files.max_file_mb} MB"


def _broken(change: Change, error: Exception) -> _Prepared:
    """A file that breaks the pipeline must not stop the others; the trace is for us."""
    logger.error("failed: %s", change.path, exc_info=error)
    problem = Problem("failed", f"annai could not index it ({type(error).__name__}: {error}); please report this")
    return _Prepared(change, state=FileState(change.path, change.size, change.mtime_ns, change.hash, problem))


def _failed_as_it_is(change: Change, known: Mapping[str, FileState]) -> bool:
    """Whether this very state of the file has failed before."""
    state = known.get(change.path)
    failed = state is not None and state.problem is not None and state.problem.kind == "failed"
    return failed and state is not None and (change.size, change.mtime_ns) == (state.size, state.mtime_ns)


def _batches(prepared: Iterable[_Prepared], most_passages: int) -> Iterator[list[_Prepared]]:
    """Group what belongs in one write, holding no more than one group at a time."""
    batch: list[_Prepared] = []
    passages = characters = 0
    for each in prepared:
        batch.append(each)
        passages += sum(section.is_passage for section in each.sections)
        characters += len(each.document.text) if each.document else 0
        if passages >= most_passages or characters >= BATCH_CHARACTERS or len(batch) >= BATCH_FILES:
            yield batch
            batch, passages, characters = [], 0, 0
    if batch:
        yield batch
