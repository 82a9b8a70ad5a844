"""What is shown of a hit? The sentences of its passage that are closest to the question, as people read them."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from annai.definitions import dataclass, lazy_pattern
from annai.searching.closeness import Floats
from annai.text.escapes import cells
from annai.text.lines import LINE_END
from annai.text.outline import has_markup, strip_markup
from annai.text.sentences import CODE_FACTOR, MAX_SENTENCE_CHARACTERS, Sentence, find_sentences, join_sentences
from annai.text.tokens import is_cjk, query_words
from annai.types import Document, Section

LINE_CELLS = 88
"""A line of a preview fits on one of a terminal of 100 columns, also where it breaks before a long word."""

MIN_WORDS = 0.2
"""A passage that holds a smaller share of the question's words, by weight, is shown where it is closest otherwise."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Sentences of a passage, in lines, and the line of the document on which they begin."""

    text: str
    line: int
    position: int
    """Where in the document they begin."""


class Previewed(NamedTuple):
    """A passage to show."""

    document: Document
    section: Section
    """The section around it."""
    passage: Section
    place: float = 0.0
    """Where in it the text begins that is closest to the question, token by token, as a share of it."""


def make_previews(question: str, passages: Sequence[Previewed], lines: int) -> list[Preview]:
    """A preview of each passage, of at most this many lines."""
    if not lines:
        return [Preview("", each.passage.start_line, each.passage.start) for each in passages]
    read = [_read(each) for each in passages]
    previews = []
    for (each, sentences), rated in zip(read, _scores(question, read, lines), strict=True):
        best = max(range(len(sentences)), key=rated.__getitem__, default=0)
        text, first = _fitting(sentences, best, lines) if sentences else ("", 0)
        at = sentences[first].position if sentences else each.passage.start
        breaks = LINE_END.findall(each.document.text, each.passage.start, at)
        previews.append(Preview(text, each.passage.start_line + len(breaks), at))
    return previews


def _read(shown: Previewed) -> tuple[Previewed, list[Sentence]]:
    """The sentences of a passage; one that says nothing is shown by the section around it."""
    if sentences := find_sentences(shown.document, shown.section, shown.passage):
        return shown, sentences
    around = shown._replace(passage=shown.section, place=0.0)
    return around, find_sentences(around.document, around.section, around.passage)


def _scores(question: str, passages: Sequence[tuple[Previewed, list[Sentence]]], lines: int) -> list[list[float]]:
    """How much of the question each sentence has, and what would be shown with it: half of the score each.

    In a passage that has too few of the question's words, as in another language, what is close token by token counts.
    """
    together = [each for _, sentences in passages for each in sentences]
    if not together:
        return [[] for _ in passages]
    shown = [count for _, sentences in passages for count in _followers(sentences, lines)]
    asked = query_words(question)
    weights = np.array([*asked.values()], np.float32)
    held = _held_words([*asked], [each.text for each in together])
    # What few sentences hold tells them apart.
    scores = _rate(held, weights * np.log1p(len(together) / (held.sum(axis=0) + 1)), shown)
    edges = [0, *accumulate(len(sentences) for _, sentences in passages)]
    for (each, sentences), (start, end) in zip(passages, pairwise(edges), strict=True):
        if start < end and (held[start:end].max(axis=0) * weights).sum() < MIN_WORDS * weights.sum():
            length = max(each.passage.end - each.passage.start, 1)
            places = np.array([(sentence.position - each.passage.start) / length for sentence in sentences])
            scores[start:end] = 1 - np.abs(places - each.place)
    scores *= [each.factor for each in together]
    return [scores[start:end].tolist() for start, end in pairwise(edges)]


def _held_words(asked: Sequence[str], texts: Sequence[str]) -> Floats:
    """1 for each of the question's words that a text holds: a row for each text."""
    # A stem begins a word; a pair of Japanese characters may stand anywhere.
    terms = [word if is_cjk(word) else f" {word.removesuffix('i')}" for word in asked]
    # A line each, for one call is quicker than many; no sentence goes over several lines.
    plain = "\n".join(f" {text}" for text in texts).lower().translate(_MARKS).split("\n")
    return np.array([[term in text for term in terms] for text in plain], np.float32).reshape(len(texts), len(terms))


def _rate(best: Floats, weights: Floats, shown: Sequence[int]) -> Floats:
    """Scores of sentences, from what each has of each word or token, and how many are shown with it."""
    edges = np.repeat(np.arange(len(shown)), 2)
    edges[1::2] += shown
    # Over the rows from each start to its end; the row at the end stands for nothing.
    windows = np.maximum.reduceat(np.concatenate([best, np.zeros_like(best[:1])]), edges)[::2]
    scores: Floats = np.einsum("ij,j->i", best + windows, weights) / 2
    return scores


def _followers(sentences: Sequence[Sentence], lines: int) -> list[int]:
    """How many sentences would be shown from each one on, itself included, judged by their length."""
    counts = []
    widths = [cells(each.text) for each in sentences]
    for start, first in enumerate(sentences):
        room, end = lines * LINE_CELLS - widths[start], start + 1
        while end < len(sentences) and sentences[end].part == first.part:
            room -= widths[end]
            if room < 0:
                break
            end += 1
        counts.append(end - start)
    return counts


def _fitting(sentences: Sequence[Sentence], best: int, lines: int) -> tuple[str, int]:
    """What is shown, and its first sentence: the best one and those after it that fit.

    Where these leave room, the sentences before it in its paragraph, or before code, which seldom explains itself.
    """
    weakest = min(sentences[best].factor, CODE_FACTOR)

    def beside(step: int) -> Iterator[int]:
        """The sentences after the best one, or before it, up to a heading; without what tells less."""
        index = best + step
        while 0 <= index < len(sentences) and sentences[index].part == sentences[best].part:
            if step < 0 and not sentences[best].is_code and sentences[index].paragraph != sentences[best].paragraph:
                break
            if sentences[index].factor >= weakest:
                yield index
            index += step

    chosen = [best]
    shown = _layout([sentences[best]])
    if _count(shown) > lines:
        return _cut("\n".join(shown), lines * LINE_CELLS), best
    for step in (1, -1):
        for index in beside(step):
            grown = _layout([sentences[each] for each in sorted((*chosen, index))])
            if _count(grown) > lines:
                break
            chosen, shown = sorted((*chosen, index)), grown
    return "\n".join(shown), chosen[0]


def _count(shown: Sequence[str]) -> int:
    """How many lines it takes to show these."""
    return sum(-(-cells(line) // LINE_CELLS) for line in shown)


def _layout(sentences: Sequence[Sentence]) -> list[str]:
    """Sentences in lines: those of a paragraph in one, and code as it is indented."""
    shown: list[str] = []
    last: Sentence | None = None
    indent = ""
    for each in sentences:
        if each.is_code:
            if not last or not last.is_code:
                indent = each.text[: len(each.text) - len(each.text.lstrip())]
            text = each.text.removeprefix(indent)
        else:
            text = _soften(each.text)
        if last and each.paragraph == last.paragraph:
            shown[-1] = join_sentences(shown[-1], text)
        else:
            shown.append(text)
        last = each
    return shown


def _cut(text: str, limit: int) -> str:
    """The beginning of a text that is too long, up to a space if one is near."""
    room = limit - 1
    end = 0
    while end < len(text) and (room := room - cells(text[end])) >= 0:
        end += 1
    if end == len(text):
        return text
    space = text.rfind(" ", end - 20, end)
    return text[: space if space > 0 else end].rstrip() + "…"


@lru_cache(maxsize=64)  # a sentence is laid out anew with each one that joins it
def _soften(source: str) -> str:
    """A sentence without the marks of Markdown, and without the gaps where something was that readers do not read."""
    text = source[:MAX_SENTENCE_CHARACTERS]
    text = strip_markup(text) if has_markup(text) else text
    text = " ".join((text if text.isascii() else _CJK_GAP.sub("", text)).split())
    text = _GAP_BEFORE_MARK.sub("", _LEFT_OVER.sub("", text) if "**" in text or ": " in text[:4] else text)
    return (text.strip() or source[:MAX_SENTENCE_CHARACTERS]) + ("…" if len(source) > MAX_SENTENCE_CHARACTERS else "")


_MARKS = {code: " " for code in range(128) if not chr(code).isalnum() and chr(code) != "\n"}
_CJK_GAP = lazy_pattern(r"(?<=[\u3001-\u9fff])[ ]{2,}(?=[\u3001-\u9fff])")
_GAP_BEFORE_MARK = lazy_pattern(r" (?<=[^\s:\[] )(?=[.,;:!?)\]](?:\s|\Z)|[、。」）])")
_LEFT_OVER = lazy_pattern(r"(?:(?<=\s)|\A)\*\*(?=\S)|(?<=\S)\*\*(?=\s|\Z)|(?<=\A- ): |\A: ")
"""One half of what marks emphasis over several sentences, and the mark of a definition."""
