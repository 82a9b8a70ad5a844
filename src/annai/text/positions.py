"""Where does every token of a text begin and end? Found for the whole text at once, kind by kind of its characters."""

from array import array
from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annai.text.tokens import CJK_SPANS, MAX_TOKEN_DIGITS, MAX_TOKEN_LETTERS

Integers = NDArray[np.int64]


class TokenPositions:
    """The starts and ends of the tokens of one text, those that `count_tokens` counts: any span is measured quickly."""

    def __init__(self, text: str) -> None:
        self._set(*_tokens(_kinds(text)) if text else (np.zeros(0, np.int64), np.zeros(0, np.int64)))

    def _set(self, starts: Integers, ends: Integers) -> None:
        # Reading single numbers from an array is faster than from numpy.
        self.starts, self.ends = array("q", starts.tobytes()), array("q", ends.tobytes())

    def __len__(self) -> int:
        return len(self.starts)

    def count(self, start: int, end: int) -> int:
        """How many tokens begin in the span."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)

    def part(self, start: int, end: int) -> "TokenPositions":
        """The tokens that begin in a span, at whose edges none is cut; positions count from its start."""
        first, after = self.index(start), self.index(end)
        found = object.__new__(TokenPositions)
        found._set(*(np.array(each[first:after], np.int64) - start for each in (self.starts, self.ends)))
        return found

    def index(self, position: int) -> int:
        """The index of the first token that begins at the position or after it."""
        return bisect_left(self.starts, position)


_BLANK, _LETTER, _DIGIT, _UNDERSCORE, _SINGLE = range(5)
"""Kinds of characters; each of the last kind, punctuation or CJK, is a token."""

_LONGEST = np.array([1, MAX_TOKEN_LETTERS, MAX_TOKEN_DIGITS, 1 << 62, 1])
"""How many characters of each kind a token has at most."""

_PAGE_BITS = 8
_PAGE = 1 << _PAGE_BITS
_KINDS = np.zeros(0x110000, np.uint8)
"""The kind of every character, for those pages that were needed; the others take no memory."""

_KNOWN_PAGES = np.zeros(len(_KINDS) // _PAGE, bool)


def _tokens(kinds: NDArray[np.uint8]) -> tuple[Integers, Integers]:
    """The starts and ends of the tokens of a text whose characters are of these kinds."""
    is_first = np.ones(len(kinds), bool)
    np.not_equal(kinds[1:], kinds[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    afters = np.append(firsts[1:], len(kinds))
    kinds = kinds[firsts]
    spoken = kinds != _BLANK
    firsts, afters, longest = firsts[spoken], afters[spoken], _LONGEST[kinds[spoken]]
    # A run of characters of one kind is one token, or several if it is too long for one.
    counts = -((firsts - afters) // longest)
    number_in_run = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    longest = np.repeat(longest, counts)
    starts = np.repeat(firsts, counts) + number_in_run * longest
    return starts, np.minimum(starts + longest, np.repeat(afters, counts))


def _kinds(text: str) -> NDArray[np.uint8]:
    if text.isascii():
        if not _KNOWN_PAGES[0]:
            _learn(np.zeros(1, np.uint32))
        return _KINDS.take(np.frombuffer(text.encode("ascii"), np.uint8))
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    _learn(characters >> _PAGE_BITS)
    return _KINDS.take(characters)


def _learn(pages: NDArray[np.integer[Any]]) -> None:
    """Find out the kinds of the characters of pages that were not needed before."""
    missing = ~_KNOWN_PAGES[pages]
    for page in np.unique(pages[missing]).tolist() if missing.any() else ():
        first = page * _PAGE
        _KINDS[first : first + _PAGE] = [_kind(chr(code)) for code in range(first, first + _PAGE)]
        _KNOWN_PAGES[page] = True


def _kind(character: str) -> int:
    code = ord(character)
    if any(first <= code <= last for first, last in CJK_SPANS):
        return _SINGLE
    if character.isspace():
        return _BLANK
    if character == "_":
        return _UNDERSCORE
    if character.isdecimal():
        return _DIGIT
    return _LETTER if character.isalnum() else _SINGLE
