"""Which word was meant? For a word that no passage holds, one that a passage does hold and that is a slip away.

The index holds stems, names in lower case and katakana words whole, so candidates are made from the word as it was
typed and looked up: `configuraton` is one letter from `configuration`, and not from `configur`. Of those that passages
hold, the one that explains the slip best is taken: how many passages hold it, times how likely such a slip is. A
passage then shows how it is written, because many words that nobody writes have the same stem.

A word that the bundled model knows whole is no slip, only a word that these documents do not have: `castle` is not
`cattle`, nor `rugby` `ruby`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from string import ascii_lowercase
from typing import TYPE_CHECKING

from annai.answers import Where
from annai.definitions import lazy_pattern
from annai.embedders.static import token_model
from annai.text.fields import FIELD_NAMES, FIELD_WEIGHTS, passage_fields
from annai.text.tokens import STOP_WORDS, is_cjk, katakana_term, normalise, query_words, spelled_words, stems
from annai.types import Document, Section

if TYPE_CHECKING:  # Whoever only shows an answer needs no store.
    from annai.stores.base import PassageSearcher

MIN_LETTERS, MAX_LETTERS = 4, 24
"""Letters of a word that is corrected: shorter ones are close to too many others, longer ones are data."""

CERTAIN_FROM_LETTERS = 5
"""A shorter word is corrected only if one candidate is far likelier than all others."""

SURE_LETTERS, SURE_PASSAGES = 7, 50
"""In a word of fewer letters the first is right, unless at least so many passages hold the word that was meant: names
that no document holds (`Biden`) are close to words that few do (`widen`)."""

TWO_SLIPS_LETTERS = range(8, 15)
"""Letters of a word in which two slips are looked for: so long a word is close to hardly any other. Of a longer one
there are too many to look up."""

RARE_PASSAGES, COMMON_FACTOR = 3, 20
"""A word one slip away that fewer passages hold may be a typo in them: a word two slips away is preferred that so many
times as many hold (`Kuberenets`: not `Kuberentes`, which one page has, but `Kubernetes`)."""

LIKELY, UNLIKELY = 10.0, 0.1
"""How much likelier a slip is than another: of letters, two swapped, one missing or one twice are likely, and of kana
also ガ for カ, ッ for ツ and a long vowel mark; a wrong letter is one of many that could be wrong. A slip in the first
letter of a short word is unlikely."""

MIN_PAIR_SHARE = 0.25
"""A katakana word of whose pairs of characters passages hold fewer is nothing that these documents are about."""

MAX_UNKNOWN_WORDS = 3
"""A query with more unknown words is not corrected: it is about something else than the documents."""

MAX_TERMS, MAX_PASSAGES = 3, 30
"""How many terms are tried for a word, and how many passages are read to see how it is written."""

_KANA = "".join(map(chr, range(0x30A1, 0x30F5))) + "ー"
_KANA_PAIRS = (
    "カガキギクグケゲコゴサザシジスズセゼソゾタダチヂツヅテデトドハバヒビフブヘベホボハパヒピフプヘペホポバパビピブプベペボポ"
    "ァアィイゥウェエォオッツャヤュユョヨウヴ"
)
_NEAR_KANA: dict[str, str] = {}
for _first, _second in zip(_KANA_PAIRS[::2], _KANA_PAIRS[1::2], strict=True):
    _NEAR_KANA[_first] = _NEAR_KANA.get(_first, "") + _second
    _NEAR_KANA[_second] = _NEAR_KANA.get(_second, "") + _first
_VOWELS = "aeiou"
_RUN = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_UNPRONOUNCEABLE = lazy_pattern(r"[aeiou]{3}|(.)\1\1|([aeiou])\2")

Slips = dict[str, float]
"""What a word may have been → how likely that slip is."""


def find_corrections(store: "PassageSearcher", text: str, where: Where) -> dict[str, str]:
    """The words of a query that no passage holds, with what these documents suggest instead."""
    words = correctable_words(text)
    counts = store.holding([*words.values()]) if words else {}
    unknown = [word for word, term in words.items() if term not in counts]
    unknown = [word for word in unknown if len(token_model().token_ids(word)) > 1]
    unknown = [word for word in unknown if not is_cjk(word) or _has_known_pairs(store, word)]
    if len(unknown) > MAX_UNKNOWN_WORDS:
        return {}
    found = {word: _find_correction(store, word, where) for word in unknown}
    return {word: meant for word, meant in found.items() if meant}


def apply_corrections(text: str, corrections: Mapping[str, str]) -> str:
    """The query with words corrected, and every other character as it was typed."""
    if not corrections:
        return text
    pieces, end = [], 0
    for match in spelled_words(text):
        pieces += [text[end : match.start()], corrections.get(match.group(), match.group())]
        end = match.end()
    return "".join([*pieces, text[end:]])


def correctable_words(text: str) -> dict[str, str]:
    """The words of a query that may be corrected, with the term by which the index knows each."""
    typed = [
        word
        for word in dict.fromkeys(match.group() for match in spelled_words(text))
        if MIN_LETTERS <= len(word) <= MAX_LETTERS and word.lower() not in STOP_WORDS
    ]
    return {word: _terms([word.lower()], is_name=_is_name(word))[0] for word in typed}


def _has_known_pairs(store: "PassageSearcher", word: str) -> bool:
    """Whether a katakana word may be a slip away from one that passages hold."""
    pairs = [*query_words(word)]
    return len(store.holding(pairs)) >= MIN_PAIR_SHARE * len(pairs)


def _find_correction(store: "PassageSearcher", typed: str, where: Where) -> str | None:
    """A word of a passage that is a slip away, or None."""
    if is_cjk(typed):
        return _likeliest(store, typed, _kana_slips(normalise(typed)), where)[0]
    if len(typed) < CERTAIN_FROM_LETTERS and (typed.isupper() or _is_name(typed)):
        return None  # These are initials.
    word = typed.lower()
    if name := _written(store, word, {word: 1.0}, where):
        return name  # In other case: `usestate`.
    meant, passages = _likeliest(store, typed, _letter_slips(word), where)
    if passages < RARE_PASSAGES and len(word) in TWO_SLIPS_LETTERS:
        other, others = _likeliest(store, typed, _two_slips(word), where)
        return other if others >= COMMON_FACTOR * passages else meant
    return meant


def _likeliest(store: "PassageSearcher", typed: str, slips: Slips, where: Where) -> tuple[str | None, int]:
    """The likeliest of these words that a passage holds, as it is written there, and how many passages hold it."""
    by_term: dict[str, Slips] = {}
    for word, term in zip(slips, _terms([*slips], is_name=_is_name(typed)), strict=True):
        by_term.setdefault(term, {})[word] = slips[word]
    counts = store.holding([*by_term])
    if len(typed) < SURE_LETTERS:
        counts = {
            term: count
            for term, count in counts.items()
            if count >= SURE_PASSAGES or max(by_term[term].values()) > UNLIKELY
        }
    chances = {term: count * max(by_term[term].values()) for term, count in counts.items()}
    terms = sorted(counts, key=lambda term: (-chances[term], term))[:MAX_TERMS]
    if len(typed) < CERTAIN_FROM_LETTERS and len(terms) > 1 and chances[terms[0]] < LIKELY * chances[terms[1]]:
        return None, 0
    for term in terms:
        if meant := _written(store, term, by_term[term], where):
            return meant if is_cjk(meant) or _is_name(meant) else _match_case(typed, meant), counts[term]
    return None, 0


def _terms(words: Sequence[str], *, is_name: bool) -> Sequence[str]:
    """The terms by which the index knows words of one kind: katakana words, names such as `useEffect`, or others."""
    if words and is_cjk(words[0]):
        return [katakana_term(word) for word in words]
    return words if is_name else stems(words)


def _is_name(word: str) -> bool:
    """Whether a word has parts, as names in code have: `useEffect`, `log_dir`."""
    return len(_PART.findall(word)) > 1 or "_" in word


def _letter_slips(word: str) -> Slips:
    """What the word may have been: two letters swapped, one missing, one too many or a wrong one.

    In a short word the first letter is right, or swapped with the second.
    """
    slips: Slips = {}
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        chance = UNLIKELY if not at and len(word) < SURE_LETTERS else 1.0
        for letter in ascii_lowercase:
            _add(slips, head + letter + tail[1:], chance)
            _add(slips, head + letter + tail, chance * LIKELY if chance == 1 else chance)
        if tail:
            _add(slips, head + tail[1:], LIKELY if tail[0] == head[-1:] else chance)
    slips.update(dict.fromkeys(_swapped(word), LIKELY))
    if len(word) < CERTAIN_FROM_LETTERS:
        slips = {each: chance for each, chance in slips.items() if chance == LIKELY and each[0] == word[0]}
    return slips


def _two_slips(word: str) -> Slips:
    """What the word may have been before two common slips: letters swapped, vowels, letters once that belong twice.

    At most one letter is too many: otherwise words become others that they are made of (`voluntarily`, `voluntary`).
    """
    once = [*_common_slips(word)]
    twice = (each for slip in once for each in _common_slips(slip))
    shorter = (each[:at] + each[at + 1 :] for each in once for at in range(1, len(each)))
    return {each: 1.0 for each in chain(twice, shorter) if not _UNPRONOUNCEABLE.search(each)}


def _common_slips(word: str) -> Iterator[str]:
    yield from _swapped(word)
    for at in range(1, len(word)):
        yield word[:at] + word[at - 1] + word[at:]
        for vowel in _VOWELS:
            yield word[:at] + vowel + word[at:]
            if word[at] in _VOWELS:
                yield word[:at] + vowel + word[at + 1 :]


def _kana_slips(word: str) -> Slips:
    """The same for a katakana word. A long vowel mark, and signs that look or sound alike, are confused most."""
    slips: Slips = {}
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        for kana in _KANA:
            _add(slips, head + kana + tail, LIKELY if at else 1.0)
        for kana in _NEAR_KANA.get(tail[:1], ""):
            _add(slips, head + kana + tail[1:], LIKELY)
        if tail:
            _add(slips, head + tail[1:], LIKELY if tail[0] in ("ー", head[-1:]) else 1.0)
    slips.update(dict.fromkeys(_swapped(word), LIKELY))
    if len(word) < CERTAIN_FROM_LETTERS:
        slips = {each: chance for each, chance in slips.items() if chance == LIKELY}
    return slips


def _add(slips: Slips, word: str, chance: float) -> None:
    slips[word] = max(chance, slips.get(word, 0.0))


def _swapped(word: str) -> Iterator[str]:
    for at in range(len(word) - 1):
        yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _written(store: "PassageSearcher", term: str, slips: Slips, where: Where) -> str | None:
    """The likeliest of words that have the same term, as passages write it; None if none does."""
    if term == katakana_term(term[1:]):
        return term[1:] if store.matching({term: 1.0}, FIELD_WEIGHTS, 1, where) else None
    best = max(slips.values())
    seen: Counter[str] = Counter()
    forms: dict[str, str] = {}
    words = {each for word in slips for each in (word, f"{word}s", word.removesuffix("s"))}
    # As `_PART` and `_RUN` find them: no word ends within small letters, nor begins there with one.
    wanted = re.compile(rf"(?:(?<![a-z])|(?=[A-Z]))(?i:{'|'.join(map(re.escape, sorted(words)))})(?![a-z])")
    for form in _words_of_passages(store, term, where, wanted):
        word = form.lower()
        seen[word] += 1
        if word in slips:
            forms.setdefault(word, form if _is_name(form) else word)
            if slips[word] == best:
                return forms[word]
    if not forms:
        # What is written in the singular can be meant in the plural, and the other way round.
        forms = {word: word for word in slips if word + "s" in seen or (word[-1] == "s" and word[:-1] in seen)}
    return max(forms.values(), key=lambda form: (slips[form.lower()], seen[form.lower()], form), default=None)


def _words_of_passages(store: "PassageSearcher", term: str, where: Where, wanted: re.Pattern[str]) -> Iterator[str]:
    """The words and names of passages that hold a term, without those that have no wanted one.

    The passages that match it best come first.
    """
    keys = [each.key for each in store.matching({term: 1.0}, FIELD_WEIGHTS, MAX_PASSAGES, where)]
    stored = store.lookup(keys)
    for passage in (stored[key] for key in keys if key in stored):
        document = store.document(passage.collection, passage.path)
        if document is not None and _may_hold(document, passage.section, wanted):
            fields = passage_fields(document, passage.section)
            for run in _RUN.findall("\n".join(getattr(fields, name) for name in FIELD_NAMES)):
                parts = _PART.findall(run)
                yield from parts
                if len(parts) > 1:
                    yield run


def _may_hold(document: Document, passage: Section, wanted: re.Pattern[str]) -> bool:
    """Whether a passage may have a wanted word: cheaper than to read all of its document as readers do."""
    labels = (document.title, document.path, *passage.heading_path, str(document.front_matter))
    return bool(wanted.search(document.text, passage.start, passage.end) or wanted.search("\n".join(labels)))


def _match_case(word: str, meant: str) -> str:
    """`meant` in capitals where `word` is."""
    if word.isupper():
        return meant.upper()
    return meant.capitalize() if word[0].isupper() else meant
