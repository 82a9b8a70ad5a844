"""Who asks, and what may they do? A project as one caller finds it: reading, changing, all collections or some.

Whatever comes over the network comes through here, whichever way it came: /rpc, /mcp and the page.
"""

import dataclasses
import functools
import inspect
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

from annai import collection as collections
from annai.answers import Answer, Freshness, Query, QueryOptions
from annai.definitions import dataclass
from annai.engine import Engine
from annai.errors import Forbidden
from annai.interfaces.audit import Audit
from annai.project import OPERATIONS, Access, Confirm, Progress, Project
from annai.serving.tokens import OWNER, TokenFile, digest_of
from annai.trust import is_inside
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

FORWARDED = ("x-forwarded-for", "forwarded", "via", "x-real-ip")
"""Headers that proxies add: with one of them a request is not from this machine, whoever passes it on."""

_RANK: dict[Access, int] = {"read": 0, "admin": 1, "owner": 2}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request."""

    name: str
    """Of the token."""
    access: Access
    collections: tuple[str, ...] = ()
    """The only ones that may be known; empty for all."""
    is_local: bool = False
    """Whether the request came from this machine itself, and not through a proxy."""

    def may(self, access: Access) -> bool:
        """Whether this much is allowed."""
        return _RANK[self.access] >= _RANK[access]


CALLER = "annai.caller"
"""Where a request's scope holds its `Caller`."""

LOCAL_OWNER = Caller(OWNER, "owner", is_local=True)
"""The user whose server it is, on the same machine."""


class Doorkeeper:
    """Knows callers by their tokens. Without a token of its own, a server lets everybody in."""

    def __init__(self, token: str, tokens: TokenFile | None = None) -> None:
        self._owner = digest_of(token) if token else ""
        self._tokens = tokens

    def caller(self, authorization: str, *, is_local: bool) -> Caller | None:
        """Who sends this header; None if nobody known does."""
        if not self._owner:
            return LOCAL_OWNER if is_local else Caller(OWNER, "owner")
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        # Digests, so how long it takes to compare them tells nothing of the tokens.
        digest = digest_of(token.strip())
        if digest == self._owner:
            return LOCAL_OWNER if is_local else Caller(OWNER, "owner")
        found = self._tokens.current().get(digest) if self._tokens else None
        return Caller(found.name, found.access, found.collections, is_local) if found else None

    def still_knows(self, caller: Caller) -> bool:
        """Whether the caller's token still is what it was when the request came."""
        if caller.access == "owner" or self._tokens is None:
            return True
        known = {each.name: each for each in self._tokens.current().values()}.get(caller.name)
        return known is not None and (known.access, known.collections) == (caller.access, caller.collections)


def _audited(method: Callable[..., T]) -> Callable[..., T]:
    """Let only those change the index who may, and note what they changed."""
    operation = next(each for each in OPERATIONS.values() if each.method.__name__ == method.__name__)
    signature = inspect.signature(method)

    @functools.wraps(method)
    def change(self: "PermittedProject", /, *args: Any, **kwargs: Any) -> T:  # noqa: ANN401 - the method's own
        given = dict([*signature.bind(self, *args, **kwargs).arguments.items()][1:])
        given.pop("progress", None)
        with self.audit.noting(self.caller.name, operation.name, given):
            if not self.caller.may(operation.access):
                raise Forbidden(
                    f"The token {self.caller.name!r} may only read", "ask with one that may change the index."
                )
            return method(self, *args, **kwargs)

    return change


class PermittedProject(Project):
    """A project as one caller finds it."""

    def __init__(self, engine: Engine, caller: Caller, audit: Audit, on_search: Callable[[float], None]) -> None:
        self.caller = caller
        self.audit = audit
        self.engine = engine.scoped(caller.collections) if caller.collections else engine
        """What it does its work with; of a caller for some collections, one that knows no others."""
        self._on_search = on_search

    # Reading

    def search(
        self,
        query: Query | str,
        *,
        refresh: bool = True,
        progress: Progress | None = None,
        confirm: Confirm | None = None,
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """Answer a question; for a caller who may only read, from the index as the server keeps it."""
        start = time.perf_counter()
        try:
            answer = self.engine.search(
                query, refresh=refresh and self._may_refresh, progress=progress, confirm=confirm, **options
            )
            if refresh and not self._may_refresh:
                answer = dataclasses.replace(answer, freshness=self.refresh(()))
            return answer
        finally:
            self._on_search(time.perf_counter() - start)

    def locate(self, reference: str) -> Selection:
        """Find a document, a section or some lines."""
        return self.engine.locate(reference)

    def browse(self, path: str = "", where: Sequence[str] = (), since: str = "", until: str = "") -> Listing:
        """The documents under a folder, or those that a glob names."""
        return self.engine.browse(path, where, since, until)

    def fields(self, name: str = "") -> list[MetadataField]:
        """What the documents say about themselves."""
        return self.engine.fields(name)

    def why_missing(self, reference: str) -> str:
        """Why a file that is there is not in the index."""
        return self.engine.why_missing(reference)

    def list_collections(self) -> list[Collection]:
        """The registered collections, ordered by name."""
        return self.engine.list_collections()

    def document_paths(self, name: str, after: str = "", limit: int | None = None) -> list[str]:
        """The paths of a collection's documents, in order."""
        return self.engine.document_paths(name, after, limit)

    def folder(self, name: str, path: str = "") -> list[FolderEntry]:
        """What the index knows of a folder of a collection."""
        return self.engine.folder(name, path)

    def sources(self) -> dict[str, Path]:
        """Where each collection's files are."""
        return self.engine.sources()

    def status(self, name: str = "") -> Status:
        """The state of the project, or of one collection."""
        return self.engine.status(name)

    def requests(
        self, status: RequestStatus | None = None, collection: str = "", limit: int = 100, path: str = ""
    ) -> list[Request]:
        """The queue and its history."""
        return self.engine.requests(status, collection, limit, path)

    @property
    def read_only(self) -> bool:
        """Whether this caller can only search."""
        return self.engine.read_only or not self.caller.may("admin")

    def refresh(
        self,
        names: Sequence[str] = (),
        *,
        wait: bool = True,
        progress: Progress | None = None,
        confirm: Confirm | None = None,
    ) -> Freshness:
        """Bring the index up to date; for a caller who may only read, tell how far the server is with that."""
        if self._may_refresh:
            return self.engine.refresh(names, wait=wait, progress=progress, confirm=confirm)
        searched = collections.searchable(self.engine.store, self.engine.config, names)
        return Freshness(self.engine.store.requests.due([each.name for each in searched]))

    @property
    def _may_refresh(self) -> bool:
        return self.caller.may("admin")

    def can_show(self, collection: str, path: str) -> bool:
        """Whether an image of a collection's folder belongs to what this caller may see."""
        source = self.sources().get(collection)
        engine = self.engine
        return source is not None and not collections.is_hidden(engine.store, engine.config, collection, source / path)

    # Changing

    @_audited
    def add_collection(
        self, name: str, source: Path, description: str = "", keep_root: bool | None = None
    ) -> Collection:
        """Register a directory, if it is one of those that may be added over the network."""
        self._check_unbound()
        self._check_folder(source)
        return self.engine.add_collection(name, source, description, keep_root)

    @_audited
    def update_collection(
        self,
        name: str,
        description: str | None = None,
        source: Path | None = None,
        enabled: bool | None = None,
    ) -> Collection:
        """Change what is given of a collection."""
        if source is not None:
            self._check_unbound()
            self._check_folder(source)
        return self.engine.update_collection(name, description, source, enabled)

    @_audited
    def delete_collection(self, name: str) -> None:
        """Delete a collection and everything indexed from it."""
        self._check_unbound()
        self.engine.delete_collection(name)

    @_audited
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
        """Index one collection."""
        return self.engine.import_collection(
            name, mode, chunk_size, chunk_overlap, allow_deletions, adopt, progress=progress
        )

    @_audited
    def rebuild(
        self,
        paths: Sequence[str] = (),
        force: bool = False,
        allow_deletions: bool = False,
        *,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Index again what lies under these paths."""
        return self.engine.rebuild(paths, force, allow_deletions, progress=progress)

    @_audited
    def request_index(self, path: str, force: bool = False) -> Queued:
        """Queue what lies under a path."""
        return self.engine.request_index(path, force)

    def close(self) -> None:
        """Nothing: the server closes its engine."""

    def _check_unbound(self) -> None:
        if self.caller.collections:
            raise Forbidden(
                f"The token {self.caller.name!r} is for some collections only, and may not add, move or delete any",
                "ask with one for all of them.",
            )

    def _check_folder(self, source: Path) -> None:
        """Let the owner on this machine add any folder, everybody else those of the project and of the allow-list."""
        if self.caller.may("owner") and self.caller.is_local:
            return
        config = self.engine.config
        allowed = [config.root, *(config.root / Path(each).expanduser() for each in config.server.addable_folders)]
        if not any(is_inside(folder, source) for folder in allowed):
            raise Forbidden(
                f"{source} may not be added over the network: it is neither inside the project nor in a folder that "
                "server.addable_folders names",
                "add it on the server's machine with `annai collection add`.",
            )


class Permissions:
    """The project as each caller finds it, made when it is first asked for. Several threads may use it at once."""

    def __init__(self, engine: Engine, audit: Audit, on_search: Callable[[float], None] = lambda _: None) -> None:
        self._engine = engine
        self._audit = audit
        self._on_search = on_search
        self._made: dict[Caller, PermittedProject] = {}
        self._lock = threading.Lock()

    def project(self, caller: Caller) -> PermittedProject:
        """The project for a caller."""
        found = self._made.get(caller)
        if found is None:
            with self._lock:
                found = self._made.setdefault(
                    caller, PermittedProject(self._engine, caller, self._audit, self._on_search)
                )
        return found
