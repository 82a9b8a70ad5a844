"""What does a text mean, at megabytes a second? The bundled model: a text is the sum of its subwords' vectors."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Embedder, Kind, Vectors, normalised
from annai.embedders.static_model import open_model
from annai.settings import Embedding

BUNDLED = Path(__file__).parent / "static_data"


def create(settings: Embedding, **_: object) -> Embedder:
    """The embedder of the bundled model."""
    return StaticEmbedder(settings.batch_size)


class StaticEmbedder(Embedder):
    """Opens its model at once, since that takes milliseconds, and reads from it what texts need."""

    additive = True
    longest_text = sys.maxsize

    def __init__(self, batch_size: int, folder: Path = BUNDLED) -> None:
        super().__init__(batch_size)
        self._model = open_model(folder)
        self.dimension = self._model.dimension
        self.identity = self._model.identity
        self.tokenwise = len(self._model.scales) <= np.iinfo(np.uint16).max + 1

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:  # noqa: ARG002 - queries are texts like others
        """Add up each text's subwords, and scale."""
        return normalised(self.embed_sums(texts))

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """Add up each text's subwords.

        Text by text, so that a vector does not depend on the batch to the last bit; batches are hardly faster.
        """
        model = self._model
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for number, text in enumerate(texts):
            for block in model.subwords.encode_blocks(text):
                ids = np.fromiter(block, np.intp)
                sums[number] += model.scales[ids] @ model.vectors[ids].astype(np.float32)
        return sums

    def token_ids(self, text: str) -> NDArray[np.uint16]:
        """The numbers of the text's subwords."""
        return np.array(self._model.subwords.encode(text), np.uint16)

    def token_vectors(self, ids: NDArray[np.integer]) -> Vectors:
        """The subwords' vectors, as long as the model made them."""
        vectors: Vectors = self._model.vectors[ids] * self._model.scales[ids, None]
        return vectors
