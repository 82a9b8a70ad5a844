"""How does a changed file become searchable? Scan, read, split, embed, write; nothing else writes documents."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter

import numpy as np

from annai.collection import STAGING_SUFFIX
from annai.config import Config
from annai.embedders.base import Embedder, Vectors, normalised
from annai.errors import CollectionError, EmbedderMismatch, ReadError, SkippedFile
from annai.fields import FIELD_WEIGHTS, LARGEST_SHARE, NAMES, Fields, meaningful_path, passage_fields
from annai.scanner import Scan, scan
from annai.splitters.base import load_splitter
from annai.stores.base import IndexedDocument, Keywords, Store
from annai.timer import Stopwatch, timer
from annai.tokens import is_japanese, words
from annai.types import Change, ChangeKind, Collection, Document, FileState, ImportSummary, Problem, Section

logger = logging.getLogger(__name__)

PIPELINE_VERSION = 1
"""Raised when sections, words or embedded texts are made differently: every index then renews itself."""

BATCH_PASSAGES, BATCH_CHARACTERS, BATCH_FILES = 128, 1_000_000, 512
"""A batch is written when it holds this much: it bounds memory, and what an interruption costs."""

LARGE_FIRST_INDEX = 5_000
"""A first index of more files than this is confirmed before it begins."""

SAMPLE_FILES = 12
"""How many files are tried to tell how long a first index will take."""

Progress = Callable[[int, int], None]
"""Called with the number of files done and the number to do."""

Confirm = Callable[[int, float], bool]
"""Asked before a large first index, with the number of files and the seconds it may take."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A change that has been read and split: a document to write, a state to remember, or a path to forget."""

    change: Change
    document: Document | None = None
    sections: Sequence[Section] = ()
    state: FileState | None = None

    @property
    def outcome(self) -> str:
        if self.document:
            return "added" if self.change.kind is ChangeKind.NEW else "updated"
        if self.state:
            return self.state.problem.kind if self.state.problem else "unchanged"
        return "deleted"


class Indexer:
    """Brings a store up to date with the directories of its collections."""

    def __init__(self, store: Store, embedder: Embedder, config: Config) -> None:
        self._store = store
        self._embedder = embedder
        self._config = config
        self._clock = Stopwatch()

    def update(
        self, collection: Collection, *, progress: Progress | None = None, confirm: Confirm | None = None
    ) -> ImportSummary:
        """Index what changed since the last time, remove what is gone, and leave the rest alone."""
        self.check_embedder(collection)
        collection = self._begin(collection)
        known = self._store.states(collection.name)
        with timer("scan"):
            found = scan(collection.source, self._config.files, known)
        if confirm and not known and len(found.changes) > LARGE_FIRST_INDEX:
            self._ask(confirm, collection, found)
        return self._apply(collection, found, progress)

    def replace(self, collection: Collection, *, progress: Progress | None = None) -> ImportSummary:
        """Build the collection anew beside the old data and swap it in at the end; searches see the old until then."""
        self._store.save_collection(collection)
        self._store.delete_collection(collection.name + STAGING_SUFFIX)
        staging = self._begin(Collection(collection.name + STAGING_SUFFIX, collection.source, enabled=False))
        with timer("scan"):
            found = scan(collection.source, self._config.files, {})
        summary = self._apply(staging, found, progress)
        self._store.swap_collection(staging.name, collection.name)
        return summary

    def check_embedder(self, collection: Collection) -> None:
        """Vectors of two embedders cannot be compared: say how to get out of it."""
        if collection.embedder not in ("", self._embedder.identity):
            raise EmbedderMismatch(
                f"The collection {collection.name!r} was indexed with {collection.embedder}, and the settings ask for "
                f"{self._embedder.identity}; run `annai import -n {collection.name} -m replace`."
            )

    def _begin(self, collection: Collection) -> Collection:
        """Note what the index is made with; if that has changed, no file counts as indexed any more."""
        noted = dataclasses.replace(collection, embedder=self._embedder.identity, settings=self._fingerprint())
        if noted != collection:
            outdated = [
                dataclasses.replace(state, size=-1, hash="")
                for state in self._store.states(collection.name).values()
                if collection.settings != noted.settings
            ]
            self._store.save_collection(noted)
            if outdated:
                self._store.write(collection.name, states=outdated)
        return noted

    def _apply(self, collection: Collection, found: Scan, progress: Progress | None) -> ImportSummary:
        """Take every change through the pipeline, batch by batch."""
        logger.debug("[index] %s: %d changes, %d unchanged", collection.name, len(found.changes), found.unchanged)
        outcomes: Counter[str] = Counter()
        if progress and found.changes:
            progress(0, len(found.changes))
        for batch in _batches(self._prepare(collection, change) for change in found.changes):
            with self._clock.measure("embed"):
                documents = self._embed(batch)
            with self._clock.measure("write"):
                self._store.write(
                    collection.name,
                    documents,
                    removed=[each.change.path for each in batch if each.outcome == "deleted"],
                    states=[each.state for each in batch if each.state],
                )
            outcomes.update(each.outcome for each in batch)
            if progress:
                progress(outcomes.total(), len(found.changes))
        self._clock.report()
        if found.changes or not collection.imported_at:
            self._store.save_collection(dataclasses.replace(collection, imported_at=_now()))
        return ImportSummary(
            added=outcomes["added"],
            updated=outcomes["updated"],
            deleted=outcomes["deleted"],
            unchanged=found.unchanged + outcomes["unchanged"],
            skipped=outcomes["skipped"],
            failed=outcomes["failed"],
        )

    def _prepare(self, collection: Collection, change: Change) -> _Prepared:
        """Read and split one file; whatever is wrong with it becomes a remembered problem, never an end."""
        state = FileState(change.path, change.size, change.mtime_ns, change.hash)
        if change.kind is ChangeKind.DELETED:
            return _Prepared(change)
        if change.kind is ChangeKind.TOUCHED:
            return _Prepared(change, state=state)
        # Most searches find nothing changed, and need no reader.
        from annai.reader import read_document  # noqa: PLC0415

        split = load_splitter(self._config.chunking.strategy)
        try:
            with self._clock.measure("read"):
                document = read_document(collection.name, collection.source, change, self._config.files)
            with self._clock.measure("split"):
                return _Prepared(change, document, split(document, self._config.chunking))
        except ReadError as error:
            problem = Problem("skipped" if isinstance(error, SkippedFile) else "failed", str(error))
            logger.info("%s: %s: %s", problem.kind, change.path, error)
            return _Prepared(change, state=dataclasses.replace(state, problem=problem))
        except Exception as error:
            # A file that breaks the pipeline must not stop the others; the trace is for us.
            logger.exception("failed: %s", change.path)
            reason = f"annai could not index it ({type(error).__name__}: {error}); please report this"
            return _Prepared(change, state=dataclasses.replace(state, problem=Problem("failed", reason)))

    def _embed(self, batch: Iterable[_Prepared]) -> list[IndexedDocument]:
        """Embed the passages of several documents together, and make each document ready to be written."""
        documents = [(each.document, each.sections) for each in batch if each.document]
        fields = [
            [passage_fields(document, section) for section in sections if section.is_passage]
            for document, sections in documents
        ]
        together = [each for passages in fields for each in passages]
        if self._embedder.additive:
            vectors = iter(weighted_sums(self._embedder.embed_sums, together))
        else:
            vectors = iter(self._embedder.embed_documents([embedded_text(passage) for passage in together]))
        return [
            IndexedDocument(
                document=document,
                japanese=is_japanese(document.text),
                sections=sections,
                vectors=_tree_vectors(sections, np.array([next(vectors) for _ in passages]), self._embedder.additive),
                keywords=dict(zip(_passage_orders(sections), map(_keywords, passages), strict=True)),
            )
            for (document, sections), passages in zip(documents, fields, strict=True)
        ]

    def _ask(self, confirm: Confirm, collection: Collection, found: Scan) -> None:
        """Tell how much there is to do, going by a sample, and stop unless that is wanted."""
        step = max(len(found.changes) // SAMPLE_FILES, 1)
        first, *sample = found.changes[::step][:SAMPLE_FILES]
        self._embed([self._prepare(collection, first)])  # What is loaded with the first file is loaded only once.
        start = perf_counter()
        self._embed([self._prepare(collection, change) for change in sample])
        share = sum(change.size for change in sample) / max(found.total_bytes, 1)
        seconds = (perf_counter() - start) / max(share, 1e-9)
        if not confirm(len(found.changes), seconds):
            raise CollectionError(
                f"{collection.source} was not indexed: {len(found.changes):,} files are many; "
                "`--yes` indexes them all, and [files] in annai.toml can leave some out."
            )

    def _fingerprint(self) -> str:
        """What the sections depend on besides the documents."""
        return f"{PIPELINE_VERSION}; {self._config.chunking}; {self._config.files.max_file_mb} MB"


def weighted_sums(embed_sums: Callable[[Sequence[str]], Vectors], passages: Sequence[Fields]) -> Vectors:
    """The vectors that an additive embedder gives passages: sums of their fields by weight, not yet scaled."""

    def sums(texts: Sequence[str]) -> Vectors:
        # A text that comes again, as a title does with every passage, is embedded once.
        place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        return embed_sums([*place])[[place[text] for text in texts]]

    body = sums([passage.body for passage in passages])
    total = body + FIELD_WEIGHTS.headings * sums([passage.headings for passage in passages])
    total += _capped(sums([passage.title for passage in passages]), FIELD_WEIGHTS.title, body)
    total += _capped(sums([meaningful_path(passage.path) for passage in passages]), FIELD_WEIGHTS.path, body)
    return total.astype(np.float32)


def embedded_text(passage: Fields) -> str:
    """What any other embedder reads: a passage behind what it stands under, since alone it seldom says enough."""
    headings = " > ".join(dict.fromkeys((passage.title, *passage.headings.split("\n"))))
    return f"{headings}\n{passage.body}"


def _batches(prepared: Iterable[_Prepared]) -> Iterator[list[_Prepared]]:
    """Group what belongs in one write, holding no more than one group at a time."""
    batch: list[_Prepared] = []
    passages = characters = 0
    for each in prepared:
        batch.append(each)
        passages += sum(section.is_passage for section in each.sections)
        characters += len(each.document.text) if each.document else 0
        if passages >= BATCH_PASSAGES or characters >= BATCH_CHARACTERS or len(batch) >= BATCH_FILES:
            yield batch
            batch, passages, characters = [], 0, 0
    if batch:
        yield batch


def _capped(sums: Vectors, weight: float, body: Vectors) -> Vectors:
    """A field's sums by weight, but none longer than its share of the body."""
    lengths, most = np.linalg.norm(sums, axis=1), LARGEST_SHARE * np.linalg.norm(body, axis=1)
    limits = np.divide(most, lengths, out=np.full_like(lengths, weight), where=(lengths > 0) & (most > 0))
    capped: Vectors = sums * np.minimum(limits, np.float32(weight))[:, None]
    return capped


def _tree_vectors(sections: Sequence[Section], passages: Vectors, additive: bool) -> Vectors:
    """A vector for every section: a passage's own, and for the others the sum of theirs.

    Vectors that were scaled to length 1 count by their passages' tokens; the sums of an additive embedder as they are.
    """
    sums = np.zeros((len(sections), passages.shape[1]), np.float32)
    order = _passage_orders(sections)
    weights = [1 if additive else max(sections[each].token_count, 1) for each in order]
    sums[order] = passages * np.array(weights, np.float32)[:, None]
    for section in reversed(sections):
        if section.parent is not None:
            sums[section.parent] += sums[section.order]
    for section in sections:
        # What holds only a heading is about what its parent is about.
        if section.parent is not None and not sums[section.order].any():
            sums[section.order] = sums[section.parent]
    return normalised(sums)


def _passage_orders(sections: Sequence[Section]) -> list[int]:
    return [section.order for section in sections if section.is_passage]


def _keywords(passage: Fields) -> Keywords:
    return Keywords(**{name: " ".join(words(getattr(passage, name))) for name in NAMES})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
