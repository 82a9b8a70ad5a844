"""Which parts of a text does a question name? Whole words, and in Japanese the longest runs that both have."""

import re
import unicodedata
from collections.abc import Iterator

from annai.definitions import dataclass
from annai.text.tokens import is_cjk, normalise, query_words, runs, words

MIN_KATAKANA_PART = 3
"""A katakana word of the question is also found within a longer one, as サーバ in サーバサイド, if it is this long."""

_CLUSTER = re.compile(r".[\u0300-\u036f\u3099\u309a\uff9e\uff9f]*", re.DOTALL)
_SIGN = re.compile(r"[\u30a1-\u30fa\u30fc]+|.", re.DOTALL)
_KATAKANA, _HIRAGANA = re.compile(r"[\u30a1-\u30fa]"), re.compile(r"[\u3041-\u309f]")
_PARTICLES = frozenset("をはがにのでともへや")
_EDGE = "\0"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question names, made once for all the texts that are compared with it."""

    terms: frozenset[str]
    """Its words that say something."""
    runs: str
    """Its Japanese, Chinese or Korean, sign by sign."""
    katakana: tuple[str, ...]
    is_hiragana_only: bool


def asked(question: str) -> Asked:
    """What to look for. A katakana word is one sign, since a part of it means something else."""
    weights = query_words(question)
    terms = frozenset(word for word, weight in weights.items() if weight == 1) or frozenset(weights)
    found = [_signs(match.group()) for match in runs(normalise(question)) if is_cjk(match.group())]
    signs = [sign for run in found for sign in run]
    return Asked(
        terms,
        "".join(f"{_EDGE}{_EDGE.join(run)}{_EDGE}" for run in found),
        tuple(sign for sign in dict.fromkeys(signs) if _KATAKANA.match(sign) and len(sign) >= MIN_KATAKANA_PART),
        all(map(_HIRAGANA.match, signs)) and all(map(is_cjk, terms)),
    )


def matching_spans(text: str, question: Asked) -> list[tuple[int, int]]:
    """The spans of a text that the question names, merged and in order."""
    normalised, origin = _normalise_with_spans(text)
    merged: list[tuple[int, int]] = []
    for start, end in _spans(normalised, question):
        first, last = origin[start][0], origin[end - 1][1]
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _spans(text: str, question: Asked) -> Iterator[tuple[int, int]]:
    for match in runs(text):
        run, start = match.group(), match.start()
        if is_cjk(run):
            yield from ((start + first, start + end) for first, end in _shared_runs(run, question))
        elif not question.terms.isdisjoint(words(run)):
            yield match.span()


def _shared_runs(run: str, question: Asked) -> Iterator[tuple[int, int]]:
    """The longest parts of a run of Japanese that the question has too, if they are more than grammar."""
    matches = [*_SIGN.finditer(run)]
    signs = _signs(run)
    at = 0
    while at < len(signs):
        end = at
        while end < len(signs) and f"{_EDGE}{_EDGE.join(signs[at : end + 1])}{_EDGE}" in question.runs:
            end += 1
        first, last = _without_grammar(signs, at, end, question)
        if first < last:
            yield matches[first].start(), matches[last - 1].end()
        elif at == end and _KATAKANA.match(signs[at]):
            part = next((part for part in question.katakana if part in signs[at]), "")
            if part:
                start = matches[at].start() + signs[at].index(part)
                end_of_part = start + len(part)
                yield start, end_of_part + (run[end_of_part : end_of_part + 1] == "ー")
        at = max(end, at + 1)


def _without_grammar(signs: list[str], first: int, end: int, question: Asked) -> tuple[int, int]:
    """A shared run without the particles around it; an empty one if too little is left to be a word."""
    if question.is_hiragana_only:
        return (first, end) if end - first > 1 else (first, first)
    while first < end and _HIRAGANA.match(signs[first]):
        first += 1
    if end - first > 1 and signs[end - 1] in _PARTICLES and not _HIRAGANA.match(signs[end - 2]):
        end -= 1
    if end - first == 1 and len(signs[first]) == 1:
        # One character is a word of its own only where none like it stands beside it.
        beside = [*signs[max(first - 1, 0) : first], *signs[end : end + 1]]
        is_asked = re.search(
            f"(?:{_EDGE}{_EDGE}|[\u3041-\u309f]{_EDGE}|\\A{_EDGE}){re.escape(signs[first])}{_EDGE}(?:{_EDGE}|[\u3041-\u309f]|\\Z)",
            question.runs,
        )
        if not is_asked or not all(map(_HIRAGANA.match, beside)):
            return first, first
    return first, end


def _signs(run: str) -> list[str]:
    """Katakana words without a final long vowel mark, and every other character by itself."""
    return [sign.rstrip("ー") if len(sign) > 2 and sign[-1] == "ー" else sign for sign in _SIGN.findall(run)]


def _normalise_with_spans(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The normalised text, and for each of its characters the span that it came from."""
    if text.isascii():
        return text, [*zip(range(len(text)), range(1, len(text) + 1), strict=True)]
    letters: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _CLUSTER.finditer(text):
        for letter in unicodedata.normalize("NFKC", match.group()):
            letters.append(letter)
            spans.append(match.span())
    return "".join(letters), spans
