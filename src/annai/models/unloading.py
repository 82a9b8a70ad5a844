"""How long does a model stay in memory? It is loaded when it is first used, and let go when it is idle."""

import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import psutil

from annai.settings import Model

logger = logging.getLogger(__name__)

PRESSED_IDLE_SECONDS = 5.0
"""How long a model may be idle while memory is short: not less, or an import would load it again with every batch."""

CHECK_SECONDS = 5.0
"""How often to look; oftener where models are let go sooner."""

T = TypeVar("T")


class AutoUnloaded(Generic[T]):
    """Something that takes much memory, loaded on first use and let go when that is wise.

    It is let go when it was idle for `auto_unload_minutes`, and already after some seconds when more than
    `memory_threshold` of the machine's memory is in use; never while it is used. Several threads may use it at once.
    """

    def __init__(
        self,
        load: Callable[[], T],
        settings: Model,
        *,
        freed: Callable[[], None] = lambda: None,
        memory: Callable[[], float] = lambda: psutil.virtual_memory().percent / 100,
    ) -> None:
        self._load = load
        self._settings = settings
        self._freed = freed
        self._memory = memory
        self._lock = threading.Lock()
        self._value: T | None = None
        self._users = 0
        self._idle_since = 0.0
        self._stop = threading.Event()

    @property
    def loaded(self) -> bool:
        """Whether it is in memory."""
        return self._value is not None

    @contextlib.contextmanager
    def use(self) -> Iterator[T]:
        """Have it within the block, loaded if need be."""
        with self._lock:
            if self._value is None:
                self._value = self._load()
                self._watch()
            self._users += 1
            value = self._value
        try:
            yield value
        finally:
            with self._lock:
                self._users -= 1
                self._idle_since = time.monotonic()

    def release(self) -> None:
        """Free the memory, unless it is in use."""
        with self._lock:
            if self._users or self._value is None:
                return
            self._value = None
            self._stop.set()
        gc.collect()
        self._freed()

    def check(self, now: float) -> None:
        """Let it go if it was idle for long enough."""
        idle = now - self._idle_since
        minutes = self._settings.auto_unload_minutes
        pressed = self._memory() > self._settings.memory_threshold
        if (minutes and idle >= minutes * 60) or (pressed and idle >= PRESSED_IDLE_SECONDS):
            logger.debug("[model] let go after %.0f idle seconds", idle)
            self.release()

    def _watch(self) -> None:
        """Look after it from a thread that ends when it is let go."""
        self._stop = stop = threading.Event()
        self._idle_since = time.monotonic()
        minutes = self._settings.auto_unload_minutes
        pause = min(CHECK_SECONDS, minutes * 60 / 2) if minutes else CHECK_SECONDS

        def watch() -> None:
            while not stop.wait(pause):
                self.check(time.monotonic())

        threading.Thread(target=watch, name="annai-model", daemon=True).start()
