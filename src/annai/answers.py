"""What is asked, and what is answered? Frozen values, and nothing that does I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, TypedDict

from annai.definitions import dataclass

Mode = Literal["hybrid", "vector", "keyword", "exact"]
Sort = Literal["score", "depth", "-depth", "path"]
Content = Literal["passage", "section", "document", "none"]
IndexStatus = Literal["latest", "updating", "outdated"]
Operator = Literal["=", "!=", "<", "<=", ">", ">="]
Verdict = Literal["answers", "may answer", "no good match"]

ANSWERS, MAY_ANSWER = 0.5, 0.05
"""The least scores of a document that answers, and of one that may answer. Lower is what is not about the question
(`searching.confidence`)."""

PREVIEW_LINES = 3
"""Lines of about 100 columns in each preview."""

FIRST_TIMES = 3
"""That of the first result has up to so many times as many: most of the best window, and another one."""

WINDOW_TOKENS = 1_500
"""About so many tokens have the windows of five results together."""


def verdict_of(score: float) -> Verdict:
    """What a likelihood means, in words."""
    return "answers" if score >= ANSWERS else "may answer" if score >= MAY_ANSWER else "no good match"


@dataclass(frozen=True, slots=True)
class Condition:
    """What a document must say about itself: `status=draft`, `date>=2025-01-01` (`asking.conditions`)."""

    field: str
    """A name of its front matter or properties, of nested ones `a.b`; or `created` or `updated`."""
    operator: Operator
    value: str
    """Empty with `=` for documents without the field, with `!=` for those that have it."""

    def __str__(self) -> str:
        # As it can be typed again.
        is_plain = self.value == self.value.strip() and not self.value.startswith(('"', "'", "="))
        return f"{self.field}{self.operator}" + (self.value if is_plain else f'"{self.value}"')


@dataclass(frozen=True, slots=True)
class Where:
    """Which documents a search looks at; empty means no restriction."""

    collections: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Path prefixes, at folder or file boundaries: `docs/api` holds `docs/api/a.md` and not `docs/apis.md`.

    A query may also have absolute paths and globs here; a store gets neither (`asking.filters`).
    """
    excludes: tuple[str, ...] = ()
    documents: tuple[str, ...] | None = None
    """Only documents of exactly these paths; None for no restriction. It is what globs and conditions became: users do
    not set it."""
    clean_only: bool = False
    """Leave out documents whose file failed, or for which a request waits, since they were indexed."""
    conditions: tuple[Condition, ...] = ()
    """What all documents must say about themselves; a store does not get these (`asking.filters`)."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its options."""

    text: str
    limit: int = 5
    """How many results at most."""
    offset: int = 0
    """How many of the best results to leave out: those that were seen before."""
    per_document: int = 1
    """How many sections of one document may be results of their own; 0 is no limit."""
    where: Where = field(default_factory=Where)
    depths: tuple[int, ...] = ()
    """Only sections of these depths: 0 whole documents, 1–3 headings of that level; empty for all."""
    mode: Mode = "hybrid"
    """By meaning and by words, or by one of them; or exact: every line that holds the text, or /a pattern/."""
    sort: Sort = "score"
    content: Content = "section"
    """What the hits carry as their `content`."""
    preview_lines: int = PREVIEW_LINES
    """How many lines of about 100 columns the hits' `preview` has; of the first result up to three times as many."""
    max_tokens: int = WINDOW_TOKENS
    """About how many tokens the windows of five results have together."""

    @property
    def end(self) -> int:
        """The rank of the last result to show."""
        return self.offset + self.limit


class QueryOptions(TypedDict, total=False):
    """What may be said of a question beside its text: the fields of `Query` and its `Where`, as keyword arguments."""

    limit: int | None
    """None, as wherever it may be: what [search] in the settings says; in an exact search, all."""
    offset: int
    per_document: int | None
    collections: Sequence[str]
    paths: Sequence[str]
    excludes: Sequence[str]
    clean_only: bool
    where: Sequence[str]
    """Conditions as they are typed: `status=draft`, `tags=k8s`, `date>=2025-01-01`; all must hold."""
    since: str
    """Only documents updated since then: `2w` (h, d, w, m, y), or a date."""
    until: str
    depths: Sequence[int]
    mode: Mode | None
    sort: Sort
    content: Content | None
    preview_lines: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Reasons:
    """Where a hit's score comes from."""

    similarity: float = 0.0
    """Cosine of the query's vector and the best passage's."""
    document_similarity: float = 0.0
    """Cosine of the query's vector and the whole document's."""
    keywords: float = 0.0
    """The share of the query's words, by weight, that the best passage holds, 0–1."""
    rerank: float | None = None
    """What the reranker gives it, 0–1; None where none looked at it."""
    ranking: float = 0.0
    """What it is ranked by, 0–1: it tells the results of one question apart, and means nothing by itself."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What adds up to that: meaning, document, words, phrase, more_words, definition, translated,
    passage, window, coverage, title, about, empty, behind."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a document that answers, as it is written: whole sentences, items or lines of code."""

    text: str
    start_line: int
    """The line on which it begins, counted from 1."""
    end_line: int
    heading_path: tuple[str, ...]
    """Headings from the outermost to its section's own."""
    id: str
    """The address of its section, which `locate` takes."""
    page: int = 0
    """The page or slide of the file on which it begins; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class OtherSection:
    """Another section of a hit's document that answers too."""

    id: str
    heading: str
    line: int
    """The line on which its passage that matched begins."""
    page: int = 0
    """The page or slide of the file on which it begins; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that answers a query, shown by its best section."""

    id: str
    """The section's address, which `locate` takes: `COLLECTION:PATH#1.2`."""
    collection: str
    path: str
    """The document's path in its collection."""
    title: str
    heading: str
    """The section's own heading."""
    heading_path: tuple[str, ...]
    """Headings from the outermost to the section's own."""
    depth: int
    """0 for the whole document, 1–3 for what stands under a heading of that level."""
    section_number: tuple[int, ...]
    """Position in the outline: (1, 2) is the second part of the first."""
    start_line: int
    """The section's first line, counted from 1. In an exact search lines and positions are those of the line."""
    end_line: int
    """Its last line, inclusive."""
    start_position: int
    """Where it begins in the document's text, in characters."""
    end_position: int
    token_count: int
    score: float
    """0–1: how likely it answers, fitted to questions whose right documents are known: of the results with a score near
    .7, about 70% are right, in every language, mode and collection."""
    content: str
    """As the query asks: the passage that matched, the section, the document (with its first hit only) or nothing.
    In an exact search the line, or nothing."""
    file: str = ""
    """Where the file is, from the project's root; `path` is its path in the collection."""
    created: str = ""
    """When the document was written, if it says so (ISO 8601, perhaps only a date)."""
    updated: str = ""
    """When it was last changed: what it says, or else the time of its file."""
    preview: str = ""
    """The sentences that are closest to the question, without markup."""
    preview_line: int = 1
    """The line on which the preview begins."""
    page: int = 0
    """The page of the file, or the slide, on which the preview begins; 0 if there are none, or if it is unknown."""
    index_status: IndexStatus = "latest"
    """As its file is now, waiting to be indexed again, or older than the file, which could not be read."""
    is_dirty: bool = False
    """Whether it is not the latest."""
    passage: str = ""
    """The text that matched best."""
    passage_line: int = 1
    """The line on which that text begins."""
    windows: tuple[Window, ...] = ()
    """What answers, from all over the document, in its order; the windows of five results compete for `max_tokens`."""
    more: tuple[OtherSection, ...] = ()
    """Other sections of the document that answer too, best first."""
    reasons: Reasons = field(default_factory=Reasons)

    @property
    def verdict(self) -> Verdict:
        """The score in words: whether it answers."""
        return verdict_of(self.score)

    @property
    def breadcrumbs(self) -> str:
        """Where it is: the document's title, and the headings from the outermost to its own."""
        return breadcrumbs(self.title, self.heading_path)

    @property
    def text(self) -> str:
        """What to read of it: the content that was asked for, or the passage that matched."""
        return self.content or self.passage


@dataclass(frozen=True, slots=True)
class Freshness:
    """How closely the index follows the files."""

    waiting: int = 0
    """Files that are still being indexed."""
    problem: str = ""
    """Why the index could not be brought up to date, as a sentence; empty if it was."""
    is_first: bool = False
    """Whether the files that wait belong to a first index: most of what there is may be missing."""

    @property
    def notes(self) -> list[str]:
        """What to say of it with an answer."""
        files = "1 file is" if self.waiting == 1 else f"{self.waiting:,} files are"
        waiting = [f"{files} still being indexed, and results may lack them; ask again in a while."]
        return [*(waiting if self.waiting else []), *([self.problem] if self.problem else [])]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search returns: iterate over it for its hits, best first."""

    query: str
    took_ms: float
    total: int
    """How many results there are, of which `results` has those that were asked for; of very many, only the best are
    counted. In an exact search, how many lines: all of them."""
    results: tuple[Hit, ...]
    best_score: float = 0.0
    """The score of the best result, whether it is among those shown or before them."""
    note: str = ""
    """What the reader should know of how it came about: that it was not reranked, and why."""
    empty: str = ""
    """Why there was nothing to search, as a sentence: no file here is a document."""
    corrected: Mapping[str, str] = field(default_factory=dict)
    """Words of the query that no document holds, and what was searched for in their place."""
    unmatched: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Paths of the query that no document is under, each with similar paths that there are."""
    unmet: Mapping[str, str] = field(default_factory=dict)
    """Conditions of the query that no document meets, each with a sentence that says what there is."""
    expanded: Mapping[str, str] = field(default_factory=dict)
    """Abbreviations of the query, and what they stand for in the documents: both were searched for."""
    excluded: tuple[str, ...] = ()
    """Words and phrases of the query whose sections were left out: `-word`, `-"a phrase"`."""
    freshness: Freshness = field(default_factory=Freshness)
    """How closely the index followed the files when the question was answered."""
    sources: Mapping[str, Path] = field(default_factory=dict)
    """Where the files of each collection are."""
    matching: int = 0
    """How many of the `total` match well."""
    mode: Mode = "hybrid"
    """How it was searched for."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the best result."""
        return verdict_of(self.best_score)

    @property
    def confident(self) -> bool:
        """Whether any result answers or may answer; if not, the results are only the nearest there are."""
        return self.verdict != "no good match"

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, rank: int) -> Hit:
        return self.results[rank]

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        from html import escape  # only notebooks ask for it

        def cells(tag: str, *values: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(value)}</{tag}>" for value in values) + "</tr>"

        rows = [
            cells("td", hit.verdict, f"{hit.score:.2f}", f"{hit.path}:{hit.preview_line}", hit.breadcrumbs, hit.preview)
            for hit in self.results
        ]
        return f"<table>{cells('th', 'verdict', 'score', 'file', 'section', 'text')}{''.join(rows)}</table>"


def breadcrumbs(title: str, heading_path: Sequence[str]) -> str:
    """Where a section is in its document: the title, and the headings from the outermost to the section's own."""
    return " › ".join(dict.fromkeys(filter(None, (title, *heading_path))))
