"""How close is a passage to a question, token by token? The packed tokens, and what they tell, with the real model."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.embedders.packing import MAX_BODY_TOKENS, pack_tokens
from annai.embedders.static import StaticEmbedder, vector_lengths
from annai.searching.closeness import Closeness, QuestionTokens, closeness
from annai.text.fields import Fields

EMBEDDER = StaticEmbedder(32)


def passage(body: str, title: str = "", headings: str = "", path: str = "") -> Fields:
    return Fields(title=title, headings=headings, path=path, body=body)


def compared(query: str, passages: Sequence[Fields]) -> Closeness:
    found = closeness(EMBEDDER, query, pack_tokens(EMBEDDER, passages))
    assert found is not None
    return found


@given(st.lists(st.tuples(st.text(), st.text(), st.text(), st.text()), min_size=1, max_size=4), st.text())
def test_any_text_gives_shares(texts: list[tuple[str, str, str, str]], query: str) -> None:
    found = closeness(EMBEDDER, query, pack_tokens(EMBEDDER, [Fields(*each) for each in texts]))
    if found is not None:
        for numbers in (found.passage, found.window, found.title):
            assert numbers.shape == (len(texts),)
            assert (numbers >= 0).all()
            assert (numbers <= 1.001).all()
        assert (found.window <= found.passage + 1e-5).all()


def test_tokens_are_compared_alike_whatever_was_compared_before() -> None:
    texts = ["an oven", "bread from the oven, and bread", "an oven and a table"]
    every = EMBEDDER.token_ids(" ".join(texts))
    alone, _ = EMBEDDER.token_cosines(every, QuestionTokens(EMBEDDER, "baking bread").directions)
    asked = QuestionTokens(EMBEDDER, "baking bread")
    for text in texts:
        asked.compare(EMBEDDER.token_ids(text))
    rows, cosines, lengths = asked.compare(every)
    assert cosines[rows] == pytest.approx(alone, abs=1e-6)
    assert lengths[rows] == pytest.approx(vector_lengths(EMBEDDER.token_vectors(every)), rel=1e-5)


def test_the_passage_that_has_the_question_is_closest() -> None:
    found = compared(
        "renew a certificate",
        [passage("Bread is baked in an oven."), passage("To renew a certificate, run the command."), passage("")],
    )
    assert found.passage.argmax() == 1
    assert found.passage[1] > 0.99
    assert found.passage[2] == 0


def test_other_words_of_the_same_meaning_and_the_other_language_are_near() -> None:
    found = compared("証明書の更新", [passage("Bread is baked in an oven."), passage("Renewing certificates.")])
    assert found.passage[1] > found.passage[0]


def test_words_that_stand_together_are_closer_than_words_apart() -> None:
    filler = " apples and pears" * 60
    found = compared(
        "rotate database password",
        [
            passage(f"rotate {filler} database {filler} password"),
            passage(f"{filler} rotate database password {filler}"),
        ],
    )
    assert found.window[1] > found.window[0]
    assert found.passage[0] == pytest.approx(found.passage[1], abs=1e-5)


def test_what_every_passage_holds_counts_less() -> None:
    found = compared(
        "kubernetes volumes",
        [passage("kubernetes pods"), passage("kubernetes volumes"), passage("kubernetes nodes"), passage("volumes")],
    )
    assert found.passage[3] > found.passage[0]


def test_words_that_say_little_do_not_count_for_being_rare_here() -> None:
    bodies = (
        "Volumes keep data.",
        "How does bread rise?",
        "A volume is a folder.",
        "Volumes are deleted.",
        "Many volumes.",
    )
    found = compared("how does a volume work", [*map(passage, bodies), passage("Work on volumes.")])
    assert found.passage[0] > found.passage[1]
    assert found.window[0] > found.window[1]


def test_a_title_that_the_question_names_is_covered() -> None:
    found = compared("install on windows", [passage("x", title="Install on Windows"), passage("x", title="Taxes")])
    assert found.title[0] == pytest.approx(1, abs=1e-3)
    assert found.title[1] < 0.6


def test_title_headings_and_path_belong_to_the_passage() -> None:
    body = "Nothing of that."
    found = compared(
        "grafana",
        [
            passage(body),
            passage(body, title="Grafana"),
            passage(body, headings="Grafana"),
            passage(body, path="a/grafana"),
        ],
    )
    assert (found.passage[1:] > found.passage[0]).all()


def test_a_page_of_front_matter_alone_is_empty() -> None:
    found = compared("network policies", [passage("", title="Network policies", path="policies"), passage("Network.")])
    assert found.is_empty.tolist() == [True, False]


def test_a_question_or_passages_without_tokens_are_no_error() -> None:
    assert closeness(EMBEDDER, "!?", pack_tokens(EMBEDDER, [passage("text")])) is None
    assert closeness(EMBEDDER, "text", pack_tokens(EMBEDDER, [passage("")])) is None


def test_what_is_kept_of_an_endless_passage_is_bounded() -> None:
    (packed,) = pack_tokens(EMBEDDER, [passage("word " * 100_000)])
    assert len(packed) <= 2 * (MAX_BODY_TOKENS + 2)
    compared("word " * 2000, [passage("word")])
