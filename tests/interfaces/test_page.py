"""Does the page show documents without letting them do anything, and does the server give it to nobody else?"""

import http.client
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.config import override
from annai.engine import Engine
from annai.interfaces.http import Application
from annai.interfaces.page import routes
from annai.interfaces.page.documents import MAX_SHOWN_CHARACTERS, document_html
from annai.interfaces.page.keys import MAX_TICKETS, Keys
from annai.interfaces.page.peers import user_of
from annai.interfaces.page.routes import PUBLIC_PATHS, Page
from annai.interfaces.page.words import _WORDS, LANGUAGES, preferred_language, words
from annai.interfaces.rpc import Service
from annai.types import Document, FileState
from tests.loopback import DEADLINE, served
from tests.payloads import PAYLOADS

Write = Callable[[str, str], Path]

SECRET, TOKEN = "known", "the-token"
KEYS = Keys()


class Elements(HTMLParser):
    """Every element of some HTML with its attributes, and the text around them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def markdown(text: str, path: str = "guide/a.md", body_start: int = 0) -> Document:
    return Document("root", path, "A", text, FileState(path, 0, 0), body_start=body_start)


def elements(text: str, *documents: str, path: str = "guide/a.md") -> Elements:
    return Elements(document_html(markdown(text, path), lambda: documents, lambda image: f"key-of-{image}"))


def attribute(text: str, name: str, *documents: str) -> str | None:
    return next((values[name] for _, values in elements(text, *documents).found if name in values), None)


# Documents


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_hostile_document_keeps_nothing_that_acts(payload: str) -> None:
    for tag, values in elements(payload, "guide/b.md").found:
        assert tag not in {
            "script",
            "style",
            "iframe",
            "object",
            "embed",
            "form",
            "svg",
            "math",
            "base",
            "meta",
            "link",
        }
        assert tag != "input" or values.get("type") == "checkbox"
        assert not {name for name in values if name.startswith("on")} | values.keys() & {
            "style",
            "id",
            "name",
            "srcset",
        }
        href, source = values.get("href") or "https:", values.get("src") or "/image?"
        assert href.startswith(("https:", "http:", "mailto:", "/?open=")), href
        assert source.startswith(("/image?", "remote:http")), source


@given(st.text(st.sampled_from(list("ab あ\n\t-#*>`|[]()!<>/\\=1.:\"'&;~_^+")), max_size=120))
def test_marks_of_lines_change_nothing_else(text: str) -> None:
    found = elements(text)
    marks = [int(values["data-line"] or 0) for _, values in found.found if "data-line" in values]
    assert all(1 <= each <= text.count("\n") + 1 for each in marks)
    assert marks == sorted(marks)
    unmarked = re.sub(r"\s+", "", Elements(plain_html(text)).text)
    assert re.sub(r"\s+", "", found.text) == unmarked


def plain_html(text: str) -> str:
    import nh3
    import pyromark

    from annai.interfaces.page import documents as page

    html = pyromark.html(text, options=page._options())
    return nh3.clean(html, tags=page._TAGS, clean_content_tags=page._DROPPED_WHOLE)


def test_blocks_items_and_rows_know_their_lines() -> None:
    text = "# One\n\npara\n\n- item\n- [x] **bold**\n\n| a |\n|---|\n| row |\n\n```\ncode\n```\n"
    found = [(values["data-line"], tag) for tag, values in elements(text).found if "data-line" in values]
    assert found == [
        ("1", "div"),
        ("3", "div"),
        ("5", "div"),
        ("5", "i"),
        ("6", "i"),
        ("8", "div"),
        ("10", "i"),
        ("12", "div"),
    ]


def test_lines_count_from_the_top_of_the_file() -> None:
    front = "---\ntitle: A\n---\n"
    html = document_html(markdown(f"{front}\npara", body_start=len(front)), list, str)
    assert 'data-line="5"' in html


def test_text_that_is_not_markdown_is_shown_as_it_is() -> None:
    document = Document("root", "a.txt", "A", "<b>one</b>\ntwo", FileState("a.txt", 0, 0), format="text")
    assert document_html(document, list, str) == (
        '<pre><span data-line="1">&lt;b&gt;one&lt;/b&gt;</span>\n<span data-line="2">two</span>\n</pre>'
    )


def test_of_a_document_that_is_too_long_the_text_around_the_line_is_shown() -> None:
    text = "- item\n" * 200_000
    html = document_html(markdown(text), list, str, around=len("- item\n") * 150_000)
    assert len(html) < 10 * MAX_SHOWN_CHARACTERS
    assert '<span data-line="150001">- item</span>' in html
    assert 'data-line="1"' not in html


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("b.md", "root:guide/b.md"),
        ("./b.md#part-1", "root:guide/b.md#part-1"),
        ("../top.md", "root:top.md"),
        ("/top.md", "root:top.md"),
        ("b", "root:guide/b.md"),
        ("b.html", "root:guide/b.md"),
        ("sub/", "root:guide/sub/index.md"),
        ("#here", "root:guide/a.md#here"),
        ("%E8%AA%AC%E6%98%8E.md", "root:guide/説明.md"),
        ("missing.md", None),
        ("../../etc/passwd", None),
    ],
)
def test_relative_links_lead_to_documents(link: str, expected: str | None) -> None:
    documents = ("guide/a.md", "guide/b.md", "top.md", "guide/sub/index.md", "guide/説明.md")
    found = attribute(f"[text]({link})", "href", *documents)
    assert (found and parse_qs(urlsplit(found).query)["open"]) == (expected and [expected])


def test_images_come_from_the_collection_only() -> None:
    assert attribute("![x](../pic.png)", "src") == "/image?at=root%3Apic.png&key=key-of-root%3Apic.png"
    assert attribute("![x](https://example.com/x.png)", "src") == "remote:https://example.com/x.png"
    assert attribute("![x](../../x.png)", "src") is None
    assert attribute("![x](secret.env)", "src") is None


# The server


@pytest.fixture
def port(engine: Engine, write: Write) -> Iterator[int]:
    """A server with a token and one document with an image beside it."""
    write("docs.md", "# Title\n\nSome apple text.")
    engine.refresh()
    page = Page(engine, keys=KEYS)
    service = Service(engine, engine.config, secret=SECRET, keys=KEYS)
    application = Application(service, secret=SECRET, token=TOKEN, routes=page.routes, public_paths=PUBLIC_PATHS)
    with served(application) as port:
        yield port
        page.close()


def ask(port: int, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def test_the_page_holds_nothing_of_the_project_and_loads_nothing_from_outside(port: int) -> None:
    status, headers, body = ask(port, "GET", "/")
    assert status == 200
    assert b"apple" not in body
    assert b"docs" not in body
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(rb'(?:src|href)="(?!/|#)', body)
    assert not re.search(rb"<script(?![^>]* src=| type=\"application/json\")", body)
    assert not re.search(rb" on\w+=| style=", body)


def test_what_belongs_to_the_project_needs_the_token(port: int) -> None:
    assert ask(port, "GET", "/events")[0] == 401
    assert ask(port, "POST", "/rpc")[0] == 401
    assert ask(port, "GET", "/assets/page.js")[0] == 200
    assert ask(port, "GET", "/assets/../routes.py")[0] == 404
    assert ask(port, "GET", "/image?at=root:docs.md&key=wrong")[0] == 403


def test_other_sites_get_nothing_but_a_link(port: int) -> None:
    for site in ("cross-site", "same-site"):
        assert ask(port, "GET", "/assets/page.js", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")[0] == 403
        assert ask(port, "GET", "/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate")[0] == 200


@pytest.mark.parametrize(
    "path", ["../outside.png", "link.png", "docs.md", "missing.png", "\0.png", "/etc/hostname.png"]
)
def test_only_images_inside_the_collection_are_shown(port: int, engine: Engine, path: str) -> None:
    root = engine.config.root
    (root.parent / "outside.png").write_bytes(b"outside")
    (root / "link.png").symlink_to(root.parent / "outside.png")
    at = f"root:{path}"
    query = urlencode({"at": at, "key": KEYS.image_key(at)})
    assert ask(port, "GET", f"/image?{query}")[0] == 404


def test_what_the_server_proves_to_anybody_opens_no_image(port: int, engine: Engine) -> None:
    (engine.config.root / "a.png").write_bytes(b"png")
    for challenge in ("root:a.png", "image root:a.png"):
        proof = json.loads(ask(port, "GET", f"/health?{urlencode({'challenge': challenge})}")[2])["proof"]
        assert ask(port, "GET", f"/image?at=root:a.png&key={proof}")[0] == 403


def test_an_image_is_shown_and_can_do_nothing(port: int, engine: Engine) -> None:
    (engine.config.root / "a.svg").write_bytes(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    status, headers, body = ask(port, "GET", f"/image?at=root:a.svg&key={KEYS.image_key('root:a.svg')}")
    assert (status, body[:4]) == (200, b"<svg")
    assert "sandbox" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_ticket_is_good_for_one_use_within_a_minute(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(port, "POST", "/session", X_Annai_Ticket="guess")[0] == 403
    tickets = Keys()
    ticket = tickets.issue_ticket(TOKEN)
    assert tickets.redeem_ticket(ticket)
    assert not tickets.redeem_ticket(ticket)
    late = tickets.issue_ticket(TOKEN)
    monkeypatch.setattr("annai.interfaces.page.keys.TICKET_SECONDS", -1.0)
    assert not tickets.redeem_ticket(tickets.issue_ticket(TOKEN))
    for _ in range(MAX_TICKETS):
        tickets.issue_ticket(TOKEN)
    assert not tickets.redeem_ticket(late)


def test_a_ticket_for_the_servers_own_user_is_kept_from_others_and_not_used_up_by_them() -> None:
    tickets = Keys()
    ticket = tickets.issue_ticket(TOKEN, own_user=True)
    assert not tickets.redeem_ticket(ticket)
    assert not tickets.redeem_ticket(ticket, lambda: False)
    assert tickets.redeem_ticket(ticket, lambda: True) == TOKEN
    assert not tickets.redeem_ticket(ticket, lambda: True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a socket is")
@pytest.mark.parametrize(
    ("family", "bound", "reached"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
        (socket.AF_INET6, "::", "::ffff:127.0.0.1"),
    ],
)
def test_whose_a_connection_is_is_known_whichever_way_it_is_written(
    family: socket.AddressFamily, bound: str, reached: str
) -> None:
    with socket.socket(family) as listener:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((bound, 0))
        listener.listen()
        with socket.create_connection((reached, listener.getsockname()[1])) as ours:
            accepted = listener.accept()[0]
            with accepted:
                client, server = accepted.getpeername()[:2], accepted.getsockname()[:2]
                assert user_of(client, server) == os.getuid()
                assert user_of(client, (server[0], server[1] ^ 1)) is None
                ours.close()
                assert user_of(client, server) is None, "of one that was left behind the system says that it is root's"
    for unknown in (None, ("203.0.113.9", 0), ("testclient", 50000)):
        assert user_of(unknown, server) is None


def test_news_tell_when_the_index_changes(port: int, engine: Engine, write: Write) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request("GET", "/events", headers={"Authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    first = json.loads(response.readline().removeprefix(b"data: "))
    write("more.md", "# More\n\nPears.")
    engine.refresh()
    response.readline()
    second = json.loads(response.readline().removeprefix(b"data: "))
    connection.close()
    assert first["waiting"] == 0
    assert second["version"] != first["version"]


def test_a_document_is_opened_in_an_editor_with_a_window_on_this_machine_only(
    engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("a.md", "# Title\n\ntext")
    engine.refresh()
    record = tmp_path / "opened"
    editor = tmp_path / "code"
    editor.write_text(f'#!/bin/sh\necho "$@" > {record}.new\nmv {record}.new {record}\n')
    editor.chmod(0o755)
    call = {"jsonrpc": "2.0", "id": 1, "method": "open_in_editor", "params": {"reference": "a.md:3"}}
    for name, config, is_open in (
        ("vim", engine.config, False),
        (str(editor), override(engine.config, "server", host="192.0.2.1"), False),
        (str(editor), engine.config, True),
    ):
        monkeypatch.setenv("VISUAL", name)
        answer = Service(engine, config).answer(call)
        assert answer
        assert ("error" not in answer) == is_open
    from tests.loopback import eventually

    eventually(record.exists)
    assert record.read_text().split() == ["--goto", f"{engine.config.root / 'a.md'}:3"]


# Words


def test_every_word_of_the_page_is_there_in_both_languages() -> None:
    folder = routes.FOLDER
    scripts = "".join(each.read_text(encoding="utf-8") for each in (folder / "assets").glob("*.js"))
    templates = "".join(each.read_text(encoding="utf-8") for each in (folder / "templates").glob("*.html"))
    used = set(re.findall(r'say\("(\w+)"', scripts)) | set(re.findall(r"words\.(\w+)", templates))
    assert used <= _WORDS.keys()
    prefixes = ("status_", "state_", "condition_", "mode_", "depth_", "since_", "result", "verdict_")
    computed = {"root", "database", "disk", "embedder", "address", "memory", "version"}
    assert {name for name in _WORDS.keys() - used - computed if not name.startswith(prefixes)} == set()
    for english, japanese in _WORDS.values():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", japanese))
    assert [*words("ja")] == [*words("en")]
    assert set(LANGUAGES) == {"en", "ja"}


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("ja,en-US;q=0.9", "ja"),
        ("en-GB,ja;q=0.5", "en"),
        ("de, ja-JP;q=0.3", "ja"),
        ("fr", "en"),
        ("", "en"),
        ("ja;q=.", "en"),
    ],
)
def test_the_browser_chooses_the_language(accepted: str, expected: str) -> None:
    assert preferred_language(accepted) == expected
