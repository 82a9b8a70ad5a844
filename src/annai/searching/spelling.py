"""Which word was meant? One that a passage holds, a slip away from a word as it was typed, which none holds.

Only stems are indexed, so what a word may have been is made from the word as it was typed, and stemmed then:
`configuraton` is one letter from `configuration`, and not from `configur`. Of the stems that passages hold, the most
common is taken; a passage then shows how it is written, for a stem is also that of words that nobody writes.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from string import ascii_lowercase
from typing import TYPE_CHECKING

from annai.text.fields import FIELD_NAMES, FIELD_WEIGHTS, passage_fields
from annai.text.tokens import STOP_WORDS, spelled_words, stems
from annai.types import Where

if TYPE_CHECKING:  # Who only shows an answer needs no store.
    from annai.stores.base import Store

SHORTEST, LONGEST = 5, 24
"""Letters of a word that is corrected: shorter ones are near too many others, longer ones are data."""

MOST_WORDS = 3
"""Words of one query that are corrected: where more are strange, it speaks of something else than the documents."""

MOST_STEMS, MOST_PASSAGES = 3, 30
"""How many stems are tried for a word, and how many passages are read to see how one is written."""

_WRITTEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def corrections(store: "Store", text: str, where: Where) -> dict[str, str]:
    """The words of a query that no passage holds, and what is meant by them, where these documents tell."""
    strange = _strange(store, text)
    if len(strange) > MOST_WORDS:
        return {}
    meant = {word: _meant(store, word.lower(), where) for word in strange}
    return {word: _in_case_of(word, found) for word, found in meant.items() if found}


def correct(text: str, corrected: Mapping[str, str]) -> str:
    """The query with words corrected, and every other character as it was typed."""
    if not corrected:
        return text
    pieces, at = [], 0
    for match in spelled_words(text):
        pieces += [text[at : match.start()], corrected.get(match.group(), match.group())]
        at = match.end()
    return "".join([*pieces, text[at:]])


def candidates(text: str) -> dict[str, str]:
    """The words of a query that are looked at, with their stems."""
    typed = [
        word
        for word in dict.fromkeys(match.group() for match in spelled_words(text))
        if SHORTEST <= len(word) <= LONGEST and word.lower() not in STOP_WORDS
    ]
    return dict(zip(typed, stems([word.lower() for word in typed]), strict=True))


def _strange(store: "Store", text: str) -> list[str]:
    """The words that no passage holds."""
    words = candidates(text)
    held = store.holding([*words.values()]) if words else {}
    return [word for word, stem in words.items() if stem not in held]


def _meant(store: "Store", typed: str, where: Where) -> str | None:
    """What a passage has that is one slip away, or None."""
    slips = dict.fromkeys(_slips(typed))
    by_stem: dict[str, set[str]] = {}
    for slip, stem in zip(slips, stems([*slips]), strict=True):
        by_stem.setdefault(stem, set()).add(slip)
    holding = store.holding([*by_stem])
    for stem in sorted(holding, key=lambda stem: (-holding[stem], stem))[:MOST_STEMS]:
        for written in _written(store, stem, where):
            if written in by_stem[stem]:
                return written
    return None


def _slips(word: str) -> Iterator[str]:
    """What one may have meant who slipped once: letters swapped, left out, typed too many or wrong.

    The first letter is right, or swapped with the second: otherwise a name that no document holds (`Biden`) is often
    taken for a word that one does (`widen`).
    """
    cuts = [(word[:place], word[place:]) for place in range(1, len(word) + 1)]
    yield word[1] + word[0] + word[2:]
    for head, tail in cuts:
        if tail:
            yield head + tail[1:]
            yield head + tail[1:2] + tail[0] + tail[2:]
        for letter in ascii_lowercase:
            yield head + letter + tail
            yield head + letter + tail[1:]


def _written(store: "Store", stem: str, where: Where) -> Iterator[str]:
    """The words, in small letters, of passages that hold a stem; those that hold it most come first."""
    found = [each.key for each in store.matching({stem: 1.0}, FIELD_WEIGHTS, MOST_PASSAGES, where)]
    stored = store.lookup(found)
    for passage in (stored[key] for key in found if key in stored):
        document = store.document(passage.collection, passage.path)
        if document is not None:
            fields = passage_fields(document, passage.section)
            texts = (getattr(fields, name) for name in FIELD_NAMES)
            yield from map(str.lower, chain.from_iterable(map(_WRITTEN.findall, texts)))


def _in_case_of(word: str, meant: str) -> str:
    if word.isupper():
        return meant.upper()
    return meant.capitalize() if word[0].isupper() else meant
