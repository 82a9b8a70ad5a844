"""Can any nesting end a process that reads it? Each file is one that killed one, or could, at the size that did."""

import http.client
import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from annai.config import load_config
from annai.errors import ConfigError
from annai.text.nesting import MAX_DEPTH, parse_json, parse_toml, parse_yaml
from tests.conftest import Annai

LEVELS = 30_000
"""Of libyaml's recursion a tenth of it ends a process, and of Python's a thirtieth its parsers."""

TOKEN = "open-sesame"  # noqa: S105 - of a server that lives as long as the test


def zipped(name: str, text: str) -> bytes:
    """A package with one part."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(name, text)
    return data.getvalue()


def deep_xml(tag: str) -> str:
    """Elements in elements."""
    return f"<{tag}>" * LEVELS + "apple" + f"</{tag}>" * LEVELS


def deep_parts(levels: int) -> str:
    """A message in parts of parts."""
    heads = "".join(f"Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n" for level in range(levels))
    return f"From: a@example.com\nSubject: apple\n{heads}\napple\n"


FILES: dict[str, str | bytes] = {
    "flow.md": "---\nx: " + "[" * LEVELS + "\n---\n\napple\n",
    "maps.md": "---\nx: " + "{a: " * (LEVELS // 2) + "\n---\n\napple\n",
    "list.md": "---\n" + "- " * LEVELS + "\n---\n\napple\n",
    "keys.md": "---\n" + "? " * LEVELS + "\n---\n\napple\n",
    "lines.md": "---\n" + "".join(" " * depth + "a:\n" for depth in range(350)) + "\n---\n\napple\n",
    "toml.md": "+++\nx = " + "[" * LEVELS + "\n+++\n\napple\n",
    "dots.md": "+++\n" + "a." * LEVELS + "b = 1\n+++\n\napple\n",
    "quotes.md": ">" * 100_000 + " apple\n",
    "bullets.md": "- " * 100_000 + " apple\n",
    "links.md": "[" * 100_000 + "apple" + "](x)" * 100_000,
    "tags.md": "<div>" * 100_000 + "apple",
    "emphasis.md": "*a **b " * 50_000 + "apple",
    "quotes.rst": "".join(" " * depth + "apple\n\n" for depth in range(1000)),
    "book.ipynb": '{"cells": ' + "[" * LEVELS,
    "page.html": "<div>" * LEVELS + "apple",
    "list.html": "<ul><li>" * LEVELS + "apple",
    "text.rtf": "{\\rtf1 " + "{" * LEVELS + "apple",
    "mail.eml": deep_parts(3000),
    "word.docx": zipped(
        "word/document.xml", f'<w:document xmlns:w="x"><w:body>{deep_xml("w:p")}</w:body></w:document>'
    ),
    "slides.odp": zipped("content.xml", f'<o:body xmlns:o="o" xmlns:t="t">{deep_xml("t:p")}</o:body>'),
}


@pytest.fixture
def folder(docs: Path) -> Path:
    """A project with a readable page."""
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    (docs / "z.md").write_text("# Z\n\nzebra\n")
    return docs


@pytest.mark.parametrize("name", FILES)
def test_a_deep_file_ends_neither_the_command_nor_the_search(folder: Path, name: str) -> None:
    content = FILES[name]
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert "z.md:3" in Annai(folder)("search", "zebra").stdout
    assert "waiting" not in Annai(folder)("status").stdout


DEEP_SETTINGS = {
    "annai.toml": "search = " + "[" * 50_000,
    "config.yaml": "chunker: " + "[" * 50_000,
    ".search-docs.json": "[" * 50_000,
    "config.toml": "database = " + "{a = " * 50_000,
}


@pytest.mark.parametrize("text", ["[" * 50_000, "x = " + "[" * 50_000, "a." * 50_000 + "b = 1", "x = [" + "1," * 10**6])
def test_a_pyproject_of_somebody_else_stops_no_search(folder: Path, text: str) -> None:
    below = folder / "below"
    below.mkdir()
    (below / "a.md").write_text("# A\n\napple\n")
    (folder / "annai.toml").unlink()
    (folder / "pyproject.toml").write_text(text)
    assert "a.md" in Annai(below)("search", "apple").stdout
    (folder / "pyproject.toml").write_text(f"# [tool.annai]\n{text}")
    assert "pyproject.toml" in Annai(folder)("search", "apple", code=2).stderr


@pytest.mark.parametrize("name", DEEP_SETTINGS)
def test_deep_settings_are_refused_with_a_sentence(folder: Path, name: str) -> None:
    text = DEEP_SETTINGS[name]
    (folder / "annai.toml").unlink()
    (folder / name).write_text(text)
    annai = Annai(folder)
    if name == "annai.toml":
        for command in (("search", "zebra"), ("doctor",), ("status",), ("trust", "--list"), ("setup", "claude-code")):
            annai(*command, code=None)
        with pytest.raises(ConfigError, match="nested more than"):
            load_config(start=folder)
    else:
        assert "z.md:3" in annai("search", "zebra").stdout
        assert "nested more than" in annai("init", "--from", name, code=2).stderr


@pytest.mark.parametrize(
    "text", ["[" * 50_000, '{"mcpServers": ' + '{"a": ' * 50_000, '"' + '\\"' * 200_000, "/*" * 10**5]
)
def test_a_deep_file_of_a_program_is_left_alone(folder: Path, text: str) -> None:
    (folder / ".mcp.json").write_text(text)
    told = Annai(folder)("setup", "claude-code", code=2).stderr
    assert ".mcp.json" in told
    assert (folder / ".mcp.json").read_text() == text


def test_a_deep_question_file_is_refused_with_its_line(folder: Path) -> None:
    (folder / "questions.jsonl").write_text('{"id": ' + "[" * 50_000)
    (folder / "judgements.tsv").write_text("1\tz.md\t1\n")
    told = Annai(folder)("eval", "--queries", "questions.jsonl", "--qrels", "judgements.tsv", code=2).stderr
    assert "line 1" in told


@pytest.fixture
def server(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A server in a process of its own."""
    environment = {**os.environ, "ANNAI_TOKEN": TOKEN}
    command = [sys.executable, "-m", "annai", "mcp", "--http", "--port", "auto"]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_server_survives_deep_calls(server: "subprocess.Popen[str]") -> None:
    assert server.stdout
    server.stdout.readline()
    address = re.search(r"http://(\S+):(\d+)", server.stdout.readline())
    assert address
    for path in ("/rpc", "/mcp"):
        for body in ("[" * 900_000, '{"a":' * 150_000, '{"jsonrpc": "2.0", "id": 1, "method": ' + "[" * 500_000):
            connection = http.client.HTTPConnection(address[1], int(address[2]), timeout=60)
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            headers |= {"Accept": "application/json, text/event-stream"}
            connection.request("POST", path, body, headers)
            assert b"error" in connection.getresponse().read()
            connection.close()
    assert server.poll() is None


@pytest.mark.parametrize("parse", [parse_json, parse_toml, parse_yaml])
def test_what_is_in_strings_does_not_count(parse: object) -> None:
    assert callable(parse)
    text = "x = {}" if parse is parse_toml else '{{"x": {}}}'
    brackets = '"' + "[" * 1000 + '\\"' + "{" * 1000 + '"'
    assert parse(text.format(brackets))["x"] == "[" * 1000 + '"' + "{" * 1000
    allowed = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    assert parse(text.format(allowed))
    with pytest.raises(ValueError, match="nested more than"):
        parse(text.format("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)))


@pytest.mark.parametrize("string", ['"""a""""', '"""a"""""', "'''a''''", '""', '"\\\\"', '"a" # "\n', "'\\'"])
def test_no_string_hides_what_follows_it(string: str) -> None:
    with pytest.raises(ValueError, match="nested more than"):
        parse_toml(f"x = [{string}, " + "[" * 50_000)


@pytest.mark.parametrize(
    "text",
    [
        *("x = \"\"\"[[[[\"quoted\" [[[[\"\"\"\ny = '[[['\nz = '''[[['''\n# [[[ don't\n",),
        *("x = [\n" + "  1.5, # a comment's quote\n" * 200 + "]\n",),
    ],
)
def test_toml_is_read_as_it_was(text: str) -> None:
    import tomllib

    assert parse_toml(text) == tomllib.loads(text)
