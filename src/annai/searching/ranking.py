"""In which order do passages answer a question? The rule, on numbers alone: documents first, then their passages.

For a document d with its candidate passages:

    V = its best passage's cosine + 0.4 · the whole document's                      meaning
    P = the share of the question's words that its best passage holds, 0–1          words (BM25 over weighted fields)
    K = P where question and document share their script
      = max(P to P², best P · how near V is to the best V) otherwise: there words are missing, not zero
    first = V + 2.5 · K + 0.5 · the share that the next best passage holds
          + 3 · the share of the question's code and quotes that a passage holds as they stand

and for the first of them, by the passage with the best cosine + 2.5 · P, token by token (`closeness`):

    score = first + 0.5 · passage + 1 · best window + 0.4 · title

A passage of d scores as d, less what it is behind d's best passage. docs/ranking.md has the figures for each element.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annai.searching.closeness import Closeness

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

DOCUMENT_WEIGHT = 0.4
"""What the whole document's cosine counts beside the passage's."""

KEYWORD_WEIGHT = 2.5
"""What the words count beside the meaning; anything from 2 to 3 is as good."""

NEXT_WEIGHT = 0.5
"""What the words of a document's next best passage count: that a document keeps to the subject."""

PHRASE_WEIGHT = 3.0
"""What counts that a phrase, such as a name from code, is there as it stands: more than anything that is like it."""

PASSAGE_WEIGHT, WINDOW_WEIGHT, TITLE_WEIGHT = 0.5, 1.0, 0.4
"""What closeness counts, token by token; each may be half as much or twice without harm."""

OTHER_SCRIPT_LEVEL = 1.0
"""How high the nearest document in another script than the question's reaches, against the best in its own."""

NOT_NEAR = 0.3
"""A document this share as near as the nearest counts as not near at all."""

OTHER_SCRIPT_NEXT = 0.7
"""The next passage of such a document is taken to hold this share of what its best is taken to hold."""

COMPARED = 30
"""Documents that are compared token by token; 20 is nearly as good, 50 no better."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What is known of the candidate passages, a number for each; those of one document stand together."""

    documents: Places
    """The number of each passage's document: 0, 1, 2 … ascending."""
    similarity: Numbers
    document_similarity: Numbers
    keywords: Numbers
    phrases: Numbers
    """The share of what the question asks for as it stands (code, quotes) that the passage holds."""
    foreign: NDArray[np.bool_]
    """Whether its document is written in another script than the question."""
    alone: NDArray[np.bool_]
    """Whether it is all there is of its document."""
    chance: float
    """How likely it is chance that a passage in another script holds some of the words, 0–1: many do, or few."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The passages' scores, 0–1, and for each what its score is the sum of."""

    scores: Numbers
    parts: Mapping[str, Numbers]


Compare = Callable[[Sequence[int]], Closeness | None]
"""Compares the question with some passages, given by their places, token by token; None where that cannot be."""


def by_meaning(found: Candidates) -> Ranked:
    """Rank by vectors alone."""
    meaning = {"meaning": found.similarity, "document": DOCUMENT_WEIGHT * found.document_similarity}
    return _ranked(meaning, 1 + DOCUMENT_WEIGHT)


def by_words(keywords: Numbers, phrases: Numbers) -> Ranked:
    """Rank by words alone; what holds a phrase as it stands comes before what has only its words."""
    held = phrases.any()
    return _ranked({"words": keywords, "phrase": phrases}, 2 if held else 1)


def by_both(found: Candidates, compare: Compare) -> Ranked:
    """Rank by meaning and words together."""
    starts = np.flatnonzero(np.append(True, found.documents[1:] != found.documents[:-1]))
    behind, best = _behind(found, starts)
    parts = _first(found, starts, behind)
    highest = 1 + DOCUMENT_WEIGHT + KEYWORD_WEIGHT + NEXT_WEIGHT + (PHRASE_WEIGHT if found.phrases.any() else 0)
    leading = np.argsort(-_sum(parts), kind="stable")[:COMPARED]
    if (close := compare(best[leading].tolist())) is not None:
        highest += PASSAGE_WEIGHT + WINDOW_WEIGHT + TITLE_WEIGHT
        for name, weight, values in (
            ("passage", PASSAGE_WEIGHT, close.passage),
            ("window", WINDOW_WEIGHT, close.window),
            ("title", TITLE_WEIGHT, close.title),
        ):
            parts[name] = np.zeros(len(starts))
            parts[name][leading] = weight * values
    return _ranked({**{name: part[found.documents] for name, part in parts.items()}, "behind": -behind}, highest)


def _behind(found: Candidates, starts: Places) -> tuple[Numbers, Places]:
    """How far each passage is behind its document's best, and the place of each document's best passage."""
    own = found.similarity + KEYWORD_WEIGHT * found.keywords + PHRASE_WEIGHT * found.phrases
    behind = np.maximum.reduceat(own, starts)[found.documents] - own
    order = np.lexsort((behind, found.documents))
    return behind, order[starts]


def _first(found: Candidates, starts: Places, behind: Numbers) -> dict[str, Numbers]:
    """What the documents' scores are the sum of before anything is compared token by token."""
    similarity = np.maximum.reduceat(found.similarity, starts)
    document = DOCUMENT_WEIGHT * found.document_similarity[starts]
    share = np.maximum.reduceat(found.keywords, starts)
    following = _next_share(found, starts, behind)
    foreign = found.foreign[starts]
    # Where a phrase was found as it stands, no words are missing for the sake of a script.
    if foreign.any() and not found.phrases.any():
        meaning = similarity + document
        far = NOT_NEAR * float(meaning.max())
        nearness = ((meaning - far) / max(float(meaning.max()) - far, 1e-6)).clip(0, 1)
        level = OTHER_SCRIPT_LEVEL * share[~foreign].max(initial=0.0)
        missing = np.maximum(share ** (1 + found.chance), level * nearness)
        share = np.where(foreign, missing, share)
        following = np.where(foreign, OTHER_SCRIPT_NEXT * missing, following)
    return {
        "meaning": similarity,
        "document": document,
        "words": KEYWORD_WEIGHT * share,
        "phrase": PHRASE_WEIGHT * np.maximum.reduceat(found.phrases, starts),
        "more_words": NEXT_WEIGHT * following,
    }


def _next_share(found: Candidates, starts: Places, behind: Numbers) -> Numbers:
    """The share of words that each document's second best passage holds; its only passage counts as that too."""
    order = np.lexsort((behind, found.documents))
    counts = np.diff(np.append(starts, len(order)))
    second = found.keywords[order[np.minimum(starts + 1, len(order) - 1)]]
    only = np.where(found.alone[starts], found.keywords[starts], 0.0)
    return np.where(counts > 1, second, only)


def _ranked(parts: Mapping[str, Numbers], highest: float) -> Ranked:
    scaled = {name: part / highest for name, part in parts.items()}
    return Ranked(_sum(scaled).clip(0, 1), scaled)


def _sum(parts: Mapping[str, Numbers]) -> Numbers:
    total: Numbers = np.sum([*parts.values()], axis=0)
    return total
