"""What can be done with a project? The one object that the interfaces use: it opens the parts and joins them."""

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from annai import collection as collections
from annai.config import Config
from annai.embedders.base import CACHE_NAME, Embedder, load_embedder
from annai.errors import CollectionError, ConfigError, IndexBusy, NotFound
from annai.indexing.indexer import MAX_PENDING, Indexer, Outcomes
from annai.indexing.lock import IndexLock
from annai.project import Confirm, Progress
from annai.rerankers.base import Reranker, load_reranker
from annai.searching.fusion import fuse, limit_and_sort, rerank
from annai.searching.references import Part, find_parts, locate
from annai.searching.search import search
from annai.settings import Embedding
from annai.stores.base import Store, load_store
from annai.types import (
    IMPLICIT_COLLECTION,
    Answer,
    Collection,
    CollectionStatus,
    Document,
    ImportMode,
    ImportSummary,
    Query,
    Request,
    RequestStatus,
    Selection,
    Status,
)

PATIENCE = 2.0
"""Seconds that a search waits for files that another process is indexing, or a server at work on many."""

LONG_PATIENCE = 30.0
"""Seconds that an import waits for its turn."""

POLL_SECONDS = 0.02
SHOWN_ERRORS = SHOWN_FILES = 5


class Engine:
    """A project, opened in this process: it keeps the contract `Project`. Several threads may use it at once."""

    def __init__(self, config: Config) -> None:
        check_root(config)
        self.config = config
        self.store: Store = load_store(config)
        self.lock = self._lock("lock")
        """Who has it indexes."""
        self.keeper = self._lock("keeper")
        """Who has it watches the files, and indexes them as they change."""
        self._embedders: dict[Embedding, Embedder] = {}
        self._embedders_lock = threading.Lock()
        self.wake: Callable[[], None] | None = None
        """Calls the worker that keeps the index fresh in this process, if there is one."""

    def _lock(self, kind: str) -> IndexLock:
        path = self.config.database_path
        # What only this process sees, or what machines share, is not guarded by a file.
        alone = self.store.shared or self.config.store.engine == "memory"
        return IndexLock(None if alone else path.with_name(f"{path.name}.{kind}"))

    @property
    def read_only(self) -> bool:
        """Whether the index can only be searched."""
        return self.store.read_only

    @cached_property
    def embedder(self) -> Embedder:
        """The project's own; made when something is embedded for the first time."""
        return self._embedder_with(self.config.embedding)

    def embedder_of(self, collection: str) -> Embedder:
        """A collection's own embedder, or the project's."""
        settings = self.config.embedding_of(collection)
        return self.embedder if settings == self.config.embedding else self._embedder_with(settings)

    def _embedder_with(self, settings: Embedding) -> Embedder:
        """The one embedder with these settings, however many threads ask: a model must not be in memory twice."""
        remembers = self.config.store.engine != "memory" and not self.read_only
        cache = self.config.database_path.with_name(CACHE_NAME) if remembers else None
        with self._embedders_lock:
            if settings not in self._embedders:
                self._embedders[settings] = load_embedder(settings, self.config.model, self.config.retry, cache=cache)
            return self._embedders[settings]

    @cached_property
    def _reranker(self) -> Reranker | None:
        return load_reranker(self.config)

    @cached_property
    def _indexer(self) -> Indexer:
        return Indexer(self.store, self.embedder_of, self.config)

    # Collections

    def list_collections(self) -> list[Collection]:
        """The registered collections, ordered by name."""
        return collections.registered(self.store)

    def add_collection(self, name: str, description: str, source: Path) -> Collection:
        """Register a directory."""
        added = collections.add(self.store, name, description, source)
        self._call_worker()
        return added

    def update_collection(
        self,
        name: str,
        *,
        description: str | None = None,
        source: Path | None = None,
        enabled: bool | None = None,
    ) -> Collection:
        """Change what is given of a collection."""
        changed = collections.update(
            self.store, self.config, name, description=description, source=source, enabled=enabled
        )
        self._call_worker()
        return changed

    def delete_collection(self, name: str) -> None:
        """Forget a collection and all its data."""
        collections.delete(self.store, self.config, name)
        self._call_worker()

    # Indexing

    def import_collection(
        self, name: str = "", mode: ImportMode = "update", *, progress: Progress | None = None
    ) -> ImportSummary:
        """Index one collection: all of it anew, or what changed; with no name, the project's only one."""
        candidates = collections.searchable(self.store, self.config, (name,) if name else ())
        if len(candidates) > 1:
            names = ", ".join(each.name for each in candidates)
            raise CollectionError(f"There are several collections ({names}); name one with `-n NAME`.")
        (collection,) = candidates
        if mode == "new" and self.store.statistics(collection.name).documents:
            raise CollectionError(
                f"The collection {collection.name!r} has data already; "
                "`-m update` brings it up to date, `-m replace` builds it anew."
            )
        if mode == "replace":
            with self._turn():
                return _summary(self._indexer.replace(collection, progress=progress))
        return self._bring_up_to_date([(collection, None)], progress=progress)

    def rebuild(
        self, paths: Sequence[str] = (), *, force: bool = False, progress: Progress | None = None
    ) -> ImportSummary:
        """Index again what lies under these paths, and wait until it is done."""
        return self._bring_up_to_date(find_parts(self.store, self.config, paths), force=force, progress=progress)

    def request_index(self, path: str, *, force: bool = False) -> list[Request]:
        """Put what lies under a path into the queue, and return without waiting."""
        numbers = {
            number
            for collection, only in find_parts(self.store, self.config, [path])
            for number in self._indexer.request(collection, only, force=force)[0]
        }
        self._call_worker()
        return [each for each in self.store.requests.latest(limit=MAX_PENDING) if each.id in numbers]

    def refresh(
        self, names: Sequence[str] = (), *, progress: Progress | None = None, confirm: Confirm | None = None
    ) -> int:
        """Bring everything that a search of these collections looks at up to date with the disk."""
        for collection in collections.searchable(self.store, self.config, names):
            if collections.is_here(self.store, collection):
                self._indexer.request(collection, confirm=confirm)
        if self.wake is None:
            self.process_queue(patience=PATIENCE, progress=progress)
        else:
            self._leave_to_the_worker()
        return self.store.requests.due()

    def _call_worker(self) -> None:
        if self.wake is not None:
            self.wake()

    def _leave_to_the_worker(self) -> None:
        """Wait, but not for long: what it has to do may be much, and searches must not."""
        deadline = time.monotonic() + PATIENCE
        self._call_worker()
        while self.store.requests.due() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def queue_changes(self, name: str, only: Sequence[str] | None = None, *, retry_failed: bool = True) -> None:
        """Queue what changed in a collection, in all of it or under some of its paths."""
        self._indexer.request(collections.find(self.store, self.config, name), only, retry_failed=retry_failed)

    def process_queue(
        self, *, patience: float, progress: Progress | None = None, stop: Callable[[], bool] = lambda: False
    ) -> Outcomes:
        """Work off what is due in the queue, and tell what came of it.

        Where another process or thread is at it, wait so many seconds for it to be done.
        """
        outcomes: Outcomes = Counter()
        deadline, total = time.monotonic() + patience, 0
        here = collections.here(self.store, self.config)
        while not stop() and (due := self.store.requests.due(here)):
            total = max(total, outcomes.total() + due)
            if progress:
                progress(total - due, total)
            with self.lock.exclusive(timeout=POLL_SECONDS) as mine:
                done = self._step(stop) if mine else None
            outcomes += done or Counter()
            if not mine or (done is None and self.store.shared):
                if time.monotonic() >= deadline:
                    break
                time.sleep(POLL_SECONDS if mine else 0)
        if progress and total:
            progress(total, total)
        self._indexer.log_times()
        return outcomes

    def _step(self, stop: Callable[[], bool]) -> Outcomes | None:
        """Index the oldest requests; if there are none, what a process that died left half done waits again."""
        outcomes = self._indexer.step(stop)
        if outcomes is None:
            self.store.requests.recover()
        return outcomes

    def alone(self) -> AbstractContextManager[None]:
        """A block within which no other process or thread indexes; `IndexBusy` if one does not come to an end."""
        return self._turn()

    def restore(self, name: str, document: Document) -> None:
        """Index a document once more from the text that the index itself holds."""
        self._indexer.restore(collections.find(self.store, self.config, name), document)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Have the index alone."""
        with self.lock.exclusive(timeout=LONG_PATIENCE) as mine:
            if not mine:
                raise IndexBusy("Another process is indexing this project; try again when it is done.")
            yield

    def _bring_up_to_date(
        self,
        parts: Sequence[Part],
        *,
        force: bool = False,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Queue what changed in parts of collections, and work it off alone."""
        with self._turn():
            unchanged = 0
            for collection, only in parts:
                unchanged += self._indexer.request(collection, only, force=force)[1]
            outcomes = self.process_queue(patience=LONG_PATIENCE, progress=progress)
        return _summary(outcomes, unchanged)

    # Searching

    def search(self, query: Query) -> Answer:
        """Answer a question from the index as it is; `refresh` first to have it up to date."""
        searched = collections.searchable(self.store, self.config, query.where.collections)
        if query.mode != "keyword":
            for collection in searched:
                self._indexer.check_embedder(collection)
        names = tuple(collection.name for collection in searched)
        where = dataclasses.replace(query.where, collections=names)
        answer = self._answer(dataclasses.replace(query, where=where))
        if not answer.results and not any(self.store.states(name) for name in names):
            sources = ", ".join(str(collection.source) for collection in searched)
            raise NotFound(
                f"There are no documents in {sources}; annai looks for {', '.join(self.config.files.include)} "
                "(files.include in annai.toml)."
            )
        return answer

    def _answer(self, query: Query) -> Answer:
        """Search the collections, those of each embedder by themselves, and make one answer of what they give."""
        groups: dict[str, list[str]] = {}
        for name in query.where.collections:
            # Words are compared without an embedder.
            identity = "" if query.mode == "keyword" else self.embedder_of(name).identity
            groups.setdefault(identity, []).append(name)
        reranker = self._reranker
        if len(groups) == 1 and reranker is None:
            return search(self.store, self.embedder_of(query.where.collections[0]), query)
        limit = max(query.limit, self.config.rerank.candidates if reranker else 0)
        answers = []
        for names in groups.values():
            where = dataclasses.replace(query.where, collections=tuple(names))
            asked = dataclasses.replace(query, where=where, limit=limit, sort="score")
            answers.append(search(self.store, self.embedder_of(names[0]), asked))
        answer = fuse(answers)
        if reranker and answer.results:
            answer = rerank(answer, reranker, self.config.rerank)
        return limit_and_sort(answer, query)

    def locate(self, reference: str) -> Selection:
        """Find a document or a section by its path or id: `PATH`, `COLLECTION:PATH` or either with `#1.2` after it."""
        return locate(self.store, self.config, reference)

    # Telling

    def status(self, name: str = "") -> Status:
        """How the project stands, or one collection of it."""
        if name:
            shown = [collections.find(self.store, self.config, name)]
        else:
            shown = self.list_collections() or [collections.find(self.store, self.config, IMPLICIT_COLLECTION)]
        return Status(
            root=self.config.root,
            database=self.store.address,
            size_on_disk=self.store.size_on_disk(),
            embedder=self.embedder.identity,
            collections=tuple(self._collection_status(collection) for collection in shown),
            requests=self.store.requests.counts(),
            indexing=tuple(
                f"{each.collection}:{each.path}" for each in self.store.requests.latest("processing", limit=SHOWN_FILES)
            ),
            errors=tuple(self._latest_errors()),
        )

    def requests(self, status: RequestStatus | None = None, collection: str = "", limit: int = 100) -> list[Request]:
        """The queue, newest first."""
        return self.store.requests.latest(status, collection, limit)

    def sources(self) -> dict[str, Path]:
        """Where each collection's files are."""
        return collections.sources(self.store, self.config)

    def document_paths(self, name: str) -> list[str]:
        """The paths of a collection's documents, in order."""
        return sorted(path for path, state in self.store.states(name).items() if not state.problem)

    def _latest_errors(self) -> list[Request]:
        requests = self.store.requests
        found = [*requests.latest("failed", limit=SHOWN_ERRORS), *requests.latest("pending", limit=SHOWN_ERRORS)]
        return sorted((each for each in found if each.error), key=lambda each: -each.id)[:SHOWN_ERRORS]

    def _collection_status(self, collection: Collection) -> CollectionStatus:
        problems = [state for state in self.store.states(collection.name).values() if state.problem]
        return CollectionStatus(
            collection, self.store.statistics(collection.name), tuple(sorted(problems, key=lambda state: state.path))
        )

    def close(self) -> None:
        """Let go of the index and of the models."""
        for embedder in self._embedders.values():
            embedder.close()
        if reranker := self.__dict__.get("_reranker"):
            reranker.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _summary(outcomes: Outcomes, unchanged: int = 0) -> ImportSummary:
    totals = Counter[str]()
    for (_, outcome), count in outcomes.items():
        totals[outcome] += count
    totals["unchanged"] += unchanged
    return ImportSummary(**totals)


def check_root(config: Config) -> None:
    """The home folder and the root of the file system are indexed only when the user says so."""
    for folder, name in ((Path.home(), "your home folder"), (Path(config.root.anchor), "the whole file system")):
        if config.root == folder.resolve() and not config.named:
            raise ConfigError(
                f"This is {name}, which annai does not index by itself; go to a folder of documents, "
                f"or name this one with --docs-dir {config.root}."
            )
