"""How much may one client ask? A bucket of requests for each, which fills again as time passes, and so many bytes."""

import math
import threading
import time
from collections import OrderedDict

MAX_CLIENTS = 10_000
"""Buckets that are remembered; the one used longest ago is dropped for a new one, and starts full if it comes again."""


class Limiter:
    """Counts the requests of clients, in one thread."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()
        """For each client, what was left in its bucket and when."""

    def wait_for(self, client: object, cost: int = 1) -> int:
        """Take this many requests out of a client's bucket; if it holds too few, the seconds until it will, else 0."""
        if not self._per_second:
            return 0
        now = time.monotonic()
        left, since = self._buckets.get(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_second)
        # What never fits may come when the bucket is full.
        needed = min(cost, self._burst)
        if left >= needed:
            left -= needed
            missing = 0.0
        else:
            missing = needed - left
        self._buckets[client] = left, now
        self._buckets.move_to_end(client)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return math.ceil(missing / self._per_second)


class AnswerBudget:
    """How many bytes the answers to one message may have together. Several threads may take from it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Whether an answer of this size fits in what is left; then it is taken."""
        with self._lock:
            fits = size <= self._left
            self._left -= size if fits else 0
            return fits
