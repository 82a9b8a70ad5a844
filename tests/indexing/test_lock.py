"""Who may write an index?"""

import shutil
from functools import partial
from pathlib import Path

import pytest

from annai.config import load_config, make_folders
from annai.indexing.lock import IndexLock
from tests.conftest import state_of


def lock_of(folder: Path) -> IndexLock:
    config = load_config(docs_dir=folder)
    return IndexLock(config.state_folder / "index.sqlite.lock", partial(make_folders, config))


def test_the_lock_is_taken_though_its_folder_was_deleted(docs: Path) -> None:
    lock = lock_of(docs)
    for _ in range(2):
        with lock.exclusive() as is_mine:
            assert is_mine
        shutil.rmtree(state_of(docs))


def test_a_project_that_is_gone_is_not_made_again(docs: Path) -> None:
    lock = lock_of(docs)
    docs.rmdir()
    with pytest.raises(FileNotFoundError), lock.exclusive():
        pass
    assert not docs.exists()
    assert not state_of(docs).exists()
