"""Does an index survive files that are only out of sight? Many that are gone at once stay until somebody confirms."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from annai.engine import Engine
from annai.errors import FilesGone
from annai.types import ImportMode, ImportSummary
from annai.upkeep.worker import Worker
from tests.conftest import Annai, quick_config
from tests.loopback import eventually

FILES = 60


def fill(folder: Path, files: int = FILES) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        (folder / f"文書{number}.md").write_text(f"# Document {number}\n\nword{number}\n", encoding="utf-8")
    return folder


@pytest.fixture
def share(tmp_path: Path) -> Path:
    """A folder outside of the project, as a disk that is mounted there."""
    return fill(tmp_path / "share")


@pytest.fixture
def project(docs: Path, share: Path) -> Iterator[Engine]:
    with Engine(quick_config(docs)) as engine:
        engine.add_collection("share", share, "All")
        engine.import_collection("share")
        yield engine


def documents(engine: Engine) -> int:
    return engine.status("share").collections[0].statistics.documents


def test_a_folder_that_is_suddenly_empty_stays_indexed_and_the_search_says_so(project: Engine, share: Path) -> None:
    shutil.move(share, share.with_name("away"))
    share.mkdir()
    answer = project.search("word7")
    assert answer[0].path == "文書7.md"
    assert answer[0].index_status == "outdated"
    assert f"{share} is empty, but 60 files of it are indexed" in answer.freshness.problem
    assert "annai import -c share -m update --allow-deletions" in project.status("share").collections[0].note
    modes: tuple[ImportMode, ...] = ("update", "replace")
    for mode in modes:
        with pytest.raises(FilesGone):
            project.import_collection("share", mode)
    assert documents(project) == FILES
    share.rmdir()
    shutil.move(share.with_name("away"), share)
    answer = project.search("word7")
    assert (answer[0].index_status, answer.freshness.problem) == ("latest", "")
    assert project.import_collection("share") == ImportSummary(unchanged=FILES)


def test_thirty_of_sixty_files_that_are_gone_are_confirmed_with_one_word(project: Engine, share: Path) -> None:
    for number in range(30):
        (share / f"文書{number}.md").unlink()
    (share / "new.md").write_text("# New\n\nbrandnew\n")
    answer = project.search("brandnew")
    assert answer[0].path == "new.md"
    assert "30 of 60 files" in answer.freshness.problem
    # Those that are gone are found, and marked; whoever wants only what is certain does not get them.
    assert project.search("word7")[0].is_dirty
    assert project.search("word7", clean_only=True)[0].path != "文書7.md"
    assert len(project.status("share").collections[0].problems) == 30
    assert project.import_collection("share", allow_deletions=True).deleted == 30
    assert documents(project) == 31
    assert not project.search("word40").freshness.problem


def test_files_that_come_back_are_as_they_were(project: Engine, share: Path) -> None:
    """As when git switches to another branch and back."""
    away = share.with_name("away")
    away.mkdir()
    for number in range(30):
        shutil.move(share / f"文書{number}.md", away)
    assert project.search("word7")[0].is_dirty
    for file in away.iterdir():
        shutil.move(file, share)
    answer = project.search("word7")
    assert (answer[0].index_status, answer.freshness.problem) == ("latest", "")
    assert not project.status("share").collections[0].problems


def test_few_deletions_and_files_that_the_settings_exclude_need_no_confirmation(
    docs: Path, project: Engine, share: Path
) -> None:
    for number in range(20):
        (share / f"文書{number}.md").unlink()
    assert project.import_collection("share").deleted == 20
    project.close()
    narrow = dataclasses.replace(quick_config(docs).files, exclude=("文書3*.md",))
    with Engine(dataclasses.replace(quick_config(docs), files=narrow)) as engine:
        assert engine.import_collection("share").deleted == 10
        assert documents(engine) == 30


def test_another_file_system_in_the_place_of_a_folder_is_not_believed(project: Engine, share: Path) -> None:
    stored = next(each for each in project.store.collections() if each.name == "share")
    assert stored.origin
    # As if the folder had been on a disk that is not mounted now.
    project.store.save_collection(dataclasses.replace(stored, origin="1:2"))
    (share / "文書1.md").unlink()
    (share / "stranger.md").write_text("# Stranger\n")
    assert "on another file system" in project.search("word1").freshness.problem
    assert documents(project) == FILES
    assert project.import_collection("share", allow_deletions=True) == ImportSummary(
        added=1, deleted=1, unchanged=FILES - 1
    )
    assert not project.search("word2").freshness.problem
    # Without anything missing it is only another disk with the same files.
    stored = next(each for each in project.store.collections() if each.name == "share")
    project.store.save_collection(dataclasses.replace(stored, origin="1:2"))
    assert not project.search("word2").freshness.problem


def test_a_folder_that_the_user_names_is_believed(project: Engine, tmp_path: Path) -> None:
    project.update_collection("share", source=fill(tmp_path / "other", files=3))
    assert not project.search("word1").freshness.problem
    assert documents(project) == 3


def test_a_watcher_that_sees_files_go_keeps_their_documents(project: Engine, share: Path) -> None:
    with Worker(project):
        eventually(lambda: not project.store.requests.due())
        shutil.rmtree(share)
        share.mkdir()
        (share / "文書1.md").write_text("# Document 1\n\nchanged\n")
        eventually(lambda: bool(project.search("changed", refresh=False, mode="keyword").results))
    assert documents(project) >= FILES - 20


def test_requests_whose_files_vanish_before_they_are_claimed_keep_their_documents(project: Engine, share: Path) -> None:
    for file in share.iterdir():
        file.write_text("# Changed\n")
    project.queue_changes("share")
    for file in share.iterdir():
        if file.name != "文書1.md":
            file.unlink()
    project.process_queue(timeout=0)
    assert documents(project) == FILES
    skipped = project.requests("skipped", "share")
    assert len(skipped) == FILES - 1
    assert "--allow-deletions" in skipped[0].error


def test_the_command_line_asks_and_is_told(annai: Annai, docs: Path) -> None:
    fill(docs)
    annai("import")
    for number in range(40):
        (docs / f"文書{number}.md").unlink()
    refused = annai("import", "-m", "update", code=2).stderr
    assert "40 of 60 files" in refused
    assert "annai import -c root -m update --allow-deletions" in refused
    told = annai("status").stdout
    assert "… and 20 more of root: its file is gone" in told
    assert "deleted 40" in annai("index", "rebuild", "--allow-deletions").stdout
    assert "gone" not in annai("status").stdout
