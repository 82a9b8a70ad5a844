"""How does a process that stays keep its memory small? By what it tells the C library, where that is glibc."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache

_M_ARENA_MAX = -8
"""glibc's number for how many heaps there may be."""


def share_one_heap() -> None:
    """Let all threads take memory from one heap.

    Otherwise each thread gets its own and keeps what it freed: threads that search in turn would each hold the most
    that a search ever needs.
    """
    if mallopt := _c_function("mallopt"):
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Give the system what was freed, which glibc would keep for later; it takes a millisecond."""
    if malloc_trim := _c_function("malloc_trim"):
        malloc_trim(0)


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    """A function of the C library, if it has it."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
