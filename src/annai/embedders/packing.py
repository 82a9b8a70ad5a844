"""How are a passage's tokens kept in an index? Packed into bytes, so that a search compares them and reads no text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Embedder
from annai.text.fields import Fields, meaningful_path

MOST_TOKENS, MOST_LABEL_TOKENS = 1024, 64
"""Of a passage's text, and of its title and of its other labels, these many tokens count: it bounds the time."""


def pack_tokens(embedder: Embedder, passages: Sequence[Fields]) -> list[bytes]:
    """The tokens of passages as the index keeps them: two counts, then those of title, labels and text."""
    known: dict[str, NDArray[np.uint16]] = {}

    def label(text: str) -> NDArray[np.uint16]:
        # A title comes again with every passage.
        if text not in known:
            known[text] = embedder.token_ids(text)[:MOST_LABEL_TOKENS]
        return known[text]

    packed = []
    for passage in passages:
        title = label(passage.title)
        labels = np.concatenate([label(meaningful_path(passage.path)), label(passage.headings)])
        counts = np.array([len(title), len(labels)], np.uint16)
        body = embedder.token_ids(passage.body)[:MOST_TOKENS]
        packed.append(np.concatenate([counts, title, labels, body]).astype("<u2").tobytes())
    return packed
