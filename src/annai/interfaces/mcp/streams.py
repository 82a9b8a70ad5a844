"""What reaches the client's ear? Only the protocol: whatever else is printed goes to standard error."""

import os
import select
import sys
from contextlib import suppress
from typing import BinaryIO


def claim_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Keep standard input and output for the protocol, from now on and for good.

    Everything else that writes to standard output, in this process or in one that it starts, writes to standard error
    from here on; whoever reads standard input finds its end.
    """
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        # The client has closed standard error.
        os.dup2(nothing, 1)
    os.close(nothing)
    for descriptor in (incoming, outgoing):
        # Some programs hand over pipes that do not wait; on Windows there is no way to tell.
        with suppress(OSError, AttributeError):
            os.set_blocking(descriptor, True)
    return os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb", buffering=0)


def has_reader(stream: BinaryIO) -> bool:
    """Whether anybody can still read what is written to a pipe; where that cannot be known, somebody can."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(stream, 0)
    return not any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))
