"""In which order do passages answer a question? The rule, on numbers alone: documents first, then their passages.

For a document d with its candidate passages:

    V = its best passage's cosine + 0.4 · the whole document's                      meaning
    P = the share of the question's words that its best passage holds, 0–1          words (BM25 over weighted fields)
    K = P where question and document share their script
      = max(P to P², best P · how near V is to the best V) otherwise: there words are missing, not zero
    first = V + 2.5 · K + 0.5 · the share that the next best passage holds
          + 4 · the share of the question's code and quotes that a passage holds literally (1 as heading, .75 in text)

and for the first of them, by the passage with the best cosine + 2.5 · P, token by token (`closeness`):

    score = first + 0.5 · passage + 1 · best window + 0.4 · title

A passage of d gets d's score, minus how far it is behind d's best passage. docs/ranking.md has the figures for each
element.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annai.searching.closeness import Closeness

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
"""Positions in the arrays of `Candidates`, or numbers of documents."""

DOCUMENT_WEIGHT = 0.4
"""Weight of the whole document's cosine; the passage's own has 1."""

KEYWORD_WEIGHT = 2.5
"""Weight of the words; meaning has 1. Anything from 2 to 3 is as good."""

NEXT_PASSAGE_WEIGHT = 0.5
"""Weight of the words of a document's next best passage: it shows that the document keeps to the subject."""

PHRASE_WEIGHT = 4.0
"""Weight of a phrase that is a heading, such as a name from code; in a text it has three quarters of that, which is
more than anything that is only similar to it."""

ONLY_WORDS_PHRASE_WEIGHT = 1.5
"""The same where words alone are compared; these have 1."""

PASSAGE_WEIGHT, WINDOW_WEIGHT, TITLE_WEIGHT = 0.5, 1.0, 0.4
"""Weights of the closeness token by token; each may be half as much or twice without harm."""

OTHER_SCRIPT_FACTOR = 1.0
"""The words that the nearest document in another script than the question's is credited with, as a factor of the best
share of words in the question's own script."""

FAR_SHARE = 0.3
"""A document with this share of the best document's similarity counts as not near at all."""

OTHER_SCRIPT_NEXT_FACTOR = 0.7
"""The next passage of a document in another script is credited with this share of the words of its best passage."""

MAX_COMPARED_DOCUMENTS = 30
"""Documents that are compared token by token; 20 is nearly as good, 50 no better."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What is known of the candidate passages, one number for each; the passages of one document are neighbours."""

    document: Rows
    """The number of each passage's document: 0, 1, 2 … ascending."""
    similarity: Floats
    document_similarity: Floats
    keywords: Floats
    phrases: Floats
    """The share of the question's phrases (code, quotes) that the passage holds literally."""
    is_other_script: NDArray[np.bool_]
    """Whether its document is written in another script than the question."""
    is_whole_document: NDArray[np.bool_]
    """Whether the passage is its whole document."""
    coincidence: float
    """How likely it is a coincidence that a passage in another script holds some of the words, 0–1: the more passages
    hold any, the likelier."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The passages' scores, 0–1, and the parts that each score is the sum of."""

    scores: Floats
    parts: Mapping[str, Floats]


Compare = Callable[[Sequence[int]], Closeness | None]
"""Compares the question token by token with the passages in these rows; None where that is impossible."""


def rank_by_meaning(candidates: Candidates) -> Ranked:
    """Rank by vectors alone."""
    parts = {"meaning": candidates.similarity, "document": DOCUMENT_WEIGHT * candidates.document_similarity}
    return _scale(parts, 1 + DOCUMENT_WEIGHT)


def rank_by_words(keywords: Floats, phrases: Floats) -> Ranked:
    """Rank by words alone; what holds a phrase literally comes before what has only its words."""
    max_score = 1 + (ONLY_WORDS_PHRASE_WEIGHT if phrases.any() else 0)
    return _scale({"words": keywords, "phrase": ONLY_WORDS_PHRASE_WEIGHT * phrases}, max_score)


def rank_by_both(candidates: Candidates, compare: Compare) -> Ranked:
    """Rank by meaning and words together."""
    starts = np.flatnonzero(np.append(True, candidates.document[1:] != candidates.document[:-1]))
    gaps, best = _gaps_to_best(candidates, starts)
    parts = _first_stage(candidates, starts, gaps)
    max_score = 1 + DOCUMENT_WEIGHT + KEYWORD_WEIGHT + NEXT_PASSAGE_WEIGHT
    max_score += PHRASE_WEIGHT if candidates.phrases.any() else 0
    leading = np.argsort(-_sum(parts), kind="stable")[:MAX_COMPARED_DOCUMENTS]
    if (close := compare(best[leading].tolist())) is not None:
        max_score += PASSAGE_WEIGHT + WINDOW_WEIGHT + TITLE_WEIGHT
        for name, weight, values in (
            ("passage", PASSAGE_WEIGHT, close.passage),
            ("window", WINDOW_WEIGHT, close.window),
            ("title", TITLE_WEIGHT, close.title),
        ):
            parts[name] = np.zeros(len(starts))
            parts[name][leading] = weight * values
    passage_parts = {name: part[candidates.document] for name, part in parts.items()}
    return _scale({**passage_parts, "behind": -gaps}, max_score)


def _gaps_to_best(candidates: Candidates, starts: Rows) -> tuple[Floats, Rows]:
    """How far each passage is behind its document's best, and the row of each document's best passage."""
    own = candidates.similarity + KEYWORD_WEIGHT * candidates.keywords + PHRASE_WEIGHT * candidates.phrases
    gaps = np.maximum.reduceat(own, starts)[candidates.document] - own
    order = np.lexsort((gaps, candidates.document))
    return gaps, order[starts]


def _first_stage(candidates: Candidates, starts: Rows, gaps: Floats) -> dict[str, Floats]:
    """The parts of the documents' scores before anything is compared token by token."""
    similarity = np.maximum.reduceat(candidates.similarity, starts)
    document = DOCUMENT_WEIGHT * candidates.document_similarity[starts]
    keywords = np.maximum.reduceat(candidates.keywords, starts)
    next_keywords = _next_passage_keywords(candidates, starts, gaps)
    is_other_script = candidates.is_other_script[starts]
    # Where a phrase was found literally, scripts do not matter: no words are missing.
    if is_other_script.any() and not candidates.phrases.any():
        meaning = similarity + document
        far = FAR_SHARE * float(meaning.max())
        nearness = ((meaning - far) / max(float(meaning.max()) - far, 1e-6)).clip(0, 1)
        level = OTHER_SCRIPT_FACTOR * keywords[~is_other_script].max(initial=0.0)
        credited = np.maximum(keywords ** (1 + candidates.coincidence), level * nearness)
        keywords = np.where(is_other_script, credited, keywords)
        next_keywords = np.where(is_other_script, OTHER_SCRIPT_NEXT_FACTOR * credited, next_keywords)
    return {
        "meaning": similarity,
        "document": document,
        "words": KEYWORD_WEIGHT * keywords,
        "phrase": PHRASE_WEIGHT * np.maximum.reduceat(candidates.phrases, starts),
        "more_words": NEXT_PASSAGE_WEIGHT * next_keywords,
    }


def _next_passage_keywords(candidates: Candidates, starts: Rows, gaps: Floats) -> Floats:
    """The share of words that each document's second best passage holds; a whole document counts as its own second."""
    order = np.lexsort((gaps, candidates.document))
    counts = np.diff(np.append(starts, len(order)))
    second = candidates.keywords[order[np.minimum(starts + 1, len(order) - 1)]]
    only = np.where(candidates.is_whole_document[starts], candidates.keywords[starts], 0.0)
    return np.where(counts > 1, second, only)


def _scale(parts: Mapping[str, Floats], max_score: float) -> Ranked:
    """Divide by the highest possible score, so that every score is 0–1."""
    scaled = {name: part / max_score for name, part in parts.items()}
    return Ranked(_sum(scaled).clip(0, 1), scaled)


def _sum(parts: Mapping[str, Floats]) -> Floats:
    total: Floats = np.sum([*parts.values()], axis=0)
    return total
