"""In which order do passages answer a question? The rule, on numbers alone: documents first, then their passages.

For a document d with its candidate passages:

    V = its best passage's cosine + 0.4 · the whole document's                      meaning
    P = the share of the question's words that its best passage holds, 0–1          words (BM25 over weighted fields)
    K = P where question and document share their script
      = max(P to P², .77 · best P · how near V is to the best V) otherwise: there words are missing, not zero
    first = V + 2.5 · K + 0.5 · the share that the next best passage holds
          + 1, if the question asks what something is and a passage says so
          + 0.1 · the share of the question's words in the other language, if they do not share their script
          + 4 · the share of the question's code and quotes that a passage holds literally (1 as heading, .75 in text)

and for the first of them, by the passage with the best cosine + words, token by token (`closeness`):

    score = first + 0.5 · passage + 1 · best window + 0.4 · its coverage + 0.4 · title
          + 0.3 · about + 1 · its opening, if question and document do not share their script: a title's words are
            missing there, and an opening says what the page is about

A page without text, which is only a title, loses half of that.

The weights are made for the cosines of the bundled model. Those of a model that reads texts as a whole say more, and
each such model spreads them differently: they are brought to one spread first (`MEANING_SPREAD`).

A passage of d gets d's score, minus how far it is behind d's best passage. docs/ranking.md has the figures for each
element. The score that people see is another one: how sure the answer is (`confidence`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from annai.definitions import dataclass
from annai.searching import confidence
from annai.searching.closeness import Closeness

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
"""Positions in the arrays of `Candidates`, or numbers of documents."""

DOCUMENT_WEIGHT = 0.4
"""Weight of the whole document's cosine; the passage's own has 1."""

MEANING_SPREAD, MAX_MEANING_FACTOR = 0.25, 10.0
"""The standard deviation to which a question's cosines are brought where a contextual model made them, and the most
that they are multiplied by. Anything from .2 to .3 is as good; the bundled model's own is about .1."""

KEYWORD_WEIGHT = 2.5
"""Weight of the words; meaning has 1. Anything from 2 to 3 is as good."""

NEXT_PASSAGE_WEIGHT = 0.5
"""Weight of the words of a document's next best passage: it shows that the document keeps to the subject."""

PHRASE_WEIGHT = 4.0
"""Weight of a phrase that is a heading, such as a name from code; in a text it has three quarters of that, which is
more than anything that is only similar to it."""

DEFINITION_WEIGHT = 1.0
"""Weight of a definition, if the question asks what something is."""

ONLY_WORDS_PHRASE_WEIGHT = 1.5
"""The same where words alone are compared; these have 1."""

PASSAGE_WEIGHT, WINDOW_WEIGHT, COVERAGE_WEIGHT, TITLE_WEIGHT = 0.5, 1.0, 0.4, 0.4
"""Weights of the closeness token by token; each may be half as much or twice without harm."""

ABOUT_WEIGHT = 0.3
"""Weight of how nearly the question is the title of a document in another script. In its own script a title's words say
so already; counted again, they outweigh the text."""

OPENING_WEIGHT = 1.0
"""Weight of how much more of the question is in the opening of a document in another script than in the openings of the
others: which of its passages is the best is less sure there. In the question's own script it harms questions about
details."""

MAX_CHOSEN_DOCUMENTS, MAX_RIVALS, MAX_RIVAL_GAP = 5, 5, 1.0
"""For the first of these documents, so many other passages that are no further behind are compared as well."""

LENGTH_WEIGHT, MAX_LENGTH = 0.08, 256
"""Of a document's passages that match alike, a longer one says more: the weight of the logarithm of its tokens, up to
this many."""

EMPTY_SHARE = 0.5
"""The share of its score that a page without text loses, such as one that is only front matter: what has text comes
before it."""

TRANSLATED_WEIGHT = 0.1
"""Weight of the words in the other language: mostly, they find documents that the first stage must let through."""

OTHER_SCRIPT_FACTOR = 0.77
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
    definitions: Floats
    """1 for a passage that says what the question asks to have explained."""
    translated: Floats
    """The share of the question's words in the other language that a passage in the other script holds."""
    tokens: Rows
    """How long each passage is."""
    is_other_script: NDArray[np.bool_]
    """Whether its document is written in another script than the question."""
    is_whole_document: NDArray[np.bool_]
    """Whether the passage is its whole document."""
    coincidence: float
    """How likely it is a coincidence that a passage in another script holds some of the words, 0–1: the more passages
    hold any, the likelier."""
    spare_words: float = 0.0
    """The share of the question's words that are only another form of others: an abbreviation and its long form."""
    is_contextual: bool = False
    """Whether the vectors are of a model that reads a text as a whole, and not the sums of its words' vectors."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The passages' scores, and what is known with them; all from 0 to 1."""

    scores: Floats
    parts: Mapping[str, Floats]
    """What each score is the sum of."""
    gate: Floats
    """How likely each passage's document is about what is asked (`confidence.gate`)."""
    likelihood: Floats
    """How likely it is this passage that answers, if any does (`confidence.likelihood`)."""
    about: Floats
    """How nearly the question is the title of each passage's document; 0 for documents that were not compared."""
    place: Floats
    """Where in the passage its best window begins, as a share of it; 0 for passages that were not compared."""


Compare = Callable[[Sequence[int], Sequence[int]], Closeness | None]
"""Compares the question token by token with the passages in these rows, and then with the openings of the documents of
other rows; None where that is impossible."""


def rank_by_meaning(candidates: Candidates, compare: Compare) -> Ranked:
    """Rank by vectors alone."""
    parts = {"meaning": candidates.similarity, "document": DOCUMENT_WEIGHT * candidates.document_similarity}
    return _rank_by_itself(candidates, parts, 1 + DOCUMENT_WEIGHT, compare)


def rank_by_words(candidates: Candidates, compare: Compare) -> Ranked:
    """Rank by words alone; what holds a phrase literally comes before what has only its words."""
    parts = {"words": candidates.keywords, "phrase": ONLY_WORDS_PHRASE_WEIGHT * candidates.phrases}
    max_score = 1 + (ONLY_WORDS_PHRASE_WEIGHT if candidates.phrases.any() else 0)
    return _rank_by_itself(candidates, parts, max_score, compare)


def rank_by_both(candidates: Candidates, compare: Compare) -> Ranked:
    """Rank by meaning and words together."""
    if candidates.is_contextual:
        candidates = _spread_meaning(candidates)
    starts = _document_starts(candidates)
    own = candidates.similarity + KEYWORD_WEIGHT * candidates.keywords + PHRASE_WEIGHT * candidates.phrases
    own += DEFINITION_WEIGHT * candidates.definitions + TRANSLATED_WEIGHT * candidates.translated
    own += LENGTH_WEIGHT * np.log1p(np.minimum(candidates.tokens, MAX_LENGTH))
    gaps = np.maximum.reduceat(own, starts)[candidates.document] - own
    order = np.lexsort((gaps, candidates.document))
    best = order[starts]
    parts = _first_stage(candidates, starts, order)
    max_score = 1 + DOCUMENT_WEIGHT + KEYWORD_WEIGHT + NEXT_PASSAGE_WEIGHT
    if candidates.is_contextual:
        highest = max(candidates.similarity.max(), candidates.document_similarity.max())
        max_score += max(float(highest) - 1, 0.0) * (1 + DOCUMENT_WEIGHT)
    max_score += PHRASE_WEIGHT if candidates.phrases.any() else 0
    max_score += DEFINITION_WEIGHT if candidates.definitions.any() else 0
    max_score += TRANSLATED_WEIGHT if candidates.translated.any() else 0
    leading = _leading(_sum(parts))
    rivals = _rivals(candidates, gaps, best, leading[:MAX_CHOSEN_DOCUMENTS])
    compared = [*best[leading].tolist(), *rivals]
    is_other_script = candidates.is_other_script[starts][leading]
    close = compare(compared, best[leading[is_other_script]].tolist())
    if close is not None:
        openings = close.passage[len(compared) :]
        opening = np.zeros(len(leading))
        opening[is_other_script] = openings - openings.sum() / max(len(openings), 1)
        close = close.take(np.arange(len(compared)))
        if rivals:
            gaps, best, close = _choose_passages(candidates, gaps, best, leading, rivals, close)
        max_score += PASSAGE_WEIGHT + WINDOW_WEIGHT + COVERAGE_WEIGHT + TITLE_WEIGHT
        max_score += ABOUT_WEIGHT if is_other_script.any() else 0
        for name, weight, values in (
            ("passage", PASSAGE_WEIGHT, close.passage),
            ("window", WINDOW_WEIGHT, close.window),
            ("coverage", COVERAGE_WEIGHT, close.coverage),
            ("title", TITLE_WEIGHT, close.title),
            ("about", ABOUT_WEIGHT, close.about * is_other_script),
            ("opening", OPENING_WEIGHT, opening),
        ):
            parts[name] = np.zeros(len(starts))
            parts[name][leading] = weight * values
        parts["empty"] = np.zeros(len(starts))
        parts["empty"][leading] = -EMPTY_SHARE * close.is_empty * _sum(parts)[leading]
    passage_parts = {name: part[candidates.document] for name, part in parts.items()}
    return _ranked(candidates, {**passage_parts, "behind": -gaps}, max_score, best, leading, close)


def _spread_meaning(candidates: Candidates) -> Candidates:
    """The candidates with cosines from 0 on, that of the farthest, and with the spread that the weights expect."""
    spread = max(float(candidates.similarity.std()), 1e-9)
    factor = min(max(MEANING_SPREAD / spread, 1.0), MAX_MEANING_FACTOR)
    least = min(candidates.similarity.min(), candidates.document_similarity.min())
    return replace(
        candidates,
        similarity=factor * (candidates.similarity - least),
        document_similarity=factor * (candidates.document_similarity - least),
    )


def _rivals(candidates: Candidates, gaps: Floats, best: Rows, documents: Rows) -> list[int]:
    """The rows of passages that are nearly as good as their document's best one, for some documents."""
    is_chosen = np.zeros(len(best), bool)
    is_chosen[documents] = True
    is_near = (gaps <= MAX_RIVAL_GAP) & is_chosen[candidates.document]
    is_near[best] = False
    rows = np.flatnonzero(is_near)
    order = rows[np.lexsort((gaps[rows], candidates.document[rows]))]
    documents_of = candidates.document[order]
    place = np.arange(len(order)) - np.searchsorted(documents_of, documents_of)
    return [int(row) for row in order[place < MAX_RIVALS]]


def _choose_passages(
    candidates: Candidates, gaps: Floats, best: Rows, leading: Rows, rivals: Sequence[int], close: Closeness
) -> tuple[Floats, Rows, Closeness]:
    """Each document's best passage once its rivals were compared: their gaps, the best rows, and their closeness."""
    rows = np.array([*best[leading], *rivals])
    # Whoever was not compared is as close as the least close of the document's passages.
    least = np.full(len(best), 1.0)
    np.minimum.at(least, candidates.document[rows], close.window)
    window = least[candidates.document]
    window[rows] = close.window
    own = WINDOW_WEIGHT * window - gaps
    starts = _document_starts(candidates)
    gaps = np.maximum.reduceat(own, starts)[candidates.document] - own
    place = np.full(len(own), -1)
    place[rows] = np.arange(len(rows))
    chosen = best.copy()
    chosen[leading] = np.lexsort((gaps, candidates.document))[starts][leading]
    return gaps, chosen, close.take(place[chosen[leading]])


def _rank_by_itself(candidates: Candidates, parts: Mapping[str, Floats], max_score: float, compare: Compare) -> Ranked:
    """Rank every passage by its own parts, whatever else its document holds."""
    total = _sum(parts)
    best = np.lexsort((-total, candidates.document))[_document_starts(candidates)]
    leading = _leading(total[best])
    return _ranked(candidates, parts, max_score, best, leading, compare(best[leading].tolist(), []))


def _ranked(
    candidates: Candidates,
    parts: Mapping[str, Floats],
    max_score: float,
    best: Rows,
    leading: Rows,
    close: Closeness | None,
) -> Ranked:
    """The scores, divided by the highest possible one, and how sure each is.

    `best` has the row of each document's best passage, `leading` the documents that were compared.
    """
    scaled = {name: part / max_score for name, part in parts.items()}
    scores = _sum(scaled).clip(0, 1)
    document_scores = scores[best]
    rows = best[leading]
    order = np.argsort(-document_scores[leading], kind="stable")
    evidence = confidence.Evidence(
        document_scores[leading][order],
        _share(candidates.keywords[rows], np.asarray(1 - candidates.spare_words))[order],
        candidates.translated[rows][order],
        candidates.is_other_script[rows][order],
        close.take(order) if close else None,
    )
    shares = _share(scores, document_scores[candidates.document])
    gate, likelihood = (
        shares * _of_documents(document_scores, leading[order], values)[candidates.document]
        for values in (confidence.gate(evidence), confidence.likelihood(evidence))
    )
    about, place = np.zeros(len(best)), np.zeros(len(scores))
    if close is not None:
        about[leading], place[rows] = close.about, close.place
    return Ranked(scores, scaled, gate, likelihood, about[candidates.document], place)


def _of_documents(document_scores: Floats, compared: Rows, values: Floats) -> Floats:
    """A number for each document, not only for those that were compared, which come best first: less for the others.

    A document that was not compared is less sure than all that were.
    """
    found = values[-1] * _share(document_scores, document_scores[compared[-1]])
    found[compared] = values
    return np.asarray(found)


def _share(values: Floats, whole: Floats) -> Floats:
    """The values as shares of others, at most 1."""
    return np.asarray(np.minimum(values / np.maximum(whole, 1e-9), 1.0))


def _document_starts(candidates: Candidates) -> Rows:
    """The first row of each document."""
    return np.flatnonzero(np.append(True, candidates.document[1:] != candidates.document[:-1]))


def _leading(document_scores: Floats) -> Rows:
    """The documents that are compared token by token."""
    return np.argsort(-document_scores, kind="stable")[:MAX_COMPARED_DOCUMENTS]


def _first_stage(candidates: Candidates, starts: Rows, order: Rows) -> dict[str, Floats]:
    """The parts of the documents' scores before anything is compared token by token.

    `order` has the rows of each document's passages, the best first.
    """
    similarity = np.maximum.reduceat(candidates.similarity, starts)
    document = DOCUMENT_WEIGHT * candidates.document_similarity[starts]
    keywords = np.maximum.reduceat(candidates.keywords, starts)
    next_keywords = _next_passage_keywords(candidates, starts, order)
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
        "definition": DEFINITION_WEIGHT * np.maximum.reduceat(candidates.definitions, starts),
        "translated": TRANSLATED_WEIGHT * np.maximum.reduceat(candidates.translated, starts),
    }


def _next_passage_keywords(candidates: Candidates, starts: Rows, order: Rows) -> Floats:
    """The share of words that each document's second best passage holds; a whole document counts as its own second."""
    counts = np.diff(np.append(starts, len(order)))
    second = candidates.keywords[order[np.minimum(starts + 1, len(order) - 1)]]
    only = np.where(candidates.is_whole_document[starts], candidates.keywords[starts], 0.0)
    return np.where(counts > 1, second, only)


def _sum(parts: Mapping[str, Floats]) -> Floats:
    return reduce(np.add, parts.values())
