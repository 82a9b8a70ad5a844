"""Where are the headings and the blocks of this text?"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from annai.text.lines import Lines
from annai.text.rst import MAX_HEADING_CHARACTERS, rst_outline
from annai.types import Format, Heading, Outline

if TYPE_CHECKING:
    from markdown_it.token import Token

T = TypeVar("T")


def outline(text: str, text_format: Format, start: int = 0) -> Outline:
    """Find the headings and blocks from `start` on; positions count from the beginning of `text`."""
    if text_format == "markdown":
        return _markdown_outline(text, start)
    if text_format == "rst":
        return rst_outline(text, start)
    return Outline()


def plain_heading(source: str) -> str:
    """A Markdown heading's text as a person reads it: without markup, link targets, anchors, shortcodes and tags."""
    source = source[: 4 * MAX_HEADING_CHARACTERS]
    plain = strip_markup(source) if has_markup(source) else source
    plain = " ".join(plain.split())
    if not plain:
        # A heading that is only a shortcode, such as {{% heading "whatsnext" %}}, has its words in the quotes.
        plain = " ".join(_QUOTED.findall(source)) or " ".join(source.split())
    return plain[:MAX_HEADING_CHARACTERS]


MAX_NESTING = 100
"""How deep lists and quotes may nest. The parser recurses for each level and stops reading the text at the limit:
enough for any real document, and not too much for Python's stack."""

MAX_LINES, MAX_TOKENS = 400_000, 600_000
"""What is parsed of a Markdown text: lines, and tokens of the parser, each of which takes some 400 bytes. In a longer
text only the headings are looked for."""

MAX_HEADINGS = 50_000
"""A text with more of them is no document with an outline."""

_RULES = ("table", "code", "fence", "blockquote", "hr", "list", "html_block", "heading", "lheading")
"""Without `reference`: link definitions matter only above an underline, and `_count_link_definitions` finds those."""

_BLOCKS = frozenset(("fence", "code_block", "html_block", "table_open", "bullet_list_open", "ordered_list_open"))

_HEADING_OR_FENCE = re.compile(r"^ {0,3}(?:(#{1,6})[ \t]+([^\n]*)|(`{3,}|~{3,}))", re.MULTILINE)
_MARKUP_CHARACTER = re.compile(r"[\\`*_~\[\]<>{}&]")
_QUOTED = re.compile(r'"([^"]+)"')
_LINK_DEFINITION = re.compile(r"\[[^\]]+\]:")

_PROTECTED = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)", re.DOTALL)
_PLACEHOLDER = re.compile("\0(\\d+)\0")
_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\{\{[<%].*?[%>]\}\}|\{/\*.*?\*/\}"), ""),
    (re.compile(r"(?:\s*\{[#.:][^{}]*\})+\s*\Z"), ""),
    (re.compile(r"<((?:https?|ftp|mailto):[^\s<>]+)>"), r"\1"),
    (re.compile(r"<!--.*?-->|</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>", re.DOTALL), ""),
)
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])")
_EMPHASIS: Mapping[str, re.Pattern[str]] = {
    "*": re.compile(r"(?<!\*)(\*{1,3})(?![\s*])(.+?)(?<![\s*])\1(?!\*)", re.DOTALL),
    "_": re.compile(r"(?<!\w)(_{1,3})(?![\s_])(.+?)(?<![\s_])\1(?!\w)", re.DOTALL),
    "~": re.compile(r"(?<!~)(~~)(?![\s~])(.+?)(?<![\s~])\1(?!~)", re.DOTALL),
}


def _markdown_outline(text: str, start: int) -> Outline:
    if text.count("\n", start) > MAX_LINES:
        return _headings_only(text, start)
    try:
        outline = _parsed_outline(text, start)
    except _TooManyTokens:
        return _headings_only(text, start)
    return outline if len(outline.headings) <= MAX_HEADINGS else Outline()


def _headings_only(text: str, start: int) -> Outline:
    """The headings with `#` outside of code fences, for a text that is too long to be parsed."""
    headings: list[Heading] = []
    fence = ""
    for match in _HEADING_OR_FENCE.finditer(text, start):
        marks, source, opening = match.groups()
        if opening and (not fence or opening.startswith(fence)):
            fence = "" if fence else opening
        elif marks and not fence:
            end = text.find("\n", match.end()) + 1 or len(text)
            headings.append(Heading(len(marks), plain_heading(source.strip().rstrip("#")), match.start(), end))
            if len(headings) > MAX_HEADINGS:
                return Outline()
    return Outline(tuple(headings))


class _TooManyTokens(Exception):
    """A text that takes too much memory to parse."""


class _Tokens(list[T]):
    """The parser's tokens, up to the limit."""

    def append(self, token: T) -> None:
        if len(self) >= MAX_TOKENS:
            raise _TooManyTokens
        super().append(token)


def _parsed_outline(text: str, start: int) -> Outline:
    starts = Lines(text, start).starts
    position = [*starts, len(text)].__getitem__
    last_line = len(starts)
    headings: list[Heading] = []
    blocks: list[tuple[int, int]] = []
    tokens = _parser()(text[start:] if start else text)
    for token, following in _top_level(tokens):
        first, after = token.map or (0, 0)
        after = min(after, last_line)
        if token.type == "heading_open":
            source = following.content if following else ""
            skipped = 0 if token.markup.startswith("#") else _count_link_definitions(source)
            if skipped:
                lines = source.split("\n")[skipped:]
                if not lines:
                    continue
                source = "\n".join(lines)
            heading = Heading(int(token.tag[1]), plain_heading(source), position(first + skipped), position(after))
            headings.append(heading)
        elif token.type in _BLOCKS:
            begin, end = position(first), position(after)
            while after > first + 1 and not text[position(after - 1) : end].strip():
                after -= 1
                end = position(after)
            blocks.append((begin, end))
    return Outline(tuple(headings), tuple(blocks))


def _top_level(tokens: "list[Token]") -> "Iterator[tuple[Token, Token | None]]":
    """The opening tokens outside of lists and quotes, each with the token after it."""
    for index, token in enumerate(tokens):
        if token.level == 0 and token.nesting >= 0:
            yield token, tokens[index + 1] if index + 1 < len(tokens) else None


def _count_link_definitions(source: str) -> int:
    """How many lines at the beginning of an underlined paragraph define links: they are not part of the heading."""
    count = 0
    for line in source.split("\n"):
        if not _LINK_DEFINITION.match(line.lstrip()):
            break
        count += 1
    return count


@cache
def _parser() -> "Callable[[str], list[Token]]":
    # Most commands read no document and need no parser.
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore

    parser = MarkdownIt("zero", {"maxNesting": MAX_NESTING, "html": True}).enable(list(_RULES))
    parser.core.ruler.enableOnly(["normalize", "block"])

    def parse(source: str) -> "list[Token]":
        state = StateCore(source, parser, {})
        state.tokens = _Tokens()
        parser.core.process(state)
        return state.tokens

    return parse


def has_markup(source: str) -> bool:
    """Whether there may be something for `strip_markup` to do."""
    return _MARKUP_CHARACTER.search(source) is not None


def strip_markup(source: str) -> str:
    """A short Markdown text without its marks: emphasis, code spans, links, images, tags and escapes."""
    protected: list[str] = []

    def protect(match: re.Match[str]) -> str:
        protected.append(match[1] or match[3].strip())
        return f"\0{len(protected) - 1}\0"

    text = _PROTECTED.sub(protect, source.replace("\0", ""))
    for pattern, replacement in _MARKUP if "<" in text or "{" in text else ():
        text = pattern.sub(replacement, text)
    for _ in range(3 if "[" in text else 0):  # an image inside a link, and one more for good measure
        text, changes = _LINK.subn(r"\1", text)
        if not changes:
            break
    for mark, pattern in _EMPHASIS.items():
        for _ in range(2 if mark in text else 0):
            text = pattern.sub(r"\2", text)
    if "&" in text:
        from html import unescape

        text = unescape(text)
    return _PLACEHOLDER.sub(lambda match: protected[int(match[1])], text)
