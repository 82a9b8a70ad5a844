"""What is shown of a hit? The sentences of its passage that are closest to the question, as people read them."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from annai.embedders.static import token_model
from annai.searching.closeness import Floats, sentence_closeness
from annai.text.lines import LINE_END
from annai.text.outline import has_markup, strip_markup
from annai.text.readable import readable
from annai.text.tokens import is_cjk, query_words
from annai.text.width import cells
from annai.types import Document, Section

LINE_CELLS = 88
"""A line of a preview fits on one of a terminal of 100 columns, also where it breaks before a long word."""

MAX_CHARACTERS = 20_000
"""What is looked at of a passage; longer ones come only from settings that ask for them."""

MAX_SENTENCE_CHARACTERS = 1_200
"""What is shown of a sentence, at most."""

MIN_WORDS = 0.2
"""A passage that holds a smaller share of the question's words, by weight, is compared token by token."""

CODE_FACTOR, WEAK_FACTOR = 0.75, 0.3
"""How much a line of code counts, and what tells little: a link, an address, an import, another heading."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Sentences of a passage, in lines, and the line of the document on which they begin."""

    text: str
    line: int


class _Sentence(NamedTuple):
    """A sentence, or a row of a table, or a line of code."""

    text: str
    position: int
    paragraph: int
    part: int
    """Sentences of different parts have a heading between them."""
    factor: float = 1.0
    is_code: bool = False


def make_previews(question: str, passages: Sequence[tuple[Document, Section, Section]], lines: int) -> list[Preview]:
    """A preview of each passage, given with its document and the section around it, of at most this many lines."""
    found = [_sentences(*each) if lines else [] for each in passages]
    for number, (document, section, _) in enumerate(passages):
        if lines and not found[number]:
            # A passage that says nothing is shown by the section around it.
            passages = [*passages[:number], (document, section, section), *passages[number + 1 :]]
            found[number] = _sentences(*passages[number])
    scores = iter(_scores(question, found, lines))
    previews = []
    for (document, _, passage), sentences in zip(passages, found, strict=True):
        rated = next(scores)
        best = max(range(len(sentences)), key=rated.__getitem__, default=0)
        text, first = _fitting(sentences, best, lines) if sentences else ("", 0)
        breaks = LINE_END.findall(document.text, passage.start, sentences[first].position) if sentences else []
        previews.append(Preview(text, passage.start_line + len(breaks)))
    return previews


def _scores(question: str, passages: Sequence[Sequence[_Sentence]], lines: int) -> list[list[float]]:
    """How much of the question each sentence has, and what would be shown with it: half of the score each.

    Words are compared, and tokens in passages that have too few of the question's words, as in another language.
    """
    together = [each for sentences in passages for each in sentences]
    if not together:
        return [[] for _ in passages]
    shown = [count for sentences in passages for count in _followers(sentences, lines)]
    asked = query_words(question)
    weights = np.array([*asked.values()], np.float32)
    held = _held_words([*asked], [each.text for each in together])
    # What few sentences hold tells them apart.
    scores = _rate(held, weights * np.log1p(len(together) / (held.sum(axis=0) + 1)), shown)
    edges = [0, *accumulate(map(len, passages))]
    unlike = [
        row
        for start, end in pairwise(edges)
        if start < end and (held[start:end].max(axis=0) * weights).sum() < MIN_WORDS * weights.sum()
        for row in range(start, end)
    ]
    if unlike:
        tokens = [token_model().token_ids(together[row].text) for row in unlike]
        if close := sentence_closeness(token_model(), question, tokens):
            scores[unlike] = _rate(*close, [shown[row] for row in unlike])
    scores *= [each.factor for each in together]
    return [scores[start:end].tolist() for start, end in pairwise(edges)]


def _held_words(asked: Sequence[str], texts: Sequence[str]) -> Floats:
    """1 for each of the question's words that a text holds: a row for each text."""
    # A stem begins a word; a pair of Japanese characters may stand anywhere.
    terms = [word if is_cjk(word) else f" {word.removesuffix('i')}" for word in asked]
    plain = [f" {text.lower().translate(_MARKS)}" for text in texts]
    return np.array([[term in text for term in terms] for text in plain], np.float32).reshape(len(texts), len(terms))


def _rate(best: Floats, weights: Floats, shown: Sequence[int]) -> Floats:
    """Scores of sentences, from what each has of each word or token, and how many are shown with it."""
    starts = np.arange(len(shown))
    # Over the rows from each start to its end; the row at the end stands for nothing.
    windows = np.maximum.reduceat(np.pad(best, ((0, 1), (0, 0))), np.stack([starts, starts + shown], 1).ravel())[::2]
    scores: Floats = np.einsum("ij,j->i", best + windows, weights) / 2
    return scores


def _followers(sentences: Sequence[_Sentence], lines: int) -> list[int]:
    """How many sentences would be shown from each one on, itself included, judged by their length."""
    counts = []
    for start, first in enumerate(sentences):
        room, end = lines * LINE_CELLS - cells(first.text), start + 1
        while end < len(sentences) and sentences[end].part == first.part:
            room -= cells(sentences[end].text)
            if room < 0:
                break
            end += 1
        counts.append(end - start)
    return counts


def _fitting(sentences: Sequence[_Sentence], best: int, lines: int) -> tuple[str, int]:
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


def _layout(sentences: Sequence[_Sentence]) -> list[str]:
    """Sentences in lines: those of a paragraph in one, and code as it is indented."""
    shown: list[str] = []
    last: _Sentence | None = None
    indent = ""
    for each in sentences:
        if each.is_code:
            if not last or not last.is_code:
                indent = each.text[: len(each.text) - len(each.text.lstrip())]
            text = each.text.removeprefix(indent)
        else:
            text = _soften(each.text)
        if last and each.paragraph == last.paragraph:
            shown[-1] = _join(shown[-1], text)
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


def _join(first: str, second: str) -> str:
    """Two texts one after another; Japanese has no space between sentences."""
    return first + second if is_cjk(first[-1]) or first[-1] in _CJK_MARKS else f"{first} {second}"


@lru_cache(maxsize=64)  # a sentence is laid out anew with each one that joins it
def _soften(source: str) -> str:
    """A sentence without the marks of Markdown, and without the gaps where something was that readers do not read."""
    text = source[:MAX_SENTENCE_CHARACTERS]
    text = _CJK_GAP.sub("", strip_markup(text) if has_markup(text) else text)
    text = _GAP_BEFORE_MARK.sub("", _LEFT_OVER.sub("", " ".join(text.split())))
    return (text.strip() or source[:MAX_SENTENCE_CHARACTERS]) + ("…" if len(source) > MAX_SENTENCE_CHARACTERS else "")


_MARKS = {code: " " for code in range(128) if not chr(code).isalnum()}
_CJK_MARKS = "。！？｡、」』）】"
_CJK_GAP = re.compile(r"(?<=[\u3001-\u9fff])[ ]{2,}(?=[\u3001-\u9fff])")
_GAP_BEFORE_MARK = re.compile(r"(?<=[^\s:\[]) (?=[.,;:!?)\]](?:\s|\Z)|[、。」）])")
_LEFT_OVER = re.compile(r"(?:(?<=\s)|\A)\*\*(?=\S)|(?<=\S)\*\*(?=\s|\Z)|(?<=\A- ): |\A: ")
"""One half of what marks emphasis over several sentences, and the mark of a definition."""


# The lines of a passage

_FENCE = re.compile(r"(?:(?:[-*+]|\d{1,9}[.)])\s+)*(`{3,}|~{3,})([^`]*)\Z")
_ANY_FENCE = re.compile(r"\n[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})([^\n]*)")
_PROSE_FENCE = re.compile(r"\{(?!code|literal|eval|doctest|test|jupyter)")
_CODE_DIRECTIVE = re.compile(r"\.\. (?:code|code-block|sourcecode|testcode|testoutput|parsed-literal|highlight)::")
_TEXT_DIRECTIVE = re.compile(r"\.\. (?:note|tip|hint|important|warning|caution|danger|seealso|admonition)::\s*")
_HEADING = re.compile(r"#{1,6}(?:\s|\Z)")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\Z")
_LIST_ITEM = re.compile(r"(?:[-*+•]|\d{1,9}[.)])\s+(?=\S)")
_IMPORT = re.compile(r"\s*(?:import|export|from|using|package|require|#include)\b")
_NO_TEXT = re.compile(r"\[!\w+\]\Z|:::.*\Z|\([\w./:-]+\)=\Z|\.\. |:[\w-]+:(?:\s|\Z)|\[TOC\]\Z|[\W_]*\Z")
_LINK = re.compile(
    r"!?\[(?:[^\[\]]|!?\[[^\[\]]*\](?:\([^()]*\))?)*\](?:\([^()]*\)|\[[^\[\]]*\])|<?(?:https?|ftp)://[^\s<>]+>?"
)
_TEXT_WITHOUT_LINKS = re.compile(r"[^\W\d_]")
_SENTENCE_END = re.compile(
    r"[.!?。！？｡](?:(?<=[。！？｡])(?![。！？｡」』）)】\]\"'”’])"
    r"|(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<! vs\.)(?<! cf\.)(?<! etc\.)[)\"'”’*_`]*\s+(?=[^\W_a-z]|[\"'“‘(\[*_`]))"
)


def _sentences(document: Document, section: Section, passage: Section) -> list[_Sentence]:
    """The sentences of a passage; without its headings and what else says nothing, if there is anything else."""
    reader = _LineReader({document.title, passage.heading, *passage.heading_path}, document.format == "rst")
    if passage.start > section.start and document.format == "markdown":
        reader.fence = _open_fence(document.text, section.start, passage.start)
    before = f"{reader.fence}\n" if reader.fence else ""
    text = before + document.text[passage.start : min(passage.end, passage.start + MAX_CHARACTERS)]
    shown = readable(text, document.format, is_shown=True)
    position = passage.start
    for line, raw in zip(shown.split("\n"), text.split("\n"), strict=True):
        if before:
            before = ""
            continue
        # What was blanked at the beginning of a line does not indent it.
        reader.read(line.rstrip(), len(raw) - len(raw.lstrip()), position)
        position += len(line) + 1
    reader.end_paragraph()
    return reader.found


def _open_fence(text: str, start: int, end: int) -> str:
    """The marks of the code fence that is open at a position; no code is open where the section begins."""
    fence = ""
    for match in _ANY_FENCE.finditer(text, start, end):
        if not fence:
            fence = match[1]
        elif match[1].startswith(fence) and not match[2].strip():
            fence = ""
    return fence


class _LineReader:
    """Reads the lines of a passage, one after another, and finds its sentences."""

    def __init__(self, headings: set[str], is_rst: bool) -> None:
        self.found: list[_Sentence] = []
        self.fence = ""
        self._headings = headings
        self._is_rst = is_rst
        self._is_code = True
        self._code_indent = -1
        self._was_blank = True
        self._in_list = False
        self._lines: list[tuple[int, str]] = []
        self._paragraph = self._part = 0

    def read(self, line: str, indent: int, position: int) -> None:
        """Take the next line; what stands in no sentence is passed over."""
        bare = line.lstrip()
        text = bare if self.fence else bare.lstrip("> \t")
        if self._reads_code(text, line, indent, position):
            return
        first = text[:1]
        if not text:
            self.end_paragraph()
        elif first.isalnum():
            if first.isdecimal() and _LIST_ITEM.match(text):
                self.end_paragraph()
                self._in_list = True
            elif self._was_blank and not indent:
                self._in_list = False
            self._lines.append((position, text))
        else:
            self._read_marked(text, first, indent, position)
        self._was_blank = not text

    def _read_marked(self, text: str, first: str, indent: int, position: int) -> None:
        """Take a line that begins with a mark of some kind."""
        if first == "#" and not self._is_rst and _HEADING.match(text):
            self._end_part(text.strip("# "), position)
        elif len(self._lines) == 1 and _UNDERLINE.match(text):
            (where, title), self._lines = self._lines[0], []
            self._end_part(title, where)
        elif self._is_rst and (match := _TEXT_DIRECTIVE.match(text)):
            self.end_paragraph()
            if match.end() < len(text):
                self._lines.append((position, text[match.end() :]))
        elif _NO_TEXT.match(text):
            self.end_paragraph()
        elif first == "|":
            self.end_paragraph()
            self._add(" | ".join(cell.strip() for cell in text.strip("|").split("|")), position)
        else:
            if _LIST_ITEM.match(text):
                self.end_paragraph()
                self._in_list = True
            elif self._was_blank and not indent:
                self._in_list = False
            self._lines.append((position, text))

    def _reads_code(self, text: str, line: str, indent: int, position: int) -> bool:
        """Whether the line belongs to a block of code, or opens or closes one."""
        if self.fence:
            return self._reads_fence(text, line, position)
        if self._code_indent >= 0:
            if not text or indent > self._code_indent:
                self._add_code(line, position)
                return True
            self._code_indent = -1
        return (
            self._opens_rst_code(text, indent, position)
            if self._is_rst
            else self._opens_code(text, line, indent, position)
        )

    def _reads_fence(self, text: str, line: str, position: int) -> bool:
        if text.startswith(self.fence) and not text.strip(self.fence[0]):
            self.fence = ""
            self._was_blank = True
            self.end_paragraph()
        elif self._is_code:
            self._add_code(line, position)
        else:
            return False
        return True

    def _opens_code(self, text: str, line: str, indent: int, position: int) -> bool:
        if ("```" in text or "~~~" in text) and (match := _FENCE.match(text)):
            self.end_paragraph()
            self.fence, self._is_code = match[1], not _PROSE_FENCE.match(match[2].strip())
        elif self._was_blank and text and not self._in_list and (indent > 3 or line[0] == "\t"):
            self._code_indent = 3
            self._add_code(line, position)
        else:
            return False
        return True

    def _opens_rst_code(self, text: str, indent: int, position: int) -> bool:
        if not _CODE_DIRECTIVE.match(text) and not text.endswith("::"):
            return False
        if not text.startswith(".."):
            self._lines.append((position, text.removesuffix("::") + ":"))
        self.end_paragraph()
        self._code_indent = indent
        return True

    def end_paragraph(self) -> None:
        """End a paragraph, an item of a list or a row: its lines become sentences."""
        self._paragraph += 1
        if not self._lines:
            return
        starts, joined = [], ""
        for _, text in self._lines:
            joined = _join(joined, text) if joined else text
            starts.append(len(joined) - len(text))
        item = _LIST_ITEM.match(joined)
        links = [match.span() for match in _LINK.finditer(joined)] if "](" in joined else []
        ends = (match.end() for match in _SENTENCE_END.finditer(joined, item.end() if item else 0))
        edges = [end for end in ends if not any(first < end < last for first, last in links)]
        for start, end in pairwise([0, *edges, len(joined)]):
            position = self._lines[bisect_right(starts, start) - 1][0]
            self._add(joined[start:end].strip(), position)
        self._lines = []

    def _add(self, text: str, position: int) -> None:
        if not _TEXT_WITHOUT_LINKS.search(text) or text.strip("*_`= ") in self._headings:
            return
        is_weak = "](" in text or "://" in text or "][" in text
        is_weak = is_weak and not _TEXT_WITHOUT_LINKS.search(_LINK.sub("", text))
        self.found.append(_Sentence(text, position, self._paragraph, self._part, WEAK_FACTOR if is_weak else 1.0))

    def _add_code(self, line: str, position: int) -> None:
        if _TEXT_WITHOUT_LINKS.search(line):
            self._paragraph += 1
            factor = WEAK_FACTOR if _IMPORT.match(line) else CODE_FACTOR
            self.found.append(_Sentence(line.expandtabs(4), position, self._paragraph, self._part, factor, True))

    def _end_part(self, heading: str, position: int) -> None:
        """A heading begins another part; it is shown only where there is nothing else."""
        self.end_paragraph()
        self._part += 1
        if strip_markup(heading[:MAX_SENTENCE_CHARACTERS]).strip() not in self._headings:
            self.found.append(_Sentence(heading, position, self._paragraph, self._part, WEAK_FACTOR))
        self._part += 1
        self._was_blank = True
