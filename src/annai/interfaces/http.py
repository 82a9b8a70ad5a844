"""How does a server listen? One web application: /health, /rpc, and what is mounted beside them.

Every request is checked before it is read: it must be meant for this server (Host), must not come from another web
page (Origin), must carry the token where one is set, and must be neither too large nor too slow.
"""

import asyncio
import contextlib
import hmac
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from annai.interfaces.rpc import CallError, Service, duration_of, parse
from annai.serving.pidfile import proof
from annai.serving.wire import to_json
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

WAITING_THREADS = 16
"""Threads for calls that wait for indexing; they cost nothing while they wait."""


class Application:
    """The web application over one project.

    `routes` are served beside the application's own, behind the same checks. `public_paths` need no token; one that
    ends with a slash is a folder.
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
    ) -> None:
        self._service = service
        self._secret = secret
        self._body_seconds = body_seconds
        self._readers = ThreadPoolExecutor(SEARCH_THREADS, "read")
        self._waiters = ThreadPoolExecutor(WAITING_THREADS, "wait")
        self._importer = ThreadPoolExecutor(1, "import")
        self.last_call = time.monotonic()
        """When the last call came."""
        own = [Route("/health", self._health, methods=["GET"]), Route("/rpc", self._rpc, methods=["POST"])]
        public = ("/health", *public_paths)
        self._app = _Gatekeeper(Starlette(routes=[*own, *routes]), host=host, token=token, public_paths=public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI wants it."""
        await self._app(scope, receive, send)

    def close(self) -> None:
        """Wait for the calls that are running; those that have not started are dropped."""
        for pool in (self._readers, self._waiters, self._importer):
            pool.shutdown(cancel_futures=True)

    async def _health(self, request: Request) -> Response:
        challenge = request.query_params.get("challenge", "")
        return _json({"status": "ok", **({"proof": proof(self._secret, challenge)} if challenge else {})})

    async def _rpc(self, request: Request) -> Response:
        self.last_call = time.monotonic()
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _rejection(415, "Send JSON, with Content-Type: application/json.")
        try:
            calls, is_batch = parse(await self._body(request))
        except _RejectedRequest as rejected:
            return rejected.response
        except ClientDisconnect:
            return Response(status_code=400)
        except CallError as error:
            return _json(error.response())
        answers = [answer for answer in await asyncio.gather(*map(self._answer, calls)) if answer is not None]
        self.last_call = time.monotonic()
        if not answers:
            return Response(status_code=204)
        return _json(answers if is_batch else answers[0])

    async def _answer(self, call: object) -> dict[str, Any] | None:
        """Make a call in a thread of the right pool, so that neither a long nor a waiting call delays a search."""
        pool = {"short": self._readers, "waiting": self._waiters, "long": self._importer}[duration_of(call)]
        return await asyncio.get_running_loop().run_in_executor(pool, self._service.answer, call)

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
            raise _RejectedRequest(_too_large())
        return bytes(body)


def uvicorn_config(application: Application, **more: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's own settings
    """How uvicorn serves the application."""
    return uvicorn.Config(
        application,
        http=_RequestTimeoutProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        **more,
    )


class _RejectedRequest(Exception):
    """A request that is rejected."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class _Gatekeeper:
    """Rejects requests before they reach the application."""

    def __init__(self, app: ASGIApp, *, host: str, token: str, public_paths: Sequence[str]) -> None:
        self._app = app
        self._public_paths = public_paths
        self._token = token.encode()
        # DNS rebinding: a name that an attacker points at this machine must not reach a server without a token.
        self._hosts = {"localhost", "127.0.0.1", "::1", host} if is_loopback(host) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        rejection = self._rejection(scope["path"], headers) if scope["type"] == "http" else None
        if rejection and _length(headers) <= MAX_DISCARDED_BYTES:
            await _discard_body(receive)
        await (rejection or self._app)(scope, receive, send)

    def _rejection(self, path: str, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self._hosts is not None and _host_name(host) not in self._hosts:
            return _rejection(
                403, "This address is not the server's own; use the one that `annai server status` shows."
            )
        origin = headers.get("origin")
        own = (None, f"http://{host}".lower(), f"https://{host}".lower())
        if (origin and origin.lower()) not in own or _is_foreign(headers):
            return _rejection(403, "Web pages from other origins may not call this server.")
        if self._token and not self._is_public(path) and not self._is_allowed(headers.get("authorization", "")):
            rejection = _rejection(401, "This server needs its token: send Authorization: Bearer TOKEN.")
            rejection.headers["www-authenticate"] = "Bearer"
            return rejection
        return _too_large() if _length(headers) > MAX_BODY_BYTES else None

    def _is_public(self, path: str) -> bool:
        return any(
            path == each or (each != "/" and each.endswith("/") and path.startswith(each))
            for each in self._public_paths
        )

    def _is_allowed(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return hmac.compare_digest(token.strip().encode(), self._token) and scheme.lower() == "bearer"


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


def _too_large() -> Response:
    return _rejection(413, f"A request may have at most {MAX_BODY_BYTES:,} bytes.", close=True)


def _rejection(status: int, message: str, *, close: bool = False) -> Response:
    # The unread rest of a request would be taken for the next one.
    return _json({"error": message}, status, {"connection": "close"} if close else {})


def _json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    kept = {"cache-control": "no-store", "x-content-type-options": "nosniff", **(headers or {})}
    return Response(to_json(value), status, kept, "application/json")
