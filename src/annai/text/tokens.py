"""What are the units of a text? Tokens for measuring it, words for finding it by keywords; CJK included."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

import Stemmer

# Kanji, kana, their iteration and length marks, and Hangul: scripts written without (dependable) spaces.
_CJK_SPANS = (
    (0x3005, 0x3007),
    (0x3041, 0x3096),
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),
    (0x30FC, 0x30FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_CJK = "".join(f"{chr(first)}-{chr(last)}" for first, last in _CJK_SPANS)
_CJK_EDGES = [edge for first, last in _CJK_SPANS for edge in (first, last + 1)]
_KATAKANA = r"\u30a1-\u30fa"

_WORD = re.compile(rf"[{_CJK}]+|[cCfF]#|[cC]\+\+|[^\W{_CJK}]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]+")
_LONG_VOWEL_AT_END = re.compile(rf"(?<=[{_KATAKANA}ー]{{2}})ー(?![{_KATAKANA}ー])")
_CLUSTER = re.compile(r".[\u0300-\u036f\u3099\u309a\uff9e\uff9f]*", re.DOTALL)
_QUOTED = re.compile(r'["“”]([^"“”]+)["“”]|`([^`]+)`')
_RUN = re.compile(r"[!-~]+")
_AROUND_CODE = ",;:!?\"'`*"
_HUMP, _LOW_HUMP = re.compile(r"[a-z][A-Z]"), re.compile(r"\A[a-z]+[A-Z]")
_CODE_MARK = re.compile(r"[_=<>{}\[\]$@\\|^#]|\(\)|::|\A--\w|\A[./]+\w|[A-Za-z0-9]\.[A-Za-z0-9_]|\w:\w|/.*/")
_LINE_MARK = re.compile(r"[=<>{}\[\]()$@\\|^#/*+&%~_;]|:(?=\s)|\s--?[A-Za-z]")
_RUN_MARK = re.compile(r"[^\w\s]|\d")
_SENTENCE_ENDS = "?!.,; "
_CUT_OFF = re.compile(r"['’]t\b")
_HIRAGANA_ONLY = re.compile(r"[\u3041-\u309fー]+\Z")

LONGEST_WORD = 64
"""Longer runs of letters are data (hashes, base64), not words: only their beginning is kept."""

CODE_SHARE = 0.4
"""A query is code if at least so much of it is."""

LONGEST_LINE = 4
"""Runs of a query that may be code as a whole."""

SHORTEST_CODE = 4
"""Characters; `e.g` and `a/b` are prose."""

NEARLY_HELD = 0.7
"""What a phrase counts that stands there in other case or within a longer word (`log_dir` in `log_dirs`)."""

LOW_WEIGHT = 0.3
"""What a word that says little (`the`, `する`) counts in a query, against 1 for the others."""

STOP_WORDS = frozenset(
    "a an and any are as at be been but by can did do does for from had has have how i if in into is it its me my "
    "no not of on or our shall should so such that the their them then there these they this to us was we were "
    "what when where which who whom why will with would you your".split()
)


class TokenPositions:
    """Where the tokens of one text begin and end, so that any span of it can be measured at once.

    A token is a CJK character, a mark, up to eight letters of a word or up to three digits: close to what language
    models count, with no table to load.
    """

    def __init__(self, text: str) -> None:
        spans = [match.span() for match in _token_pattern().finditer(text)]
        self.starts = [start for start, _ in spans]
        self.ends = [end for _, end in spans]

    def __len__(self) -> int:
        return len(self.starts)

    def count(self, start: int, end: int) -> int:
        """How many tokens begin in the span."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)

    def index(self, position: int) -> int:
        """The number of the first token that begins at the position or after it."""
        return bisect_left(self.starts, position)


def count_tokens(text: str) -> int:
    """How many tokens the text has."""
    return len(_token_pattern().findall(text))


def words(text: str) -> list[str]:
    """The words to index, in the order of the text.

    Width and case do not matter (NFKC, lower case). English words are stemmed; names such as `getUserById` and
    `snake_case` give themselves and their parts. A run of Japanese gives its overlapping pairs of characters and,
    at its end, its last character, so that every single character begins a word too; a long vowel mark at the end
    of a katakana word is left out, so that サーバー and サーバ are one.
    """
    return list(chain.from_iterable(map(_VOCABULARY.__getitem__, _WORD.findall(normalise(text)))))


def query_words(text: str) -> dict[str, float]:
    """The distinct words of a query with their weights, in the order of the query.

    As `words`, except that a run of Japanese longer than one character gives its pairs only. A word that is one
    CJK character stands for every word that begins with it.
    """
    found: dict[str, float] = {}
    for run in _WORD.findall(normalise(text)):
        terms = _VOCABULARY[run]
        if len(terms) > 1 and is_cjk(run):
            terms = terms[:-1]
        for term in terms:
            found.setdefault(term, word_weight(term))
    return found


def word_weight(word: str) -> float:
    """How much a word says: 1, or `LOW_WEIGHT` for English stop words and for what is all hiragana."""
    return LOW_WEIGHT if word in _STOP_STEMS or _HIRAGANA_ONLY.match(word) else 1.0


def exact_phrases(text: str) -> list[str]:
    """What a query asks for as it stands: what is between double quotes or backticks, and a query that is code.

    Code are runs without spaces that have marks as prose has not (`--dry-run`, `a.b()`, `snake_case`) or humps
    (`getUserById`; `OpenTelemetry` only where it is the whole query), if they are a good part of a query without
    Japanese: a name in a sentence is one word among others. A short query with such marks is also asked for as a
    whole (`type: Available`; `aria-label` alone).
    """
    text = normalise(text).strip()
    quoted = [phrase for pair in _QUOTED.findall(text) for phrase in pair if _WORD.search(phrase)]
    if not text.isascii():
        return quoted
    runs = [run.strip(_AROUND_CODE).rstrip(".(") for run in _RUN.findall(_QUOTED.sub(" ", text))]
    hump = _HUMP if len(runs) == 1 else _LOW_HUMP
    code = [run for run in runs if len(run) >= SHORTEST_CODE and (_CODE_MARK.search(run) or hump.search(run))]
    if sum(map(len, quoted + code)) < CODE_SHARE * len("".join(text.split())):
        code = []
    line = text.rstrip(_SENTENCE_ENDS)
    mark = _LINE_MARK if len(runs) > 1 else _RUN_MARK
    if 0 < len(runs) <= LONGEST_LINE and mark.search(line):
        code.append(line)
    return [*dict.fromkeys(quoted + code)]


def spelled_words(text: str) -> Iterator[re.Match[str]]:
    """Where a query has words that are Latin letters and nothing else, outside of quotes and of all that may be code.

    Neither names with humps nor what an apostrophe cuts off (`doesn't`) are among them.
    """
    open_text = _RUN.sub(_blank_code, _QUOTED.sub(_blank, text))
    for match in _WORD.finditer(open_text):
        run, start, end = match.group(), *match.span()
        plain = run.isascii() and run.isalpha() and len(_PART.findall(run)) == 1
        accented = any(map(unicodedata.combining, open_text[max(start - 1, 0) : start] + open_text[end : end + 1]))
        if plain and not accented and not _CUT_OFF.match(open_text, end):
            yield match


def stems(runs: Sequence[str]) -> list[str]:
    """The word that each run of small Latin letters gives."""
    found: list[str] = _STEMMER.stemWords(list(runs))
    return found


def holds_phrase(text: str, phrase: str) -> float:
    """How far a text holds the phrase as it stands: 1, or less in other case or within a longer word, or 0.

    Width and line breaks do not matter.
    """
    text, phrase = _one_line(text), _one_line(phrase)
    if phrase.lower() not in text.lower():
        return 0.0
    return 1.0 if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) else NEARLY_HELD


def marked_spans(text: str, terms: set[str]) -> list[tuple[int, int]]:
    """Where the text holds one of the terms, as merged spans in order; for marking matches in a preview.

    A single CJK character among the terms marks itself.
    """
    normalised, origin = _normalise_with_spans(text)
    merged: list[tuple[int, int]] = []
    for start, end in _term_spans(normalised, terms):
        first, last = origin[start][0], origin[end - 1][1]
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def is_cjk(text: str) -> bool:
    """Whether the text begins with a character of a script that is written without spaces."""
    return text != "" and bisect_right(_CJK_EDGES, ord(text[0])) % 2 == 1


def is_cjk_text(text: str) -> bool:
    """Whether a document is written in Japanese: one in twenty of its characters says so."""
    return len(re.findall(rf"[{_CJK}]", text)) * 20 >= len(text) > 0


def normalise(text: str) -> str:
    """One form for the many ways to type a character; case is kept."""
    text = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _LONG_VOWEL_AT_END.sub("", text)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _blank_code(match: re.Match[str]) -> str:
    return _blank(match) if _CODE_MARK.search(match.group().strip(_AROUND_CODE).rstrip(".(")) else match.group()


@cache
def _token_pattern() -> re.Pattern[str]:
    # It takes milliseconds to make, and most searches measure nothing.
    return re.compile(rf"[{_CJK}]|\d{{1,3}}|[^\W\d_{_CJK}]{{1,8}}|[^\w\s]|_+")


def _one_line(text: str) -> str:
    return " ".join(normalise(text).split())


_STEMMER = Stemmer.Stemmer("english")


class _Vocabulary(dict[str, tuple[str, ...]]):
    """Run of letters → its words, remembered: a text repeats its words far more often than it has new ones."""

    CAPACITY = 200_000

    def __missing__(self, run: str) -> tuple[str, ...]:
        if len(self) >= self.CAPACITY:
            self.clear()
        result = tuple(self._terms(run))
        if len(run) <= LONGEST_WORD:
            self[run] = result
        return result

    def _terms(self, run: str) -> Iterator[str]:
        if is_cjk(run):
            yield from (run[i : i + 2] for i in range(len(run) - 1))
            yield run[-1]
            return
        parts = _PART.findall(run)
        if len(parts) <= 1:
            yield _STEMMER.stemWord(run.lower().strip("_")[:LONGEST_WORD]) or run
            return
        yield run.lower()[:LONGEST_WORD]
        for part in parts[:LONGEST_WORD]:
            yield _STEMMER.stemWord(part.lower()[:LONGEST_WORD])


_VOCABULARY = _Vocabulary()
_STOP_STEMS = frozenset(_STEMMER.stemWords(sorted(STOP_WORDS)))


def _term_spans(text: str, terms: set[str]) -> Iterator[tuple[int, int]]:
    """Spans of the text, in order, whose words are among the terms."""
    for match in _WORD.finditer(text):
        run, start = match.group(), match.start()
        if not is_cjk(run):
            if not terms.isdisjoint(_VOCABULARY[run]):
                yield match.span()
            continue
        for i in range(len(run)):
            if run[i] in terms:
                yield start + i, start + i + 1
            if run[i : i + 2] in terms:
                yield start + i, min(start + i + 2, match.end())


def _normalise_with_spans(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text in one form, and for each of its characters the span that it came from."""
    letters: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _CLUSTER.finditer(text):
        for letter in unicodedata.normalize("NFKC", match.group()):
            letters.append(letter)
            spans.append(match.span())
    return "".join(letters), spans
