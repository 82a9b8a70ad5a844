"""Which sentences has a passage? What people read of it, rows of tables and lines of code, with their positions."""

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from annai.definitions import lazy_pattern
from annai.text.outline import strip_markup
from annai.text.readable import readable
from annai.text.tokens import is_cjk
from annai.types import Document, Section

MAX_CHARACTERS = 20_000
"""What is looked at of a passage; longer ones come only from settings that ask for them."""

MAX_SENTENCE_CHARACTERS = 1_200
"""What is shown of a sentence, at most."""

CODE_FACTOR, WEAK_FACTOR = 0.75, 0.3
"""How much a line of code counts, and what tells little: a link, an address, an import, another heading."""


class Sentence(NamedTuple):
    """A sentence, or a row of a table, or a line of code."""

    text: str
    position: int
    paragraph: int
    part: int
    """Sentences of different parts have a heading between them."""
    factor: float = 1.0
    is_code: bool = False


def find_sentences(document: Document, section: Section, passage: Section) -> list[Sentence]:
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
    if max(text.find("```", start, end), text.find("~~~", start, end)) < 0:
        return fence  # as on most pages, in a tenth of the time
    for match in _ANY_FENCE.finditer(text, start, end):
        if not fence:
            fence = match[1]
        elif match[1].startswith(fence) and not match[2].strip():
            fence = ""
    return fence


class _LineReader:
    """Reads the lines of a passage, one after another, and finds its sentences."""

    def __init__(self, headings: set[str], is_rst: bool) -> None:
        self.found: list[Sentence] = []
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
        # Most lines are not indented and have no fence: no code begins on these.
        may_be_code = self.fence or self._code_indent >= 0 or indent or self._is_rst or "```" in text or "~~~" in text
        if may_be_code and self._reads_code(text, line, indent, position):
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
            joined = join_sentences(joined, text) if joined else text
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
        self.found.append(Sentence(text, position, self._paragraph, self._part, WEAK_FACTOR if is_weak else 1.0))

    def _add_code(self, line: str, position: int) -> None:
        if _TEXT_WITHOUT_LINKS.search(line):
            self._paragraph += 1
            factor = WEAK_FACTOR if _IMPORT.match(line) else CODE_FACTOR
            self.found.append(Sentence(line.expandtabs(4), position, self._paragraph, self._part, factor, True))

    def _end_part(self, heading: str, position: int) -> None:
        """A heading begins another part; it is shown only where there is nothing else."""
        self.end_paragraph()
        self._part += 1
        if strip_markup(heading[:MAX_SENTENCE_CHARACTERS]).strip() not in self._headings:
            self.found.append(Sentence(heading, position, self._paragraph, self._part, WEAK_FACTOR))
        self._part += 1
        self._was_blank = True


def join_sentences(first: str, second: str) -> str:
    """Two texts one after another; Japanese has no space between sentences."""
    return first + second if is_cjk(first[-1]) or first[-1] in _CJK_MARKS else f"{first} {second}"


_CJK_MARKS = "。！？｡、」』）】"
_FENCE = lazy_pattern(r"(?:(?:[-*+]|\d{1,9}[.)])\s+)*(`{3,}|~{3,})([^`]*)\Z")
_ANY_FENCE = lazy_pattern(r"\n[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})([^\n]*)")
_PROSE_FENCE = lazy_pattern(r"\{(?!code|literal|eval|doctest|test|jupyter)")
_CODE_DIRECTIVE = lazy_pattern(r"\.\. (?:code|code-block|sourcecode|testcode|testoutput|parsed-literal|highlight)::")
_TEXT_DIRECTIVE = lazy_pattern(r"\.\. (?:note|tip|hint|important|warning|caution|danger|seealso|admonition)::\s*")
_HEADING = lazy_pattern(r"#{1,6}(?:\s|\Z)")
_UNDERLINE = lazy_pattern(r"([!-/:-@\[-`{-~])\1{2,}\Z")
_LIST_ITEM = lazy_pattern(r"(?:[-*+•]|\d{1,9}[.)])\s+(?=\S)")
_IMPORT = lazy_pattern(r"\s*(?:import|export|from|using|package|require|#include)\b")
_NO_TEXT = lazy_pattern(r"\[!\w+\]\Z|:::.*\Z|\([\w./:-]+\)=\Z|\.\. |:[\w-]+:(?:\s|\Z)|\[TOC\]\Z|[\W_]*\Z")
_LINK = lazy_pattern(
    r"!?\[(?:[^\[\]]|!?\[[^\[\]]*\](?:\([^()]*\))?)*\](?:\([^()]*\)|\[[^\[\]]*\])|<?(?:https?|ftp)://[^\s<>]+>?"
)
_TEXT_WITHOUT_LINKS = lazy_pattern(r"[^\W\d_]")
_SENTENCE_END = lazy_pattern(
    r"[.!?。！？｡](?:(?<=[。！？｡])(?![。！？｡」』）)】\]\"'”’])"
    r"|(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<! vs\.)(?<! cf\.)(?<! etc\.)[)\"'”’*_`]*\s+(?=[^\W_a-z]|[\"'“‘(\[*_`]))"
)
