"""Does a person see how far indexing is? A bar that moves with every file, and one line at its end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from annai.engine import Engine
from annai.project import Done
from tests.conftest import Annai

FILES = 120


@pytest.fixture
def folder(docs: Path) -> Path:
    for number in range(FILES):
        (docs / f"{number}.md").write_text(f"# {number}\n\napple banana\n")
    return docs


def test_every_file_is_told_with_its_bytes_and_passages(folder: Path, engine: Engine) -> None:
    told: list[Done] = []
    engine.refresh(progress=told.append)
    assert [each.files for each in told if each.files < FILES] == [*range(FILES)]
    assert {each.total for each in told} == {FILES}
    size = sum(file.stat().st_size for file in folder.glob("*.md"))
    assert told[-1] == Done(FILES, FILES, size, FILES)


def test_what_a_progress_raises_ends_the_import_and_blames_no_file(engine: Engine, folder: Path) -> None:
    assert folder

    def cancel(done: Done) -> None:
        if done.files > 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.rebuild(progress=cancel)
    assert not any(each.attempts or each.error for each in engine.requests("pending"))
    assert engine.rebuild().failed == 0
    assert len(engine.document_paths("root")) == FILES


def test_an_import_ends_with_one_line(annai: Annai, folder: Path) -> None:
    assert folder
    line = r"indexed 120 files \(2\.\d kB, 120 passages\) in \d+\.\d s: added 120\n"
    assert re.fullmatch(line, annai("import").stdout)
    assert re.fullmatch(r"nothing to index \(\d+\.\d s\): unchanged 120\n", annai("import", "-m", "update").stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="it needs a terminal as Unix has them")
def test_a_first_search_shows_on_a_terminal_what_it_does(annai: Annai, folder: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "annai", "search", "apple", "--format", "files"],
        cwd=folder,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65_536):
                shown += part
        except OSError:
            pass  # How Linux says that nobody writes to a terminal any more.
        assert process.stdout
        assert process.stdout.read().count(b"\n") == 5
    os.close(ours)
    assert process.returncode == 0
    assert annai.folder == folder
    assert re.search(rb"indexed 120 files \(2\.\d kB, 120 passages\) in \d+\.\d s\r\n$", shown)
