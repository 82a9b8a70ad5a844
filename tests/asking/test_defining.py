"""Is it seen what a question wants explained, and where a text explains it?"""

import pytest

from annai.asking.defining import asks_for, defined_term, defining_pattern


@pytest.mark.parametrize(
    ("question", "term"),
    [
        ("what is raylet", "raylet"),
        ("What is Ray used for?", "Ray"),
        ("what are admission webhooks?", "admission webhooks"),
        ("What's the head node?", "head node"),
        ("what does GCS stand for", "GCS"),
        ("define object store", "object store"),
        ("the meaning of life", None),
        ("meaning of taint", "taint"),
        ("ポッドとは", "ポッド"),
        ("Auto SDK とは何ですか？", "Auto SDK"),
        ("サイドカーって何", "サイドカー"),
        ("冪等の意味", "冪等"),
    ],
)
def test_a_question_for_a_definition_names_its_term(question: str, term: str | None) -> None:
    assert defined_term(question) == term


@pytest.mark.parametrize(
    "question",
    [
        "how to configure a raylet",
        "what is the difference between id and class?",
        "what is the best way to interact with a database?",
        "日本に反対があった伝統とは",
        "送料",
        "",
    ],
)
def test_other_questions_want_no_definition(question: str) -> None:
    assert defined_term(question) is None


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("raylet", ".. glossary::\n\n    Raylet\n        A system process.\n"),
        ("raylet", "Raylet\n: A system process.\n"),
        ("raylet", "- **Raylet**: a system process\n"),
        ("raylet", "Raylet — a system process\n"),
        ("raylet", "Some words. A raylet is a system process."),
        ("pod", "*Pods* are the smallest units."),
        ("CRD", "CRD (Custom Resource Definition) means a kind of your own."),
        ("head node", "The head\nnode is the one that starts."),
        ("ポッド", "ポッドとは、最小の単位です。"),
        ("ポッド", "「ポッド」は、いちばん小さい単位である。"),
    ],
)
def test_a_text_that_says_what_it_is_is_found(term: str, text: str) -> None:
    assert defining_pattern(term).search(text)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("raylet", "Restart the raylet. It is a process."),
        ("raylet", "The raylet is running on each node."),
        ("ray", "    ray::Actor.method\n"),
        ("ポッド", "ポッドを消す。これは元に戻せない。"),
    ],
)
def test_a_text_that_only_mentions_it_is_not(term: str, text: str) -> None:
    assert not defining_pattern(term).search(text)


def test_a_heading_may_ask_the_same_question() -> None:
    assert asks_for("javascript", "JavaScript とは？")
    assert asks_for("Ray", "What is Ray?")
    assert not asks_for("Ray", "What is Ray Core?")
    assert not asks_for("Ray", "Ray")


@pytest.mark.parametrize("text", ["(" * 50_000, "a\n" * 50_000, "raylet (" * 20_000, "raylet " * 50_000, "は" * 50_000])
def test_a_long_text_without_a_definition_takes_no_time_to_speak_of(text: str) -> None:
    assert not defining_pattern("raylet").search(text)
