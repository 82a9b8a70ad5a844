"""How do changed files become documents of the index? Read, split, embed, write; nothing else writes documents."""

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain
from time import perf_counter

from annai.config import Config
from annai.embedders.base import Embedder
from annai.errors import AnnaiError, EmbedderError
from annai.files.scanner import Scan
from annai.indexing.preparation import (
    ADDITIVE_BATCH_PASSAGES,
    BATCH_PASSAGES,
    TO_READ,
    Prepared,
    batches,
    embed,
    failure,
    log_details,
    log_problem,
    prepare,
    prepare_together,
    problem_of,
)
from annai.indexing.probe import KILLED_TWICE
from annai.indexing.processes import process_count
from annai.indexing.recognition import record_model
from annai.indexing.run import Run
from annai.stores.base import Store
from annai.timer import Stopwatch
from annai.types import Change, Collection

logger = logging.getLogger(__name__)

SAMPLE_FILES, SLOW_SAMPLE_FILES = 96, 12
"""How many files are indexed on trial to estimate how long a first index will take; with a model that takes its time,
fewer."""

SAMPLE_PARTS = 6
"""Parts of the sample that are timed by themselves: one loads the model, another makes a table of its subwords. The
median has more new words than most files will have, which takes about as long as writing them."""

MAX_BUSY_PROCESSES = 4
"""More of them do not make a run quicker: one writes, and could not keep up."""


class Pipeline:
    """Takes changes of files into a store; who calls it holds the index lock."""

    def __init__(self, store: Store, embedder_of: Callable[[Collection], Embedder], config: Config) -> None:
        self._store = store
        self.embedder = embedder_of
        """The embedder of a collection's vectors, those that it has or is being given."""
        self._config = config
        self._clock = Stopwatch()

    def apply(
        self,
        collection: Collection,
        changes: Sequence[Change],
        run: Run,
        killers: Container[str] = (),
        *,
        more_follow: bool = False,
    ) -> Iterator[list[Prepared]]:
        """Take changes through the pipeline, batch by batch; each batch is written when it is yielded.

        A service gets full requests: files that do not fill one wait for those of the next batch. If `more_follow` in
        another call, they are left to that one, unless nothing else is done in this.
        """
        embedder = self.embedder(collection)
        least = ADDITIVE_BATCH_PASSAGES if embedder.is_additive else BATCH_PASSAGES
        max_passages = max(least, embedder.batch_size * embedder.parallel_batches)
        # What needs no embedder comes first: it is in the first batch, and done even if there is none.
        ordered = sorted(changes, key=lambda change: change.kind in TO_READ)
        groups = batches(self._prepare(collection, ordered, killers, run), max_passages)
        waiting: list[Prepared] = []
        is_any_written = False
        for group in chain(groups, [[]] if more_follow else []):
            waiting += group
            try:
                if collection.name not in run.recognized and any(each.document for each in waiting):
                    record_model(self._store, collection, embedder)
                    run.recognized.add(collection.name)
                ready, waiting = self._fill(waiting, embedder) if embedder.is_service else (waiting, [])
                written = self.write(collection, ready) if ready else []
            except EmbedderError:
                yield self.write(collection, [each for each in group if not each.document])
                raise
            if written:
                is_any_written = True
                yield written
        if more_follow and is_any_written:
            run.put_back(waiting)
        elif waiting:
            yield self.write(collection, waiting)

    def write(self, collection: Collection, batch: list[Prepared]) -> list[Prepared]:
        """Embed and write a batch; a document that makes this fail is isolated and stored as a problem."""
        try:
            documents = [each.indexed for each in batch if each.indexed]
            if to_embed := [each for each in batch if each.document and not each.indexed]:
                with self._clock.measure("embed", _counts(to_embed)):
                    documents += embed(to_embed, self.embedder(collection))
            with self._clock.measure("write", _counts(batch)):
                self._store.write(
                    collection.name,
                    documents,
                    removed=[each.change.path for each in batch if each.outcome == "deleted"],
                    states=[each.state for each in batch if each.state],
                )
        except AnnaiError:
            raise
        except Exception as error:
            if len(batch) > 1:
                return [written for each in batch for written in self.write(collection, [each])]
            failed = failure(batch[0].change, error)
            log_problem(failed)
            self._store.write(collection.name, states=[failed.state] if failed.state else [])
            return [failed]
        return batch

    def _fill(self, waiting: list[Prepared], embedder: Embedder) -> tuple[list[Prepared], list[Prepared]]:
        """Embed what fills whole requests; the files that can be written now, and those that wait for others."""
        from annai.indexing.features import embedded_texts  # most searches find nothing changed

        texts = [embedded_texts(each.document, each.sections) if each.document else [] for each in waiting]
        with self._clock.measure("embed", _counts(waiting)):
            rest = embedder.embed_ahead([text for own in texts for text in own])
        ready: list[Prepared] = []
        others: list[Prepared] = []
        for each, own in zip(waiting, texts, strict=True):
            (ready if rest.isdisjoint(own) else others).append(each)
        return ready, others

    def estimate_seconds(self, collection: Collection, found: Scan) -> float:
        """How long it will take to index what was found, judged by a sample that is not written."""
        embedder = self.embedder(collection)
        count = SAMPLE_FILES if embedder.is_additive else SLOW_SAMPLE_FILES
        sample = found.changes[:: max(len(found.changes) // count, 1)][:count]
        parts = [sample[first::SAMPLE_PARTS] for first in range(min(SAMPLE_PARTS, len(sample)))]
        paces = sorted(self._seconds_per_byte(collection, part) for part in parts)
        # One process measured, and all of them will work.
        workers = min(process_count(self._config), MAX_BUSY_PROCESSES) if embedder.is_additive else 1
        return paces[len(paces) // 2] * found.total_bytes / workers

    def _seconds_per_byte(self, collection: Collection, changes: Sequence[Change]) -> float:
        start = perf_counter()
        embed([prepare(collection, each, self._config) for each in changes], self.embedder(collection))
        return (perf_counter() - start) / max(sum(each.size for each in changes), 1)

    def log_times(self) -> None:
        """Log how long the steps took."""
        self._clock.report()

    def _prepare(
        self, collection: Collection, changes: Sequence[Change], killers: Container[str], run: Run
    ) -> Iterator[Prepared]:
        """Read and split files, in their order, and count them."""
        for prepared in self._prepare_all(collection, changes, killers, run):
            log_problem(prepared)
            log_details(prepared, self._clock)
            run.count(prepared)
            yield prepared

    def _prepare_all(
        self, collection: Collection, changes: Sequence[Change], killers: Container[str], run: Run
    ) -> Iterator[Prepared]:
        """Read and split files; where there are many to embed in Python, in several processes."""

        def here(own: Collection, part: Sequence[Change]) -> list[Prepared]:
            return prepare_together(own, part, self._config, self.embedder(own))

        to_read = [change for change in changes if change.kind in TO_READ and change.path not in killers]
        embedder = self.embedder(collection)
        embedding = embedder.settings if embedder.is_additive else None
        is_shared = embedding is not None and run.processes.are_worth_it(to_read, run.total)
        for change in changes:
            if change.path in killers:
                yield problem_of(change, KILLED_TWICE)
            elif not (is_shared and change.kind in TO_READ):
                yield prepare(collection, change, self._config)
        if is_shared and embedding is not None:
            yield from run.processes.prepare(collection, embedding, to_read, here)


def _counts(batch: Iterable[Prepared]) -> str:
    """How much a batch is, for the log."""
    passages = [each.passages for each in batch]
    return f"files={len(passages)}, passages={sum(passages)}"
