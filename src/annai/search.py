"""Which sections answer a question? Passages by meaning and by words, fused into one score, folded by the tree.

The rule, for a passage s of a document d:

    V = cosine(query, s) + 0.4 · cosine(query, d)            meaning
    P = the share of the query's words that s holds, 0–1     words (BM25 over weighted fields)
    K = P where query and document share their script
      = max(P / 2, 1.05 · best P · how near V is to the best V) otherwise: there words are missing, not zero
    score = (V + 3 · K) / 4.4
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Embedder
from annai.fields import FIELD_WEIGHTS
from annai.query import check_query
from annai.stores.base import Store
from annai.timer import timer
from annai.tokens import is_cjk, query_words
from annai.types import Answer, Document, Hit, Query, Reasons, Section, StoredSection, section_id

logger = logging.getLogger(__name__)

CANDIDATES = 100
"""Passages taken from each of the two searches, at least."""

DOCUMENT_WEIGHT = 0.4
"""What the whole document's closeness counts beside the passage's."""

KEYWORD_WEIGHT = 3.0
"""What the words count beside the meaning; anything from 2 to 4 is as good."""

OTHER_SCRIPT_SHARE, OTHER_SCRIPT_LEVEL = 0.5, 1.05
"""For documents in another script than the query's: what their words still count, and how high the nearest reach."""

FAINT = 0.25
"""What scores less than this share of the best is not an answer."""

HIGHEST_SCORE = 1 + DOCUMENT_WEIGHT + KEYWORD_WEIGHT


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A passage with its score and what that came from."""

    stored: StoredSection
    score: float
    reasons: Reasons


@dataclass(frozen=True, slots=True)
class _Found:
    """A section to show, and the passage that found it."""

    section: Section
    best: _Candidate

    @property
    def stored(self) -> StoredSection:
        return self.best.stored


def search(store: Store, embedder: Embedder, query: Query) -> Answer:
    """Answer a question from what is indexed. Raises `QueryError` for an empty or an endless query."""
    start = perf_counter()
    check_query(query)
    with timer("search_total"), store.snapshot():
        candidates = _candidates(store, embedder, query)
        found = _fold(store, candidates, query.depths)
        hits = _hits(store, _arranged(found[: query.limit], query), query)
    for rank, hit in enumerate(hits, 1):
        logger.debug("[search] [%d] score=%.2f %s %r", rank, hit.score, hit.path, hit.heading)
    return Answer(query.text, (perf_counter() - start) * 1000, len(found), tuple(hits))


def _candidates(store: Store, embedder: Embedder, query: Query) -> list[_Candidate]:
    """The passages worth ranking, best first."""
    count = max(CANDIDATES, 4 * query.limit)
    similarity: dict[int, float] = {}
    keywords: dict[int, float] = {}
    vector: NDArray[np.float32] | None = None
    if query.mode != "keyword":
        with timer("query_embedding"):
            vector = embedder.embed_query(query.text)
        with timer("vector_query"):
            similarity = {each.key: each.score for each in store.nearest(vector, count, query.where)}
    if query.mode != "vector":
        with timer("keyword_query"):
            words = query_words(query.text)
            matches = store.matching(words, FIELD_WEIGHTS, count, query.where) if words else []
            keywords = {each.key: each.score for each in matches}
    with timer("rank"):
        stored = store.lookup([*(similarity | keywords)])
        if vector is None:
            ranked = [_Candidate(each, keywords[key], Reasons(keywords=keywords[key])) for key, each in stored.items()]
        else:
            ranked = _fuse(store, vector, similarity, keywords, stored, query)
    faint = FAINT * max((each.score for each in ranked), default=0.0)
    return sorted(
        (each for each in ranked if each.score >= faint and each.score > 0),
        key=lambda each: (-each.score, each.stored.collection, each.stored.path, each.stored.key),
    )


def _fuse(
    store: Store,
    vector: NDArray[np.float32],
    similarity: Mapping[int, float],
    keywords: Mapping[int, float],
    stored: Mapping[int, StoredSection],
    query: Query,
) -> list[_Candidate]:
    """Score every candidate by meaning and words together."""
    if not stored:
        return []
    near = dict(similarity)
    roots = {each.root_key for each in stored.values()}
    missing = [*((stored.keys() | roots) - near.keys())]
    near.update(zip(missing, (store.vectors(missing, len(vector)) @ vector).tolist(), strict=True))

    keys = [*stored]
    passage = np.array([near[key] for key in keys])
    document = np.array([near[stored[key].root_key] for key in keys])
    meaning = passage + DOCUMENT_WEIGHT * document
    share = np.array([keywords.get(key, 0.0) for key in keys])
    scores = meaning / (1 + DOCUMENT_WEIGHT)
    if query.mode == "hybrid":
        foreign = np.array([stored[key].japanese for key in keys]) != any(map(is_cjk, query.text))
        spread = max(meaning.max() - meaning.mean(), 1e-6)
        closeness = ((meaning - meaning.mean()) / spread).clip(0, 1)
        level = share[~foreign].max(initial=0.0)
        words = np.where(foreign, np.maximum(OTHER_SCRIPT_SHARE * share, OTHER_SCRIPT_LEVEL * level * closeness), share)
        scores = (meaning + KEYWORD_WEIGHT * words) / HIGHEST_SCORE
    columns = zip(keys, scores.clip(0, 1).tolist(), passage.tolist(), document.tolist(), share.tolist(), strict=True)
    return [_Candidate(stored[key], score, Reasons(*numbers)) for key, score, *numbers in columns]


def _fold(store: Store, candidates: Sequence[_Candidate], depths: Sequence[int]) -> list[_Found]:
    """The sections to show, each with its best passage, best first.

    A passage stands for the leaf it belongs to or, if depths are asked for, for every section of those depths around
    it: a parent and its child are both shown only when both depths are asked for.
    """
    best: dict[tuple[str, str, tuple[int, ...]], _Found] = {}
    trees: dict[tuple[str, str], list[StoredSection]] = {}
    for candidate in candidates:
        stored = candidate.stored
        place = (stored.collection, stored.path)
        if not depths:
            # A piece has the number of its leaf.
            best.setdefault((*place, stored.section.number), _Found(stored.section, candidate))
            continue
        if place not in trees:
            trees[place] = store.sections(*place)
        for section in _lineage(trees[place], stored.section):
            if not section.piece and any(section.depth <= depth <= section.last_depth for depth in depths):
                best.setdefault((*place, section.number), _Found(section, candidate))
    return [*best.values()]


def _lineage(tree: Sequence[StoredSection], section: Section) -> Iterator[Section]:
    """The section, its parent, and so on up to the root."""
    yield section
    while section.parent is not None:
        section = tree[section.parent].section
        yield section


def _arranged(best: list[_Found], query: Query) -> list[_Found]:
    """The best sections in the order asked for; the order does not change which they are."""
    if query.sort == "depth":
        return sorted(best, key=lambda each: each.section.depth)
    if query.sort == "path":
        return sorted(best, key=lambda each: (each.stored.collection, each.stored.path, each.section.start))
    return best


def _hits(store: Store, best: Sequence[_Found], query: Query) -> list[Hit]:
    documents: dict[tuple[str, str], Document | None] = {}
    hits = []
    for found in best:
        place = (found.stored.collection, found.stored.path)
        if place not in documents:
            documents[place] = store.document(*place)
        document, section = documents[place], found.section
        if section.piece:
            section = next(each for each in _lineage(store.sections(*place), section) if not each.piece)
        if document is not None:
            hits.append(_hit(section, found.best, document, query))
    return hits


def _hit(section: Section, candidate: _Candidate, document: Document, query: Query) -> Hit:
    stored, passage = candidate.stored, candidate.stored.section
    content = {
        "passage": document.text[passage.start : passage.end],
        "section": document.text[section.start : section.end],
        "document": document.text,
        "none": "",
    }[query.content]
    return Hit(
        id=section_id(stored.collection, stored.path, section),
        collection=stored.collection,
        path=stored.path,
        title=stored.title,
        heading=section.heading,
        heading_path=section.heading_path,
        depth=section.depth,
        section_number=section.number,
        start_line=section.start_line,
        end_line=section.end_line,
        start_position=section.start,
        end_position=section.end,
        token_count=section.token_count,
        score=round(candidate.score, 4),
        content=content,
        index_status="outdated" if stored.problem else "updating" if stored.waiting else "latest",
        is_dirty=stored.problem is not None or stored.waiting,
        passage=document.text[passage.start : passage.end],
        passage_line=passage.start_line,
        reasons=candidate.reasons,
    )
