"""What are the things annai talks about? Frozen values, and nothing that does I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal, TypedDict

Format = Literal["markdown", "rst", "text"]
Mode = Literal["hybrid", "vector", "keyword"]
Sort = Literal["score", "depth", "path"]
Content = Literal["passage", "section", "document", "none"]
IndexStatus = Literal["latest", "updating", "outdated"]
ImportMode = Literal["new", "replace", "update"]
RequestStatus = Literal["pending", "processing", "completed", "failed", "skipped"]
FileCondition = Literal["latest", "waiting", "failed", "skipped"]
"""How a file stands in the index: as it is on disk, about to be indexed, in trouble, or left out."""

PREVIEW_LINES = 3
"""Lines of about 100 columns in each preview."""

IMPLICIT_COLLECTION = "root"
"""The name of the one collection of a project that has none registered: the project's root itself."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A registered directory of documents."""

    name: str
    source: Path
    description: str = ""
    enabled: bool = True
    imported_at: str = ""
    """When the last import of it ended (ISO 8601, UTC); empty if there was none."""
    embedder: str = ""
    """The identity of the embedder that made its vectors; empty while it has none."""
    settings: str = ""
    """A fingerprint of the settings its sections were made with; when it changes, every file is indexed anew."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file is not a document of the index, or why its document is out of date."""

    kind: Literal["skipped", "failed"]
    reason: str


@dataclass(frozen=True, slots=True)
class FileState:
    """What the index knows of one file on disk."""

    path: str
    """Relative to the collection's source, `/`-separated, NFC."""
    size: int
    mtime_ns: int
    hash: str = ""
    """SHA-256 of the file's bytes in hexadecimal; empty if they were never read."""
    problem: Problem | None = None
    ctime_ns: int = 0
    """When the file's content or status last changed, which nobody can set; 0 where the system does not tell."""


class ChangeKind(StrEnum):
    """What happened to a file since it was last indexed."""

    NEW = "new"
    UPDATED = "updated"
    TOUCHED = "touched"
    """Its time changed and its content did not: only the remembered time needs an update."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change:
    """One file that differs from what the index knows of it."""

    kind: ChangeKind
    path: str
    file: Path
    """Where it is on disk, spelled as the file system spells it."""
    size: int = 0
    mtime_ns: int = 0
    hash: str = ""
    """The content's hash where the comparison has made sure of it: for a file that was touched."""
    ctime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One line of the index queue: a path to look at again, and what came of it."""

    id: int
    collection: str
    path: str
    """A file, relative to the collection's source."""
    hash: str = ""
    """The content's hash, once it is known."""
    status: RequestStatus = "pending"
    created_at: str = ""
    """ISO 8601, UTC, as the other times; empty for what has not happened."""
    started_at: str = ""
    completed_at: str = ""
    error: str = ""
    """Why it failed or was skipped, or why the last attempt failed."""
    attempts: int = 0
    """How often it was tried in vain."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading line of a document."""

    level: int
    text: str
    start: int
    """Position of the first character of the heading's first line."""
    end: int
    """Position after the heading's last line (for setext and reStructuredText, after the underline)."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Where a text's headings stand, and which spans of it should not be cut."""

    headings: tuple[Heading, ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()
    """Spans (start, end) of tables, lists, code fences and HTML, in order, not overlapping."""


@dataclass(frozen=True, slots=True)
class Document:
    """One file, read whole."""

    collection: str
    path: str
    title: str
    text: str
    """The whole decoded file, front matter and line endings included: every position points into it."""
    state: FileState
    format: Format = "markdown"
    body_start: int = 0
    """Where the front matter ends and the body begins."""
    front_matter: Mapping[str, object] = field(default_factory=dict)
    outline: Outline = field(default_factory=Outline)
    """Only a freshly read document carries it; the store does not keep it."""


@dataclass(frozen=True, slots=True)
class Section:
    """A node of a document's tree: a span of its text.

    The first section of a document is its root, the whole body; parents come before their children. A *leaf* is
    a section without child sections; the leaves tile the body. A leaf too long to be embedded whole also has
    overlapping *pieces*. What is embedded and matched are the *passages*: pieces, and leaves without pieces that
    hold more than a heading.
    """

    order: int
    """Position in the document's list of sections; the root has 0."""
    parent: int | None
    """The parent's order; None for the root."""
    depth: int
    """0 for the whole document, 1–3 for what stands under a heading of that level."""
    heading: str
    heading_path: tuple[str, ...]
    """Headings from the outermost to this section's own."""
    number: tuple[int, ...]
    """Position in the outline: (1, 2) is the second part of the first; text before the first part has 0."""
    start: int
    end: int
    start_line: int
    """Counted from 1."""
    end_line: int
    """The last line with text of this section, inclusive."""
    token_count: int
    piece: int = 0
    """1, 2, 3 … for the pieces of a leaf; 0 for a section proper."""
    last_depth: int = -1
    """The deepest heading level this span stands for: 1 for a document that is one H1 chapter; else its depth."""
    is_passage: bool = True


@dataclass(frozen=True, slots=True)
class StoredSection:
    """A section as a store gives it back."""

    key: int
    """The store's own handle: the root's plus its order. It changes when the document is indexed again."""
    root_key: int
    """The handle of the document's root section."""
    collection: str
    path: str
    title: str
    section: Section
    is_cjk: bool
    """Whether the document is written in Japanese."""
    problem: Problem | None = None
    """Set when the file could not be read since: the section shows an older state."""
    waiting: bool = False
    """Whether a request for the file waits or is being done."""

    @property
    def id(self) -> str:
        """The public name of the section; it stays the same while the document's outline does."""
        return section_id(self.collection, self.path, self.section)


@dataclass(frozen=True, slots=True)
class Where:
    """Which documents a search looks at; empty means no restriction."""

    collections: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Path prefixes, at folder or file boundaries: `docs/api` holds `docs/api/a.md` and not `docs/apis.md`.

    A query may also have absolute paths and globs here; a store gets neither (`searching.filters`).
    """
    excludes: tuple[str, ...] = ()
    documents: tuple[str, ...] | None = None
    """Only documents of exactly these paths; None for no restriction. It is what a glob became: users do not set it."""
    clean_only: bool = False
    """Leave out documents whose file failed, or for which a request waits, since they were indexed."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its options."""

    text: str
    limit: int = 5
    offset: int = 0
    """How many of the best results to leave out: those that were seen before."""
    per_document: int = 1
    """How many sections of one document may be results of their own; 0 is no limit."""
    where: Where = field(default_factory=Where)
    depths: tuple[int, ...] = ()
    mode: Mode = "hybrid"
    sort: Sort = "score"
    content: Content = "section"
    preview_lines: int = PREVIEW_LINES

    @property
    def end(self) -> int:
        """The rank of the last result to show."""
        return self.offset + self.limit


class QueryOptions(TypedDict, total=False):
    """What may be said of a question beside its text: `Query` and its `Where`, as keyword arguments."""

    limit: int
    offset: int
    per_document: int
    collections: Sequence[str]
    paths: Sequence[str]
    excludes: Sequence[str]
    clean_only: bool
    depths: Sequence[int]
    mode: Mode
    sort: Sort
    content: Content
    preview_lines: int


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
    """What adds up to that: meaning, document, words, phrase, more_words, passage, window, coverage, title, behind."""


@dataclass(frozen=True, slots=True)
class OtherSection:
    """Another section of a hit's document that answers too."""

    id: str
    heading: str
    line: int
    """The line on which its passage that matched begins."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that answers a query, shown by its best section."""

    id: str
    collection: str
    path: str
    title: str
    heading: str
    heading_path: tuple[str, ...]
    depth: int
    section_number: tuple[int, ...]
    start_line: int
    end_line: int
    start_position: int
    end_position: int
    token_count: int
    score: float
    """0–1: how likely it answers. It means the same in every language, mode and collection."""
    content: str
    file: str = ""
    """Where the file is, from the project's root; `path` is its path in the collection."""
    preview: str = ""
    """The sentences that are closest to the question, without markup."""
    preview_line: int = 1
    """The line on which the preview begins."""
    index_status: IndexStatus = "latest"
    is_dirty: bool = False
    passage: str = ""
    """The text that matched best."""
    passage_line: int = 1
    """The line on which that text begins."""
    more: tuple[OtherSection, ...] = ()
    """Other sections of the document that answer too, best first."""
    reasons: Reasons = field(default_factory=Reasons)

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
    """How many documents match well, shown or not; of very many, only the best are counted."""
    results: tuple[Hit, ...]
    note: str = ""
    """What the reader should know of how it came about: that it was not reranked, and why."""
    corrected: Mapping[str, str] = field(default_factory=dict)
    """Words of the query that no document holds, and what was searched for in their place."""
    unmatched: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Paths of the query that no document is under, each with similar paths that there are."""
    expanded: Mapping[str, str] = field(default_factory=dict)
    """Abbreviations of the query, and what they stand for in the documents: both were searched for."""
    excluded: tuple[str, ...] = ()
    """Words and phrases of the query whose sections were left out: `-word`, `-"a phrase"`."""
    freshness: Freshness = field(default_factory=Freshness)
    """How closely the index followed the files when the question was answered."""
    sources: Mapping[str, Path] = field(default_factory=dict)
    """Where the files of each collection are."""

    @property
    def confident(self) -> bool:
        """Whether any document matches well; if not, the results are only the nearest there are."""
        return self.total > 0

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
            cells("td", f"{hit.score:.2f}", f"{hit.path}:{hit.preview_line}", hit.breadcrumbs, hit.preview)
            for hit in self.results
        ]
        return f"<table>{cells('th', 'score', 'file', 'section', 'text')}{''.join(rows)}</table>"


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import did."""

    added: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    size: int = field(default=0, compare=False)
    """Bytes of the files that were read."""
    passages: int = field(default=0, compare=False)
    """Passages that they have."""

    @property
    def counts(self) -> dict[str, int]:
        """How many files met which fate."""
        return {
            "added": self.added,
            "updated": self.updated,
            "deleted": self.deleted,
            "unchanged": self.unchanged,
            "skipped": self.skipped,
            "failed": self.failed,
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """A document, and the section of it that was asked for (its root, if none was)."""

    document: Document
    sections: Sequence[StoredSection]
    section: StoredSection
    """For some lines, the innermost section that holds them."""
    span: tuple[int, int]
    """The positions of what was asked for: of the section, of some lines, or of the whole file."""
    line: int = 1
    """The line that was asked for, or on which the section begins."""
    last_line: int = 0
    """The last of the lines that were asked for; 0 if no range of lines was."""
    file: str = ""
    """Where the file is, from the project's root; the document's `path` is its path in the collection."""

    @property
    def content(self) -> str:
        """The text that was asked for; of the root, the whole file, front matter included."""
        return self.document.text[slice(*self.span)]

    @property
    def parent(self) -> StoredSection | None:
        """The section around this one."""
        parent = self.section.section.parent
        return None if parent is None else self.sections[parent]

    @property
    def children(self) -> list[StoredSection]:
        """The sections directly inside this one; pieces are not sections of their own."""
        own = self.section.section.order
        return [each for each in self.sections if each.section.parent == own and not each.section.piece]

    def text(self, section: StoredSection) -> str:
        """A section's text."""
        return self.document.text[section.section.start : section.section.end]


@dataclass(frozen=True, slots=True)
class Statistics:
    """How much an index holds of one collection."""

    documents: int
    sections: int
    vectors: int


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document as a list shows it."""

    path: str
    title: str
    sections: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """A document or a folder of a listing."""

    name: str
    """As every command and tool takes it: a path, with the collection's name before it where there are several."""
    documents: int = 1
    title: str = ""
    """Empty for a folder."""
    sections: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """The documents under a path."""

    documents: int
    """How many there are."""
    entries: tuple[ListedEntry, ...]
    """All of them if they are few or a glob named them; else those in the folder itself, and its folders."""
    problems: tuple[FileState, ...] = ()
    """Files under the path that were skipped or failed, by path."""


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """How a collection stands."""

    collection: Collection
    statistics: Statistics
    problems: tuple[FileState, ...]
    """The files that were skipped or failed, by path."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or folder of a collection, as the index knows it."""

    path: str
    is_folder: bool
    files: int
    size: int
    """Bytes of all its files."""
    states: Mapping[FileCondition, int]
    """How many of its files are in each condition."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How a running server stands."""

    pid: int
    url: str
    started_at: str
    memory: int
    """Bytes of resident memory."""
    version: str


@dataclass(frozen=True, slots=True)
class Status:
    """How a project stands."""

    root: Path
    database: str
    """Where the index is, for people: a file, a folder or a server's address, with nothing secret in it."""
    size_on_disk: int
    embedder: str
    collections: tuple[CollectionStatus, ...]
    searched: tuple[str, ...] = ()
    """The collections that a search looks at if it names none."""
    requests: Mapping[RequestStatus, int] = field(default_factory=dict)
    """How many requests of the queue are in each state."""
    queued: int = 0
    """The most files that waited since the queue was last empty, as far as this process saw: those done and to do."""
    indexing: tuple[str, ...] = ()
    """The files (`COLLECTION:PATH`) that are being indexed right now."""
    errors: tuple[Request, ...] = ()
    """The latest requests that failed for good or wait to be tried again, newest first."""
    server: ServerStatus | None = None
    """The server that answered, if one did."""


def breadcrumbs(title: str, heading_path: Sequence[str]) -> str:
    """Where a section is in its document: the title, and the headings from the outermost to the section's own."""
    return " › ".join(dict.fromkeys(filter(None, (title, *heading_path))))


def section_id(collection: str, path: str, section: Section) -> str:
    """Name a section for the outside: `COLLECTION:PATH#1.2`, with `~3` for a piece, `COLLECTION:PATH` for the root."""
    number = ".".join(map(str, section.number))
    piece = f"~{section.piece}" if section.piece else ""
    return f"{collection}:{path}" + (f"#{number}{piece}" if number or piece else "")
