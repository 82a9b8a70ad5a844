"""On which line does a position of a text stand?"""

import re
from bisect import bisect_right

LINE_END = re.compile(r"\r\n?|\n")
"""The ends of lines, as CommonMark has them; form feeds and Unicode's separators are characters like any other."""

_UNIX_LINE_END = re.compile("\n")


class Lines:
    """Where the lines of one text begin, from a position on."""

    def __init__(self, text: str, start: int = 0) -> None:
        line_end = LINE_END if "\r" in text else _UNIX_LINE_END  # a single character is found three times as fast
        self.starts = [start, *[match.end() for match in line_end.finditer(text, start)]]

    def number(self, position: int) -> int:
        """The number of the line that holds the position, counted from 1."""
        return bisect_right(self.starts, position)
