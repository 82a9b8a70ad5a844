"""`annai collection …`: register folders, change and list them."""

import functools
from pathlib import Path
from typing import Any

import click

from annai.config import Config
from annai.interfaces.cli.completion import complete_collections
from annai.interfaces.cli.conventions import Group
from annai.interfaces.cli.options import Command, format_option, project_command
from annai.interfaces.render.notes import searched_sentence
from annai.interfaces.render.records import collection_json, print_json
from annai.interfaces.render.table import print_table
from annai.interfaces.render.units import counted, time_ago
from annai.interfaces.terminal import echo, say
from annai.opening import open_project
from annai.serving.client import Client
from annai.types import Collection

_folder = click.Path(path_type=Path)


def _name(function: Command) -> Command:
    """Give a command NAME; -n NAME, as mdvec spelled it, works too."""

    @functools.wraps(function)
    def wrapped(name: str, named: str, **rest: Any) -> None:  # noqa: ANN401 - the command's own options
        if bool(name) == bool(named):
            raise click.UsageError("Name one collection." if name else "Missing argument 'NAME': which collection?")
        function(name=name or named, **rest)

    wrapped = click.option("-n", "--name", "named", default="", hidden=True)(wrapped)
    return click.argument("name", metavar="NAME", default="", shell_complete=complete_collections)(wrapped)


@click.group(cls=Group, examples=('annai collection add api -s ./api -d "API reference"', "annai collection ls --all"))
def command() -> None:
    """Register folders as collections.

    Each can be searched on its own. If none is registered, the project's folder is
    the only collection, named root; beside others it is what lies around them, and
    can be disabled and enabled as they can. Also: `annai tool …`.
    """


@command.command(
    "add",
    examples=(
        'annai collection add api -s ./api -d "API reference"',
        'annai collection add notes -s ~/notes -d "My notes" --keep-root',
    ),
)
@_name
@click.option("-d", "--description", required=True, help="What it contains; people and agents choose by it.")
@click.option("-s", "--source", required=True, type=_folder, help="The folder to index.")
@click.option(
    "--keep-root/--no-keep-root",
    default=None,
    help="Whether searches cover the rest of the project's folder too (default: if it is indexed).",
)
@project_command()
def add(config: Config, name: str, description: str, source: Path, keep_root: bool | None) -> None:
    """Register a folder, and say what is searched from now on."""
    with open_project(config) as project:
        added = project.add_collection(name, source, description, keep_root)
        status = project.status()
        is_served = isinstance(project, Client)
    later = f"The next search indexes it, or `annai import -c {added.name}` does."
    say(f"Added {added.name}: {added.source}.\n{'The server indexes it now.' if is_served else later}")
    say(searched_sentence(status))


@command.command(
    "update",
    examples=('annai collection update api -d "API reference, version 2"', "annai collection update api -s ./docs/api"),
)
@_name
@click.option("-d", "--description", help="The new description.")
@click.option("-s", "--source", type=_folder, help="The new folder.")
@project_command()
def update(config: Config, name: str, description: str | None, source: Path | None) -> None:
    """Change a collection's description or folder."""
    if description is None and source is None:
        raise click.UsageError("Nothing to change; give --description, --source or both.")
    with open_project(config) as project:
        project.update_collection(name, description=description, source=source)
    say(f"Updated {name}.")


@command.command("delete", examples=("annai collection delete api", "annai collection delete api --yes"))
@_name
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@project_command()
def delete(config: Config, name: str, yes: bool) -> None:
    """Delete a collection and its index; the files stay."""
    with open_project(config) as project:
        documents = project.status(name).collections[0].statistics.documents
        if not yes and not click.confirm(
            f"Delete {name} and the index of its {counted(documents, 'document')}?", err=True
        ):
            say("Nothing was deleted.")
            return
        project.delete_collection(name)
        status = project.status()
    say(f"Deleted {name}. {searched_sentence(status)}")


@command.command("enable", examples=("annai collection enable api", "annai collection enable root"))
@_name
@project_command()
def enable(config: Config, name: str) -> None:
    """Include a collection in searches."""
    with open_project(config) as project:
        project.update_collection(name, enabled=True)
        status = project.status()
    say(f"Enabled {name}. {searched_sentence(status)}")


@command.command("disable", examples=("annai collection disable api", "annai collection disable root"))
@_name
@project_command()
def disable(config: Config, name: str) -> None:
    """Skip a collection in searches that do not name it.

    Its index is kept.
    """
    with open_project(config) as project:
        project.update_collection(name, enabled=False)
        status = project.status()
    say(f"Disabled {name}. {searched_sentence(status)}")


@command.command("ls", examples=("annai collection ls", "annai collection ls --all --json"))
@click.option("--all", "everything", is_flag=True, help="Include disabled collections and details.")
@format_option()
@project_command()
def ls(config: Config, everything: bool, form: str | None) -> None:
    """List the enabled collections, or all of them with details."""
    with open_project(config) as project:
        known = project.list_collections()
    shown = [collection for collection in known if everything or collection.enabled]
    chosen = form or config.display.default_format
    if chosen == "json":
        print_json([collection_json(each) for each in shown])
    elif known and not shown:
        echo("Every collection is disabled; `annai collection ls --all` lists them.", err=True)
    elif not shown:
        echo("No collections are registered; searches cover the whole project.", err=True)
    elif everything or form == "table":
        print_table(("name", "enabled", "description", "source", "last import"), map(_row, shown), config)
    else:
        for collection in shown:
            echo(collection.name)


def _row(collection: Collection) -> tuple[str, ...]:
    return (
        collection.name,
        "yes" if collection.enabled else "no",
        collection.description,
        str(collection.source),
        time_ago(collection.imported_at) or "never",
    )
