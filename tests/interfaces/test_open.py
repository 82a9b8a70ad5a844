"""Can what a search shows be opened again: with `annai get`, and in an editor at the line?"""

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from annai.config import load_config
from annai.interfaces.editor import editor_command
from annai.serving.pidfile import read_token, running
from tests.conftest import Annai, AnnaiHere, results

Write = Callable[[str, str], Path]

PART = "An apple a day keeps many doctors far away from here. " * 12
GUIDE = f"# Guide\n\n{PART}\n\n## 手順\n\n{PART}\n\n## Last: part\n\n{PART}\n"
WITHOUT_EDITOR = {"VISUAL": "", "EDITOR": ""}


@pytest.fixture
def editor(tmp_path: Path) -> Callable[[str], str]:
    """An editor of that name, which writes what it was given into `opened` beside it."""

    def make(name: str) -> str:
        script = tmp_path / "bin with space" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f'#!/bin/sh\nfor each in "$@"; do echo "$each"; done > "{tmp_path}/opened"\nexit ${{CODE:-0}}\n'
        )
        script.chmod(0o755)
        return f"'{script}'"

    return make


@pytest.mark.skipif(sys.platform == "win32", reason="the editor is a shell script")
def test_open_tells_the_editor_the_file_and_the_line(
    annai: Annai, write: Write, editor: Callable[[str], str], tmp_path: Path
) -> None:
    file = write("b/a guide {line}.md", GUIDE)
    inside = Annai(annai.folder / "b")
    opened = tmp_path / "opened"
    inside("open", "a guide {line}.md:7", environment={"VISUAL": f"{editor('code')} --wait", "EDITOR": "no-such"})
    assert opened.read_text().splitlines() == ["--wait", "--goto", f"{file}:7"]
    annai("open", "b/a guide {line}.md#手順", environment={"VISUAL": "", "EDITOR": editor("nvim")})
    assert opened.read_text().splitlines() == ["+5", str(file)]
    (first, *_) = results(annai, "apple")
    annai("open", str(first["id"]), environment={"VISUAL": editor("my-own-editor")})
    assert opened.read_text().splitlines() == [str(file)]
    annai("open", str(file), environment={"VISUAL": editor("vim"), "CODE": "3"}, code=3)
    assert opened.read_text().splitlines() == ["+1", str(file)]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("editor", "arguments"),
    [
        ("cursor", ["cursor", "--goto", "/a:b.md:7"]),
        ("/usr/bin/emacs -nw", ["/usr/bin/emacs", "-nw", "+7", "/a:b.md"]),
        ("nano", ["nano", "+7", "/a:b.md"]),
        ("hx", ["hx", "/a:b.md:7"]),
        ("zed --wait", ["zed", "--wait", "/a:b.md:7"]),
        ("pycharm", ["pycharm", "--line", "7", "/a:b.md"]),
        ("kate", ["kate", "--line", "7", "/a:b.md"]),
        ("open -t", ["open", "-t", "/a:b.md"]),
    ],
)
def test_each_editor_is_told_in_its_own_way(editor: str, arguments: list[str]) -> None:
    assert editor_command(editor, Path("/a:b.md"), 7) == arguments


def test_open_says_what_to_do_when_it_cannot(annai: Annai, write: Write) -> None:
    write("a.md", GUIDE)
    assert "set VISUAL or EDITOR" in annai("open", "a.md", environment=WITHOUT_EDITOR, code=2).stderr
    told = annai("open", "a.md", environment={"VISUAL": "/no/such/editor"}, code=2).stderr
    assert "could not be started (no such file or directory)" in told
    assert "cannot be read as a command" in annai("open", "a.md", environment={"VISUAL": "vim 'x"}, code=2).stderr
    assert "There is no document" in annai("open", "nothing.md", environment={"VISUAL": "true"}, code=1).stderr


def test_open_alone_opens_the_page_of_the_server(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\ntext")
    try:
        told = annai("open", environment={"BROWSER": "echo %s"}).stdout
        opened = r"^http://127\.0\.0\.1:\d+/#ticket=\S+\nOpened http://\S+ in the browser\.$"
        assert re.search(opened, told, re.M)
        stopping = "The server ends after 60 minutes without use; `annai server stop` ends it now.\n"
        assert told.endswith(stopping)
        # One that runs already is not told of again, whoever started it.
        assert stopping not in annai("open", environment={"BROWSER": "echo %s"}).stdout
        assert re.search(r"Page +http://127\.0\.0\.1:\d+/ ", annai("server", "status").stdout)
    finally:
        annai("server", "stop")


def test_where_no_browser_opens_a_code_lets_one_in(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\ntext")
    try:
        for environment in ({"BROWSER": "false"}, {"ANNAI_SERVER": annai_url(annai), "BROWSER": "echo %s"}):
            told = annai("open", environment=environment).stdout
            assert "#ticket=" not in told, "another server does not see whose browser it is"
            found = re.search(r"^Open http://(\S+)/ in a browser, and enter this code .*: (\S+)$", told, re.M)
            assert found
            with closing(HTTPConnection(found[1], timeout=60)) as connection:
                connection.request("POST", "/session", headers={"X-Annai-Ticket": found[2]})
                token = json.load(connection.getresponse())["token"]
            assert token == read_token(load_config(docs_dir=annai.folder))
    finally:
        annai("server", "stop")


def annai_url(annai: Annai) -> str:
    annai("server", "start", "--port", "auto")
    record = running(load_config(docs_dir=annai.folder))
    assert record
    return record.url


def test_where_no_system_tells_whose_a_browser_is_a_file_of_the_users_leads_it(
    annai: Annai, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "# Title\n\ntext")
    annai_url(annai)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)  # type: ignore[func-returns-value]
    monkeypatch.setattr("annai.interfaces.cli.open.SERVER_SEES_USERS", False)
    monkeypatch.setattr("annai.interfaces.cli.open.BROWSERS_READ_FILES", True)
    try:
        AnnaiHere(annai.folder)("open")
    finally:
        annai("server", "stop")
    file = Path(url2pathname(urlsplit(opened[0]).path))
    assert "ticket" not in opened[0]
    assert re.search(r'content="0; url=http://127\.0\.0\.1:\d+/#ticket=[\w-]+"', file.read_text())
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o600


def test_what_a_search_shows_leads_back_from_where_it_was_shown(annai: Annai, write: Write) -> None:
    write("a.md", "# Outer\n\nAn apple outside.")
    write("b/a.md", GUIDE)
    inside = Annai(annai.folder / "b")
    for address in inside("search", "apple", "--format", "files").stdout.splitlines():
        outer = address.startswith("../")
        assert ("Outer" if outer else "An apple a day") in inside("get", address).stdout
    shown = json.loads(inside("get", "a.md:7", "--format", "json").stdout)
    assert (shown["id"], shown["file"], shown["heading"]) == ("root:b/a.md#1.1", "b/a.md", "手順")
    shown = json.loads(inside("get", "a.md:5-6", "--format", "json").stdout)
    assert (shown["start_line"], shown["end_line"], shown["content"]) == (5, 6, "## 手順\n\n")
    assert inside("get", "a.md#last-part").stdout.startswith("## Last")
    assert "has no line 99; it ends at line 11" in inside("get", "a.md:99", code=1).stderr
    assert {row["file"] for row in results(inside, "apple", "--path", "a.md")} == {"b/a.md"}
    assert {row["file"] for row in results(inside, "apple", "--path", "../a.md")} == {"a.md"}
    assert {row["file"] for row in results(inside, "apple", "--path", "../*/*.md")} == {"b/a.md"}


def test_a_server_takes_the_same_addresses_and_filters(annai: Annai, write: Write) -> None:
    write("a.md", "# Outer\n\nAn apple outside.")
    write("b/a.md", GUIDE)
    inside = Annai(annai.folder / "b")
    with (annai.folder / "annai.toml").open("a") as settings:
        settings.write("[server]\nport = 0\n")
    annai("server", "start")
    try:
        assert inside("get", "a.md:5-5").stdout == "## 手順\n"
        assert inside("get", "root:a.md:1-1").stdout == "# Outer\n"
        assert {row["file"] for row in results(inside, "apple", "--path", "*.md", "--exclude", "../a.md")} == {"b/a.md"}
        assert "No document is under “gide”" in inside("search", "apple", "--path", "gide", code=1).stderr
    finally:
        annai("server", "stop")


def test_a_filter_without_documents_is_named_and_not_the_words(annai: Annai, write: Write) -> None:
    write("guide/a.md", GUIDE)
    done = annai("search", "apple", "--path", "gide", code=1)
    assert done.stderr == "No document is under “gide”; did you mean guide or guide/a.md?\n"
    told = json.loads(annai("search", "apple", "--path", "*.rst", "--format", "json", code=1).stdout)
    assert (told["unmatched"], told["results"]) == ({"*.rst": []}, [])
