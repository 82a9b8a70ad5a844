"""Which flat chunks do the headings of a document make?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from annai.settings import Chunking
from annai.splitters.cuts import Cuts, character_parts
from annai.splitters.sections import DEEPEST
from annai.splitters.tree import Tree
from annai.text.tokens import count_tokens
from annai.types import Document, Section


def split(document: Document, chunking: Chunking) -> Sequence[Section]:
    """Cut a document at the headings of `heading_levels`, and what is longer than `max_chars` again.

    What is shorter than `min_chars` joins the chunk after it, or the one before it if it is the last; a joined chunk
    has at most `max_chars` + `min_chars` characters, blanks at its edges not counted. Chunks are children of the root.
    """
    tree = Tree(document)
    chunks = [part for chunk in _chunks(document, chunking) for part in _recut(tree, chunk, chunking)]
    chunks = _joined(tree, chunks, chunking)
    root = tree.add(
        None,
        (document.body_start, len(document.text)),
        count_tokens(document.text[document.body_start :]),
        depth=0,
        heading=document.title,
        heading_path=(),
        number=(),
        is_passage=len(chunks) <= 1,
    )
    if not root.is_passage:
        for number, chunk in enumerate(chunks, start=1):
            tree.add(
                root,
                (chunk.start, chunk.end),
                count_tokens(document.text[chunk.start : chunk.end]),
                depth=chunk.depth,
                heading=chunk.heading,
                heading_path=chunk.path,
                number=(number,),
            )
    return tree.sections


@dataclass(frozen=True, slots=True)
class _Chunk:
    start: int
    end: int
    depth: int
    heading: str
    path: tuple[str, ...]


def _chunks(document: Document, chunking: Chunking) -> Iterator[_Chunk]:
    """The text before the first heading, then the text from each heading to the next; they tile the body."""
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
        current = _Chunk(heading.start, 0, min(heading.level, DEEPEST), heading.text, path)
    yield replace(current, end=len(document.text))


def _recut(tree: Tree, chunk: _Chunk, chunking: Chunking) -> Iterator[_Chunk]:
    text = tree.document.text[chunk.start : chunk.end]
    blocks = tree.blocks(chunk.start, chunk.end)
    pack = tree.document.format == "text"
    for start, end in character_parts(text, blocks, chunking.max_chars, pack=pack):
        yield replace(chunk, start=chunk.start + start, end=chunk.start + end)


def _joined(tree: Tree, chunks: Sequence[_Chunk], chunking: Chunking) -> list[_Chunk]:
    """The chunks, with those that are too short joined to a neighbour, whose heading they then carry."""
    text = tree.document.text
    shortest = max(chunking.min_chars, 1)
    joined: list[_Chunk] = []
    start = chunks[0].start
    for chunk in chunks:
        if len(text[start : chunk.end].strip()) >= shortest:
            joined.append(replace(chunk, start=start))
            start = chunk.end
    if not joined:
        return [replace(chunks[0], end=len(text))]
    if start < len(text):
        last = joined.pop()
        joined.extend(_with_tail(tree, last, chunking))
    return joined


def _with_tail(tree: Tree, last: _Chunk, chunking: Chunking) -> list[_Chunk]:
    """The last chunk and the short rest of the text: as one, or as two if that would be too long."""
    whole = replace(last, end=len(tree.document.text))
    text = tree.document.text[whole.start :]
    shortest = max(chunking.min_chars, 1)
    if len(text.strip()) > chunking.max_chars + chunking.min_chars:
        # A short chunk before it has joined it already.
        cuts = Cuts(text, tree.blocks(whole.start, whole.end), lambda block: block[1] - block[0] <= chunking.max_chars)
        cut = cuts.last(shortest, (shortest + chunking.max_chars) // 2, chunking.max_chars)
        if cut and min(len(text[:cut].strip()), len(text[cut:].strip())) >= shortest:
            return [replace(whole, end=whole.start + cut), replace(whole, start=whole.start + cut)]
    return [whole]
