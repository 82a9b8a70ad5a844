"""What lets a browser in? A ticket for a token, and a key for each image of a document.

`annai open` puts a ticket behind the page's address. An address is seen by more than the browser (the list of
processes, its history), so a ticket is good for one use, within a minute.
"""

import hmac
import secrets
import threading
import time

TICKET_SECONDS = 60.0
MAX_TICKETS = 16
"""Tickets that nobody has used; the oldest is dropped for a new one."""


class Keys:
    """The tickets and keys of one server. Several threads may use it at once."""

    def __init__(self) -> None:
        # Not the server's other secret: with that one it answers the challenges of anybody.
        self._secret = secrets.token_bytes(32)
        self._tickets: dict[str, tuple[float, str]] = {}
        """For each ticket, until when it is good and the token it is for."""
        self._lock = threading.Lock()

    def issue_ticket(self, token: str) -> str:
        """A new ticket for the token of whoever asks: with it a browser may do what they may."""
        ticket = secrets.token_urlsafe(24)
        with self._lock:
            while len(self._tickets) >= MAX_TICKETS:
                del self._tickets[next(iter(self._tickets))]
            self._tickets[ticket] = time.monotonic() + TICKET_SECONDS, token
        return ticket

    def redeem_ticket(self, ticket: str) -> str | None:
        """The token of a ticket that is used for the first time and in time; else None."""
        with self._lock:
            expiry, token = self._tickets.pop(ticket, (0.0, ""))
        return token if expiry > time.monotonic() else None

    def image_key(self, image: str) -> str:
        """What the address of an image, `COLLECTION:PATH`, needs: nobody else can make it."""
        return hmac.digest(self._secret, image.encode(errors="replace"), "sha256").hex()

    def fits(self, key: str, image: str) -> bool:
        """Whether a key is that of an image."""
        return hmac.compare_digest(key.encode(errors="replace"), self.image_key(image).encode())
