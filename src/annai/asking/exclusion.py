"""What is not wanted? `-word` and `-"a phrase"` in a query leave out the sections that hold it.

A dash is also part of commands (`tar -xzf`, `git commit --amend`), and there it stays text: in a query that has other
marks of code or an option of one letter, and where a document has it written just so after the word before it
(`java -jar`). A query of nothing but exclusions is text as well.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from annai.answers import Where
from annai.definitions import lazy_pattern
from annai.text.fields import FIELD_WEIGHTS
from annai.text.tokens import is_cjk, phrase_score, query_words, words
from annai.types import Document, Section, StoredSection

if TYPE_CHECKING:  # Whoever only shows an answer needs no store.
    from annai.stores.base import PassageSearcher, Scored

WIDEN_FACTOR, MAX_PASSAGES = 4, 20_000
"""While too few of the passages that were found are left, so many times as many are looked for, up to a limit."""

MAX_READ = 20
"""Passages that are read to see whether a dash belongs to a command."""

_EXCLUSION = lazy_pattern(
    r"""(?<!\S)[-\uff0d\u2212](?:"([^"]+)"|“([^”]+)”|(?=[^\W\d_])(\w+(?:[-.]\w+)*))[,;:!?、。]?(?!\S)"""
)
_CODE = lazy_pattern(r"[=<>{}\[\]$\\|^;`]|(?<!\S)--\w|(?<!\S)-[A-Za-z](?!\S)")


def find_exclusions(store: "PassageSearcher", text: str, where: Where) -> tuple[str, ...]:
    """The words and phrases of a query whose sections are not wanted."""
    found = {_phrase(match): match for match in _exclusions(text)}
    excluded = [phrase for phrase, match in found.items() if not _is_option(store, text, match, where)]
    return tuple(excluded) if strip_exclusions(text, excluded).strip() else ()


def strip_exclusions(text: str, excluded: Collection[str]) -> str:
    """The query without what it excludes."""
    if not excluded:
        return text
    return _EXCLUSION.sub(lambda match: "" if _phrase(match) in excluded else match.group(), text).strip()


class Exclusions:
    """Leaves out the sections whose path, title, headings or text hold one of some phrases."""

    def __init__(self, store: "PassageSearcher", phrases: Collection[str]) -> None:
        self._store = store
        self._tests = [_holder(phrase) for phrase in phrases]
        self._documents: dict[tuple[str, str], Document | None] = {}
        self._trees: dict[tuple[str, str], list[StoredSection]] = {}
        self._known: dict[tuple[int, int, int], bool] = {}

    def hold(self, stored: StoredSection, section: Section) -> bool:
        """Whether a section of the stored one's document is not wanted; a piece is judged by its whole section."""
        if not self._tests:
            return False
        address = (stored.collection, stored.path)
        if section.piece and address not in self._trees:
            self._trees[address] = self._store.sections(*address)
        while section.piece and section.parent is not None:
            section = self._trees[address][section.parent].section
        key = (stored.root_key, section.start, section.end)
        if key not in self._known:
            if address not in self._documents:
                self._documents[address] = self._store.document(*address)
            document = self._documents[address]
            text = document.text[section.start : section.end] if document else ""
            labels = (stored.path.rpartition(".")[0] or stored.path, stored.title, *section.heading_path)
            self._known[key] = any(holds("\n".join((*labels, text))) for holds in self._tests)
        return self._known[key]

    def find(self, find: "Callable[[int], list[Scored]]", count: int) -> "list[Scored]":
        """The first `count` passages that are found and wanted; `find` takes how many to look for."""
        found = find(count)
        if not self._tests:
            return found
        wanted, looked_for = self._wanted(found), count
        while len(wanted) < count and len(found) >= looked_for and looked_for < MAX_PASSAGES:
            looked_for *= WIDEN_FACTOR
            found = find(looked_for)
            wanted = self._wanted(found)
        return wanted[:count]

    def _wanted(self, found: "list[Scored]") -> "list[Scored]":
        stored = self._store.lookup([each.key for each in found])
        return [
            each for each in found if each.key in stored and not self.hold(stored[each.key], stored[each.key].section)
        ]


def _exclusions(text: str) -> Iterator[re.Match[str]]:
    is_code = _CODE.search(re.sub(r"\"[^\"]*\"|“[^”]*”", "", text)) is not None
    for match in _EXCLUSION.finditer(text):
        word = match.group(3)
        if not words(_phrase(match)):
            continue
        if word is None or (not is_code and (len(word) > 1 or is_cjk(word))):
            yield match


def _phrase(match: re.Match[str]) -> str:
    return next(filter(None, match.groups()), "")


def _is_option(store: "PassageSearcher", text: str, match: re.Match[str], where: Where) -> bool:
    """Whether a document has the word with its dash after the same word as the query: then it is part of a command."""
    before = text[: match.start()].split()
    if not before or match.group(3) is None or not before[-1].isascii():
        return False
    command = f"{before[-1]} -{match.group(3)}"
    found = store.matching(query_words(command), FIELD_WEIGHTS, MAX_READ, where)
    for stored in store.lookup([each.key for each in found]).values():
        document = store.document(stored.collection, stored.path)
        if document and phrase_score(document.text[stored.section.start : stored.section.end], command):
            return True
    return False


def _holder(phrase: str) -> Callable[[str], bool]:
    """Tells whether a text holds a phrase: a word in any of its forms, anything else as it is written."""
    terms = words(phrase)
    if is_cjk(phrase) or not phrase.isalnum() or not terms:
        return lambda text: phrase_score(text, phrase) > 0
    # Most texts have not even its first letters; making words of all of them would take longer than all the rest.
    start = phrase[:3].lower()
    return lambda text: start in text.lower() and terms[0] in words(text)
