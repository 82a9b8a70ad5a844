"""Which options do commands share, and how do they open a project that is up to date?"""

import dataclasses
import functools
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from annai.config import Config, load_config
from annai.errors import StoreFull
from annai.opening import open_project
from annai.project import Progress, Project

Command = Callable[..., None]

CHATTY = (
    *("markdown_it", "charset_normalizer", "filelock", "urllib3", "httpx", "httpx2", "httpcore", "httpcore2"),
    *("google_genai", "sentence_transformers", "transformers", "huggingface_hub", "torch"),
)
"""Libraries whose own words `--verbose` leaves out: they are many, and may hold what a request holds."""


def project_command(*, docs_dir: bool = True, server: bool = True) -> Callable[[Command], Command]:
    """Give a command --config, --verbose, --docs-dir and --server, and hand it the `Config` they lead to."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(
            config: Path | None,
            verbose: bool,
            docs_dir: Path | None = None,
            server: str | None = None,
            **rest: Any,  # noqa: ANN401 - the command's own options
        ) -> None:
            outer = click.get_current_context().obj or {}
            set_up_logging(verbose or outer.get("verbose", False))
            loaded = load_config(config=config or outer.get("config"), docs_dir=docs_dir)
            command(dataclasses.replace(loaded, server_url=server) if server else loaded, **rest)

        wrapped = click.option("--verbose", is_flag=True, help="Log details and timings to standard error.")(wrapped)
        wrapped = click.option(
            "--config", type=click.Path(path_type=Path), help="The settings file (env: ANNAI_CONFIG)."
        )(wrapped)
        if server:
            wrapped = click.option(
                "--server", metavar="URL", help="Use this server instead of the project's own (env: ANNAI_SERVER)."
            )(wrapped)
        if docs_dir:
            wrapped = click.option(
                "--docs-dir",
                type=click.Path(path_type=Path),
                help="Use this folder instead of the current project.",
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
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)


@contextmanager
def progress_bar(label: str) -> Iterator[Progress | None]:
    """A bar on standard error with counts, rate and time left, where that is a terminal; else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # only where something is drawn
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

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


def open_fresh(config: Config, names: tuple[str, ...] = (), *, yes: bool = False) -> Project:
    """Open the project with its index brought up to date."""
    project = open_project(config)
    try:
        if project.read_only:
            click.echo("annai: the index is read-only here; results may be out of date.", err=True)
        else:
            _bring_up_to_date(project, names, yes=yes)
    except BaseException:
        project.close()
        raise
    return project


def _bring_up_to_date(project: Project, names: tuple[str, ...], *, yes: bool) -> None:
    try:
        with progress_bar("Indexing") as progress:
            waiting = project.refresh(
                names, progress=progress, confirm=lambda count, seconds: yes or _confirm(count, seconds)
            )
    except StoreFull as error:
        if not any(each.statistics.documents for each in project.status().collections):
            raise
        # What was indexed before can be searched all the same.
        click.echo(f"annai: {error} Until then, results may be out of date.", err=True)
        return
    if waiting:
        files = "file is" if waiting == 1 else "files are"
        click.echo(f"annai: {waiting:,} {files} still being indexed; results may miss them.", err=True)


def _confirm(count: int, seconds: float) -> bool:
    message = f"There are {count:,} files to index here; this takes about {duration(seconds)}."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        click.echo(f"annai: {message}", err=True)
        return False
    return click.confirm(f"{message} Continue?", err=True)


def duration(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
