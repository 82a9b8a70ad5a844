"""Which sections answer a question? Passages are found by meaning and by words, ranked, and folded into sections."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from annai.asking.exclusion import Exclusions
from annai.asking.meant import Meant, understand
from annai.embedders.base import Embedder
from annai.embedders.packing import pack_tokens
from annai.embedders.static import token_model
from annai.searching.closeness import Closeness, closeness
from annai.searching.confidence import MIN_CONFIDENCE
from annai.searching.preview import Preview, make_previews
from annai.searching.ranking import Candidates, Compare, Floats, Ranked, rank_by_both, rank_by_meaning, rank_by_words
from annai.stores.base import PassageSearcher
from annai.text.fields import FIELD_WEIGHTS, passage_fields
from annai.text.links import link_share
from annai.text.tokens import exact_phrases, is_cjk, phrase_score, query_words
from annai.timer import timer
from annai.types import (
    Answer,
    Content,
    Document,
    Hit,
    Mode,
    OtherSection,
    Query,
    Reasons,
    Section,
    Sort,
    StoredSection,
    section_id,
)

logger = logging.getLogger(__name__)

CANDIDATES = 80
"""Passages taken from each of the two searches; 400 rank no better, 50 a little worse."""

WIDER_CANDIDATES = 5
"""If these are of fewer documents than are wanted: passages for each document that is wanted."""

MAX_PHRASE_PASSAGES = 50
"""Passages whose text is read to look for a phrase."""

MAX_MORE = 3
"""Other sections of a document that are named with its best one."""

MIN_ABOUT = 0.75
"""How nearly a question must be a page's title to be a question about the whole page."""

MAX_LINK_SHARE, MAX_LAST_LINK_SHARE = 0.4, 0.2
"""A section, or the last one of a page, with a greater share of its words in links only leads elsewhere."""

MAX_CLOSER_TOKENS = 150
"""A longer last section does more than end its page."""

MIN_INSTEAD_SHARE, MIN_EQUAL_SHARE, MAX_INSTEAD = 0.6, 0.93, 5
"""What is shown instead of such a section, or of one that only ends a page: one of the next best, if it scores at least
this share of it."""

MIN_MORE_SHARE = 0.7
"""A section is named if it is at least this share as sure as its document's best one."""

MIN_SCORE_SHARE = 0.25
"""A passage that scores less than this share of the best score is not an answer."""


@dataclass(frozen=True, slots=True)
class _ScoreDetails:
    """What the scores of all candidate passages are made of."""

    candidates: Candidates
    ranked: Ranked

    def reasons(self, row: int) -> Reasons:
        """What one passage's score is made of; computed only for what is shown."""
        return Reasons(
            similarity=float(self.candidates.similarity[row]),
            document_similarity=float(self.candidates.document_similarity[row]),
            keywords=float(self.candidates.keywords[row]),
            ranking=round(float(self.ranked.scores[row]), 4),
            parts={name: round(float(part[row]), 4) for name, part in self.ranked.parts.items() if part[row]},
        )


@dataclass(frozen=True, slots=True)
class _ScoredPassage:
    """A passage with its score, and its row in the arrays that the score was computed from."""

    stored: StoredSection
    score: float
    """What it is ranked by."""
    confidence: float
    """How likely it answers."""
    about: float
    """How nearly the question is its document's title."""
    details: _ScoreDetails
    row: int

    @property
    def reasons(self) -> Reasons:
        return self.details.reasons(self.row)


@dataclass(frozen=True, slots=True)
class _SectionMatch:
    """A section that answers, and its best passage."""

    section: Section
    passage: _ScoredPassage

    @property
    def id(self) -> str:
        """The public name of what is shown."""
        stored = self.passage.stored
        section = self.section if _stands_alone(self.section) else replace(self.section, piece=0)
        return section_id(stored.collection, stored.path, section)


@dataclass(frozen=True, slots=True)
class _Result:
    """A section to show, and the others of its document that were found, best first."""

    match: _SectionMatch
    others: list[_SectionMatch]

    def showing(self, match: _SectionMatch) -> "_Result":
        """The same document, as sure as before, shown by another section."""
        passage = replace(match.passage, confidence=self.match.passage.confidence)
        others = [each for each in (self.match, *self.others) if each.id != match.id]
        return _Result(replace(match, passage=passage), others)


def search(store: PassageSearcher, embedder: Embedder, query: Query) -> Answer:
    """Answer a question, already checked, from what is indexed."""
    start = perf_counter()
    with timer("search_total"), store.snapshot():
        with timer("understand_query"):
            meant = understand(store, query)
        exclusions = Exclusions(store, meant.excluded)
        passages = _find_passages(store, embedder, meant, exclusions)
        matches = _fold_into_sections(store, passages, query.depths)
        matches = [each for each in matches if not exclusions.hold(each.passage.stored, each.section)]
        results = _group_by_document(matches, query.per_document)
        hits = sort_hits(_load_hits(store, results[: query.limit], meant.query, exclusions), query.sort)
    for rank, hit in enumerate(hits, 1):
        logger.debug("[search] [%d] score=%.2f %s %r", rank, hit.score, hit.path, hit.heading)
    took_ms = (perf_counter() - start) * 1000
    total = len({each.passage.stored.root_key for each in matches if each.passage.confidence >= MIN_CONFIDENCE})
    return Answer(
        query.text,
        took_ms,
        total,
        tuple(hits),
        corrected=meant.corrected,
        expanded=meant.expanded,
        excluded=meant.excluded,
    )


def sort_hits(hits: Sequence[Hit], sort: Sort) -> Sequence[Hit]:
    """The best hits, given best first, in the order that was asked for; sorting does not change which they are."""
    if sort == "depth":
        return sorted(hits, key=lambda hit: hit.depth)
    if sort == "path":
        return sorted(hits, key=lambda hit: (hit.collection, hit.path, hit.start_position))
    return hits


def _find_passages(
    store: PassageSearcher, embedder: Embedder, meant: Meant, exclusions: Exclusions
) -> list[_ScoredPassage]:
    """The passages worth showing, best first.

    A wider search adds to them if they are of fewer documents than are wanted. What it adds comes after them, so that
    the best do not depend on how many results are wanted.
    """
    query = meant.query
    vector: NDArray[np.float32] | None = None
    if query.mode != "keyword":
        with timer("query_embedding"):
            vector = embedder.embed_query(query.text)
    found = _find_scored(store, meant, exclusions, vector, CANDIDATES)
    min_score = MIN_SCORE_SHARE * max((each.score for each in found), default=0.0)
    worthy = [each for each in found if each.score >= min_score and each.score > 0]
    known = {each.stored.key for each in found}
    if worthy and len(known) >= CANDIDATES and len({each.stored.root_key for each in found}) < query.limit:
        wider = _find_scored(store, meant, exclusions, vector, WIDER_CANDIDATES * query.limit)
        lowest, least = min(each.score for each in worthy), min(each.confidence for each in worthy)
        worthy += [
            replace(each, score=min(each.score, lowest), confidence=min(each.confidence, least))
            for each in wider
            if each.stored.key not in known and each.score >= min_score
        ]
    return worthy


def _find_scored(
    store: PassageSearcher,
    meant: Meant,
    exclusions: Exclusions,
    vector: NDArray[np.float32] | None,
    count: int,
) -> list[_ScoredPassage]:
    """The passages that each of the two searches finds, at most so many of each, best first."""
    query = meant.query
    similarity: dict[int, float] = {}
    if vector is not None:
        with timer("vector_query"):
            nearest = exclusions.find(partial(store.nearest, vector, where=query.where), count)
            similarity = {each.key: each.score for each in nearest}
    with timer("keyword_query"):
        words = query_words(query.text)
        find = partial(store.matching, words, FIELD_WEIGHTS, where=query.where)
        matches = exclusions.find(find, count) if words else []
        keywords = {each.key: each.score for each in matches}
    with timer("rank"):
        # A search by meaning alone finds nothing by its words; they only tell how sure its results are.
        found = similarity if query.mode == "vector" else similarity | keywords
        stored = sorted(store.lookup([*found]).values(), key=lambda each: each.key)
        scored = _score_passages(store, meant, stored, vector, similarity, keywords)
    return sorted(scored, key=lambda each: (-each.score, each.stored.collection, each.stored.path, each.stored.key))


def _score_passages(
    store: PassageSearcher,
    meant: Meant,
    stored: Sequence[StoredSection],
    vector: NDArray[np.float32] | None,
    similarity: Mapping[int, float],
    keywords: Mapping[int, float],
) -> list[_ScoredPassage]:
    """Score the passages; `stored` is in the order of their keys."""
    if not stored:
        return []
    query = meant.query
    keyword_shares = np.array([keywords.get(each.key, 0.0) for each in stored])
    phrases = exact_phrases(query.text)
    phrase_shares = _phrase_shares(store, stored, keyword_shares, phrases) if phrases else np.zeros(len(stored))
    is_cjk_query = any(map(is_cjk, query.text))
    is_other_script = np.array([each.is_cjk != is_cjk_query for each in stored])
    candidates = _candidates(store, stored, keyword_shares, phrase_shares, is_other_script, similarity, vector)
    candidates = replace(candidates, spare_words=meant.spare_words)
    compare = partial(_compare_tokens, store, meant.spelled_out, stored)
    details = _ScoreDetails(candidates, _RANKINGS[query.mode](candidates, compare))
    ranked = details.ranked
    columns = (ranked.scores.tolist(), ranked.confidence.tolist(), ranked.about.tolist())
    return [
        _ScoredPassage(each, score, confidence, about, details, row)
        for row, (each, score, confidence, about) in enumerate(zip(stored, *columns, strict=True))
    ]


def _candidates(
    store: PassageSearcher,
    stored: Sequence[StoredSection],
    keyword_shares: Floats,
    phrase_shares: Floats,
    is_other_script: NDArray[np.bool_],
    similarity: Mapping[int, float],
    vector: NDArray[np.float32] | None,
) -> Candidates:
    """All that the ranking needs to know; similarities that the vector search did not return are computed here."""
    similarities = defaultdict(float, similarity)
    if vector is not None:
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
        tokens=np.array([each.section.token_count for each in stored]),
        is_other_script=is_other_script,
        is_whole_document=roots == np.array([each.key for each in stored]),
        coincidence=min(np.count_nonzero(keyword_shares) / CANDIDATES, 1),
    )


def _compare_tokens(
    store: PassageSearcher, text: str, stored: Sequence[StoredSection], rows: Sequence[int]
) -> Closeness | None:
    """Compare the question with some of the passages token by token."""
    with timer("compare_tokens"):
        chosen = [stored[row] for row in rows]
        packed = store.tokens([each.key for each in chosen])
        return closeness(token_model(), text, [packed.get(each.key) or _pack_passage(store, each) for each in chosen])


def _pack_passage(store: PassageSearcher, stored: StoredSection) -> bytes:
    """The tokens of a passage for which the index keeps none: made from its text, which takes longer."""
    document = store.document(stored.collection, stored.path)
    return pack_tokens(token_model(), [passage_fields(document, stored.section)])[0] if document else bytes(4)


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
    """The sections that answer, each with its best passage, best first.

    A passage stands for the leaf it belongs to or, if depths are asked for, for every section of those depths around
    it. A piece of a whole document stands for itself: it is the smallest part that can be shown.
    """
    best: dict[tuple[int, tuple[int, ...], int], _SectionMatch] = {}
    trees: dict[int, list[StoredSection]] = {}
    for passage in passages:
        stored = passage.stored
        if not depths:
            # A piece has the number of its leaf.
            piece = stored.section.piece if _stands_alone(stored.section) else 0
            best.setdefault((stored.root_key, stored.section.number, piece), _SectionMatch(stored.section, passage))
            continue
        if stored.root_key not in trees:
            trees[stored.root_key] = store.sections(stored.collection, stored.path)
        for section in _ancestors(trees[stored.root_key], stored.section):
            if not section.piece and any(section.depth <= depth <= section.last_depth for depth in depths):
                best.setdefault((stored.root_key, section.number, 0), _SectionMatch(section, passage))
    return [*best.values()]


def _group_by_document(matches: Sequence[_SectionMatch], per_document: int) -> list[_Result]:
    """The sections to show, at most so many of a document (0: all), best first; the others are named with the first."""
    results: list[_Result] = []
    first: dict[int, _Result] = {}
    counts: Counter[int] = Counter()
    for match in matches:
        root = match.passage.stored.root_key
        best = first.setdefault(root, _Result(match, []))
        counts[root] += 1
        if not per_document or counts[root] <= per_document:
            results.append(best if best.match is match else _Result(match, []))
        else:
            best.others.append(match)
    return results


def _choose_section(result: _Result, opening: StoredSection | None, document: Document, asked: set[str]) -> _Result:
    """The result, shown by the section that says it.

    A question about a page as a whole is answered by the page's opening. A section that only leads elsewhere, or that
    ends a page and has nothing of the question in its heading, gives way to the next best.
    """
    match = result.match
    start = None
    if opening and opening.section.order != match.section.order:
        start = _SectionMatch(opening.section, replace(match.passage, stored=opening))
    if start and match.section.number[:1] not in ((), (0,)) and _is_about(match.passage, asked):
        return result.showing(start)
    links, is_last = _link_share(match, document), _is_last(match, document)
    if links > (MAX_LAST_LINK_SHARE if is_last else MAX_LINK_SHARE):
        min_share = MIN_INSTEAD_SHARE
    elif (
        is_last and match.section.token_count <= MAX_CLOSER_TOKENS and not asked & _content_words(match.section.heading)
    ):
        min_share = MIN_EQUAL_SHARE
    else:
        return result
    others = [each for each in result.others[:MAX_INSTEAD] if each.passage.score >= min_share * match.passage.score]
    for instead in (*others, *([start] if start and links > MAX_LAST_LINK_SHARE else [])):
        if not _is_last(instead, document) and _link_share(instead, document) <= MAX_LINK_SHARE:
            return result.showing(instead)
    return result


def _link_share(match: _SectionMatch, document: Document) -> float:
    return link_share(document.text[match.section.start : match.section.end])


def _is_last(match: _SectionMatch, document: Document) -> bool:
    """Whether it is the last section of its document, and not the only one."""
    return bool(match.section.number) and not document.text[match.section.end :].strip()


def _is_about(passage: _ScoredPassage, asked: set[str]) -> bool:
    """Whether the question is its document's title, by its tokens (in another language too) or by its words."""
    title = _content_words(passage.stored.title)
    shared = len(asked & title) / max(len(asked), len(title), 1)
    return max(passage.about, shared) >= MIN_ABOUT


def _content_words(text: str) -> set[str]:
    """The words that say what a text is about."""
    return {word for word, weight in query_words(text).items() if weight == 1}


def _stands_alone(section: Section) -> bool:
    """Whether it can be shown by itself: a piece is shown as the section it belongs to, unless that is the document."""
    return not section.piece or not section.number


def _ancestors(tree: Sequence[StoredSection], section: Section) -> Iterator[Section]:
    """The section itself, its parent, and so on up to the root."""
    yield section
    while section.parent is not None:
        section = tree[section.parent].section
        yield section


def _load_hits(store: PassageSearcher, results: Sequence[_Result], query: Query, exclusions: Exclusions) -> list[Hit]:
    """The results with their texts."""
    documents = _DocumentCache(store)
    # Where several sections of a document may be shown, or those of one depth, each is what it is.
    may_choose = query.per_document == 1 and not query.depths
    near = _look_around(store, [result.match for result in results])
    asked = _content_words(query.text)
    loaded = []
    for found in results:
        document = documents.get(found.match.passage.stored)
        if document is None:
            continue
        opening = _opening(near, found.match) if may_choose else None
        if opening and exclusions.hold(opening, opening.section):
            opening = None
        result = _choose_section(found, opening, document, asked) if may_choose else found
        section = result.match.section
        if not _stands_alone(section):
            around = _key_around(result.match)
            section = (near.get(around) or store.lookup([around])[around]).section
        loaded.append((section, result, document))
    with timer("preview"):
        passages = [(document, section, result.match.passage.stored.section) for section, result, document in loaded]
        previews = make_previews(query.text, passages, query.preview_lines)
    return [_hit(*each, preview, query.content) for each, preview in zip(loaded, previews, strict=True)]


def _look_around(store: PassageSearcher, matches: Sequence[_SectionMatch]) -> dict[int, StoredSection]:
    """The sections around the matches, and the first ones of their documents, by key."""
    firsts = [match.passage.stored.root_key + order for match in matches for order in (1, 2)]
    return store.lookup([*firsts, *(_key_around(match) for match in matches if not _stands_alone(match.section))])


def _key_around(match: _SectionMatch) -> int:
    """The key of the section that a piece belongs to."""
    return match.passage.stored.root_key + (match.section.parent or 0)


def _opening(near: Mapping[int, StoredSection], match: _SectionMatch) -> StoredSection | None:
    """The first passage of the text before a document's first part, if there is such a text."""
    root = match.passage.stored.root_key
    # It comes right after the root: a passage, or a section and its first piece.
    first = (near.get(root + order) for order in (1, 2))
    return next((each for each in first if each and each.section.is_passage and each.section.number == (0,)), None)


def _hit(section: Section, result: _Result, document: Document, preview: Preview, content: Content) -> Hit:
    scored = result.match.passage
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
        score=round(scored.confidence, 4),
        content=texts[content],
        preview=preview.text,
        preview_line=preview.line,
        index_status="outdated" if stored.problem else "updating" if stored.waiting else "latest",
        is_dirty=stored.problem is not None or stored.waiting,
        passage=texts["passage"],
        passage_line=passage.start_line,
        more=_more(result),
        reasons=scored.reasons,
    )


_RANKINGS: Mapping[Mode, Callable[[Candidates, Compare], Ranked]] = {
    "hybrid": rank_by_both,
    "vector": rank_by_meaning,
    "keyword": rank_by_words,
}


def _more(result: _Result) -> tuple[OtherSection, ...]:
    """The other sections of a document that answer too."""
    least = max(MIN_CONFIDENCE, MIN_MORE_SHARE * result.match.passage.confidence)
    named = [each for each in result.others if each.passage.confidence >= least][:MAX_MORE]
    return tuple(OtherSection(each.id, each.section.heading, each.passage.stored.section.start_line) for each in named)


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
