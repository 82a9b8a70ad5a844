"""What does a path or an id mean? The document, section or lines it names, or the parts of collections under it."""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath

from annai import collection as collections
from annai.asking.addresses import Address, anchors, make_anchor, readings
from annai.asking.query import MAX_DEPTH
from annai.config import Config
from annai.errors import NotFound, QueryError
from annai.files.pages import page_name, page_span
from annai.stores.base import DocumentReader
from annai.stores.paths import path_prefixes, trim_prefix
from annai.text.lines import Lines
from annai.text.tokens import count_tokens
from annai.types import Collection, Document, Heading, Selection, StoredSection

Part = tuple[Collection, Sequence[str] | None]
"""A collection and paths of it; None for all of it."""

MAX_SUGGESTIONS = 3
"""Paths that "did you mean" offers."""

NOT_STORED = -1
"""The order of a section that the index has only as a part of another."""

MAX_COMPARED = 200
"""Paths that are compared letter by letter to find those."""

_EXPLICIT_ANCHOR = re.compile(r"\{(?:#|/\*\s*#?)([^\s{}*]+)")
"""An anchor that a heading's line gives itself: `{#id}`, or `{/*id*/}` in MDX."""


def locate(store: DocumentReader, config: Config, reference: str) -> Selection:
    """Find a document, a section or some lines, by any address that annai prints, or by a name that only one has."""
    sources = known_sources(store, config)
    missing: NotFound | None = None
    addresses = readings(unicodedata.normalize("NFC", reference))
    places = (
        (address, *each)
        for address in addresses
        for tier in meanings(sources, config, address.path)
        for each in tier.items()
    )
    for address, name, path in chain(places, _by_name(store, sources, config, reference, addresses)):
        document = store.document(name, path)
        if document is None:
            continue
        try:
            file = collections.file_path(config, sources[name], path)
            return _select(document, store.sections(name, path), address, file)
        except NotFound as error:
            missing = missing or error
    if missing:
        raise missing
    _check_named(reference)
    raise NotFound(f"There is no document {reference!r} in the index{_suggestion(store, config, reference)}")


def find_parts(store: DocumentReader, config: Config, paths: Sequence[str]) -> list[Part]:
    """Which parts of which collections are under these paths; all of them, if no path is given."""
    searched = collections.searchable(store, config)
    if not paths:
        return [(collection, None) for collection in searched]
    sources = {each.name: each.source for each in searched}
    parts: dict[str, list[str]] = {}
    for path in paths:
        existing = find_existing(store, sources, config, path)
        named = {name: inner for name, inner in existing.items() if inner}
        if not named:
            _check_named(path)
            suggestion = _suggestion(store, config, path, with_folders=True)
            raise NotFound(f"There is no file or folder {path!r} in a collection{suggestion}")
        for name, inner in named.items():
            parts.setdefault(name, []).append(inner)
    return [
        (collection, None if "." in parts[collection.name] else parts[collection.name])
        for collection in searched
        if collection.name in parts
    ]


def find_existing(store: DocumentReader, sources: Mapping[str, Path], config: Config, reference: str) -> dict[str, str]:
    """The files or folders that a path names, as collection → path in it; of a section or some lines, their file.

    `.` is all of a collection, and the empty path is a folder around it.
    """
    text = unicodedata.normalize("NFC", reference)
    for address in readings(text):
        for tier in meanings(sources, config, address.path):
            found = {
                name: inner
                for name, inner in tier.items()
                if inner in ("", ".") or _exists(sources[name], inner) or store.states(name, [inner])
                if not collections.is_hidden(store, config, name, sources[name] / inner)
            }
            if found:
                return found
    return {}


def meanings(sources: Mapping[str, Path], config: Config, path: str) -> Iterator[dict[str, str]]:
    """Everything a path can mean, likeliest first: each time as collection → path in it.

    It is absolute; or from the project's root, as a search shows it; or in a collection's folder; or from the current
    folder; or it begins with a collection's name. This only rewrites the path; no file is opened.
    """
    is_absolute = os.path.isabs(path)  # noqa: PTH117 - a string as it was typed
    if is_absolute:
        yield _inside(sources, path)
        # It may lead through a symbolic link, or be what no file is called.
        with suppress(ValueError):
            yield _inside(sources, os.path.realpath(path))
    else:
        # Before the collections' folders: from the root, a path names one file only.
        yield _inside(sources, os.path.join(config.root, path))  # noqa: PTH118 - as above
    if inner := trim_prefix(path):
        yield dict.fromkeys(sources, inner)
    if not is_absolute:
        yield _inside(sources, os.path.abspath(path))  # noqa: PTH100 - as above
    name, colon, rest = path.partition(":")
    if colon and name in sources:
        yield {name: trim_prefix(rest) or "."}


def similar_paths(store: DocumentReader, names: Sequence[str], wanted: str, *, with_folders: bool = True) -> list[str]:
    """Paths of documents and folders that end with the same name, and then those that are spelled almost so."""
    import difflib  # only where something is not found
    import heapq

    documents = [path for name in names for path, state in store.states(name).items() if state.problem is None]
    paths = [*dict.fromkeys(each for path in documents for each in path_prefixes(path))] if with_folders else documents
    wanted = trim_prefix(wanted)
    # Comparing two paths letter by letter takes a tenth of a millisecond: only those are compared that have the most
    # pairs of letters in common.
    pairs = _letter_pairs(wanted)
    likely = heapq.nlargest(MAX_COMPARED, paths, key=lambda path: _overlap(pairs, _letter_pairs(path)))
    close = difflib.get_close_matches(wanted, likely, n=MAX_SUGGESTIONS, cutoff=0.5)
    name = wanted.rpartition("/")[2]
    same = [path for path in paths if name in (last := path.rpartition("/")[2], last.rpartition(".")[0])]
    # Of several that have the name, those that also lie in much the same folders.
    same.sort(key=lambda path: path not in close)
    return [*dict.fromkeys((*same, *close))][:MAX_SUGGESTIONS]


def _letter_pairs(path: str) -> set[str]:
    return {path[index : index + 2] for index in range(max(len(path) - 1, 1))}


def _overlap(pairs: set[str], others: set[str]) -> float:
    return len(pairs & others) / (len(pairs) + len(others))


def _by_name(
    store: DocumentReader, sources: Mapping[str, Path], config: Config, reference: str, addresses: Sequence[Address]
) -> Iterator[tuple[Address, str, str]]:
    """The one document whose path ends so, with or without its ending; asked for when no path leads to one.

    A file that is there and not indexed is not taken for another of its name.
    """
    if find_existing(store, sources, config, reference):
        return
    for address in addresses:
        wanted = "/" + trim_prefix(address.path)
        paths = [
            (name, path)
            for name in sources
            for path, state in store.states(name).items()
            if state.problem is None or state.problem.kind != "skipped"
        ]
        named = [each for each in paths if f"/{each[1]}".endswith(wanted)]
        named = named or [each for each in paths if f"/{PurePosixPath(each[1]).with_suffix('')}".endswith(wanted)]
        if len(named) > 1:
            several = len({name for name, _ in named}) > 1
            shown = [f"{name}:{path}" if several else path for name, path in named[:MAX_SUGGESTIONS]]
            more = f" and {len(named) - len(shown):,} more" if len(named) > len(shown) else ""
            raise NotFound(
                f"{len(named):,} documents are called {address.path!r}",
                f"name the folder too: {', '.join(shown)}{more}.",
            )
        yield from ((address, *each) for each in named)


def known_sources(store: DocumentReader, config: Config) -> dict[str, Path]:
    """Where the files of every collection are; those that searches skip come last."""
    known = sorted(collections.registered(store, config), key=lambda each: not each.enabled)
    return {each.name: each.source for each in known or collections.searchable(store, config)}


def _select(document: Document, sections: Sequence[StoredSection], address: Address, file: str) -> Selection:
    """What an address names in its document."""
    if address.line is not None and address.last_line:
        return _select_lines(document, sections, address.line, address.last_line, file)
    if address.line is not None:
        return _select_around(document, sections, address.line, file)
    if address.page:
        return _select_page(document, sections, address.page, file)
    if address.anchor:
        headings = _headings(document)
        index = _anchor_index(document, headings, address.anchor)
        return _select_heading(document, sections, headings, index, Lines(document.text), file)
    for stored in sections:
        section = stored.section
        if section.number == address.number and section.piece == address.piece:
            line = section.start_line if section.order else 1
            return Selection(document, sections, stored, _span(document, stored), line, file=file)
    number = ".".join(map(str, address.number))
    raise NotFound(
        f"{document.path} has no section {number}", f"`annai get {document.path} --children` lists its sections."
    )


def _select_lines(document: Document, sections: Sequence[StoredSection], first: int, last: int, file: str) -> Selection:
    """Some lines and the innermost section around them; without a last one, the innermost that holds the first."""
    text = document.text
    starts = [*Lines(text).starts, len(text)]
    if len(starts) > 2 and starts[-2] == len(text):
        # What follows the last line end is no line.
        starts.pop()
    count = len(starts) - 1
    if 1 <= last < first:
        raise QueryError(f"Lines {first}-{last} end before they begin", f"write {document.path}:{last}-{first}.")
    if not 1 <= first <= count:
        lines = f"{first}-{last}" if last else f"{first}"
        raise NotFound(f"{document.path} has no line {lines}", f"it ends at line {count}.")
    start, end = starts[first - 1], starts[first]
    holding = [
        each
        for each in sections
        if not each.section.piece and each.section.start < end and (each.section.end > start or start == end)
    ]
    text_end = len(text[: starts[min(last, count)]].rstrip())
    around = [each for each in holding if each.section.end >= text_end] if last else holding
    stored = (around or holding or sections[:1])[-1]
    span = (start, starts[min(last, count)]) if last else _span(document, stored)
    return Selection(document, sections, stored, span, first, min(last, count), file)


def _select_around(document: Document, sections: Sequence[StoredSection], line: int, file: str) -> Selection:
    """The whole section under the heading that a line stands under; above all headings, what the line is in."""
    found = _select_lines(document, sections, line, 0, file)
    headings, lines = _headings(document), Lines(document.text)
    above = [
        index for index, each in enumerate(headings) if each.level <= MAX_DEPTH and lines.number(each.start) <= line
    ]
    if not above:
        return found
    return replace(_select_heading(document, sections, headings, above[-1], lines, file), line=line)


def _select_heading(
    document: Document,
    sections: Sequence[StoredSection],
    headings: Sequence[Heading],
    index: int,
    lines: Lines,
    file: str,
) -> Selection:
    """All that stands under a heading, up to the next one of its level or above."""
    text, heading = document.text, headings[index]
    end = next((each.start for each in headings[index + 1 :] if each.level <= heading.level), len(text))
    line = lines.number(heading.start)
    around = [
        each
        for each in sections
        if not each.section.piece and each.section.start <= heading.start and each.section.end >= end
    ]
    stored = around[-1] if around else sections[0]
    section = stored.section
    if section.end > end or text[section.start : heading.start].strip():
        # The index has it as a part of a larger one: it is short, or its heading is deep.
        path, level = [heading.text], heading.level
        for each in reversed(headings[:index]):
            if each.level < level:
                path, level = [each.text, *path], each.level
        section = section._replace(
            order=NOT_STORED,
            parent=section.order,
            depth=min(heading.level, MAX_DEPTH),
            heading=heading.text,
            heading_path=tuple(path),
            start=heading.start,
            end=end,
            start_line=line,
            end_line=lines.number(heading.start + len(text[heading.start : end].rstrip()) - 1),
            token_count=count_tokens(text[heading.start : end]),
        )
        stored = stored._replace(section=section)
    return Selection(document, sections, stored, _span(document, stored), line, file=file)


def _select_page(document: Document, sections: Sequence[StoredSection], page: int, file: str) -> Selection:
    """A page's text, and the innermost section around its beginning."""
    span = page_span(document.path, document.text, page)
    if span is None:
        raise NotFound(f"{document.path} has no {page_name(document.path, page)}.")
    lines = Lines(document.text)
    first, last = lines.number(span[0]), lines.number(max(span[0], span[1] - 1))
    return replace(_select_lines(document, sections, first, last, file), span=span)


def _span(document: Document, stored: StoredSection) -> tuple[int, int]:
    """The positions of a section; of the root, those of the whole file."""
    section = stored.section
    return (section.start, section.end) if section.order else (0, len(document.text))


def _headings(document: Document) -> Sequence[Heading]:
    from annai.text.outline import outline  # the parser, which nothing else here needs

    return outline(document.text, document.format, document.body_start).headings


def _anchor_index(document: Document, headings: Sequence[Heading], anchor: str) -> int:
    """Which heading has this anchor, by GitHub's rule or because it says so itself."""
    wanted = make_anchor(anchor)
    for index, (heading, own) in enumerate(zip(headings, anchors([each.text for each in headings]), strict=True)):
        explicit = _EXPLICIT_ANCHOR.search(document.text, heading.start, heading.end)
        if own == wanted or (explicit and explicit[1].removesuffix("*/") == anchor):
            return index
    raise NotFound(
        f"{document.path} has no heading #{anchor}", f"`annai get {document.path} --children` lists its sections."
    )


def _check_named(reference: str) -> None:
    if not reference.partition("#")[0].strip():
        raise QueryError("The path is empty", "give one as `annai search` shows it.")


def _inside(sources: Mapping[str, Path], path: str) -> dict[str, str]:
    """Where an absolute path lies in collections: `.` if it is their folder, empty if it is around it."""
    found: dict[str, str] = {}
    for name, source in sources.items():
        try:
            inner = Path(os.path.relpath(path, source)).as_posix()
        except ValueError:
            continue  # another drive, or a zero byte
        if not inner.startswith(".."):
            found[name] = inner
        elif not inner.strip("./"):
            found[name] = ""
    return found


def _exists(source: Path, path: str) -> bool:
    """Whether the collection's folder has such a file or folder; the file is not read."""
    if path.startswith("..") or Path(path).is_absolute():
        return False
    try:
        return (source / path).exists()
    except (OSError, ValueError):
        # No file has a name so long, or with a zero byte in it.
        return False


def _suggestion(store: DocumentReader, config: Config, reference: str, *, with_folders: bool = False) -> str:
    """The end of a sentence about a missing path: similar paths, if there are any."""
    names = [collection.name for collection in collections.searchable(store, config)]
    paths = [each.path for each in readings(reference)]
    similar = similar_paths(store, names, min(paths, key=len, default=reference), with_folders=with_folders)
    return f"; did you mean {' or '.join(similar)}?" if similar else "."
