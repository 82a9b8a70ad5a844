"""Which passages answer a question? Those found by meaning and by words, each with what it is ranked by."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from annai.answers import Mode, Reasons
from annai.asking.defining import asks_for, defined_term, defining_pattern
from annai.asking.exclusion import Exclusions
from annai.asking.meant import Meant
from annai.asking.translation import translate_words
from annai.definitions import dataclass
from annai.embedders.base import Embedder
from annai.embedders.packing import pack_tokens
from annai.embedders.static import token_model
from annai.searching import confidence
from annai.searching.closeness import Closeness, closeness
from annai.searching.ranking import Candidates, Compare, Floats, Ranked, rank_by_both, rank_by_meaning, rank_by_words
from annai.stores.base import PassageSearcher
from annai.stores.scores import cosines
from annai.text.fields import FIELD_WEIGHTS, passage_fields
from annai.text.tokens import exact_phrases, is_cjk, phrase_score, query_words
from annai.timer import timer
from annai.types import Document, StoredSection

CANDIDATES = 80
"""Passages taken from each of the two searches; 400 rank no better, 50 a little worse."""

WIDER_CANDIDATES = 5
"""If these are of fewer documents than are wanted: passages for each document that is wanted."""

MAX_READ_PASSAGES = 50
"""Passages whose text is read to look for a phrase or a definition."""

OPENING_SECTIONS = 3
"""The first passage of a document is among so many of its first sections, in 99 of 100: the sections
before it only contain others."""

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


class ScoredPassage(NamedTuple):
    """A passage with its score, and its row in the arrays that the score was computed from."""

    stored: StoredSection
    score: float
    """What it is ranked by."""
    gate: float
    """How likely its document is about what is asked."""
    likelihood: float
    """How likely it is this one that answers, if any does."""
    about: float
    """How nearly the question is its document's title."""
    place: float
    """Where in it the text begins that is closest to the question, as a share of it."""
    details: _ScoreDetails
    row: int

    @property
    def confidence(self) -> float:
        """How likely it answers."""
        return confidence.score(self.gate, self.likelihood)

    @property
    def words_share(self) -> float:
        """The share of the question's words, by weight, that it holds."""
        return float(self.details.candidates.keywords[self.row])

    @property
    def reasons(self) -> Reasons:
        """What its ranking is made of."""
        return self.details.reasons(self.row)


def find_passages(
    store: PassageSearcher, embedder: Embedder | None, meant: Meant, exclusions: Exclusions
) -> list[ScoredPassage]:
    """The passages worth showing, best first.

    A wider search adds to them if they are of fewer documents than are wanted. What it adds comes after them, so that
    the best do not depend on how many results are wanted.
    """
    query = meant.query
    vector: NDArray[np.float32] | None = None
    if embedder and query.mode != "keyword":
        with timer("query_embedding"):
            vector = embedder.embed_query(query.text)
    find = partial(
        _find_scored, store, meant, exclusions, vector, is_contextual=bool(embedder and not embedder.is_additive)
    )
    found = find(CANDIDATES)
    min_score = MIN_SCORE_SHARE * max((each.score for each in found), default=0.0)
    worthy = [each for each in found if each.score >= min_score and each.score > 0]
    known = {each.stored.key for each in found}
    if worthy and len(known) >= CANDIDATES and len({each.stored.root_key for each in found}) < query.end:
        wider = find(WIDER_CANDIDATES * query.end)
        lowest, gate, likelihood = (min(column) for column in zip(*map(_standing, worthy), strict=True))
        worthy += [
            each._replace(
                score=min(each.score, lowest), gate=min(each.gate, gate), likelihood=min(each.likelihood, likelihood)
            )
            for each in wider
            if each.stored.key not in known and each.score >= min_score
        ]
    return worthy


def _standing(passage: ScoredPassage) -> tuple[float, float, float]:
    return passage.score, passage.gate, passage.likelihood


def _find_scored(
    store: PassageSearcher,
    meant: Meant,
    exclusions: Exclusions,
    vector: NDArray[np.float32] | None,
    count: int,
    *,
    is_contextual: bool,
) -> list[ScoredPassage]:
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
        found = store.lookup([*(similarity if query.mode == "vector" else similarity | keywords)])
        translated: dict[int, float] = {}
        if query.mode == "hybrid":
            translated = _match_translated(store, meant, exclusions, found, count, has_vectors=vector is not None)
        # By path, so that what scores alike comes in the same order however often it was indexed.
        stored = sorted(found.values(), key=lambda each: (each.collection, each.path, each.key))
        scored = _score_passages(
            store, meant, stored, vector, similarity, keywords, translated, is_contextual=is_contextual
        )
    return sorted(scored, key=lambda each: -each.score)


def _match_translated(
    store: PassageSearcher,
    meant: Meant,
    exclusions: Exclusions,
    found: dict[int, StoredSection],
    count: int,
    *,
    has_vectors: bool,
) -> dict[int, float]:
    """How well passages in another script than the question's match its words in the other language; adds them.

    Only if some were found by their vectors already: otherwise there are none, or none that answers.
    """
    text = meant.spelled_out
    is_cjk_text = any(map(is_cjk, text))
    if has_vectors and all(each.is_cjk == is_cjk_text for each in found.values()):
        return {}
    terms = translate_words(text, is_cjk_text=is_cjk_text)
    find = partial(store.matching, terms, FIELD_WEIGHTS, where=meant.query.where)
    matches = exclusions.find(find, count) if terms else []
    more = store.lookup([each.key for each in matches if each.key not in found])
    found |= {key: each for key, each in more.items() if each.is_cjk != is_cjk_text}
    return {each.key: each.score for each in matches if each.key in found}


def _score_passages(
    store: PassageSearcher,
    meant: Meant,
    stored: Sequence[StoredSection],
    vector: NDArray[np.float32] | None,
    similarity: Mapping[int, float],
    keywords: Mapping[int, float],
    translated: Mapping[int, float],
    *,
    is_contextual: bool,
) -> list[ScoredPassage]:
    """Score the passages; those of one document stand together in `stored`, in its order."""
    if not stored:
        return []
    candidates = _candidates(
        store, meant, stored, vector, similarity, keywords, translated, is_contextual=is_contextual
    )
    compare = partial(compare_tokens, store, meant.spelled_out, stored)
    ranked = _RANKINGS[meant.query.mode](candidates, compare)
    details = _ScoreDetails(candidates, ranked)
    columns = (each.tolist() for each in (ranked.scores, ranked.gate, ranked.likelihood, ranked.about, ranked.place))
    return [
        ScoredPassage(each, score, gate, likelihood, about, place, details, row)
        for row, (each, score, gate, likelihood, about, place) in enumerate(zip(stored, *columns, strict=True))
    ]


def _candidates(
    store: PassageSearcher,
    meant: Meant,
    stored: Sequence[StoredSection],
    vector: NDArray[np.float32] | None,
    similarity: Mapping[int, float],
    keywords: Mapping[int, float],
    translated: Mapping[int, float],
    *,
    is_contextual: bool,
) -> Candidates:
    """All that the ranking needs to know; similarities that the vector search did not return are computed here."""
    text = meant.query.text
    similarities = defaultdict(float, similarity)
    if vector is not None:
        missing = [*({each.key for each in stored} | {each.root_key for each in stored}) - similarities.keys()]
        similarities.update(zip(missing, cosines(store.vectors(missing, len(vector)), vector).tolist(), strict=True))
    keyword_shares = np.array([keywords.get(each.key, 0.0) for each in stored])
    is_other_script = np.array([each.is_cjk for each in stored]) != any(map(is_cjk, text))
    roots = np.array([each.root_key for each in stored])
    return Candidates(
        document=np.cumsum(np.append(False, roots[1:] != roots[:-1])),
        similarity=np.array([similarities[each.key] for each in stored]),
        document_similarity=np.array([similarities[each.root_key] for each in stored]),
        keywords=keyword_shares,
        phrases=_phrase_shares(store, stored, keyword_shares, exact_phrases(text)),
        tokens=np.array([each.section.token_count for each in stored]),
        is_other_script=is_other_script,
        is_whole_document=roots == np.array([each.key for each in stored]),
        coincidence=min(np.count_nonzero(keyword_shares) / CANDIDATES, 1),
        spare_words=meant.spare_words,
        is_contextual=is_contextual,
        definitions=_definitions(store, stored, keyword_shares, defined_term(text)),
        translated=is_other_script * np.array([translated.get(each.key, 0.0) for each in stored]),
    )


def compare_tokens(
    store: PassageSearcher,
    text: str,
    stored: Sequence[StoredSection],
    rows: Sequence[int],
    openings: Sequence[int] = (),
) -> Closeness | None:
    """Compare the question token by token with some of the passages, and with the openings of others' documents."""
    with timer("compare_tokens"):
        chosen = [stored[row] for row in rows]
        chosen += _openings(store, [stored[row] for row in openings])
        compared = {each.key: each for each in chosen}
        packed = store.tokens([*compared])
        texts = [packed.get(key) or _pack_passage(store, each) for key, each in compared.items()]
        # Only the passages tell how rare a token is: the openings of pages that were found have much in common.
        close = closeness(token_model(), text, texts, len(rows))
        place = {key: number for number, key in enumerate(compared)}
        return close and close.take(np.array([place[each.key] for each in chosen]))


def _openings(store: PassageSearcher, passages: Sequence[StoredSection]) -> list[StoredSection]:
    """The first passage of each passage's document."""
    # Keys are the root's plus an order. Those up to the passage itself are of its own document.
    near = [range(each.root_key, min(each.root_key + OPENING_SECTIONS, each.key)) for each in passages]
    before = store.lookup([*chain.from_iterable(near)]) if passages else {}
    return [
        next((before[key] for key in keys if key in before and before[key].section.is_passage), each)
        for each, keys in zip(passages, near, strict=True)
    ]


def _pack_passage(store: PassageSearcher, stored: StoredSection) -> bytes:
    """The tokens of a passage for which the index keeps none: made from its text, which takes longer."""
    document = store.document(stored.collection, stored.path)
    return pack_tokens(token_model(), [passage_fields(document, stored.section)])[0] if document else bytes(4)


def _phrase_shares(
    store: PassageSearcher, stored: Sequence[StoredSection], keyword_shares: Floats, phrases: Sequence[str]
) -> Floats:
    """The share of the phrases that each passage holds literally; only the passages with most of the words are read."""
    shares = np.zeros(len(stored))
    for row, text in _most_words(store, stored, keyword_shares) if phrases else ():
        heading = stored[row].section.heading
        shares[row] = sum(phrase_score(text, phrase, heading) for phrase in phrases) / len(phrases)
    return shares


def _definitions(
    store: PassageSearcher, stored: Sequence[StoredSection], keyword_shares: Floats, term: str | None
) -> Floats:
    """1 for passages that say what the term is that is asked for, or whose heading asks the same; those are read."""
    found = np.zeros(len(stored))
    if term is not None:
        pattern = defining_pattern(term)
        for row, text in _most_words(store, stored, keyword_shares):
            headings = (stored[row].title, *stored[row].section.heading_path)
            is_asked = any(map(partial(asks_for, term), headings))
            found[row] = is_asked or pattern.search(text) is not None
    return found


def _most_words(
    store: PassageSearcher, stored: Sequence[StoredSection], keyword_shares: Floats
) -> Iterator[tuple[int, str]]:
    """The rows of the passages with most of the words, and their texts."""
    documents = DocumentCache(store)
    order = np.argsort(-keyword_shares, kind="stable")[:MAX_READ_PASSAGES]
    rows = [int(row) for row in order if keyword_shares[row]]
    documents.load(stored[row] for row in rows)
    for row in rows:
        if (document := documents.get(stored[row])) is not None:
            yield row, document.text[stored[row].section.start : stored[row].section.end]


_RANKINGS: Mapping[Mode, Callable[[Candidates, Compare], Ranked]] = {
    "hybrid": rank_by_both,
    "vector": rank_by_meaning,
    "keyword": rank_by_words,
}


class DocumentCache:
    """Documents of a store, each loaded once."""

    def __init__(self, store: PassageSearcher) -> None:
        self._store = store
        self._documents: dict[tuple[str, str], Document | None] = {}

    def get(self, stored: StoredSection) -> Document | None:
        """The section's document; None if it was deleted meanwhile."""
        self.load([stored])
        return self._documents[stored.collection, stored.path]

    def load(self, sections: Iterable[StoredSection]) -> None:
        """Load the documents of sections at once."""
        wanted = {(each.collection, each.path) for each in sections} - self._documents.keys()
        if wanted:
            self._documents |= dict.fromkeys(wanted) | self._store.documents_at([*wanted])
