"""What does a path or an id mean? The document or section it names, and the parts of collections that lie under it."""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from annai import collection as collections
from annai.config import Config
from annai.errors import NotFound, QueryError
from annai.stores.base import Store
from annai.stores.paths import trim_prefix
from annai.types import Collection, Selection

Part = tuple[Collection, Sequence[str] | None]
"""A collection and paths of it; None for all of it."""

_SECTION_MARK = re.compile(r"#(?P<number>\d+(?:\.\d+)*)?(?:~(?P<piece>\d+))?\Z")


def locate(store: Store, config: Config, reference: str) -> Selection:
    """Find a document or a section: `PATH`, `COLLECTION:PATH` or either with `#1.2` after it."""
    if not reference.partition("#")[0].strip():
        raise QueryError("No document is named; give a path as `annai search` shows it.")
    for collection, path, number, piece in _readings(store, config, reference):
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
    raise NotFound(f"There is no document {reference!r} in the index{_similar_paths(store, config, reference)}")


def parts_under(store: Store, config: Config, paths: Sequence[str]) -> list[Part]:
    """Which parts of which collections lie under these paths; all of them, if none is given."""
    searched = collections.searchable(store, config)
    if not paths:
        return [(collection, None) for collection in searched]
    sources = collections.sources(store, config)
    parts: dict[str, list[str]] = {}
    for path in paths:
        readings = [(name, inner) for name, inner, number, _ in _readings(store, config, path) if not number]
        found = [
            (name, inner)
            for name, inner in dict.fromkeys(readings)
            if _is_inside(sources[name], inner) or store.states(name, [inner])
        ]
        if not found:
            similar = _similar_paths(store, config, path)
            raise NotFound(f"There is no file or folder {path!r} in a collection{similar}")
        parts.setdefault(found[0][0], []).append(found[0][1])
    return [
        (collection, None if "." in parts[collection.name] else parts[collection.name])
        for collection in searched
        if collection.name in parts
    ]


def _readings(store: Store, config: Config, reference: str) -> Iterator[tuple[str, str, tuple[int, ...], int]]:
    """Everything a reference can mean, likeliest first: file names may hold `:` and `#` too."""
    known = [each.name for each in collections.searchable(store, config)]
    sources = collections.sources(store, config)
    text = unicodedata.normalize("NFC", reference)
    marks: list[tuple[str, tuple[int, ...], int]] = [(text, (), 0)]
    if mark := _SECTION_MARK.search(text):
        number = tuple(map(int, mark["number"].split("."))) if mark["number"] else ()
        marks.append((text[: mark.start()], number, int(mark["piece"] or 0)))
    for path, number, piece in marks:
        for name in known:
            yield name, trim_prefix(path), number, piece
            # As shown by a search: relative to the current folder. Only a way to spell it; no file is opened.
            yield name, Path(os.path.relpath(path, sources[name])).as_posix(), number, piece
        name, _, rest = path.partition(":")
        if name in known:
            yield name, trim_prefix(rest), number, piece


def _is_inside(source: Path, path: str) -> bool:
    """Whether the collection's folder has such a file or folder; nothing is read of it."""
    return not path.startswith("..") and not Path(path).is_absolute() and (source / path).exists()


def _similar_paths(store: Store, config: Config, reference: str) -> str:
    """The end of the sentence that says that a path is not there."""
    paths = [
        path
        for collection in collections.searchable(store, config)
        for path, state in store.states(collection.name).items()
        if state.problem is None
    ]
    import difflib  # only where something is not found

    wanted = _SECTION_MARK.sub("", reference)
    close = difflib.get_close_matches(wanted, paths, n=3, cutoff=0.5)
    close += [path for path in paths if path.rpartition("/")[2] == wanted.rpartition("/")[2]]
    return f"; did you mean {' or '.join(dict.fromkeys(close[:3]))}?" if close else "."
