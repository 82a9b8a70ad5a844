"""How is a service on the network called? With a limited number of retries, and with errors that contain no secret."""

import json
import logging
import math
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from time import sleep
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from annai.settings import Retry
from annai.text.nesting import parse_json
from annai.timer import timer

logger = logging.getLogger(__name__)

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""A retry may succeed after these."""

BUSY_STATUSES = frozenset({429, 503, 529})
"""The service asks callers to slow down."""

BUSY_FACTOR = 4.0
"""How many times longer to wait when a service is busy and does not say for how long."""

MAX_WAIT_SECONDS = 120.0
"""When a service asks for a longer pause, annai gives up."""

MAX_QUERY_WAIT_SECONDS = 15.0
"""The same for all pauses together while a person or an agent waits for the answer."""

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""A hundred vectors take a few million bytes."""

MAX_DETAIL_CHARACTERS = 300
"""How much of a service's own error message is quoted."""

Json = Any
"""Whatever `parse_json` returns."""

T = TypeVar("T")


class ServiceError(Exception):
    """A request to a service failed; says why, and whether a retry may help."""

    def __init__(
        self, reason: str, *, transient: bool = False, status: int = 0, retry_after: float | None = None
    ) -> None:
        super().__init__(reason)
        self.transient = transient
        self.status = status
        """The status of the response; 0 if there was none."""
        self.retry_after = retry_after
        """Seconds that the service asks to wait, if it does."""


def retry(call: Callable[[], T], settings: Retry, *, max_wait: float = math.inf) -> T:
    """Call, and call again while it raises a transient `ServiceError`, each time after a longer pause.

    Raises the last `ServiceError` after `max_retries`, or when all pauses together would exceed `max_wait` seconds.
    """
    waited = 0.0
    for attempt in range(settings.max_retries + 1):
        try:
            return call()
        except ServiceError as error:
            pause = (
                settings.base_delay
                * settings.backoff_factor**attempt
                * (BUSY_FACTOR if error.status in BUSY_STATUSES else 1.0)
            )
            pause = pause if error.retry_after is None else max(error.retry_after, 0.0)
            is_last = attempt == settings.max_retries
            if not error.transient or is_last or pause > min(MAX_WAIT_SECONDS, max_wait - waited):
                raise
            logger.info("retrying in %.1f seconds: %s", pause, error)
            waited += pause
            sleep(pause)
    raise AssertionError("a range of at least one has a last attempt")


def post_json(
    url: str,
    body: object,
    *,
    texts: int,
    key: str = "",
    key_header: str = "",
    timeout: float = 60.0,
    deadline: float | None = None,
) -> Json:
    """Send JSON and return the JSON of the response. Raises `ServiceError`; no message contains the key.

    The key is sent as a bearer token, or in a header of its own. `texts` says for the log how many are sent.
    `deadline` is when the time of several requests together ends, `timeout` how long it was: what an error names.
    """
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "annai"}
    if key:
        headers |= {key_header: key} if key_header else {"Authorization": f"Bearer {key}"}
    address = redact_url(url)
    late = f"{address} did not answer within {timeout:g} seconds"
    now = time.monotonic()
    deadline = now + timeout if deadline is None else deadline
    try:
        with timer("request", f"texts={texts}, {address}"):
            request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - `check_url` allows only http(s)
            # A socket that may not wait at all would not even connect.
            with _opener().open(request, timeout=max(deadline - now, 0.001)) as response:
                return parse_json(_read(response, deadline))
    except HTTPError as error:
        with error:  # it is itself the response
            answer = f"{address} answered {error.code}{_detail(error, key)}"
        raise status_error(error.code, error.headers.get("Retry-After"), answer) from None
    except TimeoutError:
        raise ServiceError(late, transient=True) from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise ServiceError(late, transient=True) from None
        raise ServiceError(redact(key, f"{address} cannot be reached ({reason})"), transient=True) from None
    except (HTTPException, ValueError) as error:
        raise ServiceError(
            f"{address} sent an incomplete or invalid answer ({type(error).__name__})", transient=True
        ) from None


def status_error(status: int, retry_after: str | None, reason: str) -> ServiceError:
    """The error that a response's status and its header `Retry-After` mean."""
    transient = status in TRANSIENT_STATUSES
    wait = _retry_after(retry_after) if transient else None
    return ServiceError(reason, transient=transient, status=status, retry_after=wait)


def check_url(url: str, setting: str) -> str:
    """The URL without a slash at its end. Raises `ValueError`, with the setting's name, if it is not an HTTP URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError(
            f"{setting} must be a URL such as http://localhost:11434/v1, without a user or password; "
            "correct it in annai.toml."
        )
    return url.rstrip("/")


def redact_url(url: str) -> str:
    """A URL without the parts that could be secret: user, password, query and fragment."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def redact(key: str, text: str) -> str:
    """A text without the key, and short enough for a message."""
    text = " ".join((text.replace(key, "…") if key else text).split())
    return text if len(text) <= MAX_DETAIL_CHARACTERS else text[:MAX_DETAIL_CHARACTERS] + "…"


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would send the key to another address: it becomes an error instead."""

    def redirect_request(self, *_: object) -> None:
        """Do not follow."""


def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects)


def _read(response: HTTPResponse, deadline: float) -> bytes:
    """The whole response; the deadline also holds for a service that sends a few bytes at a time."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > MAX_RESPONSE_BYTES:
            raise ValueError("too large")
    return b"".join(parts)


def _detail(error: HTTPError, key: str) -> str:
    """The service's own error message, as far as it can be found in the response."""
    try:
        text = error.read(1 << 16).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return ""
    try:
        detail = parse_json(text)
        for name in ("error", "message", "detail"):
            detail = detail.get(name, detail) if isinstance(detail, dict) else detail
        text = detail if isinstance(detail, str) else text
    except ValueError:
        pass
    return f": {redact(key, text)}" if text.strip() else ""


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a number or a date."""
    try:
        return None if value is None else float(value)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(value or "").timestamp() - time.time()
    except (ValueError, TypeError):
        return None
