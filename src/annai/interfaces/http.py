"""How does a server listen? One web application: /health, /ready, /metrics, /rpc, and what is mounted beside them.

Every request is checked before it is read: it must be meant for this server (Host), must not come from another web
page (Origin), must carry a token where one is set, and must be neither too large, too slow nor one of too many.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from annai.interfaces.callers import CALLER, FORWARDED, LOCAL_OWNER, Caller, Doorkeeper, Permissions
from annai.interfaces.limits import AnswerBudget, Limiter
from annai.interfaces.logs import access_logger, log_access
from annai.interfaces.metrics import Metrics
from annai.interfaces.rpc import CallError, Service, duration_of, parse
from annai.serving.pidfile import proof
from annai.serving.wire import to_json
from annai.settings import Server as ServerSettings
from annai.trust import is_loopback

MAX_BODY_BYTES = 1_000_000
"""Bytes of one request; the longest query is a hundredth of it."""

MAX_DISCARDED_BYTES = 20 * MAX_BODY_BYTES
"""Bytes of a rejected request that are read all the same: a client that is still sending does not see the response."""

BODY_SECONDS = 10.0
"""How long a request may take to arrive."""

KEEP_ALIVE_SECONDS = 30
"""How long a connection may be idle between two requests."""

FIRST_REQUEST_SECONDS = 10.0
"""How long a new connection may take to send its first request."""

SEARCH_THREADS = 4
"""Threads that search: more would only wait for each other."""

READY_SECONDS, READY_CHECK_SECONDS = 1.0, 5.0
"""How long an answer of /ready holds, so that nobody can keep the index busy with it, and how long to wait for one."""

CLIENT = "annai.client"
"""Where a request's scope holds what its limit is counted by; nothing if it has none."""

WAITING_THREADS = 16
"""Threads for calls that wait for indexing; they cost nothing while they wait."""


class Application:
    """The web application over one project.

    `routes` are served beside the application's own, behind the same checks. `public_paths` need no token; one that
    ends with a slash is a folder. `doors` knows callers by their tokens, and `permissions` what each finds; without
    them there is one token, or none. `find_problems` names what keeps the server from answering.
    """

    def __init__(
        self,
        service: Service,
        *,
        secret: str = "",
        host: str = "127.0.0.1",
        token: str = "",
        routes: Sequence[BaseRoute] = (),
        public_paths: Sequence[str] = (),
        body_seconds: float = BODY_SECONDS,
        doors: Doorkeeper | None = None,
        permissions: Permissions | None = None,
        settings: ServerSettings | None = None,
        metrics: Metrics | None = None,
        find_problems: Callable[[], list[str]] = list,
    ) -> None:
        self._service = service
        self._permissions = permissions
        self._services: dict[Caller, Service] = {}
        self._metrics = metrics
        self._find_problems = find_problems
        self._readiness: tuple[float, list[str]] = (0.0, [])
        self._checking: asyncio.Future[list[str]] | None = None
        self._secret = secret
        self._body_seconds = body_seconds
        self._readers = ThreadPoolExecutor(SEARCH_THREADS, "read")
        self._waiters = ThreadPoolExecutor(WAITING_THREADS, "wait")
        self._importer = ThreadPoolExecutor(1, "import")
        self.last_call = time.monotonic()
        """When the last call came."""
        own = [
            Route("/health", self._health, methods=["GET"]),
            Route("/ready", self._ready, methods=["GET"]),
            Route("/metrics", self._tell_metrics, methods=["GET"]),
            Route("/rpc", self._rpc, methods=["POST"]),
        ]
        settings = settings or ServerSettings()
        public = ("/health", "/ready", *(["/metrics"] if settings.open_metrics else []), *public_paths)
        self._gate = _Gatekeeper(
            Starlette(routes=[*own, *routes]),
            host=host,
            doors=doors or Doorkeeper(token),
            public_paths=public,
            settings=settings,
            metrics=metrics,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI wants it."""
        await self._gate(scope, receive, send)

    def refuse(self) -> None:
        """Refuse new requests from now on; those that are being answered go on."""
        self._gate.is_stopping = True

    def close(self) -> None:
        """Wait for the calls that are running; those that have not started are dropped."""
        for pool in (self._readers, self._waiters, self._importer):
            pool.shutdown(cancel_futures=True)

    async def _health(self, request: Request) -> Response:
        challenge = request.query_params.get("challenge", "")
        return _json({"status": "ok", **({"proof": proof(self._secret, challenge)} if challenge else {})})

    async def _ready(self, _request: Request) -> Response:
        """Whether requests can be answered, and if not, because of what; not why, since everybody may ask."""
        since, problems = self._readiness
        if time.monotonic() - since > READY_SECONDS:
            if self._checking is None or self._checking.done():
                self._checking = asyncio.get_running_loop().run_in_executor(None, self._find_problems)
            done, _ = await asyncio.wait({self._checking}, timeout=READY_CHECK_SECONDS)
            problems = self._checking.result() if done else ["store"]
            self._readiness = time.monotonic(), problems
        if problems:
            return _json({"status": "not ready", "not_ready": problems}, 503)
        return _json({"status": "ready"})

    async def _tell_metrics(self, request: Request) -> Response:
        caller: Caller | None = request.scope.get(CALLER)
        if caller and caller.collections:
            return _rejection(403, "This token is for some collections only, and the metrics are of all.")
        if self._metrics is None:
            return _rejection(404, "This server has no metrics.")
        text = await asyncio.get_running_loop().run_in_executor(self._waiters, self._metrics.text)
        return Response(text, headers={"cache-control": "no-store"}, media_type="text/plain; version=1.0.0")

    async def _rpc(self, request: Request) -> Response:
        self.last_call = time.monotonic()
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _rejection(415, "Send JSON, with Content-Type: application/json.")
        try:
            calls, is_batch = parse(await self._body(request))
            if len(calls) > 1 and (rejection := self._gate.limit(request.scope, len(calls) - 1)):
                raise _RejectedRequest(rejection)
        except _RejectedRequest as rejected:
            return rejected.response
        except ClientDisconnect:
            return Response(status_code=400)
        except CallError as error:
            return _json(error.response())
        service, token = self._service_of(request), request.headers.get("authorization", "").partition(" ")[2].strip()
        budget = service.budget()
        made = await asyncio.gather(*(self._answer(service, call, token, budget) for call in calls))
        answers = [answer for answer in made if answer is not None]
        self.last_call = time.monotonic()
        if not answers:
            return Response(status_code=204)
        return _json(answers if is_batch else answers[0])

    def _service_of(self, request: Request) -> Service:
        """The service as the caller may use it."""
        if self._permissions is None:
            return self._service
        caller = request.scope.get(CALLER) or LOCAL_OWNER
        service = self._services.get(caller)
        if service is None:
            service = self._services[caller] = self._service.for_caller(self._permissions.project(caller))
        return service

    async def _answer(self, service: Service, call: object, token: str, budget: AnswerBudget) -> dict[str, Any] | None:
        """Make a call in a thread of the right pool, so that neither a long nor a waiting call delays a search."""
        pool = {"short": self._readers, "waiting": self._waiters, "long": self._importer}[duration_of(call)]
        return await asyncio.get_running_loop().run_in_executor(pool, service.answer, call, token, budget)

    async def _body(self, request: Request) -> bytes:
        body, size = bytearray(), 0
        try:
            async with asyncio.timeout(self._body_seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size <= MAX_BODY_BYTES:
                        body += chunk
                    elif size > MAX_DISCARDED_BYTES:
                        break
        except TimeoutError as error:
            message = f"The request did not arrive within {self._body_seconds:.0f} seconds."
            raise _RejectedRequest(_rejection(408, message, close=True)) from error
        if size > MAX_BODY_BYTES:
            raise _RejectedRequest(_rejection(*_TOO_LARGE, close=True))
        return bytes(body)


def uvicorn_config(application: Application, proxies: Sequence[str] = (), **more: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's own settings
    """How uvicorn serves the application; only what these proxies say of their clients is believed."""
    return uvicorn.Config(
        application,
        http=_RequestTimeoutProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[*proxies],
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        **more,
    )


class _RejectedRequest(Exception):
    """A request that is rejected."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class _Gatekeeper:
    """Rejects requests before they reach the application, and counts and logs all."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        doors: Doorkeeper,
        public_paths: Sequence[str],
        settings: ServerSettings,
        metrics: Metrics | None,
    ) -> None:
        self._app = app
        self._public_paths = public_paths
        self._doors = doors
        self._metrics = metrics
        self._limiter = Limiter(settings.requests_per_second, settings.request_burst)
        self._limits_this_machine = settings.limit_this_machine
        self.is_stopping = False
        # DNS rebinding: a name that an attacker points at this machine must not reach a server without a token.
        own = {"localhost", "127.0.0.1", "::1", host, *(each.lower() for each in settings.host_names)}
        self._hosts = own if is_loopback(host) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        rejection = self._rejection(scope, headers)
        if self._metrics or not access_logger.disabled:
            send = self._observed(scope, send)
        if rejection and _length(headers) <= MAX_DISCARDED_BYTES:
            await _discard_body(receive)
        await (rejection or self._app)(scope, receive, send)

    def limit(self, scope: Scope, cost: int = 1) -> Response | None:
        """Count requests of a client; a rejection if they are too many."""
        client = scope.get(CLIENT)
        seconds = self._limiter.wait_for(client, cost) if client else 0
        if not seconds:
            return None
        rejection = self._refuse("limit", 429, f"You sent too many requests; try again in {seconds} s.")
        rejection.headers["retry-after"] = str(seconds)
        return rejection

    def _rejection(self, scope: Scope, headers: Headers) -> Response | None:
        """Why the request is not answered, if so; who sent it is noted in its scope."""
        if self.is_stopping:
            return self._refuse("stopping", 503, "The server is stopping; try again in a while.", close=True)
        host, address = headers.get("host", ""), (scope.get("client") or ("",))[0]
        if self._hosts is not None and _host_name(host) not in self._hosts:
            message = "This address is not the server's own; use the one that `annai server status` shows."
            return self._refuse("host", 403, message)
        origin = headers.get("origin")
        own = (None, f"http://{host}".lower(), f"https://{host}".lower())
        if (origin and origin.lower()) not in own or _is_foreign(headers):
            return self._refuse("origin", 403, "Web pages from other origins may not call this server.")
        is_local = is_loopback(address) and not any(each in headers for each in FORWARDED)
        caller = self._doors.caller(headers.get("authorization", ""), is_local=is_local)
        scope[CALLER] = caller
        if not is_local or self._limits_this_machine:
            scope[CLIENT] = address, caller.name if caller else ""
            if rejection := self.limit(scope):
                return rejection
        if caller is None and not self._is_public(scope["path"]):
            rejection = self._refuse("token", 401, "This server needs its token: send Authorization: Bearer TOKEN.")
            rejection.headers["www-authenticate"] = "Bearer"
            return rejection
        return self._refuse("size", *_TOO_LARGE, close=True) if _length(headers) > MAX_BODY_BYTES else None

    def _refuse(self, reason: str, status: int, message: str, *, close: bool = False) -> Response:
        if self._metrics:
            self._metrics.count_refusal(reason)
        return _rejection(status, message, close=close)

    def _observed(self, scope: Scope, send: Send) -> Send:
        """Count and log the request when its answer is complete."""
        start, status = time.perf_counter(), 0

        async def observe(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif not message.get("more_body", False):
                seconds = time.perf_counter() - start
                if self._metrics:
                    self._metrics.count_request(scope["path"], status, seconds)
                if not access_logger.disabled:
                    caller, client = scope.get(CALLER), (scope.get("client") or ("",))[0]
                    log_access(client, caller.name if caller else "", scope["method"], scope["path"], status, seconds)
            await send(message)

        return observe

    def _is_public(self, path: str) -> bool:
        return any(
            path == each or (each != "/" and each.endswith("/") and path.startswith(each))
            for each in self._public_paths
        )


class _RequestTimeoutProtocol(H11Protocol):
    """Closes a connection that sends no request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """Start the clock."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(FIRST_REQUEST_SECONDS, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._timer.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()


def _is_foreign(headers: Headers) -> bool:
    """Whether another site's page makes a browser ask, say for an image to measure; following a link is fine."""
    site, mode = headers.get("sec-fetch-site", ""), headers.get("sec-fetch-mode", "")
    return site in ("cross-site", "same-site") and mode != "navigate"


def _length(headers: Headers) -> int:
    """The length that the request declares."""
    length = headers.get("content-length", "")
    return int(length[:20]) if length.isdecimal() else 0


async def _discard_body(receive: Receive) -> None:
    """Read what is left of a request, up to a limit, and discard it."""
    size, more = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BODY_SECONDS):
            while more and size < MAX_DISCARDED_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _host_name(host: str) -> str:
    """The host of a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


_TOO_LARGE = 413, f"A request may have at most {MAX_BODY_BYTES:,} bytes."


def _rejection(status: int, message: str, *, close: bool = False) -> Response:
    # The unread rest of a request would be taken for the next one.
    return _json({"error": message}, status, {"connection": "close"} if close else {})


def _json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    kept = {"cache-control": "no-store", "x-content-type-options": "nosniff", **(headers or {})}
    return Response(to_json(value), status, kept, "application/json")
