"""What does a user see when something is wrong? Bad input, full disks, missing rights, Ctrl-C: one sentence each."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.conftest import Annai, results

Write = Callable[[str, str], Path]


def test_wrong_usage_exits_with_2(annai: Annai) -> None:
    for arguments in (("search",), ("nonsense",), ("search", "x", "--mode", "magic"), ("search", "x", "-n", "0")):
        assert annai(*arguments, code=2).stdout == ""


def test_bad_queries_get_one_sentence(annai: Annai, write: Write) -> None:
    write("a.md", "# A")
    assert annai("search", " 　", code=1).stderr == "annai: The query is empty; ask a question or give some words.\n"
    assert "102,400 characters" in annai("search", "x" * 102_400, code=1).stderr
    assert "There is no collection 'none'" in annai("search", "x", "-c", "none", code=1).stderr
    assert "There is no folder" in annai("search", "x", "--docs-dir", "nowhere", code=1).stderr


def test_a_folder_without_documents_says_what_was_looked_for(annai: Annai) -> None:
    told = annai("search", "x", code=1).stderr
    assert "There are no documents in" in told
    assert "**/*.md" in told


def test_home_and_root_are_refused_unless_named(docs: Path, write: Write) -> None:
    write("a.md", "# A\n\napple")
    home = {"HOME": str(docs)}
    annai = Annai(docs)
    assert "your home folder" in annai("search", "apple", code=1, environment=home).stderr
    assert not (docs / ".annai").exists()
    assert "the whole file system" in Annai(Path("/"))("search", "apple", code=1).stderr
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    assert "your home folder" in annai("search", "apple", code=1, environment=home).stderr
    assert "a.md:1" in annai("search", "apple", "--docs-dir", str(docs), environment=home).stdout
    below = docs / "below"
    below.mkdir()
    (docs / "annai.toml").unlink()
    (below / "b.md").write_text("# B\n\nbanana")
    assert "b.md:1" in Annai(below)("search", "banana", "--mode", "keyword", environment=home).stdout


def test_more_than_five_thousand_files_are_not_indexed_without_a_yes(annai: Annai, write: Write) -> None:
    for number in range(5_001):
        write(f"{number % 50}/{number}.md", f"apple {number}")
    told = annai("search", "apple", code=1).stderr
    assert "5,001 files" in told
    assert "seconds" in told
    assert "--yes" in told
    assert json.loads(annai("search", "4999", "--mode", "keyword", "--yes", "--format", "json").stdout)["total"] == 1
    assert annai("search", "apple").stderr == ""


def test_a_file_that_is_no_index_is_left_alone(annai: Annai, write: Write) -> None:
    write("a.md", "# A")
    index = annai.folder / ".annai" / "index.sqlite"
    index.parent.mkdir()
    index.write_text("This is my diary, not a database, and it is long enough to be read as one.\n" * 20)
    before = index.read_bytes()
    assert "is not an annai index" in annai("search", "x", code=1).stderr
    assert index.read_bytes() == before
    index.unlink()
    connection = apsw.Connection(str(index))
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    assert "is a database, but not an annai index" in annai("search", "x", code=1).stderr


def test_an_index_of_a_newer_version_is_left_alone(annai: Annai, write: Write) -> None:
    write("a.md", "# A")
    annai("search", "x")
    connection = apsw.Connection(str(annai.folder / ".annai" / "index.sqlite"))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert "was written by a newer annai" in annai("search", "x", code=1).stderr


def without_privileges() -> None:
    """As root, file permissions hold only once this capability is gone (PR_CAPBSET_DROP of CAP_DAC_OVERRIDE)."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(24, 1)
        ctypes.CDLL(None).prctl(24, 2)


def run_without_privileges(annai: Annai, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "annai", *arguments],
        cwd=annai.folder,
        preexec_fn=without_privileges,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="permissions are taken away in Linux's way")
def test_a_read_only_folder_is_said_and_an_index_in_one_still_answers(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    annai.folder.chmod(0o555)
    refused = run_without_privileges(annai, "search", "apple")
    annai.folder.chmod(0o755)
    assert refused.returncode == 1
    assert "cannot be written" in refused.stderr
    annai("search", "apple")
    state = annai.folder / ".annai"
    for file in state.iterdir():
        file.chmod(0o444)
    state.chmod(0o555)
    answered = run_without_privileges(annai, "search", "apple", "--format", "files")
    state.chmod(0o755)
    assert answered.stdout == "a.md:1\n"
    assert "may be out of date" in answered.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="permissions are taken away in Linux's way")
def test_an_unreadable_file_fails_alone_and_is_tried_again(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    file = write("b.md", "# B\n\nbanana")
    file.chmod(0)
    assert "failed 1" in run_without_privileges(annai, "import").stdout
    told = json.loads(annai("status", "--format", "json").stdout)
    assert told["collections"][0]["problems"] == [{"path": "b.md", "kind": "failed", "reason": "permission denied"}]
    file.chmod(0o644)
    assert [row["path"] for row in results(annai, "banana", "--mode", "keyword")] == ["b.md"]


def test_ctrl_c_ends_an_import_with_a_word_and_keeps_what_was_done(annai: Annai, write: Write) -> None:
    for number in range(3_000):
        write(f"{number}.md", f"# {number}\n\n" + "apple banana cherry " * 100)
    process = subprocess.Popen(
        [sys.executable, "-m", "annai", "import"], cwd=annai.folder, stderr=subprocess.PIPE, text=True
    )
    index = annai.folder / ".annai" / "index.sqlite-wal"
    deadline = time.monotonic() + 60
    while not (index.exists() and index.stat().st_size > 3_000_000) and time.monotonic() < deadline:
        assert process.poll() is None, "the import ended before it could be interrupted"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.strip() == "annai: interrupted; what was indexed so far is kept, and the next run continues from there."
    kept = json.loads(annai("status", "--format", "json").stdout)["collections"][0]["documents"]
    assert 0 < kept < 3_000
    assert f"added {3_000 - kept:,}" in annai("import", "-m", "update").stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name files in Unicode")
def test_a_locale_that_is_not_utf_8_loses_nothing(annai: Annai, write: Write) -> None:
    write("料金.md", "# 料金\n\n送料は無料です。")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for environment in ({}, plain, {}):
        done = annai("search", "送料", "--format", "files", environment=environment)
        assert (done.stdout, done.stderr) == ("料金.md:1\n", "")


def test_a_document_must_be_named(annai: Annai, write: Write) -> None:
    write("a.md", "# A")
    for reference in ("", " ", "#", "#1.2"):
        assert "The path is empty" in annai("get", reference, code=1).stderr


def test_a_question_that_nobody_answers_changes_nothing(annai: Annai, write: Write) -> None:
    write("a/a.md", "# A")
    annai("collection", "add", "-n", "kept", "-d", "x", "-s", "a")
    assert "no answer, so nothing was done" in annai("collection", "delete", "-n", "kept", code=1).stderr
    assert annai("collection", "ls").stdout == "kept\n"


def test_a_reader_that_leaves_early_is_no_error(annai: Annai, write: Write) -> None:
    for number in range(50):
        write(f"{number}.md", f"# {number}\n\napple " + "text " * 500)
    annai("import")
    process = subprocess.Popen(
        [sys.executable, "-m", "annai", "search", "apple", "-n", "50", "--format", "json"],
        cwd=annai.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0
