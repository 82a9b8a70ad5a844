"""Does a person see how far indexing is? A bar that moves with every file, and one line at its end."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from annai.engine import Engine
from annai.interfaces.cli.progress import progress_bar
from annai.project import Done
from annai.types import ImportSummary
from tests.conftest import Annai, state_of
from tests.loopback import eventually

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


def test_where_there_is_no_terminal_a_line_says_what_begins(annai: Annai, folder: Path) -> None:
    done = annai("search", "apple", "--json")
    begun, ended = done.stderr.splitlines()
    assert begun == "annai: indexing 120 files"
    assert re.fullmatch(r"indexed 120 files \(2\.\d kB, 120 passages\) in \d+\.\d s", ended)
    assert len(json.loads(done.stdout)["results"]) == 5
    (folder / "0.md").write_text("# 0\n\napple cherry\n")
    assert annai("search", "apple").stderr == ""
    shutil.rmtree(state_of(folder))
    assert annai("--quiet", "search", "apple").stderr == ""


def test_where_there_is_no_terminal_lines_tell_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("annai.interfaces.cli.progress.LINE_SECONDS", 0.01)
    shown = ""

    def says(line: str) -> bool:
        nonlocal shown
        shown += capsys.readouterr().err
        return line in shown

    with progress_bar("Indexing") as progress:
        progress(Done(0, 200))
        eventually(lambda: says("annai: indexing: 0 of 200 files done\n"))
        progress(Done(150, 200, 3_000, 150))
        eventually(lambda: says("annai: indexing: 150 of 200 files done\n"))
        progress(Done(200, 200, 4_000, 200))
    assert says("indexed 200 files (4.0 kB, 200 passages) in ")
    assert shown.startswith("annai: indexing 200 files\n")


def test_a_file_that_others_queue_while_it_is_indexed_counts_once(engine: Engine, folder: Path) -> None:
    with Engine(engine.config) as other:

        def ask(done: Done) -> None:
            if done.files == FILES // 2:
                other.queue_changes("root")

        assert engine.rebuild(progress=ask) == ImportSummary(
            added=FILES, size=sum(file.stat().st_size for file in folder.glob("*.md")), passages=FILES
        )
        assert [each.error for each in engine.requests("skipped", limit=1000)].count("nothing has changed") == FILES
        assert engine.rebuild(force=True, progress=ask).counts == engine.rebuild(force=True).counts


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
