"""What is marked of a text for a question?"""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.interfaces import terminal
from annai.text.escapes import cells, wrap
from annai.text.matches import asked, matching_spans


def marked(text: str, question: str) -> list[str]:
    return [text[start:end] for start, end in matching_spans(text, asked(question))]


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("adr サーバ install", "ＡＤＲ and ｻｰﾊﾞｰ, installing", ["ＡＤＲ", "ｻｰﾊﾞｰ", "installing"]),
        ("how to install the package", "How the package installs", ["package", "installs"]),
        ("user id", "getUserById and user_name, not abuser", ["getUserById", "user_name"]),
        ("コンテナの設定", "コンテナを起動し、設定ファイルでコンテンツを選ぶ", ["コンテナ", "設定"]),
        ("サーバーの起動", "サーバーサイドとサーバを起動する", ["サーバー", "サーバ", "起動"]),
        ("画像を最適化する方法", "画像の最適化とは、自動化した方法を使う", ["画像", "最適化", "方法"]),
        ("値を返す", "価値のある値を返した", ["値を返"]),
        ("犬", "犬と番犬", ["犬"]),
        ("どうやって", "どうやって使うのか", ["どうやって"]),
        ("→ の使い方", "a → b の使い方", ["使い方"]),
    ],
)
def test_whole_words_and_the_longest_shared_runs_are_marked(question: str, text: str, expected: list[str]) -> None:
    assert marked(text, question) == expected


@given(st.text(), st.text())
def test_spans_are_in_order_and_inside_of_the_text(text: str, question: str) -> None:
    end = 0
    for start, stop in matching_spans(text, asked(question)):
        assert end <= start < stop <= len(text)
        end = stop


@given(st.text(alphabet="ab 日本、。語か\u3099e\u0301", max_size=60), st.integers(2, 12))
def test_wrapping_loses_only_spaces_and_takes_no_mark_from_its_character(text: str, width: int) -> None:
    spans = wrap(text, width)
    assert all(not unicodedata.combining(text[start]) for start, _ in spans if start and text[start - 1] != " ")
    assert all(cells(text[start:end]) <= width for start, end in spans)
    kept = "".join(text[start:end] for start, end in spans)
    assert kept.replace(" ", "") == text.replace(" ", "")


def test_a_line_breaks_at_spaces_and_between_japanese_characters() -> None:
    def lines(text: str, width: int) -> list[str]:
        return [text[start:end] for start, end in wrap(text, width)]

    assert lines("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert lines("日本語の文章", 5) == ["日本", "語の", "文章"]
    assert lines("日本語Kubernetes", 12) == ["日本語", "Kubernetes"]
    # As a Mac's files have them: a mark takes no room, and stays.
    assert lines(_nfd("ガギグゲゴ。"), 4) == [*map(_nfd, ("ガギ", "グゲ", "ゴ。"))]
    assert lines(_nfd("ガギグ。"), 6) == [*map(_nfd, ("ガギ", "グ。"))]
    assert lines(_nfd("les cafés brûlés"), 10) == [*map(_nfd, ("les cafés", "brûlés"))]
    assert cells(_nfd("ガé")) == terminal.cells(_nfd("\x1b[31mガé\x1b[0m")) == 3
    assert lines("incomprehensible", 6) == ["incomp", "rehens", "ible"]


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)
