"""Which sections are shown? Passages are folded into sections, and each document is shown by the one that says it."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from annai.answers import Content, Hit, OtherSection, Query
from annai.asking.exclusion import Exclusions
from annai.files.pages import page_at
from annai.searching.confidence import MIN_GATE
from annai.searching.passages import DocumentCache, ScoredPassage
from annai.searching.preview import Preview, Previewed, make_previews
from annai.stores.base import PassageSearcher
from annai.text.fields import FIELD_NAMES, passage_fields
from annai.text.links import link_share
from annai.text.metadata import document_times
from annai.text.tokens import query_words, words
from annai.timer import timer
from annai.types import Document, Section, StoredSection, section_id

_TEXT = re.compile(r"\S")

MAX_MORE = 3
"""Other sections of a document that are named with its best one."""

MIN_ABOUT = 0.75
"""How nearly a question must be a page's title to be a question about the whole page."""

MAX_LINK_SHARE, MAX_LAST_LINK_SHARE = 0.4, 0.2
"""A section, or the last one of a page, with a greater share of its words in links only leads elsewhere."""

MAX_CLOSER_TOKENS = 350
"""A longer last section does more than end its page."""

MIN_INSTEAD_SHARE, MIN_EQUAL_SHARE, MAX_INSTEAD = 0.6, 0.9, 5
"""What is shown instead of such a section, or of one that only ends a page: one of the next best, if it scores at least
this share of it."""

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
        """The same document, as sure as before, shown by another section."""
        sure = self.match.passage
        passage = match.passage._replace(gate=sure.gate, likelihood=sure.likelihood)
        others = [each for each in (self.match, *self.others) if each.id != match.id]
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
    asked = _content_words(text) or {*query_words(text)}
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
    store: PassageSearcher, documents: DocumentCache, results: Sequence[Result], query: Query, exclusions: Exclusions
) -> list[Hit]:
    """The results with their texts."""
    # Where several sections of a document may be shown, or those of one depth, each is what it is.
    may_choose = query.per_document == 1 and not query.depths
    around = _look_around(store, [result.match for result in results])
    asked = _content_words(query.text)
    documents.load(result.match.passage.stored for result in results)
    loaded = []
    for found in results:
        document = documents.get(found.match.passage.stored)
        if document is None:
            continue
        opening = partial(_opening, store, exclusions, found.match)
        result = _choose_section(found, opening, document, asked) if may_choose else found
        section = result.match.section
        if not _stands_alone(section):
            key = _key_around(result.match)
            section = (around.get(key) or store.lookup([key])[key]).section
        loaded.append((section, result, document))
    with timer("preview"):
        passages = [
            Previewed(document, section, result.match.passage.stored.section, result.match.passage.place)
            for section, result, document in loaded
        ]
        previews = make_previews(query.text, passages, query.preview_lines)
    hits: list[Hit] = []
    told: set[tuple[str, str]] = set()
    for (section, result, document), preview in zip(loaded, previews, strict=True):
        # A document's text is there once, with its first result: a thousand results may be of one long document.
        place = (document.collection, document.path)
        content = "none" if query.content == "document" and place in told else query.content
        told.add(place)
        hits.append(_hit(section, result, document, preview, content))
    return hits


def _look_around(store: PassageSearcher, matches: Sequence[SectionMatch]) -> dict[int, StoredSection]:
    """The sections around those matches that are pieces, by key."""
    keys = [_key_around(match) for match in matches if not _stands_alone(match.section)]
    return store.lookup(keys) if keys else {}


def _key_around(match: SectionMatch) -> int:
    """The key of the section that a piece belongs to."""
    return match.passage.stored.root_key + (match.section.parent or 0)


def _opening(store: PassageSearcher, exclusions: Exclusions, match: SectionMatch) -> SectionMatch | None:
    """The first passage of the text before the first part of a match's document, if there is another such text."""
    root = match.passage.stored.root_key
    # It comes right after the root: a passage, or a section and its first piece. A shorter document has none, and these
    # are the keys of the next one.
    for _, first in sorted(store.lookup([root + 1, root + 2]).items()):
        section = first.section
        is_opening = first.root_key == root and section.is_passage and section.number == (0,)
        if is_opening and section.order != match.section.order:
            passage = match.passage._replace(stored=first, place=0.0)
            return None if exclusions.hold(first, section) else SectionMatch(section, passage)
    return None


def _choose_section(
    result: Result, opening: Callable[[], SectionMatch | None], document: Document, asked: set[str]
) -> Result:
    """The result, shown by the section that says it.

    A question about a page as a whole is answered by the page's opening. A section that only leads elsewhere, or that
    ends a page and has nothing of the question in its heading, gives way to the next best.
    """
    match = result.match
    is_later = match.section.number[:1] not in ((), (0,))
    if is_later and _is_about(match.passage, asked) and (start := opening()):
        return result.showing(start)
    links, is_last = _link_share(match, document), _is_last(match, document)
    if links > (MAX_LAST_LINK_SHARE if is_last else MAX_LINK_SHARE):
        min_share = MIN_INSTEAD_SHARE
    elif is_last and _only_ends(match.section, asked):
        min_share = MIN_EQUAL_SHARE
    else:
        return result
    others = [each for each in result.others[:MAX_INSTEAD] if each.passage.score >= min_share * match.passage.score]
    start = opening() if links > MAX_LAST_LINK_SHARE else None
    for instead in (*others, *([start] if start else [])):
        if not _is_last(instead, document) and _link_share(instead, document) <= MAX_LINK_SHARE:
            return result.showing(instead)
    return result


def _only_ends(last: Section, asked: set[str]) -> bool:
    """Whether the last section of a page is short, and its heading says something else than the question."""
    heading = _content_words(last.heading)
    return last.token_count <= MAX_CLOSER_TOKENS and not asked & heading and any(map(str.isalpha, last.heading))


def _link_share(match: SectionMatch, document: Document) -> float:
    return link_share(document.text[match.section.start : match.section.end])


def _is_last(match: SectionMatch, document: Document) -> bool:
    """Whether it is the last section of its document, and not the only one."""
    return bool(match.section.number) and not _TEXT.search(document.text, match.section.end)


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


def _hit(section: Section, result: Result, document: Document, preview: Preview, content: Content) -> Hit:
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
        reasons=scored.reasons,
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
