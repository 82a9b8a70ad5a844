"""Does a reranker keep the contract of annai.rerankers.base?

In a test module: `from annai.testing.rerankers import *`, and a fixture `reranker`.
"""

from annai.rerankers.base import Reranker

SECONDS = 60.0


def test_a_reranker_keeps_the_contract(reranker: Reranker) -> None:
    """It scores every text, in their order, between 0 and 1, and alike every time; an empty list has no scores."""
    reranker.load()
    texts = ["apple pie", "", "再配達の荷物", "a lone surrogate \ud800", *(f"text {number}" for number in range(40))]
    scores = reranker.rerank("apple 配達", texts, SECONDS)
    assert len(scores) == len(texts)
    assert all(0 <= score <= 1 for score in scores)
    assert reranker.rerank("apple 配達", texts, SECONDS) == scores
    assert reranker.rerank("apple", [], SECONDS) == []
    reranker.close()
