"""Is the rule what ranking.py says? Laws on numbers, without a store."""

from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from annai.searching.closeness import Closeness
from annai.searching.ranking import COMPARED, Candidates, by_both, by_meaning, by_words

shares = st.floats(0, 1, allow_nan=False, width=32)


@st.composite
def candidates(draw: st.DrawFn) -> Candidates:
    """Any candidates: some documents with some passages each."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    number = sum(counts)
    documents = np.repeat(np.arange(len(counts)), counts)
    column = st.lists(shares, min_size=number, max_size=number)
    foreign = draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    whole = draw(st.lists(shares, min_size=len(counts), max_size=len(counts)))
    return Candidates(
        documents=documents,
        similarity=np.array(draw(column), float),
        document_similarity=np.array(whole, float)[documents],
        keywords=np.array(draw(column), float),
        phrases=np.array(draw(column), float) * draw(st.booleans()),
        foreign=np.array(foreign)[documents],
        alone=np.repeat([count == 1 for count in counts], counts),
        chance=draw(shares),
    )


def found(
    *passages: tuple[int, float, float], foreign: tuple[int, ...] = (), alone: bool = True, whole: float = 0.5
) -> Candidates:
    """Candidates from (document, similarity, keywords)."""
    documents, similarity, keywords = (np.array(column) for column in zip(*passages, strict=True))
    return Candidates(
        documents=documents,
        similarity=similarity.astype(float),
        document_similarity=np.full(len(passages), whole),
        keywords=keywords.astype(float),
        phrases=np.zeros(len(passages)),
        foreign=np.isin(documents, foreign),
        alone=np.full(len(passages), alone),
        chance=1.0,
    )


def equally_close(places: Sequence[int]) -> Closeness:
    """Every passage as close as every other."""
    return Closeness(*(np.full(len(places), 0.5, np.float32) for _ in range(3)))


@given(candidates(), st.booleans())
def test_scores_are_shares_and_the_sum_of_their_parts(candidates: Candidates, close: bool) -> None:
    for ranked in (
        by_both(candidates, equally_close if close else lambda _: None),
        by_meaning(candidates),
        by_words(candidates.keywords, candidates.phrases),
    ):
        assert ((ranked.scores >= 0) & (ranked.scores <= 1)).all()
        assert np.allclose(ranked.scores, np.clip(sum(ranked.parts.values()), 0, 1))


@given(candidates(), st.randoms())
def test_the_order_of_the_documents_does_not_matter(candidates: Candidates, random: Random) -> None:
    count = int(candidates.documents.max()) + 1
    order = [*range(count)]
    random.shuffle(order)
    places = np.concatenate([np.flatnonzero(candidates.documents == document) for document in order])
    renumbered = np.argsort(order)[candidates.documents[places]]
    shuffled = Candidates(
        renumbered,
        candidates.similarity[places],
        candidates.document_similarity[places],
        candidates.keywords[places],
        candidates.phrases[places],
        candidates.foreign[places],
        candidates.alone[places],
        candidates.chance,
    )
    assert np.allclose(by_both(shuffled, equally_close).scores, by_both(candidates, equally_close).scores[places])


@given(candidates())
def test_the_best_passage_of_a_document_has_the_document_s_score(candidates: Candidates) -> None:
    ranked = by_both(candidates, lambda _: None)
    for document in set(candidates.documents.tolist()):
        mine = candidates.documents == document
        assert ranked.parts["behind"][mine].max() == 0
        assert ranked.scores[mine].max() == ranked.scores[mine][ranked.parts["behind"][mine] == 0].max()


def test_words_and_meaning_count_together() -> None:
    scores = by_both(found((0, 0.8, 0.0), (1, 0.2, 0.4), (2, 0.7, 0.4)), lambda _: None).scores
    assert scores.argmax() == 2


def test_in_another_script_a_near_document_is_not_outdone_by_a_chance_word() -> None:
    near = found((0, 0.8, 0.0), (1, 0.2, 0.3), (2, 0.1, 0.6), foreign=(0, 1))
    scores = by_both(near, lambda _: None).scores
    assert scores[0] > scores[1]


def test_an_identifier_found_whole_counts_whatever_the_script() -> None:
    for foreign in ((), (0,), (0, 1)):
        scores = by_both(found((0, 0.3, 0.95), (1, 0.5, 0.2), foreign=foreign), lambda _: None).scores
        assert scores[0] > scores[1]


def test_of_documents_that_hold_the_words_the_one_in_the_question_s_script_comes_first() -> None:
    scores = by_both(found((0, 0.5, 0.7), (1, 0.5, 0.0), foreign=(1,)), lambda _: None).scores
    assert scores[0] > scores[1]


def test_a_document_that_keeps_to_the_subject_comes_before_one_that_touches_it() -> None:
    passages = found((0, 0.5, 0.6), (0, 0.1, 0.0), (1, 0.5, 0.6), (1, 0.5, 0.5), alone=False)
    scores = by_both(passages, lambda _: None).scores
    assert scores[2] > scores[0]


def test_what_is_not_compared_token_by_token_stays_behind_what_is() -> None:
    passages = found(*((number, 1 - number / 100, 0.5) for number in range(COMPARED + 5)))
    asked: list[int] = []

    def compare(places: Sequence[int]) -> Closeness:
        asked.extend(places)
        return equally_close(places)

    scores = by_both(passages, compare).scores
    assert asked == [*range(COMPARED)]
    assert scores[:COMPARED].min() > scores[COMPARED:].max()
