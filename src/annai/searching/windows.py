"""Which parts of the found pages answer? Their sections are cut into windows, and the windows of all pages compete.

A window is rated by `WEIGHTS`: how close it is to the question, what the search knew of its place, and what kind of
text it is. They are those of a conditional logit on questions whose paragraph is known: how likely it is that of all
windows this one answers (`benchmarks/paragraphs.py` fits and judges them; docs/ranking.md has the figures).
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from annai.embedders.static import token_model
from annai.searching.closeness import question_tokens, rarity
from annai.splitters.windows import MAX_BLOCK_BYTES, count_bytes, cut_windows
from annai.text.fields import meaningful_path
from annai.text.readable import readable
from annai.types import Document, Format, Section

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]

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

SIZE_POWER = 0.5
"""What makes a window cheap: likely windows are chosen by likelihood / tokens ** this. By likelihood alone long windows
crowd out short ones; by likelihood per token, the other way round."""

SAME = 0.999
"""Tokens whose cosine is higher are the same."""

KNOWN_SECTIONS = 1_000
"""Sections whose windows and tokens are kept, with their texts: 3 to 5 MB. Of the sections that 680 different questions
read, these were 30%; four times as many would be 36%."""


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
    places = find_places(pages)
    rated: list[list[RatedWindow]] = [[] for _ in pages]
    values = features(question, pages, places)
    if values is None:
        ratings = -np.arange(len(places.page), dtype=np.float32)
    else:
        ratings = values @ np.array([*WEIGHTS.values()], np.float32)
    columns = (places.page, places.owner, places.start, places.end, places.heading_start, ratings)
    for page, owner, *window in zip(*(each.tolist() for each in columns), strict=True):
        rated[page].append(RatedWindow(places.headings[owner].section, *window))
    return rated


def choose_windows(
    pages: Sequence[Page], rated: Sequence[Sequence[RatedWindow]], tokens: float
) -> list[list[RatedWindow]]:
    """The best windows of all pages, as many as have so many tokens together; neighbours are joined."""
    costs = {
        (number, index): PLACE_TOKENS + _about_tokens(page.document.text[window.heading_start : window.end])
        for number, (page, windows) in enumerate(zip(pages, rated, strict=True))
        for index, window in enumerate(windows)
    }
    ranked = sorted(costs, key=lambda each: SIZE_POWER * math.log(costs[each]) - rated[each[0]][each[1]].rating)
    chosen: set[tuple[int, int]] = set()
    for page, index in ranked:
        window = rated[page][index]
        beside = [each for each in (index - 1, index + 1) if (page, each) in chosen]
        is_joined = any(rated[page][each].section == window.section for each in beside)
        cost = costs[page, index] - (PLACE_TOKENS if is_joined else 0)
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


class Heading(NamedTuple):
    """Under which windows stand: of a section, or in it."""

    document: Document
    section: Section
    text: str


class Places(NamedTuple):
    """The windows of all pages, in order: what is known of them, in arrays; positions in their document."""

    headings: Sequence[Heading]
    owner: Integers
    """The number of the heading that each stands under."""
    page: Integers
    start: Integers
    end: Integers
    heading_start: Integers
    bytes: Integers
    lists: Floats
    """How much of it is items of lists."""
    code: Floats
    tokens: NDArray[np.uint16]
    """Those of all windows, one after another."""
    counts: Integers
    """How many of them each has."""


class _Cut(NamedTuple):
    """The same of one section, packed: Python looks for garbage among thousands of kept objects, but not in bytes."""

    headings: Sequence[str]
    windows: bytes
    """For each window the number of its heading; its start, its end and the start of its heading, counted from the
    section's start; how many bytes it has, the shares of items of lists and of code, and how many tokens."""
    tokens: bytes


def find_places(pages: Sequence[Page]) -> Places:
    """The windows of the pages' sections, with the tokens of what readers read of them."""
    headings: list[Heading] = []
    cuts: list[_Cut] = []
    # Of each section: its first heading, where it begins, and its page.
    sections: list[tuple[int, int, int]] = []
    for number, page in enumerate(pages):
        for section in page.sections:
            cut = _read(page.document.text[section.start : section.end], page.document.format)
            cuts.append(cut)
            sections.append((len(headings), section.start, number))
            headings += [Heading(page.document, section, each) for each in cut.headings]
    rows = np.frombuffer(b"".join([each.windows for each in cuts])).reshape(-1, 8)
    owner, start, end, heading_start, length, counts = rows.T[[0, 1, 2, 3, 4, 7]].astype(np.int64)
    sizes = [len(each.windows) // (rows.shape[1] * rows.itemsize) for each in cuts]
    first_heading, offset, page_of = np.array(sections, np.int64).reshape(-1, 3).T.repeat(sizes, axis=1)
    return Places(
        headings,
        owner=owner + first_heading,
        page=page_of,
        start=start + offset,
        end=end + offset,
        heading_start=heading_start + offset,
        bytes=length,
        lists=rows[:, 5],
        code=rows[:, 6],
        tokens=np.frombuffer(b"".join([each.tokens for each in cuts]), np.uint16),
        counts=counts,
    )


@lru_cache(maxsize=KNOWN_SECTIONS)
def _read(text: str, text_format: Format) -> _Cut:
    """A section's windows; without those that have no tokens."""
    shown = readable(text, text_format)
    windows = cut_windows(text, text_format)
    tokens, counts = token_model().tokens_of_each([shown[each.start : each.end] for each in windows])
    headings: dict[str, int] = {}
    numbers = array("d")
    for each, count in zip(windows, counts.tolist(), strict=True):
        if count:
            heading = headings.setdefault(each.heading, len(headings))
            shares = each.shares.get("list", 0.0), each.shares.get("code", 0.0)
            numbers.extend((heading, each.start, each.end, each.heading_start, each.bytes, *shares, count))
    return _Cut((*headings,), numbers.tobytes(), tokens.tobytes())


def features(question: str, pages: Sequence[Page], places: Places) -> Floats | None:
    """What `WEIGHTS` are for, a row for each window; None if nothing can be compared."""
    if not len(places.page) or (close := _closeness(question, places)) is None:
        return None
    values = close | _circumstances(pages, places)
    return np.column_stack([values[name] for name in WEIGHTS]).astype(np.float32)


def _closeness(question: str, places: Places) -> dict[str, Floats] | None:
    """How close each window is to the question, token by token."""
    asked = question_tokens(token_model(), question)
    if not len(asked.ids):
        return None
    # The texts of all windows, then the labels of all headings, then the headings.
    labels = ["\n".join(_labels(each)) for each in places.headings]
    label_tokens, label_counts = token_model().tokens_of_each(
        chain(labels, (each.text or each.section.heading for each in places.headings))
    )
    counts = np.concatenate([places.counts, label_counts])
    starts, is_empty = counts.cumsum() - counts, counts == 0
    rows, cosines, lengths = asked.compare(np.concatenate([places.tokens, label_tokens]))
    rows = np.append(rows, 0)  # the last heading may have no tokens
    similarity = cosines.clip(0, 1)
    best = np.maximum.reduceat(similarity.take(rows, axis=0), starts)
    best[is_empty] = 0
    first, second = len(places.page), len(places.page) + len(labels)
    text, label, heading = best[:first], best[first:second][places.owner], best[second:][places.owner]
    weights = asked.lengths * rarity((text > SAME).sum(axis=0), first)
    weights /= max(float(weights.sum()), 1e-9)
    own_weights = asked.lengths**2 / max(float((asked.lengths**2).sum()), 1e-9)
    squares = lengths**2
    per_token = np.stack([lengths * (cosines @ asked.lengths), squares, squares * similarity.max(axis=1)])
    toward, square, covered = np.add.reduceat(per_token.take(rows, axis=1), starts, axis=1)
    square[is_empty], covered[is_empty] = 1, 0
    own = text @ weights
    own = (own - own.mean()) / max(float(own.std()), 1e-6)
    both = np.maximum(text, label)
    question_length = max(float(np.linalg.norm(asked.lengths @ asked.directions)), 1e-9)
    is_next = places.owner[1:] == places.owner[:-1]
    return {
        "text": own,
        "close": both @ weights,
        "cover": both @ own_weights,
        "along": (toward / np.sqrt(square) / question_length)[:first],
        "next": np.append(np.where(is_next, own[1:], 0), 0),
        "about": np.minimum(heading @ own_weights, (covered / square)[second:][places.owner]),
    }


def _labels(heading: Heading) -> tuple[str, ...]:
    """What is said of a window besides its text."""
    document = heading.document
    return document.title, meaningful_path(document.path), *heading.section.heading_path, heading.text


def _circumstances(pages: Sequence[Page], places: Places) -> dict[str, Floats]:
    """What the search knew of each window's place, and what kind of text it is."""
    page_of, begin, end = places.page, places.start, places.end
    section_start = np.array([each.section.start for each in places.headings])[places.owner]
    passage, is_first = np.zeros(len(page_of)), np.zeros(len(page_of))
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
    may_open = np.array([page.is_asked_for for page in pages])
    is_top = np.array([each.section.number[:1] in ((), (0,)) for each in places.headings])
    is_opening = np.append(True, page_of[1:] != page_of[:-1]) & is_top[places.owner] & may_open[page_of]
    return {
        "passage": passage / best,
        "page": page_scores[page_of] / best,
        "section": is_first,
        "opening": is_opening,
        "size": np.log(np.minimum(places.bytes, MAX_BLOCK_BYTES)),
        "early": begin / lengths[page_of],
        "list": places.lists,
        "code": places.code,
    }
