"""How do the standard streams serve the protocol? What else is printed goes to standard error, which never blocks."""

import os
import queue
import select
import sys
import threading
from contextlib import suppress
from typing import BinaryIO

from annai.errors import ServerError

MAX_UNREAD_CHUNKS, CHUNK_BYTES = 1_000, 4_096
"""How much of standard error waits for a client that does not read it; what comes after is lost."""

FLUSH_SECONDS = 0.5
"""How long the end waits for a client to read what was printed."""

_writers: list[threading.Thread] = []
"""The thread that writes to the client's standard error, once there is one."""


def claim_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Reserve standard input and output for the protocol until the process ends.

    From now on everything else that writes to standard output, in this process or in one that it starts, writes to
    standard error, and everything else that reads standard input finds its end.
    """
    if sys.stdin is None or sys.stdout is None:
        raise ServerError("An agent talks to `annai mcp` over standard input and output, and one of them is closed.")
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.fstat(2)
    except OSError:
        # The client has closed standard error; without this the next file opened would take its place.
        os.dup2(null, 2)
    incoming, outgoing = os.dup(0), os.dup(1)
    os.dup2(null, 0)
    _relay_errors()
    os.dup2(2, 1)
    if null > 2:
        os.close(null)
    for descriptor in (incoming, outgoing):
        # Some programs pass non-blocking pipes.
        if sys.platform != "win32":
            with suppress(OSError):
                os.set_blocking(descriptor, True)
    return os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb", buffering=0)


def flush_errors() -> None:
    """Write what was printed to standard error, as far as the client reads it; for the end of the process."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    for writer in _writers:
        writer.join(FLUSH_SECONDS)


def has_reader(stream: BinaryIO) -> bool:
    """Whether anybody can still read what is written to a pipe; true where that cannot be known."""
    if sys.platform == "win32":
        return True
    poll = select.poll()
    poll.register(stream, 0)
    return not any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))


def _relay_errors() -> None:
    """Put a pipe in the place of standard error that is always read, whether or not the client reads the real one.

    A client that never does would otherwise block whatever logs, as soon as its pipe is full: this process, those that
    it starts, and code that is not Python's.
    """
    real = os.dup(2)
    outlet, inlet = os.pipe()
    os.dup2(inlet, 2)
    os.close(inlet)

    unwritten: queue.Queue[bytes] = queue.Queue(MAX_UNREAD_CHUNKS)

    def collect() -> None:
        while chunk := os.read(outlet, CHUNK_BYTES):
            with suppress(queue.Full):
                unwritten.put_nowait(chunk)
        unwritten.put(b"")

    def write() -> None:
        while chunk := unwritten.get():
            with suppress(OSError):
                while chunk:
                    chunk = chunk[os.write(real, chunk) :]

    threading.Thread(target=collect, name="mcp-errors", daemon=True).start()
    writer = threading.Thread(target=write, name="mcp-errors-writer", daemon=True)
    writer.start()
    _writers.append(writer)
