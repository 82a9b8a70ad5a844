"""What does an abbreviation stand for? Initials (CRD) and numeronyms (k8s), through what the documents themselves say.

A document explains its initials: "CustomResourceDefinition (CRD)", "CRD (Custom Resource Definition)" or
「カスタムリソース定義（CRD）」. A numeronym is a word of the documents with that first letter, so many letters and that
last letter. The long form is searched for as well, if the documents hold it more often than the short one: otherwise
those that have the short form answer already.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from annai.answers import Where
from annai.definitions import lazy_pattern
from annai.text.fields import FIELD_WEIGHTS
from annai.text.tokens import STOP_WORDS, query_words, unquoted, words

if TYPE_CHECKING:  # Whoever only shows an answer needs no store.
    from annai.stores.base import PassageSearcher

MAX_ABBREVIATIONS = 2
"""How many abbreviations of a query are looked up."""

MAX_OTHER_WORDS = 3
"""In a query with more other words, these find what is meant, and the long form would outweigh them."""

MAX_PASSAGES = 20
"""Passages that are read to see what an abbreviation stands for."""

COMMON_PASSAGES = 500
"""Initials that more passages hold are a word like any other."""

MAX_EXPLANATION_CHARACTERS = 80
"""How far before or after an abbreviation its long form may reach."""

WELL_KNOWN = {
    "a11y": "accessibility",
    "i18n": "internationalization",
    "k8s": "kubernetes",
    "l10n": "localization",
    "o11y": "observability",
}
"""Numeronyms that everybody uses, for documents that hold the word alone."""

_ABBREVIATION = lazy_pattern(
    r"(?<![\w./:@#$=-])(?:(?P<initials>[A-Z]{2,6}|[b-df-hj-np-tv-xz]{3,5})|(?P<first>[A-Za-z])(?P<count>\d{1,2})(?P<last>[A-Za-z]))"
    r"(?![\w/:@=-]|\.\w)",
    re.ASCII,
)
_RUN = lazy_pattern(r"[^\W\d_]+")
_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LINK_TARGET = lazy_pattern(r"\]\([^()]*\)")
_JAPANESE = lazy_pattern(r"[A-Za-z\u30a1-\u30fc\u4e00-\u9fff々]{2,}(?:の[A-Za-z\u30a1-\u30fc\u4e00-\u9fff々]{2,})?\Z")


def find_expansions(store: "PassageSearcher", text: str, where: Where) -> dict[str, str]:
    """The abbreviations of a query, with what they stand for in these documents."""
    found = {match.group(): match for match in _ABBREVIATION.finditer(unquoted(text))}
    expansions: dict[str, str] = {}
    others = [run for run in _RUN.findall(_ABBREVIATION.sub(" ", text)) if run.lower() not in STOP_WORDS]
    for short in [*found][:MAX_ABBREVIATIONS]:
        held = store.holding([_term(short)]).get(_term(short), 0)
        if (held and len(others) > MAX_OTHER_WORDS) or (found[short]["initials"] and not 0 < held <= COMMON_PASSAGES):
            continue
        long = _long_form(store, found[short], text, where)
        if long and not {*words(long)} <= {*words(text)}:
            terms = _own_terms(long)
            counts = store.holding(terms)
            if min(counts.get(term, 0) for term in terms) > held:
                expansions[short] = long
    return expansions


def apply_expansions(text: str, expansions: Mapping[str, str], *, instead: bool = False) -> str:
    """The query with the long form after each abbreviation, or instead of it."""
    if not expansions:
        return text
    pieces, end = [], 0
    for match in _ABBREVIATION.finditer(unquoted(text)):
        if long := expansions.get(match.group()):
            pieces += [text[end : match.start() if instead else match.end()], f" {long} "]
            end = match.end()
    return "".join([*pieces, text[end:]]).strip()


def _term(short: str) -> str:
    """The term by which the index knows an abbreviation."""
    return words(short)[0]


def _own_terms(long: str) -> list[str]:
    """The terms that a text must hold for a long form: of a name such as CustomResourceDefinition, the whole."""
    terms = words(long)
    return terms[:1] if " " not in long else [term for term in terms if term not in STOP_WORDS]


def _long_form(store: "PassageSearcher", match: re.Match[str], text: str, where: Where) -> str | None:
    """The long form that passages show most often."""
    short = match.group()
    known = WELL_KNOWN.get(short.lower())
    if match["initials"]:
        seen = Counter(
            form for passage in _passages(store, {_term(short): 1.0}, where) for form in _explanations(passage, short)
        )
    elif known and store.holding(words(known)):
        return known.capitalize() if short[0].isupper() else known
    else:
        word = re.compile(rf"(?<!\w){match['first']}[a-z]{{{int(match['count'])}}}{match['last']}(?!\w)", re.IGNORECASE)
        seen = Counter(
            form.lower() for passage in _passages(store, query_words(text), where) for form in word.findall(passage)
        )
    return max(seen, key=lambda form: (seen[form], form)) if seen else None


def _passages(store: "PassageSearcher", terms: Mapping[str, float], where: Where) -> Iterator[str]:
    """The texts of the passages that match these terms best."""
    found = store.matching(terms, FIELD_WEIGHTS, MAX_PASSAGES, where)
    for stored in store.lookup([each.key for each in found]).values():
        document = store.document(stored.collection, stored.path)
        if document is not None:
            yield document.text[stored.section.start : stored.section.end]


def _explanations(text: str, short: str) -> Iterator[str]:
    """The long forms that a text gives for initials: before them or after them, one of both in brackets."""
    initials, text = re.escape(short), _LINK_TARGET.sub("]", text)
    for match in re.finditer(rf"[*_`\])]*\s*[(（][*_`\[]*{initials}s?[*_`\]]*[)）,、]", text, re.IGNORECASE):
        before = text[max(match.start() - MAX_EXPLANATION_CHARACTERS, 0) : match.start()]
        if form := _spelled_out(before, short):
            yield form
        elif (japanese := _JAPANESE.search(before.rstrip())) and not japanese.group().isascii():
            yield japanese.group()
    for match in re.finditer(rf"(?<!\w){initials}s?[*_`\]]*\s*[(（]([^()（）]+)[)）]", text, re.IGNORECASE):
        form = _spelled_out(match.group(1)[:MAX_EXPLANATION_CHARACTERS], short)
        if form and len(form) >= len(match.group(1).strip(" *_`s")) - 1:
            yield form


def _spelled_out(text: str, short: str) -> str | None:
    """The last words of a text whose first letters are the initials; words such as `of` may have none."""
    wanted = short.lower()
    for part in reversed([*_PART.finditer(text)]):
        letter = part.group()[0].lower()
        if wanted and letter == wanted[-1]:
            wanted = wanted[:-1]
        elif part.group().lower() not in STOP_WORDS:
            return None
        if not wanted:
            return re.sub(r"[^\w-]+", " ", text[part.start() :]).strip()
    return None
