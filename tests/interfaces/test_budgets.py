"""What can a token pile up that may only read? Answers, sessions and streams each have a limit, and say so."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from annai.engine import Engine
from annai.interfaces import rpc
from annai.interfaces.http import Application
from annai.interfaces.mcp import http as mcp_http
from annai.interfaces.mcp.http import Endpoint
from annai.interfaces.page import routes
from annai.interfaces.page.keys import Keys
from annai.interfaces.page.routes import Page
from annai.interfaces.rpc import Service
from tests.loopback import DEADLINE, eventually, served

Write = Callable[[str, str], Path]

PARAGRAPH = "An apple a day, said the gardener, is as good as a pear. " * 20 + "\n\n"


@pytest.fixture
def port(engine: Engine) -> Iterator[int]:
    """A server of the project."""
    page = Page(engine, keys=Keys())
    endpoint = Endpoint(lambda _: engine, engine.config, max_body_bytes=10**6, body_seconds=10, on_use=lambda: None)
    application = Application(Service(engine, engine.config), routes=[endpoint.route, *page.routes])
    with served(application) as port:
        yield port
        page.close()


def post(port: int, path: str, body: object) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()


def call(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_a_document_stands_in_an_answer_once(engine: Engine, write: Write, port: int) -> None:
    text = "".join(f"# Apple {number}\n\n{PARAGRAPH}" for number in range(50))
    write("long.md", text)
    write("short.md", "# Pear\n\nAn apple.")
    engine.refresh()
    asked = call("search", query="apple", content="document", per_document=0, limit=1000)
    _, body = post(port, "/rpc", asked)
    results = json.loads(body)["result"]["results"]
    assert len(results) > 40
    for path, told in (("long.md", text), ("short.md", "# Pear\n\nAn apple.")):
        assert [each["content"] for each in results if each["path"] == path and each["content"]] == [told]
    assert len(body) < 3 * len(text)  # each result has its passage and its windows, too


def test_the_answers_of_a_batch_have_a_budget(engine: Engine, write: Write, port: int) -> None:
    write("large.md", "# Apple\n\n" + PARAGRAPH * 700)
    engine.refresh()
    status, body = post(port, "/rpc", [call("get_document", path="large.md")] * rpc.MAX_BATCH_CALLS)
    assert status == 200
    assert len(body) < 1.1 * rpc.MAX_ANSWER_BYTES
    answers = json.loads(body)
    assert any("result" in each for each in answers)
    refused = next(each["error"] for each in answers if "error" in each)
    assert refused["data"]["kind"] == "QueryError"
    assert "more than 50 MB; ask for less at once" in refused["message"]
    assert "result" in json.loads(post(port, "/rpc", call("get_document", path="large.md"))[1])


def test_one_answer_that_is_too_large_is_refused_with_the_way_out(
    engine: Engine, write: Write, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        write(f"{number}.md", f"# Apple {number}\n\n{PARAGRAPH * 20}")
    engine.refresh()
    monkeypatch.setattr(rpc, "MAX_ANSWER_BYTES", 200_000)
    monkeypatch.setattr(rpc, "TEXTS_IN_ANSWER", 0)
    asked = {"query": "apple", "limit": 20, "content": "document"}
    assert "a smaller limit" in json.loads(post(port, "/rpc", call("search", **asked))[1])["error"]["message"]
    assert json.loads(post(port, "/rpc", call("search", **asked | {"limit": 2}))[1])["result"]["results"]


def test_sessions_of_agents_have_a_limit(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_http, "MAX_SESSIONS", 5)
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answers = [post(port, "/mcp", call("initialize", **client)) for _ in range(8)]
    assert [status for status, _ in answers] == [200] * 5 + [503] * 3
    assert b"Too many open sessions" in answers[-1][1]


def test_streams_of_changes_have_a_limit(engine: Engine, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.refresh()
    monkeypatch.setattr(routes, "MAX_STREAMS", 3)
    with ExitStack() as stack:

        def listen() -> http.client.HTTPResponse:
            connection = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)))
            connection.request("GET", "/events")
            return connection.getresponse()

        for _ in range(3):
            assert listen().readline().startswith(b"data: ")
        refused = listen()
        assert refused.status == 429
        assert "close one" in json.loads(refused.read())["error"]
    # Streams that were left make room.
    eventually(lambda: _is_served(port))


def _is_served(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        connection.request("GET", "/events")
        return connection.getresponse().status == 200
