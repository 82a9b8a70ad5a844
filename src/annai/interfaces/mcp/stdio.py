"""How does an agent's program talk to its own annai? One JSON message per line, until it leaves or ends us."""

import asyncio
import logging
import os
import signal
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
from annai.interfaces.mcp.streams import flush_errors, has_reader
from annai.serving.wire import from_json, mend_json

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 16_000_000
"""Bytes of one line: a thousand times the longest argument that makes sense."""

DRAIN_SECONDS = 10.0
"""How long open requests may still be answered after the input has ended, while somebody can read the answers."""

DRAIN_POLL_SECONDS = 0.05
"""How often to check that meanwhile."""

CLOSE_SECONDS = 1.5
"""How long the current document may take at the end: clients wait two seconds and then kill. The next run continues
whatever is interrupted."""

RequestSender = MemoryObjectSendStream[SessionMessage | Exception]
AnswerSender = MemoryObjectSendStream[SessionMessage]
AnswerReceiver = MemoryObjectReceiveStream[SessionMessage]


def serve(access: Access, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Serve one client, then end the process."""
    try:
        asyncio.run(_serve(access, incoming, outgoing))
    finally:
        closing = threading.Thread(target=access.close, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        flush_errors()
        # Threads that wait for a slow embedder or for a client that does not read must not keep the process alive.
        os._exit(0)


async def _serve(access: Access, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    server = ProjectServer(access)
    connection = _Connection(incoming, outgoing)
    request_sender, request_receiver = anyio.create_memory_object_stream[SessionMessage | Exception]()
    answer_sender, answer_receiver = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as group:
        with _cancel_on_signals(group.cancel_scope):
            group.start_soon(connection.write, answer_receiver, group.cancel_scope)
            connection.start_reading(request_sender, answer_sender)
            async with server.lifespan(server) as state:
                await serve_dual_era_loop(server, request_receiver, answer_sender, lifespan_state=state)
        group.cancel_scope.cancel()
    server.close()


@contextmanager
def _cancel_on_signals(scope: anyio.CancelScope) -> Iterator[None]:
    """Let the signals that end a process cancel the scope, so that this one ends cleanly."""
    loop = asyncio.get_running_loop()
    signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {each: signal.signal(each, lambda *_: loop.call_soon_threadsafe(scope.cancel)) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _Connection:
    """The two streams, and the requests that are still unanswered."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._unanswered: set[types.RequestId] = set()

    def start_reading(self, requests: RequestSender, answers: AnswerSender) -> None:
        """Read in a daemon thread: while it waits for the client, no signal could interrupt it."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            # These errors mean that the loop has ended: there is nobody left to read for.
            with suppress(RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError, asyncio.CancelledError):
                while line := self._incoming.readline(MAX_MESSAGE_BYTES):
                    asyncio.run_coroutine_threadsafe(self._receive(line, requests, answers), loop).result()
                asyncio.run_coroutine_threadsafe(self._finish(requests), loop).result()

        threading.Thread(target=read, name="mcp-input", daemon=True).start()

    async def _receive(self, line: bytes, requests: RequestSender, answers: AnswerSender) -> None:
        if not line.strip():
            return
        try:
            message = _parse(line)
        except ValueError:
            logger.warning("refused a line that is not a JSON-RPC message")
            number = _id_of(line)
            code = types.PARSE_ERROR if number is None else types.INVALID_REQUEST
            error = types.ErrorData(code=code, message="This line is not a JSON-RPC message.")
            await answers.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error)))
            return
        if isinstance(message, types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._unanswered.add(message.id)
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # A cancelled request is never answered.
            self._unanswered.discard((message.params or {}).get("requestId", ""))
        await requests.send(SessionMessage(message))

    async def _finish(self, requests: RequestSender) -> None:
        """End after the input has ended and every request is answered, as long as somebody can read the answers."""
        with anyio.move_on_after(DRAIN_SECONDS):
            while self._unanswered and has_reader(self._outgoing):
                await anyio.sleep(DRAIN_POLL_SECONDS)
        await requests.aclose()

    async def write(self, answers: AnswerReceiver, scope: anyio.CancelScope) -> None:
        """Write the messages, one per line, in a thread: a client that does not read must not block anything else."""
        loop, writer = asyncio.get_running_loop(), ThreadPoolExecutor(1, "mcp-output")
        async with answers:
            async for session_message in answers:
                message = session_message.message
                line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                try:
                    await loop.run_in_executor(writer, _write_all, self._outgoing, line)
                except OSError:
                    logger.info("the client has left")
                    scope.cancel()
                    return
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
                    self._unanswered.discard(message.id)


def _parse(line: bytes) -> types.JSONRPCMessage:
    """The message of a line, also of one that holds what is no text. Raises `ValueError` for what is no message."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return types.jsonrpc_message_adapter.validate_json(mend_json(line), by_name=False)


def _id_of(line: bytes) -> types.RequestId | None:
    """The id of what is not a message, if it has one."""
    try:
        value = from_json(mend_json(line))
    except ValueError:
        return None
    number = value.get("id") if isinstance(value, dict) else None
    return number if isinstance(number, str | int) and not isinstance(number, bool) else None


def _write_all(stream: BinaryIO, line: bytes) -> None:
    """Write a line in several steps if the pipe has no room for all of it."""
    remaining = memoryview(line)
    while remaining:
        remaining = remaining[stream.write(remaining) :]
