"""Are files gone, or only out of sight? What may be removed from an index before somebody confirms it.

A disk that is not mounted, or another one in its place, looks as if everything had been deleted.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from annai.collection import NAMED, check_owner, find
from annai.config import Config
from annai.definitions import dataclass
from annai.errors import FilesGone
from annai.files.scanner import Scan
from annai.state import mark_of
from annai.stores.base import Store
from annai.types import ChangeKind, Collection, FileState, Problem

MAX_GONE_FILES, MAX_GONE_SHARE = 20, 0.2
"""If more files than both are gone, somebody must confirm it: more than this many, and more than this share."""

GONE = "its file is gone, like many others; the document stays until the deletion is confirmed"
"""The problem of a document that is kept."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why files that are not there are not believed to be deleted."""

    reason: str
    """As a sentence that says what to do."""
    is_source: bool
    """Whether the folder itself is in doubt: then nothing in it is believed, new files neither."""

    @property
    def error(self) -> FilesGone:
        """The error that says so."""
        return FilesGone(self.reason)


def identify(source: Path) -> str:
    """Which folder it is: its device, the id that its file system has itself, and its own mark; empty if unknown."""
    try:
        device = source.stat().st_dev
        own = os.statvfs(source).f_fsid if hasattr(os, "statvfs") else device
    except OSError:
        return ""
    return f"{device}:{own}:{mark_of(source)}"


def is_certain(store: Store, config: Config, collection: Collection) -> bool:
    """Whether this is surely the folder that was indexed, however empty it is now: the project's own, by its mark.

    A disk that is not mounted takes the project's folder along, and another folder in its place has another mark.
    """
    is_own = not store.shared and config.root.is_relative_to(collection.source)
    return is_own and bool(mark_of(collection.source)) and collection.origin == identify(collection.source)


def doubt_source(collection: Collection, count_known: Callable[[], int]) -> Doubt | None:
    """Why a folder may not be the one that was indexed; `count_known` tells how many of its files are known."""
    source = collection.source
    try:
        with os.scandir(source) as entries:
            is_empty = next(entries, None) is None
    except OSError:
        return None  # Whoever scans it says so.
    if is_empty and (known := count_known()):
        return _doubt(collection, f"{source} is empty, but {_files(known)} of it are indexed, and stay so", "mount it")
    if collection.origin != NAMED and _is_elsewhere(collection.origin, identify(source)):
        what = f"{source} is on another file system than when it was indexed, and files are gone, so nothing is changed"
        return _doubt(collection, what, "mount the right one")
    return None


def doubt_scan(
    store: Store, config: Config, collection: Collection, found: Scan, known: Mapping[str, FileState] | None
) -> Doubt | None:
    """Why the files that a comparison did not find are not believed to be deleted.

    `known` are all files of the collection; None if only some were compared. Those that are there, and only excluded by
    the settings, do not count.
    """
    gone = [change.file for change in found.changes if change.kind is ChangeKind.DELETED]
    if not gone:
        return None
    count = len(store.states(collection.name) if known is None else known)
    if not is_certain(store, config, collection) and (source := doubt_source(collection, lambda: count)):
        return source
    few = max(MAX_GONE_FILES, MAX_GONE_SHARE * count)
    if collection.origin == NAMED or len(gone) <= few:
        return None
    missing = sum(not os.path.lexists(file) for file in gone)
    if missing <= few:
        return None
    what = f"{missing:,} of {_files(count)} in {collection.source} are gone, so their documents stay in the index"
    return _doubt(collection, what, "restore them", is_source=False)


def keep_documents(store: Store, collection: Collection, gone: Iterable[FileState]) -> None:
    """Remember of files that are gone that their documents are out of date."""
    kept = [replace(state, problem=Problem("failed", GONE)) for state in gone if state.problem is None]
    if kept:
        store.write(collection.name, states=kept)


def record_origin(store: Store, config: Config, collection: Collection, *, adopt: bool) -> Collection:
    """Note on which file system the folder is and, where machines share the index, that this one indexes it."""
    owner = config.machine if store.shared else ""
    recorded = replace(collection, origin=identify(collection.source), owner=owner)
    if recorded != collection:
        if not adopt:
            # Read it again: another machine may have been faster.
            check_owner(store, config, find(store, config, collection.name))
        store.save_collection(recorded)
    return recorded


def _doubt(collection: Collection, what: str, remedy: str, *, is_source: bool = True) -> Doubt:
    confirm = f"annai import -c {collection.name} -m update --allow-deletions"
    return Doubt(f"{what}; {remedy}, or if this is on purpose, confirm it with `{confirm}`.", is_source)


def _is_elsewhere(before: str, now: str) -> bool:
    """Whether neither the device nor the file system's own id is the same; one of them may change with a restart."""
    return bool(before and now) and not {*enumerate(before.split(":")[:2])} & {*enumerate(now.split(":")[:2])}


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
