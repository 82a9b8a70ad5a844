"""Is this still the model that made an index? Compared by what it makes of one text: names stay the same."""

import base64

import numpy as np
from numpy.typing import NDArray

PROBE_TEXT = "The same name may stand for another model tomorrow. 同じ名前でも、明日は別のモデルかもしれません。"

KEPT_NUMBERS = 64
"""How much of the vector is kept: models that differ, differ everywhere."""

MIN_COSINE = 0.95
"""Other machines and other precisions of a model stay above it (0.98 with 4 bits); other models are near 0."""


def pack_probe(vector: NDArray[np.float32]) -> str:
    """The vector of `PROBE_TEXT` as a collection keeps it: its dimension, and its first numbers."""
    kept = vector[:KEPT_NUMBERS].astype("<f2").tobytes()
    return f"{len(vector)}:{base64.b64encode(kept).decode('ascii')}"


def probe_dimension(probe: str) -> int:
    """How many numbers the vectors have of which this was packed."""
    return int(probe.partition(":")[0])


def is_same_model(one: str, other: str) -> bool:
    """Whether one model made both, as far as the numbers tell."""
    if probe_dimension(one) != probe_dimension(other):
        return False
    first, second = _numbers(one), _numbers(other)
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return not lengths or float(first @ second) / lengths >= MIN_COSINE


def _numbers(probe: str) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(probe.partition(":")[2]), "<f2").astype(np.float32)
