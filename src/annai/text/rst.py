"""Where are the headings and the blocks of a text in reStructuredText?"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from annai.definitions import lazy_pattern
from annai.text.lines import Lines
from annai.types import Heading, Outline

MIN_UNDERLINE_CHARACTERS = 4
"""An underline shorter than its title still makes a heading if it has this many characters, as in docutils."""

MAX_HEADING_CHARACTERS = 300
"""The rest of a heading is dropped: a paragraph that happens to be underlined is no name for a section."""

MAX_LEVEL = 6


def rst_outline(text: str, start: int = 0) -> Outline:
    """Find the headings and blocks from `start` on; positions count from the beginning of `text`."""
    starts = Lines(text, start).starts
    edges = [*starts, len(text)]
    lines = [text[first:end].rstrip() for first, end in zip(starts, edges[1:], strict=True)]
    tables = _tables(lines)
    titles = _titles(lines, tables)
    levels: dict[tuple[str, bool], int] = {}
    headings: list[Heading] = []
    for title in titles:
        has_overline = title.first < title.line
        level = levels.setdefault((lines[title.line + 1][0], has_overline), len(levels) + 1)
        plain = plain_title(lines[title.line])
        headings.append(Heading(min(level, MAX_LEVEL), plain, edges[title.first], edges[title.line + 2]))
    spans = sorted([*tables, *_indented(lines, tables, titles)])
    return Outline(tuple(headings), tuple((edges[first], edges[after]) for first, after in spans))


def plain_title(source: str) -> str:
    """A title's text as a person reads it: without markup, roles and targets."""
    plain = source[: 4 * MAX_HEADING_CHARACTERS]
    for pattern, replacement in _MARKUP:
        plain = pattern.sub(replacement, plain)
    return " ".join(plain.split())[:MAX_HEADING_CHARACTERS] or " ".join(source.split())[:MAX_HEADING_CHARACTERS]


_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_pattern(r"``(.+?)``"), r"\1"),
    (lazy_pattern(r":[\w:+.-]+:(?=`)"), ""),
    (lazy_pattern(r"`([^`<]+?)\s*<[^`<>]*>`_{0,2}"), r"\1"),
    (lazy_pattern(r"`([^`]+)`_{0,2}"), r"\1"),
    (lazy_pattern(r"(?<![\w*])(\*{1,2})(?![\s*])([^*]+)(?<!\s)\1(?![\w*])"), r"\2"),
    (lazy_pattern(r"\\(.)"), r"\1"),
)
_ADORNMENT = lazy_pattern(r"([!-/:-@\[-`{-~])\1*\Z")
_SIMPLE_BORDER = lazy_pattern(r"=+(?: +=+)+\Z")
_GRID_BORDER = lazy_pattern(r"\+(?:[-=]+\+)+\Z")
_NOT_UNDERLINES = ("::", "..")


class _Title:
    """The line of a title, and the first line of its heading: the overline, or the title itself."""

    __slots__ = ("first", "line")

    def __init__(self, first: int, line: int) -> None:
        self.first = first
        self.line = line


def _titles(lines: Sequence[str], tables: Sequence[tuple[int, int]]) -> list[_Title]:
    found: list[_Title] = []
    taken = 0
    for index in range(1, len(lines)):
        line, title = lines[index], index - 1
        if title < taken or not _ADORNMENT.match(line) or line in _NOT_UNDERLINES or not lines[title]:
            continue
        if _ADORNMENT.match(lines[title]) or not _is_long_enough(line, lines[title]) or _is_inside(tables, title):
            continue
        before = lines[title - 1] if title > taken else ""
        if title > taken and _ADORNMENT.match(before):
            overlined = before[0] == line[0] and (title - 1 == taken or not lines[title - 2])
            if not overlined:
                continue
            found.append(_Title(title - 1, title))
        elif lines[title][0].isspace() or not (not before or before.startswith(".. ")):
            continue
        else:
            found.append(_Title(title, title))
        taken = index + 1
    return found


def _is_long_enough(underline: str, title: str) -> bool:
    return len(underline) >= min(len(title.strip()), MIN_UNDERLINE_CHARACTERS)


def _tables(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Line ranges of simple tables (`====  ====`) and grid tables (`+----+`)."""
    simple = _simple_tables(lines)
    grids: list[tuple[int, int]] = []
    after = 0
    for index, line in enumerate(lines):
        if index < after or line[:1] != "+" or not _GRID_BORDER.match(line) or _is_inside(simple, index):
            continue
        after = index + 1
        while after < len(lines) and lines[after][:1] in ("+", "|") and lines[after]:
            after += 1
        grids.append((index, after))
    return sorted([*simple, *grids])


def _simple_tables(lines: Sequence[str]) -> list[tuple[int, int]]:
    borders = [index for index, line in enumerate(lines) if line[:1] == "=" and _SIMPLE_BORDER.match(line)]
    found: list[tuple[int, int]] = []
    index = 0
    while index < len(borders):
        # A table has two or three borders; the last is followed by a blank line.
        last = index + 1
        if last < len(borders) and lines[borders[last] + 1 : borders[last] + 2] not in ([], [""]):
            last += 1
        if last < len(borders):
            found.append((borders[index], borders[last] + 1))
        index = last + 1
    return found


def _indented(
    lines: Sequence[str], tables: Sequence[tuple[int, int]], titles: Sequence[_Title]
) -> list[tuple[int, int]]:
    """Line ranges of indented text, including blank lines in it, each with the directive that it belongs to."""
    found: list[tuple[int, int]] = []
    title_lines = {title.line for title in titles}
    first = after = -1
    directive = -1
    for index, line in enumerate(lines):
        if not line:
            continue
        if line[0].isspace() and index not in title_lines and not _is_inside(tables, index):
            if first < 0:
                first = directive if directive >= 0 else index
            after = index + 1
            continue
        if first >= 0:
            found.append((first, after))
            first = -1
        directive = index if line.startswith(".. ") else -1
    if first >= 0:
        found.append((first, after))
    return found


def _is_inside(ranges: Sequence[tuple[int, int]], line: int) -> bool:
    index = bisect_right(ranges, line, key=itemgetter(0)) - 1
    return index >= 0 and line < ranges[index][1]
