"""Which word was meant? For a word that no passage holds, one that a passage does hold and that is one typo away.

Only stems are indexed, so candidates are made from the word as it was typed and stemmed then: `configuraton` is one
letter from `configuration`, and not from `configur`. Of the stems that passages hold, the most common is taken. A
passage then shows how the word is written, because many words that nobody writes have the same stem.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from string import ascii_lowercase
from typing import TYPE_CHECKING

from annai.text.fields import FIELD_NAMES, FIELD_WEIGHTS, passage_fields
from annai.text.tokens import STOP_WORDS, plain_words, stems
from annai.types import Where

if TYPE_CHECKING:  # Whoever only shows an answer needs no store.
    from annai.stores.base import PassageSearcher

MIN_LETTERS, MAX_LETTERS = 5, 24
"""Letters of a word that is corrected: shorter ones are close to too many others, longer ones are data."""

MAX_UNKNOWN_WORDS = 3
"""A query with more unknown words is not corrected: it is about something else than the documents."""

MAX_STEMS, MAX_PASSAGES = 3, 30
"""How many stems are tried for a word, and how many passages are read to see how it is written."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def find_corrections(store: "PassageSearcher", text: str, where: Where) -> dict[str, str]:
    """The words of a query that no passage holds, with what these documents suggest instead."""
    unknown = _unknown_words(store, text)
    if len(unknown) > MAX_UNKNOWN_WORDS:
        return {}
    found = {word: _find_correction(store, word.lower(), where) for word in unknown}
    return {word: _match_case(word, meant) for word, meant in found.items() if meant}


def apply_corrections(text: str, corrections: Mapping[str, str]) -> str:
    """The query with words corrected, and every other character as it was typed."""
    if not corrections:
        return text
    pieces, end = [], 0
    for match in plain_words(text):
        pieces += [text[end : match.start()], corrections.get(match.group(), match.group())]
        end = match.end()
    return "".join([*pieces, text[end:]])


def correctable_words(text: str) -> dict[str, str]:
    """The words of a query that may be corrected, with their stems."""
    typed = [
        word
        for word in dict.fromkeys(match.group() for match in plain_words(text))
        if MIN_LETTERS <= len(word) <= MAX_LETTERS and word.lower() not in STOP_WORDS
    ]
    return dict(zip(typed, stems([word.lower() for word in typed]), strict=True))


def _unknown_words(store: "PassageSearcher", text: str) -> list[str]:
    """The words that no passage holds."""
    words = correctable_words(text)
    counts = store.holding([*words.values()]) if words else {}
    return [word for word, stem in words.items() if stem not in counts]


def _find_correction(store: "PassageSearcher", typed: str, where: Where) -> str | None:
    """A word of a passage that is one typo away, or None."""
    variants = dict.fromkeys(_one_typo_away(typed))
    by_stem: dict[str, set[str]] = {}
    for variant, stem in zip(variants, stems([*variants]), strict=True):
        by_stem.setdefault(stem, set()).add(variant)
    counts = store.holding([*by_stem])
    for stem in sorted(counts, key=lambda stem: (-counts[stem], stem))[:MAX_STEMS]:
        for word in _words_of_passages(store, stem, where):
            if word in by_stem[stem]:
                return word
    return None


def _one_typo_away(word: str) -> Iterator[str]:
    """What the word may have been: two letters swapped, one missing, one too many or a wrong one.

    The first letter is right, or swapped with the second: otherwise a name that no document holds (`Biden`) is often
    taken for a word that one does (`widen`).
    """
    cuts = [(word[:position], word[position:]) for position in range(1, len(word) + 1)]
    yield word[1] + word[0] + word[2:]
    for head, tail in cuts:
        if tail:
            yield head + tail[1:]
            yield head + tail[1:2] + tail[0] + tail[2:]
        for letter in ascii_lowercase:
            yield head + letter + tail
            yield head + letter + tail[1:]


def _words_of_passages(store: "PassageSearcher", stem: str, where: Where) -> Iterator[str]:
    """The words, in lower case, of passages that hold a stem; the passages that match it best come first."""
    keys = [each.key for each in store.matching({stem: 1.0}, FIELD_WEIGHTS, MAX_PASSAGES, where)]
    stored = store.lookup(keys)
    for passage in (stored[key] for key in keys if key in stored):
        document = store.document(passage.collection, passage.path)
        if document is not None:
            fields = passage_fields(document, passage.section)
            texts = (getattr(fields, name) for name in FIELD_NAMES)
            yield from map(str.lower, chain.from_iterable(map(_WORD.findall, texts)))


def _match_case(word: str, meant: str) -> str:
    """`meant` in capitals where `word` is."""
    if word.isupper():
        return meant.upper()
    return meant.capitalize() if word[0].isupper() else meant
