"""Which sections are shown? Passages are folded into sections, and each document is shown by the one that says it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from typing import NamedTuple

from annai.answers import Content, Hit, OtherSection, Window
from annai.asking.meant import Meant
from annai.definitions import lazy_pattern
from annai.files.pages import page_at
from annai.searching.confidence import MIN_GATE
from annai.searching.passages import DocumentCache, ScoredPassage
from annai.searching.preview import Preview, make_preview
from annai.searching.windows import Page, RatedWindow, choose_windows, rate_windows
from annai.stores.base import PassageSearcher
from annai.text.fields import FIELD_NAMES, passage_fields
from annai.text.lines import line_at
from annai.text.metadata import document_times
from annai.text.tokens import query_words, words
from annai.timer import timer
from annai.types import Document, Section, StoredSection, section_id

_HIRAGANA = lazy_pattern(r"[\u3041-\u309f]")

MAX_MORE = 3
"""Other sections of a document that are named with its best one."""

MIN_ABOUT = 0.75
"""How nearly a question must be a page's title to be a question about the whole page."""

COMPETING = 5
"""The windows of so many results compete with each other, whether all of them are shown or not."""

MAX_SECTIONS = 10
"""So many of their best sections are read, and the best of each: all of them together do no better."""

MAX_SECTION_CHARACTERS = 12_000
"""Of a longer section, and of a page without headings, only the pieces that were found are cut into windows."""

MAX_CREDITED, WORDS_GATE = 5, 0.5
"""If the gate is shut for the first results, it is this for one of them that holds every word of the question."""

MIN_MORE_SHARE = 0.7
"""A section is named if it is at least this share as sure as its document's best one."""


class SectionMatch(NamedTuple):
    """A section that answers, and its best passage."""

    section: Section
    passage: ScoredPassage

    @property
    def id(self) -> str:
        """The public name of what is shown."""
        stored = self.passage.stored
        section = self.section if _stands_alone(self.section) else self.section._replace(piece=0)
        return section_id(stored.collection, stored.path, section)


class Result(NamedTuple):
    """A section to show, and the others of its document that were found, best first."""

    match: SectionMatch
    others: list[SectionMatch]

    def with_gate(self, gate: float) -> "Result":
        """The same result, with another gate."""
        return self._replace(match=self.match._replace(passage=self.match.passage._replace(gate=gate)))

    def showing(self, match: SectionMatch) -> "Result":
        """The same document, as sure as before, shown by one of its matches."""
        if match is self.match:
            return self
        sure = self.match.passage
        passage = match.passage._replace(gate=sure.gate, likelihood=sure.likelihood)
        others = [each for each in (self.match, *self.others) if each is not match]
        return Result(match._replace(passage=passage), others)


def fold_into_sections(
    store: PassageSearcher, passages: Sequence[ScoredPassage], depths: Sequence[int]
) -> list[SectionMatch]:
    """The sections that answer, each with its best passage, best first.

    A passage stands for the leaf it belongs to or, if depths are asked for, for every section of those depths around
    it. A piece of a whole document stands for itself: it is the smallest part that can be shown.
    """
    best: dict[tuple[int, tuple[int, ...], int], SectionMatch] = {}
    trees: dict[int, list[StoredSection]] = {}
    for passage in passages:
        stored = passage.stored
        if not depths:
            # A piece has the number of its leaf; one of a whole document has none.
            section = stored.section
            key = (stored.root_key, section.number, 0 if section.number else section.piece)
            if key not in best:
                best[key] = SectionMatch(section, passage)
            continue
        if stored.root_key not in trees:
            trees[stored.root_key] = store.sections(stored.collection, stored.path)
        for section in ancestors(trees[stored.root_key], stored.section):
            if not section.piece and any(section.depth <= depth <= section.last_depth for depth in depths):
                best.setdefault((stored.root_key, section.number, 0), SectionMatch(section, passage))
    return [*best.values()]


def group_by_document(matches: Sequence[SectionMatch], per_document: int) -> list[Result]:
    """The sections to show, at most so many of a document (0: all), best first; the others are named with the first."""
    results: list[Result] = []
    first: dict[int, Result] = {}
    counts: Counter[int] = Counter()
    for match in matches:
        root = match.passage.stored.root_key
        counts[root] += 1
        if per_document and counts[root] > per_document:
            first[root].others.append(match)
            continue
        results.append(Result(match, []))
        first.setdefault(root, results[-1])
    return results


def credit_words(documents: DocumentCache, results: Sequence[Result], text: str) -> list[Result]:
    """The results, where one that holds every word of a question is a match, however unsure it is by other measures."""
    content = _content_words(text)
    # Pairs of characters of Japanese with hiragana in them are where words meet: 泊の and の上 in 宿泊の上限.
    asked = {word for word in content if not _HIRAGANA.search(word)} or content or {*query_words(text)}
    doubtful = [each for each in results[:MAX_CREDITED] if each.match.passage.gate < MIN_GATE]
    if not asked or len(doubtful) < len(results[:MAX_CREDITED]):
        return [*results]
    documents.load(each.match.passage.stored for each in doubtful)
    holding = [rank for rank, each in enumerate(doubtful, 1) if _holds_all(documents, each.match.passage.stored, asked)]
    # Nobody is less sure than who comes after.
    credited = max(holding, default=0)
    if credited and credited == len(doubtful):
        # A word that nearly every document has: the next ones that have as much of it are matches too.
        least = min(each.match.passage.words_share for each in doubtful)
        credited += sum(1 for _ in takewhile(lambda each: each.match.passage.words_share >= least, results[credited:]))
    return [*(each.with_gate(WORDS_GATE) for each in results[:credited]), *results[credited:]]


def _holds_all(documents: DocumentCache, stored: StoredSection, asked: set[str]) -> bool:
    """Whether a passage holds all words; one of a single CJK character begins others."""
    if (document := documents.get(stored)) is None:
        return False
    fields = passage_fields(document, stored.section)
    held = {*words("\n".join(getattr(fields, name) for name in FIELD_NAMES))}
    return all(word in held or (len(word) == 1 and any(each[0] == word for each in held)) for word in asked)


def load_hits(
    store: PassageSearcher,
    documents: DocumentCache,
    results: Sequence[Result],
    passages: Sequence[ScoredPassage],
    meant: Meant,
) -> list[Hit]:
    """The results that are wanted, with their texts.

    `passages` are all that were found, best first. Windows compete in groups of results that do not depend on which
    of them are wanted, and neither does what is shown of each.
    """
    query = meant.query
    first = query.offset - query.offset % COMPETING
    competing = results[first : -(-query.end // COMPETING) * COMPETING]
    documents.load(result.match.passage.stored for result in competing)
    roots = {result.match.passage.stored.root_key for result in competing}
    found: dict[int, list[ScoredPassage]] = {root: [] for root in roots}
    for passage in passages:
        if passage.stored.root_key in roots:
            found[passage.stored.root_key].append(passage)
    around = _look_around(store, [passage for each in found.values() for passage in each])
    hits: list[Hit] = []
    for start in range(0, len(competing), COMPETING):
        hits += _group_hits(competing[start : start + COMPETING], first + start, documents, found, around, meant)
    return _tell_documents_once(hits[query.offset - first : query.end - first], query.content)


def _tell_documents_once(hits: Sequence[Hit], content: Content) -> list[Hit]:
    """The hits, where a document's text is there once, with its first: a thousand may be of one long document."""
    told: set[tuple[str, str]] = set()
    once = []
    for hit in hits:
        is_told = content == "document" and (hit.collection, hit.path) in told
        told.add((hit.collection, hit.path))
        once.append(replace(hit, content="") if is_told else hit)
    return once


def _group_hits(
    results: Sequence[Result],
    offset: int,
    documents: DocumentCache,
    found: Mapping[int, Sequence[ScoredPassage]],
    around: Mapping[int, StoredSection],
    meant: Meant,
) -> list[Hit]:
    """Results whose windows compete, from a rank on. Those that were deleted meanwhile are left out."""
    query = meant.query
    # Where several sections of a document may be shown, or those of one depth, each is what it is.
    may_choose = query.per_document == 1 and not query.depths
    asked = _content_words(query.text)
    shown, loaded, near = [], [], []
    for result in results:
        stored = result.match.passage.stored
        if (document := documents.get(stored)) is None:
            continue
        whole = None if may_choose else _whole(result.match, around)
        passages = found[stored.root_key]
        near.append([each for each in passages if not whole or _is_in(each.stored.section, whole)])
        loaded.append(document)
        shown.append(result)
    wanted = _best_sections(near)
    pages = []
    for result, document, passages in zip(shown, loaded, near, strict=True):
        spans = [(each.stored.section.start, each.stored.section.end, each.score) for each in passages]
        read = [each for each in passages if _leaf_key(each) in wanted]
        pages.append(Page(document, _sections(read, around), spans, _is_about(result.match.passage, asked)))
    with timer("windows"):
        rated = rate_windows(meant.spelled_out, pages)
        chosen = choose_windows(pages, rated, query.max_tokens)
    hits: list[Hit] = []
    for result, page, windows, runs in zip(shown, pages, rated, chosen, strict=True):
        best = max(windows, key=lambda each: each.rating, default=None)
        if best and may_choose:
            result = result.showing(_match_around(result, best))  # noqa: PLW2901
        section = _whole(result.match, around)
        with timer("preview"):
            place = best or result.match.passage.stored.section
            span, more = (place.start, place.end), [] if offset or hits else windows
            preview = make_preview(query.text, page.document, section, span, query.preview_lines, more)
        hits.append(_hit(section, result, page.document, preview, runs, query.content))
    return hits


def _look_around(store: PassageSearcher, passages: Sequence[ScoredPassage]) -> dict[int, StoredSection]:
    """The sections around those passages that are pieces, by key."""
    keys = {_key_around(each.stored, each.stored.section) for each in passages if each.stored.section.piece}
    return store.lookup([*keys]) if keys else {}


def _key_around(stored: StoredSection, piece: Section) -> int:
    """The key of the section that a piece belongs to."""
    return stored.root_key + (piece.parent or 0)


def _best_sections(passages: Sequence[Sequence[ScoredPassage]]) -> set[int]:
    """The keys of the sections that are read: the best of all documents, and the best of each."""
    best: dict[int, float] = {}
    for each in chain.from_iterable(passages):
        best.setdefault(_leaf_key(each), each.score)
    ranked = sorted(best, key=lambda key: -best[key])
    return {*ranked[:MAX_SECTIONS], *(_leaf_key(each[0]) for each in passages if each)}


def _leaf_key(passage: ScoredPassage) -> int:
    """The key of the section that a passage is, or is a piece of."""
    stored = passage.stored
    return _key_around(stored, stored.section) if stored.section.piece else stored.key


def _whole(match: SectionMatch, around: Mapping[int, StoredSection]) -> Section:
    """What is shown of a match: a piece stands for the section it belongs to, unless that is the document."""
    section = match.section
    return section if _stands_alone(section) else around[_key_around(match.passage.stored, section)].section


def _sections(passages: Sequence[ScoredPassage], around: Mapping[int, StoredSection]) -> list[Section]:
    """The sections of a document in which something was found, in order; of long ones, the pieces, without overlap."""
    pieces: dict[Section, list[Section]] = {}
    for each in passages:
        piece = each.stored.section
        leaf = around[_leaf_key(each)].section if piece.piece else piece
        pieces.setdefault(leaf, []).append(piece)
    found: list[Section] = []
    for leaf in sorted(pieces):
        is_short = leaf.number and leaf.end - leaf.start <= MAX_SECTION_CHARACTERS
        for part in [leaf] if is_short else sorted(pieces[leaf]):
            start = max(part.start, found[-1].end if found else 0)
            found.append(part._replace(start=start))
    return found


def _match_around(result: Result, window: RatedWindow) -> SectionMatch:
    """The match of the section that a window is in."""
    number, piece = window.section.number, window.section.piece
    matches = (result.match, *result.others)
    there = (each for each in matches if each.section.number == number and (number or each.section.piece == piece))
    return next(there, result.match)


def _is_in(part: Section, section: Section) -> bool:
    return section.start <= part.start and part.end <= section.end


def _is_about(passage: ScoredPassage, asked: set[str]) -> bool:
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


def ancestors(tree: Sequence[StoredSection], section: Section) -> Iterator[Section]:
    """The section itself, its parent, and so on up to the root."""
    yield section
    while section.parent is not None:
        section = tree[section.parent].section
        yield section


def _hit(
    section: Section,
    result: Result,
    document: Document,
    preview: Preview,
    runs: Sequence[RatedWindow],
    content: Content,
) -> Hit:
    scored = result.match.passage
    stored, passage = scored.stored, scored.stored.section
    texts = {
        "passage": document.text[passage.start : passage.end],
        "section": document.text[section.start : section.end],
        "document": document.text,
        "none": "",
    }
    created, updated = document_times(document.front_matter, document.state.mtime_ns)
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
        created=created,
        updated=updated,
        preview=preview.text,
        preview_line=preview.line,
        index_status="outdated" if stored.problem else "updating" if stored.waiting else "latest",
        is_dirty=stored.problem is not None or stored.waiting,
        passage=texts["passage"],
        passage_line=passage.start_line,
        page=page_at(stored.path, document.text, preview.position),
        more=_more(result, document),
        windows=tuple(_window(stored, document, each) for each in runs),
        reasons=scored.reasons,
    )


def _window(stored: StoredSection, document: Document, run: RatedWindow) -> Window:
    """A run of windows with its address."""
    section = run.section
    # The section's own heading is said with it.
    start = run.heading_start if run.heading_start > section.start else run.start
    text = document.text[start : run.end].rstrip()
    return Window(
        text=text,
        start_line=line_at(document.text, start),
        end_line=line_at(document.text, start + len(text)),
        heading_path=section.heading_path,
        id=section_id(stored.collection, stored.path, section if _stands_alone(section) else section._replace(piece=0)),
        page=page_at(document.path, document.text, start),
    )


def _more(result: Result, document: Document) -> tuple[OtherSection, ...]:
    """The other sections of a document that answer too."""
    least = max(MIN_GATE, MIN_MORE_SHARE * result.match.passage.gate)
    named = [each for each in result.others if each.passage.gate >= least][:MAX_MORE]
    return tuple(_other(each, document) for each in named)


def _other(match: SectionMatch, document: Document) -> OtherSection:
    begin = match.passage.stored.section
    page = page_at(document.path, document.text, begin.start)
    return OtherSection(match.id, match.section.heading, begin.start_line, page)
