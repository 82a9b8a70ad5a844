"""Which sections answer a question? Passages are found by meaning and by words, ranked, and folded into sections."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from annai.embedders.base import Embedder
from annai.embedders.packing import pack_tokens
from annai.searching.abbreviations import apply_expansions, find_expansions
from annai.searching.closeness import Closeness, closeness
from annai.searching.exclusion import Exclusions, find_exclusions, strip_exclusions
from annai.searching.ranking import Candidates, Floats, Ranked, rank_by_both, rank_by_meaning, rank_by_words
from annai.searching.spelling import apply_corrections, find_corrections
from annai.stores.base import PassageSearcher
from annai.text.fields import FIELD_WEIGHTS, passage_fields
from annai.text.tokens import exact_phrases, is_cjk, phrase_score, query_words
from annai.timer import timer
from annai.types import Answer, Content, Document, Hit, Query, Reasons, Section, Sort, StoredSection, section_id

logger = logging.getLogger(__name__)

MIN_CANDIDATES = 80
"""Passages taken from each of the two searches, at least; 400 rank no better, 50 a little worse."""

MAX_PHRASE_PASSAGES = 50
"""Passages whose text is read to look for a phrase."""

MIN_SCORE_SHARE = 0.25
"""A passage that scores less than this share of the best score is not an answer."""


@dataclass(frozen=True, slots=True)
class _ScoreDetails:
    """What the scores of all candidate passages are made of."""

    candidates: Candidates | None
    """None where only words were compared."""
    keywords: Floats
    ranked: Ranked

    def reasons(self, row: int) -> Reasons:
        """What one passage's score is made of; computed only for what is shown."""
        return Reasons(
            similarity=float(self.candidates.similarity[row]) if self.candidates else 0.0,
            document_similarity=float(self.candidates.document_similarity[row]) if self.candidates else 0.0,
            keywords=float(self.keywords[row]),
            parts={name: round(float(part[row]), 4) for name, part in self.ranked.parts.items() if part[row]},
        )


@dataclass(frozen=True, slots=True)
class _ScoredPassage:
    """A passage with its score, and its row in the arrays that the score was computed from."""

    stored: StoredSection
    score: float
    details: _ScoreDetails
    row: int

    @property
    def reasons(self) -> Reasons:
        return self.details.reasons(self.row)


@dataclass(frozen=True, slots=True)
class _SectionMatch:
    """A section to show, and its best passage."""

    section: Section
    passage: _ScoredPassage


def search(store: PassageSearcher, embedder: Embedder, query: Query) -> Answer:
    """Answer a question, already checked, from what is indexed."""
    start = perf_counter()
    with timer("search_total"), store.snapshot():
        with timer("correct_spelling"):
            excluded = find_exclusions(store, query.text, query.where)
            text = strip_exclusions(query.text, excluded)
            corrections = find_corrections(store, text, query.where)
            expansions = find_expansions(store, text, query.where)
        corrected = replace(query, text=apply_expansions(apply_corrections(text, corrections), expansions))
        exclusions = Exclusions(store, excluded)
        passages = _find_passages(store, embedder, corrected, exclusions)
        matches = _fold_into_sections(store, passages, query.depths)
        matches = [each for each in matches if not exclusions.hold(each.passage.stored, each.section)]
        hits = sort_hits(_load_hits(store, matches[: query.limit], query.content), query.sort)
    for rank, hit in enumerate(hits, 1):
        logger.debug("[search] [%d] score=%.2f %s %r", rank, hit.score, hit.path, hit.heading)
    took_ms = (perf_counter() - start) * 1000
    return Answer(
        query.text, took_ms, len(matches), tuple(hits), corrected=corrections, expanded=expansions, excluded=excluded
    )


def sort_hits(hits: Sequence[Hit], sort: Sort) -> Sequence[Hit]:
    """The best hits, given best first, in the order that was asked for; sorting does not change which they are."""
    if sort == "depth":
        return sorted(hits, key=lambda hit: hit.depth)
    if sort == "path":
        return sorted(hits, key=lambda hit: (hit.collection, hit.path, hit.start_position))
    return hits


def _find_passages(
    store: PassageSearcher, embedder: Embedder, query: Query, exclusions: Exclusions
) -> list[_ScoredPassage]:
    """The passages worth showing, best first."""
    count = max(MIN_CANDIDATES, query.limit)
    similarity: dict[int, float] = {}
    keywords: dict[int, float] = {}
    vector: NDArray[np.float32] | None = None
    if query.mode != "keyword":
        with timer("query_embedding"):
            vector = embedder.embed_query(query.text)
        with timer("vector_query"):
            nearest = exclusions.find(partial(store.nearest, vector, where=query.where), count)
            similarity = {each.key: each.score for each in nearest}
    if query.mode != "vector":
        with timer("keyword_query"):
            words = query_words(query.text)
            find = partial(store.matching, words, FIELD_WEIGHTS, where=query.where)
            matches = exclusions.find(find, count) if words else []
            keywords = {each.key: each.score for each in matches}
    with timer("rank"):
        stored = sorted(store.lookup([*(similarity | keywords)]).values(), key=lambda each: each.key)
        scored = _score_passages(store, embedder, query, stored, vector, similarity, keywords)
    min_score = MIN_SCORE_SHARE * max((each.score for each in scored), default=0.0)
    return sorted(
        (each for each in scored if each.score >= min_score and each.score > 0),
        key=lambda each: (-each.score, each.stored.collection, each.stored.path, each.stored.key),
    )


def _score_passages(
    store: PassageSearcher,
    embedder: Embedder,
    query: Query,
    stored: Sequence[StoredSection],
    vector: NDArray[np.float32] | None,
    similarity: Mapping[int, float],
    keywords: Mapping[int, float],
) -> list[_ScoredPassage]:
    """Score the passages; `stored` is in the order of their keys."""
    if not stored:
        return []
    keyword_shares = np.array([keywords.get(each.key, 0.0) for each in stored])
    phrases = exact_phrases(query.text)
    phrase_shares = _phrase_shares(store, stored, keyword_shares, phrases) if phrases else np.zeros(len(stored))
    candidates = None
    if vector is None:
        ranked = rank_by_words(keyword_shares, phrase_shares)
    else:
        is_cjk_query = any(map(is_cjk, query.text))
        is_other_script = np.array([each.is_cjk != is_cjk_query for each in stored])
        candidates = _candidates(store, stored, keyword_shares, phrase_shares, is_other_script, similarity, vector)
        compare = partial(_compare_tokens, store, embedder, query.text, stored)
        ranked = rank_by_meaning(candidates) if query.mode == "vector" else rank_by_both(candidates, compare)
    details = _ScoreDetails(candidates, keyword_shares, ranked)
    scores = ranked.scores.tolist()
    return [_ScoredPassage(each, scores[row], details, row) for row, each in enumerate(stored)]


def _candidates(
    store: PassageSearcher,
    stored: Sequence[StoredSection],
    keyword_shares: Floats,
    phrase_shares: Floats,
    is_other_script: NDArray[np.bool_],
    similarity: Mapping[int, float],
    vector: NDArray[np.float32],
) -> Candidates:
    """All that the ranking needs to know; similarities that the vector search did not return are computed here."""
    similarities = dict(similarity)
    missing = [*({each.key for each in stored} | {each.root_key for each in stored}) - similarities.keys()]
    similarities.update(zip(missing, (store.vectors(missing, len(vector)) @ vector).tolist(), strict=True))
    roots = np.array([each.root_key for each in stored])
    return Candidates(
        # The keys of a document's sections follow its root's, so that passages in the order of keys stay together.
        document=np.cumsum(np.append(False, roots[1:] != roots[:-1])),
        similarity=np.array([similarities[each.key] for each in stored]),
        document_similarity=np.array([similarities[each.root_key] for each in stored]),
        keywords=keyword_shares,
        phrases=phrase_shares,
        is_other_script=is_other_script,
        is_whole_document=roots == np.array([each.key for each in stored]),
        coincidence=min(np.count_nonzero(keyword_shares) / MIN_CANDIDATES, 1),
    )


def _compare_tokens(
    store: PassageSearcher, embedder: Embedder, text: str, stored: Sequence[StoredSection], rows: Sequence[int]
) -> Closeness | None:
    """Compare the question with some of the passages token by token, where the embedder has tokens."""
    if not embedder.has_token_vectors:
        return None
    with timer("compare_tokens"):
        chosen = [stored[row] for row in rows]
        packed = store.tokens([each.key for each in chosen])
        return closeness(
            embedder, text, [packed.get(each.key) or _pack_passage(store, embedder, each) for each in chosen]
        )


def _pack_passage(store: PassageSearcher, embedder: Embedder, stored: StoredSection) -> bytes:
    """The tokens of a passage for which the index keeps none: made from its text, which takes longer."""
    document = store.document(stored.collection, stored.path)
    return pack_tokens(embedder, [passage_fields(document, stored.section)])[0] if document else bytes(4)


def _phrase_shares(
    store: PassageSearcher, stored: Sequence[StoredSection], keyword_shares: Floats, phrases: Sequence[str]
) -> Floats:
    """The share of the phrases that each passage holds literally; only the passages with most of the words are read."""
    documents = _DocumentCache(store)
    shares = np.zeros(len(stored))
    for row in np.argsort(-keyword_shares, kind="stable")[:MAX_PHRASE_PASSAGES].tolist():
        if keyword_shares[row] and (document := documents.get(stored[row])) is not None:
            section = stored[row].section
            text = document.text[section.start : section.end]
            shares[row] = sum(phrase_score(text, phrase, section.heading) for phrase in phrases) / len(phrases)
    return shares


def _fold_into_sections(
    store: PassageSearcher, passages: Sequence[_ScoredPassage], depths: Sequence[int]
) -> list[_SectionMatch]:
    """The sections to show, each with its best passage, best first.

    A passage stands for the leaf it belongs to or, if depths are asked for, for every section of those depths around
    it: a parent and its child are both shown only when both depths are asked for.
    """
    best: dict[tuple[str, str, tuple[int, ...]], _SectionMatch] = {}
    trees: dict[tuple[str, str], list[StoredSection]] = {}
    for passage in passages:
        stored = passage.stored
        address = (stored.collection, stored.path)
        if not depths:
            # A piece has the number of its leaf.
            best.setdefault((*address, stored.section.number), _SectionMatch(stored.section, passage))
            continue
        if address not in trees:
            trees[address] = store.sections(*address)
        for section in _ancestors(trees[address], stored.section):
            if not section.piece and any(section.depth <= depth <= section.last_depth for depth in depths):
                best.setdefault((*address, section.number), _SectionMatch(section, passage))
    return [*best.values()]


def _ancestors(tree: Sequence[StoredSection], section: Section) -> Iterator[Section]:
    """The section itself, its parent, and so on up to the root."""
    yield section
    while section.parent is not None:
        section = tree[section.parent].section
        yield section


def _load_hits(store: PassageSearcher, matches: Sequence[_SectionMatch], content: Content) -> list[Hit]:
    """The matches with their texts; a piece is shown as the section it belongs to."""
    documents = _DocumentCache(store)
    hits = []
    for match in matches:
        stored, section = match.passage.stored, match.section
        document = documents.get(stored)
        if section.piece:
            tree = store.sections(stored.collection, stored.path)
            section = next(each for each in _ancestors(tree, section) if not each.piece)
        if document is not None:
            hits.append(_hit(section, match.passage, document, content))
    return hits


def _hit(section: Section, scored: _ScoredPassage, document: Document, content: Content) -> Hit:
    stored, passage = scored.stored, scored.stored.section
    texts = {
        "passage": document.text[passage.start : passage.end],
        "section": document.text[section.start : section.end],
        "document": document.text,
        "none": "",
    }
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
        score=round(scored.score, 4),
        content=texts[content],
        index_status="outdated" if stored.problem else "updating" if stored.waiting else "latest",
        is_dirty=stored.problem is not None or stored.waiting,
        passage=texts["passage"],
        passage_line=passage.start_line,
        reasons=scored.reasons,
    )


class _DocumentCache:
    """Documents of a store, each loaded once."""

    def __init__(self, store: PassageSearcher) -> None:
        self._store = store
        self._documents: dict[tuple[str, str], Document | None] = {}

    def get(self, stored: StoredSection) -> Document | None:
        """The section's document; None if it was deleted meanwhile."""
        address = (stored.collection, stored.path)
        if address not in self._documents:
            self._documents[address] = self._store.document(*address)
        return self._documents[address]
