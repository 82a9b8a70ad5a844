"""What lets a browser in? A ticket for a token, and a key for each image of a document.

A ticket is good for one use, within a minute. `annai open` puts one behind the page's address, which all users of a
machine can read in the list of processes; such a ticket is good only for a browser of the server's own user.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

TICKET_SECONDS = 60.0
MAX_TICKETS = 16
"""Tickets that nobody has used; the oldest is dropped for a new one."""


class _Ticket(NamedTuple):
    expiry: float
    token: str
    own_user: bool


class Keys:
    """The tickets and keys of one server. Several threads may use it at once."""

    def __init__(self) -> None:
        # Not the server's other secret: with that one it answers the challenges of anybody.
        self._secret = secrets.token_bytes(32)
        self._tickets: dict[str, _Ticket] = {}
        self._lock = threading.Lock()

    def issue_ticket(self, token: str, *, own_user: bool = False) -> str:
        """A new ticket for the token of whoever asks: with it a browser may do what they may.

        With `own_user` it is good only for programs of the user whose server it is.
        """
        ticket = secrets.token_urlsafe(24)
        with self._lock:
            while len(self._tickets) >= MAX_TICKETS:
                del self._tickets[next(iter(self._tickets))]
            self._tickets[ticket] = _Ticket(time.monotonic() + TICKET_SECONDS, token, own_user)
        return ticket

    def redeem_ticket(self, ticket: str, is_own_user: Callable[[], bool] = lambda: False) -> str | None:
        """The token of a ticket that is used for the first time and in time; else None.

        A ticket is not used up by somebody for whom it is not good; `is_own_user` is asked only about one that exists.
        """
        with self._lock:
            known = self._tickets.get(ticket)
            if known is None or (known.own_user and not is_own_user()):
                return None
            del self._tickets[ticket]
        return known.token if known.expiry > time.monotonic() else None

    def image_key(self, image: str) -> str:
        """What the address of an image, `COLLECTION:PATH`, needs: nobody else can make it."""
        return hmac.digest(self._secret, image.encode(errors="replace"), "sha256").hex()

    def fits(self, key: str, image: str) -> bool:
        """Whether a key is that of an image."""
        return hmac.compare_digest(key.encode(errors="replace"), self.image_key(image).encode())
