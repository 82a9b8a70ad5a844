"""Are the words that a passage is found by those of its texts, however many passages are counted together?"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annai.stores.bm25 import count_words
from annai.text import keywords
from annai.text.fields import FIELD_NAMES, Fields
from annai.text.keywords import MAX_COUNT, extract_all, extract_keywords
from annai.text.tokens import katakana_terms, words

PARTS = (
    *("server", "Servers", "getUserById", "snake_case_name", "__init__", "C++", "c#", "f# ", "a+b#c", "ﬁle", "naïve"),
    *("サーバー", "ｻｰﾊﾞｰ", "環境構築", "日", "日本。", "Ｃ＋＋", "한국어", "привет", "→", "🎉", "゠", "𠮷野家"),
    *("\ud800", "\0", " ", "\n", "、", "-", "_", "1234", "a" * 100, "x_" * 80, "漢" * 70),
)
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=12).map("".join)
PASSAGES = st.lists(st.builds(Fields, TEXTS, TEXTS, TEXTS, TEXTS), min_size=1, max_size=5)


def expected_counts(passage: Fields) -> dict[str, bytes]:
    """What `Keywords` are by definition: every word of every field, counted."""
    counts: dict[str, bytearray] = {}
    for field, name in enumerate(FIELD_NAMES):
        text = getattr(passage, name)
        for word, count in Counter([*words(text), *katakana_terms(text)]).items():
            counts.setdefault(word, bytearray(len(FIELD_NAMES)))[field] = min(count, MAX_COUNT)
    return {word: bytes(count) for word, count in counts.items()}


@settings(max_examples=200, deadline=None)
@given(PASSAGES)
def test_the_words_of_passages_are_those_of_their_texts(passages: list[Fields]) -> None:
    for passage, found in zip(passages, extract_all(passages), strict=True):
        assert count_words(found) == expected_counts(passage)
        assert found.length == sum(len(words(getattr(passage, name))) for name in FIELD_NAMES)
        assert found.distinct == sorted(count_words(found)) == extract_keywords(passage).distinct


def test_words_stay_the_same_when_what_is_known_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    passage = Fields("Title", "", "a/b", "server " * 300 + "サーバーの設定")
    before = count_words(extract_keywords(passage))
    monkeypatch.setattr(keywords, "MAX_KNOWN_WORDS", 1)
    monkeypatch.setattr(keywords, "MAX_PASSAGES", 2)
    assert [count_words(each) for each in extract_all([passage] * 5)] == [before] * 5
    assert before["server"][FIELD_NAMES.index("body")] == MAX_COUNT


def test_words_are_the_same_however_many_texts_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [
        Fields("表題", f"見出し{number}、→", "道", f"第{number}章、サーバー設定 café x{number}") for number in range(9)
    ]
    together = [*map(count_words, extract_all(passages))]
    monkeypatch.setattr(keywords, "GROUP_CHARACTERS", 10)
    assert [*map(count_words, extract_all(passages))] == together == [*map(expected_counts, passages)]


def test_no_word_is_made_of_marks() -> None:
    assert not words("".join(chr(code) for first, last in keywords.MARK_SPANS for code in range(first, last + 1)))
