"""How sure is an answer? How likely each document answers a question, from 0 to 1: what people read as its score.

The order of the results is the ranking's; its sums of weights tell documents apart, and mean nothing by themselves. The
score has two factors, each a logistic regression on questions whose right documents are known.

The gate answers "are these words in these documents?". It uses what means the same for every question, language, mode
and embedder: the share of the question's words that the passage holds, and how close it is token by token. It was
fitted to questions of one set asked of another's documents, and to words that no document holds. Under `MIN_GATE`, an
answer is no good match.

The likelihood answers "is it this document, if it is any?". It was fitted to answers that are right and to those that
are wrong in the right tree: how far the first result is ahead of the others says most.

`python benchmarks/confidence.py --fit` fits the weights anew, and prints what docs/ranking.md says of them.
"""

import numpy as np
from numpy.typing import NDArray

from annai.answers import MAY_ANSWER
from annai.definitions import dataclass
from annai.searching.closeness import Closeness

Floats = NDArray[np.float64]

MIN_GATE = 0.2
"""Below this, an answer is no good match: it is four times likelier that the documents do not answer the question."""

SAME_SCRIPT = np.array([8.5, 4.8, 4.0, 0.6, 2.8, -10.8])
OTHER_SCRIPT = np.array([2.3, 5.6, 5.3, -1.0, 3.7, -8.3])
"""The weights of `gate_features`, for documents in the question's script and for others, whose words differ.

`length` is the logarithm of the number of the question's tokens, and `covered_length` the same times the coverage: a
long question that is covered is no coincidence, and one that is not is long by itself. They lie between
the mean of fits with either of the two, which believes long questions in legal Japanese, and a fit with both, which
doubts short questions about English prose: a quarter, and for other scripts a third, of the way to the second.
"""

MAX_SHORT_WORDS = 2
SHORT = np.array([3.39, 2.7, 1.72, 2.35, -2.79, -5.27])
"""The weights of `short_gate_features`, for questions of at most so many words, whose documents may hold none of them
and yet answer: a synonym, or a translation, is as near as it is."""

ANSWERABLE = 1.4
"""The gate was fitted with as many questions that nothing answers as others; people mostly ask what is answered. Added
to its logit, this makes it four of five."""

FIRST = np.array([0.76, 0.83, 6.79, 0.13, 2.11, -2.7, 0.58, 5.39])
LATER = np.array([-1.41, 0.17, -1.09, 3.05, -4.5])
"""The weights of `first_features` and `later_features`."""

CLOSEST_GAP = 0.02
"""What is added to the share by which a document is ahead before its logarithm is taken: less says nothing."""

RIVALS = slice(1, 5)
"""The results that the first one is compared with."""

FOLLOWING = slice(1, 3)
"""Those whose coverage counts in the gate for short questions."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of the documents that were compared with the question, the best first."""

    scores: Floats
    """What they are ranked by; only how they compare counts."""
    keywords: Floats
    """The share of the question's words that each holds."""
    translated: Floats
    """The share of its words in the other language that each holds, if it is in another script."""
    is_other_script: NDArray[np.bool_]
    close: Closeness | None
    """How close they are token by token; None without tokens to compare, as in a question of symbols."""

    @property
    def coverage(self) -> Floats:
        """How much of the question each covers."""
        return self.keywords if self.close is None else self.close.coverage.astype(np.float64)

    @property
    def title(self) -> Floats:
        """How much of each document's title is in the question."""
        return np.zeros(len(self.scores)) if self.close is None else self.close.title.astype(np.float64)

    @property
    def about(self) -> Floats:
        """How nearly the question is each document's title."""
        return np.zeros(len(self.scores)) if self.close is None else self.close.about.astype(np.float64)


def gate(evidence: Evidence) -> Floats:
    """How likely each document is about what is asked; without tokens to compare, the words decide."""
    if evidence.close is None:
        return not_rising(evidence.keywords)
    if evidence.close.query_words <= MAX_SHORT_WORDS:
        return not_rising(_logistic(short_gate_features(evidence) @ SHORT))
    rows = gate_features(evidence)
    return not_rising(_logistic(np.where(evidence.is_other_script, rows @ OTHER_SCRIPT, rows @ SAME_SCRIPT)))


def likelihood(evidence: Evidence) -> Floats:
    """How likely it is each of the documents that answers, if any does."""
    first = _logistic(first_features(evidence) @ FIRST)
    return not_rising(np.append(first, _logistic(later_features(evidence) @ LATER)))


def score(gate: float, likelihood: float) -> float:
    """How likely a document answers, by both factors.

    It is less than what may answer if the gate is shut, and no less if it is open.
    """
    shifted = gate / (gate + (1 - gate) * np.exp(-ANSWERABLE))
    return float(
        max(shifted * likelihood, MAY_ANSWER) if gate >= MIN_GATE else min(gate / MIN_GATE, 0.999) * MAY_ANSWER
    )


def gate_features(evidence: Evidence) -> Floats:
    """A row for each document: words, coverage, title, length, covered_length, and a constant."""
    count = len(evidence.scores)
    length = np.full(count, np.log(max(evidence.close.query_tokens, 1)) if evidence.close else 0.0)
    columns = (evidence.keywords, evidence.coverage, evidence.title, length, length * evidence.coverage, np.ones(count))
    return np.column_stack(columns)


def short_gate_features(evidence: Evidence) -> Floats:
    """The same for a short question: words in either language, coverage, next coverage, title, pieces, and a constant.

    What documents are about is covered by several of them: `next coverage` is the mean of the two after the first.
    `pieces` is the logarithm of the tokens per word, as far as the words are not held: every text covers a name that
    the model has to spell.
    """
    count = len(evidence.scores)
    words = np.maximum(evidence.keywords, evidence.translated)
    following = np.full(count, evidence.coverage[FOLLOWING].mean() if count > 1 else 0.0)
    close = evidence.close
    pieces = (1 - words) * (np.log(close.query_tokens / max(close.query_words, 1)) if close else 0.0)
    return np.column_stack((words, evidence.coverage, following, evidence.title, pieces, np.ones(count)))


def first_features(evidence: Evidence) -> Floats:
    """What the first document's likelihood depends on, with a constant at the end.

    How far its score is ahead of the next one and of the next four, its coverage, and its title; how nearly the
    question is its title; its coverage and its words.
    """
    scores, coverage, title = evidence.scores, evidence.coverage, evidence.title
    best = max(float(scores[0]), 1e-9)
    rivals = scores[RIVALS] / best if len(scores) > 1 else np.zeros(1)
    return np.array(
        [
            np.log(1 - rivals[0] + CLOSEST_GAP),
            np.log(1 - rivals.mean() + CLOSEST_GAP),
            coverage[0] - coverage[RIVALS].max(initial=0.0),
            title[0] - title[RIVALS].max(initial=0.0),
            evidence.about[0],
            coverage[0],
            evidence.keywords[0],
            1.0,
        ]
    )


def later_features(evidence: Evidence) -> Floats:
    """The same for each other document.

    How far its score is behind the first, and that of the second; how nearly the question is its title; how much more
    it covers than the first.
    """
    behind = np.log(1 - evidence.scores[1:] / max(float(evidence.scores[0]), 1e-9) + CLOSEST_GAP)
    return np.column_stack(
        [
            behind,
            behind[:1].repeat(len(behind)),
            evidence.about[1:],
            evidence.coverage[1:] - evidence.coverage[0],
            np.ones(len(behind)),
        ]
    )


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


def _logistic(logits: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logits)))
