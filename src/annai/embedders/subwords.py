"""Which subwords does a text have? It is cut into units by script, and each unit into the most likely pieces.

Units are short and repeat, so most of a text is looked up, not computed. No piece of a vocabulary spans two units.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from annai.definitions import lazy_pattern
from annai.embedders.piece_table import piece_table
from annai.text.tokens import ascii_runs, nfkc

WORD_START = "▁"
"""The first character of every unit of a script that is written with spaces, as in sentencepiece's vocabularies."""

MAX_UNIT_CHARACTERS = 64
"""Longer runs are data (hashes, base64) or have no spaces: they are cut, so that time stays linear."""

BLOCK_CHARACTERS = 16_384
"""A long text is encoded in blocks of this size, so that memory does not grow with the text."""

UNCOVERED_SCORE = -10_000.0
"""The score of a character that no piece covers: lower than any sum of pieces' scores in a unit."""

SEARCHES_BEFORE_TABLE = 64
"""Units encoded by binary search before a table of all pieces is made, which takes 20 ms."""

UNITS_BEFORE_DICTIONARY = 5_000
"""Units encoded before a dictionary takes the table's place: it is half again as quick, which counts with many
documents, and takes 10 MB more. The words of a thousand questions are fewer."""

BLOCK_BYTES = 16_384
"""All pieces are gone through in blocks of about this size, so that they are not in memory together."""

# No other script has characters in the range of kanji and kana, so `_is_kanji_or_kana` needs no pattern.
_LATIN = r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02b8\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua787"
_KANJI = r"\u3005-\u3007\u3031-\u303c\u3105-\u31bf\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = r"\u3041-\u3096\u309d\u309e"
_KATAKANA = r"\u30a1-\u30fa\u30fc-\u30fe\u31f0-\u31ff"

# A run is one unit, or a few without a space between them. The cache holds runs.
_RUN = lazy_pattern(
    rf"[{_LATIN}\d+#]+|[{_KANJI}]{{1,32}}[{_HIRAGANA}ー]{{0,32}}|[{_HIRAGANA}][{_HIRAGANA}ー]{{0,63}}"
    rf"|[{_KATAKANA}]{{1,64}}|[^\W\d_{_LATIN}\u3005-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_WORD = lazy_pattern(rf"[cC](?:\+\+|#)|[fF]#|\d{{1,{MAX_UNIT_CHARACTERS}}}|[^\W\d_]{{1,{MAX_UNIT_CHARACTERS}}}")
_CAMEL = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BREAK = lazy_pattern(r"[^\w+#]")


def units(text: str) -> Iterator[str]:
    """The units of a text in its order; width, case and composition of characters do not matter.

    Units are runs of Latin letters (`camelCase` is two), of digits and of other scripts' letters, each after a word
    start; runs of katakana, of hiragana, and of kanji with the hiragana that follow; and `c++`, `c#` and `f#`.
    Marks and symbols are dropped.
    """
    return chain.from_iterable(map(_units, _runs(normalise(text))))


def normalise(text: str) -> str:
    """One form (NFKC) for the many ways to type a character; case stays, since it shows where a name's parts begin."""
    return text if text.isascii() else nfkc(text)


class SortedPieces(Sequence[str]):
    """Pieces as they are in a file, one on each line in the order of their bytes: found by binary search."""

    def __init__(self, lines: bytes, ends: Sequence[int], longest: int) -> None:
        """`ends`: the end of each line; `longest`: no piece has more characters."""
        self._lines = lines
        self._ends = ends
        self.longest = longest

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return self._line(range(len(self))[index]).decode()

    def __iter__(self) -> Iterator[str]:
        start = 0
        while start < len(self._lines):
            end = self._lines.find(b"\n", start + BLOCK_BYTES)
            end = len(self._lines) if end < 0 else end
            yield from self._lines[start:end].decode().split("\n")
            start = end + 1

    def find(self, piece: str) -> int | None:
        """The id of a piece, if it is one."""
        line = piece.encode("utf-8", "surrogatepass")
        number = bisect_left(range(len(self)), line, key=self._line)
        return number if number < len(self) and self._line(number) == line else None

    def _line(self, number: int) -> bytes:
        return self._lines[self._ends[number - 1] + 1 if number else 0 : self._ends[number]]


class Subwords:
    """A unigram vocabulary: pieces and their log likelihoods."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float]) -> None:
        self.pieces = pieces
        # Rounded as in a written model, so that both cut every text in the same way.
        self._scores = array("f", scores)
        self._cache = _RunCache(self)
        self._units = 0
        self._table: _Lookup | None = None
        self._dictionary: _Lookup | None = None
        if not isinstance(pieces, SortedPieces):
            self._dictionary = self._build_dictionary()

    def encode(self, text: str) -> list[int]:
        """The ids of the text's subwords in its order; a character that no piece covers has none."""
        return [number for block in self.encode_blocks(text) for number in block.tolist()]

    def encode_blocks(self, text: str) -> Iterator[NDArray[np.uint32]]:
        """As `encode`, some ids at a time, so that memory stays bounded for a text of any length."""
        for block in _blocks(normalise(text)):
            yield np.frombuffer(b"".join(map(self._cache.__getitem__, _runs(block))), np.uint32)

    def encode_each(self, texts: Iterable[str]) -> list[bytes]:
        """The ids of each of many short texts, packed as four bytes each: without what a long text needs."""
        return [b"".join(map(self._cache.__getitem__, _runs(normalise(text)))) for text in texts]

    def encode_unit(self, unit: str) -> tuple[int, ...]:
        """The ids of the pieces that make up the unit with the best sum of scores.

        Of equally good ways, the one with the longest last piece is chosen.
        """
        find_id, scores, lengths_from, other, highest = self._lookup()
        size = len(unit)
        # For each end: its best score, and the start and the id of the piece that ends there.
        best, starts, ids = [0.0, *[-math.inf] * size], [0] * (size + 1), [-1] * (size + 1)
        for start, character in enumerate(unit):
            so_far, end = best[start], start + 1
            limit = so_far + highest
            # Where there is a better way already, whatever the piece is, it is not looked up.
            if best[end] < limit:
                piece = find_id(character)
                score = so_far + (UNCOVERED_SCORE if piece is None else scores[piece])
                if score > best[end] or (piece is None and score == best[end]):
                    best[end] = score
                    starts[end] = start
                    ids[end] = -1 if piece is None else piece
            # Few pieces begin with any two characters, and these have few lengths.
            for length in lengths_from(unit[start : start + 2], other):
                end = start + length
                if end > size:
                    break
                if best[end] < limit:
                    piece = find_id(unit[start:end])
                    if piece is not None:
                        score = so_far + scores[piece]
                        if score > best[end]:
                            best[end] = score
                            starts[end] = start
                            ids[end] = piece
        found = []
        end = size
        while end:
            if ids[end] >= 0:
                found.append(ids[end])
            end = starts[end]
        return tuple(reversed(found))

    def _lookup(self) -> "_Lookup":
        """How pieces are found: by search at first, since a query has few units; then by a table, then a dictionary."""
        # Other threads see the whole of either or nothing: half of it would cut words wrongly, and that is remembered.
        if self._dictionary is None and isinstance(self.pieces, SortedPieces):
            self._units += 1
            if self._units <= SEARCHES_BEFORE_TABLE:
                any_length = range(2, self.pieces.longest + 1)
                return _Lookup(self.pieces.find, self._scores, dict[str, Sequence[int]]().get, any_length, math.inf)
            if self._units <= UNITS_BEFORE_DICTIONARY:
                self._table = table = self._table or self._build_table()
                return table
        self._dictionary, self._table = self._dictionary or self._build_dictionary(), None
        return self._dictionary

    def _build_table(self) -> "_Lookup":
        longest_from = dict[str, int]()
        for piece in self.pieces:
            if len(piece) > longest_from.get(piece[:2], 2):
                longest_from[piece[:2]] = len(piece)
        up_to = {length: range(2, length + 1) for length in {2, *longest_from.values()}}
        lengths_from: dict[str, Sequence[int]] = {start: up_to[longest] for start, longest in longest_from.items()}
        highest = max(self._scores, default=0.0)
        return _Lookup(piece_table(self.pieces), self._scores, lengths_from.get, up_to[2], highest)

    def _build_dictionary(self) -> "_Lookup":
        ids = dict(zip(self.pieces, range(len(self._scores)), strict=True))
        lengths_from: dict[str, Sequence[int]] = {}
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}  # Most beginnings have the same few lengths.
        for piece in sorted((piece for piece in ids if len(piece) > 1), key=len):
            lengths = tuple(lengths_from.get(piece[:2], ()))
            if len(piece) not in lengths:
                lengths = (*lengths, len(piece))
                lengths_from[piece[:2]] = shared.setdefault(lengths, lengths)
        scores = list(self._scores)  # read faster than an array
        return _Lookup(ids.get, scores, lengths_from.get, (), max(scores, default=0.0))


class _Lookup(NamedTuple):
    """All that is needed to find pieces."""

    find_id: Callable[[str], int | None]
    scores: Sequence[float]
    lengths_from: Callable[[str, Sequence[int]], Sequence[int]]
    """The first two characters of pieces → the lengths that these may have, ascending, from 2 on."""
    other: Sequence[int]
    """Those of pieces with other characters."""
    highest: float
    """No score is higher."""


class _RunCache(dict[str, bytes]):
    """Run or unit → ids, packed: a text repeats its words far more often than it has new ones, and bytes join fast."""

    CAPACITY = 300_000

    def __init__(self, subwords: Subwords) -> None:
        self._encode_unit = subwords.encode_unit

    def __missing__(self, run: str) -> bytes:
        if run[0] == WORD_START or _is_kanji_or_kana(run[0]):
            ids = array("I", self._encode_unit(run)).tobytes()
        else:
            ids = b"".join(map(self.__getitem__, _units(run)))
        if len(run) <= MAX_UNIT_CHARACTERS + 1:
            if len(self) >= self.CAPACITY:
                self.clear()
            self[run] = ids
        return ids


def _units(run: str) -> Iterator[str]:
    if _is_kanji_or_kana(run[0]):
        yield run
        return
    if run.isascii() and run.isalpha() and run[1:].islower() and len(run) <= MAX_UNIT_CHARACTERS:
        yield WORD_START + run.lower()  # as below, for most words
        return
    for word in _WORD.findall(run):
        for part in _CAMEL.split(word):
            yield WORD_START + part.lower()


def _is_kanji_or_kana(character: str) -> bool:
    return "\u3005" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff" or character >= "\U00020000"


def _runs(text: str) -> list[str]:
    return ascii_runs(text) if text.isascii() else _RUN.findall(text)


def _blocks(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > BLOCK_CHARACTERS:
        # A text without a break is cut anyway.
        found = _BREAK.search(text, start + BLOCK_CHARACTERS // 2, start + BLOCK_CHARACTERS)
        end = found.start() if found else start + BLOCK_CHARACTERS
        yield text[start:end]
        start = end
    yield text[start:] if start else text
