"""How does an agent's program talk to its own annai? One JSON message a line, until it leaves or tells us to end."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import BinaryIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage

from annai.interfaces.mcp.access import Access
from annai.interfaces.mcp.server import ProjectServer
from annai.interfaces.mcp.streams import has_reader

logger = logging.getLogger(__name__)

LONGEST_MESSAGE = 16_000_000
"""Bytes of one line; the longest argument that makes sense is a thousandth of it."""

LAST_ANSWERS_SECONDS = 10.0
"""How long what was asked may still be answered once the input has ended, while somebody is there to read it."""

LAST_LOOK_SECONDS = 0.05
"""How often to look meanwhile."""

LAST_STEPS_SECONDS = 1.5
"""How long the document at hand may take at the end: clients wait two seconds and then kill. Whatever is cut off is
taken up again by the next run."""

Sender = MemoryObjectSendStream[SessionMessage | Exception]
Receiver = MemoryObjectReceiveStream[SessionMessage]


def serve(access: Access, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Serve one client; the process ends with it."""
    try:
        asyncio.run(_serve(access, incoming, outgoing))
    finally:
        closing = threading.Thread(target=access.close, daemon=True)
        closing.start()
        closing.join(LAST_STEPS_SECONDS)
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        # Threads that wait for a slow embedder or a client that does not read must not keep the process.
        os._exit(0)


async def _serve(access: Access, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    server = ProjectServer(access)
    wire = _Wire(incoming, outgoing)
    sender, receiver = anyio.create_memory_object_stream[SessionMessage | Exception]()
    answers, answered = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as group:
        with _ending(group.cancel_scope):
            group.start_soon(wire.write, answered, group.cancel_scope)
            wire.start_reading(sender, answers)
            async with server.lifespan(server) as living:
                await serve_dual_era_loop(server, receiver, answers, lifespan_state=living)
        group.cancel_scope.cancel()
    server.close()


@contextmanager
def _ending(scope: anyio.CancelScope) -> Iterator[None]:
    """Let the signals that end a process end this one in order."""
    loop = asyncio.get_running_loop()
    known = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {each: signal.signal(each, lambda *_: loop.call_soon_threadsafe(scope.cancel)) for each in known}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _Wire:
    """The two streams, and which requests are still to be answered."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._open: set[types.RequestId] = set()

    def start_reading(self, sender: Sender, answers: MemoryObjectSendStream[SessionMessage]) -> None:
        """Read in a thread that nobody waits for: no signal interrupts it while it waits for the client."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            # When the loop has ended, nobody is left to read for.
            with suppress(RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError, asyncio.CancelledError):
                while line := self._incoming.readline(LONGEST_MESSAGE):
                    asyncio.run_coroutine_threadsafe(self._take(line, sender, answers), loop).result()
                asyncio.run_coroutine_threadsafe(self._last(sender), loop).result()

        threading.Thread(target=read, name="mcp-input", daemon=True).start()

    async def _take(self, line: bytes, sender: Sender, answers: MemoryObjectSendStream[SessionMessage]) -> None:
        if not line.strip():
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            logger.warning("a line that is no message was refused")
            error = types.ErrorData(code=types.PARSE_ERROR, message="This line is not a JSON-RPC message.")
            await answers.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error)))
            return
        if isinstance(message, types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._open.add(message.id)
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # What was taken back is never answered.
            self._open.discard((message.params or {}).get("requestId", ""))
        await sender.send(SessionMessage(message))

    async def _last(self, sender: Sender) -> None:
        """The input has ended: what was asked is answered, if there is somebody to read it, and then all ends."""
        with anyio.move_on_after(LAST_ANSWERS_SECONDS):
            while self._open and has_reader(self._outgoing):
                await anyio.sleep(LAST_LOOK_SECONDS)
        await sender.aclose()

    async def write(self, answered: Receiver, scope: anyio.CancelScope) -> None:
        """Write what is sent, one line each, in a thread: a client that does not read holds up nothing else."""
        loop, writer = asyncio.get_running_loop(), ThreadPoolExecutor(1, "mcp-output")
        async with answered:
            async for session_message in answered:
                message = session_message.message
                line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                try:
                    await loop.run_in_executor(writer, _write_whole, self._outgoing, line)
                except OSError:
                    logger.info("the client is gone")
                    scope.cancel()
                    return
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
                    self._open.discard(message.id)


def _write_whole(stream: BinaryIO, line: bytes) -> None:
    """A pipe takes what it has room for."""
    left = memoryview(line)
    while left:
        left = left[stream.write(left) :]
