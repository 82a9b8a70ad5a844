"""How is a document's list of sections built? From the root down, each with its lines and its parent."""

from bisect import bisect_left
from collections.abc import Iterable

from annai.text.lines import Lines
from annai.types import Document, Section


class Tree:
    """The sections of one document so far."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.sections: list[Section] = []
        self._lines = Lines(document.text)
        self._block_starts = [start for start, _ in document.outline.blocks]

    def add(
        self,
        parent: Section | None,
        span: tuple[int, int],
        token_count: int,
        *,
        depth: int,
        heading: str,
        heading_path: tuple[str, ...],
        number: tuple[int, ...],
        piece: int = 0,
        last_depth: int | None = None,
        is_passage: bool = True,
    ) -> Section:
        """Append a section and return it."""
        start, end = span
        start_line, end_line = self._line_range(start, end)
        section = Section(
            order=len(self.sections),
            parent=None if parent is None else parent.order,
            depth=depth,
            heading=heading,
            heading_path=heading_path,
            number=number,
            start=start,
            end=end,
            start_line=start_line,
            end_line=end_line,
            token_count=token_count,
            piece=piece,
            last_depth=depth if last_depth is None else last_depth,
            is_passage=is_passage,
        )
        self.sections.append(section)
        return section

    def add_pieces(self, leaf: Section, pieces: Iterable[tuple[int, int, int]]) -> None:
        """Add the pieces (start, end, tokens) of a leaf; their positions count from its start."""
        for piece, (start, end, tokens) in enumerate(pieces, start=1):
            self.add(
                leaf,
                (leaf.start + start, leaf.start + end),
                tokens,
                depth=leaf.depth,
                heading=leaf.heading,
                heading_path=leaf.heading_path,
                number=leaf.number,
                piece=piece,
                last_depth=leaf.last_depth,
            )

    def blocks(self, start: int, end: int) -> list[tuple[int, int]]:
        """The document's blocks inside a span; their positions count from the start of the span."""
        first = bisect_left(self._block_starts, start)
        after = bisect_left(self._block_starts, end)
        return [(begin - start, min(stop, end) - start) for begin, stop in self.document.outline.blocks[first:after]]

    def _line_range(self, start: int, end: int) -> tuple[int, int]:
        """The first and the last line of a span that are not blank."""
        text = self.document.text[start:end].rstrip()
        first = start + len(text) - len(text.lstrip())
        last = start + max(len(text) - 1, 0)
        return self._lines.number(first), self._lines.number(last)
