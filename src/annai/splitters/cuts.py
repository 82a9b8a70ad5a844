"""Where may a long text be cut? At blank lines, at sentence ends, at line ends; last of all, anywhere."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from annai.text.tokens import TokenPositions

Span = tuple[int, int]


def token_pieces(text: str, blocks: Iterable[Span], size: int, overlap: int) -> list[tuple[int, int, int]]:
    """Cut a text into overlapping pieces (start, end, tokens) of at most `size` tokens that cover it together.

    A block is cut only if it alone has more than `size` tokens. The overlap is at most `overlap` tokens and at most
    half of the piece before; it begins at a sentence or a line where one begins in it.
    """
    tokens = TokenPositions(text)
    size = max(size, 1)
    cuts = Cuts(text, blocks, lambda block: tokens.count(*block) <= size)
    pieces: list[tuple[int, int, int]] = []
    start = end = 0
    while tokens.index(start) + size < len(tokens):
        limit = tokens.starts[tokens.index(start) + size]
        floor = tokens.starts[tokens.index(end)]  # every piece holds a token that the pieces before do not
        cut = cuts.last(floor, (start + limit) // 2, limit)
        if cut is None and start < end:
            start = end  # the block that follows fits, but not together with the overlap
            continue
        end = _token_edge(tokens, floor, cut or limit)
        pieces.append((start, end, tokens.count(start, end)))
        start = _overlap_start(tokens, cuts, end, min(overlap, pieces[-1][2] // 2))
    pieces.append((start, len(text), tokens.count(start, len(text))))
    return pieces


def character_parts(text: str, blocks: Iterable[Span], longest: int, *, pack: bool = False) -> list[Span]:
    """Cut a text into parts of at most `longest` characters that join to it.

    With `pack`, a part ends at the last blank line that it can hold, however early that is: paragraphs are packed.
    """
    cuts = Cuts(text, blocks, lambda block: block[1] - block[0] <= longest)
    parts: list[Span] = []
    start = 0
    while len(text) - start > longest:
        limit = start + longest
        blank = _BLANK_LINES.match(text, start, limit + 1)
        floor = blank.end() if blank and blank.end() < limit else start
        # Without a cut the blanks before a block keep it from fitting: they become a part of their own.
        end = cuts.last(floor, floor if pack else (start + limit) // 2, limit) or (floor if floor > start else limit)
        parts.append((start, end))
        start = end
    parts.append((start, len(text)))
    return parts


class Cuts:
    """The places at which one text may be cut; never inside those of its blocks that fit."""

    def __init__(self, text: str, blocks: Iterable[Span], fits: Callable[[Span], bool]) -> None:
        self._text = text
        whole: list[Span] = []
        long: list[Span] = []
        for block in blocks:
            (whole if fits(block) else long).append(block)
        self._whole = _Spans(whole)
        self._long = _Spans(long)

    def last(self, floor: int, preferred: int, limit: int) -> int | None:
        """The best cut after `floor` and up to `limit`, if there is one.

        Of the cuts of one kind the last; a cut before `preferred` only if there is none of any kind behind it.
        """
        preferred = max(preferred, floor)
        for low, high in ((preferred, limit), (floor, preferred)):
            for pattern, in_long_blocks in _PREFERENCES:
                for cut in reversed(self._found(pattern, low, high)):
                    if cut not in self._whole and (in_long_blocks or cut not in self._long):
                        return cut
        cut = self._settle(floor, limit)
        return None if cut in self._whole else cut

    def first(self, low: int, high: int) -> int | None:
        """The first sentence or line that begins from `low` to `high`; else `low`, but nothing inside a block."""
        for cut in self._found(_SENTENCE_OR_LINE, low - 1, high):
            if cut not in self._whole:
                return cut
        if low in self._whole:
            return None
        # Settled forwards: an overlap that grew could leave no room for anything new.
        near = range(low, min(low + _LONGEST_CHARACTER, high + 1))
        return next((cut for cut in near if not _splits_character(self._text, cut)), low)

    def _found(self, pattern: re.Pattern[str], low: int, high: int) -> list[int]:
        """Where matches end, after `low` and up to `high`; blanks at the end of a match may lie beyond."""
        matches = pattern.finditer(self._text, max(low - _LOOK_BACK, 0), high + 1)
        found = (min(match.end(), high) for match in matches)
        return [cut for cut in found if cut > low and not _splits_line_end(self._text, cut)]

    def _settle(self, floor: int, position: int) -> int:
        """The position, or where the visible character that it would split begins."""
        near = range(position, max(floor, position - _LONGEST_CHARACTER), -1)
        return next((cut for cut in near if not _splits_character(self._text, cut)), position)


class _Spans:
    """Spans in order, that can be asked whether a position is inside one of them."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def __contains__(self, position: int) -> bool:
        index = bisect_left(self._starts, position) - 1
        return index >= 0 and position < self._ends[index]


_LOOK_BACK = 4
"""A cut just behind a position belongs to a mark just before it: a full stop, a bracket, a line end."""

_LONGEST_CHARACTER = 32
"""Code points in the longest sequence that is kept together as one visible character."""

_END = r"(?>\r\n?|\n)"
_CLOSING = "」』）)】〉》］\\]}”’\"'»"
_BLANK_LINES = re.compile(rf"(?:[ \t]*+{_END})+")
_BLANK_LINE = re.compile(rf"{_END}(?:[ \t]*{_END})+")
_SENTENCE = re.compile(
    rf"(?:[。！？｡]++[{_CLOSING}]*+|(?<![.!?])[.!?]++[{_CLOSING}]*+(?=\s))[ \t\u3000]*{_END}?",
)
_LINE = re.compile(_END)
_GAP = re.compile(r"\s+")
_SENTENCE_OR_LINE = re.compile(rf"{_SENTENCE.pattern}|{_END}")
_PREFERENCES = (
    # A long block (code, a table) is cut at its lines rather than after a full stop in the middle of one.
    (_BLANK_LINE, True),
    (_SENTENCE, False),
    (_LINE, True),
    (_SENTENCE, True),
    (_GAP, True),
)

_JOINER = "\u200d"
_SKIN_TONES = ("\U0001f3fb", "\U0001f3ff")
_VARIATIONS = ("\ufe00", "\ufe0f")


def _splits_line_end(text: str, cut: int) -> bool:
    return text[cut - 1 : cut + 1] == "\r\n"


def _splits_character(text: str, cut: int) -> bool:
    before, after = text[cut - 1 : cut], text[cut : cut + 1]
    if not before or not after or before in "\r\n":
        return before == "\r" and after == "\n"
    return (
        _JOINER in (before, after)
        or unicodedata.category(after) in ("Mn", "Me", "Mc")
        or _VARIATIONS[0] <= after <= _VARIATIONS[1]
        or _SKIN_TONES[0] <= after <= _SKIN_TONES[1]
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )


def _overlap_start(tokens: TokenPositions, cuts: Cuts, end: int, shared: int) -> int:
    """Where the piece after one that ends at `end` begins, to share up to so many tokens with it."""
    if not shared:
        return end
    index = tokens.index(end)
    cut = cuts.first(tokens.starts[index - shared], tokens.starts[index - 1])
    return end if cut is None else cut


def _token_edge(tokens: TokenPositions, floor: int, cut: int) -> int:
    """The cut, or an edge of the token that it would split: its beginning, if that is behind `floor`."""
    index = tokens.index(cut) - 1
    if index < 0 or cut >= tokens.ends[index]:
        return cut
    return tokens.starts[index] if floor < tokens.starts[index] else tokens.ends[index]
