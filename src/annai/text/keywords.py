"""Which words is a passage found by? The words of each of its fields, made the same way wherever they are needed.

The indexer writes them, `store check` counts them again and a move to another engine makes them again: if these
differed, a sound index would look damaged. Every word is a number here, and all words of many passages are counted at
once: most of the time of indexing would otherwise go to dictionaries of strings.
"""

import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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

GROUP_CHARACTERS = 50_000
"""How much text that is not ASCII is read at once, at most, besides the last one."""

MARK_SPANS = (
    *((0x2010, 0x201F), (0x2022, 0x202F), (0x3000, 0x3004), (0x3008, 0x3011), (0x3014, 0x301F), (0x30FB, 0x30FB)),
)
"""Punctuation of which no word is made: without it, what is not CJK is mostly ASCII, which is read faster."""

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
            texts = [getattr(passage, name) for passage in part for name in FIELD_NAMES]
            # Most passages of a document have the same title and path.
            known = _KNOWN.read([*dict.fromkeys(texts)], also)
            found += _count([known[text][0] for text in texts], [known[text][1] for text in texts])
    return found


def count_given_words(*fields: Sequence[str]) -> Keywords:
    """The keywords of a passage whose words are known, field by field."""
    with _LOCK:
        _KNOWN.forget_if_many()
        codes = [np.array([_KNOWN.number(word) for word in words], np.int64) for words in fields]
        return _count(codes, [len(words) for words in fields])[0]


def sorted_order(numbers: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """The order in which numbers below `count` ascend, equal ones as they are: 16 bits are sorted far faster."""
    return np.argsort(numbers.astype(np.uint16) if count <= 1 << 16 else numbers, kind="stable")


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
    order = sorted_order(words, len(names))
    order = order[sorted_order(passages[order], MAX_PASSAGES)]
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
_OTHER, _CJK, _MARK = range(3)
_KINDS = np.zeros(CJK_SPANS[-1][1] + 2, np.uint8)
"""The kind of every character; the last one stands for all after it."""
for _first, _last in CJK_SPANS:
    _KINDS[_first : _last + 1] = _CJK
for _first, _last in MARK_SPANS:
    _KINDS[_first : _last + 1] = _MARK


class _KnownWords(dict[str, bytes]):
    """Run of letters → the codes of its words, packed: a text repeats its words far more often than it has new ones."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def __missing__(self, run: str) -> bytes:
        codes = array("q", map(self.number, words_of_run(run))).tobytes()
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
        # To numpy, a zero at the end of a text is no part of it.
        of_pairs: list[str] = np.ravel(characters.astype("=u4").view("=U2")).tolist()
        return [self._names[code] for code in codes[: len(codes) - len(pairs)].tolist()] + of_pairs

    def read(self, texts: Sequence[str], also: Callable[[str], object]) -> dict[str, tuple[Codes, int]]:
        """For each text the codes of its words, in no order, and how many words count; `also` is called with it."""
        found: dict[str, tuple[Codes, int]] = {}
        others: list[tuple[str, str]] = []
        for text in texts:
            if text.isascii():
                codes = self._codes(ascii_runs(text))
                found[text] = codes, len(codes)
            else:
                others.append((text, normalise(text)))
            also(text)
        for group in _groups(others):
            found |= zip((text for text, _ in group), self._read_together([text for _, text in group]), strict=True)
        return found

    def _read_together(self, texts: Sequence[str]) -> Iterator[tuple[Codes, int]]:
        """As `read`, for normalised texts that are not ASCII: one after another, they would take longer."""
        ends = np.cumsum([len(text) + 1 for text in texts])
        joined = "".join(f"{text}\n" for text in texts)  # No word has a line end in it.
        characters = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
        kinds = _KINDS.take(characters, mode="clip")
        is_cjk = kinds == _CJK
        firsts = np.flatnonzero(is_cjk)
        seconds = characters[firsts + 1] * is_cjk[firsts + 1]
        pairs = (characters[firsts].astype(np.int64) << _CHARACTER_BITS) + _FIRST_PAIR + seconds
        # What is not CJK, with a space in place of every run that is, and of every mark.
        is_kept = ~is_cjk
        is_kept[1:] |= is_cjk[1:] & ~is_cjk[:-1]
        is_kept[0] = True
        rest = np.where(kinds == _OTHER, characters, ord(" "))[is_kept].tobytes().decode("utf-32-le", "surrogatepass")
        bounds = zip(
            pairwise((0, *np.searchsorted(firsts, ends).tolist())),
            pairwise((0, *np.cumsum(is_kept)[ends - 1].tolist())),
            strict=True,
        )
        for text, ((first, after), (start, end)) in zip(texts, bounds, strict=True):
            between = rest[start:end]
            runs = self._codes(ascii_runs(between) if between.isascii() else word_runs(between))
            katakana = np.array([self.number(term) for term in katakana_terms(text)], np.int64)
            yield np.concatenate((pairs[first:after], runs, katakana)), after - first + len(runs)

    def forget_if_many(self) -> None:
        """Bound the memory that known words take."""
        if len(self._names) + len(self) > MAX_KNOWN_WORDS:
            self.clear()
            self._names, self._numbers = [], {}

    def _codes(self, runs: Sequence[str]) -> Codes:
        return np.frombuffer(b"".join(map(self.__getitem__, runs)), np.int64)


def _groups(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Texts, with their normalised forms, in groups that do not take much memory."""
    group: list[tuple[str, str]] = []
    size = 0
    for each in texts:
        group.append(each)
        size += len(each[1])
        if size >= GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


_LOCK = threading.Lock()
_KNOWN = _KnownWords()
