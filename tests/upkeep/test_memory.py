"""Does a process that stays give memory back?"""

import platform

import psutil
import pytest

from annai.upkeep import memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not asked")
def test_what_was_freed_goes_back_to_the_system() -> None:
    process = psutil.Process()
    blocks = [bytes(2_000) for _ in range(20_000)]
    kept = blocks[::1_000]  # so that the heap cannot shrink from its end
    blocks.clear()
    before = process.memory_info().rss
    memory.give_back()
    assert process.memory_info().rss < before - 20_000_000
    assert kept


def test_elsewhere_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_c_function", lambda _: None)
    memory.share_one_heap()
    memory.give_back()
