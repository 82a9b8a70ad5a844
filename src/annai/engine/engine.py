"""What can be done with a project that is open in this process? Each operation, in a few lines."""

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Unpack

from annai import collection as collections
from annai.answers import Answer, Freshness, Query, QueryOptions
from annai.asking.query import check_query, make_conditions, make_query, question_of
from annai.asking.references import find_parts, locate
from annai.config import Config, make_folders
from annai.embedders.base import Embedder
from annai.engine.answering import Answering
from annai.engine.models import Embedders
from annai.engine.status import (
    LeftOutCounts,
    collection_status,
    files_in_progress,
    folder_entries,
    history,
    latest_errors,
    searched_names,
)
from annai.errors import (
    AnnaiError,
    CollectionError,
    ConfigError,
    EmbedderError,
    EmbedderMismatch,
    IndexBusy,
    NotFound,
    QueryError,
    StoreError,
)
from annai.indexing.comparison import Comparison
from annai.indexing.indexer import Indexer, Outcomes
from annai.indexing.lock import IndexLock
from annai.indexing.pipeline import Pipeline
from annai.indexing.recognition import change_note, is_of_another
from annai.indexing.updates import POLL_SECONDS, Updates
from annai.project import FIRST_PATIENCE_SECONDS, MOST_REQUESTS, Confirm, Progress, Project, waiting_files
from annai.rerankers.base import Reranker, load_reranker
from annai.state import found_by_chance
from annai.stores.base import STAGING_SUFFIX, Store, load_store
from annai.stores.scoped import ScopedStore
from annai.types import (
    IMPLICIT_COLLECTION,
    Collection,
    FolderEntry,
    ImportMode,
    ImportSummary,
    Listing,
    MetadataField,
    Queued,
    Request,
    RequestStatus,
    Selection,
    Status,
)

SEARCH_WAIT_SECONDS = 2.0
"""How long a search waits for files that another process, or this server's worker, is indexing."""

AT_ONCE_BYTES = 1_000_000
"""Up to this size a file that keeps changing is indexed for a question all the same: that takes a moment."""

COMPARING_SHARE, MAX_COMPARING_PAUSE_SECONDS = 0.05, 5.0
"""Where no question needs it, comparing all files with the disk for them takes at most this share of the time;
after this many seconds a question does it in any case."""

Caught = tuple[Mapping[str, Path], Sequence[int]]
"""The collections, with their folders, of which all changes are known, and the requests for the last ones."""

CHANGE_SECONDS = 20.0
"""How long one call makes new vectors: then whoever waits for the index has its turn, before `IMPORT_WAIT_SECONDS`."""

MOST_QUEUED = 100
"""Requests that are returned when files were queued."""


class Engine(Project):
    """A project, opened in this process."""

    def __init__(self, config: Config) -> None:
        check_root(config)
        self.config = config
        self.store: Store = load_store(config)
        self.lock = self._lock("lock")
        """Its holder indexes."""
        self.keeper = self._lock("keeper")
        """Its holder watches the files, and indexes them as they change."""
        remember = config.store.engine != "memory" and not self.read_only
        self._embedders = Embedders(config, remember=remember)
        self.wake: Callable[[], None] | None = None
        """Wakes the worker that keeps the index fresh in this process, if there is one."""
        self._catch_up: Callable[[], Caught] | None = None
        """Has that worker queue what changed before this call."""
        self._next_comparison: dict[str, float] = {}
        """When a question compares a collection with the disk again, though its worker knows what changed."""
        self._is_behind = False
        """Whether files were still waiting when the last question had waited for them."""
        self.worker_problem = ""
        """Why that worker cannot index now, as a sentence: its embedder is down, say."""
        self.is_changing_models = False
        """Whether that worker makes new vectors with the model that the settings name."""
        self._queued = 0
        self._left_out_counts = LeftOutCounts()
        if not self.read_only:
            collections.follow_project(self.store, config)
        if not self.read_only and any(each.name.endswith(STAGING_SUFFIX) for each in self.store.collections()):
            self._updates.delete_abandoned()

    def _lock(self, kind: str) -> IndexLock:
        path = self.config.database_path
        # An index in memory, or one that machines share, is not guarded by a lock file.
        alone = self.store.shared or self.config.store.engine == "memory"
        return IndexLock(None if alone else path.with_name(f"{path.name}.{kind}"), partial(make_folders, self.config))

    @property
    def read_only(self) -> bool:
        """Whether the index can only be searched."""
        return self.store.read_only

    @cached_property
    def embedder(self) -> Embedder:
        """The project's own embedder, created when it is first needed."""
        return self._embedders.get(self.config.embedding)

    def _asked_embedder(self, collection: Collection) -> Embedder:
        """The embedder that the settings name for a collection; one that is being built gets that of its successor."""
        settings = self.config.embedding_of(collection.name.removesuffix(STAGING_SUFFIX))
        return self.embedder if settings == self.config.embedding else self._embedders.get(settings)

    def _embedder_of(self, collection: Collection) -> Embedder:
        """The embedder that made a collection's vectors, or will make its first. `EmbedderMismatch` if it is gone."""
        try:
            if collection.name.endswith(STAGING_SUFFIX) or not self._asks_for_another(collection):
                return self._asked_embedder(collection)
        except EmbedderError:
            if not self.store.dimension(collection.name):
                raise
        try:
            return self._embedders.former(collection.embedder)
        except EmbedderError as error:
            note = self._change_note(collection)
            raise EmbedderMismatch(note, f"the former model cannot be opened: {error}.") from error

    @cached_property
    def _reranker(self) -> Reranker | None:
        return load_reranker(self.config)

    @cached_property
    def _pipeline(self) -> Pipeline:
        return Pipeline(self.store, self._embedder_of, self.config)

    @cached_property
    def _comparison(self) -> Comparison:
        return Comparison(self.store, self.config, self._pipeline)

    @cached_property
    def _indexer(self) -> Indexer:
        return Indexer(self.store, self.config, self._comparison, self._pipeline)

    @cached_property
    def _updates(self) -> Updates:
        return Updates(self.store, self.config, self._comparison, self._indexer, self.lock)

    def scoped(self, names: Iterable[str]) -> "Engine":
        """The same project as somebody finds it who may know of these collections only; not to be closed."""
        # What must be there once is made here, and writes to the whole index.
        _ = self._updates, self._reranker
        seen = copy.copy(self)
        seen.store = ScopedStore(self.store, frozenset(names))
        seen.worker_problem = ""  # It may tell of the others.
        return seen

    # Collections

    def list_collections(self) -> list[Collection]:
        """The registered collections, ordered by name."""
        return collections.registered(self.store, self.config)

    def add_collection(
        self, name: str, source: Path, description: str = "", keep_root: bool | None = None
    ) -> Collection:
        """Register a directory."""
        added = collections.add(self.store, self.config, name, source, description, keep_root=keep_root)
        self._wake_worker()
        return added

    def update_collection(
        self,
        name: str,
        description: str | None = None,
        source: Path | None = None,
        enabled: bool | None = None,
    ) -> Collection:
        """Change what is given of a collection."""
        changed = collections.update(
            self.store, self.config, name, description=description, source=source, enabled=enabled
        )
        self._wake_worker()
        return changed

    def delete_collection(self, name: str) -> None:
        """Delete a collection and everything indexed from it; the files themselves stay."""
        collections.delete(self.store, self.config, name)
        self._wake_worker()

    # Indexing

    def import_collection(
        self,
        name: str = "",
        mode: ImportMode = "update",
        chunk_size: int | None = None,
        chunk_overlap: int | None = None,
        allow_deletions: bool = False,
        adopt: bool = False,
        *,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Index one collection: all of it, or what changed. Without a name, the project's only one."""
        known = collections.only_one(collections.searchable(self.store, self.config, (name,) if name else ()))
        if not adopt:
            collections.check_owner(self.store, self.config, known)
        collection = collections.chunked(self.config, known, chunk_size, chunk_overlap)
        if adopt and mode == "new":
            mode = "update"
        # Other sizes that are named are other settings on purpose.
        adopt = adopt or collection != known
        if mode == "new" and self.store.statistics(collection.name).documents:
            raise CollectionError(
                f"The collection {collection.name!r} already has data",
                "`-m update` brings it up to date, `-m replace` rebuilds it.",
            )
        if mode == "replace":
            return self._updates.replace(collection, allow_deletions=allow_deletions, adopt=adopt, progress=progress)
        if collection != known:
            self.store.save_collection(collection)
        summary = self._updates.update(
            [(collection, None)], allow_deletions=allow_deletions, adopt=adopt, progress=progress
        )
        return replace(summary, note=self._change_notes([collection]))

    def rebuild(
        self,
        paths: Sequence[str] = (),
        force: bool = False,
        allow_deletions: bool = False,
        *,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Index again what lies under these paths, and wait until it is done."""
        parts = find_parts(self.store, self.config, paths)
        if not paths:
            # To index everything again is to index it with the model that the settings name.
            changed = [each for each, _ in parts if force and self._asks_for_another(each)]
            parts = [part for part in parts if part[0] not in changed]
            summaries = [
                self._updates.replace(each, allow_deletions=allow_deletions, progress=progress) for each in changed
            ]
            summaries.append(
                self._updates.update(parts, force=force, allow_deletions=allow_deletions, progress=progress)
            )
            return replace(sum(summaries, ImportSummary()), note=self._change_notes([each for each, _ in parts]))
        summaries = [
            self._updates.update_first(
                *part, force=force, allow_deletions=allow_deletions, progress=progress, wake=self._wake_worker
            )
            for part in parts
        ]
        return sum(summaries, ImportSummary())

    def _asks_for_another(self, collection: Collection) -> bool:
        """Whether the settings name another model than the one that made a collection's vectors."""
        return is_of_another(self.store, collection, self._asked_embedder(collection))

    def _change_note(self, collection: Collection, *, progress: bool = False) -> str:
        """What to know while the settings name another model than that of the vectors; empty if they do not."""
        try:
            if not self._asks_for_another(collection):
                return ""
            asked = self._asked_embedder(collection).identity
        except EmbedderError as error:
            return change_note(collection, "one that cannot be opened", str(error).rstrip("."))
        way = "new ones are being made" if self.is_changing_models else ""
        staging = collection.name + STAGING_SUFFIX
        if progress and (done := self.store.statistics(staging).documents):
            total = self.store.statistics(collection.name).documents
            way = f"{done:,} of {total:,} documents have new ones" + (
                "" if way else f"; `annai import -c {collection.name} -m replace` goes on with that"
            )
        return change_note(collection, asked, way)

    def _change_notes(self, searched: Iterable[Collection]) -> str:
        notes = [self._change_note(each) for each in searched]
        return " ".join(f"{note}." for note in notes if note)

    def models_to_change(self, names: Iterable[str]) -> dict[str, str]:
        """Which of these collections have the vectors of another model than the settings name, and of which.

        None while some settings are not trusted: they may be what names the model.
        """
        known = {each.name: each for each in self.store.collections()} if self.config.is_trusted else {}
        found = {}
        for name in names:
            with suppress(EmbedderError):  # What cannot be opened makes no vectors; searches tell of it.
                if name in known and self._asks_for_another(known[name]):
                    found[name] = known[name].embedder
        return found

    def change_models(
        self, names: Iterable[str], *, stop: Callable[[], bool], between: Callable[[], None] = lambda: None
    ) -> None:
        """Give collections the vectors of the model that the settings name, or a part of them in one call.

        Searches go on with the former model until all are there. `between` is called all the while. Nothing is done
        while another process is indexing.
        """
        deadline = 0.0

        def is_over() -> bool:
            nonlocal deadline
            deadline = deadline or time.monotonic() + CHANGE_SECONDS
            return stop() or time.monotonic() >= deadline

        for name in names:
            collection = collections.find(self.store, self.config, name)
            with suppress(IndexBusy):
                self._updates.replace(collection, stop=is_over, between=between, timeout=0.0)
            if is_over():
                break

    def request_index(self, path: str, force: bool = False) -> Queued:
        """Queue what lies under a path, and return without waiting."""
        numbers = [
            number
            for collection, only in find_parts(self.store, self.config, [path])
            for number in self._comparison.request(collection, only, force=force).ids
        ]
        self._wake_worker()
        numbers.sort()
        return Queued(len(numbers), tuple(reversed(self.store.requests.get(numbers[:MOST_QUEUED]))))

    def refresh(
        self,
        names: Sequence[str] = (),
        *,
        wait: bool = True,
        progress: Progress | None = None,
        confirm: Confirm | None = None,
    ) -> Freshness:
        """Bring everything that a search of these collections looks at up to date with the disk.

        What keeps it from that (no embedder, a folder that is gone, a full disk) is told with the result, since what
        was indexed before can be searched all the same; it is raised only if there is nothing to search.
        """
        return self._refresh(collections.searchable(self.store, self.config, names), progress, confirm, wait=wait)

    def _refresh(
        self,
        searched: Sequence[Collection],
        progress: Progress | None,
        confirm: Confirm | None,
        *,
        wait: bool = True,
        compare: bool = True,
    ) -> Freshness:
        own = [each for each in searched if collections.is_here(self.store, self.config, each)]
        if self.read_only and not own:
            return Freshness(self.store.requests.due([each.name for each in searched]))  # Another machine indexes them.
        if self.read_only:
            return Freshness(
                problem="The index cannot be written (its folder is read-only, or the disk is full); "
                "answers may be out of date."
            )
        is_first = not all(each.imported_at for each in own)
        errors: list[AnnaiError] = []
        queued, paused = self._queue_for_question(own, errors, confirm, compare=compare)
        names = [each.name for each in own]
        waiting = 0
        with _noted(errors):
            if not (own and self._note_queued(self.store.requests.due())):
                self._is_behind = False
            elif self.wake is None:
                patience = FIRST_PATIENCE_SECONDS if is_first and wait else 0.0
                self._updates.process(timeout=SEARCH_WAIT_SECONDS, patience=patience, progress=progress)
                waiting = self.store.requests.due(names)
            elif compare and not (self.keeper.is_held or self._is_behind):
                # The process whose worker keeps the index fresh looks at the queue only now and then.
                deadline = time.monotonic() + SEARCH_WAIT_SECONDS
                self._updates.process(timeout=SEARCH_WAIT_SECONDS, stop=lambda: time.monotonic() > deadline)
                waiting = self.store.requests.due(names)
                self._is_behind = waiting > 0
            else:
                waiting = self._wait_for_worker(names, queued)
        if errors and not any(self.store.dimension(each.name) for each in searched):
            raise errors[0]
        problems = [str(error) for error in errors] or ([self.worker_problem] if self.worker_problem else [])
        told = " ".join(dict.fromkeys(problems))
        problem = f"{told} Until then answers may be out of date." if told else ""
        return Freshness(waiting + paused, problem, is_first=is_first and waiting > 0)

    def _keep_up(self) -> None:
        """Have what a worker noticed indexed before something is read; what keeps it from that, searches tell."""
        if self._catch_up is not None:
            with _noted([]):
                self._refresh(collections.searchable(self.store, self.config), None, None, compare=False)

    def _queue_for_question(
        self, own: Sequence[Collection], errors: list[AnnaiError], confirm: Confirm | None, *, compare: bool
    ) -> tuple[Sequence[int], int]:
        """Queue what changed before the question: what the worker noticed, and all that differs from the disk.

        With `compare` the latter is not looked for if the worker knows it, for a while; without, if it does not either.
        Returns the requests of what the worker noticed, and how many files have to wait for their turn.
        """
        certain, queued = self._catch_up() if self._catch_up else ({}, ())
        paused = 0
        for collection in own:
            name, now = collection.name, time.monotonic()
            # Whatever is on disk is news to an index that somebody deleted, unless it is being made.
            is_made = bool(collection.imported_at) or (self._is_behind and self.store.requests.due([name]) > 0)
            is_known = certain.get(name) == collection.source and is_made
            with _noted(errors):
                is_time = now >= self._next_comparison.get(name, 0.0)
                if (not is_known or is_time) if compare else (not is_known and is_time):
                    self._comparison.request(collection, at_once=AT_ONCE_BYTES, confirm=confirm)
                    took = time.monotonic() - now
                    self._next_comparison[name] = now + took + min(took / COMPARING_SHARE, MAX_COMPARING_PAUSE_SECONDS)
                elif restless := self._comparison.paused(name):
                    self._comparison.request(collection, restless, at_once=AT_ONCE_BYTES)
            paused += len(self._comparison.paused(name))
        return queued, paused

    def _wake_worker(self) -> None:
        if self.wake is not None:
            self.wake()

    def _wait_for_worker(self, names: Sequence[str], queued: Sequence[int]) -> int:
        """Wake the worker, wait until it has indexed these, and return how many files are left.

        It does not wait for long: the worker may have much to do. Where the last question waited in vain, this one
        waits only for what was `queued` for it.
        """
        deadline = time.monotonic() + SEARCH_WAIT_SECONDS
        if waiting := self.store.requests.due(names):
            self._wake_worker()
        while waiting and time.monotonic() < deadline and not (self._is_behind and self._are_done(queued)):
            time.sleep(POLL_SECONDS)
            waiting = self.store.requests.due(names)
        self._is_behind = waiting > 0
        return waiting

    def _are_done(self, ids: Sequence[int]) -> bool:
        """Whether requests are done, or have to be tried again."""
        return not any(
            each.status == "processing" or (each.status == "pending" and not each.error)
            for each in (self.store.requests.get(ids) if ids else ())
        )

    def follow(self, catch_up: Callable[[], Caught], on_folder: Callable[[str, str, str], None]) -> None:
        """Have a worker say what changed before a question, and tell it of every folder that is compared."""
        self._catch_up, self._comparison.on_folder = catch_up, on_folder

    def queue_changes(
        self, name: str, only: Sequence[str] | None = None, *, retry_failed: bool = True, asked: bool = False
    ) -> list[int]:
        """Queue what changed in a collection, in all of it or under some of its paths; returns the requests.

        The paths that changed before a question that is `asked` come before all else that waits.
        """
        collection = collections.find(self.store, self.config, name)
        found = self._comparison.request(
            collection,
            only,
            retry_failed=retry_failed,
            at_once=AT_ONCE_BYTES if asked else 0,
            first=asked and only is not None and self.store.requests.due() > 0,
        )
        self._note_queued(self.store.requests.due())
        return found.ids

    def _note_queued(self, waiting: int) -> int:
        """The most files that waited since the queue was last empty, if this many wait now."""
        self._queued = max(self._queued, waiting) if waiting else 0
        return self._queued

    def process_queue(self, *, timeout: float, stop: Callable[[], bool] = lambda: False) -> Outcomes:
        """Index what is due in the queue, and return what became of each file.

        If another process or thread is indexing, wait this many seconds for it.
        """
        return self._updates.process(timeout=timeout, stop=stop)

    def alone(self) -> AbstractContextManager[None]:
        """A block within which nobody else indexes; raises `IndexBusy` if another process does not finish in time."""
        return self._updates.alone()

    def mend_store(self) -> bool:
        """Give the engine beside the index what it lost, unless another process is indexing; returns whether it has."""
        with self.lock.exclusive() as mine:
            if mine:
                self.store.sweep()
            return mine

    # Searching

    def search(
        self,
        query: Query | str,
        *,
        refresh: bool = True,
        progress: Progress | None = None,
        confirm: Confirm | None = None,
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """Answer a question from an index that is up to date.

        With `refresh=False` only what the worker in this process noticed is indexed first; where it cannot notice
        everything, files are compared now and then. Without a worker, the index is searched as it is.
        """
        text, options = question_of(query, options)
        query = query if isinstance(query, Query) else make_query(text, self.config.search, **options)
        check_query(query)
        names = query.where.collections
        known = self.store.collections()
        searched = collections.searchable(self.store, self.config, names, known)
        is_kept = self._catch_up is not None
        freshness = self._refresh(searched, progress, confirm, compare=refresh) if refresh or is_kept else Freshness()
        answering = Answering(self.store, self.config, self._embedder_of, self._change_note, lambda: self._reranker)
        return answering.answer(query, searched, collections.sources(self.store, self.config, known), freshness)

    def locate(self, reference: str) -> Selection:
        """Find a document, a section or some lines, by any address that annai prints."""
        self._keep_up()
        try:
            return locate(self.store, self.config, reference)
        except NotFound as error:
            if reason := self.why_missing(reference):
                raise NotFound(reason) from error
            raise

    def browse(self, path: str = "", where: Sequence[str] = (), since: str = "", until: str = "") -> Listing:
        """The documents under a folder, or those that a glob names."""
        from annai.asking.listing import list_documents  # a search does without it

        self._keep_up()
        return list_documents(self.store, self.config, path, make_conditions(where, since, until))

    def fields(self, name: str = "") -> list[MetadataField]:
        """What documents say about themselves."""
        from annai.asking.listing import list_fields  # a search does without it

        return list_fields(self.store, self.config, name)

    def why_missing(self, reference: str) -> str:
        """Why a file that is there is not in the index."""
        from annai.asking.missing import why_missing  # a search does without it

        return why_missing(self.store, self.config, reference)

    # Status

    def status(self, name: str = "") -> Status:
        """The state of the project, or of one collection."""
        if name:
            shown = [collections.find(self.store, self.config, name)]
        else:
            shown = self.list_collections() or [collections.find(self.store, self.config, IMPLICIT_COLLECTION)]
        counts = self.store.requests.counts()
        return Status(
            root=self.config.root,
            database=self.store.address,
            size_on_disk=self.store.size_on_disk(),
            embedder=self.embedder.identity,
            collections=tuple(
                collection_status(
                    self.store,
                    self.config,
                    each,
                    self._comparison,
                    self._left_out_counts,
                    self._change_note(each, progress=True),
                )
                for each in shown
            ),
            searched=searched_names(self.store, self.config),
            requests=counts,
            queued=self._note_queued(waiting_files(counts)),
            indexing=files_in_progress(self.store),
            errors=latest_errors(self.store),
            problem=self.store.problem,
        )

    def requests(
        self, status: RequestStatus | None = None, collection: str = "", limit: int = 100, path: str = ""
    ) -> list[Request]:
        """The queue and its history, newest first."""
        if not 1 <= limit <= MOST_REQUESTS:
            raise QueryError(f"limit must be between 1 and {MOST_REQUESTS:,}, not {limit}.")
        if path:
            return history(self.store, self.config, path, status, collection, limit)
        return self.store.requests.latest(status, collection, limit)

    def sources(self) -> dict[str, Path]:
        """Where each collection's files are."""
        return collections.sources(self.store, self.config)

    def document_paths(self, name: str, after: str = "", limit: int | None = None) -> list[str]:
        """The paths of a collection's documents, in order."""
        if limit is not None and limit < 1:
            raise QueryError(f"limit must be at least 1, not {limit}.")
        found = collections.find(self.store, self.config, name)
        return [each.path for each in self.store.documents(found.name, after=after, limit=limit)]

    def folder(self, name: str, path: str = "") -> list[FolderEntry]:
        """What the index knows of a folder of a collection: its files and folders, the largest first."""
        collection = collections.find(self.store, self.config, name).name
        requests, known = self.store.requests, self.store.states(collection, [path] if path else None)
        waiting = requests.pending(collection, [*known]) if requests.counts().get("pending") else []
        return folder_entries(known.values(), {each.path for each in waiting}, path)

    def close(self) -> None:
        """Release the index and the models."""
        self._embedders.close()
        if reranker := self.__dict__.get("_reranker"):
            reranker.close()
        self.store.close()


@contextmanager
def _noted(errors: list[AnnaiError]) -> Iterator[None]:
    """Add to `errors` what keeps the block from bringing an index up to date."""
    try:
        yield
    except (CollectionError, EmbedderError, StoreError) as error:
        errors.append(error)


def check_root(config: Config) -> None:
    """Refuse to index home, the temporary folder or one of the system, where people stand by chance, unless named."""
    root = config.root
    if config.named or not (what := found_by_chance(root)):
        return
    if config.is_around and config.file:
        raise ConfigError(
            f"{config.file} makes {root} the project here, and that is {what}, which annai does not index on its own",
            "remove that file, or name the folder to search with --docs-dir.",
        )
    raise ConfigError(
        f"{root} is {what}, which annai does not index on its own",
        f"change to a folder of documents, or name this one with --docs-dir {root}.",
    )
