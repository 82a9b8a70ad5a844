"""What does a path or an id mean? The document or section it names, or the parts of collections under it."""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from annai import collection as collections
from annai.config import Config
from annai.errors import NotFound, QueryError
from annai.stores.base import DocumentReader
from annai.stores.paths import trim_prefix
from annai.types import Collection, Selection

Part = tuple[Collection, Sequence[str] | None]
"""A collection and paths of it; None for all of it."""

MAX_SUGGESTIONS = 3
"""Paths that "did you mean" offers."""

_SECTION_MARK = re.compile(r"#(?P<number>\d{1,9}(?:\.\d{1,9})*)?(?:~(?P<piece>\d{1,9}))?\Z")


def locate(store: DocumentReader, config: Config, reference: str) -> Selection:
    """Find a document or a section: `PATH`, `COLLECTION:PATH` or either with `#1.2` after it."""
    _check_named(reference)
    for collection, path, number, piece in _interpretations(store, config, reference):
        sections = store.sections(collection, path)
        document = store.document(collection, path)
        if document is None:
            continue
        for stored in sections:
            if stored.section.number == number and stored.section.piece == piece:
                return Selection(document, sections, stored)
        raise NotFound(
            f"{path} has no section {'.'.join(map(str, number))}; `annai get {path} --children` lists its sections."
        )
    raise NotFound(f"There is no document {reference!r} in the index{_suggestion(store, config, reference)}")


def find_parts(store: DocumentReader, config: Config, paths: Sequence[str]) -> list[Part]:
    """Which parts of which collections are under these paths; all of them, if no path is given."""
    searched = collections.searchable(store, config)
    if not paths:
        return [(collection, None) for collection in searched]
    sources = collections.sources(store, config)
    parts: dict[str, list[str]] = {}
    for path in paths:
        _check_named(path)
        meanings = [(name, inner) for name, inner, number, _ in _interpretations(store, config, path) if not number]
        existing = (
            (name, inner)
            for name, inner in dict.fromkeys(meanings)
            if _exists(sources[name], inner) or store.states(name, [inner])
        )
        name, inner = next(existing, ("", ""))
        if not name:
            suggestion = _suggestion(store, config, path)
            raise NotFound(f"There is no file or folder {path!r} in a collection{suggestion}")
        parts.setdefault(name, []).append(inner)
    return [
        (collection, None if "." in parts[collection.name] else parts[collection.name])
        for collection in searched
        if collection.name in parts
    ]


def _check_named(reference: str) -> None:
    if not reference.partition("#")[0].strip():
        raise QueryError("The path is empty; give one as `annai search` shows it.")


def _interpretations(
    store: DocumentReader, config: Config, reference: str
) -> Iterator[tuple[str, str, tuple[int, ...], int]]:
    """Everything a reference can mean, likeliest first, as collection, path, section number and piece.

    File names may contain `:` and `#` too.
    """
    known = [each.name for each in collections.searchable(store, config)]
    sources = collections.sources(store, config)
    text = unicodedata.normalize("NFC", reference)
    readings: list[tuple[str, tuple[int, ...], int]] = [(text, (), 0)]
    if mark := _SECTION_MARK.search(text):
        number = tuple(map(int, mark["number"].split("."))) if mark["number"] else ()
        readings.append((text[: mark.start()], number, int(mark["piece"] or 0)))
    for path, number, piece in readings:
        for name in known:
            yield name, trim_prefix(path), number, piece
            # As a search shows it: relative to the current folder. This only rewrites the path; no file is opened.
            yield name, Path(os.path.relpath(path, sources[name])).as_posix(), number, piece
        name, _, rest = path.partition(":")
        if name in known:
            yield name, trim_prefix(rest), number, piece


def _exists(source: Path, path: str) -> bool:
    """Whether the collection's folder has such a file or folder; the file is not read."""
    return not path.startswith("..") and not Path(path).is_absolute() and (source / path).exists()


def _suggestion(store: DocumentReader, config: Config, reference: str) -> str:
    """The end of a sentence about a missing path: similar paths, if there are any."""
    import difflib  # only where something is not found

    paths = [
        path
        for collection in collections.searchable(store, config)
        for path, state in store.states(collection.name).items()
        if state.problem is None
    ]
    wanted = _SECTION_MARK.sub("", reference)
    similar = difflib.get_close_matches(wanted, paths, n=MAX_SUGGESTIONS, cutoff=0.5)
    similar += [path for path in paths if path.rpartition("/")[2] == wanted.rpartition("/")[2]]
    return f"; did you mean {' or '.join(dict.fromkeys(similar[:MAX_SUGGESTIONS]))}?" if similar else "."
