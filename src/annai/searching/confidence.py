"""How sure is an answer? How likely a document answers a question, from 0 to 1: what people read as its score.

The order of the results is the ranking's; its sums of weights tell documents apart, and mean nothing by themselves. The
confidence uses only what means the same for every question, language, mode and embedder: the share of the question's
words that the passage holds, and how close it is token by token. The weights are those of a logistic regression on the
evaluation sets: questions whose right document was shown, and titles’ words, against questions of other sets and words
that no document holds. `benchmarks/confidence.py` measures them, and fits others.
"""

import numpy as np
from numpy.typing import NDArray

from annai.searching.closeness import Closeness

Floats = NDArray[np.float64]

MIN_CONFIDENCE = 0.25
"""Below this, an answer is no good match: it is three times likelier that the documents do not answer the question."""

FEATURES = ("words", "coverage", "title", "length", "covered_length")
SAME_SCRIPT = np.array([8.5, 4.8, 4.0, 0.6, 2.8, -10.8])
OTHER_SCRIPT = np.array([2.3, 5.6, 5.3, -1.0, 3.7, -8.3])
"""The weights of `FEATURES` and a constant, for documents in the question's script and for others, whose words differ.

`length` is the logarithm of the number of the question's tokens, and `covered_length` the same times the coverage: a
long question that is covered is no coincidence, and one that is not is long by itself. They lie between
the mean of fits with either of the two, which believes long questions in legal Japanese, and a fit with both, which
doubts short questions about English prose: a quarter, and for other scripts a third, of the way to the second.
"""


def features(keywords: Floats, close: Closeness) -> Floats:
    """What the confidence depends on: a row for each passage, with a constant at the end."""
    length = np.full(len(keywords), np.log(max(close.query_tokens, 1)))
    return np.column_stack(
        [keywords, close.coverage, close.title, length, length * close.coverage, np.ones(len(keywords))]
    )


def confidence(keywords: Floats, close: Closeness | None, is_other_script: NDArray[np.bool_]) -> Floats:
    """How likely each passage answers; without tokens to compare, as in a question of symbols, the words decide."""
    if close is None:
        return keywords
    rows = features(keywords, close)
    logits = np.where(is_other_script, rows @ OTHER_SCRIPT, rows @ SAME_SCRIPT)
    return np.asarray(1 / (1 + np.exp(-logits)))


def not_rising(values: Floats) -> Floats:
    """The numbers nearest to these, each no higher than the one before it: where one is, both get their mean."""
    means: list[float] = []
    counts: list[int] = []
    for value in values.tolist():
        mean, count = value, 1
        while means and means[-1] < mean:
            last = counts.pop()
            mean, count = (means.pop() * last + mean * count) / (last + count), last + count
        means.append(mean)
        counts.append(count)
    return np.repeat(means, counts)
