"""Does the small HTTP client understand whoever answers? Real sockets, with servers that answer in every way."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from annai.serving.http import HttpConnection, HttpError


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """A server that gives these answers over one connection, and then closes it; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as stream:
                for answer in answers:
                    length = 0
                    while (line := stream.readline()) not in (b"\r\n", b""):
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.split(b":")[1])
                    stream.read(length)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def ask(connection: HttpConnection, body: bytes | None = b"{}") -> tuple[int, bytes]:
    if connection.sock is None:
        connection.connect()
    return connection.exchange("POST", "/rpc", body, {"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", (200, b"body")),
        (b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", (401, b"")),
        (b"HTTP/1.0 200 OK\r\n\r\nto the end", (200, b"to the end")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n", (200, b"abcde")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
    ],
)
def test_every_way_to_end_an_answer_is_understood(answer: bytes, expected: tuple[int, bytes]) -> None:
    with answering(answer) as port:
        connection = HttpConnection("127.0.0.1", port)
        assert ask(connection) == expected
        connection.close()


def test_a_connection_is_used_again() -> None:
    one, two = (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number for number in (1, 2))
    with answering(one, two) as port:
        connection = HttpConnection("127.0.0.1", port)
        assert (ask(connection), ask(connection, None)) == ((200, b"1"), (200, b"2"))
        connection.close()


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", b"x" * 70_000]
)
def test_what_is_no_answer_is_an_error(answer: bytes) -> None:
    with answering(answer) as port:
        connection = HttpConnection("127.0.0.1", port)
        with pytest.raises(HttpError):
            ask(connection)
        connection.close()


def test_a_line_break_in_a_header_is_not_sent() -> None:
    with answering() as port:
        connection = HttpConnection("127.0.0.1", port)
        connection.connect()
        with pytest.raises(HttpError):
            connection.exchange("GET", "/", None, {"Authorization": "Bearer a\r\nb: c"})
        connection.close()
