"""How is a document cut into a tree of sections at its headings?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from annai.settings import Chunking
from annai.splitters.cuts import token_pieces
from annai.splitters.tree import Tree
from annai.text.positions import TokenPositions
from annai.text.readable import readable
from annai.types import Document, Heading, Section

MAX_DEPTH = 3
"""Sections have depth 0–3, and so has the text between the sections of depth 3."""


def split(document: Document, chunking: Chunking) -> Sequence[Section]:
    """Cut a document at its headings, and sections that are still too long into pieces.

    Parts under `min_tokens` stay inside their parent. A document with a single chapter is stored once, as the root.
    """
    return _SectionBuilder(document, chunking).build()


@dataclass(slots=True)
class _Part:
    """The root, or the text under one heading. `first` and `after` are edges: indexes of headings, from 1 on."""

    first: int
    after: int
    depth: int
    heading: str
    path: tuple[str, ...]
    number: tuple[int, ...]
    last_depth: int
    parts: list["_Part"] = field(default_factory=list)
    """Every part directly below, small ones included."""


class _SectionBuilder:
    def __init__(self, document: Document, chunking: Chunking) -> None:
        self._document = document
        self._chunking = chunking
        self._tree = Tree(document)
        text, body = document.text, document.body_start
        headings = [
            heading
            for heading in document.outline.headings
            if heading.level <= min(chunking.max_depth, MAX_DEPTH) and heading.start >= body
        ]
        self._headings = headings
        self._parts = _parts(headings)
        # Every section begins and ends at an edge, a line's start, which no token crosses.
        self._edges = [body, *(heading.start for heading in headings), len(text)]
        self._positions = TokenPositions(text)
        self._tokens = [self._positions.index(edge) for edge in self._edges]

    def build(self) -> list[Section]:
        self._add(None, self._root())
        return self._tree.sections

    def _root(self) -> _Part:
        """The whole body; if it is a single chapter, the root takes that chapter's place."""
        parts = [part for part in self._parts if len(part.number) == 1]
        root = _Part(0, len(self._edges) - 1, 0, self._document.title, (), (), 0, parts)
        if parts and self._is_blank(0, 1):
            if len(parts) == 1:
                root.path, root.last_depth, root.parts = parts[0].path, parts[0].depth, parts[0].parts
            else:
                parts[0].first = 0
        return root

    def _add(self, parent: Section | None, part: _Part) -> None:
        children = [child for child in part.parts if self._count(child.first, child.after) >= self._chunking.min_tokens]
        if not children:
            self._add_leaf(parent, part)
            return
        section = self._add_section(parent, part, is_passage=False)
        edge = part.first
        for child in children:
            self._add_rest(section, part, edge, child.first)
            self._add(section, child)
            edge = child.after
        self._add_rest(section, part, edge, part.after)

    def _add_rest(self, section: Section, part: _Part, first: int, after: int) -> None:
        """Make a leaf of the text of a section that is in none of its children."""
        if first == after:
            return
        depth = min(part.depth + 1, MAX_DEPTH)
        if first == part.first:
            rest = _Part(first, after, depth, part.heading, part.path, (*part.number, 0), depth)
        else:
            # A single small part keeps its own heading; several together have their parent's.
            small = self._parts[first - 1]
            if small.after == after:
                rest = small
            else:
                rest = _Part(first, after, depth, part.heading, part.path, small.number, depth)
        if self._has_body(first, after):
            self._add_leaf(section, rest)
        else:
            self._add_section(section, rest, is_passage=False)

    def _add_leaf(self, parent: Section | None, part: _Part) -> None:
        pieces: list[tuple[int, int, int]] = []
        if self._count(part.first, part.after) > self._chunking.max_tokens:
            start, end = self._edges[part.first], self._edges[part.after]
            blocks = self._tree.blocks(start, end)
            text = self._document.text[start:end]
            size = min(self._chunking.size, self._chunking.max_tokens)
            tokens = self._positions.part(start, end)
            pieces = token_pieces(text, blocks, size, min(self._chunking.overlap, size // 2), tokens)
        # Parts that stayed inside are found at their own depth by the section that holds them.
        inside = [heading.level for heading in self._headings[max(part.first - 1, 0) : part.after - 1]]
        part.last_depth = max(part.last_depth, *inside) if inside else part.last_depth
        leaf = self._add_section(parent, part, is_passage=len(pieces) <= 1)
        if not leaf.is_passage:
            self._tree.add_pieces(leaf, pieces)

    def _add_section(self, parent: Section | None, part: _Part, *, is_passage: bool) -> Section:
        return self._tree.add(
            parent,
            (self._edges[part.first], self._edges[part.after]),
            self._count(part.first, part.after),
            depth=part.depth,
            heading=part.heading,
            heading_path=part.path,
            number=part.number,
            last_depth=part.last_depth,
            is_passage=is_passage,
        )

    def _count(self, first: int, after: int) -> int:
        return self._tokens[after] - self._tokens[first]

    def _has_body(self, first: int, after: int) -> bool:
        """Whether there is anything to read but headings between two edges."""
        starts = (self._headings[edge - 1].end if edge else self._edges[0] for edge in range(first, after))
        ends = self._edges[first + 1 : after + 1]
        return any(self._is_read(start, end) for start, end in zip(starts, ends, strict=True))

    def _is_blank(self, first: int, after: int) -> bool:
        return not self._is_read(self._edges[first], self._edges[after])

    def _is_read(self, start: int, end: int) -> bool:
        return bool(readable(self._document.text[start:end], self._document.format).strip())


def _parts(headings: Sequence[Heading]) -> list[_Part]:
    """One part for each heading, in order, with the parts below it."""
    found: list[_Part] = []
    top: list[_Part] = []
    above: list[_Part] = []
    for edge, heading in enumerate(headings, start=1):
        while above and above[-1].depth >= heading.level:
            above.pop().after = edge
        siblings = above[-1].parts if above else top
        path = (*above[-1].path, heading.text) if above else (heading.text,)
        number = (*above[-1].number, len(siblings) + 1) if above else (len(siblings) + 1,)
        part = _Part(edge, len(headings) + 1, heading.level, heading.text, path, number, heading.level)
        siblings.append(part)
        above.append(part)
        found.append(part)
    return found
