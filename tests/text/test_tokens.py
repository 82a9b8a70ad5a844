"""Are words and tokens what a reader of Japanese and English would expect?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.text.positions import TokenPositions
from annai.text.tokens import (
    PARTIAL_PHRASE_SCORE,
    PHRASE_SCORE,
    STOP_WORD_WEIGHT,
    _token_pattern,
    count_tokens,
    exact_phrases,
    is_cjk_text,
    phrase_score,
    query_words,
    words,
)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("検索", "全文検索の仕組み"),
        ("再", "荷物の再配達"),
        ("再", "もう一度、再"),
        ("食べ", "昼を食べる"),
        ("ADR", "ＡＤＲを書く"),
        ("ｻｰﾊﾞ", "サーバーの設定"),
        ("サーバー", "サーバを起動"),
        ("データー", "データ"),
        ("user", "call getUserById()"),
        ("getuserbyid", "call getUserById()"),
        ("case", "a snake_case_name here"),
        ("http", "the HTTPServer class"),
        ("utf8", "UTF8 text"),
        ("utf 8", "UTF8 text"),
        ("C++", "modern C++ code"),
        ("C#", "and C# too"),
        (".NET", "the .NET runtime"),
        ("installing", "Installation of packages: install"),
        ("E0308", "error[E0308]: mismatched types"),
        ("Straße", "die Straße"),
        ("Привет", "привет, мир"),
        ("검색", "전문 검색"),
        ("→", "A → B"),
        ("🎉", "リリースしました🎉"),
        ("👍", "👍🏽 looks good"),
        ("❤️", "with ❤ from"),
        ("🇯🇵", "made in 🇯🇵"),
        ("※", "※注意"),
        ("€", "costs 5€ or ￥500"),
        ("￥", "costs 5€ or ¥500"),
    ],
)
def test_a_query_and_a_text_that_mean_the_same_share_a_word(query: str, text: str) -> None:
    asked = query_words(query)
    assert asked
    indexed = words(text)
    for word in asked:
        assert word in indexed or any(len(word) == 1 and each.startswith(word) for each in indexed), (asked, indexed)


def test_parts_of_a_name_do_not_hide_the_whole() -> None:
    assert words("parseHTTPResponse2") == ["parsehttpresponse2", "pars", "http", "respons", "2"]


def test_a_natural_phrase_is_not_one_word() -> None:
    shared = set(query_words("ポッドのスケジューリング")) & set(words("スケジューラがポッドを置く"))
    assert {"ポッ", "ッド", "スケ", "ケジ", "ジュ"} <= shared


def test_symbols_are_words_that_weigh_little_and_drawings_are_none() -> None:
    assert query_words("A → B 🎉") == {"a": STOP_WORD_WEIGHT, "→": STOP_WORD_WEIGHT, "b": 1, "🎉": STOP_WORD_WEIGHT}
    assert words("├── docs │ ████░░ ⠙ — … “x”") == ["doc", "x"]


def test_stop_words_weigh_little() -> None:
    weights = query_words("how do I restore the backup する方法")
    assert weights["the"] == weights["how"] == weights["する"] == STOP_WORD_WEIGHT
    assert weights["restor"] == weights["backup"] == 1


def test_the_words_of_asking_weigh_little() -> None:
    weights = query_words("画像を最適化する方法を教えて")
    assert weights["方法"] == weights["教え"] == STOP_WORD_WEIGHT
    assert weights["画像"] == weights["最適"] == 1
    assert query_words("please explain the difference between pods")["pod"] == 1
    assert query_words("please explain the difference between pods")["explain"] == STOP_WORD_WEIGHT


@given(st.text())
def test_any_text_has_words_and_tokens(text: str) -> None:
    found = words(text)
    assert all(word and not any(character.isspace() for character in word) for word in found)
    assert set(query_words(text)) <= set(found)
    positions = TokenPositions(text)
    assert len(positions) == count_tokens(text) == positions.count(0, len(text))


MIXED = st.lists(
    st.sampled_from(["a", "Zé", "あ漢", "123", "٣", "_", "__", ".", "。", " ", "\n", "\u2028", "Ⅷ", "\U0002f800"])
).map("".join)


@given(MIXED | st.text() | st.text("ab1_", max_size=40))
def test_the_positions_of_tokens_are_those_of_their_pattern(text: str) -> None:
    positions = TokenPositions(text)
    spans = [match.span() for match in _token_pattern().finditer(text)]
    assert [*zip(positions.starts, positions.ends, strict=True)] == spans


@given(st.text(), st.integers(0, 50))
def test_the_tokens_of_two_parts_are_those_of_the_whole(text: str, cut: int) -> None:
    positions = TokenPositions(text)
    assert positions.count(0, cut) + positions.count(cut, len(text)) == len(positions) or cut > len(text)


def test_tokens_are_about_what_language_models_count() -> None:
    assert count_tokens("The quick brown fox jumps over the lazy dog.") == 10
    assert count_tokens("環境構築の方法") == 7
    assert count_tokens("") == 0


def test_a_text_with_some_japanese_is_cjk() -> None:
    assert is_cjk_text("Kubernetes の Pod を理解する")
    assert not is_cjk_text("Kubernetes pods, explained to people (解説)" * 3)
    assert not is_cjk_text("")


@pytest.mark.parametrize(
    ("query", "phrases"),
    [
        ('what does "context deadline exceeded" mean', ["context deadline exceeded"]),
        ("`--dry-run` は何をする", ["--dry-run"]),
        ("getUserById", ["getUserById"]),
        ("kubectl drain --force", ["kubectl drain --force"]),
        ("type: Available", ["type: Available"]),
        ("aria-label", ["aria-label"]),
        ("{ ...form }", ["...form", "{ ...form }"]),
        ('the "why" of web performance', []),
        ('"this" とは何か', ["this"]),
        ("the `for` statement", ["for"]),
        ("deployment?", []),
        ("how do I roll back a bad deployment?", []),
        ("OpenTelemetry の設定", []),
        ("is the real-time mode on", []),
    ],
)
def test_code_and_quotes_are_exact_phrases(query: str, phrases: list[str]) -> None:
    assert exact_phrases(query) == phrases


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("set log_dir\nfirst", PHRASE_SCORE),
        ("set LOG_DIR", PARTIAL_PHRASE_SCORE),
        ("set log_dirs", PARTIAL_PHRASE_SCORE),
        ("ｌｏｇ＿ｄｉｒ", PHRASE_SCORE),
        ("the dir of the log", 0.0),
    ],
)
def test_a_phrase_scores_less_in_other_case_or_inside_a_longer_word(text: str, score: float) -> None:
    assert phrase_score(text, "log_dir") == score
    assert phrase_score(text.replace("first", ""), " log_dir ") == score


@pytest.mark.parametrize(
    ("heading", "score"),
    [
        ("ref()", 1.0),
        ("`ref(value)` {#ref}", 1.0),
        ("ref {/*ref*/}", 1.0),
        ("toRef()", PHRASE_SCORE),
        ("Typing ref()", PHRASE_SCORE),
        ("", PHRASE_SCORE),
    ],
)
def test_a_phrase_scores_most_in_the_section_that_it_names(heading: str, score: float) -> None:
    assert phrase_score("As ref() does, and toRef().", "ref()", heading) == score
