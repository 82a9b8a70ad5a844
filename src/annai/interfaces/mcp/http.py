"""How does an agent's program reach the project's server? At /mcp, beside everything else that it serves."""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from annai.config import Config
from annai.interfaces.mcp.access import Access
from annai.project import Project
from annai.serving.wire import mend_json

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""What may be half of a pair; where it is, the SDK refuses the request without its id."""


class Endpoint:
    """Serves both eras of the protocol at one path, behind the checks of the application it is a route of.

    The SDK is loaded with the first request, so a server that no agent uses does without it.
    """

    def __init__(
        self, project: Project, config: Config, *, max_body_bytes: int, body_seconds: float, on_use: Callable[[], None]
    ) -> None:
        self.route = Route(PATH, endpoint=self)
        self._access = Access(config, project)
        self._max_body_bytes = max_body_bytes
        self._body_seconds = body_seconds
        self._on_use = on_use
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._stop_running: Callable[[], None] = lambda: None
        """Stops what the sessions are running."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI wants it."""
        self._on_use()
        manager = await self._started()
        await manager.handle_request(scope, self._with_timeout(receive), send)

    async def close(self) -> None:
        """End every session, and what they are running."""
        self._stop.set()
        if self._task:
            with suppress(asyncio.CancelledError):
                await self._task

    async def _started(self) -> "StreamableHTTPSessionManager":
        async with self._starting:
            if self._manager is None:
                manager = await asyncio.get_running_loop().run_in_executor(None, self._make)
                ready = asyncio.Event()
                self._task = asyncio.create_task(self._run(manager, ready))
                await ready.wait()
                self._manager = manager
            return self._manager

    def _make(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from annai.interfaces.mcp.server import ProjectServer

        server = ProjectServer(self._access)
        self._stop_running = server.close
        return StreamableHTTPSessionManager(server, max_request_body_size=self._max_body_bytes)

    async def _run(self, manager: "StreamableHTTPSessionManager", ready: asyncio.Event) -> None:
        """Keep the sessions until `close`."""
        async with manager.run():
            ready.set()
            await self._stop.wait()
        self._stop_running()

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
