"""What are the things annai talks about? Frozen values, and nothing that does I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple

from annai.definitions import dataclass

Format = Literal["markdown", "rst", "text"]
ImportMode = Literal["new", "replace", "update"]
RequestStatus = Literal["pending", "processing", "completed", "failed", "skipped"]
FileCondition = Literal["latest", "waiting", "failed", "skipped"]
"""How a file stands in the index: as it is on disk, about to be indexed, in trouble, or left out."""


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
    chunk_size: int | None = None
    """Tokens per window or piece, as an import was told; None: as the settings say."""
    chunk_overlap: int | None = None
    """Tokens shared by neighbours, in the same way."""
    owner: str = ""
    """In an index that machines share, the machine that indexes it; the others only serve it. Empty: nobody yet."""
    origin: str = ""
    """The file system that its folder was on when it was last compared (`indexing.deletions`); empty if unknown."""
    probe: str = ""
    """What its embedder made of a fixed text (`models.probe`): another model under the same name makes another."""


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

    def marked_as_changed(self) -> "FileState":
        """The same state with a size that no file has, so that the next comparison reads the file again."""
        return replace(self, size=-1, hash="")

    @property
    def is_marked_as_changed(self) -> bool:
        """Whether the file is to be read again, whatever is on disk."""
        return self.size < 0


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
    """Why it failed, was skipped or waits, or what else is to be said of it."""
    attempts: int = 0
    """How often it was tried in vain."""


@dataclass(frozen=True, slots=True)
class Queued:
    """What was queued."""

    count: int
    """How many files."""
    requests: tuple[Request, ...]
    """The requests of the first of them, in their order."""


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


class Section(NamedTuple):
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
    """The deepest heading level this span stands for: of a chapter that is the whole document, of short sections that
    stayed inside this one; else its depth."""
    is_passage: bool = True


class StoredSection(NamedTuple):
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


LINK = "symbolic link"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Files of one kind that are not read, though no rule excludes them."""

    suffix: str
    """How their names end: `.png`; empty for names without an ending, and "symbolic link" for what links lead to."""
    files: int
    """How many; of links, not what lies behind them."""
    install: str = ""
    """The command or setting that makes annai read them; empty if annai does not read such files."""


def join_left_out(kinds: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Files that are not read, of several collections, by kind."""
    counts: dict[tuple[str, str], int] = {}
    for each in kinds:
        counts[each.suffix, each.install] = counts.get((each.suffix, each.install), 0) + each.files
    joined = [LeftOut(suffix, files, install) for (suffix, install), files in counts.items()]
    return tuple(sorted(joined, key=lambda each: (not each.install, -each.files, each.suffix)))


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
    left_out: tuple[LeftOut, ...] = field(default=(), compare=False)
    """Files that annai did not look into, where everything was looked through."""
    note: str = field(default="", compare=False)
    """What the settings ask for that an update does not do, as a sentence: another model."""

    def __add__(self, other: "ImportSummary") -> "ImportSummary":
        return ImportSummary(
            **{name: count + other.counts[name] for name, count in self.counts.items()},
            size=self.size + other.size,
            passages=self.passages + other.passages,
            left_out=join_left_out((*self.left_out, *other.left_out)),
            note=" ".join(dict.fromkeys(filter(None, (self.note, other.note)))),
        )

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
    created: str = ""
    """When it was written, if it says so; and when it was last changed, as a `Hit` has them."""
    updated: str = ""


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
    created: str = ""
    updated: str = ""


@dataclass(frozen=True, slots=True)
class MetadataField:
    """Something that documents say about themselves, by which they can be found: `status`, `tags`."""

    name: str
    documents: int
    """How many have it."""
    values: Mapping[str, int] = field(default_factory=dict)
    """Its most frequent values, and how many documents have each."""


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
    left_out: tuple[LeftOut, ...] = ()
    """The files that annai does not look into, by kind: first those that an extra would read, then the most."""
    note: str = ""
    """Why this machine does not compare it with its files, and how a change of its model stands, as sentences."""


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
    cpu_percent: float = 0.0
    """How busy it was in the last second, in per cent of one core."""
    cpu_seconds: float = 0.0
    """Processor time since it started."""


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
    problem: str = ""
    """Why the index file answers in place of the engine beside it (it lost its data, or is down), and what to do."""


def section_id(collection: str, path: str, section: Section) -> str:
    """Name a section for the outside: `COLLECTION:PATH#1.2`, with `~3` for a piece, `COLLECTION:PATH` for the root."""
    number = ".".join(map(str, section.number))
    piece = f"~{section.piece}" if section.piece else ""
    return f"{collection}:{path}" + (f"#{number}{piece}" if number or piece else "")
