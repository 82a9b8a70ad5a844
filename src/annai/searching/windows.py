"""Which parts of the found pages answer? Their sections are cut into windows, and the windows of all pages compete.

A window is rated by `WEIGHTS`: how close it is to the question, what the search knew of its place, and what kind of
text it is. They are those of a conditional logit on questions whose paragraph is known: how likely it is that of all
windows this one answers (`benchmarks/paragraphs.py` fits and judges them; docs/ranking.md has the figures).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from annai.embedders.static import token_model
from annai.searching.closeness import question_tokens, rarity
from annai.splitters.windows import MAX_BLOCK_BYTES, CutWindow, count_bytes, cut_windows
from annai.text.fields import meaningful_path
from annai.text.readable import readable
from annai.types import Document, Format, Section

Floats = NDArray[np.floating]

WEIGHTS: Mapping[str, float] = {
    "text": 0.55,  # how close its text is, token by token, the rare ones counting most; among all windows, standardised
    "close": 1.11,  # the same with its title, headings and path
    "cover": 0.54,  # the same, each token counting alike in every question
    "along": 0.96,  # the cosine of question and text, as if its tokens were unlike each other
    "next": 0.29,  # `text` of the window after it under the same heading
    "about": 0.39,  # how nearly the question is its heading
    "passage": 0.85,  # the score of the passage that was found there, as a share of the best
    "page": 6.91,  # the score of its page, as a share of the best
    "section": 0.63,  # whether it is in the section that the search found first in its page
    "opening": 3.0,  # whether it opens a page whose title is the question; by hand, the fit says 1.5
    "size": 0.18,  # the logarithm of its length
    "early": -1.69,  # where in its page it begins
    "list": -1.74,
    "code": -1.03,  # how much of it is items of lists, and code
}
"""What the rating is the sum of."""

PLACE_TOKENS = 20
"""What is said of a window: where it is."""

SAME = 0.999
"""Tokens whose cosine is higher are the same."""

KNOWN_SECTIONS = 4_000
"""Sections whose windows and tokens are kept: people and agents ask about the same pages again. A few megabytes."""


class Page(NamedTuple):
    """A page that was found, and what the search knows of it."""

    document: Document
    sections: Sequence[Section]
    """The sections of it that were found and may be shown, in order."""
    passages: Sequence[tuple[int, int, float]]
    """Where each passage that was found begins and ends, and its score; the best one first."""
    is_asked_for: bool
    """Whether the question is its title."""


class RatedWindow(NamedTuple):
    """A window of a document, and how likely it answers: the logarithm of that, up to a constant of the question."""

    section: Section
    start: int
    end: int
    heading_start: int
    """Where its heading begins, if it stands right under it; else its own start."""
    rating: float


def rate_windows(question: str, pages: Sequence[Page]) -> list[list[RatedWindow]]:
    """The windows of each page, in order."""
    places = [
        Place(number, section, window, tokens)
        for number, page in enumerate(pages)
        for section in page.sections
        for window, tokens in _read(page.document.text[section.start : section.end], page.document.format)
    ]
    rated: list[list[RatedWindow]] = [[] for _ in pages]
    values = features(question, pages, places)
    if values is None:
        ratings = [-float(index) for index in range(len(places))]
    else:
        ratings = (values @ np.array([*WEIGHTS.values()], np.float32)).tolist()
    for place, rating in zip(places, ratings, strict=True):
        start, end, heading_start = (place.section.start + each for each in place.window[:3])
        rated[place.page].append(RatedWindow(place.section, start, end, heading_start, rating))
    return rated


def choose_windows(
    pages: Sequence[Page], rated: Sequence[Sequence[RatedWindow]], tokens: float
) -> list[list[RatedWindow]]:
    """The best windows of all pages, as many as have so many tokens together; neighbours are joined."""
    places = ((page, index) for page, windows in enumerate(rated) for index in range(len(windows)))
    ranked = sorted(places, key=lambda each: -rated[each[0]][each[1]].rating)
    chosen: set[tuple[int, int]] = set()
    for page, index in ranked:
        window = rated[page][index]
        beside = [each for each in (index - 1, index + 1) if (page, each) in chosen]
        is_joined = any(rated[page][each].section == window.section for each in beside)
        text = pages[page].document.text[window.heading_start : window.end]
        cost = _about_tokens(text) + (0 if is_joined else PLACE_TOKENS)
        if cost <= tokens:
            tokens -= cost
            chosen.add((page, index))
        if tokens < PLACE_TOKENS:
            break
    joined: list[list[RatedWindow]] = [[] for _ in pages]
    for page, index in sorted(chosen):
        window, runs = rated[page][index], joined[page]
        if (page, index - 1) in chosen and runs[-1].section == window.section:
            runs[-1] = runs[-1]._replace(end=window.end, rating=max(runs[-1].rating, window.rating))
        else:
            runs.append(window)
    return joined


def _about_tokens(text: str) -> float:
    """How many tokens a language model counts, about: four letters each, or hardly more than one CJK character."""
    others = (count_bytes(text) - len(text)) / 2
    return (len(text) - others) / 4 + 0.9 * others


class Place(NamedTuple):
    """A window and where it is; its positions count from the start of its section."""

    page: int
    section: Section
    window: CutWindow
    tokens: NDArray[np.uint16]


@lru_cache(maxsize=KNOWN_SECTIONS)
def _read(text: str, text_format: Format) -> list[tuple[CutWindow, NDArray[np.uint16]]]:
    """A section's windows, each with the tokens of what readers read of it; without those that have none."""
    shown = readable(text, text_format)
    tokens = ((each, token_model().token_ids(shown[each.start : each.end])) for each in cut_windows(text, text_format))
    return [(window, ids) for window, ids in tokens if len(ids)]


def features(question: str, pages: Sequence[Page], places: Sequence[Place]) -> Floats | None:
    """What `WEIGHTS` are for, a row for each window; None if nothing can be compared."""
    if not places or (close := _closeness(question, pages, places)) is None:
        return None
    values = close | _circumstances(pages, places)
    return np.column_stack([values[name] for name in WEIGHTS]).astype(np.float32)


def _closeness(question: str, pages: Sequence[Page], places: Sequence[Place]) -> dict[str, Floats] | None:
    """How close each window is to the question, token by token."""
    model, asked = token_model(), question_tokens(token_model(), question)
    if not len(asked.ids):
        return None
    # The texts of all windows, then the different labels, then the different headings.
    labels, headings = dict[tuple[str, ...], int](), dict[str, int]()
    label_of, heading_of = [], []
    for place in places:
        document, heading = pages[place.page].document, place.window.heading
        key = (document.title, meaningful_path(document.path), *place.section.heading_path, heading)
        label_of.append(labels.setdefault(key, len(labels)))
        heading_of.append(headings.setdefault(heading or place.section.heading, len(headings)))
    texts = [place.tokens for place in places]
    texts += map(_label_tokens, (*map("\n".join, labels), *headings))
    starts = [0, *accumulate(map(len, texts[:-1]))]
    tokens = np.concatenate(texts)
    is_present = np.zeros(1 << 16, bool)
    is_present[tokens] = True
    distinct = np.flatnonzero(is_present)
    index_of = np.empty(1 << 16, np.int64)
    index_of[distinct] = np.arange(len(distinct))
    rows = index_of[tokens]
    cosines, lengths = model.token_cosines(distinct, asked.directions)
    similarity = cosines.clip(0, 1)
    best = np.maximum.reduceat(similarity.take(rows, axis=0), starts)
    first, second = len(places), len(places) + len(labels)
    text, label, heading_rows = best[:first], best[first:second][label_of], best[second:][heading_of]
    weights = asked.lengths * rarity((text > SAME).sum(axis=0), first)
    weights /= max(float(weights.sum()), 1e-9)
    own_weights = asked.lengths**2 / max(float((asked.lengths**2).sum()), 1e-9)
    squares = lengths**2
    per_token = (lengths * (cosines @ asked.lengths), squares, squares * similarity.max(axis=1))
    toward, square, covered = (np.add.reduceat(each[rows], starts) for each in per_token)
    own = text @ weights
    own = (own - own.mean()) / max(float(own.std()), 1e-6)
    both = np.maximum(text, label)
    question_length = max(float(np.linalg.norm(asked.lengths @ asked.directions)), 1e-9)
    is_next = np.array([_is_followed(*each) for each in pairwise(places)], bool)
    return {
        "text": own,
        "close": both @ weights,
        "cover": both @ own_weights,
        "along": (toward / np.sqrt(square) / question_length)[:first],
        "next": np.append(np.where(is_next, own[1:], 0), 0),
        "about": np.minimum(heading_rows @ own_weights, (covered / square)[second:][heading_of]),
    }


def _is_followed(place: Place, after: Place) -> bool:
    """Whether the second window stands under the same heading as the first."""
    return place.section is after.section and place.window.heading == after.window.heading


def _circumstances(pages: Sequence[Page], places: Sequence[Place]) -> dict[str, Floats]:
    """What the search knew of each window's place, and what kind of text it is."""
    page_of = np.array([place.page for place in places])
    section_start = np.array([place.section.start for place in places])
    begin, end = (section_start + np.array([place.window[edge] for place in places]) for edge in (0, 1))
    passage, is_first = np.zeros(len(places)), np.zeros(len(places))
    for number, page in enumerate(pages):
        first, last, score = np.array(page.passages, np.float64).T
        here = np.flatnonzero(page_of == number)
        overlap = np.minimum(end[here, None], last) - np.maximum(begin[here, None], first)
        passage[here] = ((overlap > (end - begin)[here, None] / 2) * score).max(axis=1, initial=0)
        starts = [each.start for each in page.sections if each.start <= first[0]]
        is_first[here] = section_start[here] == max(starts, default=-1)
    page_scores = np.array([max(score for *_, score in page.passages) for page in pages])
    best = max(float(page_scores.max()), 1e-9)
    lengths = np.array([max(len(page.document.text), 1) for page in pages])
    is_opening = [pages[place.page].is_asked_for and place.section.number[:1] in ((), (0,)) for place in places]
    return {
        "passage": passage / best,
        "page": page_scores[page_of] / best,
        "section": is_first,
        "opening": np.append(True, page_of[1:] != page_of[:-1]) & is_opening,
        "size": np.log(np.minimum([place.window.bytes for place in places], MAX_BLOCK_BYTES)),
        "early": begin / lengths[page_of],
        "list": np.array([place.window.shares.get("list", 0.0) for place in places]),
        "code": np.array([place.window.shares.get("code", 0.0) for place in places]),
    }


@lru_cache(maxsize=KNOWN_SECTIONS)
def _label_tokens(text: str) -> NDArray[np.uint16]:
    """The tokens of a label, at least one."""
    ids = token_model().token_ids(text)
    return ids if len(ids) else np.zeros(1, np.uint16)
