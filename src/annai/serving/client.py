"""What can be done with a project through its server? The same as in this process, spoken over HTTP.

It starts quickly, so it loads nothing that indexes or searches.
"""

import dataclasses
import functools
import inspect
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from annai.answers import Answer, Freshness, Query, QueryOptions
from annai.asking.addresses import from_here
from annai.asking.query import question_of
from annai.errors import AnnaiError, NotFound, ServerError
from annai.project import (
    FIRST_PATIENCE_SECONDS,
    LOCAL_PARAMETERS,
    OPERATIONS,
    Confirm,
    Done,
    Progress,
    Project,
    type_hints,
    waiting_files,
)
from annai.serving.connection import CALL_SECONDS, Connection

if TYPE_CHECKING:
    from annai.types import ImportSummary, Queued, Request, RequestStatus, Selection, Status

P = ParamSpec("P")
T = TypeVar("T")

POLL_SECONDS, SLOW_POLL_SECONDS = 0.25, 5.0
"""How often a server that imports is asked for its state: to report it, or only to know that it lives."""


def _remote(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method of `Project` as a call of the same operation over the wire."""
    operation = next(each for each in OPERATIONS.values() if each.method is method)

    @functools.wraps(method, updated=())  # not that it is abstract
    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        given = inspect.signature(method).bind(self, *args, **kwargs).arguments
        progress = given.get("progress")
        sent = {name: _absolute(value) for name, value in list(given.items())[1:] if name not in LOCAL_PARAMETERS}
        kind: type[T] = type_hints(method)["return"]
        if operation.duration != "long":
            return self.connection.get(kind, operation.name, endless=False, **sent)
        return self.wait_for(lambda: self.connection.get(kind, operation.name, endless=True, **sent), progress)

    return call


class Client(Project):
    """A project, through the server at a URL."""

    def __init__(self, url: str, *, token: str = "", seconds: float = CALL_SECONDS) -> None:
        self.connection = Connection(url, token, seconds)

    @property
    def read_only(self) -> bool:
        """Whether the index can only be searched."""
        return bool(self.connection.call("get_project")["read_only"])

    list_collections = _remote(Project.list_collections)
    document_paths = _remote(Project.document_paths)
    folder = _remote(Project.folder)
    browse = _remote(Project.browse)
    fields = _remote(Project.fields)
    why_missing = _remote(Project.why_missing)
    add_collection = _remote(Project.add_collection)
    update_collection = _remote(Project.update_collection)
    delete_collection = _remote(Project.delete_collection)
    import_collection = _remote(Project.import_collection)
    _requests = _remote(Project.requests)
    _locate = _remote(Project.locate)
    _rebuild = _remote(Project.rebuild)
    _request_index = _remote(Project.request_index)

    def search(
        self,
        query: Query | str,
        *,
        refresh: bool = True,
        progress: Progress | None = None,
        confirm: Confirm | None = None,  # noqa: ARG002 - whoever started the server has agreed
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """Answer a question: one call, unless the server makes its first index."""
        text, sent = question_of(query, options)
        ask = functools.partial(self.connection.get, Answer, "search", query=text, full=True, **sent)
        answer = ask(refresh=refresh)
        if refresh and answer.freshness.is_first:
            freshness = self._wait_for_first_index(answer.freshness, sent.get("collections", ()), progress)
            answer = dataclasses.replace(ask(refresh=False), freshness=freshness)
        return answer

    def locate(self, reference: str) -> "Selection":
        """Find a document, a section or some lines, by any address that annai prints."""
        return _from_here(lambda spell: self._locate(spell(reference)))

    def rebuild(
        self,
        paths: Sequence[str] = (),
        force: bool = False,
        allow_deletions: bool = False,
        *,
        progress: Progress | None = None,
    ) -> "ImportSummary":
        """Index again what lies under these paths (everything, if none is given), and wait until it is done."""
        return _from_here(lambda spell: self._rebuild([*map(spell, paths)], force, allow_deletions, progress=progress))

    def request_index(self, path: str, force: bool = False) -> "Queued":
        """Queue what lies under a path, and return without waiting."""
        return _from_here(lambda spell: self._request_index(spell(path), force))

    def requests(
        self, status: "RequestStatus | None" = None, collection: str = "", limit: int = 100, path: str = ""
    ) -> "list[Request]":
        """The queue and its history, newest first."""
        return _from_here(lambda spell: self._requests(status, collection, limit, spell(path) if path else ""))

    def refresh(
        self,
        names: Sequence[str] = (),
        *,
        wait: bool = True,
        progress: Progress | None = None,
        confirm: Confirm | None = None,  # noqa: ARG002 - whoever started the server has agreed
    ) -> Freshness:
        """Have the server bring its index up to date."""
        freshness = self.connection.get(Freshness, "refresh", names=names, full=True)
        return self._wait_for_first_index(freshness, names, progress) if wait else freshness

    def _wait_for_first_index(self, found: Freshness, names: Sequence[str], progress: Progress | None) -> Freshness:
        """How the server's index is once it has its first files."""
        most = fewest = found.waiting
        deadline = time.monotonic() + FIRST_PATIENCE_SECONDS
        while found.is_first and time.monotonic() < deadline:
            most = max(most, found.waiting)
            if progress:
                progress(Done(most - found.waiting, most))
            if found.waiting < fewest:
                fewest, deadline = found.waiting, time.monotonic() + FIRST_PATIENCE_SECONDS
            time.sleep(POLL_SECONDS)
            found = self.connection.get(Freshness, "refresh", names=names, full=True)
        return found

    def status(self, name: str = "") -> "Status":
        """The state of the project, or of one collection."""
        from annai.types import Status  # a search does without it

        return self.connection.get(Status, "get_status", name=name)

    def sources(self) -> dict[str, Path]:
        """Where each collection's files are."""
        return {name: Path(source) for name, source in self.connection.call("get_project")["sources"].items()}

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def wait_for(self, call: Callable[[], T], progress: Progress | None) -> T:
        """Make a call that may take hours, for as long as the server answers others; report what it indexes meanwhile.

        Raises `ServerError` if the server does not say how it is within the time of a short call.
        """
        from concurrent.futures import Future, wait  # most calls are short

        done: Future[T] = Future()

        def make() -> None:
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)

        # Not an executor's thread, which the end of the program would wait for.
        threading.Thread(target=make, name="annai-call", daemon=True).start()
        before: int | None = None
        while not wait([done], POLL_SECONDS if progress else SLOW_POLL_SECONDS).done:
            try:
                counts = self.status().requests
            except ServerError:
                # The call itself may know better what is wrong, or have ended meanwhile.
                if wait([done], POLL_SECONDS).done:
                    break
                raise
            except AnnaiError:
                continue
            waiting = waiting_files(counts)
            over = sum(counts.values()) - waiting
            before = over if before is None else min(before, over)
            if progress and waiting:
                progress(Done(over - before, over - before + waiting))
        return done.result()


def _absolute(value: object) -> object:
    """A folder from the root of the file system, since the server has another current folder; else the value."""
    # Path's own fails for a user that does not exist.
    return Path(os.path.expanduser(value)).absolute() if isinstance(value, Path) else value  # noqa: PTH111


def _from_here(call: Callable[[Callable[[str], str]], T]) -> T:
    """Make a call whose paths may be relative to this process's folder, which the server does not know.

    The server is asked for them as they were typed, and then from the root of the file system.
    """
    try:
        return call(str)
    except NotFound as error:
        try:
            return call(_absolute_reference)
        except NotFound:
            raise error from None


def _absolute_reference(path: str) -> str:
    """A path from the root of the file system; what cannot be one stays as it is."""
    name, colon, _ = path.partition(":")
    is_named = colon and "/" not in name
    here = from_here(path)
    return here if is_named or here != path else os.path.abspath(path)  # noqa: PTH100 - it may have a #1.2 after it
