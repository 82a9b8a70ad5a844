"""`annai index …`: how the queue stands, and indexing again."""

from dataclasses import asdict
from datetime import datetime
from time import perf_counter

import click

from annai.asking.addresses import from_here
from annai.config import Config
from annai.interfaces.cli.completion import complete_documents
from annai.interfaces.cli.conventions import Group
from annai.interfaces.cli.imports import tell
from annai.interfaces.cli.options import allow_deletions_option, format_option, json_option, project_command
from annai.interfaces.cli.progress import progress_bar
from annai.interfaces.render.notes import queue_lines, state_word
from annai.interfaces.render.records import print_json, status_json
from annai.interfaces.render.table import print_lines, print_table
from annai.interfaces.render.units import counted, local_time
from annai.interfaces.terminal import echo
from annai.opening import open_project
from annai.project import MOST_REQUESTS
from annai.types import Request, RequestStatus

HASH_DIGITS = 12
"""Of a hash, for people: enough to tell the contents of a project's files apart."""

_STATES: dict[str, RequestStatus] = {
    "completed": "completed",
    "failed": "failed",
    "skipped": "skipped",
    "waiting": "pending",
}
"""What --status takes."""


@click.group(cls=Group, examples=("annai index status", "annai index log --status failed", "annai index rebuild guide"))
def command() -> None:
    """Show what waits to be indexed and what was, or index some files again.

    Works on files and folders, whichever collections they are in. `annai import`
    works on a collection as a whole.
    """


@command.command("status", examples=("annai index status", "annai index status --json"))
@format_option()
@project_command()
def status(config: Config, form: str | None) -> None:
    """Show how much is indexed, what is waiting, and what failed."""
    with open_project(config) as project:
        found = project.status()
    documents = sum(each.statistics.documents for each in found.collections)
    sections = sum(each.statistics.sections for each in found.collections)
    if (form or config.display.default_format) == "json":
        told = status_json(found)
        values: dict[str, object] = {"documents": documents, "sections": sections}
        values |= {name: told[name] for name in ("requests", "indexing", "errors", "server")}
        print_json(values)
        return
    print_lines(
        [("Indexed   ", f"{counted(documents, 'document')},", counted(sections, "section")), *queue_lines(found)],
        config,
    )


@command.command(
    "log", examples=("annai index log", "annai index log guide/setup.md", "annai index log --status failed --json")
)
@click.argument("path", required=False, default="", shell_complete=complete_documents)
@click.option("--status", type=click.Choice(tuple(_STATES)), help="Show only what ended so, or waits.")
@click.option("-n", "--limit", type=click.IntRange(1, MOST_REQUESTS), default=20, show_default=True, help="Lines.")
@format_option()
@project_command()
def log(config: Config, path: str, status: str | None, limit: int, form: str | None) -> None:
    """Show what was indexed lately, and what failed or was skipped.

    Newest first: when, how long it took, from which content (the beginning of its
    SHA-256), and why if it was not indexed. Files that are indexed together, such as those
    of an import with -m replace, take the time of all of them. PATH is a document or a
    folder, though it may be gone by now. worker.keep_days says how long this is kept.
    """
    with open_project(config) as project:
        found = project.requests(
            _STATES[status] if status else None, limit=limit, path=from_here(path, config.root) if path else ""
        )
    if (form or config.display.default_format) == "json":
        print_json([{**asdict(each), "seconds": _seconds(each)} for each in found])
    elif not found:
        echo("Nothing was indexed lately.", err=True)
    else:
        columns = ("file", "status", "when", "took", "hash", "why")
        print_table(columns, [_log_row(each) for each in found], config, optional=("hash", "took"))


def _seconds(request: Request) -> float | None:
    """How long it took, with those that were indexed together; None if it has not ended."""
    if not (request.started_at and request.completed_at):
        return None
    return (datetime.fromisoformat(request.completed_at) - datetime.fromisoformat(request.started_at)).total_seconds()


def _log_row(request: Request) -> tuple[str, ...]:
    seconds = _seconds(request)
    took = f"{seconds:.1f} s" if seconds is not None else ""
    when = local_time(request.completed_at or request.started_at or request.created_at)
    name = f"{request.collection}:{request.path}"
    return name, state_word(request.status), when, took, request.hash[:HASH_DIGITS], request.error


@command.command(
    "rebuild", examples=("annai index rebuild", "annai index rebuild guide/setup.md", "annai index rebuild api --force")
)
@click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=complete_documents)
@click.option("--force", is_flag=True, help="Also index files that did not change.")
@allow_deletions_option
@json_option
@project_command()
def rebuild(config: Config, paths: tuple[str, ...], force: bool, allow_deletions: bool, as_json: bool) -> None:
    """Index what changed, everywhere or under some paths.

    PATH is a document or a folder. With --force, everything under it is indexed
    again, changed or not.
    """
    start = perf_counter()
    with open_project(config) as project, progress_bar("Indexing", tell=False) as progress:
        summary = project.rebuild(
            [from_here(each, config.root) for each in paths], force, allow_deletions, progress=progress
        )
    tell(summary, perf_counter() - start, as_json=as_json)
