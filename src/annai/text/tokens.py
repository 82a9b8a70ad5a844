"""What are the units of a text? Tokens to measure it, words to find it by keywords; CJK included."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain

import Stemmer

from annai.definitions import lazy_pattern

# Kanji, kana, their iteration and length marks, and Hangul: scripts without (reliable) spaces between words.
CJK_SPANS = (
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
_CJK = "".join(f"{chr(first)}-{chr(last)}" for first, last in CJK_SPANS)
_CJK_EDGES = [edge for first, last in CJK_SPANS for edge in (first, last + 1)]
_KATAKANA = r"\u30a1-\u30fa"

# What people write for its meaning: currencies, arrows, signs, emoji. Not what they draw with (lines, blocks, Braille).
_SYMBOLS = (
    "\u00a2-\u00a7\u00a9\u00ac\u00ae\u00b0\u00b1\u00b6\u00d7\u00f7\u2020\u2021\u203b\u20a0-\u20bf\u2190-\u24ff\u25a0-\u27ff"
    "\u2900-\u2bff\u3012\u3013\u3020\u3036\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
)

KATAKANA_WORD = lazy_pattern(rf"[{_KATAKANA}][{_KATAKANA}ー]{{2,}}")
"""A word in katakana, long enough to be recognised by itself."""

KATAKANA_MARK = "\u30a0"
"""What the term of a whole katakana word begins with, so that it differs from all pairs of characters."""

_WORD = lazy_pattern(rf"[{_CJK}]+|[cCfF]#|[cC]\+\+|[^\W{_CJK}]+|[{_SYMBOLS}]")
_ASCII_WORD = re.compile(r"[cCfF]#|[cC]\+\+|\w+", re.ASCII)
# Whole: `translate` raises and catches an error for each character that a table lacks.
_ASCII_RUNS = {code: chr(code) if chr(code).isalnum() or chr(code) in "_+#" else " " for code in range(128)}
_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]+")
_FINAL_LONG_VOWEL = lazy_pattern(rf"ー(?<=[{_KATAKANA}ー]{{2}}ー)(?![{_KATAKANA}ー])")
_QUOTED = lazy_pattern(r'["“”]([^"“”]+)["“”]|`([^`]+)`')
_RUN = lazy_pattern(r"[!-~]+")
_SENTENCE_PUNCTUATION = ",;:!?\"'`*"
_CAMEL_CASE, _LOWER_CAMEL_CASE = lazy_pattern(r"[a-z][A-Z]"), lazy_pattern(r"\A[a-z]+[A-Z]")
_CODE_MARK = lazy_pattern(r"[_=<>{}\[\]$@\\|^#]|\(\)|::|\A--\w|\A[./]+\w|[A-Za-z0-9]\.[A-Za-z0-9_]|\w:\w|/.*/")
_LINE_MARK = lazy_pattern(r"[=<>{}\[\]()$@\\|^#/*+&%~_;]|:(?=\s)|\s--?[A-Za-z]")
_RUN_MARK = lazy_pattern(r"[^\w\s]|\d")
_NAME = lazy_pattern(
    r"(?<![\w./:@#$%&=<>{}\[\]\\|^~+*\-])[A-Za-z][A-Za-z_]+(?![\w/:@=<>{}\[\]\\|^~+*\-]|\.\w)", re.ASCII
)
_SENTENCE_ENDS = "?!.,; "
_HEADING_ID, _ARGUMENTS = lazy_pattern(r"\s*\{[#/][^{}]*\}\Z"), lazy_pattern(r"(?<=\w)\([^()]*\)\Z")
_CONTRACTION = lazy_pattern(r"['’]t\b")
_SYMBOL = lazy_pattern(f"[{_SYMBOLS}]")
_ASKING = lazy_pattern(
    "教えて|って何|とは何か?|何ですか|方法|やり方|仕方|explain|please|tell me about|difference between"
)
_HIRAGANA_ONLY = lazy_pattern(r"[\u3041-\u309fー]+\Z")

MAX_WORD_CHARACTERS = 64
"""Longer runs of letters are data (hashes, base64), not words: only their beginning counts."""

MAX_TOKEN_LETTERS, MAX_TOKEN_DIGITS = 8, 3
"""How many letters, and how many digits, one token has at most."""

MIN_CODE_SHARE = 0.4
"""A query is code if at least this share of its characters is."""

MAX_CODE_RUNS = 4
"""A query with more runs (parts between spaces) is not code as a whole."""

MIN_CODE_CHARACTERS = 4
"""Shorter runs such as `e.g` and `a/b` are prose."""

PHRASE_SCORE, PARTIAL_PHRASE_SCORE = 0.75, 0.5
"""The score of a phrase that a text has as it is, and in other case or inside a longer word (`log_dir` in `log_dirs`);
1 is for the section that has it as its heading."""

STOP_WORD_WEIGHT = 0.3
"""The weight of a word that says little (`the`, `する`) in a query; other words have 1."""

STOP_WORDS = frozenset(
    "a an and any are as at be been but by can did do does for from had has have how i if in into is it its me my "
    "no not of on or our shall should so such that the their them then there these they this to us was we were "
    "what when where which who whom why will with would you your".split()
)


def count_tokens(text: str) -> int:
    """How many tokens the text has.

    A token is a CJK character, a punctuation mark, up to eight letters of a word or up to three digits: close to what
    language models count, without a table to load.
    """
    return len(_token_pattern().findall(text))


def words(text: str) -> list[str]:
    """The words to index, in the order of the text.

    Width and case do not matter (NFKC, lower case). English words are stemmed; a name such as `getUserById` or
    `snake_case` gives itself and its parts. A CJK run gives its overlapping pairs of characters and its last
    character, so that every single character begins a word. A long vowel mark at the end of a katakana word is
    dropped, so that サーバー and サーバ are the same word. A symbol such as → or 🎉 is a word.
    """
    return list(chain.from_iterable(map(_WORD_CACHE.__getitem__, word_runs(normalise(text)))))


def word_runs(text: str) -> list[str]:
    """The runs of a normalised text that `words` makes words of, in the order of the text."""
    return _word_pattern(text).findall(text)


@lru_cache(maxsize=1)  # a text's words and its subwords are made one after the other
def ascii_runs(text: str) -> list[str]:
    """The parts of an ASCII text that words and subwords are in, in its order: several times as fast as a pattern."""
    return text.translate(_ASCII_RUNS).split()


def words_of_run(run: str) -> list[str]:
    """The words of a part of a normalised text that ends where runs end; looked up anew each time."""
    if run.isascii() and run.isalpha() and run[1:].islower():
        return [_STEMMER.stemWord(run.lower()[:MAX_WORD_CHARACTERS])]
    return [word for each in word_runs(run) for word in _terms(each)]


@lru_cache(maxsize=64)  # every step of a search asks for those of its question
def query_words(text: str) -> Mapping[str, float]:
    """The distinct words of a query with their weights, in the order of the query.

    As `words`, except that a CJK run of more than one character gives only its pairs. A word of one CJK character
    stands for every word that begins with it.
    """
    found: dict[str, float] = {}
    text = normalise(text)
    asking = {word for phrase in _ASKING.findall(text) for word in words(phrase)}
    for run in word_runs(text):
        terms = _WORD_CACHE[run]
        if len(terms) > 1 and is_cjk(run):
            terms = terms[:-1]
        for term in terms:
            found.setdefault(term, STOP_WORD_WEIGHT if term in asking else word_weight(term))
    return found


def word_weight(word: str) -> float:
    """How much a word counts: 1, or `STOP_WORD_WEIGHT` for English stop words, words all in hiragana and symbols."""
    is_in_kana_or_sign = not word.isascii() and (_HIRAGANA_ONLY.match(word) or _SYMBOL.match(word))
    return STOP_WORD_WEIGHT if is_in_kana_or_sign or word in _STOP_STEMS else 1.0


def exact_phrases(text: str) -> list[str]:
    """The parts of a query to find literally: text in double quotes or backticks, and code.

    Code is a run without spaces that has characters unlike prose (`--dry-run`, `a.b()`, `snake_case`) or camel case
    (`getUserById`; `OpenTelemetry` only if it is the whole query). It counts only if it is a good part of an ASCII
    query: a name in a sentence is one word among others. A short query with such characters also counts as a whole
    (`type: Available`; `aria-label` alone). Quotes around nothing but stop words are no wish to find these, unless the
    query says nothing else: the "why" of a thing is about the thing.
    """
    text = normalise(text).strip()
    others = query_words(_QUOTED.sub(" ", text))
    quoted = [
        phrase
        for in_quotes, in_backticks in _QUOTED.findall(text)
        if word_runs(phrase := in_quotes or in_backticks)
        and (in_backticks or 1 not in others.values() or 1 in query_words(phrase).values())
    ]
    if not text.isascii():
        return quoted
    runs = [_strip_punctuation(run) for run in _RUN.findall(_QUOTED.sub(" ", text))]
    camel_case = _CAMEL_CASE if len(runs) == 1 else _LOWER_CAMEL_CASE
    code = [
        run for run in runs if len(run) >= MIN_CODE_CHARACTERS and (_CODE_MARK.search(run) or camel_case.search(run))
    ]
    if sum(map(len, quoted + code)) < MIN_CODE_SHARE * len("".join(text.split())):
        code = []
    line = text.rstrip(_SENTENCE_ENDS)
    mark = _LINE_MARK if len(runs) > 1 else _RUN_MARK
    if 0 < len(runs) <= MAX_CODE_RUNS and mark.search(line):
        code.append(line)
    return [*dict.fromkeys(quoted + code)]


def spelled_words(text: str) -> list[re.Match[str]]:
    """The words of a query whose spelling can be judged, in their order, none in quotes.

    These are words of ASCII letters that are not part of code, names such as `useState` and `log_dir` that stand by
    themselves, and runs of katakana. Contractions (`doesn't`) are not among them.
    """
    prose = unquoted(text)
    names = (match for match in _NAME.finditer(prose) if len(_PART.findall(match.group())) > 1)
    found = [*_plain_words(prose), *names, *KATAKANA_WORD.finditer(prose)]
    return sorted(found, key=lambda match: match.start())


def unquoted(text: str) -> str:
    """A query with spaces in place of what is in double quotes or backticks; all else stays in its place."""
    return _QUOTED.sub(_blank, text)


def katakana_term(word: str) -> str:
    """The term under which a katakana word is indexed whole, besides its pairs; no text has such a term itself."""
    return KATAKANA_MARK + normalise(word)


def katakana_terms(text: str) -> list[str]:
    """The terms of the katakana words of a text, by which one sees whether a word is known."""
    if text.isascii():
        return []
    return [KATAKANA_MARK + word for word in KATAKANA_WORD.findall(normalise(text))]


def _plain_words(text: str) -> Iterator[re.Match[str]]:
    """The words of ASCII letters that have no parts, outside of anything that may be code."""
    prose = _RUN.sub(_blank_code, text)
    for match in runs(prose):
        run, start, end = match.group(), *match.span()
        is_plain = run.isascii() and run.isalpha() and len(_PART.findall(run)) == 1
        is_accented = any(map(unicodedata.combining, prose[max(start - 1, 0) : start] + prose[end : end + 1]))
        if is_plain and not is_accented and not _CONTRACTION.match(prose, end):
            yield match


def stems(runs: Sequence[str]) -> list[str]:
    """The word that each run of lower-case Latin letters gives."""
    found: list[str] = _STEMMER.stemWords(list(runs))
    return found


def phrase_score(text: str, phrase: str, heading: str = "") -> float:
    """How exactly a section contains a phrase: 1 as its heading, less in its text, or 0.

    Width and line breaks do not matter, nor do the arguments and the mark-up of a heading: `ref()` is what
    "`ref(value)` {#ref}" is about, and what "toRef()" only mentions.
    """
    text, phrase = _one_line(text), _one_line(phrase)
    if phrase.lower() not in text.lower():
        return 0.0
    if _name(heading) == _name(phrase):
        return 1.0
    return PHRASE_SCORE if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) else PARTIAL_PHRASE_SCORE


def runs(text: str) -> Iterator[re.Match[str]]:
    """The runs of a normalised text that `words` makes words of."""
    return _word_pattern(text).finditer(text)


def is_cjk(text: str) -> bool:
    """Whether the text begins with a character of a script that has no (reliable) spaces between words."""
    return text != "" and bisect_right(_CJK_EDGES, ord(text[0])) % 2 == 1


def is_cjk_text(text: str) -> bool:
    """Whether a text is written in Japanese, Chinese or Korean: at least one in twenty of its characters is CJK."""
    size = len(text)
    # Each CJK character takes at least two bytes more than one: most other texts need no pattern.
    if text.isascii() or (len(text.encode("utf-8", "surrogatepass")) - size) * 10 < size:
        return False
    # The first quarter of a text that is has enough of them for all of it.
    parts = (text[: size // 4], text)
    return any((len(part) - len(re.sub(rf"[{_CJK}]+", "", part))) * 20 >= size for part in parts)


def normalise(text: str) -> str:
    """One form (NFKC) for the many ways to type a character, without final long vowel marks; case stays."""
    return text if text.isascii() else _FINAL_LONG_VOWEL.sub("", nfkc(text))


@lru_cache(maxsize=1)  # as above
def nfkc(text: str) -> str:
    """One form for the many ways to type a character."""
    return unicodedata.normalize("NFKC", text)


def _strip_punctuation(run: str) -> str:
    """A run without the punctuation that a sentence puts around code."""
    return run.strip(_SENTENCE_PUNCTUATION).rstrip(".(")


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _blank_code(match: re.Match[str]) -> str:
    return _blank(match) if _CODE_MARK.search(_strip_punctuation(match.group())) else match.group()


@cache
def _token_pattern() -> re.Pattern[str]:
    # Compiling it takes milliseconds, and most searches measure nothing.
    return re.compile(rf"[{_CJK}]|\d{{1,{MAX_TOKEN_DIGITS}}}|[^\W\d_{_CJK}]{{1,{MAX_TOKEN_LETTERS}}}|[^\w\s]|_+")


def _word_pattern(text: str) -> re.Pattern[str]:
    """What finds the runs of a text; in ASCII the same as in others, by a pattern that is compiled in no time."""
    return _ASCII_WORD if text.isascii() else _WORD


def _name(heading: str) -> str:
    """What a heading or a phrase names, without mark-up, an id at its end and the arguments of a call."""
    return _ARGUMENTS.sub("", _HEADING_ID.sub("", _one_line(heading)).strip("`*# "))


def _one_line(text: str) -> str:
    return " ".join(normalise(text).split())


_STEMMER = Stemmer.Stemmer("english")


class _WordCache(dict[str, tuple[str, ...]]):
    """Run of letters → its words: a text repeats its words far more often than it has new ones."""

    CAPACITY = 200_000

    def __missing__(self, run: str) -> tuple[str, ...]:
        if len(self) >= self.CAPACITY:
            self.clear()
        result = tuple(_terms(run))
        if len(run) <= MAX_WORD_CHARACTERS:
            self[run] = result
        return result


def _terms(run: str) -> Iterator[str]:
    if not run.isascii() and is_cjk(run):
        yield from (run[i : i + 2] for i in range(len(run) - 1))
        yield run[-1]
        return
    parts = _PART.findall(run)
    if len(parts) <= 1:
        yield _STEMMER.stemWord(run.lower().strip("_")[:MAX_WORD_CHARACTERS]) or run
        return
    yield run.lower()[:MAX_WORD_CHARACTERS]
    for part in parts[:MAX_WORD_CHARACTERS]:
        yield _STEMMER.stemWord(part.lower()[:MAX_WORD_CHARACTERS])


_WORD_CACHE = _WordCache()
_STOP_STEMS = frozenset(_STEMMER.stemWords(sorted(STOP_WORDS)))
