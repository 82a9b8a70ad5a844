"""Which documents can be read by their address? `annai://COLLECTION/PATH`, a list of them in pages, and a template."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

import mcp_types as types

from annai.errors import NotFound, QueryError
from annai.interfaces.mcp.indexing import searched_names
from annai.project import Project

SCHEME = "annai://"

PAGE_DOCUMENTS = 200
"""Documents in one page of the list."""

TEMPLATE = types.ResourceTemplate(
    uri_template="annai://{collection}/{+path}",
    name="document",
    title="A document",
    description="A document of a collection, by its path; with #1.2 (as %231.2) after it, one section.",
)

_MIME_TYPES = {".md": "text/markdown", ".markdown": "text/markdown", ".mdx": "text/markdown", ".rst": "text/x-rst"}

Listing = list[tuple[str, str]]
"""Collections and paths, in order."""


def documents(project: Project) -> Listing:
    """Every document that a search looks at."""
    return [(name, path) for name in searched_names(project) for path in project.document_paths(name)]


def page(listing: Listing, cursor: str) -> types.ListResourcesResult:
    """The documents that follow the one that the cursor names; a cursor stays good when others come or go."""
    start = 0
    if cursor:
        last = _parts(cursor)
        start = sum(each <= last for each in listing)
    shown = listing[start : start + PAGE_DOCUMENTS]
    more = start + PAGE_DOCUMENTS < len(listing)
    return types.ListResourcesResult(
        resources=[_resource(*each) for each in shown], next_cursor=uri(*shown[-1]) if more else None
    )


def read(project: Project, address: str) -> types.ReadResourceResult:
    """A document's text."""
    collection, path = _parts(address)
    place = project.locate(f"{collection}:{path}")
    if place.document.collection != collection:
        raise NotFound(f"There is no document {path!r} in the collection {collection!r}.")
    is_root = place.section.section.order == 0
    text = place.document.text if is_root else place.text(place.section)
    contents: Sequence[types.TextResourceContents] = [
        types.TextResourceContents(uri=address, mime_type=_mime_type(place.document.path), text=text)
    ]
    return types.ReadResourceResult(contents=list(contents))


def uri(collection: str, path: str) -> str:
    """A document's address."""
    return f"{SCHEME}{collection}/{quote(path)}"


def _parts(address: str) -> tuple[str, str]:
    collection, slash, path = address.removeprefix(SCHEME).partition("/")
    if not address.startswith(SCHEME) or not (collection and slash and path):
        raise QueryError(f"{address[:200]!r} is not the address of a document; write {TEMPLATE.uri_template}.")
    return collection, unquote(path)


def _resource(collection: str, path: str) -> types.Resource:
    return types.Resource(uri=uri(collection, path), name=path, mime_type=_mime_type(path))


def _mime_type(path: str) -> str:
    return _MIME_TYPES.get(PurePosixPath(path).suffix.lower(), "text/plain")
