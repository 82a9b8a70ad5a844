"""What can be done with a project? The contract that the engine keeps in this process and the client over the wire.

The operations are listed here and nowhere else: `OPERATIONS` tells the server which calls to answer, and the client
how to make them.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, Unpack, get_type_hints

from annai.answers import Answer, Freshness, Query, QueryOptions
from annai.values import decode_fields

if TYPE_CHECKING:  # they take longer to make than a server takes to search
    from annai.types import (
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


class Done(NamedTuple):
    """How far something is that takes long."""

    files: int
    """How many are done."""
    total: int
    """How many there are, as far as is known."""
    size: int = 0
    """Bytes of those that were read; 0 if nobody counted."""
    passages: int = 0
    """Passages that they have."""


Progress = Callable[[Done], None]
"""Called with every file, and whenever more is known of how many there are."""

Confirm = Callable[[int, float], bool]
"""Asked before a large first index, with the number of files and the seconds it may take."""

MOST_REQUESTS = 1000
"""Lines of the queue that one call returns."""

FIRST_PATIENCE_SECONDS = 600.0
"""How long a search waits for the next files of a first index that another process makes: a large model takes a while
for a batch, and a process that hangs must not hold searches for ever."""

LOCAL_PARAMETERS = frozenset({"progress", "confirm"})
"""Parameters that are functions of the caller's: they do not travel."""


def waiting_files(counts: Mapping[RequestStatus, int]) -> int:
    """How many files are queued or being indexed, by the queue's counts."""
    return counts.get("pending", 0) + counts.get("processing", 0)


Duration = Literal["short", "waiting", "long"]
"""How long an operation may take: it answers at once, waits for the indexing to let it, or indexes for minutes."""

Access = Literal["read", "admin", "owner"]
"""What a caller may do: read what is indexed; also change the index; or also what concerns the server's own user."""

Method = TypeVar("Method", bound=Callable[..., object])


class Operation(NamedTuple):
    """Something that can be done with a project, here and over the wire."""

    name: str
    """The name of the call over the wire."""
    method: Callable[..., object]
    """The method of `Project`."""
    duration: Duration
    access: Access
    """What a caller over the network needs at least."""


OPERATIONS: dict[str, Operation] = {}
"""Every operation that travels as it is, by the name of its call; the others are written out where they differ."""


def operation(name: str, access: Access, duration: Duration = "short") -> Callable[[Method], Method]:
    """Note a method of `Project` as an operation."""

    def note(method: Method) -> Method:
        OPERATIONS[name] = Operation(name, method, duration, access)
        return method

    return note


@functools.cache
def type_hints(method: Callable[..., object]) -> dict[str, Any]:
    """The types of what a call takes and returns."""
    from annai import types

    return get_type_hints(method, localns=vars(types))


def _checked(method: Callable[..., Any], contract: Callable[..., object]) -> Callable[..., Any]:
    """The method, given only what the types of its contract say; raises `QueryError` for anything else."""

    @functools.wraps(method)
    def call(self: Project, /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - the method's own
        from inspect import signature  # a search does without it

        given = signature(contract).bind(self, *args, **kwargs).arguments
        del given["self"]
        values = {name: value for name, value in given.items() if name not in LOCAL_PARAMETERS}
        return method(self, **given | decode_fields(type_hints(contract), values, contract.__name__))

    return call


class Project(ABC):
    """A project, opened. Close it, or use it in a `with` block. Several threads may use it at once.

    Every error is an `AnnaiError` whose message says what to do, the same in this process and over the wire.
    """

    def __init_subclass__(cls) -> None:
        """Check what every method is given; `search`, which takes two forms of a question, does so itself."""
        super().__init_subclass__()
        for name in Project.__abstractmethods__ - {"search", "read_only"}:
            if method := cls.__dict__.get(name):
                setattr(cls, name, _checked(method, getattr(Project, name)))

    # Searching

    @abstractmethod
    def search(
        self,
        query: Query | str,
        *,
        refresh: bool = True,
        progress: Progress | None = None,
        confirm: Confirm | None = None,
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """Answer a question, given as a `Query` or as a text with options.

        First the index is brought up to date as `refresh` does; with `refresh=False` it is searched as it is.
        """

    @operation("locate", "read")
    @abstractmethod
    def locate(self, reference: str) -> Selection:
        """Find a document, a section or some lines, by any address that annai prints.

        `PATH` from the collection's folder or the project's root, or absolute; `COLLECTION:PATH`; either with `:44`
        (the innermost section that holds the line), `:44-60` (these lines), `#1.2` (a section by its number) or
        `#install-it` (by its heading's anchor) after it; or `annai://COLLECTION/PATH`.
        """

    @operation("browse_documents", "read")
    @abstractmethod
    def browse(self, path: str = "", where: Sequence[str] = (), since: str = "", until: str = "") -> Listing:
        """The documents under a folder, or those that a glob names; without a path, everything that is searched.

        Only those that meet conditions, if any are given as a search takes them.
        """

    @operation("explain_missing", "read")
    @abstractmethod
    def why_missing(self, reference: str) -> str:
        """Why a file that is there is not in the index, as a sentence; empty if it is, or if there is no such file."""

    # Collections

    @operation("list_collections", "read")
    @abstractmethod
    def list_collections(self) -> list[Collection]:
        """The registered collections, ordered by name."""

    @operation("list_documents", "read")
    @abstractmethod
    def document_paths(self, name: str, after: str = "", limit: int | None = None) -> list[str]:
        """The paths of a collection's documents, in order; only those after one, and only so many, if that is said."""

    @operation("list_folder", "read")
    @abstractmethod
    def folder(self, name: str, path: str = "") -> list[FolderEntry]:
        """What the index knows of a folder of a collection: its files and folders, the largest first."""

    @operation("list_fields", "read")
    @abstractmethod
    def fields(self, name: str = "") -> list[MetadataField]:
        """What the documents of a collection, or all that are searched, say about themselves: what `where` takes.

        The fields of most documents come first, each with its most frequent values.
        """

    @operation("add_collection", "admin", "waiting")
    @abstractmethod
    def add_collection(
        self, name: str, source: Path, description: str = "", keep_root: bool | None = None
    ) -> Collection:
        """Register a directory.

        `keep_root` says whether the project's own folder stays in the search, as the collection `root`; None means
        if it has been indexed. `Status.searched` names what is searched.
        """

    @operation("update_collection", "admin", "waiting")
    @abstractmethod
    def update_collection(
        self,
        name: str,
        description: str | None = None,
        source: Path | None = None,
        enabled: bool | None = None,
    ) -> Collection:
        """Change what is given of a collection; enabling `root` adds the project's own folder to the search."""

    @operation("delete_collection", "admin", "waiting")
    @abstractmethod
    def delete_collection(self, name: str) -> None:
        """Delete a collection and everything indexed from it; the files themselves stay."""

    @abstractmethod
    def sources(self) -> dict[str, Path]:
        """Where each collection's files are."""

    # Indexing

    @operation("import_collection", "admin", "long")
    @abstractmethod
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
        """Index one collection: all of it, or what changed. Without a name, the project's only one.

        The collection keeps a `chunk_size` and a `chunk_overlap` that differ from the settings'; a size of 0 makes it
        follow the settings again.

        If many of its files are gone, their documents stay and `FilesGone` is raised, unless `allow_deletions`. In an
        index that machines share, `adopt` makes this machine the one that indexes it, with the settings that it has.
        """

    @operation("rebuild_index", "admin", "long")
    @abstractmethod
    def rebuild(
        self,
        paths: Sequence[str] = (),
        force: bool = False,
        allow_deletions: bool = False,
        *,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Index again what lies under these paths (everything, if none is given), and wait until it is done.

        Only what changed, or with `force` all of it. A path is one of a document or folder, as `locate` takes it.
        If many files are gone, their documents stay and `FilesGone` is raised, unless `allow_deletions`.
        """

    @operation("index_document", "admin", "waiting")
    @abstractmethod
    def request_index(self, path: str, force: bool = False) -> Queued:
        """Queue what lies under a path, and return without waiting: how many files, and the first hundred of them."""

    @abstractmethod
    def refresh(
        self,
        names: Sequence[str] = (),
        *,
        wait: bool = True,
        progress: Progress | None = None,
        confirm: Confirm | None = None,
    ) -> Freshness:
        """Bring everything that a search of these collections looks at up to date with the disk.

        It waits for a first index that another process makes, unless `wait` is false; for what else others are indexing
        it does not wait long. The result says how many files are left, or why the index had to stay as it is.
        """

    # Status

    @abstractmethod
    def status(self, name: str = "") -> Status:
        """The state of the project, or of one collection."""

    @operation("get_requests", "read")
    @abstractmethod
    def requests(
        self, status: RequestStatus | None = None, collection: str = "", limit: int = 100, path: str = ""
    ) -> list[Request]:
        """The queue and its history: what waits, what is being indexed, and then what ended last.

        Of all files, or of what a path names as `locate` takes it, though it may be gone by now. What ended is kept for
        `worker.keep_days`.
        """

    @property
    @abstractmethod
    def read_only(self) -> bool:
        """Whether the index can only be searched."""

    @abstractmethod
    def close(self) -> None:
        """Release the index, the models and the connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
