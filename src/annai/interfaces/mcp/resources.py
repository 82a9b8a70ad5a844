"""Which documents can be read as resources? `annai://COLLECTION/PATH`: a list in pages, a template, and completion."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

import mcp_types as types

from annai.asking.addresses import SCHEME
from annai.errors import NotFound, QueryError
from annai.interfaces.mcp.documents import full_text
from annai.interfaces.mcp.indexing import searched_names
from annai.project import Project

PAGE_DOCUMENTS = 200
"""Documents in one page of the list."""

MAX_COMPLETIONS = 100
"""The protocol allows no more."""

TEMPLATE = types.ResourceTemplate(
    uri_template="annai://{collection}/{+path}",
    name="document",
    title="A document",
    description="A document of a collection, by its path; with #1.2 (as %231.2) after it, one section.",
)

_MIME_TYPES = {".md": "text/markdown", ".markdown": "text/markdown", ".mdx": "text/markdown", ".rst": "text/x-rst"}

Listing = list[tuple[str, str]]
"""Collections and paths, in order."""


def list_documents(project: Project) -> Listing:
    """Every document that a search covers."""
    return [(name, path) for name in searched_names(project) for path in project.document_paths(name)]


def list_page(project: Project, cursor: str) -> types.ListResourcesResult:
    """The documents after the one that the cursor names; a cursor stays valid when documents come or go."""
    last_name, last_path = _parse_uri(cursor) if cursor else ("", "")
    found: Listing = []
    for name in searched_names(project):
        if name >= last_name and len(found) <= PAGE_DOCUMENTS:
            after = last_path if name == last_name else ""
            paths = project.document_paths(name, after, PAGE_DOCUMENTS + 1 - len(found))
            found += [(name, path) for path in paths]
    documents = found[:PAGE_DOCUMENTS]
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=document_uri(collection, path), name=path, mime_type=_mime_type(path))
            for collection, path in documents
        ],
        next_cursor=document_uri(*documents[-1]) if len(found) > len(documents) else None,
    )


def complete(project: Project, argument: str, text: str, given: Mapping[str, str]) -> types.Completion:
    """What may stand for `collection` or `path`, of the template or a prompt, if it begins with this text."""
    names = searched_names(project)
    if argument == "collection":
        values = names
    elif argument == "path":
        # Until the collection is chosen, a path of any.
        chosen = [given["collection"]] if given.get("collection") in names else names
        values = [*dict.fromkeys(path for name in chosen for path in project.document_paths(name))]
    else:
        values = []
    matching = [each for each in values if each.lower().startswith(text.lower())]
    matching = matching or [each for each in values if text.lower() in each.lower()]
    return types.Completion(
        values=matching[:MAX_COMPLETIONS], total=len(matching), has_more=len(matching) > MAX_COMPLETIONS
    )


def read_resource(project: Project, uri: str) -> types.ReadResourceResult:
    """A document's text."""
    collection, path = _parse_uri(uri)
    selection = project.locate(f"{collection}:{path}")
    document = selection.document
    if document.collection != collection:
        raise NotFound(
            f"There is no document {path!r} in the collection {collection!r}", "`list_documents` names them."
        )
    text = full_text(selection, selection.section)
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=_mime_type(document.path), text=text)]
    )


def document_uri(collection: str, path: str) -> str:
    """A document's URI."""
    return f"{SCHEME}{quote(collection)}/{quote(path)}"


def _parse_uri(uri: str) -> tuple[str, str]:
    """The collection and the path of a URI."""
    collection, slash, path = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or not (collection and slash and path):
        raise QueryError(f"{uri[:200]!r} is not the address of a document", f"write {TEMPLATE.uri_template}.")
    return unquote(collection), unquote(path)


def _mime_type(path: str) -> str:
    return _MIME_TYPES.get(PurePosixPath(path).suffix.lower(), "text/plain")
