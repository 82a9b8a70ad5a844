"""What can be done with a project through its server? The same as in this process, spoken over HTTP.

It starts quickly, so it loads nothing that indexes or searches.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from annai.errors import AnnaiError, NotFound
from annai.project import Confirm, Progress
from annai.serving.connection import CALL_SECONDS, Connection
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

T = TypeVar("T")

POLL_SECONDS = 0.25
"""How often an import's progress is asked for."""


class Client:
    """A project, through the server at a URL. It keeps the contract of `Project`; one thread uses it at a time."""

    def __init__(self, url: str, *, token: str = "", seconds: float = CALL_SECONDS) -> None:
        self._connection = Connection(url, token, seconds)

    @property
    def read_only(self) -> bool:
        """Whether the index can only be searched."""
        return bool(self._connection.call("get_project")["read_only"])

    # Collections

    def list_collections(self) -> list[Collection]:
        """The registered collections, ordered by name."""
        return self._connection.get(list[Collection], "list_collections")

    def add_collection(self, name: str, description: str, source: Path) -> Collection:
        """Register a directory."""
        return self._connection.get(
            Collection, "add_collection", name=name, description=description, source=_absolute(source)
        )

    def update_collection(
        self,
        name: str,
        *,
        description: str | None = None,
        source: Path | None = None,
        enabled: bool | None = None,
    ) -> Collection:
        """Change what is given of a collection."""
        folder = None if source is None else _absolute(source)
        return self._connection.get(
            Collection, "update_collection", name=name, description=description, source=folder, enabled=enabled
        )

    def delete_collection(self, name: str) -> None:
        """Forget a collection and all its data."""
        self._connection.call("delete_collection", name=name)

    # Indexing

    def import_collection(
        self, name: str = "", mode: ImportMode = "update", *, progress: Progress | None = None
    ) -> ImportSummary:
        """Index one collection: all of it anew, or what changed; with no name, the project's only one."""
        with self._watched(progress):
            return self._connection.get(ImportSummary, "import_collection", endless=True, name=name, mode=mode)

    def rebuild(
        self, paths: Sequence[str] = (), *, force: bool = False, progress: Progress | None = None
    ) -> ImportSummary:
        """Index again what lies under these paths (everything, if none is given), and wait until it is done."""
        with self._watched(progress):
            return _from_here(
                lambda spell: self._connection.get(
                    ImportSummary, "rebuild_index", endless=True, paths=[*map(spell, paths)], force=force
                )
            )

    def request_index(self, path: str, *, force: bool = False) -> list[Request]:
        """Put what lies under a path into the queue, and return without waiting."""
        return _from_here(
            lambda spell: self._connection.get(list[Request], "index_document", path=spell(path), force=force)
        )

    def refresh(
        self,
        names: Sequence[str] = (),
        *,
        progress: Progress | None = None,  # noqa: ARG002 - the contract's; the server never waits long
        confirm: Confirm | None = None,  # noqa: ARG002 - whoever started the server has agreed
    ) -> int:
        """Have the server bring its index up to date; how many files are still waiting when it stops waiting."""
        return self._connection.get(int, "refresh", names=names)

    # Searching

    def search(self, query: Query) -> Answer:
        """Answer a question from the index as it is."""
        where = query.where
        return self._connection.get(
            Answer,
            "search",
            query=query.text,
            limit=query.limit,
            collections=where.collections,
            depths=query.depths,
            paths=where.paths,
            excludes=where.excludes,
            mode=query.mode,
            sort=query.sort,
            content=query.content,
            clean_only=where.clean_only,
            explain=True,
        )

    def locate(self, reference: str) -> Selection:
        """Find a document or a section by its path or id."""
        return _from_here(lambda spell: self._connection.get(Selection, "locate", reference=spell(reference)))

    # Telling

    def status(self, name: str = "") -> Status:
        """How the project stands, or one collection of it."""
        return self._connection.get(Status, "get_status", name=name)

    def sources(self) -> dict[str, Path]:
        """Where each collection's files are."""
        return {name: Path(source) for name, source in self._connection.call("get_project")["sources"].items()}

    def document_paths(self, name: str) -> list[str]:
        """The paths of a collection's documents, in order."""
        return self._connection.get(list[str], "list_documents", name=name)

    def requests(self, status: RequestStatus | None = None, collection: str = "", limit: int = 100) -> list[Request]:
        """The queue, newest first."""
        return self._connection.get(list[Request], "get_requests", status=status, collection=collection, limit=limit)

    # The server itself

    def shut_down(self, secret: str) -> None:
        """Ask the server to end, with the secret that its pid file holds."""
        self._connection.call("shutdown", secret=secret)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _watched(self, progress: Progress | None) -> Iterator[None]:
        """Tell the progress of what the server does meanwhile, by asking it from a second connection."""
        if progress is None:
            yield
            return
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(self._connection.copy(), progress, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _watch(connection: Connection, progress: Progress, ended: threading.Event) -> None:
    """Feed a progress bar from the counts of the queue until the end."""
    before: int | None = None
    try:
        while not ended.wait(POLL_SECONDS):
            counts = connection.get(Status, "get_status").requests
            waiting = counts.get("pending", 0) + counts.get("processing", 0)
            over = sum(counts.values()) - waiting
            before = over if before is None else min(before, over)
            if waiting:
                progress(over - before, over - before + waiting)
    except AnnaiError:
        # The import's own connection tells what is wrong.
        return
    finally:
        connection.close()


def _absolute(source: Path) -> Path:
    return source.expanduser().absolute()


def _from_here(call: Callable[[Callable[[str], str]], T]) -> T:
    """Make a call whose paths may be meant from this process's folder, which the server does not know.

    The server is asked for them as they were typed, and then from the root of the file system.
    """
    try:
        return call(str)
    except NotFound as error:
        try:
            return call(_whole)
        except NotFound:
            raise error from None


def _whole(path: str) -> str:
    """A path from the root of the file system; what cannot be one stays as it is."""
    name, colon, _ = path.partition(":")
    is_named = colon and "/" not in name and not os.path.exists(path)  # noqa: PTH110 - a string as it was typed
    return path if is_named else os.path.abspath(path)  # noqa: PTH100 - it may have a #1.2 after it
