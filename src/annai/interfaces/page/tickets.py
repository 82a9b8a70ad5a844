"""How does a browser get the server's token? For a ticket, which `annai open` puts behind the page's address.

The address is seen by more than the browser (the list of processes, its history), so a ticket is good for one use,
within a minute.
"""

import secrets
import threading
import time

TICKET_SECONDS = 60.0
MAX_TICKETS = 16
"""Tickets that nobody has used; the oldest is dropped for a new one."""


class Tickets:
    """The tickets of one server. Several threads may use it at once."""

    def __init__(self) -> None:
        self._expiry: dict[str, float] = {}
        self._lock = threading.Lock()

    def issue(self) -> str:
        """A new ticket."""
        ticket = secrets.token_urlsafe(24)
        with self._lock:
            while len(self._expiry) >= MAX_TICKETS:
                del self._expiry[next(iter(self._expiry))]
            self._expiry[ticket] = time.monotonic() + TICKET_SECONDS
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Whether this is a ticket, used for the first time and in time."""
        with self._lock:
            return self._expiry.pop(ticket, 0.0) > time.monotonic()
