"""Who may write an index?"""

import shutil
from pathlib import Path

import pytest

from annai.indexing.lock import IndexLock
from tests.conftest import state_of


def test_the_lock_is_taken_though_somebody_deleted_its_folder(tmp_path: Path) -> None:
    lock = IndexLock(state_of(tmp_path) / "index.sqlite.lock")
    for _ in range(2):
        with lock.exclusive() as is_mine:
            assert is_mine
        shutil.rmtree(state_of(tmp_path))


def test_a_project_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    lock = IndexLock(state_of(tmp_path / "project") / "index.sqlite.lock")
    with pytest.raises(FileNotFoundError), lock.exclusive():
        pass
    assert not (tmp_path / "project").exists()
