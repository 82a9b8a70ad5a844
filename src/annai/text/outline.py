"""Where are the headings and the blocks of this text?"""

import re
from collections.abc import Iterable, Iterator, Mapping

from annai.definitions import lazy_pattern
from annai.text.lines import LINE_END
from annai.text.rst import MAX_HEADING_CHARACTERS, rst_outline
from annai.types import Format, Heading, Outline


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


MAX_HEADINGS = 50_000
"""A text with more of them is no document with an outline."""

_BLOCKS = frozenset(("CodeBlock", "HtmlBlock", "Table", "List"))

_MARKUP_CHARACTER = lazy_pattern(r"[\\`*_~\[\]<>{}&]")
_QUOTED = lazy_pattern(r'"([^"]+)"')
_LONE_RETURN = lazy_pattern(r"\r(?!\n)")
_AFTER_FENCE = lazy_pattern(r"(?<=[`~])[ \t]+$", re.MULTILINE)
_TABLE_ROWS = lazy_pattern(
    r"^([^\n|]*+\|[^\n]*+)\n(?=([ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t\r]*+)$)",
    re.MULTILINE,
)
_CELL_END = lazy_pattern(r"(?<!\\)\|")
_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_CLOSING_HASHES = lazy_pattern(r"(?:^|[ \t]+)#+\Z")

_PROTECTED = lazy_pattern(r"\\([!-/:-@\[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)", re.DOTALL)
_PLACEHOLDER = lazy_pattern("\0(\\d+)\0")
_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_pattern(r"\{\{[<%].*?[%>]\}\}|\{/\*.*?\*/\}"), ""),
    (lazy_pattern(r"(?:\s*\{[#.:][^{}]*\})+\s*\Z"), ""),
    (lazy_pattern(r"<((?:https?|ftp|mailto):[^\s<>]+)>"), r"\1"),
    (lazy_pattern(r"<!--.*?-->|</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>", re.DOTALL), ""),
)
_LINK = lazy_pattern(r"!?\[([^\[\]]*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])")
_EMPHASIS: Mapping[str, re.Pattern[str]] = {
    "*": lazy_pattern(r"(?<!\*)(\*{1,3})(?![\s*])(.+?)(?<![\s*])\1(?!\*)", re.DOTALL),
    "_": lazy_pattern(r"(?<!\w)(_{1,3})(?![\s_])(.+?)(?<![\s_])\1(?!\w)", re.DOTALL),
    "~": lazy_pattern(r"(?<!~)(~~)(?![\s~])(.+?)(?<![\s~])\1(?!~)", re.DOTALL),
}


def _markdown_outline(text: str, start: int) -> Outline:
    headings: list[Heading] = []
    blocks: list[tuple[int, int]] = []
    for kind, level, first, after in _top_level(text, start):
        begin = text.rfind("\n", start, first) + 1 or start
        begin = text.rfind("\r", begin, first) + 1 or begin
        if kind == "Heading":
            end = _line_end(text, max(after - 1, begin))
            headings.append(Heading(level, plain_heading(_heading_source(text[begin:end])), begin, end))
            if len(headings) > MAX_HEADINGS:
                return Outline()
        elif kind in _BLOCKS or (kind == "Paragraph" and (begin := _table_start(text, begin, after)) < after):
            # Blank lines after a block are not part of it.
            blocks.append((begin, _line_end(text, begin + len(text[begin:after].rstrip()))))
    return Outline(tuple(headings), tuple(blocks))


def _top_level(text: str, start: int) -> Iterator[tuple[str, int, int, int]]:
    """What is outside of lists and quotes: its kind, the level of a heading, and where it begins and ends."""
    # Most commands read no document and need no parser.
    from pyromark import Options, events_with_range

    source = text[start:] if start else text
    # Two things of CommonMark that the parser does not know: a line that ends in a lone CR, a fence in a tab.
    if "\r" in source:
        source = _LONE_RETURN.sub("\n", source)
    if "`\t" in source or "~\t" in source:
        source = _AFTER_FENCE.sub(_spaces, source)
    if not source.isascii():
        source = _SURROGATE.sub("\ufffd", source)
    found: list[tuple[str, int, int, int]] = []
    after = 0
    for event, span in events_with_range(source, options=Options.ENABLE_TABLES):
        if not isinstance(event, dict) or "Start" not in event:
            continue
        tag = event["Start"]
        if span["start"] >= after:
            after = span["end"]
            kind = tag if isinstance(tag, str) else next(iter(tag))
            level = int(tag["Heading"]["level"][1]) if not isinstance(tag, str) and "Heading" in tag else 0
            found.append((kind, level, span["start"], 0 if kind == "List" else after))
        elif tag == "Item" and found[-1][0] == "List" and span["end"] > found[-1][3]:
            # Not the list's own end: to the parser, a link definition after a list belongs to it.
            found[-1] = (*found[-1][:3], span["end"])
    return _in_characters(found, source, start)


def _in_characters(
    spans: Iterable[tuple[str, int, int, int]], source: str, start: int
) -> Iterator[tuple[str, int, int, int]]:
    """Positions in characters of the whole text, from those in bytes of its UTF-8 from `start` on."""
    data = b"" if source.isascii() else source.encode()
    at, characters = 0, start
    for kind, level, first, end in spans:
        if data:
            characters += len(data[at:first].decode())
            at = first
            yield kind, level, characters, characters + len(data[first:end].decode())
        else:
            yield kind, level, start + first, start + end


def _spaces(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _table_start(text: str, begin: int, end: int) -> int:
    """Where a table begins that comes right after the first lines of a paragraph, as GitHub allows; else `end`."""
    if text.find("|", begin, end) < 0:
        return end
    for match in _TABLE_ROWS.finditer(text, begin, end):
        if len(_CELL_END.findall(match[1].strip().strip("|"))) == match[2].strip().strip("|").count("|"):
            return match.start(1)
    return end


def _line_end(text: str, position: int) -> int:
    """The end of the line that a position is in, with its line ending."""
    match = LINE_END.search(text, position)
    return match.end() if match else len(text)


def _heading_source(source: str) -> str:
    """What a heading says, as it is written: without its hashes or its underline."""
    *lines, last = LINE_END.split(source.replace("\0", "\ufffd").rstrip("\r\n"))
    if lines:
        return "\n".join(lines)
    return _CLOSING_HASHES.sub("", last.strip(" \t").lstrip("#").strip(" \t"))


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
