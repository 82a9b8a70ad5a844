"""How does an index hold a passage's tokens? Packed into bytes, so that a search compares them without the text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from annai.embedders.static import StaticEmbedder
from annai.text.fields import Fields, meaningful_path

MAX_BODY_TOKENS = 1024
MAX_LABEL_TOKENS = 64
"""How many tokens count of a passage's text, and of its title, headings and path each: this bounds the time."""


def pack_tokens(embedder: StaticEmbedder, passages: Sequence[Fields]) -> list[bytes]:
    """The tokens of passages as the index holds them: two counts, then the tokens of title, other labels and text."""
    cache: dict[str, NDArray[np.uint16]] = {}

    def label(text: str) -> NDArray[np.uint16]:
        # Every passage of a document has the same title.
        if text not in cache:
            cache[text] = embedder.token_ids(text)[:MAX_LABEL_TOKENS]
        return cache[text]

    packed = []
    for passage in passages:
        title = label(passage.title)
        labels = np.concatenate([label(meaningful_path(passage.path)), label(passage.headings)])
        counts = np.array([len(title), len(labels)], np.uint16)
        body = embedder.token_ids(passage.body)[:MAX_BODY_TOKENS]
        packed.append(np.concatenate([counts, title, labels, body]).astype("<u2").tobytes())
    return packed
