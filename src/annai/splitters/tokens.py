"""How is a document cut into windows of equal size?"""

from collections.abc import Sequence

from annai.settings import Chunking
from annai.splitters.tree import Tree
from annai.text.positions import TokenPositions
from annai.types import Document, Section


def split(document: Document, chunking: Chunking) -> Sequence[Section]:
    """Cut a document into windows of `size` tokens, each sharing `overlap` tokens with the one before.

    The windows are the pieces of the root. A document that fits into one window has no pieces.
    """
    tree = Tree(document)
    body = document.text[document.body_start :]
    tokens = TokenPositions(body)
    windows = _windows(len(tokens), chunking.size, chunking.overlap)
    root = tree.add(
        None,
        (document.body_start, len(document.text)),
        len(tokens),
        depth=0,
        heading=document.title,
        heading_path=(),
        number=(),
        is_passage=len(windows) <= 1,
    )
    if not root.is_passage:
        edges = [0, *tokens.starts[1:], len(body)]
        tree.add_pieces(root, ((edges[first], edges[after], after - first) for first, after in windows))
    return tree.sections


def _windows(length: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Ranges of tokens: the first has tokens 0 to size - 1, each next one begins size - overlap tokens later."""
    step = max(size - overlap, 1)
    windows: list[tuple[int, int]] = []
    for first in range(0, length, step):
        windows.append((first, min(first + size, length)))
        if first + size >= length:
            break  # the next window would be inside this one
    return windows
