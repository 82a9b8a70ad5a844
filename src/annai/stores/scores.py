"""How near is a vector, and which passages score highest?"""

import numpy as np
from numpy.typing import NDArray

from annai.stores.base import Scored


def cosines(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosine of each row with a vector; rows that are equal have the same, which BLAS does not give them."""
    found: NDArray[np.float32] = np.einsum("ij,j->i", vectors, vector)
    return found


def top_scores(keys: NDArray[np.int64], scores: NDArray[np.floating], limit: int) -> list[Scored]:
    """The highest scores first; `keys` ascend, so that ties come in their order."""
    if len(keys) > 4 * limit:
        # Those that tie with the last one stay in, for the order of their keys to decide.
        chosen = scores >= np.partition(scores, -limit)[-limit]
        keys, scores = keys[chosen], scores[chosen]
    order = np.argsort(-scores, kind="stable")[:limit]
    return [*map(Scored, keys[order].tolist(), scores[order].tolist())]
