"""How does a person see how far indexing is? A bar on a terminal, lines in a log, and one line at its end."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from annai.config import variable
from annai.interfaces.render.units import counted, size
from annai.interfaces.terminal import echo, is_quiet, is_terminal, warn
from annai.project import Done

FIRST_SECONDS, DRAW_SECONDS = 0.3, 0.05
"""When the bar appears, and how often it moves at most: drawing takes longer than a small file."""

TOLD_FROM_SECONDS, TOLD_FROM_FILES = 2.0, 100
"""From this much on a search tells what it indexes; less is nothing to speak of."""

LINE_SECONDS = 10.0
"""How often a line says how far it is where no bar can be drawn."""


class Meter:
    """Notes how far indexing is, and shows it on standard error: as a bar on a terminal, else in lines."""

    def __init__(self, label: str) -> None:
        self.done = Done(0, 0)
        self._label = label
        self._is_drawn = is_terminal(sys.stderr) and variable("TERM") != "dumb"
        self._bar: _Bar | None = None
        self._start = 0.0
        self._next = 0.0
        self._closed = threading.Event()
        # By a clock of its own: a large model takes longer than a line's time for one batch.
        self._lines = threading.Thread(target=self._write_lines, name="annai-progress", daemon=True)

    def __call__(self, done: Done) -> None:
        """Note it, and draw it."""
        now = perf_counter()
        self.done = done
        if not self._start:
            self._start, self._next = now, now + FIRST_SECONDS
            if not self._is_drawn and not is_quiet():
                self._lines.start()
        if self._is_drawn and not is_quiet() and now >= self._next:
            self._next = now + DRAW_SECONDS
            self._bar = self._bar or _Bar(self._label)
            self._bar.draw(done, now - self._start)

    def close(self, *, tell: bool) -> None:
        """Wipe the bar; what took long is told on standard error, if nobody else tells it."""
        self._closed.set()
        if self._lines.ident is not None:
            self._lines.join()
        if self._bar:
            self._bar.wipe()
        seconds = perf_counter() - self._start
        is_much = seconds >= TOLD_FROM_SECONDS or self.done.files >= TOLD_FROM_FILES
        if tell and self.done.size and is_much:
            echo(indexed_line(self.done.files, self.done.size, self.done.passages, seconds), err=True)

    def _write_lines(self) -> None:
        """Say what begins, and every few seconds how far it is."""
        if self.done.total < TOLD_FROM_FILES and self._closed.wait(TOLD_FROM_SECONDS):
            return
        warn(f"{self._label.lower()} {counted(self.done.total, 'file')}")
        while not self._closed.wait(LINE_SECONDS):
            warn(f"{self._label.lower()}: {self.done.files:,} of {counted(self.done.total, 'file')} done")


@contextmanager
def progress_bar(label: str, *, tell: bool = True) -> Iterator[Meter]:
    """A bar with counts, rates and time left, or lines where there is no terminal; with `tell`, a line after it."""
    meter = Meter(label)
    try:
        yield meter
    except BaseException:
        meter.close(tell=False)
        raise
    meter.close(tell=tell)


def indexed_line(files: int, read: int, passages: int, seconds: float) -> str:
    """What was indexed, in one line: so many files, bytes and passages."""
    counts = f"{size(read)}, {counted(passages, 'passage')}"
    return f"indexed {counted(files, 'file')} ({counts}) in {short_duration(seconds)}"


def short_duration(seconds: float) -> str:
    """A length of time in few characters."""
    return f"{seconds:.1f} s" if seconds < 90 else duration(seconds)


def duration(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 90:
        return counted(max(round(seconds), 1), "second")
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


class _Bar:
    """The bar itself."""

    def __init__(self, label: str) -> None:
        from rich.console import Console  # only where something is drawn
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("files"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(label, total=None, rate="")

    def draw(self, done: Done, seconds: float) -> None:
        # Not before there is something to show: a question may be asked first, and rich would swallow parts of it.
        self._progress.start()
        speed = self._progress.tasks[self._task].speed
        rates = [f"{speed:,.0f}/s"] if speed else []
        rates += [f"{done.size / seconds / 1e6:.1f} MB/s"] if done.size and seconds else []
        self._progress.update(self._task, completed=done.files, total=done.total, rate=", ".join(rates))

    def wipe(self) -> None:
        self._progress.stop()
