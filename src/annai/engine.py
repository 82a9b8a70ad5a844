"""How does a project work in this process? The engine opens store, embedders and indexer, and joins them."""

import copy
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Unpack

from annai import collection as collections
from annai.answers import Answer, Freshness, Query, QueryOptions, Where
from annai.asking.filters import Filters
from annai.asking.query import check_query, make_conditions, make_query
from annai.asking.references import find_parts, locate
from annai.config import Config
from annai.embedders.base import CACHE_NAME, Embedder, load_embedder
from annai.errors import (
    AnnaiError,
    CollectionError,
    ConfigError,
    EmbedderError,
    NotFound,
    QueryError,
    StoreError,
)
from annai.files.folders import folder_entries
from annai.files.scanner import differs, left_out
from annai.indexing.indexer import Indexer, Outcomes
from annai.indexing.lock import IndexLock
from annai.indexing.recognition import check_model
from annai.indexing.updates import POLL_SECONDS, Updates
from annai.project import Confirm, Progress, Project
from annai.rerankers.base import Reranker, load_reranker
from annai.searching.fusion import fuse, limit_and_sort, rerank
from annai.searching.search import search
from annai.settings import Embedding
from annai.stores.base import STAGING_SUFFIX, Store, load_store
from annai.stores.scoped import ScopedStore
from annai.types import (
    IMPLICIT_COLLECTION,
    Collection,
    CollectionStatus,
    Document,
    FileState,
    FolderEntry,
    ImportMode,
    ImportSummary,
    LeftOut,
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

MOST_REQUESTS = 1000
"""Lines of the queue that one call returns."""

MOST_QUEUED = 100
"""Requests that are returned when files were queued."""

STATUS_ERRORS = STATUS_FILES = 5

LEFT_OUT_SECONDS = 10.0
"""How long the number of files that are not read is taken to be the same."""


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
        self._embedders: dict[Embedding, Embedder] = {}
        self._embedders_lock = threading.Lock()
        self.wake: Callable[[], None] | None = None
        """Wakes the worker that keeps the index fresh in this process, if there is one."""
        self.worker_problem = ""
        """Why that worker cannot index now, as a sentence: its embedder is down, say."""
        self._queued = 0
        self._counted: dict[str, tuple[float, tuple[LeftOut, ...]]] = {}
        """When the files of a collection that are not read were last counted, and what was found."""
        if not self.read_only and any(each.name.endswith(STAGING_SUFFIX) for each in self.store.collections()):
            self._updates.delete_abandoned()

    def _lock(self, kind: str) -> IndexLock:
        path = self.config.database_path
        # An index in memory, or one that machines share, is not guarded by a lock file.
        alone = self.store.shared or self.config.store.engine == "memory"
        return IndexLock(None if alone else path.with_name(f"{path.name}.{kind}"))

    @property
    def read_only(self) -> bool:
        """Whether the index can only be searched."""
        return self.store.read_only

    @cached_property
    def embedder(self) -> Embedder:
        """The project's own embedder, created when it is first needed."""
        return self._embedder_with(self.config.embedding)

    def embedder_of(self, collection: str) -> Embedder:
        """A collection's own embedder, or the project's."""
        settings = self.config.embedding_of(collection)
        return self.embedder if settings == self.config.embedding else self._embedder_with(settings)

    def _embedder_with(self, settings: Embedding) -> Embedder:
        """The embedder with these settings: one for all threads, since a model must not be in memory twice."""
        remembers = self.config.store.engine != "memory" and not self.read_only
        cache = self.config.database_path.with_name(CACHE_NAME) if remembers else None
        with self._embedders_lock:
            if settings not in self._embedders:
                embedder = load_embedder(settings, self.config.model, self.config.retry, cache=cache)
                embedder.is_watched = embedder.may_change
                self._embedders[settings] = embedder
            return self._embedders[settings]

    @cached_property
    def _reranker(self) -> Reranker | None:
        return load_reranker(self.config)

    @cached_property
    def _indexer(self) -> Indexer:
        return Indexer(self.store, self.embedder_of, self.config)

    @cached_property
    def _updates(self) -> Updates:
        return Updates(self.store, self.config, self._indexer, self.lock)

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
                f"The collection {collection.name!r} already has data; "
                "`-m update` brings it up to date, `-m replace` rebuilds it."
            )
        if mode == "replace":
            return self._updates.replace(collection, allow_deletions=allow_deletions, adopt=adopt, progress=progress)
        if collection != known:
            self.store.save_collection(collection)
        return self._updates.update(
            [(collection, None)], allow_deletions=allow_deletions, adopt=adopt, progress=progress
        )

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
            return self._updates.update(parts, force=force, allow_deletions=allow_deletions, progress=progress)
        summaries = [
            self._updates.update_first(
                *part, force=force, allow_deletions=allow_deletions, progress=progress, wake=self._wake_worker
            )
            for part in parts
        ]
        return sum(summaries, ImportSummary())

    def request_index(self, path: str, force: bool = False) -> Queued:
        """Queue what lies under a path, and return without waiting."""
        numbers = [
            number
            for collection, only in find_parts(self.store, self.config, [path])
            for number in self._indexer.request(collection, only, force=force).ids
        ]
        self._wake_worker()
        numbers.sort()
        return Queued(len(numbers), tuple(reversed(self.store.requests.get(numbers[:MOST_QUEUED]))))

    def refresh(
        self, names: Sequence[str] = (), *, progress: Progress | None = None, confirm: Confirm | None = None
    ) -> Freshness:
        """Bring everything that a search of these collections looks at up to date with the disk.

        What keeps it from that (no embedder, a folder that is gone, a full disk) is told with the result, since what
        was indexed before can be searched all the same; it is raised only if there is nothing to search.
        """
        return self._refresh(collections.searchable(self.store, self.config, names), progress, confirm)

    def _refresh(self, searched: Sequence[Collection], progress: Progress | None, confirm: Confirm | None) -> Freshness:
        own = [each for each in searched if collections.is_here(self.store, self.config, each)]
        if self.read_only and not own:
            return Freshness(self.store.requests.due([each.name for each in searched]))  # Another machine indexes them.
        if self.read_only:
            return Freshness(
                problem="The index cannot be written (its folder is read-only, or the disk is full); "
                "answers may be out of date."
            )
        errors: list[AnnaiError] = []
        for collection in own:
            with _noted(errors):
                self._indexer.request(collection, at_once=False, confirm=confirm)
        names = [each.name for each in own]
        waiting = 0
        with _noted(errors):
            if own and self._note_queued(self.store.requests.due()):
                if self.wake is None:
                    self.process_queue(timeout=SEARCH_WAIT_SECONDS, progress=progress)
                else:
                    self._wait_for_worker(names)
                waiting = self.store.requests.due(names)
        if errors and not any(self.store.dimension(each.name) for each in searched):
            raise errors[0]
        problems = [str(error) for error in errors] or ([self.worker_problem] if self.worker_problem else [])
        told = " ".join(dict.fromkeys(problems))
        return Freshness(waiting, f"{told} Until then answers may be out of date." if told else "")

    def _wake_worker(self) -> None:
        if self.wake is not None:
            self.wake()

    def _wait_for_worker(self, names: Sequence[str]) -> None:
        """Wake the worker and wait until it has indexed these, but not for long: it may have much to do."""
        if not self.store.requests.due(names):
            return
        deadline = time.monotonic() + SEARCH_WAIT_SECONDS
        self._wake_worker()
        while self.store.requests.due(names) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def queue_changes(self, name: str, only: Sequence[str] | None = None, *, retry_failed: bool = True) -> None:
        """Queue what changed in a collection, in all of it or under some of its paths."""
        collection = collections.find(self.store, self.config, name)
        self._indexer.request(collection, only, retry_failed=retry_failed, at_once=False)
        self._note_queued(self.store.requests.due())

    def _note_queued(self, waiting: int) -> int:
        """The most files that waited since the queue was last empty, if this many wait now."""
        self._queued = max(self._queued, waiting) if waiting else 0
        return self._queued

    def process_queue(
        self, *, timeout: float, progress: Progress | None = None, stop: Callable[[], bool] = lambda: False
    ) -> Outcomes:
        """Index what is due in the queue, and return what became of each file.

        If another process or thread is indexing, wait this many seconds for it.
        """
        return self._updates.process(timeout=timeout, progress=progress, stop=stop)

    def alone(self) -> AbstractContextManager[None]:
        """A block within which nobody else indexes; raises `IndexBusy` if another process does not finish in time."""
        return self._updates.alone()

    def mend_store(self) -> bool:
        """Give the engine beside the index what it lost, unless another process is indexing; returns whether it has."""
        with self.lock.exclusive() as mine:
            if mine:
                self.store.sweep()
            return mine

    def restore(self, name: str, document: Document) -> None:
        """Index a document once more from the text that the index itself holds."""
        self._indexer.restore(collections.find(self.store, self.config, name), document)

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
        """Answer a question from an index that is up to date, or with `refresh=False` from the index as it is."""
        query = make_query(query, self.config.search, **options) if isinstance(query, str) else query
        check_query(query)
        names = query.where.collections
        known = self.store.collections()
        searched = collections.searchable(self.store, self.config, names, known)
        if query.mode != "keyword":
            for collection in searched:
                self._indexer.check_embedder(collection)
        freshness = self._refresh(searched, progress, confirm) if refresh else Freshness()
        where = dataclasses.replace(query.where, collections=tuple(collection.name for collection in searched))
        sources = collections.sources(self.store, self.config, known)
        filters = Filters(self.store, self.config, where, sources)
        answer = self._answer(query, filters.parts())
        if not answer.results and not any(self.store.states(collection.name) for collection in searched):
            folders = ", ".join(str(collection.source) for collection in searched)
            raise NotFound(
                f"There are no documents in {folders}; annai looks for {', '.join(self.config.files.include)} "
                "(files.include in annai.toml)."
            )
        if freshness.problem:
            answer = self._compare_with_disk(answer, query.where.clean_only)
        if problem := self.store.problem:
            slower = f"answered by the index file, more slowly: {problem}"
            answer = dataclasses.replace(answer, note="; ".join(filter(None, (answer.note, slower))))
        return dataclasses.replace(
            answer,
            results=tuple(
                dataclasses.replace(hit, file=collections.file_path(self.config, sources[hit.collection], hit.path))
                for hit in answer.results
            ),
            unmatched=filters.unmatched(is_answered=bool(answer.results)),
            unmet=filters.unmet(is_answered=bool(answer.results)),
            freshness=freshness,
            sources=sources,
        )

    def _compare_with_disk(self, answer: Answer, clean_only: bool) -> Answer:
        """The answer of an index that could not be brought up to date: what differs from its file is `outdated`."""
        here = collections.here(self.store, self.config)
        sources = self.sources()
        hits = []
        for hit in answer.results:
            state = self.store.states(hit.collection, [hit.path]).get(hit.path)
            is_here = here is None or hit.collection in here
            if not is_here or (state and not differs(sources[hit.collection] / hit.path, state)):
                hits.append(hit)
            elif not clean_only:
                hits.append(dataclasses.replace(hit, index_status="outdated", is_dirty=True))
        return dataclasses.replace(answer, results=tuple(hits))

    def _answer(self, query: Query, parts: Mapping[str, Where]) -> Answer:
        """Search parts of collections, grouped by embedder and restriction, and join the results in one answer."""
        groups: dict[tuple[str, Where], list[str]] = {}
        for name, where in parts.items():
            # A keyword search needs no embedder.
            identity = "" if query.mode == "keyword" else self.embedder_of(name).identity
            groups.setdefault((identity, where), []).append(name)
        if not groups:
            return Answer(query.text, 0.0, 0, ())
        places = [dataclasses.replace(where, collections=tuple(names)) for (_, where), names in groups.items()]
        reranker = self._reranker
        if len(groups) == 1 and reranker is None:
            return self._search(dataclasses.replace(query, where=places[0]))
        limit = max(query.end, self.config.rerank.candidates if reranker else 0)
        answers = []
        for where in places:
            asked = dataclasses.replace(query, where=where, limit=limit, offset=0, sort="score")
            answers.append(self._search(asked))
        answer = fuse(answers)
        if reranker and answer.results:
            answer = rerank(answer, reranker, self.config.rerank)
        return limit_and_sort(answer, query)

    def _search(self, query: Query) -> Answer:
        """Search collections that have the same embedder; without it, by words alone."""
        embedder = self.embedder_of(query.where.collections[0])
        try:
            answer = search(self.store, embedder, query)
            if query.mode != "keyword" and embedder.is_watched:
                for name in query.where.collections:
                    found = collections.find(self.store, self.config, name)
                    check_model(self.store, found, embedder.identity, embedder.probed)
            return answer
        except EmbedderError as error:
            if query.mode != "hybrid":
                raise
            answer = search(self.store, embedder, dataclasses.replace(query, mode="keyword"))
            return dataclasses.replace(answer, note=f"searched by words alone: {error}")

    def locate(self, reference: str) -> Selection:
        """Find a document, a section or some lines, by any address that annai prints."""
        try:
            return locate(self.store, self.config, reference)
        except NotFound as error:
            if reason := self.why_missing(reference):
                raise NotFound(reason) from error
            raise

    def browse(self, path: str = "", where: Sequence[str] = (), since: str = "", until: str = "") -> Listing:
        """The documents under a folder, or those that a glob names."""
        from annai.asking.listing import list_documents  # a search does without it

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
            collections=tuple(self._collection_status(collection) for collection in shown),
            searched=tuple(each.name for each in self._searched()),
            requests=counts,
            queued=self._note_queued(counts.get("pending", 0) + counts.get("processing", 0)),
            indexing=tuple(
                f"{each.collection}:{each.path}"
                for each in self.store.requests.latest("processing", limit=STATUS_FILES)
            ),
            errors=tuple(self._latest_errors()),
            problem=self.store.problem,
        )

    def requests(self, status: RequestStatus | None = None, collection: str = "", limit: int = 100) -> list[Request]:
        """The queue, newest first."""
        if not 1 <= limit <= MOST_REQUESTS:
            raise QueryError(f"limit must be between 1 and {MOST_REQUESTS:,}, not {limit}.")
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

    def _searched(self) -> list[Collection]:
        try:
            return collections.searchable(self.store, self.config)
        except CollectionError:
            return []  # Every collection is disabled.

    def _latest_errors(self) -> list[Request]:
        requests = self.store.requests
        found = [*requests.latest("failed", limit=STATUS_ERRORS), *requests.latest("pending", limit=STATUS_ERRORS)]
        return sorted((each for each in found if each.error), key=lambda each: -each.id)[:STATUS_ERRORS]

    def _collection_status(self, collection: Collection) -> CollectionStatus:
        states = self.store.states(collection.name)
        problems = sorted((each for each in states.values() if each.problem), key=lambda state: state.path)
        if not collections.is_own(self.store, self.config, collection):
            note = collections.served_only(collection)
        else:
            doubt = self._indexer.doubt_source(collection)
            note = doubt.reason if doubt else ""
        statistics = self.store.statistics(collection.name)
        return CollectionStatus(collection, statistics, tuple(problems), self._left_out(collection, states), note)

    def _left_out(self, collection: Collection, known: Mapping[str, FileState]) -> tuple[LeftOut, ...]:
        """The files of a collection that are not read; counted again after a while, since a page asks all the time."""
        counted, kinds = self._counted.get(collection.name, (0.0, ()))
        if counted and time.monotonic() - counted < LEFT_OUT_SECONDS:
            return kinds
        here = collections.here(self.store, self.config)
        is_root = collection.name == IMPLICIT_COLLECTION
        without = collections.within_root(self.store, self.config) if is_root else ()
        if (here is None or collection.name in here) and collection.source.is_dir():
            with suppress(CollectionError):
                kinds = tuple(left_out(collection.source, self.config.files, known, without=without))
        self._counted[collection.name] = (time.monotonic(), kinds)
        return kinds

    def close(self) -> None:
        """Release the index and the models."""
        for embedder in self._embedders.values():
            embedder.close()
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
    """Refuse to index the home folder or the whole file system unless the user names it."""
    for folder, name in ((Path.home(), "your home folder"), (Path(config.root.anchor), "the whole file system")):
        if config.root == folder.resolve() and not config.named:
            raise ConfigError(
                f"This is {name}, which annai does not index on its own; change to a folder of documents, "
                f"or name this one with --docs-dir {config.root}."
            )
