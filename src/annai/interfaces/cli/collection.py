"""`annai collection …`: register directories, change and list them."""

import json
from pathlib import Path

import click

from annai.config import Config
from annai.interfaces.cli.options import format_option, project_command
from annai.interfaces.render import collection_json, print_table
from annai.opening import open_project
from annai.types import Collection

_name = click.option("-n", "--name", required=True, help="The collection's name.")
_folder = click.Path(path_type=Path)


@click.group()
def command() -> None:
    """Register directories as collections.

    Each is searchable by itself. Without any, the project's folder is the one
    collection. Also: `annai tool …`.
    """


@command.command("add")
@_name
@click.option("-d", "--description", required=True, help="What it holds, for a person or a model to choose by.")
@click.option("-s", "--source", required=True, type=_folder, help="The directory.")
@project_command(docs_dir=False)
def add(config: Config, name: str, description: str, source: Path) -> None:
    """Register a directory."""
    with open_project(config) as project:
        added = project.add_collection(name, source, description)
    click.echo(
        f"Added {added.name}: {added.source}. The next search indexes it, or `annai import -n {added.name}` now."
    )


@command.command("update")
@_name
@click.option("-d", "--description", help="What it holds.")
@click.option("-s", "--source", type=_folder, help="The directory.")
@project_command(docs_dir=False)
def update(config: Config, name: str, description: str | None, source: Path | None) -> None:
    """Change a collection's description or directory."""
    if description is None and source is None:
        raise click.UsageError("Say what to change: --description, --source or both.")
    with open_project(config) as project:
        project.update_collection(name, description=description, source=source)
    click.echo(f"Updated {name}.")


@command.command("delete")
@_name
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@project_command(docs_dir=False)
def delete(config: Config, name: str, yes: bool) -> None:
    """Forget a collection and everything indexed from it; the files themselves stay."""
    with open_project(config) as project:
        documents = project.status(name).collections[0].statistics.documents
        if not yes and not click.confirm(f"Delete {name} and the index of its {documents:,} documents?", err=True):
            click.echo("Nothing was deleted.")
            return
        project.delete_collection(name)
    click.echo(f"Deleted {name}.")


@command.command("enable")
@_name
@project_command(docs_dir=False)
def enable(config: Config, name: str) -> None:
    """Let searches look at a collection."""
    with open_project(config) as project:
        project.update_collection(name, enabled=True)
    click.echo(f"Enabled {name}.")


@command.command("disable")
@_name
@project_command(docs_dir=False)
def disable(config: Config, name: str) -> None:
    """Leave a collection out of searches that do not name it; its data stays."""
    with open_project(config) as project:
        project.update_collection(name, enabled=False)
    click.echo(f"Disabled {name}.")


@command.command("ls")
@click.option("--all", "everything", is_flag=True, help="Disabled ones and details too.")
@format_option
@project_command(docs_dir=False)
def ls(config: Config, everything: bool, form: str | None) -> None:
    """List the enabled collections' names, or all of them with details."""
    with open_project(config) as project:
        known = project.list_collections()
    shown = [collection for collection in known if everything or collection.enabled]
    chosen = form or config.display.default_format
    if chosen == "json":
        click.echo(json.dumps([collection_json(each) for each in shown], ensure_ascii=False, indent=2))
    elif not shown:
        click.echo("No collections are registered; searches look at the whole project.", err=True)
    elif everything or form == "table":
        print_table(("name", "enabled", "description", "source", "last import"), map(_row, shown), config)
    else:
        for collection in shown:
            click.echo(collection.name)


def _row(collection: Collection) -> tuple[str, ...]:
    return (
        collection.name,
        "yes" if collection.enabled else "no",
        collection.description,
        str(collection.source),
        collection.imported_at or "never",
    )
