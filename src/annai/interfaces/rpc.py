"""Which calls does a server answer? JSON-RPC 2.0 over a project."""

import copy
import dataclasses
import functools
import hmac
import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from annai.answers import PREVIEW_LINES, WINDOW_TOKENS, Content, Mode, Sort
from annai.config import Config
from annai.definitions import dataclass
from annai.errors import AnnaiError, Forbidden, QueryError, ServerError
from annai.files.kinds import is_converted
from annai.files.reader import MEGABYTE
from annai.interfaces.callers import LOCAL_OWNER, PermittedProject
from annai.interfaces.editor import chosen_editor, editor_command, open_window, opens_a_window
from annai.interfaces.limits import AnswerBudget
from annai.interfaces.page.documents import reading_json
from annai.interfaces.page.keys import Keys
from annai.interfaces.render.records import answer_json, document_json, selection_json
from annai.project import LOCAL_PARAMETERS, OPERATIONS, Access, Done, Duration, Operation, Project, type_hints
from annai.serving.wire import from_json, plain, size_of
from annai.trust import is_loopback
from annai.types import ServerStatus
from annai.values import Json, TypeHint, decode_fields, shorten, suggest

logger = logging.getLogger(__name__)

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
REFUSED = -32000
"""An `AnnaiError`: its message is for the user; `data` has the name of its class as `kind`, and its remedy."""

MAX_BATCH_CALLS = 100
"""Calls in one batch."""

MAX_ANSWER_BYTES = 50_000_000
"""The answers to one message may have so many together; or, where texts may be longer, `TEXTS_IN_ANSWER` of them."""

TEXTS_IN_ANSWER = 5
"""A document's answer has its text, the part that was asked for, and the places of its sections."""

_token: ContextVar[str] = ContextVar("token", default="")
"""The token that the call at hand came with."""


class CallError(Exception):
    """A message that is not a call, or a call that failed, as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def response(self, call_id: object = None) -> dict[str, Any]:
        """The response that carries it."""
        data = {"data": self.data} if self.data else {}
        return {"jsonrpc": "2.0", "id": call_id, "error": {"code": self.code, "message": str(self), **data}}


def parse(body: bytes) -> tuple[list[object], bool]:
    """The calls of a message, and whether they are a batch. Raises `CallError` for anything else."""
    try:
        message = from_json(body)
    except ValueError as error:
        raise CallError(PARSE_ERROR, f"The body is not JSON: {error}.") from error
    if not isinstance(message, list):
        return [message], False
    if not 1 <= len(message) <= MAX_BATCH_CALLS:
        raise CallError(INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH_CALLS} calls, not {len(message):,}.")
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
        keys: Keys | None = None,
    ) -> None:
        self._project = project
        self._config = config
        self._secret = secret
        self._stop = stop
        self._describe = describe
        self._keys = keys or Keys()
        self._caller = LOCAL_OWNER
        self.stopping = threading.Event()
        """Once set, long calls end with the document at hand."""

    def for_caller(self, project: PermittedProject) -> "Service":
        """The same service for one caller."""
        service = copy.copy(self)
        service._project, service._caller = project, project.caller
        return service

    def budget(self) -> AnswerBudget:
        """What the answers to one message may have."""
        longest = int(self._config.files.max_file_mb * MEGABYTE)
        return AnswerBudget(max(MAX_ANSWER_BYTES, TEXTS_IN_ANSWER * longest))

    def answer(self, call: object, token: str = "", budget: AnswerBudget | None = None) -> dict[str, Any] | None:
        """Make one call, which came with a token, and return the response; a notification has none.

        Calls of one message share a budget.
        """
        _token.set(token)
        call_id = call.get("id") if isinstance(call, dict) else None
        if isinstance(call_id, bool) or not isinstance(call_id, str | int | float | None):
            call_id = None
        try:
            method, params, wants_answer = _check(call)
        except CallError as failure:
            return failure.response(call_id)
        try:
            result = self._call(method, params)
            if wants_answer:
                _check_size(result, budget or self.budget())
            return {"jsonrpc": "2.0", "id": call_id, "result": result} if wants_answer else None
        except CallError as failure:
            return failure.response(call_id) if wants_answer else None

    def _call(self, name: str, params: object) -> Json:
        method = METHODS.get(name)
        if method is None:
            raise CallError(UNKNOWN_METHOD, f"There is no method {name!r}; {suggest(name, METHODS)}")
        try:
            # Whoever may not change the index is told so by the project itself, which notes it.
            if method.access == "owner" and not self._caller.may("owner"):
                raise Forbidden(f"{name} is for the owner of the server alone.")
            return plain(method.call(self, **method.arguments(params)))
        except AnnaiError as error:
            code = INVALID_PARAMS if isinstance(error, QueryError) else REFUSED
            data = {"kind": type(error).__name__} | ({"remedy": error.remedy} if error.remedy else {})
            raise CallError(code, str(error), data) from error
        except Exception as error:
            logger.exception("%s failed", name)
            raise CallError(INTERNAL_ERROR, "Something went wrong inside the server; see its log.") from error

    # Calls that differ from the operations of `Project`

    def search(
        self,
        query: str,
        limit: int | None = None,
        offset: int = 0,
        per_document: int | None = None,
        collections: tuple[str, ...] = (),
        depths: tuple[int, ...] = (),
        paths: tuple[str, ...] = (),
        excludes: tuple[str, ...] = (),
        where: tuple[str, ...] = (),
        since: str = "",
        until: str = "",
        mode: Mode | None = None,
        sort: Sort = "score",
        content: Content | None = None,
        clean_only: bool = False,
        preview_lines: int = PREVIEW_LINES,
        max_tokens: int = WINDOW_TOKENS,
        explain: bool = False,
        refresh: bool = False,
        full: bool = False,
        marks: bool = False,
    ) -> object:
        """The answer as `annai search --format json` prints it, or with `full` the whole `Answer`.

        With `marks` each result also says which spans of its preview, breadcrumbs and path the question names. In mode
        `exact` a result is a line that holds the query, or `/a pattern/`: its `start_line`, and as its `content`.
        """
        answer = self._project.search(
            query,
            refresh=refresh,
            limit=limit,
            offset=offset,
            per_document=per_document,
            collections=collections,
            depths=depths,
            paths=paths,
            excludes=excludes,
            where=where,
            since=since,
            until=until,
            mode=mode,
            sort=sort,
            content=content,
            clean_only=clean_only,
            preview_lines=preview_lines,
            max_tokens=max_tokens,
        )
        return answer if full else answer_json(answer, explain, marks=marks)

    def get_document(self, path: str) -> object:
        """A document, with its sections."""
        return document_json(self._project.locate(path))

    def read_document(self, reference: str) -> object:
        """A document as safe HTML, with its outline and the lines that were asked for."""
        place = self._project.locate(reference)
        documents = functools.partial(self._project.document_paths, place.document.collection)
        return reading_json(place, documents, self._image_key)

    def _image_key(self, image: str) -> str:
        """The key of an image that this caller may see; of any other, one that fits nothing."""
        project = self._project
        is_shown = not isinstance(project, PermittedProject) or project.can_show(*image.split(":", 1))
        return self._keys.image_key(image) if is_shown else ""

    def open_in_editor(self, reference: str) -> object:
        """Open a document in the editor of the user who started this server, if that is on this machine."""
        if not self._can_edit():
            raise ServerError(
                "This server has no editor to open", "set VISUAL to one that opens a window, and restart it."
            )
        place = self._project.locate(reference)
        file = self._project.sources()[place.document.collection] / place.document.path
        if is_converted(place.document.path):
            raise ServerError(f"An editor cannot show {file.name}", "`annai open` opens it with the system's program.")
        open_window(editor_command(chosen_editor(), file, place.line))
        return None

    def _can_edit(self) -> bool:
        return self._caller.may("owner") and is_loopback(self._config.server.host) and opens_a_window()

    def get_section(self, id: str) -> object:  # noqa: A002 - the name that a hit has for it
        """A section with its text, the section around it and those inside it."""
        return selection_json(self._project.locate(id))

    def enable_collection(self, name: str) -> object:
        """Include it in searches."""
        return self._project.update_collection(name, enabled=True)

    def disable_collection(self, name: str) -> object:
        """Leave it out of searches."""
        return self._project.update_collection(name, enabled=False)

    def refresh(self, names: tuple[str, ...] = (), full: bool = False) -> object:
        """Bring the index up to date without waiting long; the number of files left, or with `full` the `Freshness`."""
        freshness = self._project.refresh(names)
        return freshness if full else freshness.waiting

    def get_project(self) -> object:
        """Which project this is, and where its collections' files are."""
        return {
            "name": self._config.name,
            "root": self._config.root,
            "read_only": self._project.read_only,
            "can_add": not self._project.read_only and not self._caller.collections,
            "can_edit": self._can_edit(),
            "sources": self._project.sources(),
        }

    def get_status(self, name: str = "") -> object:
        """The state of the project and of this server."""
        return dataclasses.replace(self._project.status(name), server=self._describe())

    def make_ticket(self, own_user: bool = False) -> object:
        """A ticket with which a browser gets in, once within a minute, with the token of this call.

        With `own_user`, only one on the server's machine, Linux, that the server's own user runs: other users of that
        machine see what a browser is started with.
        """
        return self._keys.issue_ticket(_token.get(), own_user=own_user)

    def shutdown(self, secret: str) -> object:
        """Stop the server; only a process that can read the pid file knows the secret."""
        if not self._secret or not hmac.compare_digest(secret.encode(errors="replace"), self._secret.encode()):
            raise ServerError("This server can only be stopped with `annai server stop`.")
        self._stop()
        return None

    def do(self, operation: Operation, **arguments: object) -> object:
        """Do an operation of `Project`."""
        method = getattr(self._project, operation.method.__name__)
        progress = {"progress": self._keep_going} if operation.duration == "long" else {}
        return method(**arguments, **progress)

    def _keep_going(self, done: Done) -> None:  # noqa: ARG002 - the signature of Progress
        if self.stopping.is_set():
            raise ServerError("The server is being stopped", "what was indexed so far is kept.")


@dataclass(frozen=True, slots=True)
class Method:
    """A call that the server answers."""

    name: str
    call: Callable[..., object]
    """Makes the call for a `Service`."""
    hints: Mapping[str, TypeHint]
    """Its parameters, in their order."""
    required: Sequence[str]
    access: Access
    duration: Duration = "short"

    def arguments(self, params: object) -> dict[str, Any]:
        """The parameters of a call, by name or in order, as the type hints ask for them."""
        if isinstance(params, list):
            if len(params) > len(self.hints):
                raise QueryError(f"{self.name} takes at most {len(self.hints)} parameters, not {len(params):,}.")
            params = dict(zip(self.hints, params, strict=False))
        found = decode_fields(self.hints, params, self.name, required=self.required)
        for name, value in found.items():
            _check_text(name, value)
            if isinstance(value, Path) and not (value.is_absolute() or str(value).startswith("~")):
                raise QueryError(
                    f"{name} must be an absolute path, not {str(value)!r}: the server has another current folder."
                )
        return found


def _check_text(name: str, value: object) -> None:
    """Refuse strings that are not text: JSON can spell half of a surrogate pair, but nothing can store it."""
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, str | Path) and any("\ud800" <= character <= "\udfff" for character in str(each)):
            raise QueryError(f"{name} must be text, and {shorten(str(each))} has half of a surrogate pair in it.")


def _method(
    name: str, function: Callable[..., object], call: Callable[..., object], access: Access, duration: Duration
) -> Method:
    parameters = [
        each for each in list(inspect.signature(function).parameters.values())[1:] if each.name not in LOCAL_PARAMETERS
    ]
    hints = type_hints(function)
    required = [each.name for each in parameters if each.default is inspect.Parameter.empty]
    return Method(name, call, {each.name: hints[each.name] for each in parameters}, required, access, duration)


_OWN_CALLS: dict[Callable[..., object], tuple[Access, Duration]] = {
    Service.search: ("read", "short"),
    Service.get_document: ("read", "short"),
    Service.read_document: ("read", "short"),
    Service.open_in_editor: ("owner", "short"),
    Service.get_section: ("read", "short"),
    Service.enable_collection: ("admin", "waiting"),
    Service.disable_collection: ("admin", "waiting"),
    Service.refresh: ("read", "waiting"),
    Service.get_project: ("read", "short"),
    Service.get_status: ("read", "short"),
    Service.make_ticket: ("read", "short"),
    Service.shutdown: ("owner", "short"),
}

METHODS: dict[str, Method] = {
    **{each.__name__: _method(each.__name__, each, each, *kind) for each, kind in _OWN_CALLS.items()},
    **{
        name: _method(name, each.method, functools.partial(Service.do, operation=each), each.access, each.duration)
        for name, each in OPERATIONS.items()
    },
}
"""Every method by its name: the operations of `Project`, and those written out in `Service`."""


def _check_size(result: Json, budget: AnswerBudget) -> None:
    """Refuse an answer that is too large before it is written as JSON, which would copy every text in it."""
    if not budget.take(size_of(result)):
        raise CallError(
            REFUSED,
            f"The answer, with those to the other calls of its batch, would have more than "
            f"{budget.size // MEGABYTE} MB; ask for less at once: a smaller limit, less content, or fewer calls.",
            {"kind": QueryError.__name__},
        )


def duration_of(call: object) -> Duration:
    """How long a call may take, as far as it names a method."""
    name = call.get("method") if isinstance(call, dict) else None
    method = METHODS.get(name) if isinstance(name, str) else None
    if method is None:
        return "short"
    params = call.get("params") if isinstance(call, dict) else None
    refreshes = isinstance(params, dict) and bool(params.get("refresh"))
    return "waiting" if refreshes else method.duration


def _check(call: object) -> tuple[str, object, bool]:
    """A call's method, its parameters, and whether it wants a response."""
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0" or not isinstance(call.get("method"), str):
        raise CallError(
            INVALID_REQUEST, 'A call is an object like {"jsonrpc": "2.0", "id": 1, "method": "search", "params": {}}.'
        )
    if isinstance(call.get("id"), bool | list | dict):
        raise CallError(INVALID_REQUEST, "A call's id is a string or a number.")
    return call["method"], call.get("params", {}), "id" in call
