"""How is a document cut into flat chunks at its headings?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from annai.definitions import dataclass
from annai.settings import Chunking
from annai.splitters.cuts import Cuts, character_parts, token_pieces
from annai.splitters.sections import MAX_DEPTH
from annai.splitters.tree import Tree
from annai.text.tokens import count_tokens
from annai.types import Document, Section


def split(document: Document, chunking: Chunking) -> Sequence[Section]:
    """Cut a document at the headings of `heading_levels`, and chunks longer than `max_chars` again.

    A chunk shorter than `min_chars` joins the next one, or the one before it if it is the last. A joined chunk has at
    most `max_chars` + `min_chars` characters, not counting blanks at its edges. Chunks are children of the root; one
    of more than `size` tokens has overlapping pieces.
    """
    tree = Tree(document)
    chunks = [part for chunk in _chunks(document, chunking) for part in _split_long(tree, chunk, chunking)]
    chunks = _merge_short(tree, chunks, chunking)
    whole = _Chunk(document.body_start, len(document.text), 0, document.title, ())
    root = _add(tree, None, whole, (), chunking, is_leaf=len(chunks) <= 1)
    for number, chunk in enumerate(chunks if len(chunks) > 1 else (), start=1):
        _add(tree, root, chunk, (number,), chunking)
    return tree.sections


@dataclass(frozen=True, slots=True)
class _Chunk:
    start: int
    end: int
    depth: int
    heading: str
    path: tuple[str, ...]


def _add(
    tree: Tree,
    parent: Section | None,
    chunk: _Chunk,
    number: tuple[int, ...],
    chunking: Chunking,
    *,
    is_leaf: bool = True,
) -> Section:
    """Add a chunk; a leaf that is too long gets its pieces."""
    text = tree.document.text[chunk.start : chunk.end]
    count = count_tokens(text)
    pieces: list[tuple[int, int, int]] = []
    if is_leaf and count > chunking.size:
        pieces = token_pieces(text, tree.blocks(chunk.start, chunk.end), chunking.size, chunking.overlap)
    section = tree.add(
        parent,
        (chunk.start, chunk.end),
        count,
        depth=chunk.depth,
        heading=chunk.heading,
        heading_path=chunk.path,
        number=number,
        is_passage=is_leaf and len(pieces) <= 1,
    )
    if len(pieces) > 1:
        tree.add_pieces(section, pieces)
    return section


def _chunks(document: Document, chunking: Chunking) -> Iterator[_Chunk]:
    """The text before the first heading, then the text from each heading to the next; together they are the body."""
    current = _Chunk(document.body_start, 0, 1, document.title, ())
    above: list[tuple[int, str]] = []
    for heading in document.outline.headings:
        if heading.level not in chunking.heading_levels or heading.start < document.body_start:
            continue
        yield replace(current, end=heading.start)
        while above and above[-1][0] >= heading.level:
            above.pop()
        above.append((heading.level, heading.text))
        path = tuple(text for _, text in above)
        current = _Chunk(heading.start, 0, min(heading.level, MAX_DEPTH), heading.text, path)
    yield replace(current, end=len(document.text))


def _split_long(tree: Tree, chunk: _Chunk, chunking: Chunking) -> Iterator[_Chunk]:
    text = tree.document.text[chunk.start : chunk.end]
    blocks = tree.blocks(chunk.start, chunk.end)
    pack = tree.document.format == "text"
    for start, end in character_parts(text, blocks, chunking.max_chars, pack=pack):
        yield replace(chunk, start=chunk.start + start, end=chunk.start + end)


def _merge_short(tree: Tree, chunks: Sequence[_Chunk], chunking: Chunking) -> list[_Chunk]:
    """The chunks, with those that are too short merged into a neighbour, whose heading counts."""
    text = tree.document.text
    min_chars = max(chunking.min_chars, 1)
    merged: list[_Chunk] = []
    start = chunks[0].start
    for chunk in chunks:
        if len(text[start : chunk.end].strip()) >= min_chars:
            merged.append(replace(chunk, start=start))
            start = chunk.end
    if not merged:
        return [replace(chunks[0], end=len(text))]
    if start < len(text):
        last = merged.pop()
        merged.extend(_append_tail(tree, last, chunking))
    return merged


def _append_tail(tree: Tree, last: _Chunk, chunking: Chunking) -> list[_Chunk]:
    """The last chunk with the short rest of the text: one chunk, or two if it would be too long."""
    whole = replace(last, end=len(tree.document.text))
    text = tree.document.text[whole.start :]
    min_chars = max(chunking.min_chars, 1)
    if len(text.strip()) > chunking.max_chars + chunking.min_chars:
        # A short chunk was merged into it before.
        cuts = Cuts(text, tree.blocks(whole.start, whole.end), lambda block: block[1] - block[0] <= chunking.max_chars)
        cut = cuts.best(min_chars, (min_chars + chunking.max_chars) // 2, chunking.max_chars)
        if cut and min(len(text[:cut].strip()), len(text[cut:].strip())) >= min_chars:
            return [replace(whole, end=whole.start + cut), replace(whole, start=whole.start + cut)]
    return [whole]
