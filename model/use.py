"""What does a large sentence encoder say? USE-multilingual-3's vectors, kept on disk, since they take minutes a set."""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from annai.embedders.base import Embedder, Vectors, load_embedder
from annai.settings import Embedding

logger = logging.getLogger(__name__)

KEPT_AT_ONCE = 512
"""Texts whose vectors share a file: what an interruption loses is seconds."""


class Remembered:
    """An embedder whose vectors are written down, and read when the same texts come again."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self._folder = folder

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of length 1, one row a text."""
        parts = [self._part(texts[start : start + KEPT_AT_ONCE]) for start in range(0, len(texts), KEPT_AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros((0, self._embedder.dimension), np.float32)

    def _part(self, texts: Sequence[str]) -> Vectors:
        said = "\0".join((self._embedder.identity, *texts)).encode("utf-8", "surrogatepass")
        file = self._folder / f"{hashlib.sha256(said).hexdigest()[:24]}.npy"
        if not file.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            # Written aside first: a file that is there is whole.
            unfinished = file.with_suffix(".part.npy")
            np.save(unfinished, self._embedder.embed_documents(texts))
            unfinished.replace(file)
            logger.info("%d texts embedded", len(texts))
        vectors: Vectors = np.load(file)
        return vectors


def sentence_encoder(folder: Path) -> Remembered:
    """USE-multilingual-3, its vectors remembered below `folder`."""
    return Remembered(load_embedder(Embedding(provider="use")), folder)
