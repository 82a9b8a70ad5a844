"""Does whoever asks learn of every change that was made before? On Linux, with real folders."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("only Linux has it", allow_module_level=True)

from annai.files.inotify import Inotify


@pytest.fixture
def watched(docs: Path) -> Iterator[Inotify]:
    """`docs` and a folder in it, watched as parts of a collection."""
    (docs / "sub").mkdir()
    inotify = Inotify()
    inotify.add("notes", "", str(docs))
    inotify.add("notes", "sub/", str(docs / "sub"))
    yield inotify
    inotify.close()


def test_what_was_written_is_known_when_the_call_that_wrote_it_has_returned(watched: Inotify, docs: Path) -> None:
    for number in range(300):
        (docs / "sub" / f"{number}.md").write_text("apple")
        assert watched.changes() == {"notes": {f"sub/{number}.md"}}
        assert watched.changes() == {}
    (docs / "sub" / "0.md").unlink()
    assert watched.changes() == {"notes": {"sub/0.md"}}
    (docs / "sub" / "ペン".encode().decode()).mkdir()
    assert watched.changes() == {"notes": {"sub/ペン"}}


def test_where_more_changed_than_the_system_remembers_everything_is_to_be_compared(
    watched: Inotify, docs: Path
) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip("this system remembers too much")
    with (docs / "a.md").open("a") as one, (docs / "b.md").open("a") as other:
        for _ in range(most):
            # By turns: the same change twice in a row is remembered once.
            for stream in (one, other):
                stream.write("x")
                stream.flush()
    (docs / "sub" / "missed.md").write_text("apple")
    assert "" in watched.changes()["notes"]
    assert watched.changes() == {}


def test_a_folder_that_moved_is_known_by_its_new_path(watched: Inotify, docs: Path) -> None:
    (docs / "sub").rename(docs / "new")
    assert watched.changes() == {"notes": {"sub", "new"}}
    # As the comparison does that follows.
    watched.add("notes", "new/", str(docs / "new"))
    (docs / "new" / "a.md").write_text("apple")
    assert watched.changes() == {"notes": {"new/a.md"}}
    (docs / "new").rename(docs.parent / "outside")
    assert watched.changes() == {"notes": {"new"}}
    (docs.parent / "outside" / "b.md").write_text("apple")
    assert watched.changes() == {}


def test_the_patterns_of_an_ignore_file_concern_its_folder_and_git_and_our_state_nobody(
    watched: Inotify, docs: Path
) -> None:
    (docs / "sub" / ".gitignore").write_text("*.md")
    assert watched.changes() == {"notes": {"sub"}}
    (docs / ".gitignore").write_text("*.md")
    assert watched.changes() == {"notes": {""}}
    (docs / ".git").mkdir()
    assert watched.changes() == {}


def test_a_file_system_that_others_change_is_not_relied_on(watched: Inotify) -> None:
    assert not watched.shared
    watched.add("kernel", "", "/proc/self")
    assert watched.shared == {"kernel"}


def test_a_folder_that_is_gone_is_let_be(watched: Inotify, docs: Path) -> None:
    (docs / "sub").rmdir()
    watched.add("notes", "sub/", str(docs / "sub"))
    assert watched.changes() == {"notes": {"sub"}}
