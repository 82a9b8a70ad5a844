"""What can be asked over the wire? JSON-RPC 2.0, spoken over a project."""

import dataclasses
import functools
import hmac
import inspect
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_type_hints

from annai.config import Config
from annai.errors import AnnaiError, QueryError, ServerError
from annai.interfaces.render import answer_json, document_json, selection_json
from annai.project import Project
from annai.serving.wire import decode_fields, from_json, plain
from annai.types import Content, ImportMode, Mode, Query, RequestStatus, ServerStatus, Sort, Where

logger = logging.getLogger(__name__)

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
REFUSED = -32000
"""An `AnnaiError`: its message is for the user, and `data.kind` names its class."""

MOST_CALLS = 100
"""Calls in one batch."""

MOST_REQUESTS = 1000
"""Lines of the queue that one call tells."""


class Failure(Exception):
    """A message that is no call, or a call that failed, as JSON-RPC tells it."""

    def __init__(self, code: int, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind

    def response(self, call_id: object = None) -> dict[str, Any]:
        """The answer that tells it."""
        data = {"data": {"kind": self.kind}} if self.kind else {}
        return {"jsonrpc": "2.0", "id": call_id, "error": {"code": self.code, "message": str(self), **data}}


def parse(body: bytes) -> tuple[list[object], bool]:
    """The calls of a message, and whether they came as a batch. Raises `Failure` for what is neither."""
    try:
        message = from_json(body)
    except ValueError as error:
        raise Failure(PARSE_ERROR, f"The body is not JSON: {error}.") from error
    if not isinstance(message, list):
        return [message], False
    if not 1 <= len(message) <= MOST_CALLS:
        raise Failure(INVALID_REQUEST, f"A batch holds 1 to {MOST_CALLS} calls, not {len(message):,}.")
    return message, True


class Service:
    """Answers calls about one project. Several threads may call at once."""

    def __init__(
        self,
        project: Project,
        config: Config,
        *,
        secret: str = "",
        stop: Callable[[], None] = lambda: None,
        describe: Callable[[], ServerStatus | None] = lambda: None,
    ) -> None:
        self._project = project
        self._config = config
        self._secret = secret
        self._stop = stop
        self._describe = describe
        self.stopping = threading.Event()
        """Once set, long calls end with the document at hand."""

    def answer(self, call: object) -> dict[str, Any] | None:
        """Make one call, and return what to send back: nothing for a notification."""
        call_id = call.get("id") if isinstance(call, dict) else None
        if isinstance(call_id, bool) or not isinstance(call_id, str | int | float | None):
            call_id = None
        try:
            method, params, wants_answer = _check(call)
        except Failure as failure:
            return failure.response(call_id)
        try:
            result = self._call(method, params)
            return {"jsonrpc": "2.0", "id": call_id, "result": result} if wants_answer else None
        except Failure as failure:
            return failure.response(call_id) if wants_answer else None

    def _call(self, method: str, params: object) -> object:
        if method not in METHODS:
            raise Failure(UNKNOWN_METHOD, f"There is no method {method!r}; there are {', '.join(METHODS)}.")
        function = METHODS[method]
        try:
            return plain(function(self, **_arguments(function, method, params)))
        except AnnaiError as error:
            code = INVALID_PARAMS if isinstance(error, QueryError) else REFUSED
            raise Failure(code, str(error), type(error).__name__) from error
        except Exception as error:
            logger.exception("%s failed", method)
            raise Failure(INTERNAL_ERROR, "Something went wrong inside the server; its log tells more.") from error

    # Searching

    def search(
        self,
        query: str,
        limit: int | None = None,
        collections: tuple[str, ...] = (),
        depths: tuple[int, ...] = (),
        paths: tuple[str, ...] = (),
        excludes: tuple[str, ...] = (),
        mode: Mode | None = None,
        sort: Sort = "score",
        content: Content | None = None,
        clean_only: bool = False,
        explain: bool = False,
    ) -> object:
        """The answer as `annai search --format json` shows it."""
        defaults = self._config.search
        asked = Query(
            text=query,
            limit=defaults.limit if limit is None else limit,
            where=Where(collections, paths, excludes, clean_only),
            depths=depths,
            mode=mode or cast(Mode, defaults.mode),
            sort=sort,
            content=content or cast(Content, defaults.content),
        )
        return answer_json(self._project.search(asked), explain)

    def get_document(self, path: str) -> object:
        """A document, with its sections."""
        return document_json(self._project.locate(path))

    def get_section(self, id: str) -> object:  # noqa: A002 - the name that a hit has for it
        """A section with its text, the section around it and those inside it."""
        return selection_json(self._project.locate(id))

    def locate(self, reference: str) -> object:
        """All that is known of a document: what `annai get` needs."""
        return self._project.locate(reference)

    # Collections

    def list_collections(self) -> object:
        """The registered collections."""
        return self._project.list_collections()

    def list_documents(self, name: str) -> object:
        """The paths of a collection's documents."""
        return self._project.document_paths(name)

    def add_collection(self, name: str, source: str, description: str = "") -> object:
        """Register a directory."""
        return self._project.add_collection(name, description, _absolute(source))

    def update_collection(
        self, name: str, description: str | None = None, source: str | None = None, enabled: bool | None = None
    ) -> object:
        """Change what is given."""
        folder = None if source is None else _absolute(source)
        return self._project.update_collection(name, description=description, source=folder, enabled=enabled)

    def enable_collection(self, name: str) -> object:
        """Let searches look at it."""
        return self._project.update_collection(name, enabled=True)

    def disable_collection(self, name: str) -> object:
        """Leave it out of searches."""
        return self._project.update_collection(name, enabled=False)

    def delete_collection(self, name: str) -> object:
        """Forget it and its data."""
        self._project.delete_collection(name)
        return None

    # Indexing

    def import_collection(self, name: str = "", mode: ImportMode = "update") -> object:
        """Index a collection, and answer when that is done."""
        return self._project.import_collection(name, mode, progress=self._keep_going)

    def rebuild_index(self, paths: tuple[str, ...] = (), force: bool = False) -> object:
        """Index again what lies under the paths, and answer when that is done."""
        return self._project.rebuild(paths, force=force, progress=self._keep_going)

    def index_document(self, path: str, force: bool = False) -> object:
        """Put a document or a folder into the queue, and answer at once."""
        return self._project.request_index(path, force=force)

    def refresh(self, names: tuple[str, ...] = ()) -> object:
        """Wait a little for the index to be up to date; how many files still wait."""
        return self._project.refresh(names)

    # Telling

    def get_project(self) -> object:
        """Which project this is, and where its collections' files are."""
        return {
            "name": self._config.name,
            "root": self._config.root,
            "read_only": self._project.read_only,
            "sources": self._project.sources(),
        }

    def get_status(self, name: str = "") -> object:
        """How the project and this server stand."""
        return dataclasses.replace(self._project.status(name), server=self._describe())

    def get_requests(self, status: RequestStatus | None = None, collection: str = "", limit: int = 100) -> object:
        """The queue, newest first."""
        if not 1 <= limit <= MOST_REQUESTS:
            raise QueryError(f"limit must be between 1 and {MOST_REQUESTS:,}, not {limit}.")
        return self._project.requests(status, collection, limit)

    def shutdown(self, secret: str) -> object:
        """End the server; only who can read the pid file knows the secret."""
        if not self._secret or not hmac.compare_digest(secret.encode(errors="replace"), self._secret.encode()):
            raise ServerError("Only `annai server stop` ends this server.")
        self._stop()
        return None

    def _keep_going(self, done: int, total: int) -> None:  # noqa: ARG002 - what progress is told
        if self.stopping.is_set():
            raise ServerError("The server is being stopped; what was indexed so far is kept.")


METHODS: dict[str, Callable[..., object]] = {
    function.__name__: function
    for function in (
        Service.search,
        Service.get_document,
        Service.get_section,
        Service.locate,
        Service.list_collections,
        Service.list_documents,
        Service.add_collection,
        Service.update_collection,
        Service.enable_collection,
        Service.disable_collection,
        Service.delete_collection,
        Service.import_collection,
        Service.rebuild_index,
        Service.index_document,
        Service.refresh,
        Service.get_project,
        Service.get_status,
        Service.get_requests,
        Service.shutdown,
    )
}
"""Every method by its name."""

LONG = frozenset({"import_collection", "rebuild_index"})
"""Methods that may take minutes."""

WAITING = frozenset({"refresh", "index_document", "add_collection", "update_collection", "delete_collection"})
"""Methods that may wait for the indexing to let them."""


def method_of(call: object) -> str:
    """The name of the method that a call wants, as far as it has one."""
    method = call.get("method") if isinstance(call, dict) else None
    return method if isinstance(method, str) else ""


def _check(call: object) -> tuple[str, object, bool]:
    """A call's method, its parameters, and whether it wants an answer."""
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0" or not isinstance(call.get("method"), str):
        raise Failure(
            INVALID_REQUEST, 'A call is an object like {"jsonrpc": "2.0", "id": 1, "method": "search", "params": {}}.'
        )
    if isinstance(call.get("id"), bool | list | dict):
        raise Failure(INVALID_REQUEST, "A call's id is a string or a number.")
    return call["method"], call.get("params", {}), "id" in call


def _arguments(function: Callable[..., object], method: str, params: object) -> dict[str, Any]:
    """The parameters of a call, by name or in order, as the method's type hints ask for them."""
    hints, required = _signature(function)
    if isinstance(params, list):
        if len(params) > len(hints):
            raise QueryError(f"{method} takes at most {len(hints)} parameters, not {len(params):,}.")
        params = dict(zip(hints, params, strict=False))
    return decode_fields(hints, required, params, method)


@functools.cache
def _signature(function: Callable[..., object]) -> tuple[dict[str, Any], list[str]]:
    """The type hints of a method's parameters, and the names of those that must be given."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    hints = get_type_hints(function)
    required = [each.name for each in parameters if each.default is inspect.Parameter.empty]
    return {each.name: hints[each.name] for each in parameters}, required


def _absolute(source: str) -> Path:
    folder = Path(source).expanduser()
    if not folder.is_absolute():
        raise QueryError(f"source must be an absolute path, not {source!r}: the server stands in a folder of its own.")
    return folder
