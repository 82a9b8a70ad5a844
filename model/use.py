"""Which vectors does a large sentence encoder give? USE-multilingual-3's, cached on disk: they take minutes a set."""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from annai.embedders.base import Embedder, Vectors, load_embedder
from annai.settings import Embedding

logger = logging.getLogger(__name__)

TEXTS_PER_FILE = 512
"""Texts whose vectors share a file: an interruption loses only seconds of work."""


class CachedEmbedder:
    """An embedder whose vectors are written to disk, and read when the same texts come again."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self._folder = folder

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of length 1, one row for each text."""
        parts = [self._part(texts[start : start + TEXTS_PER_FILE]) for start in range(0, len(texts), TEXTS_PER_FILE)]
        return np.concatenate(parts) if parts else np.zeros((0, self._embedder.dimension), np.float32)

    def _part(self, texts: Sequence[str]) -> Vectors:
        key = "\0".join((self._embedder.identity, *texts)).encode("utf-8", "surrogatepass")
        file = self._folder / f"{hashlib.sha256(key).hexdigest()[:24]}.npy"
        if not file.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            # Written under another name first, so that an existing file is always complete.
            unfinished = file.with_suffix(".part.npy")
            np.save(unfinished, self._embedder.embed_documents(texts))
            unfinished.replace(file)
            logger.info("%d texts embedded", len(texts))
        vectors: Vectors = np.load(file)
        return vectors


def sentence_encoder(folder: Path) -> CachedEmbedder:
    """USE-multilingual-3, with its vectors cached below `folder`."""
    return CachedEmbedder(load_embedder(Embedding(provider="use")), folder)
