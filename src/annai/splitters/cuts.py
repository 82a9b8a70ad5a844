"""Where may a long text be cut? At blank lines, sentence ends or line ends, and only as a last resort elsewhere."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from annai.text.positions import TokenPositions

Span = tuple[int, int]


def token_pieces(
    text: str, blocks: Iterable[Span], size: int, overlap: int, tokens: TokenPositions | None = None
) -> list[tuple[int, int, int]]:
    """Cut a text into overlapping pieces (start, end, tokens) of at most `size` tokens that together cover it.

    A block is cut only if it alone has more than `size` tokens. The overlap is at most `overlap` tokens and at most
    half of the piece before; it begins at a sentence or a line if one begins there.
    """
    tokens = tokens or TokenPositions(text)
    size = max(size, 1)
    cuts = Cuts(text, blocks, lambda block: tokens.count(*block) <= size)
    pieces: list[tuple[int, int, int]] = []
    start = end = 0
    while tokens.index(start) + size < len(tokens):
        limit = tokens.starts[tokens.index(start) + size]
        floor = tokens.starts[tokens.index(end)]  # every piece has a token that the pieces before do not have
        cut = cuts.best(floor, (start + limit) // 2, limit)
        if cut is None and start < end:
            start = end  # the block that follows fits, but not together with the overlap
            continue
        end = _move_off_token(tokens, floor, cut or limit)
        pieces.append((start, end, tokens.count(start, end)))
        start = _overlap_start(tokens, cuts, end, min(overlap, pieces[-1][2] // 2))
    pieces.append((start, len(text), tokens.count(start, len(text))))
    return pieces


def character_parts(text: str, blocks: Iterable[Span], longest: int, *, pack: bool = False) -> list[Span]:
    """Cut a text into parts of at most `longest` characters that join to it.

    With `pack`, each part has as many whole paragraphs as fit: it ends at a blank line, however early that is.
    """
    cuts = Cuts(text, blocks, lambda block: block[1] - block[0] <= longest)
    parts: list[Span] = []
    start = 0
    while len(text) - start > longest:
        limit = start + longest
        blank = _BLANK_LINES.match(text, start, limit + 1)
        floor = blank.end() if blank and blank.end() < limit else start
        # If there is no cut, a block does not fit because of the blanks before it: these become a part of their own.
        end = cuts.best(floor, floor if pack else (start + limit) // 2, limit) or (floor if floor > start else limit)
        parts.append((start, end))
        start = end
    parts.append((start, len(text)))
    return parts


class Cuts:
    """The positions at which a text may be cut; never inside a block that fits."""

    def __init__(self, text: str, blocks: Iterable[Span], fits: Callable[[Span], bool]) -> None:
        self._text = text
        fitting: list[Span] = []
        long: list[Span] = []
        for block in blocks:
            (fitting if fits(block) else long).append(block)
        self._fitting = _Spans(fitting)
        self._long = _Spans(long)

    def best(self, floor: int, preferred: int, limit: int) -> int | None:
        """The best cut after `floor` and up to `limit`, if there is one.

        Of several cuts of one kind, it is the last. A cut before `preferred` is taken only if there is none after it.
        """
        preferred = max(preferred, floor)
        for low, high in ((preferred, limit), (floor, preferred)):
            for pattern, in_long_blocks in _PREFERENCES:
                for cut in reversed(self._candidates(pattern, low, high)):
                    if cut not in self._fitting and (in_long_blocks or cut not in self._long):
                        return cut
        cut = self._character_start(floor, limit)
        return None if cut in self._fitting else cut

    def first(self, low: int, high: int) -> int | None:
        """The start of the first sentence or line from `low` to `high`, or else `low`; None if that is in a block."""
        for cut in self._candidates(_SENTENCE_OR_LINE, low - 1, high):
            if cut not in self._fitting:
                return cut
        if low in self._fitting:
            return None
        # Move forward, not back: a larger overlap could leave no room for new text.
        near = range(low, min(low + _MAX_CODE_POINTS, high + 1))
        return next((cut for cut in near if not _splits_character(self._text, cut)), low)

    def _candidates(self, pattern: re.Pattern[str], low: int, high: int) -> list[int]:
        """The ends of matches after `low` and up to `high`; blanks at the end of a match may go beyond."""
        matches = pattern.finditer(self._text, max(low - _LOOK_BACK_CHARACTERS, 0), high + 1)
        found = (min(match.end(), high) for match in matches)
        return [cut for cut in found if cut > low and not _splits_line_end(self._text, cut)]

    def _character_start(self, floor: int, position: int) -> int:
        """The position, or the start of the visible character that it would split."""
        near = range(position, max(floor, position - _MAX_CODE_POINTS), -1)
        return next((cut for cut in near if not _splits_character(self._text, cut)), position)


class _Spans:
    """Spans in order; `position in spans` is whether one of them contains it, edges excluded."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def __contains__(self, position: int) -> bool:
        index = bisect_left(self._starts, position) - 1
        return index >= 0 and position < self._ends[index]


_LOOK_BACK_CHARACTERS = 4
"""A cut just after a position belongs to a mark just before it: a full stop, a bracket, a line ending."""

_MAX_CODE_POINTS = 32
"""Code points in the longest sequence that is kept together as one visible character."""

# Patterns that begin with a set of characters are found several times as fast.
_LINE_END = r"[\r\n](?:(?<=\r)\n)?+"
_CLOSING = "」』）)】〉》］\\]}”’\"'»"
_BLANK_LINES = re.compile(rf"(?:[ \t]*+{_LINE_END})+")
_BLANK_LINE = re.compile(rf"{_LINE_END}(?:[ \t]*{_LINE_END})+")
_SENTENCE_END = (
    rf"(?:(?<=[。！？｡])[。！？｡]*+[{_CLOSING}]*+|(?<=[.!?])(?<![.!?]{{2}})[.!?]*+[{_CLOSING}]*+(?=\s))"
    rf"[ \t\u3000]*(?:{_LINE_END})?"
)
"""What follows the first mark at the end of a sentence."""
_SENTENCE = re.compile(rf"[。！？｡.!?]{_SENTENCE_END}")
_LINE = re.compile(_LINE_END)
_WHITESPACE = re.compile(r"\s+")
_SENTENCE_OR_LINE = re.compile(rf"[。！？｡.!?\r\n](?:{_SENTENCE_END}|(?<=\r)\n?+|(?<=\n))")
_PREFERENCES = (
    # A long block (code, a table) is cut at line ends rather than after a full stop inside a line.
    (_BLANK_LINE, True),
    (_SENTENCE, False),
    (_LINE, True),
    (_SENTENCE, True),
    (_WHITESPACE, True),
)

_JOINER = "\u200d"
_SKIN_TONES = ("\U0001f3fb", "\U0001f3ff")
_VARIATION_SELECTORS = ("\ufe00", "\ufe0f")


def _splits_line_end(text: str, cut: int) -> bool:
    return text[cut - 1 : cut + 1] == "\r\n"


def _splits_character(text: str, cut: int) -> bool:
    before, after = text[cut - 1 : cut], text[cut : cut + 1]
    if not before or not after or before in "\r\n":
        return before == "\r" and after == "\n"
    return (
        _JOINER in (before, after)
        or unicodedata.category(after) in ("Mn", "Me", "Mc")
        or _VARIATION_SELECTORS[0] <= after <= _VARIATION_SELECTORS[1]
        or _SKIN_TONES[0] <= after <= _SKIN_TONES[1]
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )


def _overlap_start(tokens: TokenPositions, cuts: Cuts, end: int, overlap: int) -> int:
    """The start of the piece after one that ends at `end`; they share up to `overlap` tokens."""
    if not overlap:
        return end
    index = tokens.index(end)
    cut = cuts.first(tokens.starts[index - overlap], tokens.starts[index - 1])
    return end if cut is None else cut


def _move_off_token(tokens: TokenPositions, floor: int, cut: int) -> int:
    """The cut, or, if it would split a token, the token's start (its end if the start is not after `floor`)."""
    index = tokens.index(cut) - 1
    if index < 0 or cut >= tokens.ends[index]:
        return cut
    return tokens.starts[index] if floor < tokens.starts[index] else tokens.ends[index]
