"""What time is it, and how long did a step take? Timers log only with `--verbose`."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

logger = logging.getLogger(__name__)


def timestamp(seconds_from_now: float = 0.0) -> str:
    """A time as annai writes it: ISO 8601 in UTC to the millisecond, so that strings sort as times do."""
    return (datetime.now(UTC) + timedelta(seconds=seconds_from_now)).isoformat(timespec="milliseconds")


@contextmanager
def timer(label: str, detail: str = "") -> Iterator[None]:
    """Log how long the block took, as `[TIMER] label: 1.2ms (detail)`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _log(label, time.perf_counter() - start, detail)


_loads: list[float] = []


@contextmanager
def loading() -> Iterator[None]:
    """Count the block's time as time that this process takes to load models."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _loads.append(time.perf_counter() - start)


def seconds_loading() -> float:
    """How long this process has been loading models, all of them together."""
    return sum(_loads)


class Stopwatch:
    """Adds up the time of steps that alternate, such as reading and embedding file after file."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, label: str, detail: str) -> Iterator[None]:
        """Log the block's time, and count it under the label."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(label, time.perf_counter() - start, detail)

    def add(self, label: str, seconds: float, detail: str) -> None:
        """Log the time of a step that was measured elsewhere, and count it under the label."""
        self._seconds[label] = self._seconds.get(label, 0.0) + seconds
        _log(f"  {label}", seconds, detail)

    def report(self) -> None:
        """Log every label's total, in the order in which the labels first came, and start over."""
        for label, seconds in self._seconds.items():
            _log(label, seconds, "")
        self._seconds.clear()


def _log(label: str, seconds: float, detail: str) -> None:
    logger.debug("[TIMER] %s: %.1fms%s", label, seconds * 1000, f" ({detail})" if detail else "")
