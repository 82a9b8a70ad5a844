"""What can be done with a project? The contract that the engine keeps in this process and the client over the wire."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from annai.types import (
    Answer,
    Collection,
    ImportMode,
    ImportSummary,
    Query,
    Request,
    RequestStatus,
    Selection,
    Status,
)

Progress = Callable[[int, int], None]
"""Called with the number of files done and the number to do."""

Confirm = Callable[[int, float], bool]
"""Asked before a large first index, with the number of files and the seconds it may take."""


class Project(Protocol):
    """A project, opened. Close it, or use it in a `with` block.

    Every error is an `AnnaiError` whose message says what to do, the same in this process and over the wire.
    """

    @property
    def read_only(self) -> bool:
        """Whether the index can only be searched."""
        ...

    def list_collections(self) -> list[Collection]:
        """The registered collections, ordered by name."""
        ...

    def add_collection(self, name: str, description: str, source: Path) -> Collection:
        """Register a directory."""
        ...

    def update_collection(
        self,
        name: str,
        *,
        description: str | None = None,
        source: Path | None = None,
        enabled: bool | None = None,
    ) -> Collection:
        """Change what is given of a collection."""
        ...

    def delete_collection(self, name: str) -> None:
        """Forget a collection and all its data."""
        ...

    def import_collection(
        self, name: str = "", mode: ImportMode = "update", *, progress: Progress | None = None
    ) -> ImportSummary:
        """Index one collection: all of it anew, or what changed; with no name, the project's only one."""
        ...

    def rebuild(
        self, paths: Sequence[str] = (), *, force: bool = False, progress: Progress | None = None
    ) -> ImportSummary:
        """Index again what lies under these paths (everything, if none is given), and wait until it is done.

        Only what changed, or with `force` all of it. A path is one of a document or folder, as `locate` takes it.
        """
        ...

    def request_index(self, path: str, *, force: bool = False) -> list[Request]:
        """Put what lies under a path into the queue, and return without waiting."""
        ...

    def refresh(
        self, names: Sequence[str] = (), *, progress: Progress | None = None, confirm: Confirm | None = None
    ) -> int:
        """Bring everything that a search of these collections looks at up to date with the disk.

        Returns how many files are still waiting: more than 0 only where another process is at it and takes long.
        """
        ...

    def search(self, query: Query) -> Answer:
        """Answer a question from the index as it is; `refresh` first to have it up to date."""
        ...

    def locate(self, reference: str) -> Selection:
        """Find a document or a section by its path or id: `PATH`, `COLLECTION:PATH` or either with `#1.2` after it."""
        ...

    def status(self, name: str = "") -> Status:
        """How the project stands, or one collection of it."""
        ...

    def sources(self) -> dict[str, Path]:
        """Where each collection's files are."""
        ...

    def document_paths(self, name: str) -> list[str]:
        """The paths of a collection's documents, in order."""
        ...

    def requests(self, status: RequestStatus | None = None, collection: str = "", limit: int = 100) -> list[Request]:
        """The queue, newest first."""
        ...

    def close(self) -> None:
        """Let go of the index."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
