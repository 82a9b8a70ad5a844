"""What reaches a terminal, a pipe and a log from documents that somebody else wrote?"""

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.interfaces.terminal import cells
from annai.text.escapes import LogFormatter, escape, escape_json, escape_line
from annai.text.lines import Lines
from tests.conftest import Annai, results, state_of

Write = Callable[[str, str], Path]

CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07"
TITLE = "\x1b]0;pwned\x07"
LINK = "\x1b]8;;http://evil.example\x1b\\safe\x1b]8;;\x1b\\"
COLOR = "\x1b[31;8mhidden\x1b[0m\x1b[2J\x1b[H"
C1 = "\x9b31mred\x9d0;title\x9c"
BIDI = "\u202etxt.exe\u202c \u2066a\u2069 \u200f\u061c"
OTHERS = "\b\b\b\x7f\r overwritten \u2028"
HOSTILE = f"{CLIPBOARD}{TITLE}{LINK}{COLOR}{C1}{BIDI}"
NAME = f"notes {TITLE}{COLOR}{C1}{BIDI}\nannai: forged.md"
PLAIN = "Plain words. " * 80
BODY = f"# Heading {HOSTILE}\n\n{PLAIN}\n\nAn apple {HOSTILE}{OTHERS} here.\n\tA tab, and 日本語 with 👩‍👩‍👧.\r\nNo end"

OWN_STYLES = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;;(?:file://[\w.~%/-]+)?\x1b\\")
"""Colours, and links to files whose addresses can hold nothing that a terminal obeys."""
OBEYED = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\r*\n)")


def on_a_terminal(annai: Annai, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """What a real terminal gets from the program, on standard output and standard error together."""
    return run_on_a_terminal(annai, ["-m", "annai", *arguments], {"COLUMNS": "200"} | (environment or {}))


def run_on_a_terminal(annai: Annai, python: list[str], environment: dict[str, str], columns: int = 0) -> str:
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (50, columns))
    process = subprocess.Popen(
        [sys.executable, *python],
        cwd=annai.folder,
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=end,
        env=os.environ | {"TERM": "xterm-256color"} | environment,
    )
    os.close(end)
    received = b""
    try:
        while chunk := os.read(terminal, 65_536):
            received += chunk
    except OSError:
        pass  # how Linux says that nobody writes any more
    os.close(terminal)
    process.wait(timeout=60)
    return received.decode()


@pytest.fixture
def hostile(annai: Annai, write: Write) -> Annai:
    """A project with a hostile document, title, heading, file name and description."""
    file = annai.folder / NAME
    file.write_bytes(BODY.encode())
    (annai.folder / f"binary {TITLE}.md").write_bytes(bytes(range(256)) * 4)
    write("titled.md", f'---\ntitle: "apple {json.dumps(HOSTILE)[1:-1]}"\n---\napple\n')
    annai("import")
    return annai


COMMANDS = (
    ("search", "apple"),
    ("search", "apple", "--explain", "--preview-lines", "20"),
    ("search", "apple", "--format", "markdown"),
    ("search", "apple", "--format", "files"),
    ("search", "apple", "--format", "json", "--explain"),
    ("get", NAME),
    ("get", NAME, "--children"),
    ("get", NAME, "--format", "json"),
    ("get", f"missing {HOSTILE}"),
    ("status",),
    ("status", "-n", "root"),
    ("status", "--format", "json"),
    ("index", "status"),
    ("search", "x", "--docs-dir", f"missing {HOSTILE}"),
    ("search", "x", "--config", f"missing {HOSTILE}"),
    ("search", "x", "--server", f"http://missing{HOSTILE}"),
    (f"--{HOSTILE}",),
    (f"no such command {HOSTILE}",),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda each: escape_line(" ".join(each))[:40])
def test_a_terminal_obeys_nothing_that_a_document_says(hostile: Annai, arguments: tuple[str, ...]) -> None:
    shown = on_a_terminal(hostile, *arguments)
    assert OBEYED.findall(OWN_STYLES.sub("", shown)) == []
    assert "\x1b[31;8m" not in shown
    assert "\x1b]8;;http" not in shown
    assert "Traceback" not in shown
    assert "unexpected" not in shown
    plain = on_a_terminal(hostile, *arguments, environment={"NO_COLOR": "1"})
    assert OBEYED.findall(plain) == []


def linked(shown: str) -> list[str]:
    """The files that a terminal is given links to."""
    return [unquote(urlsplit(url).path) for url in re.findall(r"\x1b\]8;;(file://[^\x1b]+)\x1b\\", shown)]


def test_a_terminal_with_colours_gets_a_link_to_each_file(annai: Annai, write: Write) -> None:
    files = {str(write(name, "# A\n\nAn apple.")) for name in ("手順/50% of a;b.md", "c.md")}
    shown = on_a_terminal(annai, "search", "apple")
    assert set(linked(shown)) == files
    assert f"file://{quote(os.uname().nodename)}/" in shown
    assert shown.count("\x1b]8;;\x1b\\") == 2
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(annai, "search", "apple", environment=environment)
    for environment in ({}, {"FORCE_COLOR": "1"}):
        assert "\x1b]8" not in piped(annai, "search", "apple", environment=environment).decode()


def test_no_name_of_a_file_can_make_a_link_of_its_own(hostile: Annai) -> None:
    files = linked(on_a_terminal(hostile, "search", "apple"))
    assert str(hostile.folder / NAME) in files
    assert all(Path(file).is_file() for file in files)


def test_a_dumb_terminal_gets_no_escapes_unless_colour_is_forced(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\nAn apple.")
    for arguments in (("search", "apple"), ("status",), ("model", "ls")):
        assert "\x1b" not in on_a_terminal(annai, *arguments, environment={"TERM": "dumb"})
    forced = {"TERM": "dumb", "FORCE_COLOR": "1"}
    assert "\x1b[1m" in on_a_terminal(annai, "search", "apple", environment=forced)
    assert "\x1b" not in on_a_terminal(annai, "search", "apple", environment={"FORCE_COLOR": "0"})


def test_what_is_escaped_is_shown_and_the_rest_is_left_alone(hostile: Annai) -> None:
    shown = on_a_terminal(hostile, "get", NAME, environment={"NO_COLOR": "1"})
    assert r"An apple \x1b]52;c;cm0gLXJmIH4=\x07\x1b]0;pwned\x07" in shown
    assert r"\u202etxt.exe\u202c" in shown
    assert r"\x9b31mred" in shown
    assert r"\r overwritten \u2028" in shown
    # The terminal itself adds a \\r to each line.
    assert "\tA tab, and 日本語 with 👩‍👩‍👧.\r\r\nNo end\r\n" in shown


def test_tables_show_names_and_descriptions_on_one_line(hostile: Annai, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    hostile("collection", "add", "-n", "api", "-d", f"The API {HOSTILE}\nforged line", "-s", str(other))
    for environment in ({}, {"NO_COLOR": "1"}):
        shown = on_a_terminal(hostile, "collection", "ls", "--all", environment={"COLUMNS": "1000", **environment})
        assert OBEYED.findall(OWN_STYLES.sub("", shown)) == []
        assert r"\nforged line" in shown
        assert bool(OWN_STYLES.search(shown)) == (not environment)
    piped = hostile("collection", "ls", "--all").stdout
    assert r"\nforged line" in piped
    assert not OWN_STYLES.search(piped)


def piped(annai: Annai, *arguments: str, environment: dict[str, str] | None = None) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "annai", *arguments],
        cwd=annai.folder,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


def test_a_pipe_gets_a_document_byte_for_byte(hostile: Annai) -> None:
    assert piped(hostile, "get", NAME) == BODY.encode()
    assert piped(hostile, "get", NAME, environment={"FORCE_COLOR": "1"}) == BODY.encode()
    assert json.loads(piped(hostile, "get", NAME, "--format", "json"))["content"] == BODY
    (named,) = [row for row in results(hostile, "apple", "--content", "document") if row["path"] == NAME]
    assert named["content"] == BODY


def test_a_pipe_gets_every_format_unchanged_and_without_colours_of_ours(hostile: Annai) -> None:
    escaped = NAME.replace("\n", "\\n")
    assert f"{escaped}:1\n".encode() in piped(hostile, "search", "apple", "--format", "files")
    assert f"{NAME}:1\0".encode() in piped(hostile, "search", "apple", "--format", "files", "-0")
    line = Lines(BODY).number(BODY.index("An apple"))
    assert f"{escaped}:{line}:An apple {HOSTILE}".encode() in piped(hostile, "search", "An apple", "--mode", "exact")
    assert HOSTILE.encode() in piped(hostile, "search", "apple", "--format", "markdown")
    text = piped(hostile, "search", "apple", "--preview-lines", "20", environment={"COLUMNS": "500"}).decode()
    assert f"An apple {HOSTILE}" in text
    assert NAME in text
    assert "\x1b[1m" not in text


def test_force_color_colours_a_pipe_and_escapes_what_a_pager_would_obey(hostile: Annai) -> None:
    text = piped(hostile, "search", "apple", environment={"FORCE_COLOR": "1"}).decode()
    assert "\x1b[31m\x1b[1mapple\x1b[0m" in text
    assert OBEYED.findall(OWN_STYLES.sub("", text)) == []
    both = {"FORCE_COLOR": "1", "NO_COLOR": "1"}
    assert "\x1b[1m" not in piped(hostile, "search", "apple", environment=both).decode()


def test_json_is_lossless_and_safe_to_show(hostile: Annai) -> None:
    told = piped(hostile, "search", "apple", "--format", "json").decode()
    assert OBEYED.findall(told) == []
    assert NAME in {row["path"] for row in json.loads(told)["results"]}


@given(st.text())
def test_any_text_can_be_shown(text: str) -> None:
    assert OBEYED.findall(escape(text)) == []
    assert "\n" not in escape_line(text)
    assert json.loads(escape_json(json.dumps(text, ensure_ascii=False))) == text
    assert escape(escape(text)) == escape(text)


def test_a_name_with_a_line_end_cannot_forge_a_line_of_a_log(tmp_path: Path) -> None:
    folder = tmp_path / f"docs\nannai: forged {TITLE}"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\napple")
    (folder / "annai.toml").write_text(
        '[embedding]\nprovider = "openai"\nmodel = "x"\nbase_url = "http://127.0.0.1:9"\n[server]\nport = 0\n'
    )
    annai = Annai(folder)
    told = annai("search", "apple", "--mode", "keyword").stderr
    assert "is ignored" in told
    assert r"docs\nannai: forged \x1b]0;pwned\x07" in told
    assert "\nannai: forged" not in told
    try:
        annai("server", "start")
        log = (state_of(folder) / "server.log").read_text()
    finally:
        annai("server", "stop")
    assert r"docs\nannai: forged" in log
    assert not [line for line in log.splitlines() if line.startswith("annai: forged")]
    assert "\x1b" not in log


def test_a_traceback_in_a_log_cannot_look_like_a_line_of_it() -> None:
    formatter = LogFormatter("%(levelname)s %(message)s")
    try:
        raise ValueError("bad\nERROR forged \x1b[2J")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed: %s", ("a\nERROR b",), sys.exc_info())
    first, *rest = formatter.format(record).split("\n")
    assert first == r"ERROR failed: a\nERROR b"
    assert all(line.startswith("    ") for line in rest)
    assert "\x1b" not in "".join(rest)


LONG = "とても長い名前の フォルダー/さらに深いフォルダー/the-name-of-a-rather-long-file"
SHOW_ALL = f"""
from annai.interfaces.cli import run
for command in (
    ["status"], ["collection", "ls", "--all"], ["model", "ls"], ["index", "status"],
    ["search", "apple", "--explain", "--path", "{LONG}-1.md"],
    ["eval", "--queries", "q.jsonl", "--qrels", "r.tsv"],
):
    assert run(command) == 0
"""


@pytest.fixture
def wide(annai: Annai, write: Write, tmp_path: Path) -> Annai:
    """A project with long names, many numbers, and a file that is left out."""
    for number in range(12):
        write(f"{LONG}-{number}.md", f"# A long heading {number}\n\nAn apple of {number} grams. " * 20)
    write("q.jsonl", json.dumps({"id": "q1", "text": "りんごは何グラムですか " * 8, "type": "natural"}) + "\n")
    write("r.tsv", f"q1\t{LONG}-1.md\t1\n")
    (annai.folder / f"{LONG}-broken.md").write_bytes(bytes(range(256)) * 4)
    annai("import")
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "a.md").write_text("# API\n\nAn apple.")
    annai(
        "collection", "add", "-n", "api-reference", "-d", "説明がとても長く続く場合 " * 6, "-s", str(tmp_path / "api")
    )
    annai("import", "-n", "api-reference")
    return annai


def test_a_terminal_of_any_width_shows_no_broken_number_or_path(wide: Annai) -> None:
    for columns in (60, 80, 130):
        check_width(wide, columns)


def check_width(wide: Annai, columns: int) -> None:
    shown = OWN_STYLES.sub("", run_on_a_terminal(wide, ["-c", SHOW_ALL], {"COLUMNS": ""}, columns))
    lines = shown.replace("\r", "").split("\n")
    paths = [f"{LONG}-broken.md:", f"{LONG}-1", f"{LONG}-1.md:", str(wide.folder), str(wide.folder.parent / "api")]
    for path in paths:
        assert any(path in line for line in lines), path
    # Only what is one word, a path or a description is longer than the terminal: there is no way around that.
    whole = ("とても長い名前の", "説明が", "りんごは", "/", "A search covers")
    assert [line for line in lines if cells(line) > columns and not any(each in line for each in whole)] == []
    # A model's dimensions are shortened: 768…128.
    assert "…" not in re.sub(r"\d…\d", "", "".join(line for line in lines if "│" not in line))
    assert "Qwen/Qwen3-Embedding-0.6B" in shown
    assert ("A wider terminal also shows: provider, size, licence." in lines) == (columns == 80)


def test_what_is_piped_is_not_cut(wide: Annai) -> None:
    narrow = {"COLUMNS": "40"}
    models = piped(wide, "model", "ls", environment=narrow).decode()
    assert "768 or 512 or 256 or 128" in models
    assert "…" not in models
    assert "説明がとても長く続く場合 " * 5 in piped(wide, "collection", "ls", "--all", environment=narrow).decode()
    status = piped(wide, "status", environment=narrow).decode()
    assert f"skipped  root:{LONG}-broken.md: binary file\n" in status
    assert re.search(r"^root +yes +1[23] +\d+ +1 +0 +(just now|\d+ minutes? ago)$", status, re.MULTILINE)
    found = piped(wide, "search", "apple", "--path", f"{LONG}-3.md", environment=narrow).decode()
    assert "An apple of 3 grams. # A long heading 3" in found


def test_on_a_terminal_the_first_result_has_more_lines_than_the_others_and_no_more_than_three_times_as_many(
    annai: Annai, write: Write
) -> None:
    for name in ("a", "b"):
        write(f"{name}.md", f"# Farm {name}\n\n" + "Apples are picked in the autumn, before the frost. " * 60)
    question = ("when are apples picked?", "--preview-lines", "2")
    shown = on_a_terminal(annai, "search", *question, environment={"COLUMNS": "100"}).replace("\r", "")
    first, second = (block.count("│") for block in shown.split("\n\n") if "│" in block)
    assert second == 2
    assert 2 < first <= 6
