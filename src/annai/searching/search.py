"""Which documents answer a question? It is understood, passages are found and ranked, and their sections shown."""

import logging
from collections.abc import Sequence
from time import perf_counter

from annai.answers import Answer, Hit, Query, Sort
from annai.asking.exclusion import Exclusions
from annai.asking.meant import understand
from annai.embedders.base import Embedder
from annai.searching.confidence import MIN_GATE
from annai.searching.passages import DocumentCache, find_passages
from annai.searching.results import credit_words, fold_into_sections, group_by_document, load_hits
from annai.stores.base import PassageSearcher
from annai.timer import timer

logger = logging.getLogger(__name__)


def search(store: PassageSearcher, embedder: Embedder | None, query: Query) -> Answer:
    """Answer a question, already checked, from what is indexed; without an embedder, from all but its vectors."""
    start = perf_counter()
    with timer("search_total"), store.snapshot():
        with timer("understand_query"):
            meant = understand(store, query)
        exclusions = Exclusions(store, meant.excluded)
        passages = find_passages(store, embedder, meant, exclusions)
        matches = fold_into_sections(store, passages, query.depths)
        matches = [each for each in matches if not exclusions.hold(each.passage.stored, each.section)]
        documents = DocumentCache(store)
        results = credit_words(documents, group_by_document(matches, query.per_document), meant.spelled_out)
        hits = sort_hits(load_hits(store, documents, results, passages, meant), query.sort)
    for rank, hit in enumerate(hits, 1):
        logger.debug("[search] [%d] score=%.2f %s %r", rank, hit.score, hit.path, hit.heading)
    took_ms = (perf_counter() - start) * 1000
    found = [result.match.passage for result in results]
    matching = sum(1 for each in found if each.gate >= MIN_GATE)
    return Answer(
        query.text,
        took_ms,
        len(results),
        tuple(hits),
        best_score=round(found[0].confidence, 4) if found else 0.0,
        corrected=meant.corrected,
        expanded=meant.expanded,
        excluded=meant.excluded,
        matching=matching,
        mode=query.mode,
    )


def sort_hits(hits: Sequence[Hit], sort: Sort) -> Sequence[Hit]:
    """The best hits, given best first, in the order that was asked for; sorting does not change which they are."""
    if sort in ("depth", "-depth"):
        return sorted(hits, key=lambda hit: hit.depth if sort == "depth" else -hit.depth)
    if sort == "path":
        return sorted(hits, key=lambda hit: (hit.collection, hit.path, hit.start_position))
    return hits
