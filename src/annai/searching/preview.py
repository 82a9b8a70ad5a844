"""What is shown of a hit? The sentences of its best window, as people read them; of the first hit, of two windows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from annai.answers import FIRST_TIMES
from annai.definitions import dataclass, lazy_pattern
from annai.embedders.static import token_model
from annai.files.pages import page_at
from annai.searching.closeness import question_tokens
from annai.searching.windows import RatedWindow
from annai.text.escapes import cells
from annai.text.lines import line_at
from annai.text.outline import has_markup, strip_markup
from annai.text.sentences import CODE_FACTOR, MAX_SENTENCE_CHARACTERS, Sentence, find_sentences, join_sentences
from annai.types import Document, Section

LINE_CELLS = 88
"""A line of a preview fits on one of a terminal of 100 columns, also where it breaks before a long word."""

NEARLY = 0.8
"""The best sentence is the first from which on what is shown has this share of the most: the beginning explains."""

MAX_BEHIND = 2.5
"""Another window is shown if it is at least a twelfth (e ** -2.5) as likely as the best one. One page in seven has
none; with one on every page hardly more previews would show the answer."""

CUT = "…"
"""A line of its own between two windows."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Sentences of a passage, in lines, and the line of the document on which they begin."""

    text: str
    line: int
    position: int
    """Where in the document they begin."""
    last: int
    """Where the last of them begins."""


def make_preview(
    question: str,
    document: Document,
    section: Section,
    span: tuple[int, int],
    lines: int,
    windows: Sequence[RatedWindow] = (),
) -> Preview:
    """A preview of at most so many lines: what answers in a span of a section, and what follows it there.

    With the windows of the document, of which the span is the best: of up to `FIRST_TIMES` as many lines, and of the
    next best window too if that is nearly as likely. If they are neighbours, they are shown as one.
    """
    if not windows or not lines:
        return _preview(question, document, section, span, lines)
    most = lines * FIRST_TIMES
    shown = _preview(question, document, section, span, 2 * lines - 1)
    least = max(each.rating for each in windows) - MAX_BEHIND
    likely = (each for each in windows if each.rating >= least)
    others = [each for each in likely if each.end <= shown.position or each.start > shown.last]
    if not others:
        return shown
    other = max(others, key=lambda each: each.rating)
    starts = [each.start for each in windows]
    is_beside = abs(starts.index(other.start) - starts.index(span[0])) == 1
    if is_beside and section.start <= other.start < section.end:
        return _preview(question, document, section, (min(span[0], other.start), max(span[1], other.end)), most)
    around = other.section
    if other.start < shown.position < around.end:
        around = around._replace(end=shown.position)
    room = most - _count([*shown.text.split("\n"), CUT])
    second = _preview(question, document, around, (other.start, other.end), room)
    return replace(shown, text=f"{shown.text}\n{CUT}\n{second.text}") if second.text else shown


def _preview(question: str, document: Document, section: Section, span: tuple[int, int], lines: int) -> Preview:
    """A preview of one place."""
    start, end = span
    sentences: list[Sentence] = []
    if lines:
        after = min(max(end + lines * LINE_CELLS, start), section.end)
        sentences = find_sentences(document, section, section._replace(start=start, end=after))
        # What says nothing is shown by the section around it.
        sentences = sentences or find_sentences(document, section, section)
    if not sentences:
        return Preview("", line_at(document.text, start), start, start)
    candidates = [each for each in sentences if each.position < end] or sentences
    best = _best_start(question, sentences, len(candidates), lines)
    text, shown = _fitting(sentences, _beginning(document, sentences, best, lines), lines)
    at = sentences[shown[0]].position
    return Preview(text, line_at(document.text, at), at, sentences[shown[-1]].position)


def _best_start(question: str, sentences: Sequence[Sentence], count: int, lines: int) -> int:
    """From which of the first `count` sentences on to show: the first that does nearly as well as any.

    Half of what counts is how close that sentence is to the question, token by token, and half what is shown with it.
    """
    asked = question_tokens(token_model(), question)
    factors = np.array([each.factor for each in sentences[:count]])
    if count == 1 or not len(asked.ids):
        return int(np.argmax(factors))
    tokens, counts = token_model().tokens_of_each(each.text for each in sentences)
    rows, cosines, _ = asked.compare(tokens)
    # A row of zeros at the end, for what has no tokens there.
    near = np.maximum(cosines.take(np.append(rows, 0), axis=0), 0) ** 2
    own = np.maximum.reduceat(near, counts.cumsum() - counts)
    shown = [own[row : row + more].max(axis=0) for row, more in enumerate(_followers(sentences, lines)[:count])]
    scores = (own[:count] + shown) @ asked.lengths**2 * factors
    return int(np.argmax(scores >= NEARLY * scores.max()))


def _beginning(document: Document, sentences: Sequence[Sentence], best: int, lines: int) -> int:
    """From which sentence on to show, so that the best one is shown: the window's first if that is possible.

    What is shown begins on the page of the best one, under the same heading.
    """

    def place(sentence: Sentence) -> tuple[int, int]:
        return sentence.part, page_at(document.path, document.text, sentence.position)

    here = [index for index in range(best) if place(sentences[index]) == place(sentences[best])]
    before = [index for index in here if sentences[index].factor >= _weakest(sentences[best])]
    fits = before and _count(_layout([sentences[each] for each in (*before, best)])) <= lines
    return before[0] if fits else best


def _weakest(best: Sentence) -> float:
    """What tells less than this is not shown beside a sentence."""
    return min(best.factor, CODE_FACTOR)


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


def _fitting(sentences: Sequence[Sentence], best: int, lines: int) -> tuple[str, list[int]]:
    """What is shown, and its sentences: the best one and those after it that fit.

    Where these leave room, the sentences before it in its paragraph, or before code, which seldom explains itself.
    """
    weakest = _weakest(sentences[best])

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
        return _cut("\n".join(shown), lines * LINE_CELLS), [best]
    for step in (1, -1):
        for index in beside(step):
            grown = _layout([sentences[each] for each in sorted((*chosen, index))])
            if _count(grown) > lines:
                break
            chosen, shown = sorted((*chosen, index)), grown
    return "\n".join(shown), chosen


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


_CJK_GAP = lazy_pattern(r"(?<=[\u3001-\u9fff])[ ]{2,}(?=[\u3001-\u9fff])")
_GAP_BEFORE_MARK = lazy_pattern(r" (?<=[^\s:\[] )(?=[.,;:!?)\]](?:\s|\Z)|[、。」）])")
_LEFT_OVER = lazy_pattern(r"(?:(?<=\s)|\A)\*\*(?=\S)|(?<=\S)\*\*(?=\s|\Z)|(?<=\A- ): |\A: ")
"""One half of what marks emphasis over several sentences, and the mark of a definition."""
