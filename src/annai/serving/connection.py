"""How is a server spoken to? JSON-RPC over one HTTP connection, and every error in words."""

import http.client
import time
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from annai import __version__, errors
from annai.errors import AnnaiError, ConfigError, QueryError, ServerError
from annai.serving.wire import decode, from_json, plain, to_json

T = TypeVar("T")

CALL_SECONDS = 60.0
"""How long an answer may take; only imports have no limit."""

IDLE_SECONDS = 2.0
"""A connection that rested longer is opened anew: the server may be about to close it."""

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
    return answer if status == http.HTTPStatus.OK and isinstance(answer, dict) else None


class Connection:
    """One connection to a server, kept open between calls; an answer may take so many seconds."""

    def __init__(self, url: str, token: str, seconds: float = CALL_SECONDS) -> None:
        self.url = url
        self._seconds = seconds
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            self._address = parts.hostname or "", parts.port
        except ValueError:
            self._address = "", None
        if parts.scheme not in ("http", "https") or not self._address[0]:
            raise ConfigError(f"{url!r} is not the address of a server; write one like http://127.0.0.1:24280.")
        self._secure = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self._token = token
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0
        self._calls = 0

    def copy(self) -> Self:
        """Another connection to the same server."""
        return type(self)(self.url, self._token, self._seconds)

    def get(self, kind: type[T], method: str, *, endless: bool = False, **params: object) -> T:
        """Make a call, and decode what it returns."""
        result = self.call(method, endless=endless, **params)
        try:
            return decode(kind, result, f"the result of {method}")
        except QueryError as error:
            raise self._other_version(str(error)) from error

    def call(self, method: str, *, endless: bool = False, **params: object) -> Any:  # noqa: ANN401 - JSON
        """Make a call, and return its result as plain values; its error is raised as the server raised it."""
        self._calls += 1
        message = {"jsonrpc": "2.0", "id": self._calls, "method": method, "params": plain(params)}
        status, body = self.send("POST", "/rpc", to_json(message), endless=endless)
        try:
            answer = from_json(body)
        except ValueError as error:
            raise ServerError(f"What answers at {self.url} is no annai server (HTTP {status}).") from error
        if not isinstance(answer, dict):
            raise ServerError(f"What answers at {self.url} is no annai server (HTTP {status}).")
        if status == http.HTTPStatus.UNAUTHORIZED:
            raise ServerError(f"The server at {self.url} asks for its token: write it as server.token in annai.toml.")
        if status != http.HTTPStatus.OK:
            raise ServerError(f"The server at {self.url} refused the call: {answer.get('error', status)}")
        if "error" in answer:
            raise self._error(method, answer["error"])
        return answer.get("result")

    def send(self, method: str, path: str, body: bytes | None = None, *, endless: bool = False) -> tuple[int, bytes]:
        """Send one request; the status and the body of the answer."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection = self._open(None if endless else self._seconds)
            connection.request(method, self._path + path, body, headers)
            response = connection.getresponse()
            answer = response.status, response.read()
        except TimeoutError as error:
            self.close()
            raise ServerError(
                f"The server at {self.url} did not answer within {self._seconds:.0f} seconds; "
                "`annai server status` tells how it stands, `annai server restart` starts it anew."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ServerError(
                f"The server at {self.url} does not answer ({reason}); "
                "`annai server status` tells how it stands, `annai server start` starts one."
            ) from error
        self._used = time.monotonic()
        return answer

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def _open(self, seconds: float | None) -> http.client.HTTPConnection:
        """The connection, with this time limit from now on."""
        if self._connection and time.monotonic() - self._used > IDLE_SECONDS:
            self.close()
        if not self._connection:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            self._connection = kind(*self._address)
        self._connection.timeout = seconds
        if self._connection.sock is None:
            self._connection.connect()
        else:
            self._connection.sock.settimeout(seconds)
        return self._connection

    def _error(self, method: str, error: Any) -> AnnaiError:  # noqa: ANN401 - JSON
        message, data = error.get("message", ""), error.get("data") or {}
        kind = getattr(errors, str(data.get("kind")), None)
        if isinstance(kind, type) and issubclass(kind, AnnaiError):
            return kind(message)
        if error.get("code") == UNKNOWN_METHOD:
            return self._other_version(f"it does not know {method}")
        return ServerError(f"The server at {self.url} failed: {message}")

    def _other_version(self, reason: str) -> ServerError:
        return ServerError(
            f"The server at {self.url} is not of this annai's version, {__version__} ({reason.rstrip('.')}); "
            "`annai server restart` starts the right one."
        )
