"""`annai projects`: which folders have an index on this machine, where it is, and how to remove one."""

import os
import shutil
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import click

from annai.config import Config
from annai.errors import ConfigError, StoreError
from annai.indexing.lock import IndexLock
from annai.interfaces.cli.conventions import Command, Group, common_options
from annai.interfaces.cli.options import format_option, project_command
from annai.interfaces.render.records import print_json
from annai.interfaces.render.table import print_table
from annai.interfaces.render.units import counted, size, time_ago
from annai.interfaces.terminal import echo, say
from annai.state import KnownProject, known_projects

EXAMPLES = ("annai projects", "annai projects forget ~/old-notes", "annai projects forget --missing")


@click.group(cls=Group, examples=EXAMPLES, invoke_without_command=True)
@format_option()
@project_command(docs_dir=False, server=False)
@click.pass_context
def command(context: click.Context, config: Config, form: str | None) -> None:
    """List the projects that have an index, or forget one.

    The index of a project, and everything else that annai keeps for it, lies in your
    own state folder, never in the project. It moves along when the folder is moved.
    """
    if context.invoked_subcommand is None:
        _list(config, form)


@command.command("forget", cls=Command, examples=EXAMPLES[1:])
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--missing", is_flag=True, help="Forget every project whose folder is gone.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
def forget(folder: Path | None, missing: bool, yes: bool) -> None:
    """Delete a project's index, its registered collections and its logs.

    The documents stay. A later search in the folder starts anew.
    """
    if (folder is None) != missing:
        raise click.UsageError("Name the folder of a project, or say --missing.")
    known = known_projects()
    chosen = [each for each in known if (each.is_gone if folder is None else each.root == folder.resolve())]
    if not chosen and folder is None:
        say("No project's folder is gone.")
        return
    if not chosen:
        raise ConfigError(f"{folder} is not a project with an index", "`annai projects` lists those there are.")
    for each in chosen:
        echo(f"{each.root} ({size(_bytes(each.folder))})")
    if not yes and not click.confirm(f"Delete what annai keeps for {counted(len(chosen), 'project')}?", err=True):
        say("Nothing was deleted.")
        return
    for each in chosen:
        _delete(each)
        say(f"Forgot {each.root}.")


def _list(config: Config, form: str | None) -> None:
    known = known_projects()
    if (form or config.display.default_format) == "json":
        print_json(
            [
                {
                    "root": str(each.root),
                    "state": str(each.folder),
                    "bytes": _bytes(each.folder),
                    "used_at": _used_at(each.folder),
                    "missing": each.is_gone,
                }
                for each in known
            ]
        )
    elif not known:
        echo("There are none yet; `annai search` in a folder makes it one.", err=True)
    else:
        rows = [
            (
                str(each.root) + (" (missing)" if each.is_gone else ""),
                size(_bytes(each.folder)),
                time_ago(_used_at(each.folder)),
                str(each.folder),
            )
            for each in known
        ]
        print_table(("project", "size", "used", "kept in"), rows, config, optional=("kept in",))


def _delete(project: KnownProject) -> None:
    """Delete a project's state, unless a process works with it."""
    with ExitStack() as stack:
        for pattern in ("*.lock", "*.keeper"):
            for file in project.folder.glob(pattern):
                lock = IndexLock(file)
                if not lock.acquire():
                    raise StoreError(
                        f"{project.root} is in use",
                        "stop its server (`annai server stop --docs-dir …`) and the agents "
                        "that search it, then try again.",
                    )
                stack.callback(lock.release)
        try:
            shutil.rmtree(project.folder)
        except OSError as error:
            raise StoreError(
                f"{project.folder} cannot be deleted ({(error.strerror or str(error)).lower()})", "delete it by hand."
            ) from error


def _files(folder: Path) -> list[os.stat_result]:
    return [file.stat() for file in folder.rglob("*") if file.is_file()]


def _bytes(folder: Path) -> int:
    return sum(each.st_size for each in _files(folder))


def _used_at(folder: Path) -> str:
    newest = max((each.st_mtime for each in _files(folder)), default=0.0)
    return datetime.fromtimestamp(newest, UTC).isoformat(timespec="seconds")
