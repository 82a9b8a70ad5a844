"""Which words is a passage found by? The words of each of its fields, made the same way wherever they are needed.

The indexer writes them, `store check` counts them again and a move to another engine makes them again: if these
differed, a sound index would look damaged. Every word is a number here, and all words of many passages are counted at
once: most of the time of indexing would otherwise go to dictionaries of strings.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from annai.text.fields import FIELD_NAMES, Fields
from annai.text.tokens import (
    CJK_SPANS,
    MAX_WORD_CHARACTERS,
    ascii_runs,
    katakana_terms,
    normalise,
    word_runs,
    words_of_run,
)

MAX_COUNT = 255
"""How often a word counts in one field at most: a count is one byte."""

MAX_KNOWN_WORDS = 300_000
"""Words and runs of letters that are remembered from passage to passage."""

MAX_PASSAGES = 65_536
"""Passages whose words are counted at once: a word, a passage and a field together are one 64-bit number."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Keywords:
    """The different words of one passage, and how often each of its fields has them."""

    vocabulary: Sequence[str]
    """Words in their order; passages that were made together have the same one."""
    words: NDArray[np.uint32]
    """The passage's words, ascending, as indexes of the vocabulary; none comes twice."""
    counts: NDArray[np.uint32]
    """How often the passage has each: in the first field (the lowest byte), the second, and so on."""
    length: int
    """How many words there are in all; those in katakana, which have terms of their own, count once."""

    @property
    def distinct(self) -> list[str]:
        """The different words, whatever field they are in."""
        return [self.vocabulary[number] for number in self.words.tolist()]


def extract_keywords(fields: Fields) -> Keywords:
    """The words of a passage, from its texts."""
    return extract_all([fields])[0]


def extract_all(passages: Sequence[Fields], also: Callable[[str], object] = len) -> list[Keywords]:
    """The words of passages, from their texts; `also` is called with each text while it is at hand."""
    found: list[Keywords] = []
    with _LOCK:
        for start in range(0, len(passages), MAX_PASSAGES):
            part = passages[start : start + MAX_PASSAGES]
            _KNOWN.forget_if_many()
            known: dict[str, tuple[Codes, int]] = {}
            texts: list[tuple[Codes, int]] = []
            for text in (getattr(passage, name) for passage in part for name in FIELD_NAMES):
                if text not in known:  # most passages of a document have the same title and path
                    known[text] = _KNOWN.read(text)
                    also(text)
                texts.append(known[text])
            found += _count([codes for codes, _ in texts], [length for _, length in texts])
    return found


def count_given_words(*fields: Sequence[str]) -> Keywords:
    """The keywords of a passage whose words are known, field by field."""
    with _LOCK:
        _KNOWN.forget_if_many()
        codes = [np.array([_KNOWN.number(word) for word in words], np.int64) for words in fields]
        return _count(codes, [len(words) for words in fields])[0]


def _count(texts: Sequence[Codes], lengths: Sequence[int]) -> list[Keywords]:
    """Count the words of passages; each passage has a text for every field."""
    fields = len(FIELD_NAMES)
    cells, bits = len(texts), len(texts).bit_length()
    # A word in a field of a passage is one number; sorted, equal ones are neighbours.
    places = np.repeat(np.arange(cells), [len(codes) for codes in texts])
    found, counts = np.unique((np.concatenate(texts) << bits) | places, return_counts=True)
    codes, places = found >> bits, found & ((1 << bits) - 1)
    passages, field = places // fields, places % fields
    packed = np.minimum(counts, MAX_COUNT).astype(np.uint32) << (8 * field).astype(np.uint32)
    # The fields of a word in a passage become one number, one byte each.
    first = np.flatnonzero(_is_new(codes) | _is_new(passages))
    codes, passages = codes[first], passages[first]
    packed = np.add.reduceat(packed, first, dtype=np.uint32) if len(first) else packed
    is_new_word = _is_new(codes)
    names = _KNOWN.names(codes[is_new_word])
    by_name = sorted(range(len(names)), key=names.__getitem__)
    rank = np.zeros(len(names), np.uint32)
    rank[by_name] = np.arange(len(names), dtype=np.uint32)
    vocabulary = [names[number] for number in by_name]
    words = rank[np.cumsum(is_new_word) - 1]
    order = np.argsort(passages * len(names) + words)
    words, packed = words[order], packed[order]
    bounds = np.searchsorted(passages[order], np.arange(cells // fields + 1)).tolist()
    return [
        Keywords(
            vocabulary,
            words[start:end],
            packed[start:end],
            sum(lengths[fields * number : fields * (number + 1)]),
        )
        for number, (start, end) in enumerate(pairwise(bounds))
    ]


def _is_new(values: Codes) -> NDArray[np.bool_]:
    """Which values differ from the one before."""
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new


_FIRST_PAIR = 1 << 42
"""The codes from here on are pairs of CJK characters, 21 bits each, or one character and a zero."""

_CHARACTER_BITS = 21
_CJK = np.zeros(CJK_SPANS[-1][1] + 2, bool)
for _first, _last in CJK_SPANS:
    _CJK[_first : _last + 1] = True


class _KnownWords(dict[str, tuple[int, ...]]):
    """Run of letters → the codes of its words: a text repeats its words far more often than it has new ones."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def __missing__(self, run: str) -> tuple[int, ...]:
        codes = tuple(map(self.number, words_of_run(run)))
        if len(run) <= MAX_WORD_CHARACTERS:
            self[run] = codes
        return codes

    def number(self, word: str) -> int:
        """The code of a word that is not made of CJK characters, or that came alone."""
        number = self._numbers.setdefault(word, len(self._names))
        if number == len(self._names):
            self._names.append(word)
        return number

    def names(self, codes: Codes) -> list[str]:
        """The words of codes, ascending."""
        pairs = codes[np.searchsorted(codes, _FIRST_PAIR) :] - _FIRST_PAIR
        characters = np.column_stack((pairs >> _CHARACTER_BITS, pairs & ((1 << _CHARACTER_BITS) - 1)))
        text = characters.astype("<u4").tobytes().decode("utf-32-le")
        names = [self._names[code] for code in codes[: len(codes) - len(pairs)].tolist()]
        return names + [text[start : start + 2].rstrip("\0") for start in range(0, len(text), 2)]

    def read(self, text: str) -> tuple[Codes, int]:
        """The codes of a text's words in no order, and how many words count."""
        if text.isascii():
            codes = self._codes(ascii_runs(text))
            return codes, len(codes)
        text = normalise(text)
        characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)
        is_cjk = _CJK[np.minimum(characters, len(_CJK) - 1)]
        starts, ends = _edges(is_cjk)
        pairs = (characters << _CHARACTER_BITS) + _FIRST_PAIR
        pairs[:-1] += np.where(ends[:-1], 0, characters[1:])
        # What is not CJK, with a space in place of every run that is.
        rest = np.where(is_cjk, 32, characters)[~is_cjk | starts].astype("<u4").tobytes()
        runs = self._codes(word_runs(rest.decode("utf-32-le", "surrogatepass")))
        katakana = np.array([self.number(term) for term in katakana_terms(text)], np.int64)
        return np.concatenate((pairs[is_cjk], runs, katakana)), int(np.count_nonzero(is_cjk)) + len(runs)

    def forget_if_many(self) -> None:
        """Bound the memory that known words take."""
        if len(self._names) + len(self) > MAX_KNOWN_WORDS:
            self.clear()
            self._names, self._numbers = [], {}

    def _codes(self, runs: Sequence[str]) -> Codes:
        return np.fromiter(chain.from_iterable(map(self.__getitem__, runs)), np.int64)


def _edges(inside: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where runs of true values begin, and where they end."""
    starts, ends = inside.copy(), inside.copy()
    starts[1:] &= ~inside[:-1]
    ends[:-1] &= ~inside[1:]
    return starts, ends


_LOCK = threading.Lock()
_KNOWN = _KnownWords()
