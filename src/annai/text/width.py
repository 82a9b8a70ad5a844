"""How wide is a text on a terminal, and where do its lines break?"""

import unicodedata


def cells(text: str) -> int:
    """How many cells of a terminal the text takes: two for each wide character."""
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
            if text[end] == " " or widths[end] > 1 or widths[end - 1] > 1:
                last_break = end
        end += 1
        if end < len(text) and text[end] in _NEVER_FIRST and end - start > 1:
            end -= 1
        elif end < len(text) and text[end] != " " and widths[end] == widths[end - 1] == 1 and last_break > start:
            # A word is broken only if it is longer than a line.
            end = last_break
        spans.append((start, end))
        start = end
        while start < len(text) and text[start] == " ":
            start += 1
    return spans


_NEVER_FIRST = frozenset("。、，．）」』】！？")
"""No line of Japanese begins with one of these."""


class _Widths(dict[str, int]):
    """The cells of each character that was seen: looking one up is ten times as fast as asking Unicode."""

    def __missing__(self, character: str) -> int:
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        self[character] = width
        return width


_WIDTHS = _Widths()
