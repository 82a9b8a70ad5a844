"""Which options do commands share, and how do they open a project that is up to date?"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from annai.answers import Freshness
from annai.config import Config, load_config, override
from annai.errors import ConfigError
from annai.interfaces.cli.completion import complete_collections
from annai.interfaces.cli.conventions import Option, common_options
from annai.interfaces.cli.progress import duration, progress_bar
from annai.interfaces.terminal import echo, is_terminal, remark, warn
from annai.opening import open_project
from annai.project import Confirm, Project
from annai.settings import ListFormat
from annai.values import choices

Command = Callable[..., None]


def format_option(formats: Sequence[str] = choices(ListFormat), default: str = "") -> Callable[[Command], Command]:
    """Give a command --format, and --json for it; without a default the settings have one."""
    told = default or "display.default_format: table"

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(form: str | None, as_json: bool, **rest: Any) -> None:  # noqa: ANN401 - the command's own options
            if as_json and form not in (None, "json"):
                raise click.UsageError(f"--json means --format json; leave out --json or --format {form}.")
            command(form="json" if as_json else form or default or None, **rest)

        wrapped = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")(wrapped)
        return click.option("--format", "form", type=click.Choice(formats), help=f"Output format ({told}).")(wrapped)

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
config_option = click.option("--config", type=click.Path(path_type=Path), help="The settings file (env: ANNAI_CONFIG).")
docs_dir_option = click.option(
    "--docs-dir", type=click.Path(path_type=Path), help="Use this folder instead of the current project."
)


def collection_option(help_text: str, *, multiple: bool = False) -> Callable[[Command], Command]:
    """Give a command -c and --collection; -n and --name, as mdvec spelled it, work too."""
    return click.option(
        "-c",
        "--collection",
        "names" if multiple else "name",
        cls=Option,
        old=("-n", "--name"),
        default=None if multiple else "",
        multiple=multiple,
        metavar="NAME",
        shell_complete=complete_collections,
        help=help_text,
    )


database_option = click.option(
    "--database", type=click.Path(path_type=Path), help="Index file, instead of the one in the settings."
)
allow_deletions_option = click.option(
    "--allow-deletions", is_flag=True, help="Remove the documents of files that are gone, however many they are."
)


def project_command(*, docs_dir: bool = True, server: bool = True) -> Callable[[Command], Command]:
    """Give a command the options that all have, and hand it the `Config` they lead to."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(
            config: Path | None,
            docs_dir: Path | None = None,
            server: str | None = None,
            **rest: Any,  # noqa: ANN401 - the command's own options
        ) -> None:
            outer = click.get_current_context().obj or {}
            config = config or outer.get("config")
            loaded = override(load_config(config=config, docs_dir=docs_dir), "display", color=outer.get("color"))
            if loaded.is_around:
                remark(f"the project around this folder is {loaded.root}", loaded)
            command(dataclasses.replace(loaded, server_url=server) if server else loaded, **rest)

        shared = config_option(common_options(wrapped))
        if server:
            shared = click.option(
                "--server", metavar="URL", help="Use this server instead of the project's own (env: ANNAI_SERVER)."
            )(shared)
        return docs_dir_option(shared) if docs_dir else shared

    return decorate


def with_index_file(config: Config, file: Path) -> Config:
    """The settings with another index file. Raises `ConfigError` where no index file would be used."""
    if config.server_url:
        raise ConfigError("A server has its own index file", "leave out --database or --server.")
    if config.store.engine in ("postgres", "memory"):
        raise ConfigError(
            f"--database names an index file, and store.engine is {config.store.engine!r}", "leave it out."
        )
    return override(config, "database", path=str(file.absolute()))


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


def tell_of_ancestor(config: Config, *, always: bool = False) -> None:
    """Before the first index, or `always`: say that settings here are those of a program that annai descends from."""
    if config.file or (config.database_path.exists() and not always):
        return
    from annai.interfaces.ancestors import left_here  # only where annai has no settings

    if file := left_here(config.root):
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
