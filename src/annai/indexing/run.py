"""How far is a run of indexing, who works for it, and shall it stop?"""

from collections.abc import Callable, Iterable
from time import perf_counter
from types import TracebackType
from typing import Self

from annai.config import Config
from annai.indexing.preparation import Prepared
from annai.indexing.processes import Processes
from annai.project import Done, Progress


class Run:
    """One run: from the first file to the last, however many batches that takes. Close it, or use it in a `with` block.

    What `progress` raises ends the run as `stop` does, between two batches, and is then raised by `check`.
    """

    def __init__(
        self, config: Config, progress: Progress | None = None, stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.processes = Processes(config)
        self.done = Done(0, 0)
        self.recognized: set[str] = set()
        """The collections whose model was compared with the one that made their vectors."""
        self._started = perf_counter()
        self._progress = progress
        self._stop = stop
        self._error: Exception | None = None
        self._told = 0

    @property
    def total(self) -> int:
        """How many files it has, as far as is known."""
        return self.done.total

    @property
    def files_per_second(self) -> float:
        """How many files it has prepared a second since the first were expected."""
        return self.done.files / max(perf_counter() - self._started, 0.01)

    def expect(self, files: int, total: int) -> None:
        """So many files are done, and there are so many in all."""
        if not self.total:
            self._started = perf_counter()
        files = max(files, self.done.files)
        self.done = Done(files, max(total, files), self.done.size, self.done.passages)
        self._tell()

    def count(self, prepared: Prepared) -> None:
        """A file was prepared."""
        self._count(prepared, 1)
        self._tell()

    def put_back(self, prepared: Iterable[Prepared]) -> None:
        """These files will be prepared once more."""
        for each in prepared:
            self._count(each, -1)

    def should_stop(self) -> bool:
        """Whether to end after the current batch."""
        return self._error is not None or self._stop()

    def check(self) -> None:
        """Raise what `progress` raised."""
        if self._error:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.processes.close()

    def _count(self, prepared: Prepared, times: int) -> None:
        done, size = self.done, prepared.document.state.size if prepared.document else 0
        # No more than there are: what others index meanwhile was counted by what is left.
        files = min(done.files + times, done.total or done.files + times)
        passages = done.passages + times * prepared.passages
        self.done = Done(files, max(done.total, files), done.size + times * size, passages)

    def _tell(self) -> None:
        # What was put back is not told: nobody wants to see it go back.
        if self._progress and self.done.files >= self._told:
            self._told = self.done.files
            try:
                self._progress(self.done)
            except Exception as error:
                self._error = error
