"""How does an index hold a passage's tokens? Packed into bytes, so that a search compares them without the text."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Vectors
from annai.embedders.static import StaticEmbedder
from annai.text.fields import Fields, meaningful_path

MAX_BODY_TOKENS = 1024
MAX_LABEL_TOKENS = 64
"""How many tokens count of a passage's text, and of its title, headings and path each: this bounds the time."""


def pack_tokens(embedder: StaticEmbedder, passages: Sequence[Fields]) -> list[bytes]:
    """The tokens of passages as the index holds them: two counts, then the tokens of title, other labels and text."""
    tokens = TextTokens(embedder)
    return [tokens.pack(passage) for passage in passages]


class TextTokens:
    """The tokens of texts, each cut only once: a document's passages have the same title, and vectors need them too."""

    def __init__(self, embedder: StaticEmbedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.uint16]] = {}

    def __getitem__(self, text: str) -> NDArray[np.uint16]:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._embedder.token_ids(text)
        return known

    def sums(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder.embed_sums`."""
        return self._embedder.sum_tokens([self[text] for text in texts])

    def pack(self, passage: Fields) -> bytes:
        """The tokens of a passage as the index holds them."""
        title = self[passage.title][:MAX_LABEL_TOKENS]
        labels = [self[text][:MAX_LABEL_TOKENS] for text in (meaningful_path(passage.path), passage.headings)]
        counts = np.array([len(title), sum(map(len, labels))], np.uint16)
        body = self[passage.body][:MAX_BODY_TOKENS]
        return np.concatenate([counts, title, *labels, body]).astype("<u2", copy=False).tobytes()
