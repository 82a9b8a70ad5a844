"""How would a question be worded in the other language? Its words by what the bundled model has beside them.

A document in another script than the question's holds few of its words, so that a search by words does not find it.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from annai.embedders.static import token_model, vector_lengths
from annai.embedders.subwords import WORD_START
from annai.text.tokens import (
    KATAKANA_WORD,
    is_cjk,
    katakana_term,
    normalise,
    query_words,
    word_runs,
    word_weight,
    words,
)


def translate_words(text: str, *, is_cjk_text: bool) -> dict[str, float]:
    """The words, with weights, by which documents in the other script are searched for what a text in this one asks.

    A word that is in that script already, such as a name in a Japanese sentence, stands for itself, and so does a name
    in Latin letters that has no translation. Words that say little are left out: in another language they have no
    counterpart.
    """
    found: dict[str, float] = {}
    for run in word_runs(normalise(text)):
        translated = {} if is_cjk(run) != is_cjk_text else _translated(run)
        if not translated and not is_cjk(run):
            translated = {word: weight for word, weight in query_words(run).items() if weight == 1}
        for word, weight in translated.items():
            found[word] = max(weight, found.get(word, 0.0))
    return found


@lru_cache(maxsize=1024)  # people ask about the same things again
def _translated(run: str) -> Mapping[str, float]:
    """The translations of a run of letters; those of one token share its weight, the length of its vector."""
    model = token_model()
    tokens = [token for token in dict.fromkeys(model.token_ids(run).tolist()) if not _says_little(model.piece(token))]
    found: dict[str, float] = {}
    for token, length in zip(tokens, vector_lengths(model.token_vectors(np.array(tokens, np.int64))), strict=True):
        terms = sorted({term for piece in model.translations(token) for term in _terms(piece.removeprefix(WORD_START))})
        found |= {term: max(float(length) / len(terms), found.get(term, 0.0)) for term in terms}
    return found


def _terms(word: str) -> Iterator[str]:
    """What a word is searched for by: a katakana word whole, and no single character, which would begin others."""
    if KATAKANA_WORD.fullmatch(word):
        yield katakana_term(word)
    else:
        yield from (term for term in query_words(word) if len(term) > 1)


def _says_little(piece: str) -> bool:
    return all(word_weight(word) < 1 for word in words(piece))
