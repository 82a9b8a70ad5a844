"""What does a text mean to the bundled model? The sum of its subwords' vectors, at megabytes a second."""

import sys
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import AdditiveEmbedder, Embedder, Vectors
from annai.embedders.static_model import StaticModel, open_model
from annai.settings import Embedding

BUNDLED = Path(__file__).parent / "static_data"
"""The folder of the model that comes with annai."""

BLOCK_TOKENS = 8_192
"""A long text is added up in blocks of this size, so that memory does not grow with the text."""


def create(settings: Embedding, **_: object) -> Embedder:
    """The embedder of the bundled model."""
    return StaticEmbedder(settings.batch_size)


@cache
def _bundled_model() -> StaticModel:
    """Opened once: the default embedder and `token_model` share what they know of words."""
    return open_model(BUNDLED)


@cache
def token_model() -> "StaticEmbedder":
    """The bundled model, by whose tokens questions and passages are compared, whatever embedder makes the vectors."""
    return StaticEmbedder(0)


class StaticEmbedder(AdditiveEmbedder):
    """Opens its model at once, since that takes milliseconds, and reads only the vectors that texts need."""

    max_text_length = sys.maxsize

    def __init__(self, batch_size: int, folder: Path = BUNDLED) -> None:
        super().__init__(batch_size)
        self._model = _bundled_model() if folder == BUNDLED else open_model(folder)
        self.dimension = self._model.dimension
        self.identity = self._model.identity

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """Add up each text's subwords."""
        return self.sum_tokens([self.token_ids(text) for text in texts])

    def sum_tokens(self, texts: Sequence[NDArray[np.uint16]]) -> Vectors:
        """As `embed_sums`, for texts whose tokens are known.

        One text at a time, so that not even the last bit of a vector depends on the batch; batches are hardly faster.
        """
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for number, ids in enumerate(texts):
            for start in range(0, len(ids), BLOCK_TOKENS):
                block = ids[start : start + BLOCK_TOKENS]
                rows = self._model.vectors.take(block, axis=0).astype(np.float32)
                sums[number] += self._model.scales[block] @ rows
        return sums

    def token_ids(self, text: str) -> NDArray[np.uint16]:
        """The numbers of the text's subwords, its tokens, in its order."""
        return np.fromiter(chain.from_iterable(self._model.subwords.encode_blocks(text)), np.uint16)

    def token_vectors(self, ids: NDArray[np.integer]) -> Vectors:
        """A row for each token; the longer it is, the more the token counts."""
        vectors, scales = self.unscaled_vectors(ids)
        vectors *= scales[:, None]
        return vectors

    def unscaled_vectors(self, ids: NDArray[np.integer]) -> tuple[Vectors, Vectors]:
        """The same with the scale of each row by itself: where only directions count, that is quicker."""
        # `take` copies whole rows, in a third of the time that indexing needs.
        return self._model.vectors.take(ids, axis=0).astype(np.float32), self._model.scales[ids]
