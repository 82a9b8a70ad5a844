"""What does a user see when something is wrong? Bad input, full disks, missing rights, Ctrl-C: one sentence each."""

import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from tests.conftest import Annai, edit_index, results, state_of

Write = Callable[[str, str], Path]


def test_wrong_usage_exits_with_2(annai: Annai) -> None:
    for arguments in (("search",), ("nonsense",), ("search", "x", "--mode", "magic"), ("search", "x", "-n", "0")):
        assert annai(*arguments, code=2).stdout == ""


def test_bad_queries_get_one_sentence(annai: Annai, write: Write) -> None:
    write("a.md", "# A")
    assert annai("search", " 　", code=2).stderr == "annai: The query is empty; ask a question or give some words.\n"
    assert "102,400 characters" in annai("search", "x" * 102_400, code=2).stderr
    assert "There is no collection 'none'" in annai("search", "x", "-c", "none", code=2).stderr
    assert "There is no folder" in annai("search", "x", "--docs-dir", "nowhere", code=2).stderr


def test_a_folder_without_documents_says_what_was_looked_for(annai: Annai) -> None:
    told = annai("search", "x", code=1).stderr
    assert told.startswith("There are no documents in")
    assert "**/*.md" in told
    answer = json.loads(annai("search", "x", "--json", code=1).stdout)
    assert (answer["results"], answer["total"]) == ([], 0)
    assert answer["empty"] in told


def test_home_and_root_are_refused_unless_named(docs: Path, write: Write) -> None:
    write("a.md", "# A\n\napple")
    home = {"HOME": str(docs)}
    annai = Annai(docs)
    assert "your home folder" in annai("search", "apple", code=2, environment=home).stderr
    assert not state_of(docs).exists()
    assert "the whole file system" in Annai(Path("/"))("search", "apple", code=2).stderr
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    assert "your home folder" in annai("search", "apple", code=2, environment=home).stderr
    assert "a.md:3" in annai("search", "apple", "--docs-dir", str(docs), environment=home).stdout
    below = docs / "below"
    below.mkdir()
    (docs / "annai.toml").unlink()
    (below / "b.md").write_text("# B\n\nbanana")
    assert "b.md:3" in Annai(below)("search", "banana", "--mode", "keyword", environment=home).stdout


def test_more_than_five_thousand_files_are_not_indexed_without_a_yes(annai: Annai, write: Write) -> None:
    for number in range(5_001):
        write(f"{number % 50}/{number}.md", f"apple {number}")
    told = annai("search", "apple", code=2).stderr
    assert "5,001 files" in told
    assert "second" in told
    assert "--yes" in told
    assert json.loads(annai("search", "4999", "--mode", "keyword", "--yes", "--format", "json").stdout)["total"] == 1
    assert annai("search", "apple").stderr == ""


def test_a_file_that_is_no_index_is_left_alone(annai: Annai, write: Write) -> None:
    write("a.md", "# A")
    index = state_of(annai.folder) / "index.sqlite"
    index.parent.mkdir()
    index.write_text("This is my diary, not a database, and it is long enough to be read as one.\n" * 20)
    before = index.read_bytes()
    assert "is not an annai index" in annai("search", "x", code=2).stderr
    assert index.read_bytes() == before
    index.unlink()
    connection = apsw.Connection(str(index))
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    assert "is a database, but not an annai index" in annai("search", "x", code=2).stderr


def test_an_index_of_a_newer_version_is_left_alone(annai: Annai, write: Write) -> None:
    write("a.md", "# A")
    annai("import")
    edit_index(annai.folder, "PRAGMA user_version = 999")
    assert "was written by a newer annai" in annai("search", "x", code=2).stderr


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
def test_an_empty_index_that_cannot_be_written_does_not_say_that_there_are_no_documents(
    annai: Annai, write: Write
) -> None:
    annai("search", "apple", code=1)
    write("a.md", "# A\n\napple")
    state = state_of(annai.folder)
    for place in (*state.iterdir(), state):
        place.chmod(0o555)
    refused = run_without_privileges(annai, "search", "apple")
    state.chmod(0o755)
    assert refused.returncode == 2
    assert "is indexed yet. The index cannot be written" in refused.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="permissions are taken away in Linux's way")
def test_an_index_in_a_read_only_folder_still_answers(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    annai("search", "apple")
    state = state_of(annai.folder)
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
    index = state_of(annai.folder) / "index.sqlite-wal"
    deadline = time.monotonic() + 60
    while not (index.exists() and index.stat().st_size > 3_000_000) and time.monotonic() < deadline:
        assert process.poll() is None, "the import ended before it could be interrupted"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    kept = "annai: interrupted; what was indexed so far is kept, and the next run continues from there."
    assert told.splitlines()[-1] == kept
    done = json.loads(annai("status", "--format", "json").stdout)["collections"][0]["documents"]
    assert 0 < done < 3_000
    assert f"added {3_000 - done:,}" in annai("import", "-m", "update").stdout


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
        assert "The path is empty" in annai("get", reference, code=2).stderr


def test_a_question_that_nobody_answers_changes_nothing(annai: Annai, write: Write) -> None:
    write("a/a.md", "# A")
    annai("collection", "add", "-n", "kept", "-d", "x", "-s", "a")
    assert "no answer, so nothing was done" in annai("collection", "delete", "-n", "kept", code=2).stderr
    assert annai("collection", "ls").stdout == "kept\n"


def in_a_shell(annai: Annai, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a shell makes of a command in which `annai` is the program."""
    script = f'set -o pipefail; annai() {{ {shlex.quote(sys.executable)} -m annai "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", script],
        cwd=annai.folder,
        env=os.environ | {"PYTHONUNBUFFERED": ""} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(not shutil.which("bash"), reason="needs a shell")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_is_no_error(annai: Annai, write: Write, unbuffered: str) -> None:
    for number in range(60):
        write(f"{number}.md", f"# {number}\n\napple " + "text " * 500)
    write("big.md", "banana line\n" * 200_000)
    annai("import")
    for command in ("search apple -n 60 --format json", "search apple -n 60", "get big.md", "status -n root", "--help"):
        for reader in ("head -1", "true"):
            done = in_a_shell(annai, f"annai {command} | {reader}", PYTHONUNBUFFERED=unbuffered)
            assert (done.returncode, done.stderr) == (0, ""), (command, reader)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_said(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    annai("import")
    for command in ("search apple", "get a.md", "status", "search apple --format json", "--help"):
        full = in_a_shell(annai, f"annai {command} > /dev/full")
        assert full.returncode == 2
        assert re.fullmatch(r"annai: .*cannot be .*written \(no space left on device\)\.\n", full.stderr), full.stderr
    closed = in_a_shell(annai, "annai search apple >&-")
    assert (closed.returncode, closed.stderr) == (2, "annai: The output cannot be written (it is closed).\n")
    for others in ("2>&-", "<&-", "2>/dev/full", "2>&- <&-"):
        done = in_a_shell(annai, f"annai search apple --format files {others}")
        assert (done.returncode, done.stdout) == (0, "a.md:1\n"), done.stderr
    assert in_a_shell(annai, "annai nonsense 2>/dev/full").returncode == 2
    assert "one of them is closed" in in_a_shell(annai, "annai mcp >&-").stderr


@pytest.mark.skipif(not shutil.which("bash"), reason="needs a shell")
def test_a_folder_that_was_deleted_is_said(annai: Annai) -> None:
    for command in ("search apple", "status", "init", "trust", "server status", "mcp", "collection ls"):
        done = in_a_shell(annai, f"mkdir gone && cd gone && rmdir ../gone && annai {command}")
        assert (done.returncode, done.stderr) == (
            2,
            "annai: The current folder no longer exists; change to another one.\n",
        )


@pytest.mark.skipif(sys.platform != "linux", reason="permissions are taken away in Linux's way")
def test_what_would_write_an_index_that_is_read_only_says_so(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    annai("import")
    write("b.md", "# B\n\nbanana")
    state = state_of(annai.folder)
    for file in state.iterdir():
        file.chmod(0o444)
    state.chmod(0o555)
    for command in (
        "import -m update",
        "import -m replace",
        "index rebuild",
        "index rebuild --force a.md",
        "store vacuum",
    ):
        done = run_without_privileges(annai, *command.split())
        assert done.returncode == 2
        assert re.fullmatch(r"annai: .* cannot be written.*; make its folder writable, or .*\n", done.stderr), (
            done.stderr
        )
    checked = run_without_privileges(annai, "store", "check", "--repair")
    state.chmod(0o755)
    assert (checked.stdout, checked.stderr) == ("The index is consistent.\n", "")


LONG, NUMBER = "x" * 5_000, "1" * 5_000


@pytest.mark.parametrize(
    "arguments",
    [
        *(("index", "rebuild", path) for path in ("#", "#1", "", " ", "/", "..", LONG, "a/" * 3_000)),
        *(("get", path) for path in (LONG, f"a.md#{NUMBER}", f"a.md#~{NUMBER}", f"a.md#1.{NUMBER}", "root:")),
        *(("get", "a.md", "--lines", lines) for lines in (NUMBER, f"1:{NUMBER}")),
        *(("search", "x", option, LONG) for option in ("--path", "--docs-dir", "--config", "--server", "-c")),
        *(
            ("search", "x", "--server", url)
            for url in ("http://[", "http://a b", "http://\x01", "http://.a", f"http://127.0.0.1:{NUMBER}")
        ),
        *(("collection", "add", "-n", "x", "-d", "x", "-s", source) for source in (LONG, "~nobody-here/x")),
        ("import", "--database", LONG),
        ("server", "start", "--log", LONG),
        ("eval", "--queries", LONG, "--qrels", LONG),
        ("model", "show", LONG),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_what_no_path_number_or_address_can_be_gets_a_sentence(
    annai: Annai, write: Write, arguments: tuple[str, ...]
) -> None:
    write("a.md", "# A\n\napple")
    done = annai(*arguments, code=None)
    told = done.stderr
    assert done.returncode == (1 if arguments[0] in ("get", "index") and " no " in told else 2)
    assert told.startswith("annai: ")
    assert told.count("\n") == 1
    assert "unexpected" not in told


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_bytes_that_are_not_text_get_a_sentence(annai: Annai, write: Write, tmp_path: Path) -> None:
    write("a.md", "# A\n\napple")
    broken = os.fsdecode(b"\xff\xfe")
    for arguments in (("get", broken), ("index", "rebuild", broken), ("search", "x", "--docs-dir", broken)):
        assert "There is no" in annai(*arguments, code=2 if arguments[0] == "search" else 1).stderr
    assert "Nothing found" in annai("search", broken, "--mode", "keyword", code=1).stderr
    folder = tmp_path / broken
    folder.mkdir()
    assert "is not valid UTF-8; rename it" in Annai(folder)("search", "apple", code=2).stderr


OUT_OF_MEMORY = """
import resource
from annai.interfaces.cli import run
assert run(["get", "a.md"]) == 0
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 4_000_000,) * 2)
raise SystemExit(run(["get", "big.md"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory in Linux's way")
def test_too_little_memory_gets_a_sentence(annai: Annai, write: Write) -> None:
    write("a.md", "apple")
    write("big.md", "banana " * 1_400_000)
    annai("import")
    code = [sys.executable, "-c", OUT_OF_MEMORY]
    done = subprocess.run(code, cwd=annai.folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "apple")
    assert done.stderr.startswith("annai: There is not enough memory for this; ")


INTERRUPTED = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["annai", "search", "apple"]
from annai.__main__ import main
main()
"""
"""Presses Ctrl-C at the very moment that a module is looked for, so that no clock is needed."""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of Unix")
def test_ctrl_c_at_a_question_ends_as_ctrl_c_does_and_a_closed_input_as_an_error(annai: Annai, write: Write) -> None:
    import pty

    write("a.md", "# A\n\napple")
    annai("collection", "add", "-n", "kept", "-d", "x", "-s", ".")
    for key, code in ((b"\x03", 130), (b"\x04", 2)):
        primary, secondary = pty.openpty()
        command = [sys.executable, "-m", "annai", "collection", "delete", "-n", "kept"]
        process = subprocess.Popen(
            command,
            cwd=annai.folder,
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - there is no other thread
        )
        os.close(secondary)
        shown = b""
        while b"?" not in shown:
            shown += os.read(primary, 1000)
        # A key that arrives between the question and the reading of its answer may be lost; then it is typed again.
        for _ in range(12):
            os.write(primary, key)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
                break
        process.kill()
        assert process.wait() == code
        os.close(primary)
    assert "kept" in annai("collection", "ls").stdout


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize("module", ["annai.interfaces.cli", "click", "annai.config", "numpy", "apsw", "annai.engine"])
def test_ctrl_c_while_the_program_is_being_loaded_is_no_traceback(annai: Annai, write: Write, module: str) -> None:
    write("a.md", "# A\n\napple")
    code = [sys.executable, "-c", INTERRUPTED.format(module=module)]
    done = subprocess.run(code, cwd=annai.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert re.fullmatch(r"annai: interrupted[^\n]*", done.stderr.strip())
