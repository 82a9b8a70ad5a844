"""`annai index …`: how the queue stands, and indexing again."""

from time import perf_counter

import click

from annai.asking.addresses import from_here
from annai.config import Config
from annai.interfaces.cli.completion import complete_documents
from annai.interfaces.cli.conventions import Group
from annai.interfaces.cli.imports import tell
from annai.interfaces.cli.options import allow_deletions_option, format_option, json_option, project_command
from annai.interfaces.cli.progress import progress_bar
from annai.interfaces.render.notes import queue_lines
from annai.interfaces.render.records import print_json, status_json
from annai.interfaces.render.table import print_lines
from annai.interfaces.render.units import counted
from annai.opening import open_project


@click.group(cls=Group, examples=("annai index status", "annai index rebuild guide"))
def command() -> None:
    """Show what waits to be indexed, or index some files again.

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
