"""How is one HTTP request made without loading much? Python's own client takes longer to load than a search takes.

It speaks what annai's server and the proxies before one speak: HTTP/1.1 with a length, in chunks or up to the end.
"""

import socket
from typing import BinaryIO, cast

MAX_LINE = 65_536
"""Bytes of a header's line: more is no HTTP."""

MAX_HEADERS = 200


class HttpError(OSError):
    """What answers does not speak HTTP, or ended in the middle."""


class HttpConnection:
    """A connection to a server, which stays open between requests."""

    def __init__(self, host: str, port: int | None) -> None:
        self._host = host
        self._port = port or 80
        self._stream: BinaryIO | None = None
        self.timeout: float | None = None
        self.sock: socket.socket | None = None

    def connect(self) -> None:
        """Open it."""
        # As bytes: for a string Python loads the tables of international names, which an address in ASCII is none of.
        host = cast(str, self._host.encode()) if self._host.isascii() else self._host
        self.sock = socket.create_connection((host, self._port), self.timeout)
        # A request is one message, and nobody is to wait for more of it.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = cast(BinaryIO, self.sock.makefile("rb"))

    def exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send one request; the status and the body of the answer."""
        if self.sock is None or self._stream is None:
            raise HttpError("it is closed")
        host = f"[{self._host}]" if ":" in self._host else self._host
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{self._port}", "Accept-Encoding: identity"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}"] if body is not None else []
        if any("\r" in line or "\n" in line for line in lines):
            raise HttpError("a line break is in what would be sent as one line")
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        status = self._status()
        answered = self._headers()
        content = self._body(self._stream, status, answered)
        if answered.get("connection", "").lower() == "close" or "content-length" not in answered:
            self.close()
        return status, content

    def close(self) -> None:
        """Close it; the next request opens it again."""
        for each in (self._stream, self.sock):
            if each is not None:
                each.close()
        self._stream = self.sock = None

    def _status(self) -> int:
        parts = self._line().split(maxsplit=2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
            raise HttpError("it does not speak HTTP")
        return int(parts[1])

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        while line := self._line():
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
            if len(headers) > MAX_HEADERS:
                raise HttpError("it does not speak HTTP")
        return headers

    def _line(self) -> str:
        line = self._stream.readline(MAX_LINE + 1) if self._stream else b""
        if not line.endswith(b"\n") or len(line) > MAX_LINE:
            raise HttpError("it ended in the middle of its answer" if len(line) <= MAX_LINE else "it speaks no HTTP")
        return line.decode("latin-1").rstrip("\r\n")

    def _body(self, stream: BinaryIO, status: int, headers: dict[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(stream)
        length = headers.get("content-length", "")
        return _read(stream, int(length)) if length.isdecimal() else stream.read()

    def _chunks(self, stream: BinaryIO) -> bytes:
        content = b""
        while True:
            try:
                size = int(self._line().partition(";")[0], 16)
            except ValueError:
                raise HttpError("it does not speak HTTP") from None
            if not size:
                self._headers()
                return content
            content += _read(stream, size)
            self._line()


def _read(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise HttpError("it ended in the middle of its answer")
    return data
