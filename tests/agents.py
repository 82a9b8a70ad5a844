"""How do tests speak as an agent's program does? The SDK's own client, on a server in a process of its own."""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

T = TypeVar("T")

LEGACY, MODERN = "legacy", "2026-07-28"
ERAS = [LEGACY, "auto"]
"""The handshake up to 2025-11-25; and what a client of both eras finds out, which is 2026-07-28."""

DEADLINE = 60.0


class Agent:
    """A connected client. It lives in a thread with a loop of its own, so that tests are plain functions."""

    def __init__(
        self,
        server: Any,  # noqa: ANN401 - whatever the SDK's client takes
        mode: str,
        around: AbstractAsyncContextManager[object] | None = None,
    ) -> None:
        self._around = around or nullcontext()
        self.notices: list[str] = []
        """The methods of the notifications that came."""
        self.client = Client(server, mode=mode, message_handler=self._notice, cache=None)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(DEADLINE), "no connection came about"
        if self._failure:
            raise self._failure

    def do(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do something with the client."""

        async def done() -> T:
            return await work(self.client)

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(DEADLINE)

    def call(self, tool: str, **arguments: object) -> types.CallToolResult:
        """Call a tool."""
        return self.do(lambda client: client.call_tool(tool, arguments))

    def fields(self, tool: str, **arguments: object) -> dict[str, Any]:
        """What a tool returns, as fields; it must not fail."""
        result = self.call(tool, **arguments)
        assert not result.is_error, text(result)
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    def failure(self, tool: str, **arguments: object) -> str:
        """The sentence with which a tool refuses."""
        result = self.call(tool, **arguments)
        assert result.is_error, text(result)
        return text(result)

    def tools(self) -> dict[str, types.Tool]:
        """The tools by name, in their order."""
        return {tool.name: tool for tool in self.do(lambda client: client.list_tools()).tools}

    def close(self) -> None:
        """Leave, as a client does."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    async def _notice(self, message: object) -> None:
        self.notices.append(str(getattr(message, "method", message)))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:
            self._failure = error
            self._ready.set()
        finally:
            self._loop.close()

    async def _live(self) -> None:
        async with self._around, self.client:
            self._ready.set()
            await self._stop.wait()


@contextmanager
def connected(
    folder: Path,
    mode: str = LEGACY,
    arguments: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[Agent]:
    """A client on `annai mcp`, started in the folder."""
    # The SDK hands on little of the environment.
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "XDG_STATE_HOME") if name in os.environ}
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "annai", "mcp", *arguments], cwd=folder, env={**kept, **(environment or {})}
    )
    with (log or Path(os.devnull)).open("w") as errors:
        agent = Agent(stdio_client(parameters, errlog=errors), mode)
        try:
            yield agent
        finally:
            agent.close()


def text(result: types.CallToolResult) -> str:
    """What a tool returns, as text."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text
