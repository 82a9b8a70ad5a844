"""Which options do commands share, and how do they open a project that is up to date?"""

import dataclasses
import functools
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from annai.answers import Freshness
from annai.config import Config, load_config
from annai.interfaces.cli.progress import duration, progress_bar
from annai.interfaces.terminal import echo, is_terminal, warn
from annai.opening import open_project
from annai.project import Confirm, Project
from annai.settings import ListFormat
from annai.text.escapes import LogFormatter
from annai.values import choices

Command = Callable[..., None]

CHATTY = (
    *("charset_normalizer", "filelock", "urllib3", "httpx", "httpx2", "httpcore", "httpcore2"),
    *("google_genai", "sentence_transformers", "transformers", "huggingface_hub", "torch"),
)
"""Libraries whose own words `--verbose` leaves out: they are many, and may hold what a request holds."""


format_option = click.option(
    "--format", "form", type=click.Choice(choices(ListFormat)), help="Output format (display.default_format: table)."
)
"""How a list or a state is shown."""


allow_deletions_option = click.option(
    "--allow-deletions", is_flag=True, help="Remove the documents of files that are gone, however many they are."
)


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
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(levelname)s %(message)s" if verbose else "annai: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.WARNING, force=True)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)


def open_fresh(config: Config, names: tuple[str, ...] = (), *, yes: bool = False) -> Project:
    """Open the project with its index brought up to date."""
    project = open_project(config)
    try:
        with progress_bar("Indexing") as progress:
            freshness = project.refresh(names, progress=progress, confirm=confirm_large_index(yes))
    except BaseException:
        project.close()
        raise
    warn_if_stale(freshness)
    return project


def tell_of_ancestor(folder: Path) -> None:
    """Say that a folder without settings of annai's has those of a program that annai descends from."""
    from annai.interfaces.ancestors import left_here  # only before the first index

    if file := left_here(folder):
        echo(f"{file.name} is not read; `annai init --from {file.name}` turns it into annai.toml.", err=True)


def warn_if_stale(freshness: Freshness) -> None:
    """Say on standard error what an answer may lack."""
    for note in freshness.notes:
        warn(f"{note}")


def confirm_large_index(yes: bool) -> Confirm:
    """How to ask before a large first index: not at all, if `yes` says so beforehand."""
    return lambda count, seconds: yes or _confirm(count, seconds)


def _confirm(count: int, seconds: float) -> bool:
    message = f"There are {count:,} files to index here; this takes about {duration(seconds)}."
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        warn(f"{message}")
        return False
    return click.confirm(f"{message} Continue?", err=True)


def port_number(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:  # noqa: ARG001 - click's signature
    """The port that was named; 0 for any free one."""
    if value is None or value == "auto":
        return None if value is None else 0
    if not value.isdecimal() or not 1 <= int(value[:6]) <= 65535:
        raise click.BadParameter(f"{value!r} is neither a port (1 to 65535) nor `auto`.")
    return int(value)
