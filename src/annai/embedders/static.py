"""What does a text mean to the bundled model? The sum of its subwords' vectors, at megabytes a second."""

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import AdditiveEmbedder, Embedder, Vectors
from annai.embedders.static_model import open_model
from annai.settings import Embedding

BUNDLED = Path(__file__).parent / "static_data"
"""The folder of the model that comes with annai."""


def create(settings: Embedding, **_: object) -> Embedder:
    """The embedder of the bundled model."""
    return StaticEmbedder(settings.batch_size)


@cache
def token_model() -> "StaticEmbedder":
    """The bundled model, by whose tokens questions and passages are compared, whatever embedder makes the vectors."""
    return StaticEmbedder(0)


class StaticEmbedder(AdditiveEmbedder):
    """Opens its model at once, since that takes milliseconds, and reads only the vectors that texts need."""

    max_text_length = sys.maxsize

    def __init__(self, batch_size: int, folder: Path = BUNDLED) -> None:
        super().__init__(batch_size)
        self._model = open_model(folder)
        self.dimension = self._model.dimension
        self.identity = self._model.identity

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """Add up each text's subwords.

        One text at a time, so that not even the last bit of a vector depends on the batch; batches are hardly faster.
        """
        model = self._model
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for number, text in enumerate(texts):
            for block in model.subwords.encode_blocks(text):
                ids = np.fromiter(block, np.intp)
                sums[number] += model.scales[ids] @ model.vectors[ids].astype(np.float32)
        return sums

    def token_ids(self, text: str) -> NDArray[np.uint16]:
        """The numbers of the text's subwords, its tokens, in its order."""
        return np.array(self._model.subwords.encode(text), np.uint16)

    def token_vectors(self, ids: NDArray[np.integer]) -> Vectors:
        """A row for each token; the longer it is, the more the token counts."""
        vectors, scales = self.unscaled_vectors(ids)
        vectors *= scales[:, None]
        return vectors

    def unscaled_vectors(self, ids: NDArray[np.integer]) -> tuple[Vectors, Vectors]:
        """The same with the scale of each row by itself: where only directions count, that is quicker."""
        # `take` copies whole rows, in a third of the time that indexing needs.
        return self._model.vectors.take(ids, axis=0).astype(np.float32), self._model.scales[ids]
