"""On which line is a position of a text?"""

import re
from array import array
from bisect import bisect_right

LINE_END = re.compile(r"\r\n?|\n")
"""A line ending as CommonMark defines it; form feeds and Unicode's separators do not end a line."""

_UNIX_LINE_END = re.compile("\n")


def line_at(text: str, position: int) -> int:
    """The number of the line at a position, counted from 1; of many positions, `Lines` finds them sooner."""
    return 1 + (len(LINE_END.findall(text, 0, position)) if "\r" in text else text.count("\n", 0, position))


class Lines:
    """The starts of the lines of one text, from a position on."""

    def __init__(self, text: str, start: int = 0) -> None:
        line_end = LINE_END if "\r" in text else _UNIX_LINE_END  # three times as fast
        # Packed: a text of ten million characters may have millions of lines.
        self.starts = array("q", [start])
        self.starts.extend(map(re.Match.end, line_end.finditer(text, start)))

    def number(self, position: int) -> int:
        """The number of the line at a position, counted from 1."""
        return bisect_right(self.starts, position)
