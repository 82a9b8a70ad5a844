"""How is a server called? JSON-RPC over HTTP, and every error in words."""

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from annai import __version__, errors
from annai.errors import AnnaiError, ConfigError, QueryError, ServerError
from annai.serving.http import HttpConnection, HttpError
from annai.serving.wire import from_json, plain, to_json
from annai.values import Json, decode

if TYPE_CHECKING:
    from http.client import HTTPSConnection

T = TypeVar("T")

CALL_SECONDS = 60.0
"""How long an answer may take; only imports have no limit."""

IDLE_SECONDS = 2.0
"""A connection that rested longer is opened anew: the server may be about to close it."""

OK, UNAUTHORIZED = 200, 401
"""HTTP's."""

UNKNOWN_METHOD = -32601


def health(url: str, seconds: float, challenge: str = "") -> dict[str, Any] | None:
    """What the server at a URL says of itself, and its proof for a challenge; None if none answers."""
    connection = Connection(url, "", seconds)
    try:
        status, body = connection.send("GET", f"/health?challenge={challenge}")
        answer = from_json(body)
    except (ServerError, ValueError):
        return None
    finally:
        connection.close()
    return answer if status == OK and isinstance(answer, dict) else None


class Connection:
    """The way to a server: its connections stay open between calls. Several threads may call at once."""

    def __init__(self, url: str, token: str = "", seconds: float = CALL_SECONDS) -> None:
        """An answer may take this many seconds."""
        self.url = url
        self._seconds = seconds
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            self._address = parts.hostname or "", parts.port
        except ValueError:
            parts, self._address = urlsplit(""), ("", None)
        if parts.scheme not in ("http", "https") or not self._address[0]:
            raise ConfigError(f"{url!r} is not the address of a server", "write one like http://127.0.0.1:24280.")
        self._secure = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self._token = token
        self._idle: list[tuple[float, HttpConnection | HTTPSConnection]] = []
        """The connections that nobody uses now, and when each was last used; the latest stands last."""
        self._is_closed = False
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def get(self, kind: type[T], method: str, *, endless: bool = False, **params: object) -> T:
        """Make a call, and decode what it returns."""
        result = self.call(method, endless=endless, **params)
        try:
            return decode(kind, result, f"the result of {method}")
        except QueryError as error:
            raise self._other_version(str(error)) from error

    def call(self, method: str, *, endless: bool = False, **params: object) -> Json:
        """Make a call, and return its result as plain values; its error is raised as the server raised it."""
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": plain(params)}
        status, body = self.send("POST", "/rpc", to_json(message), endless=endless)
        try:
            answer = from_json(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ServerError(
                f"What answers at {self.url} is no annai server (HTTP {status})", "check the address and its port."
            )
        if status == UNAUTHORIZED:
            raise ServerError(f"The server at {self.url} needs its token", "set ANNAI_TOKEN to it.")
        if status != OK:
            raise ServerError(f"The server at {self.url} refused the call: {answer.get('error', status)}")
        if "error" in answer:
            raise self._error(method, answer["error"])
        return answer.get("result")

    def send(self, method: str, path: str, body: bytes | None = None, *, endless: bool = False) -> tuple[int, bytes]:
        """Send one request; the status and the body of the answer."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._take()
        try:
            self._set_timeout(connection, None if endless else self._seconds)
            answer = _exchange(connection, method, self._path + path, body, headers)
        except TimeoutError as error:
            connection.close()
            raise ServerError(
                f"The server at {self.url} did not answer within {self._seconds:.0f} seconds",
                "`annai server status` shows its state, `annai server restart` restarts it.",
            ) from error
        except (OSError, ValueError) as error:
            connection.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ServerError(
                f"The server at {self.url} does not answer ({reason})",
                "`annai server status` shows its state, `annai server start` starts one.",
            ) from error
        with self._lock:
            if not self._is_closed:
                self._idle.append((time.monotonic(), connection))
                return answer
        connection.close()
        return answer

    def close(self) -> None:
        """Close the connections; one that a thread is still waiting with, when it is done."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _take(self) -> "HttpConnection | HTTPSConnection":
        """A connection for one call: the one used last, unless it rested for too long; else a new one."""
        with self._lock:
            while self._idle:
                used_at, connection = self._idle.pop()
                if time.monotonic() - used_at <= IDLE_SECONDS:
                    return connection
                connection.close()
        if not self._secure:
            return HttpConnection(*self._address)
        from http.client import HTTPSConnection  # takes longer to load than a search takes

        return HTTPSConnection(*self._address)

    @staticmethod
    def _set_timeout(connection: "HttpConnection | HTTPSConnection", seconds: float | None) -> None:
        """Let the connection wait this long from now on; open it if it is new."""
        connection.timeout = seconds
        if connection.sock is None:
            connection.connect()
        else:
            connection.sock.settimeout(seconds)

    def _error(self, method: str, error: Json) -> AnnaiError:
        message, data = error.get("message", ""), error.get("data") or {}
        kind = getattr(errors, str(data.get("kind")), None)
        if isinstance(kind, type) and issubclass(kind, AnnaiError):
            remedy = str(data.get("remedy", ""))
            return kind(message.removesuffix(f"; {remedy}"), remedy) if remedy else kind(message)
        if error.get("code") == UNKNOWN_METHOD:
            return self._other_version(f"it does not know {method}")
        return ServerError(f"The server at {self.url} failed: {message}")

    def _other_version(self, reason: str) -> ServerError:
        return ServerError(
            f"The server at {self.url} runs another version than this annai, {__version__} ({reason.rstrip('.')})",
            "`annai server restart` starts the right one.",
        )


def _exchange(
    connection: "HttpConnection | HTTPSConnection", method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes]:
    """One request over a connection, and its answer; whatever goes wrong is an `OSError`."""
    if isinstance(connection, HttpConnection):
        return connection.exchange(method, path, body, headers)
    from http.client import HTTPException

    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except HTTPException as error:
        raise HttpError(str(error) or type(error).__name__) from error
