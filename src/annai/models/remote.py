"""How is a service on the network asked? With patience that ends, and in errors that hold no secret."""

import json
import logging
import math
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from time import sleep
from typing import TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from annai.settings import Retry

logger = logging.getLogger(__name__)

TRANSIENT_CODES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Answers that may be another one soon."""

BUSY_CODES = frozenset({429, 503, 529})
"""Answers that ask for less haste."""

BUSY_FACTOR = 4.0
"""How many times longer to wait where a service is busy and does not say for how long."""

LONGEST_WAIT = 120.0
"""A service that asks for a longer pause is not waited for."""

QUERY_PATIENCE = 15.0
"""Seconds of waiting, in all, while a person or an agent waits for the answer."""

LARGEST_ANSWER = 256 * 1024 * 1024
"""Bytes; a hundred vectors take a few millions."""

LONGEST_REASON = 300
"""Characters of a service's own words that are repeated."""

T = TypeVar("T")


class Refused(Exception):
    """A request that came to nothing: why, and whether asking again may help."""

    def __init__(self, reason: str, *, transient: bool = False, code: int = 0, wait: float | None = None) -> None:
        super().__init__(reason)
        self.transient = transient
        self.code = code
        """The answer's status, if there was an answer."""
        self.wait = wait
        """Seconds that the service asks to wait."""


def retry(call: Callable[[], T], settings: Retry, *, patience: float = math.inf) -> T:
    """Make a call, and make it again while it is `Refused` for a transient reason, each time after a longer wait.

    Raises the last `Refused` when that was often enough, or when waiting would take more than `patience` in all.
    """
    waited = 0.0
    for attempt in range(settings.max_retries + 1):
        try:
            return call()
        except Refused as refused:
            pause = (
                settings.base_delay
                * settings.backoff_factor**attempt
                * (BUSY_FACTOR if refused.code in BUSY_CODES else 1.0)
            )
            pause = pause if refused.wait is None else max(refused.wait, 0.0)
            if not refused.transient or attempt == settings.max_retries or pause > min(LONGEST_WAIT, patience - waited):
                raise
            logger.info("asking again in %.1f seconds: %s", pause, refused)
            waited += pause
            sleep(pause)
    raise AssertionError("a range of at least one has a last attempt")


def post_json(url: str, body: object, *, key: str = "", timeout: float = 60.0) -> object:
    """Send JSON and return the JSON that comes back. Raises `Refused`; the key is in no message."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "annai"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    place = shown_url(url)
    deadline = time.monotonic() + timeout
    try:
        request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - `check_url` has seen it
        with _opener().open(request, timeout=timeout) as response:
            return json.loads(_read(response, deadline))
    except HTTPError as error:
        # The error is itself a response, and holds what the service says.
        said = _said(error, key)
        raise refusal(error.code, error.headers.get("Retry-After"), f"{place} answered {error.code}{said}") from None
    except TimeoutError:
        raise Refused(f"{place} did not answer within {timeout:g} seconds", transient=True) from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise Refused(f"{place} did not answer within {timeout:g} seconds", transient=True) from None
        raise Refused(redact(key, f"{place} cannot be reached ({reason})"), transient=True) from None
    except (HTTPException, ValueError) as error:
        raise Refused(f"{place} sent half an answer or none ({type(error).__name__})", transient=True) from None


def refusal(code: int, retry_after: str | None, reason: str) -> Refused:
    """What an answer that is an error means, going by its status and its header `Retry-After`."""
    wait = _retry_after(retry_after)
    return Refused(reason, transient=code in TRANSIENT_CODES, code=code, wait=wait if code in TRANSIENT_CODES else None)


def check_url(url: str) -> str:
    """The URL as it is to be used, without a slash at its end. Raises `ValueError` for what is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("is not an address such as http://localhost:11434/v1; a user or password cannot be in it")
    return url.rstrip("/")


def shown_url(url: str) -> str:
    """Where a request goes, without anything that could be secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def redact(key: str, text: str) -> str:
    """A text in which the key is not readable, and which is not too long for a message."""
    text = " ".join((text.replace(key, "…") if key else text).split())
    return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + "…"


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would carry the key to another place: it is an error that names the right address."""

    def redirect_request(self, *_: object) -> None:
        """Do not follow."""


def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects)


def _read(response: HTTPResponse, deadline: float) -> bytes:
    """The whole answer; a service that sends it drop by drop is not waited for longer than for one that is silent."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > LARGEST_ANSWER:
            raise ValueError("too large")
    return b"".join(parts)


def _said(error: HTTPError, key: str) -> str:
    """What the service says of an error, as far as that can be understood."""
    try:
        text = error.read(1 << 16).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return ""
    try:
        said = json.loads(text)
        for name in ("error", "message", "detail"):
            said = said.get(name, said) if isinstance(said, dict) else said
        text = said if isinstance(said, str) else text
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
