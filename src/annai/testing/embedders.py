"""Does an embedder keep the contract of annai.embedders.base?

In a test module: `from annai.testing.embedders import *`, and a fixture `embedder`.
"""

import numpy as np
import pytest

from annai.embedders.base import Embedder

TOLERANCE = 0.001


def test_an_embedder_keeps_the_contract(embedder: Embedder) -> None:
    """Every text has a vector of length 1, the same whatever else is in the batch; texts that say nothing have none."""
    texts = [
        "w1 w2 w3 ログイン",
        "w4 w5 price",
        "w1 " * 3_000,
        "",
        "  ",
        "\ud800 w6",
        *(f"w{n} text" for n in range(10)),
    ]
    rows = embedder.embed_documents(texts)
    assert rows.shape == (len(texts), embedder.dimension)
    assert rows.dtype == np.float32
    expected = [0 if not text.strip() else 1 for text in texts]
    assert np.linalg.norm(rows, axis=1) == pytest.approx(expected, abs=TOLERANCE)
    alone = np.stack([embedder.embed_documents([text])[0] for text in texts])
    assert alone == pytest.approx(rows, abs=20 * TOLERANCE if "int8" in embedder.identity else TOLERANCE)
    query = embedder.embed_query("w1 w2 w3 ログイン")
    assert int((rows @ query).argmax()) == 0
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)
