"""Is it BM25? The shared module against the formula as textbooks write it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.stores.bm25 import (
    FIELD_COUNTS,
    Matches,
    average_length,
    count_words,
    is_prefix,
    length_damping,
    merge_positions,
    saturation,
    score,
    weighted_frequencies,
    weights_of,
    word_value,
)
from annai.text.fields import FieldWeights
from annai.text.keywords import MAX_COUNT, count_given_words

COUNTS = st.integers(0, MAX_COUNT)
WEIGHTS = FieldWeights(title=3.0, headings=0.5, path=2.0, body=1.0)


def textbook(frequency: float, holding: int, passages: int, length: int, average: float) -> float:
    idf = math.log(1 + (passages - holding + 0.5) / (holding + 0.5))
    return idf * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length / average))


def test_a_score_is_the_textbooks_as_a_share_of_the_best_possible() -> None:
    lengths = np.array([5.0, 10.0, 30.0])
    average = average_length(45, 3)
    damping = length_damping(lengths, average)
    words = {"apple": {0: 1.0, 2: 4.0}, "pie": {2: 2.0}}
    matches = [
        Matches(
            word_value(1.0, 3, len(found)),
            np.array([*found]),
            saturation(np.array([*found.values()]), damping[[*found]]),
        )
        for found in words.values()
    ]
    best = sum(2.2 * math.log(1 + (3 - len(found) + 0.5) / (len(found) + 0.5)) for found in words.values())
    positions, shares = score(matches, 3)
    assert positions.tolist() == [0, 2]
    expected = [
        sum(
            textbook(found[position], len(found), 3, int(lengths[position]), 15.0)
            for found in words.values()
            if position in found
        )
        for position in (0, 2)
    ]
    assert shares * best == pytest.approx(expected)


def test_no_words_and_no_passages_score_nothing() -> None:
    assert [each.tolist() for each in score([], 0)] == [[], []]
    assert average_length(0, 0) == 1


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS), max_size=20), st.sampled_from(["<u4", "<u8"]))
def test_frequencies_are_the_counts_by_weight_whatever_stands_before_them(
    counts: list[tuple[int, int, int, int]], key: str
) -> None:
    postings = np.array([(7, *each) for each in counts], [("key", key), *FIELD_COUNTS])
    expected = [3.0 * title + 0.5 * headings + 2.0 * path + body for title, headings, path, body in counts]
    assert weighted_frequencies(postings, weights_of(WEIGHTS)).tolist() == pytest.approx(expected)


def test_words_are_counted_field_by_field_up_to_a_byte() -> None:
    counts = count_words(count_given_words(["a"], ["a", "b"], [], ["b"] * 300))
    assert {word: [*fields] for word, fields in counts.items()} == {"a": [1, 1, 0, 0], "b": [0, 1, 0, MAX_COUNT]}


def test_a_passage_with_several_words_of_one_prefix_counts_once() -> None:
    positions, frequencies, first = merge_positions(np.array([4, 2, 4]), np.array([1.0, 2.0, 3.0]))
    assert (positions.tolist(), frequencies.tolist(), first.tolist()) == ([2, 4], [2.0, 4.0], [1, 0])


@pytest.mark.parametrize(("word", "expected"), [("再", True), ("再配", False), ("a", False), ("", False)])
def test_a_single_cjk_character_is_a_prefix(word: str, expected: bool) -> None:
    assert is_prefix(word) is expected
