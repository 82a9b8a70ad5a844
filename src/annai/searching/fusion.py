"""How do lists of results become one answer? Fused by rank where models differ, and ordered anew by a reranker."""

import dataclasses
from collections.abc import Iterable, Sequence
from time import perf_counter

from annai.errors import RerankerError
from annai.rerankers.base import Reranker
from annai.searching.spelling import correct
from annai.settings import Rerank
from annai.timer import timer
from annai.types import Answer, Hit, Query


def fused(answers: Sequence[Answer]) -> Answer:
    """One answer from those of collections with different models, whose scores cannot be compared: by rank.

    The best of each come first, then the second of each, and so on; at the same rank, by score.
    """
    if len(answers) == 1:
        return answers[0]
    ranked = [(rank, hit) for answer in answers for rank, hit in enumerate(answer.results)]
    ranked.sort(key=lambda each: (each[0], -each[1].score, each[1].collection, each[1].path, each[1].start_position))
    return dataclasses.replace(
        answers[0],
        took_ms=sum(answer.took_ms for answer in answers),
        total=sum(answer.total for answer in answers),
        results=_falling(hit for _, hit in ranked),
        corrected={typed: meant for answer in answers for typed, meant in answer.corrected.items()},
    )


def reranked(answer: Answer, reranker: Reranker, settings: Rerank) -> Answer:
    """The same results, the first of them in the order that a reranker gives them.

    When that fails or takes too long, the order stays and the answer's note says why.
    """
    reranker.load()
    start = perf_counter()
    asked = correct(answer.query, answer.corrected)
    first, rest = answer.results[: settings.candidates], answer.results[settings.candidates :]
    try:
        with timer("rerank"):
            scores = reranker.rerank(asked, [_read(hit) for hit in first], settings.budget_seconds)
    except RerankerError as error:
        return dataclasses.replace(answer, note=f"not reranked: {error}")
    took = (perf_counter() - start) * 1000
    ordered = sorted(zip(scores, first, strict=True), key=lambda each: -each[0])
    results = (
        dataclasses.replace(
            hit, score=round(score, 4), reasons=dataclasses.replace(hit.reasons, rerank=round(score, 4))
        )
        for score, hit in ordered
    )
    return dataclasses.replace(answer, took_ms=answer.took_ms + took, results=_falling([*results, *rest]))


def arranged(answer: Answer, query: Query) -> Answer:
    """As many results as were asked for, in the order asked for; the order does not change which they are."""
    hits = answer.results[: query.limit]
    if query.sort == "depth":
        hits = tuple(sorted(hits, key=lambda hit: hit.depth))
    elif query.sort == "path":
        hits = tuple(sorted(hits, key=lambda hit: (hit.collection, hit.path, hit.start_position)))
    return dataclasses.replace(answer, results=hits)


def _read(hit: Hit) -> str:
    """What a reranker reads of a result: the passage behind what it stands under."""
    return " > ".join(dict.fromkeys((hit.title, *hit.heading_path))) + "\n" + hit.passage


def _falling(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Results whose scores do not rise: after the order has changed, a score says no more than the one before it."""
    fallen: list[Hit] = []
    for hit in hits:
        score = min(hit.score, fallen[-1].score) if fallen else hit.score
        fallen.append(dataclasses.replace(hit, score=score))
    return tuple(fallen)
