"""Does the score say how likely a result answers? In words too, for short questions, in every mode."""

from collections.abc import Iterator
from shutil import copytree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.answers import ANSWERS, MAY_ANSWER, Answer, Mode, verdict_of
from annai.config import load_config
from annai.engine import Engine
from annai.searching.closeness import Closeness
from annai.searching.confidence import MIN_GATE, Evidence, gate, likelihood, score
from annai.searching.fusion import fuse
from tests.conftest import EXAMPLES

shares = st.floats(0, 1)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The examples: a small collection in two languages."""
    folder = tmp_path_factory.mktemp("examples") / "examples"
    copytree(EXAMPLES, folder)
    config = load_config(docs_dir=folder)
    with Engine(config) as engine:
        engine.refresh()
        yield engine


def evidence(scores: list[float], coverage: float = 0.9, tokens: int = 8) -> Evidence:
    """Documents with these scores that are alike otherwise."""
    alike = np.full(len(scores), coverage, np.float32)
    nothing = np.zeros(len(scores))
    close = Closeness(alike, alike, alike, alike, alike, alike, nothing.astype(bool), tokens, query_words=tokens)
    return Evidence(np.array(scores), np.full(len(scores), 0.8), nothing, nothing.astype(bool), close)


@given(shares, shares, shares)
def test_the_score_rises_with_both_factors_and_its_word_says_whether_the_gate_is_open(
    first: float, second: float, likely: float
) -> None:
    low, high = sorted((first, second))
    assert 0 <= score(low, likely) <= score(high, likely) <= 1
    assert score(high, min(low, likely)) <= score(high, likely)
    assert (verdict_of(score(first, likely)) == "no good match") == (first < MIN_GATE)


def test_the_words_begin_at_their_bounds() -> None:
    assert verdict_of(ANSWERS) == "answers"
    assert verdict_of(ANSWERS - 0.001) == verdict_of(MAY_ANSWER) == "may answer"
    assert verdict_of(MAY_ANSWER - 0.001) == "no good match"


def test_who_is_far_ahead_is_likelier_and_who_is_far_behind_is_less() -> None:
    near, far = likelihood(evidence([0.8, 0.79, 0.78])), likelihood(evidence([0.8, 0.5, 0.4]))
    assert far[0] > near[0]
    assert far[1] < near[1]
    assert (np.diff(near) <= 0).all()
    assert likelihood(evidence([0.8])).shape == (1,)


def test_an_answer_that_shares_its_score_with_others_is_not_believed_as_much_as_the_only_one() -> None:
    same = evidence([0.8] * 5)
    assert np.allclose(gate(same), gate(evidence([0.8, 0.4, 0.3, 0.2, 0.1])))
    assert likelihood(same)[0] < 0.5


def test_a_name_that_is_covered_by_its_pieces_alone_is_not_believed_as_a_whole_word_is() -> None:
    def sure(tokens: int, words: int, held: float = 0.0, translated: float = 0.0) -> float:
        one = np.ones(1, np.float32)
        close = Closeness(one, one, one, one, one, one, np.zeros(1, bool), tokens, words)
        return float(gate(Evidence(np.ones(1), np.array([held]), np.array([translated]), np.zeros(1, bool), close))[0])

    assert sure(4, 1) < sure(1, 1) < sure(1, 1, translated=0.8) == sure(1, 1, held=0.8)
    assert sure(4, 1, held=1.0) == sure(1, 1, held=1.0)


def test_the_verdict_on_several_answers_is_that_on_the_best() -> None:
    low, high = Answer("q", 1.0, 0, (), 0.01), Answer("q", 1.0, 1, (), 0.7)
    assert (low.verdict, low.confident) == ("no good match", False)
    assert (fuse([low, high]).verdict, fuse([low, high]).confident) == ("answers", True)


@pytest.mark.parametrize(
    "question", ["休暇", "バックアップ", "vacation", "holidays", "リモートワーク", "remote work", "refresh token"]
)
def test_a_word_its_synonym_and_its_translation_find_their_page(examples: Engine, question: str) -> None:
    answer = examples.search(question)
    assert answer[0].path in {
        "handbook/holidays.md",
        "engineering/database-backup.md",
        "engineering/oauth-login.md",
        "handbook/remote-work.md",
        "handbook/リモートワーク.md",
    }
    assert answer.confident
    assert answer[0].verdict == answer.verdict != "no good match"


@pytest.mark.parametrize(
    "question", ["banana", "zebra", "相撲", "パスポート", "mitochondria", "量子力学", "castle", "Raycast", "Gitpod"]
)
def test_a_word_that_no_document_is_about_has_no_good_match(examples: Engine, question: str) -> None:
    answer = examples.search(question)
    assert not answer.confident
    assert {hit.verdict for hit in answer} <= {"no good match"}


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_each_result_has_a_likelihood_of_its_own(examples: Engine, mode: Mode) -> None:
    answer = examples.search("How do I roll back a bad deployment?", mode=mode)
    scores = [hit.score for hit in answer]
    assert answer[0].path == "engineering/deployment.md"
    assert answer[0].verdict == "answers"
    assert scores == sorted(scores, reverse=True)
    assert scores[1] < scores[0] / 2


def test_a_later_page_of_results_does_not_change_the_verdict(examples: Engine) -> None:
    later = examples.search("How do I roll back a bad deployment?", offset=3)
    assert all(hit.verdict != "answers" for hit in later)
    assert later.verdict == "answers"
