"""Is a question worded in the other language? With the bundled model."""

import pytest

from annai.asking.translation import translate_words
from annai.text.tokens import katakana_term, query_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("クラスター管理者", "cluster"),
        ("休暇", "vacation"),
        ("毎晩のバックアップ", "backup"),
        ("サンプル設定", "sample"),
        ("サンプリング", "sampling"),
    ],
)
def test_a_japanese_question_is_searched_for_by_english_words(text: str, words: str) -> None:
    assert query_words(words).keys() <= translate_words(text, is_cjk_text=True).keys()


def test_an_english_question_is_searched_for_by_japanese_words() -> None:
    found = translate_words("authentication service", is_cjk_text=False)
    assert found.keys() == {"認証", katakana_term("サービス")}


def test_names_in_latin_letters_stand_for_themselves_in_both_languages() -> None:
    assert translate_words("kubectl は実行されているか", is_cjk_text=True)["kubectl"] == 1
    assert "kubectl" in translate_words("how does kubectl work", is_cjk_text=False)


@pytest.mark.parametrize(
    ("text", "is_cjk_text"), [("このように、それはどうですか", True), ("how is it", False), ("", True)]
)
def test_words_that_say_little_are_left_out(text: str, is_cjk_text: bool) -> None:
    assert translate_words(text, is_cjk_text=is_cjk_text) == {}


def test_the_translations_of_a_word_count_no_more_than_one_word() -> None:
    several, one = (translate_words(text, is_cjk_text=True) for text in ("休暇", "認証"))
    assert len(several) > 1
    assert sum(several.values()) < 2 * sum(one.values())
