"""Which options do commands share, and how do they open the project?"""

import functools
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from annai.config import Config, load_config
from annai.engine import Engine
from annai.indexer import Progress

Command = Callable[..., None]


def project_command(*, docs_dir: bool = True) -> Callable[[Command], Command]:
    """Give a command --config, --verbose and --docs-dir, and hand it the `Config` they lead to."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(config: Path | None, verbose: bool, docs_dir: Path | None = None, **rest: Any) -> None:  # noqa: ANN401 - the command's own options
            outer = click.get_current_context().obj or {}
            set_up_logging(verbose or outer.get("verbose", False))
            command(load_config(config=config or outer.get("config"), docs_dir=docs_dir), **rest)

        wrapped = click.option("--verbose", is_flag=True, help="Tell on standard error what takes how long.")(wrapped)
        wrapped = click.option(
            "--config", type=click.Path(path_type=Path), help="The settings file (also: ANNAI_CONFIG)."
        )(wrapped)
        if docs_dir:
            wrapped = click.option(
                "--docs-dir",
                type=click.Path(path_type=Path),
                help="The folder to search, instead of the current project.",
            )(wrapped)
        return wrapped

    return decorate


def set_up_logging(verbose: bool) -> None:
    """Send logs to standard error: warnings always, everything when asked."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.WARNING,
        format="%(levelname)s %(message)s" if verbose else "annai: %(message)s",
        force=True,
    )
    for chatty in ("markdown_it", "charset_normalizer"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


@contextmanager
def progress_bar(label: str) -> Iterator[Progress | None]:
    """A bar on standard error with counts, rate and time left, where that is a terminal; else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only where something is drawn
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=None, rate="")

    def advance(done: int, total: int) -> None:
        # Not before there is something to show: a question may be asked first, and rich would swallow parts of it.
        bar.start()
        speed = bar.tasks[task].speed
        bar.update(task, completed=done, total=total, rate=f"{speed:.0f}/s" if speed else "")

    try:
        yield advance
    finally:
        bar.stop()


def open_fresh(config: Config, names: tuple[str, ...] = (), *, yes: bool = False) -> Engine:
    """Open the project with its index brought up to date."""
    engine = Engine(config)
    try:
        if engine.store.read_only:
            click.echo("annai: the index cannot be written here; answers may be out of date.", err=True)
        else:
            with progress_bar("Indexing") as progress:
                engine.refresh(names, progress=progress, confirm=lambda count, seconds: yes or _confirm(count, seconds))
    except BaseException:
        engine.close()
        raise
    return engine


def _confirm(count: int, seconds: float) -> bool:
    message = f"There are {count:,} files to index here; that takes about {duration(seconds)}."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        click.echo(f"annai: {message}", err=True)
        return False
    return click.confirm(f"{message} Go on?", err=True)


def duration(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
