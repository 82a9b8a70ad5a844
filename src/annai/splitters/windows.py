"""Which parts of a page can be shown by themselves? Windows of about a hundred tokens: whole blocks, whole sentences.

A window ends where a block or a sentence does. A block of code stays with the sentence that introduces it, the lines
of an item with the item, and a heading begins a window. No parser is needed: a search cuts the pages that it found.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from annai.definitions import lazy_pattern
from annai.splitters.cuts import character_parts
from annai.types import Format

WINDOW_BYTES = 440
"""About 110 tokens: four letters or a CJK character and a third. Windows of 80 tokens or of 140 do as well."""

MIN_WINDOW_BYTES = 160
"""What is shorter goes with its neighbour."""

MAX_BLOCK_BYTES = 660
"""A longer block is cut."""


class CutWindow(NamedTuple):
    """A part of a page, from the start of a line or sentence on."""

    start: int
    end: int
    heading_start: int
    """Where its heading begins, if it stands right under it; else `start`."""
    heading: str
    """The heading that it stands under, as it is written; empty if it stands before the first."""
    bytes: int
    shares: Mapping[str, float]
    """How much of it is of which kind: text, code, list, table."""


class _Block(NamedTuple):
    start: int
    end: int
    kind: str
    is_bound: bool
    """Whether it belongs to what stands before it."""


def cut_windows(text: str, text_format: Format) -> list[CutWindow]:
    """The windows of a text, in order; what stands between two of them is a heading or blank."""
    windows: list[CutWindow] = []
    heading, heading_start, first, last, size = "", -1, 0, 0, 0
    counts: dict[str, float] = {}

    def close() -> None:
        nonlocal heading_start, counts, size, first
        if not counts:
            return
        begin = first if heading_start < 0 else heading_start
        before = windows[-1] if windows else None
        if before and heading_start < 0 and size < MIN_WINDOW_BYTES and before.bytes + size <= MAX_BLOCK_BYTES:
            del windows[-1]
            for kind, share in before.shares.items():
                counts[kind] = counts.get(kind, 0) + share * before.bytes
            first, begin, size = before.start, before.heading_start, before.bytes + size
        shares = {kind: count / size for kind, count in counts.items()}
        windows.append(CutWindow(first, last, begin, heading, size, shares))
        heading_start, counts, size = -1, {}, 0

    for block in _blocks(text, text_format):
        if block.kind == "heading":
            close()
            heading = text[block.start : block.end].strip().split("\n", 1)[0].strip("# \t\r")
            heading_start = block.start
            continue
        for begin, after in _parts(text, block):
            more = count_bytes(text[begin:after])
            may_grow = size < MIN_WINDOW_BYTES or (block.is_bound and begin == block.start)
            if size + more > WINDOW_BYTES * (2 if may_grow else 1):
                close()
            first = first if counts else begin
            last, size = after, size + more
            counts[block.kind] = counts.get(block.kind, 0) + more
    close()
    return windows


def count_bytes(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _blocks(text: str, text_format: Format) -> Iterator[_Block]:
    """Headings, paragraphs, items of lists, tables and code, line by line."""
    fence, kind, is_bound, lines = "", "", False, 0
    first = last = position = 0
    for line in text.splitlines(keepends=True):
        begin, position = position, position + len(line)
        bare = line.lstrip("> \t").rstrip()
        opening = _FENCE.match(bare) if not fence and ("```" in bare or "~~~" in bare) else None
        if fence:
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
                yield _Block(first, position, kind, is_bound)
                kind = ""
            last = position
            continue
        if opening:
            fence, starts = opening[1], "code"
        elif lines == 1 and kind == "text" and text_format != "text" and _UNDERLINE.match(bare) and bare[0] != "*":
            kind, last, starts = "heading", position, "blank"
        else:
            starts = _kind(bare, text_format)
        if not starts and kind:
            lines, last = lines + 1, position
            continue
        if not starts:
            is_code = text_format != "rst" and len(line) - len(line.lstrip(" \t")) > 3
            starts = "table" if bare[0] == "|" else "code" if is_code else "text"
        if kind:
            yield _Block(first, last, kind, is_bound)
        kind = "" if starts == "blank" else starts
        first, last, lines = begin, position, 1
        is_bound = bool(opening) or line[:1] in " \t"
        if starts == "heading":
            yield _Block(begin, position, kind, False)
            kind = ""
    if kind:
        yield _Block(first, last, kind, is_bound)


def _kind(line: str, text_format: Format) -> str:
    """What a line begins that does not go on with the one before it; nothing of other lines. A label says nothing."""
    if not line or (line[0] in ".(" and line[-1] in ":=" and text_format != "text" and _LABEL.match(line)):
        return "blank"
    if line[0] == "#" and text_format == "markdown" and _HEADING.match(line):
        return "heading"
    return "list" if line[0] in _LIST_MARKS and _ITEM.match(line) else ""


def _parts(text: str, block: _Block) -> Sequence[tuple[int, int]]:
    """A block, or the parts of a long one: as many of its sentences or lines as make a window."""
    inside = text[block.start : block.end]
    size = count_bytes(inside)
    if size <= MAX_BLOCK_BYTES:
        return [(block.start, block.end)]
    # Code and tables are cut where lines end.
    whole = [(0, len(inside))] if block.kind in ("code", "table") else []
    parts = character_parts(inside, whole, max(WINDOW_BYTES * len(inside) // size, 1))
    return [(block.start + first, block.start + last) for first, last in parts]


_LIST_MARKS = frozenset("-*+•0123456789")
_FENCE = lazy_pattern(r"(?:(?:[-*+]|\d{1,9}[.)])\s+)*(`{3,}(?=[^`]*\Z)|~{3,})")
_HEADING = lazy_pattern(r"#{1,6}(?:\s|\Z)")
_LABEL = lazy_pattern(r"\.\. _[^:]+:\Z|\([\w./:-]+\)=\Z")
_ITEM = lazy_pattern(r"(?:[-*+•]|\d{1,9}[.)])\s+\S")
_UNDERLINE = lazy_pattern(r"([=\-~^\"'`#*+.])\1{2,}\Z")
