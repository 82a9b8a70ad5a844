"""How is a server used, and how does it stand? Counted as it goes, and told as Prometheus reads it.

What counts is a handful of numbers; the library that writes them down is loaded when somebody first asks.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from annai import __version__
from annai.engine import Engine
from annai.errors import AnnaiError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds."""

PATHS = frozenset({"/", "/rpc", "/mcp", "/events", "/image", "/session", "/health", "/ready", "/metrics"})
"""What requests are counted by; everything else is `other`, so that nobody can make up names without end."""


class Histogram:
    """How often something took how long. Several threads may add to it at once."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def add(self, seconds: float) -> None:
        """Count one."""
        with self._lock:
            self._counts[bisect_left(BUCKETS, seconds)] += 1
            self._sum += seconds

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """How many took at most so long, and all of it together."""
        with self._lock:
            counts, total = [*self._counts], self._sum
        bounds = [*(f"{each:g}" for each in BUCKETS), "+Inf"]
        return [(bound, float(sum(counts[: place + 1]))) for place, bound in enumerate(bounds)], total


class Metrics:
    """What a server counts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.searches = Histogram()
        self.requests = Histogram()
        self._answered: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[str] = Counter()
        self._registry: CollectorRegistry | None = None

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered; only the server's own thread calls it."""
        self._answered[path if path in PATHS else "other", str(status)] += 1
        self.requests.add(seconds)

    def count_refusal(self, reason: str) -> None:
        """Count a request that was turned away before it was read; only the server's own thread calls it."""
        self._refused[reason] += 1

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        if self._registry is None:
            self._registry = CollectorRegistry()
            self._registry.register(self)
            ProcessCollector(registry=self._registry)
        return generate_latest(self._registry)

    def describe(self) -> "list[Metric]":
        """Nothing: so that registering does not count."""
        return []

    def collect(self) -> "Iterator[Metric]":
        """The metrics as they are now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        info = GaugeMetricFamily("annai_info", "The version that serves.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        for name, text, histogram in (
            ("annai_search_duration_seconds", "Searches, by whichever way they came.", self.searches),
            ("annai_request_duration_seconds", "HTTP requests, up to the end of the answer.", self.requests),
        ):
            buckets, total = histogram.read()
            family = HistogramMetricFamily(name, text)
            family.add_metric([], buckets=buckets, sum_value=total)
            yield family
        answered = CounterMetricFamily("annai_requests", "HTTP requests that were answered.", labels=["path", "status"])
        for (path, status), count in [*self._answered.items()]:
            answered.add_metric([path, status], count)
        yield answered
        refused = CounterMetricFamily("annai_refused_requests", "HTTP requests turned away.", labels=["reason"])
        for reason, count in [*self._refused.items()]:
            refused.add_metric([reason], count)
        yield refused
        yield from self._index()

    def _index(self) -> "Iterator[Metric]":
        """What the index holds; nothing while it cannot be read, but for that."""
        from prometheus_client.core import GaugeMetricFamily

        queue = GaugeMetricFamily("annai_queue_files", "Files in the queue.", labels=["status"])
        documents = GaugeMetricFamily("annai_documents", "Documents in the index.", labels=["collection"])
        sections = GaugeMetricFamily("annai_sections", "Sections in the index.", labels=["collection"])
        size = GaugeMetricFamily("annai_index_bytes", "Size of the index on disk.")
        is_readable = 1
        try:
            store = self._engine.store
            for status, count in store.requests.counts().items():
                queue.add_metric([status], count)
            for each in store.collections():
                statistics = store.statistics(each.name)
                documents.add_metric([each.name], statistics.documents)
                sections.add_metric([each.name], statistics.sections)
            size.add_metric([], store.size_on_disk())
        except AnnaiError:
            is_readable = 0
        yield from (queue, documents, sections, size)
        yield GaugeMetricFamily("annai_index_up", "Whether the index can be read.", value=is_readable)
