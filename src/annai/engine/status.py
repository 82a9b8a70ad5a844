"""What state is a project in? What each collection holds and leaves out, and what went wrong lately."""

import time
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress

from annai import collection as collections
from annai.asking.references import find_parts, meanings
from annai.config import Config
from annai.errors import CollectionError, NotFound
from annai.files.scanner import left_out
from annai.indexing.comparison import Comparison
from annai.stores.base import Store, newest_first
from annai.types import (
    Collection,
    CollectionStatus,
    FileCondition,
    FileState,
    FolderEntry,
    LeftOut,
    Request,
    RequestStatus,
)

STATUS_ERRORS = STATUS_FILES = 5

LEFT_OUT_SECONDS = 10.0
"""How long the number of files that are not read is taken to be the same."""


class LeftOutCounts:
    """The files of collections that are not read; counted again after a while, since a page asks all the time."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[float, tuple[LeftOut, ...]]] = {}
        """When those of a collection were last counted, and what was found."""

    def of(
        self, store: Store, config: Config, collection: Collection, known: Mapping[str, FileState]
    ) -> tuple[LeftOut, ...]:
        """Those of a collection of which these files are known."""
        counted, kinds = self._counted.get(collection.name, (0.0, ()))
        if counted and time.monotonic() - counted < LEFT_OUT_SECONDS:
            return kinds
        here = collections.here(store, config)
        without = collections.nested_sources(store, config, collection.name)
        if (here is None or collection.name in here) and collection.source.is_dir():
            with suppress(CollectionError):
                kinds = tuple(left_out(collection.source, config.files, known, without=without))
        self._counted[collection.name] = (time.monotonic(), kinds)
        return kinds


def collection_status(
    store: Store, config: Config, collection: Collection, comparison: Comparison, counts: LeftOutCounts, change: str
) -> CollectionStatus:
    """The state of one collection; `change` says how a change of its model stands."""
    states = store.states(collection.name)
    problems = sorted((each for each in states.values() if each.problem), key=lambda state: state.path)
    if not collections.is_own(store, config, collection):
        note = collections.served_only(collection)
    else:
        doubt = comparison.doubt_source(collection)
        note = doubt.reason if doubt else ""
    if change:
        note = f"{note} {change}.".lstrip()
    statistics = store.statistics(collection.name)
    return CollectionStatus(collection, statistics, tuple(problems), counts.of(store, config, collection, states), note)


def searched_names(store: Store, config: Config) -> tuple[str, ...]:
    """The collections that a search looks at if none is named."""
    try:
        return tuple(each.name for each in collections.searchable(store, config))
    except CollectionError:
        return ()  # Every collection is disabled.


def files_in_progress(store: Store) -> tuple[str, ...]:
    """Some of the files that are being indexed, as addresses."""
    return tuple(f"{each.collection}:{each.path}" for each in store.requests.latest("processing", limit=STATUS_FILES))


def latest_errors(store: Store) -> tuple[Request, ...]:
    """The last requests that failed, or wait for a reason; not those whose files were indexed since."""
    failed = [each for each in store.requests.latest("failed", limit=STATUS_ERRORS) if not _is_indexed(store, each)]
    waiting = [each for each in store.requests.latest("pending", limit=STATUS_ERRORS) if each.error]
    return tuple([*failed, *waiting][:STATUS_ERRORS])


def history(
    store: Store, config: Config, path: str, status: RequestStatus | None, collection: str, limit: int
) -> list[Request]:
    """The requests for what a path names, newest first: for a file or folder that is there, or that once was."""
    try:
        named = {each.name: under for each, under in find_parts(store, config, [path])}
    except NotFound:
        sources = collections.sources(store, config)
        named = next(
            (
                {name: [inner] for name, inner in tier.items()}
                for tier in meanings(sources, config, unicodedata.normalize("NFC", path))
                if any(store.requests.latest(None, name, 1, [inner]) for name, inner in tier.items() if inner)
            ),
            {},
        )
        if not named:
            raise
    names = [name for name in named if collection in ("", name)]
    found = (each for name in names for each in store.requests.latest(status, name, limit, named[name]))
    return newest_first(found)[:limit]


def _is_indexed(store: Store, request: Request) -> bool:
    """Whether the file of a request is indexed as it is."""
    state = store.states(request.collection, [request.path]).get(request.path)
    return state is not None and state.problem is None


def folder_entries(states: Iterable[FileState], waiting: Container[str], folder: str = "") -> list[FolderEntry]:
    """What lies directly in a folder, the largest first; `waiting` are the paths that are about to be indexed."""
    prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
    sizes, conditions, folders = Counter[str](), dict[str, Counter[FileCondition]](), set[str]()
    for state in states:
        if not state.path.startswith(prefix):
            continue
        name, slash, _ = state.path[len(prefix) :].partition("/")
        path = prefix + name
        if slash:
            folders.add(path)
        sizes[path] += max(state.size, 0)  # one that is to be read again has none
        conditions.setdefault(path, Counter())[_condition(state, waiting)] += 1
    return [
        FolderEntry(path, path in folders, conditions[path].total(), size, conditions[path])
        for path, size in sorted(sizes.items(), key=lambda each: (-each[1], each[0]))
    ]


def _condition(state: FileState, waiting: Container[str]) -> FileCondition:
    if state.path in waiting:
        return "waiting"
    return state.problem.kind if state.problem else "latest"
