"""How is text shown on a terminal and in a log? Escaped, since control characters would be obeyed; in so many cells."""

import logging
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from types import TracebackType

from annai.errors import without_secrets

# The control characters (C0, DEL and C1) but for tabs and line ends, line and paragraph separators, everything that
# reorders text (bidirectional controls), and halves of surrogate pairs, which no encoding holds.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]|\r(?!\n)"
)
_LINE_END = re.compile("[\r\n]")


def escape(text: str) -> str:
    r"""The text with `\x1b` for an escape character and so on, so that a terminal shows it and obeys none of it."""
    return _CONTROL.sub(_escape, text)


def escape_line(text: str) -> str:
    """As `escape`, and line ends too, so that a name can never look like two lines."""
    return escape_line_ends(escape(text))


def escape_line_ends(text: str) -> str:
    r"""The text with `\n` for a line end and all else as it is: one line of a list that a program reads."""
    return _LINE_END.sub(_escape, text)


def escape_json(text: str) -> str:
    """The same value as JSON that a terminal can be shown: what `json.dumps` leaves as it is, escaped as JSON does."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def cells(text: str) -> int:
    """How many cells of a terminal the text takes: two for each wide character, none for a mark on the one before."""
    return len(text) if text.isascii() else sum(map(_WIDTHS.__getitem__, text))


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """The lines of at most `width` cells that a text breaks into, as spans: at spaces, and beside wide characters."""
    widths = [*map(_WIDTHS.__getitem__, text)]
    spans = []
    start = 0
    while start < len(text):
        end, room, last_break = start, width - widths[start], start
        while end + 1 < len(text) and room >= widths[end + 1]:
            end += 1
            room -= widths[end]
            if text[end] == " " or widths[end] > 1 or (widths[end] and widths[_base(widths, end - 1)] > 1):
                last_break = end
        end += 1
        if end < len(text) and text[end] in _NEVER_FIRST and (before := _base(widths, end - 1)) > start:
            end = before
        elif end < len(text) and text[end] != " " and last_break > start:
            is_word = widths[end] == widths[_base(widths, end - 1)] == 1
            end = last_break if is_word else end  # It is broken only if it is longer than a line.
        spans.append((start, end))
        start = end
        while start < len(text) and text[start] == " ":
            start += 1
    return spans


class LogFormatter(logging.Formatter):
    """Formats each record as one line that nobody's file name can break; only a traceback follows, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line itself."""
        record.message = escape_line(without_secrets(record.message))
        return super().formatMessage(record)

    def formatException(  # noqa: N802 - logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """The traceback."""
        return textwrap.indent(escape(without_secrets(super().formatException(ei))), "    ")


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _base(widths: Sequence[int], position: int) -> int:
    """Where the character at a position is; of a mark, the one that it stands on."""
    while position > 0 and not widths[position]:
        position -= 1
    return position


_NEVER_FIRST = frozenset("。、，．）」』】！？")
"""No line of Japanese begins with one of these."""


class _Widths(dict[str, int]):
    """The cells of each character that was seen: looking one up is ten times as fast as asking Unicode."""

    def __missing__(self, character: str) -> int:
        if not character.isascii() and unicodedata.category(character) in ("Mn", "Me", "Cf"):
            width = 0  # It is drawn over the one before it, or not at all.
        else:
            width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        self[character] = width
        return width


_WIDTHS = _Widths()
