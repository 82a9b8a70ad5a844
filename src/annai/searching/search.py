"""Which sections answer a question? Passages found by meaning and by words, ranked, folded by the tree."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Embedder
from annai.embedders.packing import pack_tokens
from annai.searching.closeness import Closeness, closeness
from annai.searching.ranking import Candidates, Ranked, by_both, by_meaning, by_words
from annai.searching.spelling import correct, corrections
from annai.stores.base import Store
from annai.text.fields import FIELD_WEIGHTS, passage_fields
from annai.text.tokens import exact_phrases, is_cjk, phrase_score, query_words
from annai.timer import timer
from annai.types import Answer, Document, Hit, Query, Reasons, Section, StoredSection, section_id

logger = logging.getLogger(__name__)

CANDIDATES = 80
"""Passages taken from each of the two searches, at least; 400 rank no better, 50 a little worse."""

LOOKED_THROUGH = 50
"""Passages whose text is looked through for a phrase."""

MIN_SCORE_SHARE = 0.25
"""What scores less than this share of the best is not an answer."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A passage with its score and what that came from."""

    stored: StoredSection
    score: float
    evidence: "_Evidence"
    place: int

    @property
    def reasons(self) -> Reasons:
        return self.evidence.reasons(self.place)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What the scores of all passages came from."""

    found: Candidates | None
    shares: NDArray[np.float64]
    ranked: Ranked

    def reasons(self, place: int) -> Reasons:
        """What one passage's score came from; made only for what is shown."""
        return Reasons(
            similarity=float(self.found.similarity[place]) if self.found else 0.0,
            document_similarity=float(self.found.document_similarity[place]) if self.found else 0.0,
            keywords=float(self.shares[place]),
            parts={name: round(float(part[place]), 4) for name, part in self.ranked.parts.items() if part[place]},
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """A section to show, and the passage that found it."""

    section: Section
    best: _Candidate

    @property
    def stored(self) -> StoredSection:
        return self.best.stored


def search(store: Store, embedder: Embedder, query: Query) -> Answer:
    """Answer a question, already checked, from what is indexed."""
    start = perf_counter()
    asked = query.text
    with timer("search_total"), store.snapshot():
        with timer("correct_spelling"):
            corrected = corrections(store, asked, query.where)
        query = replace(query, text=correct(asked, corrected))
        candidates = _candidates(store, embedder, query)
        found = _fold(store, candidates, query.depths)
        hits = _hits(store, _arranged(found[: query.limit], query), query)
    for rank, hit in enumerate(hits, 1):
        logger.debug("[search] [%d] score=%.2f %s %r", rank, hit.score, hit.path, hit.heading)
    return Answer(asked, (perf_counter() - start) * 1000, len(found), tuple(hits), corrected=corrected)


def _candidates(store: Store, embedder: Embedder, query: Query) -> list[_Candidate]:
    """The passages worth showing, best first."""
    count = max(CANDIDATES, query.limit)
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
        stored = sorted(store.lookup([*(similarity | keywords)]).values(), key=lambda each: each.key)
        ranked = _ranked(store, embedder, query, stored, vector, similarity, keywords)
    faint = MIN_SCORE_SHARE * max((each.score for each in ranked), default=0.0)
    return sorted(
        (each for each in ranked if each.score >= faint and each.score > 0),
        key=lambda each: (-each.score, each.stored.collection, each.stored.path, each.stored.key),
    )


def _ranked(
    store: Store,
    embedder: Embedder,
    query: Query,
    stored: Sequence[StoredSection],
    vector: NDArray[np.float32] | None,
    similarity: Mapping[int, float],
    keywords: Mapping[int, float],
) -> list[_Candidate]:
    """Score the passages that were found, `stored` in the order of their keys."""
    if not stored:
        return []
    shares = np.array([keywords.get(each.key, 0.0) for each in stored])
    japanese = any(map(is_cjk, query.text))
    phrases = exact_phrases(query.text)
    held = _holding(store, stored, shares, phrases) if phrases else np.zeros(len(stored))
    if vector is None:
        ranked, found = by_words(shares, held), None
    else:
        foreign = np.array([each.is_cjk != japanese for each in stored])
        found = _found(store, stored, shares, held, foreign, similarity, vector)
        compare = partial(_compare, store, embedder, query.text, stored)
        ranked = by_meaning(found) if query.mode == "vector" else by_both(found, compare)
    evidence = _Evidence(found, shares, ranked)
    scores = ranked.scores.tolist()
    return [_Candidate(each, scores[place], evidence, place) for place, each in enumerate(stored)]


def _found(
    store: Store,
    stored: Sequence[StoredSection],
    shares: NDArray[np.float64],
    held: NDArray[np.float64],
    foreign: NDArray[np.bool_],
    similarity: Mapping[int, float],
    vector: NDArray[np.float32],
) -> Candidates:
    """Complete what is known of the passages: the vectors that the search for near ones did not look at."""
    near = dict(similarity)
    missing = [*({each.key for each in stored} | {each.root_key for each in stored}) - near.keys()]
    near.update(zip(missing, (store.vectors(missing, len(vector)) @ vector).tolist(), strict=True))
    roots = np.array([each.root_key for each in stored])
    return Candidates(
        # The sections of a document have keys that follow its root's, so that keys in order keep them together.
        documents=np.cumsum(np.append(False, roots[1:] != roots[:-1])),
        similarity=np.array([near[each.key] for each in stored]),
        document_similarity=np.array([near[each.root_key] for each in stored]),
        keywords=shares,
        phrases=held,
        foreign=foreign,
        alone=roots == np.array([each.key for each in stored]),
        chance=min(np.count_nonzero(shares) / CANDIDATES, 1),
    )


def _compare(
    store: Store, embedder: Embedder, text: str, stored: Sequence[StoredSection], places: Sequence[int]
) -> Closeness | None:
    """Compare the question with some of the passages token by token, where the embedder has tokens."""
    if not embedder.has_token_vectors:
        return None
    with timer("compare_tokens"):
        chosen = [stored[place] for place in places]
        kept = store.tokens([each.key for each in chosen])
        return closeness(embedder, text, [kept.get(each.key) or _packed(store, embedder, each) for each in chosen])


def _packed(store: Store, embedder: Embedder, stored: StoredSection) -> bytes:
    """The tokens of a passage whose index keeps none: from its text, which takes longer."""
    document = store.document(stored.collection, stored.path)
    return pack_tokens(embedder, [passage_fields(document, stored.section)])[0] if document else bytes(4)


def _holding(
    store: Store, stored: Sequence[StoredSection], shares: NDArray[np.float64], phrases: Sequence[str]
) -> NDArray[np.float64]:
    """The share of the phrases that each passage holds as they stand; those that have most of their words may."""
    documents: dict[tuple[str, str], Document | None] = {}
    held = np.zeros(len(stored))
    for place in [each for each in np.argsort(-shares, kind="stable")[:LOOKED_THROUGH].tolist() if shares[each]]:
        each = stored[place]
        at = (each.collection, each.path)
        if at not in documents:
            documents[at] = store.document(*at)
        document = documents[at]
        if document is not None:
            text = document.text[each.section.start : each.section.end]
            held[place] = sum(phrase_score(text, phrase) for phrase in phrases) / len(phrases)
    return held


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
