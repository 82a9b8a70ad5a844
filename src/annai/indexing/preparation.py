"""What becomes of a changed file before it is written? It is read, split and embedded; no index is needed for that."""

import dataclasses
import logging
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from time import perf_counter

from annai.collection import chunking_of
from annai.config import Config
from annai.definitions import dataclass
from annai.embedders.base import Embedder
from annai.errors import AnnaiError, ReadError, SkippedFile
from annai.files.scanner import differs
from annai.splitters.base import load_splitter
from annai.stores.base import IndexedDocument
from annai.timer import Stopwatch
from annai.types import Change, ChangeKind, Collection, Document, FileState, Outline, Problem, Section

logger = logging.getLogger(__name__)

TO_READ = (ChangeKind.NEW, ChangeKind.UPDATED)
"""Kinds of changes for which a file is read and embedded."""

BATCH_PASSAGES, BATCH_CHARACTERS, BATCH_FILES = 128, 1_000_000, 512
"""A batch is written when it holds this much: this limits memory, and the work that an interruption loses."""

MAX_LOGGED_PASSAGES = 30
"""Passages of a file whose lengths are logged."""

ADDITIVE_BATCH_PASSAGES = 1024
"""The same for an embedder that takes no time to speak of: the more are written together, the fewer lists of words."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change that was read and split: a document to write, a state to remember, or a path to delete."""

    change: Change
    document: Document | None = None
    sections: Sequence[Section] = ()
    state: FileState | None = None
    indexed: IndexedDocument | None = None
    """The document with all that makes it findable, if that was made already."""
    trace: str = ""
    """Where annai itself failed on it, for the log."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each step took that was done for this file alone, or its share of those done for several."""

    @property
    def outcome(self) -> str:
        """What becomes of the file: added, updated, deleted, unchanged, skipped or failed."""
        if self.document:
            return "added" if self.change.kind is ChangeKind.NEW else "updated"
        if self.state:
            return self.state.problem.kind if self.state.problem else "unchanged"
        return "deleted"

    @property
    def passages(self) -> int:
        """How many passages of it are found."""
        return sum(section.is_passage for section in self.sections)

    @property
    def is_stale(self) -> bool:
        """Whether the file has changed on disk since it was read."""
        return self.document is not None and differs(self.change.file, self.document.state)


def prepare(collection: Collection, change: Change, config: Config) -> Prepared:
    """Read and split one file; whatever is wrong with it becomes a problem and stops nothing."""
    state = _state(change)
    if change.kind is ChangeKind.DELETED:
        return Prepared(change)
    if change.kind is ChangeKind.TOUCHED:
        return Prepared(change, state=state)
    # Most searches find nothing changed and need no reader.
    from annai.files.reader import read_document

    chunking = chunking_of(config, collection)
    split = load_splitter(chunking.strategy)
    try:
        start = perf_counter()
        document = read_document(collection.name, collection.source, change, config.files, config.documents)
        is_read = perf_counter()
        sections = split(document, chunking)
        seconds = {"read": is_read - start, "split": perf_counter() - is_read}
        return Prepared(change, document, sections, seconds=seconds)
    except ReadError as error:
        problem = Problem("skipped" if isinstance(error, SkippedFile) else "failed", str(error))
        return Prepared(change, state=dataclasses.replace(state, problem=problem))
    except Exception as error:
        return failure(change, error)


def embed(prepared: Sequence[Prepared], embedder: Embedder) -> list[IndexedDocument]:
    """The documents among these, embedded together and ready to be written."""
    # Most searches find nothing changed and do not need this.
    from annai.indexing.features import add_features

    documents = [(each.document, each.sections) for each in prepared if each.document]
    return add_features(documents, embedder) if documents else []


def prepare_together(
    collection: Collection, changes: Iterable[Change], config: Config, embedder: Embedder
) -> list[Prepared]:
    """Read, split and embed files; what cannot be embedded is left to the writer, whose error is the one to tell."""
    prepared = [prepare(collection, change, config) for change in changes]
    try:
        return _with_features(prepared, embedder)
    except AnnaiError:
        return prepared
    except Exception:
        return [each for alone in prepared for each in _embed_alone(alone, embedder)]


def log_problem(prepared: Prepared) -> None:
    """Log what is wrong with a file, in the process that writes."""
    problem = prepared.state.problem if prepared.state else None
    if prepared.trace:
        # The trace is for us.
        logger.error("failed: %s\n%s", prepared.change.path, prepared.trace)
    elif problem:
        logger.info("%s: %s: %s", problem.kind, prepared.change.path, problem.reason)


def log_details(prepared: Prepared, clock: Stopwatch) -> None:
    """Log, with `--verbose`, what became of a file, and how long its steps took.

    That is its hash, and how many passages of how many characters it has.
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    logger.debug("[index] processing: %s (%s)", prepared.change.path, prepared.change.kind)
    if prepared.document:
        lengths = [each.end - each.start for each in prepared.sections if each.is_passage]
        shown = ", ".join(map(str, lengths[:MAX_LOGGED_PASSAGES])) + (
            ", …" if len(lengths) > MAX_LOGGED_PASSAGES else ""
        )
        details = {
            "read": f"hash={prepared.document.state.hash}",
            "split": f"{len(prepared.sections)} sections, {len(lengths)} passages, chars=[{shown}]",
        }
        for label, seconds in prepared.seconds.items():
            clock.add(label, seconds, details.get(label, ""))


def failure(change: Change, error: Exception) -> Prepared:
    """A file that the pipeline failed on, as a problem: it must not stop the others."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    if isinstance(error, MemoryError):
        reason = "there was not enough memory to index it; split the file, or allow annai more"
    else:
        reason = f"annai could not index it ({type(error).__name__}: {error}); please report this"
    return dataclasses.replace(problem_of(change, reason), trace=trace)


def problem_of(change: Change, reason: str) -> Prepared:
    """A file that is set aside, and why."""
    return Prepared(change, state=dataclasses.replace(_state(change), problem=Problem("failed", reason)))


def batches(prepared: Iterable[Prepared], max_passages: int) -> Iterator[list[Prepared]]:
    """Group what is written together; only one group is in memory at a time."""
    batch: list[Prepared] = []
    passages = characters = 0
    for each in prepared:
        batch.append(each)
        passages += each.passages
        characters += len(each.document.text) if each.document else 0
        if passages >= max_passages or characters >= BATCH_CHARACTERS or len(batch) >= BATCH_FILES:
            yield batch
            batch, passages, characters = [], 0, 0
    if batch:
        yield batch


def _embed_alone(prepared: Prepared, embedder: Embedder) -> list[Prepared]:
    try:
        return _with_features([prepared], embedder)
    except Exception as error:
        return [failure(prepared.change, error)]


def _with_features(prepared: Sequence[Prepared], embedder: Embedder) -> list[Prepared]:
    """With what makes the documents findable; their outlines, which nobody needs any more, are dropped."""
    start = perf_counter()
    documents = embed(prepared, embedder)
    share, indexed = (perf_counter() - start) / max(len(documents), 1), iter(documents)
    return [_indexed(each, next(indexed), share) if each.document else each for each in prepared]


def _indexed(prepared: Prepared, indexed: IndexedDocument, seconds: float) -> Prepared:
    document = dataclasses.replace(indexed.document, outline=Outline())
    indexed = dataclasses.replace(indexed, document=document)
    steps = {**prepared.seconds, "embed": seconds}
    return Prepared(prepared.change, document, indexed.sections, indexed=indexed, seconds=steps)


def _state(change: Change) -> FileState:
    return FileState(change.path, change.size, change.mtime_ns, change.hash, ctime_ns=change.ctime_ns)
