"""Is the rule what ranking.py says? Laws on numbers, without a store."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from annai.searching.closeness import Closeness
from annai.searching.confidence import not_rising, score
from annai.searching.ranking import MAX_COMPARED_DOCUMENTS, Candidates, rank_by_both, rank_by_meaning, rank_by_words

shares = st.floats(0, 1, allow_nan=False, width=32)


@st.composite
def candidates(draw: st.DrawFn) -> Candidates:
    """Any candidates: some documents with some passages each."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    number = sum(counts)
    documents = np.repeat(np.arange(len(counts)), counts)
    column = st.lists(shares, min_size=number, max_size=number)
    other_script = draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    whole = draw(st.lists(shares, min_size=len(counts), max_size=len(counts)))
    return Candidates(
        document=documents,
        similarity=np.array(draw(column), float),
        document_similarity=np.array(whole, float)[documents],
        keywords=np.array(draw(column), float),
        phrases=np.array(draw(column), float) * draw(st.booleans()),
        definitions=np.round(np.array(draw(column), float)),
        translated=np.array(draw(column), float) * np.array(other_script)[documents],
        tokens=np.array(draw(st.lists(st.integers(1, 600), min_size=number, max_size=number))),
        is_other_script=np.array(other_script)[documents],
        is_whole_document=np.repeat([count == 1 for count in counts], counts),
        coincidence=draw(shares),
        is_contextual=draw(st.booleans()),
    )


def passages(
    *numbers: tuple[int, float, float],
    other_script: tuple[int, ...] = (),
    whole_documents: bool = True,
    whole: float = 0.5,
) -> Candidates:
    """Candidates from (document, similarity, keywords)."""
    documents, similarity, keywords = (np.array(column) for column in zip(*numbers, strict=True))
    return Candidates(
        document=documents,
        similarity=similarity.astype(float),
        document_similarity=np.full(len(numbers), whole),
        keywords=keywords.astype(float),
        phrases=np.zeros(len(numbers)),
        definitions=np.zeros(len(numbers)),
        translated=np.zeros(len(numbers)),
        tokens=np.full(len(numbers), 100),
        is_other_script=np.isin(documents, other_script),
        is_whole_document=np.full(len(numbers), whole_documents),
        coincidence=1.0,
    )


def equally_close(rows: Sequence[int], openings: Sequence[int]) -> Closeness:
    """Every passage as close as every other."""
    count = len(rows) + len(openings)
    half = np.full(count, 0.5, np.float32)
    return Closeness(half, half, half, half, half, half, np.zeros(count, bool), query_tokens=5, query_words=5)


@given(candidates(), st.booleans())
def test_scores_are_shares_and_the_sum_of_their_parts(candidates: Candidates, close: bool) -> None:
    for rank in (rank_by_both, rank_by_meaning, rank_by_words):
        ranked = rank(candidates, equally_close if close else lambda *_: None)
        assert ((ranked.scores >= 0) & (ranked.scores <= 1)).all()
        assert np.allclose(ranked.scores, np.clip(sum(ranked.parts.values()), 0, 1))


@given(candidates(), st.booleans())
def test_who_ranks_lower_is_not_surer(candidates: Candidates, close: bool) -> None:
    for rank in (rank_by_both, rank_by_meaning, rank_by_words):
        ranked = rank(candidates, equally_close if close else lambda *_: None)
        sure = np.array([score(*each) for each in zip(ranked.gate, ranked.likelihood, strict=True)])
        assert ((sure >= 0) & (sure <= 1)).all()
        documents = range(int(candidates.document.max()) + 1)
        best = [max(np.flatnonzero(candidates.document == each), key=ranked.scores.__getitem__) for each in documents]
        sure = sure[sorted(best, key=lambda row: -ranked.scores[row])]
        assert (np.diff(sure)[np.diff(sorted(-ranked.scores[best])) > 0] <= 1e-9).all()


@given(st.lists(shares, min_size=1, max_size=40))
def test_not_rising_changes_as_little_as_it_can(values: list[float]) -> None:
    smooth = not_rising(np.array(values))
    assert (np.diff(smooth) <= 1e-12).all()
    assert np.isclose(smooth.sum(), sum(values))
    if values == sorted(values, reverse=True):
        assert smooth.tolist() == values


def test_a_rival_that_is_closer_token_by_token_is_shown_instead() -> None:
    found = passages((0, 0.50, 0.5), (0, 0.48, 0.5), (1, 0.3, 0.4), whole_documents=False)

    def second_is_closer(rows: Sequence[int], openings: Sequence[int]) -> Closeness:
        close = equally_close(rows, openings)
        window = np.array([0.9 if row == 1 else 0.5 for row in rows], np.float32)
        return replace(close, window=window)

    assert rank_by_both(found, equally_close).scores.argmax() == 0
    assert rank_by_both(found, second_is_closer).scores.argmax() == 1


@given(candidates(), st.randoms())
def test_the_order_of_the_documents_does_not_matter(candidates: Candidates, random: Random) -> None:
    count = int(candidates.document.max()) + 1
    order = [*range(count)]
    random.shuffle(order)
    rows = np.concatenate([np.flatnonzero(candidates.document == document) for document in order])
    renumbered = np.argsort(order)[candidates.document[rows]]
    shuffled = Candidates(
        renumbered,
        candidates.similarity[rows],
        candidates.document_similarity[rows],
        candidates.keywords[rows],
        candidates.phrases[rows],
        candidates.definitions[rows],
        candidates.translated[rows],
        candidates.tokens[rows],
        candidates.is_other_script[rows],
        candidates.is_whole_document[rows],
        candidates.coincidence,
        is_contextual=candidates.is_contextual,
    )
    assert np.allclose(
        rank_by_both(shuffled, equally_close).scores, rank_by_both(candidates, equally_close).scores[rows]
    )


@given(candidates())
def test_the_best_passage_of_a_document_has_the_document_s_score(candidates: Candidates) -> None:
    ranked = rank_by_both(candidates, lambda *_: None)
    for document in set(candidates.document.tolist()):
        mine = candidates.document == document
        assert ranked.parts["behind"][mine].max() == 0
        assert ranked.scores[mine].max() == ranked.scores[mine][ranked.parts["behind"][mine] == 0].max()


def test_words_and_meaning_count_together() -> None:
    scores = rank_by_both(passages((0, 0.8, 0.0), (1, 0.2, 0.4), (2, 0.7, 0.4)), lambda *_: None).scores
    assert scores.argmax() == 2


def test_in_another_script_a_near_document_is_not_outdone_by_a_chance_word() -> None:
    near = passages((0, 0.8, 0.0), (1, 0.2, 0.3), (2, 0.1, 0.6), other_script=(0, 1))
    scores = rank_by_both(near, lambda *_: None).scores
    assert scores[0] > scores[1]


def test_an_identifier_found_whole_counts_whatever_the_script() -> None:
    for other_script in ((), (0,), (0, 1)):
        scores = rank_by_both(
            passages((0, 0.3, 0.95), (1, 0.5, 0.2), other_script=other_script), lambda *_: None
        ).scores
        assert scores[0] > scores[1]


def test_of_documents_that_hold_the_words_the_one_in_the_question_s_script_comes_first() -> None:
    scores = rank_by_both(passages((0, 0.5, 0.7), (1, 0.5, 0.0), other_script=(1,)), lambda *_: None).scores
    assert scores[0] > scores[1]


def test_a_page_that_is_empty_comes_after_those_with_text() -> None:
    def compare(rows: Sequence[int], openings: Sequence[int]) -> Closeness:
        return replace(equally_close(rows, openings), is_empty=np.array([row == 0 for row in rows]))

    scores = rank_by_both(passages((0, 0.8, 0.6), (1, 0.5, 0.4)), compare).scores
    assert scores[1] > scores[0] > 0


def test_in_another_script_words_in_the_other_language_count() -> None:
    found = passages((0, 0.5, 0.0), (1, 0.5, 0.0), other_script=(0, 1))
    scores = rank_by_both(replace(found, translated=np.array([0.2, 0.6])), lambda *_: None).scores
    assert scores[1] > scores[0]


def test_in_another_script_a_title_that_is_the_question_makes_up_for_the_words_that_it_lacks() -> None:
    def compare(rows: Sequence[int], openings: Sequence[int]) -> Closeness:
        about = np.array([float(row == 1) for row in [*rows, *openings]], np.float32)
        return replace(equally_close(rows, openings), about=about)

    for other_script in ((), (0, 1)):
        found = passages((0, 0.6, 0.0), (1, 0.5, 0.0), other_script=other_script)
        scores = rank_by_both(found, compare).scores
        assert (scores[1] > scores[0]) == bool(other_script)


def test_in_another_script_a_page_whose_opening_says_what_is_asked_comes_first() -> None:
    def compare(rows: Sequence[int], openings: Sequence[int]) -> Closeness:
        close = equally_close(rows, openings)
        return replace(close, passage=np.array([*close.passage[: len(rows)], *(row / 10 for row in openings)]))

    for other_script in ((), (0, 1)):
        found = passages((0, 0.55, 0.0), (1, 0.5, 0.0), other_script=other_script)
        scores = rank_by_both(found, compare).scores
        assert (scores[1] > scores[0]) == bool(other_script)


def test_how_close_the_openings_are_does_not_move_documents_in_the_question_s_script() -> None:
    found = passages((0, 0.5, 0.5), (1, 0.5, 0.5), (2, 0.4, 0.0), (3, 0.4, 0.0), other_script=(2, 3))
    scores = []
    for opening in (0.2, 0.8):

        def compare(rows: Sequence[int], openings: Sequence[int], opening: float = opening) -> Closeness:
            close = equally_close(rows, openings)
            return replace(close, passage=np.array([*close.passage[: len(rows)], *(opening for _ in openings)]))

        scores.append(rank_by_both(found, compare).scores)
    assert np.allclose(scores[0], scores[1])


def test_a_document_that_keeps_to_the_subject_comes_before_one_that_touches_it() -> None:
    found = passages((0, 0.5, 0.6), (0, 0.1, 0.0), (1, 0.5, 0.6), (1, 0.5, 0.5), whole_documents=False)
    scores = rank_by_both(found, lambda *_: None).scores
    assert scores[2] > scores[0]


def test_what_is_not_compared_token_by_token_stays_behind_what_is() -> None:
    found = passages(*((number, 1 - number / 100, 0.5) for number in range(MAX_COMPARED_DOCUMENTS + 5)))
    compared: list[int] = []

    def compare(rows: Sequence[int], openings: Sequence[int]) -> Closeness:
        compared.extend(rows)
        return equally_close(rows, openings)

    scores = rank_by_both(found, compare).scores
    assert compared == [*range(MAX_COMPARED_DOCUMENTS)]
    assert scores[:MAX_COMPARED_DOCUMENTS].min() > scores[MAX_COMPARED_DOCUMENTS:].max()


def test_how_a_contextual_model_spreads_its_cosines_does_not_matter() -> None:
    wide = replace(passages((0, 0.1, 0.5), (1, 0.3, 0.4), (2, 0.5, 0.0), whole=0.2), is_contextual=True)
    narrow = replace(wide, similarity=0.8 + wide.similarity / 4, document_similarity=0.8 + wide.document_similarity / 4)
    ranked = [rank_by_both(each, lambda *_: None) for each in (wide, narrow)]
    assert np.allclose(ranked[0].scores, ranked[1].scores)
    assert ranked[0].scores.argmax() == 1


def test_a_contextual_model_that_tells_nothing_apart_leaves_the_order_to_the_words() -> None:
    alike = replace(passages((0, 0.8, 0.1), (1, 0.8 + 1e-6, 0.0), (2, 0.8, 0.3)), is_contextual=True)
    assert [*np.argsort(-rank_by_both(alike, lambda *_: None).scores)] == [2, 0, 1]
