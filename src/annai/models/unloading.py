"""How long does a model stay in memory? It is loaded on first use and unloaded when it is idle."""

import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import psutil

from annai.settings import Model
from annai.timer import loading

logger = logging.getLogger(__name__)

LOW_MEMORY_IDLE_SECONDS = 5.0
"""How long a model may be idle while memory is low: not less, or an import would load it again for every batch."""

CHECK_SECONDS = 5.0
"""How often to check; more often if `auto_unload_minutes` is shorter than twice this."""

T = TypeVar("T")


class AutoUnloaded(Generic[T]):
    """Something large that is loaded on first use and unloaded when it is idle.

    It is unloaded after `auto_unload_minutes` without use, or after a few seconds while more than `memory_threshold`
    of the machine's memory is in use, but never during a use. Several threads may use it at once.
    """

    def __init__(
        self,
        load: Callable[[], T],
        settings: Model,
        *,
        on_unload: Callable[[], None] = lambda: None,
        memory_share: Callable[[], float] = lambda: psutil.virtual_memory().percent / 100,
    ) -> None:
        self._load = load
        self._settings = settings
        self._on_unload = on_unload
        self._memory_share = memory_share
        self._lock = threading.Lock()
        self._value: T | None = None
        self._users = 0
        self._idle_since = 0.0
        self._stop = threading.Event()

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory."""
        return self._value is not None

    @contextlib.contextmanager
    def use(self) -> Iterator[T]:
        """Use it within the block; it is loaded first if necessary."""
        with self._lock:
            if self._value is None:
                with loading():
                    self._value = self._load()
                self._start_checks()
            self._users += 1
            value = self._value
        try:
            yield value
        finally:
            with self._lock:
                self._users -= 1
                self._idle_since = time.monotonic()

    def unload(self) -> None:
        """Free the memory, unless it is in use."""
        with self._lock:
            if self._users or self._value is None:
                return
            self._value = None
            self._stop.set()
        gc.collect()
        self._on_unload()

    def unload_if_idle(self, now: float) -> None:
        """Unload it if it has been idle for long enough."""
        idle = now - self._idle_since
        minutes = self._settings.auto_unload_minutes
        is_memory_low = self._memory_share() > self._settings.memory_threshold
        if (minutes and idle >= minutes * 60) or (is_memory_low and idle >= LOW_MEMORY_IDLE_SECONDS):
            logger.debug("[model] unloaded after %.0f idle seconds", idle)
            self.unload()

    def _start_checks(self) -> None:
        """Check from a thread that ends when the model is unloaded."""
        self._stop = stop = threading.Event()
        self._idle_since = time.monotonic()
        minutes = self._settings.auto_unload_minutes
        pause = min(CHECK_SECONDS, minutes * 60 / 2) if minutes else CHECK_SECONDS

        def check() -> None:
            while not stop.wait(pause):
                self.unload_if_idle(time.monotonic())

        threading.Thread(target=check, name="annai-model", daemon=True).start()
