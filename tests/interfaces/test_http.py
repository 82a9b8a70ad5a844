"""Does a server stand what comes over the network? Real sockets, with garbage, giants, sluggards and strangers."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from annai.answers import Freshness
from annai.engine import Engine
from annai.interfaces import http as web
from annai.interfaces.http import MAX_BODY_BYTES, Application
from annai.interfaces.rpc import Service
from annai.serving.pidfile import proof
from tests.loopback import DEADLINE, served

Write = Callable[[str, str], Path]
Headers = dict[str, str]

JSON = {"Content-Type": "application/json"}
SEARCH = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "apple"}}).encode()


@pytest.fixture
def port(engine: Engine, write: Write) -> Iterator[int]:
    """The port of a server with one document about an apple."""
    write("a.md", "# Title\n\nSome apple text.")
    engine.refresh()
    with served(Application(Service(engine, engine.config), secret="known", body_seconds=0.5)) as port:  # noqa: S106
        yield port


def send(
    port: int, method: str, path: str, body: bytes | None = None, headers: Headers | None = None
) -> tuple[int, bytes]:
    """One request on a connection of its own; the status and the body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def post(port: int, body: bytes, headers: Headers | None = None) -> tuple[int, Any]:
    status, told = send(port, "POST", "/rpc", body, JSON | (headers or {}))
    return status, json.loads(told) if told else None


def head(length: object) -> bytes:
    """The beginning of a call, as it stands on the wire."""
    lines = ("POST /rpc HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}")
    return "\r\n".join((*lines, "", "")).encode()


def test_health_tells_who_is_there(port: int) -> None:
    status, body = send(port, "GET", "/health?challenge=x")
    assert status == 200
    assert json.loads(body)["status"] == "ok"
    assert json.loads(body)["proof"] == proof("known", "x")


def test_a_call_is_answered(port: int) -> None:
    status, told = post(port, SEARCH)
    assert status == 200
    assert told["result"]["results"][0]["path"] == "a.md"


def test_a_batch_is_answered_as_a_batch_and_notifications_are_not(port: int) -> None:
    call = json.loads(SEARCH)
    status, told = post(port, json.dumps([call | {"id": 2}, 5, {"jsonrpc": "2.0", "method": "get_status"}]).encode())
    assert status == 200
    assert [(each["id"], "result" in each) for each in told] == [(2, True), (None, False)]
    assert post(port, json.dumps({"jsonrpc": "2.0", "method": "get_status"}).encode()) == (204, None)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"garbage", -32700),
        (b"\x00\xff\xfe", -32700),
        (b'{"jsonrpc": "2.0"', -32700),
        (b"[" * 50_000, -32700),
        (b"[]", -32600),
        (b"3", -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nope"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": 1}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "search", "params": 1}', -32602),
    ],
)
def test_garbage_gets_the_right_code(port: int, body: bytes, code: int) -> None:
    status, told = post(port, body)
    assert status == 200
    assert told["error"]["code"] == code
    assert "Traceback" not in told["error"]["message"]
    assert post(port, SEARCH)[0] == 200


@pytest.mark.parametrize(
    "raw", [b"garbage\r\n\r\n", b"GET /\r\n" * 3, b"\x16\x03\x01\x02\x00", b"GET " + b"x" * 100_000]
)
def test_what_is_not_http_is_turned_away(port: int, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as stranger:
        stranger.sendall(raw)
        stranger.shutdown(socket.SHUT_WR)
        assert not stranger.recv(65536).startswith(b"HTTP/1.1 200")
    assert post(port, SEARCH)[0] == 200


def test_only_json_is_taken_and_only_where_it_belongs(port: int) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert send(port, "POST", "/rpc", SEARCH, {"Content-Type": kind})[0] == 415
    assert send(port, "POST", "/rpc", SEARCH, {"Content-Type": "application/json; charset=utf-8"})[0] == 200
    assert send(port, "GET", "/rpc")[0] == 405
    assert send(port, "OPTIONS", "/rpc")[0] == 405
    assert send(port, "GET", "/nowhere")[0] == 404


def test_a_body_that_is_too_large_is_refused(port: int) -> None:
    at_most = b'{"x": "' + b"x" * (MAX_BODY_BYTES - 9) + b'"}'
    assert len(at_most) == MAX_BODY_BYTES
    assert post(port, at_most)[1]["error"]["code"] == -32600
    status, told = post(port, at_most + b" ")
    assert status == 413
    assert "1,000,000 bytes" in told["error"]


def test_a_body_that_grows_too_large_is_refused(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    chunks = (b"x" * 10_000 for _ in range(MAX_BODY_BYTES // 10_000 + 1))
    with closing(connection):
        connection.request("POST", "/rpc", chunks, JSON, encode_chunked=True)
        with connection.getresponse() as response:
            assert response.status == 413


def test_a_body_that_lies_about_its_length_is_refused(port: int) -> None:
    for length in ("9" * 30, "-1", "x"):
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as stranger:
            stranger.sendall(head(length) + b"{}")
            assert stranger.recv(65536).split()[1] in (b"400", b"413")


def test_a_body_that_does_not_come_is_not_waited_for(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as sluggard:
        sluggard.sendall(head(10) + b"{")
        assert sluggard.recv(65536).startswith(b"HTTP/1.1 408")


def test_a_connection_that_says_nothing_is_closed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "FIRST_REQUEST_SECONDS", 0.2)
    with (
        served(Application(Service(engine, engine.config))) as port,
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as sluggard,
    ):
        sluggard.sendall(b"GET /hea")
        assert sluggard.recv(65536) == b""


def test_callers_that_leave_harm_nobody(port: int) -> None:
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as caller:
            caller.sendall(head(len(SEARCH)) + SEARCH)
    assert post(port, SEARCH)[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("[::1]:{port}", 200),
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("evil@127.0.0.1", 200),
        ("[", 403),
        ("", 403),
    ],
)
def test_a_name_that_is_not_the_servers_is_refused(port: int, host: str, status: int) -> None:
    for path in ("/health", "/rpc"):
        method, body = ("GET", None) if path == "/health" else ("POST", SEARCH)
        assert send(port, method, path, body, JSON | {"Host": host.format(port=port)})[0] == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("http://evil.example", 403),
        ("http://127.0.0.1:1", 403),
        ("http://localhost:{port}", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_a_foreign_web_page_is_refused(port: int, origin: str, status: int) -> None:
    headers = JSON | {"Host": f"127.0.0.1:{port}", "Origin": origin.format(port=port)}
    assert send(port, "POST", "/rpc", SEARCH, headers)[0] == status


def test_where_a_token_is_asked_for_nobody_comes_in_without(engine: Engine, write: Write) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    engine.refresh()
    with served(Application(Service(engine, engine.config), host="0.0.0.0", token="mellon")) as port:  # noqa: S104, S106
        for wrong in ("", "mellon", "Bearer", "Bearer melon", "Basic mellon", "Bearer mellon2", "Bearer \xff"):
            status, told = post(port, SEARCH, {"Authorization": wrong})
            assert status == 401
            assert "token" in told["error"]
        # Whoever knows the token may use any name for the server.
        assert post(port, SEARCH, {"Authorization": "Bearer mellon", "Host": "my-machine.example"})[0] == 200
        assert send(port, "GET", "/health")[0] == 200


def test_what_is_mounted_beside_is_behind_the_same_checks(engine: Engine) -> None:
    async def page(request: Request) -> Response:
        return PlainTextResponse(f"a page at {request.url.path}")

    with served(Application(Service(engine, engine.config), routes=[Route("/", page)])) as port:
        assert send(port, "GET", "/") == (200, b"a page at /")
        assert send(port, "GET", "/", headers={"Host": "evil.example"})[0] == 403


def test_two_hundred_searches_at_once_are_all_answered(port: int) -> None:
    with ThreadPoolExecutor(200) as callers:
        answers = list(callers.map(lambda _: post(port, SEARCH), range(200)))
    assert {status for status, _ in answers} == {200}
    assert {told["result"]["results"][0]["path"] for _, told in answers} == {"a.md"}


def test_an_import_and_waiting_callers_hold_up_no_search(
    engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    engine.refresh()
    free, busy = threading.Event(), threading.Semaphore(0)

    def wait(*_: object, **__: object) -> Freshness:
        busy.release()
        free.wait(DEADLINE)
        return Freshness()

    monkeypatch.setattr(engine, "rebuild", wait)
    monkeypatch.setattr(engine, "refresh", wait)
    calls = [{"jsonrpc": "2.0", "id": 1, "method": method} for method in ("rebuild_index", *["refresh"] * 8)]
    with (
        served(Application(Service(engine, engine.config))) as port,
        ThreadPoolExecutor(len(calls)) as callers,
    ):
        waiting = [callers.submit(post, port, json.dumps(call).encode()) for call in calls]
        try:
            assert all(busy.acquire(timeout=DEADLINE) for _ in calls)
            assert post(port, SEARCH)[1]["result"]["total"] == 1
        finally:
            free.set()
        rebuilt, *refreshed = (each.result()[1]["result"] for each in waiting)
        assert rebuilt == {"waiting": 0, "problem": "", "is_first": False}
        assert {*refreshed} == {0}
