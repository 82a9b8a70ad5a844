"""How does an agent's program reach the project's server? At /mcp, beside everything else that it serves."""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from annai.config import Config
from annai.interfaces.callers import CALLER, LOCAL_OWNER, Caller
from annai.interfaces.mcp.access import Access
from annai.project import Project
from annai.serving.wire import mend_json

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"

DRAIN_POLL_SECONDS = 0.05

MAX_SESSIONS, SESSION_IDLE_SECONDS = 1_000, 600.0
"""Of each token: a thousand agents may share one, and a session takes some 50 KB. One that its client forgot to end
makes room after this long."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""What may be half of a pair; where it is, the SDK refuses the request without its id."""


class Endpoint:
    """Serves both eras of the protocol at one path, behind the checks of the application it is a route of.

    Every token has sessions of its own, over the project as that token may see it. The SDK is loaded with the first
    request, so a server that no agent uses does without it.
    """

    def __init__(
        self,
        project_of: Callable[[Caller], Project],
        config: Config,
        *,
        max_body_bytes: int,
        body_seconds: float,
        on_use: Callable[[], None],
    ) -> None:
        self.route = Route(PATH, endpoint=self)
        self._project_of = project_of
        self._config = config
        self._max_body_bytes = max_body_bytes
        self._body_seconds = body_seconds
        self._on_use = on_use
        self._starting = asyncio.Lock()
        self._sessions: dict[Caller, _Sessions] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI wants it."""
        self._on_use()
        sessions = await self._started(scope.get(CALLER) or LOCAL_OWNER)
        await sessions.manager.handle_request(scope, self._with_timeout(receive), send)

    async def drain(self, seconds: float) -> None:
        """Wait for the tools that are running, at most this long."""
        deadline = time.monotonic() + seconds
        while any(each.is_busy() for each in self._sessions.values()) and time.monotonic() < deadline:
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    async def close(self, still_knows: Callable[[Caller], bool] = lambda _: False) -> None:
        """End every session, and what it is running, but for those of callers whose tokens still hold."""
        for caller in [each for each in self._sessions if not still_knows(each)]:
            await self._sessions.pop(caller).close()

    async def _started(self, caller: Caller) -> "_Sessions":
        async with self._starting:
            if caller not in self._sessions:
                made = await asyncio.get_running_loop().run_in_executor(None, self._make, caller)
                await made.start()
                self._sessions[caller] = made
            return self._sessions[caller]

    def _make(self, caller: Caller) -> "_Sessions":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from annai.interfaces.mcp.server import ProjectServer

        access = Access(self._config, self._project_of(caller))
        server = ProjectServer(access, can_change=caller.may("admin"))
        manager = StreamableHTTPSessionManager(
            server,
            max_request_body_size=self._max_body_bytes,
            max_sessions=MAX_SESSIONS,
            session_idle_timeout=SESSION_IDLE_SECONDS,
        )
        return _Sessions(manager, server.close, lambda: server.is_busy)

    def _with_timeout(self, receive: Receive) -> Receive:
        """Drop a request that does not arrive in time; once it is there, the client may listen for ever."""
        is_whole = False

        async def receive_with_timeout() -> Message:
            nonlocal is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout(self._body_seconds):
                    message = await receive()
            except TimeoutError:
                return {"type": "http.disconnect"}
            is_whole = not message.get("more_body", False)
            if is_whole and _SURROGATE.search(message.get("body", b"")):
                with suppress(ValueError):
                    message["body"] = mend_json(message["body"])
            return message

        return receive_with_timeout


class _Sessions:
    """The sessions of one token."""

    def __init__(
        self, manager: "StreamableHTTPSessionManager", stop_running: Callable[[], None], is_busy: Callable[[], bool]
    ) -> None:
        self.manager = manager
        self.is_busy = is_busy
        """Whether a tool is running."""
        self._stop_running = stop_running
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Be ready for requests."""
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(ready))
        await ready.wait()

    async def close(self) -> None:
        """End them."""
        self._stop.set()
        if self._task:
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, ready: asyncio.Event) -> None:
        async with self.manager.run():
            ready.set()
            await self._stop.wait()
        self._stop_running()
