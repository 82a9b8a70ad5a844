"""How does annai start a process of its own? Without the folder it works in, and it ends when its parent does."""

import contextlib
import os
import struct
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from queue import SimpleQueue
    from subprocess import Popen

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Several processes that each start a thread for every core would wait for each other."""

NICENESS = 5
"""How far the priority of indexing beside a server is lowered: people wait for a search, not for the index."""

_LENGTH = struct.Struct("<Q")


def start(module: str, *, is_read: bool = True) -> "Popen[bytes]":
    """Start a process that runs `main` of a module, with a pipe to its standard input and, if it is read, its output.

    Not by `multiprocessing`, which would run the caller's own script again. The current folder is not where Python
    looks for modules, since it may be anybody's; and Ctrl-C reaches the parent alone, which ends its children.
    """
    import subprocess  # most searches index nothing

    package = str(Path(__file__).parents[2])
    code = f"import sys; sys.path.append({package!r}); from {module} import main; main()"
    return subprocess.Popen(  # noqa: S603 - annai itself
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if is_read else subprocess.DEVNULL,
        env=os.environ | ONE_THREAD,
        start_new_session=True,
    )


def end(process: "Popen[bytes]") -> None:
    """End a child at once, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe:
                pipe.close()


def send(pipe: IO[bytes], data: bytes) -> None:
    """Write one message to the other side."""
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Wait for the next message. Raises `EOFError` once the other side has ended."""
    (length,) = _LENGTH.unpack(_read(pipe, _LENGTH.size))
    return _read(pipe, length)


def claim_output() -> BinaryIO:
    """In the process: the pipe to the parent, for messages alone; what anything prints goes to standard error."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


def first_message() -> bytes:
    """In the process: what its parent wants of it; if that has ended before it could say so, this one ends too."""
    try:
        return receive(sys.stdin.buffer)
    except EOFError:
        sys.exit(0)


def incoming() -> "SimpleQueue[bytes]":
    """In the process: the parent's messages as they come; once it has ended or wants nothing more, so does this one."""
    import queue
    import threading

    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(OSError, EOFError, ValueError):
            while True:
                messages.put(receive(sys.stdin.buffer))
        # Nobody waits for what is being done.
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return messages


def offer_to_be_killed() -> None:
    """Let the system kill this process before others when there is no memory left."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _read(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data
