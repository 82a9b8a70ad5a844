"""Who prepares many files? Processes beside the one that writes, so that every core reads, splits and embeds.

Each is started by `child.start` and takes tasks from its standard input: some files to prepare. What became of them
comes back through its standard output. A process that dies costs nothing but time: its task is given to another one
and, if that dies too, is done by the writer. Processes end at once when the writer closes their pipe or dies.
"""

import copyreg
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from annai.config import Config
from annai.files import child
from annai.indexing.preparation import Prepared, prepare_together
from annai.settings import Embedding
from annai.stores.base import IndexedDocument
from annai.text.keywords import Keywords
from annai.types import Change, Collection, Document, FileState, Outline

if TYPE_CHECKING:
    from subprocess import Popen

PARALLEL_FROM_FILES, PARALLEL_FROM_BYTES = 250, 1_500_000
"""From this much on processes are started: each takes a quarter of a second of a core before it does anything."""

TASK_FILES, TASK_BYTES = 128, 200_000
"""How much one task has: enough that sending it costs little, little enough that all processes end together."""

TASKS_EACH = 2
"""Tasks that a process has at a time: the next is there before it is done with one. With more of them the writer waits
for its first one while others that it could do are taken."""

TASKS_AHEAD = 5
"""Tasks for each process, the writer included, that are handed out before the first of them is written: nobody waits
while a batch is being written."""

MAX_DEATHS = 8
"""After so many deaths no further process is started, and the writer goes on alone."""

POLL_SECONDS = 0.2
"""How often the writer looks up while it waits: on Windows nothing else lets Ctrl-C through."""

# The values that travel most are sent as the arguments that make them: by itself pickle has Python go through the
# fields of each, which takes twice as long.
for _kind in (Prepared, IndexedDocument, Keywords, Document, Outline, FileState, Change):
    _values = attrgetter(*(each.name for each in fields(_kind)))
    copyreg.pickle(_kind, lambda value, values=_values: (type(value), values(value)))  # type: ignore[misc] # mypy sees no type of it

Prepare = Callable[[Collection, list[Change]], list[Prepared]]


@dataclass(slots=True)
class _Task:
    """Some files to prepare, and what came of it."""

    collection: Collection
    embedding: Embedding
    changes: list[Change]
    result: bytes | list[Prepared] | None = None
    deaths: int = 0
    """How many processes died of it, or while they had it."""


class Processes:
    """The processes that prepare files for one writer, started as they are needed."""

    def __init__(self, config: Config) -> None:
        self._config = config
        # One process writes.
        self._limit = process_count(config) - 1
        self._changed = threading.Condition()
        self._waiting: deque[_Task] = deque()
        self._running: dict[Popen[bytes], bool] = {}
        """Every process, and whether it has finished a task already."""
        self._deaths = 0
        self._is_closed = False

    def are_worth_it(self, changes: Sequence[Change], total: int) -> bool:
        """Whether these files, of `total` that are indexed in one run, should be prepared by several processes."""
        if not changes or self._limit < 1:
            return False
        is_much = total >= PARALLEL_FROM_FILES or sum(each.size for each in changes) >= PARALLEL_FROM_BYTES
        return is_much or bool(self._running)

    def prepare(
        self, collection: Collection, embedding: Embedding, changes: Iterable[Change], here: Prepare
    ) -> Iterator[Prepared]:
        """Prepare files with the embedder of these settings, and yield them in their order.

        Before this process would have to wait, it prepares some by itself, with `here`.
        """
        import pickle  # most searches index nothing

        parts = _parts(changes)
        tasks: deque[_Task] = deque()
        try:
            while True:
                while len(tasks) < TASKS_AHEAD * (self._limit + 1) and (part := next(parts, None)):
                    tasks.append(self._add(_Task(collection, embedding, part)))
                if not tasks:
                    return
                if own := self._task_for_writer(tasks[0]):
                    own.result = here(own.collection, own.changes)
                    continue
                result = tasks.popleft().result
                # Only a process of our own can write what is read here.
                yield from pickle.loads(result) if isinstance(result, bytes) else result or ()  # noqa: S301
        finally:
            with self._changed:
                self._waiting.clear()

    def close(self) -> None:
        """End all processes at once."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
            running = [*self._running]
        for process in running:
            process.kill()
        for process in running:
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, task: _Task) -> _Task:
        with self._changed:
            self._waiting.append(task)
            self._changed.notify_all()
        return task

    def _task_for_writer(self, head: _Task) -> _Task | None:
        """Wait until the first task is done, and return None; or return another one that the writer should do."""
        with self._changed:
            while head.result is None:
                self._start_another()
                for task in self._waiting:
                    # What a process died of is given to another one first.
                    if task.deaths != 1 or not self._running:
                        self._waiting.remove(task)
                        return task
                self._changed.wait(POLL_SECONDS)
        return None

    def _start_another(self) -> None:
        """Start a process, since the writer waits: one at a time, when those before it work and are too few."""
        if len(self._running) >= self._limit or self._deaths >= MAX_DEATHS or not all(self._running.values()):
            return
        try:
            process = child.start("annai.indexing.processes")
        except OSError:
            self._deaths = MAX_DEATHS  # No further process is allowed here.
            return
        self._running[process] = False
        threading.Thread(target=self._serve, args=(process,), name="annai-prepare", daemon=True).start()

    def _serve(self, process: "Popen[bytes]") -> None:
        """Give a process its tasks, in a thread, until it dies."""
        import pickle

        sent: deque[_Task] = deque()
        with suppress(OSError, EOFError, ValueError):
            stdin, stdout = cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout)
            child.send(stdin, pickle.dumps(self._config))
            while True:
                while len(sent) < TASKS_EACH and (task := self._take(wait=not sent)):
                    sent.append(task)
                    child.send(stdin, pickle.dumps((task.collection, task.embedding, task.changes)))
                if not sent:
                    break
                result = child.receive(stdout)
                with self._changed:
                    sent.popleft().result = result
                    self._running[process] = True
                    self._changed.notify_all()
        child.end(process)
        self._forget(process, sent)

    def _take(self, *, wait: bool) -> _Task | None:
        """The oldest task that nobody does; None if there is none, or at the end."""
        with self._changed:
            while not self._is_closed:
                for task in self._waiting:
                    if task.deaths < 2:
                        self._waiting.remove(task)
                        return task
                if not wait:
                    return None
                self._changed.wait()
            return None

    def _forget(self, process: "Popen[bytes]", unfinished: "deque[_Task]") -> None:
        """A process has died: others do what it had not finished, of which only the first can be to blame."""
        with self._changed:
            del self._running[process]
            if not self._is_closed:
                self._deaths += 1
                if unfinished:
                    unfinished[0].deaths += 1
                self._waiting.extendleft(reversed(unfinished))
            self._changed.notify_all()


def process_count(config: Config) -> int:
    """How many processes prepare many files, the writer included."""
    return (config.worker.processes or child.cores()) if sys.executable else 1


def _parts(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Changes in parts that are prepared together."""
    part: list[Change] = []
    size = 0
    for change in changes:
        part.append(change)
        size += change.size
        if len(part) >= TASK_FILES or size >= TASK_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def main() -> None:
    """Run in such a process: prepare what standard input names, and end when it does."""
    import pickle
    import queue

    child.offer_to_be_killed()
    own, tasks = child.claim_output(), child.incoming()
    results: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def send_results() -> None:
        with suppress(OSError):
            while True:
                child.send(own, results.get())
        os._exit(0)  # The writer has ended, and standard input was not read yet.

    # The writer reads when it has time: the next task is done meanwhile.
    threading.Thread(target=send_results, daemon=True).start()
    from annai.embedders.base import load_embedder

    # Only the process that started this one can write here.
    config: Config = pickle.loads(tasks.get())  # noqa: S301
    embedders = {}
    while True:
        collection: Collection
        settings: Embedding
        changes: list[Change]
        collection, settings, changes = pickle.loads(tasks.get())  # noqa: S301
        if settings not in embedders:
            embedders[settings] = load_embedder(settings, config.model, config.retry)
        prepared = prepare_together(collection, changes, config, embedders[settings])
        results.put(pickle.dumps(prepared, pickle.HIGHEST_PROTOCOL))
