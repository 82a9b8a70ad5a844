"""How do lists of results become one answer? Fused by score where models differ, then reranked, cut off and sorted."""

import dataclasses
from collections.abc import Iterable, Sequence
from time import perf_counter

from annai.answers import Answer, Hit, Query
from annai.asking.meant import searched_text
from annai.errors import RerankerError
from annai.rerankers.base import Reranker
from annai.searching.search import sort_hits
from annai.settings import Rerank
from annai.timer import timer


def fuse(answers: Sequence[Answer]) -> Answer:
    """Make one answer of those of collections with different models, by score: it means the same in all of them."""
    if len(answers) == 1:
        return answers[0]
    ranked = [(rank, hit) for answer in answers for rank, hit in enumerate(answer.results)]
    ranked.sort(key=lambda each: (-each[1].score, each[0], each[1].collection, each[1].path, each[1].start_position))
    return dataclasses.replace(
        answers[0],
        took_ms=sum(answer.took_ms for answer in answers),
        total=sum(answer.total for answer in answers),
        matching=sum(answer.matching for answer in answers),
        results=tuple(hit for _, hit in ranked),
        best_score=max(answer.best_score for answer in answers),
        note="; ".join(dict.fromkeys(answer.note for answer in answers if answer.note)),
        corrected={typed: meant for answer in answers for typed, meant in answer.corrected.items()},
        expanded={short: long for answer in answers for short, long in answer.expanded.items()},
        excluded=tuple(dict.fromkeys(phrase for answer in answers for phrase in answer.excluded)),
    )


def rerank(answer: Answer, reranker: Reranker, settings: Rerank) -> Answer:
    """Put the first results into the order that the reranker gives them.

    If it is missing, fails or takes too long, the order stays and the answer's note says why.
    """
    query = searched_text(answer)
    first, rest = answer.results[: settings.candidates], answer.results[settings.candidates :]
    try:
        reranker.load()
        start = perf_counter()
        with timer("rerank"):
            scores = reranker.rerank(query, [_reranker_text(hit) for hit in first], settings.budget_seconds)
    except RerankerError as error:
        note = "; ".join(each for each in (answer.note, f"not reranked: {error}") if each)
        return dataclasses.replace(answer, note=note)
    took = (perf_counter() - start) * 1000
    ordered = sorted(zip(scores, first, strict=True), key=lambda each: -each[0])
    results = (
        dataclasses.replace(
            hit, score=round(score, 4), reasons=dataclasses.replace(hit.reasons, rerank=round(score, 4))
        )
        for score, hit in ordered
    )
    capped = _cap_scores([*results, *rest])
    return dataclasses.replace(answer, took_ms=answer.took_ms + took, results=capped, best_score=capped[0].score)


def limit_and_sort(answer: Answer, query: Query) -> Answer:
    """Keep the results that the query asks for, in the order it asks for."""
    shown = answer.results[query.offset : query.end]
    return dataclasses.replace(answer, results=tuple(sort_hits(shown, query.sort)))


def _reranker_text(hit: Hit) -> str:
    """What a reranker reads of a result: title and headings, then the passage."""
    return " > ".join(dict.fromkeys((hit.title, *hit.heading_path))) + "\n" + hit.passage


def _cap_scores(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Give no result a higher score than the one before it: the order has changed, and scores must not rise."""
    capped: list[Hit] = []
    for hit in hits:
        score = min(hit.score, capped[-1].score) if capped else hit.score
        capped.append(dataclasses.replace(hit, score=score))
    return tuple(capped)
