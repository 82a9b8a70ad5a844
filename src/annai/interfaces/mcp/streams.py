"""How do standard input and output stay clean for the protocol? Whatever else is printed goes to standard error."""

import os
import select
import sys
from contextlib import suppress
from typing import BinaryIO

from annai.errors import ServerError


def claim_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Reserve standard input and output for the protocol until the process ends.

    From now on everything else that writes to standard output, in this process or in one that it starts, writes to
    standard error, and everything else that reads standard input finds its end.
    """
    if sys.stdin is None or sys.stdout is None:
        raise ServerError("An agent talks to `annai mcp` over standard input and output, and one of them is closed.")
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        # The client has closed standard error.
        os.dup2(null, 1)
    os.close(null)
    for descriptor in (incoming, outgoing):
        # Some programs pass non-blocking pipes; not every system lets us change that.
        with suppress(OSError, AttributeError):
            os.set_blocking(descriptor, True)
    return os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb", buffering=0)


def has_reader(stream: BinaryIO) -> bool:
    """Whether anybody can still read what is written to a pipe; true where that cannot be known."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(stream, 0)
    return not any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))
