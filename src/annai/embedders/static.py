"""What does a text mean to the bundled model? The sum of its subwords' vectors, at megabytes a second."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
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

MANY_TEXTS = 100
"""So many texts are of many documents, or of a long one."""

COMPARED_TOKENS = 128
"""Tokens whose vectors are compared with others at a time."""


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
        self._unscaled_lengths = np.zeros(len(self._model.scales), np.float32)
        """The length of each row of the model that was compared yet; 0 if it was not."""

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """Add up each text's subwords."""
        return self._add_up([self.token_ids(text) for text in texts], self._model.rows.take)

    def sum_tokens(self, texts: Sequence[NDArray[np.uint16]]) -> Vectors:
        """As `embed_sums`, for texts whose tokens are known; many need most rows of the file, so it is read itself."""
        is_few = len(texts) < MANY_TEXTS
        return self._add_up(
            texts, self._model.rows.take if is_few else lambda ids: self._model.vectors.take(ids, axis=0)
        )

    def _add_up(
        self, texts: Sequence[NDArray[np.uint16]], take: Callable[[NDArray[np.uint16]], NDArray[np.int8]]
    ) -> Vectors:
        """The sum of each text's rows.

        One text at a time, so that not even the last bit of a vector depends on the batch; batches are hardly faster.
        """
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for number, ids in enumerate(texts):
            for start in range(0, len(ids), BLOCK_TOKENS):
                block = ids[start : start + BLOCK_TOKENS]
                sums[number] += self._model.scales[block] @ take(block).astype(np.float32)
        return sums

    def token_ids(self, text: str) -> NDArray[np.uint16]:
        """The numbers of the text's subwords, its tokens, in its order."""
        blocks = [*self._model.subwords.encode_blocks(text)]
        return (blocks[0] if len(blocks) == 1 else np.concatenate(blocks)).astype(np.uint16)

    def tokens_of_each(self, texts: Iterable[str]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """The tokens of short texts, one text after another, and how many each has."""
        packed = self._model.subwords.encode_each(texts)
        counts = np.array([len(each) for each in packed], np.int64) // np.dtype(np.uint32).itemsize
        return np.frombuffer(b"".join(packed), np.uint32).astype(np.uint16), counts

    def piece(self, token_id: int) -> str:
        """The text of a token."""
        return self._model.subwords.pieces[token_id]

    def translations(self, token_id: int) -> list[str]:
        """The texts of the tokens of the other script (Latin or Japanese) that mean the same."""
        pairs = self._model.translations
        # Not np.searchsorted, which copies the column each time.
        start, end = bisect_left(pairs[:, 0], token_id), bisect_right(pairs[:, 0], token_id)
        return [self.piece(each) for each in pairs[start:end, 1].tolist()]

    def token_vectors(self, ids: NDArray[np.integer]) -> Vectors:
        """A row for each token; the longer it is, the more the token counts."""
        vectors: Vectors = self._model.rows.take(ids).astype(np.float32)
        vectors *= self._model.scales[ids][:, None]
        return vectors

    def token_cosines(self, ids: NDArray[np.integer], directions: Vectors) -> tuple[Vectors, Vectors]:
        """The cosines of tokens with some vectors of length 1, a row for each token, and the tokens' own lengths."""
        cosines = np.empty((len(ids), len(directions)), np.float32)
        lengths, rows = self._unscaled_lengths[ids], self._model.rows.take(ids)
        # A few at a time, so that their vectors stay in the processor's cache.
        for start in range(0, len(ids), COMPARED_TOKENS):
            part = slice(start, start + COMPARED_TOKENS)
            vectors = rows[part].astype(np.float32)
            np.matmul(vectors, directions.T, out=cosines[part])
            if not lengths[part].all():
                lengths[part] = vector_lengths(vectors)
        self._unscaled_lengths[ids] = lengths
        cosines /= lengths[:, None]
        return cosines, lengths * self._model.scales[ids]


def vector_lengths(vectors: Vectors) -> Vectors:
    """The length of each vector, at least a little, so that one can divide by it."""
    lengths: Vectors = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths.clip(1e-9)
