"""How does the server show its page? The page itself, what it is made of, images of documents, and what changes.

The page holds nothing of the project: that comes over /rpc and /events, which ask for the token where there is one.
"""

import asyncio
import os
import posixpath
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from annai.engine import Engine
from annai.errors import AnnaiError
from annai.files.reader import read_inside
from annai.interfaces.callers import CALLER, FORWARDED, LOCAL_OWNER, Caller
from annai.interfaces.page.documents import IMAGE_TYPES
from annai.interfaces.page.keys import Keys
from annai.interfaces.page.peers import user_of
from annai.interfaces.page.words import LANGUAGES, preferred_language, words
from annai.project import waiting_files
from annai.serving.wire import to_json

if TYPE_CHECKING:
    from jinja2 import Template

FOLDER = Path(__file__).parent

PUBLIC_PATHS = ("/", "/session", "/image", "/assets/")
"""What needs no token: it holds nothing of the project, or asks for a key of its own. A `/` at the end is a folder."""

POLL_SECONDS = 0.2
"""How often to look for what changed, while somebody watches."""

SILENCE_SECONDS = 15.0
"""After this long without news an empty line is sent: it shows whether the page is still there."""

MAX_STREAMS = 32
"""Streams of changes that one token may have open: each asks the index five times a second."""

LANGUAGE_COOKIE = "annai_language"
TICKET_HEADER = "x-annai-ticket"

_HEADERS = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
}
_PAGE_HEADERS = {
    **_HEADERS,
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_IMAGE_HEADERS = {
    **_HEADERS,
    # An SVG that is opened by itself is a document with scripts.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "cache-control": "private, no-cache",
}


class Page:
    """The routes of one project's page."""

    def __init__(
        self,
        engine: Engine,
        *,
        keys: Keys,
        engine_of: Callable[[Caller], Engine] | None = None,
        still_knows: Callable[[Caller], bool] = lambda _: True,
        on_use: Callable[[], None] = lambda: None,
    ) -> None:
        """`engine_of` gives the project as a caller finds it, `still_knows` whether the caller's token still holds."""
        self._engine = engine
        self._engine_of = engine_of or (lambda _: engine)
        self._still_knows = still_knows
        self._keys = keys
        self._on_use = on_use
        self._closing = asyncio.Event()
        self._streams: Counter[Caller] = Counter()
        self.routes: list[BaseRoute] = [
            Route("/", self._page, methods=["GET"]),
            Route("/session", self._session, methods=["POST"]),
            Route("/image", self._image, methods=["GET"]),
            Route("/events", self._events, methods=["GET"]),
            Mount("/assets", _Assets(directory=FOLDER / "assets")),
        ]

    def close(self) -> None:
        """End what watches for changes."""
        self._closing.set()

    @cached_property
    def _template(self) -> "Template":
        from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only a server whose page is opened needs it

        folder = FileSystemLoader(FOLDER / "templates")
        return Environment(loader=folder, autoescape=True, undefined=StrictUndefined).get_template("page.html")

    async def _page(self, request: Request) -> Response:
        self._on_use()
        chosen = request.cookies.get(LANGUAGE_COOKIE, "")
        language = chosen if chosen in LANGUAGES else preferred_language(request.headers.get("accept-language", ""))
        html = self._template.render(language=language, languages=LANGUAGES, words=words(language))
        return Response(html, headers=_PAGE_HEADERS, media_type="text/html")

    async def _session(self, request: Request) -> Response:
        """Give the token for a ticket."""

        def is_own_user() -> bool:
            is_direct = not any(each in request.headers for each in FORWARDED)
            user = user_of(request.scope["client"], request.scope["server"])
            return is_direct and hasattr(os, "getuid") and user == os.getuid()

        ticket = request.headers.get(TICKET_HEADER, "")
        token = await asyncio.to_thread(self._keys.redeem_ticket, ticket, is_own_user)
        if token is None:
            error = "This ticket was used, is too old, or is another user's; run `annai open` again."
            return Response(to_json({"error": error}), 403)
        return Response(to_json({"token": token}), headers={**_HEADERS, "cache-control": "no-store"})

    async def _image(self, request: Request) -> Response:
        at, key = request.query_params.get("at", ""), request.query_params.get("key", "")
        if not self._keys.fits(key, at):
            return Response("The address of this image is not one that the page made.", 403, _IMAGE_HEADERS)
        kind = IMAGE_TYPES.get(posixpath.splitext(at)[1].lower())
        try:
            data = await asyncio.to_thread(self._read_image, at) if kind else None
        except (AnnaiError, KeyError, OSError, ValueError):
            data = None
        if data is None:
            return Response("There is no such image.", 404, _IMAGE_HEADERS)
        return Response(data, headers=_IMAGE_HEADERS, media_type=kind)

    def _read_image(self, at: str) -> bytes:
        collection, _, path = at.partition(":")
        source = self._engine.sources()[collection]
        return read_inside(source, source / path, self._engine.config.files)[0]

    async def _events(self, request: Request) -> Response:
        caller = request.scope.get(CALLER) or LOCAL_OWNER
        if self._streams[caller] >= MAX_STREAMS:
            error = f"This token has {MAX_STREAMS} streams of changes open; close one, such as a tab of the page."
            return Response(to_json({"error": error}), 429, _HEADERS, "application/json")
        return StreamingResponse(
            self._news(caller), headers={**_HEADERS, "cache-control": "no-store"}, media_type="text/event-stream"
        )

    async def _news(self, caller: Caller) -> AsyncIterator[bytes]:
        """What the queue does, as server-sent events: at once, and whenever it changes."""
        last, silent = b"", 0.0
        engine = self._engine_of(caller)
        self._streams[caller] += 1
        try:
            while not self._closing.is_set() and self._still_knows(caller):
                self._on_use()
                news = await asyncio.to_thread(self._state, engine)
                if news != last or silent >= SILENCE_SECONDS:
                    yield b"data: " + news + b"\n\n" if news != last else b": still here\n\n"
                    last, silent = news, 0.0
                try:
                    await asyncio.wait_for(self._closing.wait(), POLL_SECONDS)
                except TimeoutError:
                    silent += POLL_SECONDS
        finally:
            self._streams[caller] -= 1

    @staticmethod
    def _state(engine: Engine) -> bytes:
        """What waits, what is being indexed, and a value that differs whenever answers may differ."""
        try:
            requests = engine.store.requests
            counts = requests.counts()
            newest = requests.latest("completed", limit=1)
            processing = requests.latest("processing", limit=3)
            collections = engine.list_collections()
        except AnnaiError as error:
            return to_json({"problem": str(error)})
        return to_json(
            {
                "waiting": waiting_files(counts),
                "indexing": [each.path for each in processing],
                "version": [
                    *sorted(counts.items()),
                    *((each.id, each.status) for each in newest),
                    *((each.name, each.enabled, each.imported_at) for each in collections),
                ],
            }
        )


class _Assets(StaticFiles):
    """Styles and scripts: part of the program, so nothing of them is secret."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, which the browser may keep but asks about each time."""
        response = await super().get_response(path, scope)
        response.headers.update({**_HEADERS, "cache-control": "no-cache"})
        return response
