"""Why is a file that is there not in the index? It waits, was skipped, failed, or some rule leaves it out."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

from annai import collection as collections
from annai.asking.addresses import readings
from annai.asking.references import known_sources, meanings
from annai.config import Config
from annai.files.omission import why_omitted
from annai.stores.base import DocumentWriter
from annai.types import Request

MAX_PROCESSING = 10_000
"""Files that are looked through to see whether one is being indexed right now."""


def why_missing(store: DocumentWriter, config: Config, reference: str) -> str:
    """Why a file or folder of a collection is not in the index, as a sentence; empty if it is, or is not there."""
    sources = known_sources(store, config)
    for address in readings(unicodedata.normalize("NFC", reference)):
        for name, path in (each for tier in meanings(sources, config, address.path) for each in tier.items()):
            file = sources[name] / path
            if path in ("", ".") or ".." in Path(path).parts or not _exists(file):
                continue
            if collections.is_hidden(store, config, name, file):
                continue
            if store.document(name, path):
                return ""
            return next(_reasons(store, config, name, sources[name], path), "")
    return ""


def _reasons(store: DocumentWriter, config: Config, name: str, source: Path, path: str) -> Iterator[str]:
    file = collections.file_path(config, source, path)
    being_indexed = (each for each in store.requests.latest("processing", name, MAX_PROCESSING) if each.path == path)
    for request in (*being_indexed, *store.requests.pending(name, [path])):
        yield f"{file} is not indexed yet: {_waiting(request)}."
    state = store.states(name, [path]).get(path)
    if state and state.problem:
        yield f"{file} is not indexed: it {_verb(state.problem.kind)} ({state.problem.reason})."
    without = collections.nested_sources(store, config, name)
    if reason := why_omitted(source, config.files, path, without=without):
        yield f"{file} is not indexed: {reason}."
    else:
        yield f"{file} is not indexed yet: annai has not noticed it; {_INDEX_IT}."


_INDEX_IT = "indexing it alone is quick (`annai index rebuild PATH`, or the tool `reindex` with its path)"


def _waiting(request: Request) -> str:
    if request.status == "processing":
        return "it is being indexed right now; ask again in a moment"
    if request.error and not request.attempts:
        return f"it waits ({request.error})"
    if request.error:
        return f"the last attempt failed ({request.error}), and it is tried again"
    return f"it waits in the queue; {_INDEX_IT}"


def _verb(kind: str) -> str:
    return "was skipped" if kind == "skipped" else "could not be read"


def _exists(file: Path) -> bool:
    try:
        return file.exists() or file.is_symlink()
    except (OSError, ValueError):
        # No file has a name so long, or with a zero byte in it.
        return False
