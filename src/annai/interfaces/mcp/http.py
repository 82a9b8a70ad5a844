"""How does an agent's program talk to the project's server? At /mcp, beside everything else that it serves."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from annai.config import Config
from annai.interfaces.mcp.access import Access
from annai.project import Project

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"


class Endpoint:
    """Serves the protocol's two eras at one path, behind the checks of the application that it is a route of.

    The SDK is loaded with the first request: a server that no agent asks does without it.
    """

    def __init__(
        self, project: Project, config: Config, *, largest_body: int, body_seconds: float, used: Callable[[], None]
    ) -> None:
        self.route = Route(PATH, endpoint=self)
        self._access = Access(config, project)
        self._largest_body = largest_body
        self._body_seconds = body_seconds
        self._used = used
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._living: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._at_work: Callable[[], None] = lambda: None
        """Ends what the sessions have at work."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI wants it."""
        self._used()
        manager = await self._started()
        await manager.handle_request(scope, self._in_time(receive), send)

    async def close(self) -> None:
        """End every session, and what they have at work."""
        self._stop.set()
        if self._living:
            with suppress(asyncio.CancelledError):
                await self._living

    async def _started(self) -> "StreamableHTTPSessionManager":
        async with self._starting:
            if self._manager is None:
                manager = await asyncio.get_running_loop().run_in_executor(None, self._make)
                ready = asyncio.Event()
                self._living = asyncio.create_task(self._live(manager, ready))
                await ready.wait()
                self._manager = manager
            return self._manager

    def _make(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from annai.interfaces.mcp.server import ProjectServer

        server = ProjectServer(self._access)
        self._at_work = server.close
        return StreamableHTTPSessionManager(server, max_request_body_size=self._largest_body)

    async def _live(self, manager: "StreamableHTTPSessionManager", ready: asyncio.Event) -> None:
        """Keep the sessions until the end."""
        async with manager.run():
            ready.set()
            await self._stop.wait()
        self._at_work()

    def _in_time(self, receive: Receive) -> Receive:
        """Give up on a message that does not arrive; once it is there, its sender may listen for ever."""
        is_whole = False

        async def receive_in_time() -> Message:
            nonlocal is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout(self._body_seconds):
                    message = await receive()
            except TimeoutError:
                return {"type": "http.disconnect"}
            is_whole = not message.get("more_body", False)
            return message

        return receive_in_time
