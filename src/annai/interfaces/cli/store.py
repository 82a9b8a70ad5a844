"""`annai store …`: check the index, tidy it, or move it to another engine."""

import click

from annai.config import Config, override
from annai.interfaces.cli.options import progress_bar, project_command
from annai.interfaces.render import size
from annai.stores.base import ENGINES, load_store

SHOWN = 20
"""Faults that are named one by one."""


@click.group()
def command() -> None:
    """Check the index, tidy it, or move it to another engine."""


@command.command("check")
@click.option("--repair", "repairing", is_flag=True, help="Make again from the stored documents what does not fit.")
@project_command(server=False)
@click.pass_context
def check(context: click.Context, config: Config, repairing: bool) -> None:
    """Hold documents, sections, vectors and keywords against each other.

    With --repair, what does not fit is made again from the documents that the index
    holds, and what belongs to no document is removed.
    """
    from annai.engine import Engine
    from annai.upkeep import maintenance  # it brings everything that indexes

    with Engine(config) as engine:
        faults = maintenance.check(engine.store)
        for fault in faults[:SHOWN]:
            click.echo(str(fault))
        if len(faults) > SHOWN:
            click.echo(f"… and {len(faults) - SHOWN:,} more")
        left = maintenance.repair(engine) if faults and repairing else faults
    if not faults:
        click.echo("The index is whole.")
    elif not left:
        click.echo(f"Repaired: {len(faults):,}.")
    else:
        hint = "index anew with `annai import -m replace`" if repairing else "`annai store check --repair` mends them"
        click.echo(f"annai: {len(left):,} things do not fit together; {hint}.", err=True)
        context.exit(1)


@command.command("vacuum")
@project_command(server=False)
def vacuum(config: Config) -> None:
    """Give back the space of what was deleted, and order the index for searching."""
    from annai.engine import Engine
    from annai.upkeep import maintenance  # it brings everything that indexes

    with Engine(config) as engine:
        before, after = maintenance.vacuum(engine)
    click.echo(f"{size(before)} before, {size(after)} now.")


@command.command("migrate")
@click.option("--to", "engine", required=True, type=click.Choice([*ENGINES]), help="The engine to move to.")
@click.option("--url", default="", help="Where it is (store.url).")
@project_command(server=False)
def migrate(config: Config, engine: str, url: str) -> None:
    """Move the index to another engine, without embedding again.

    Everything is copied and compared by counts and checksums. The old index stays
    where it is; [store] in annai.toml says which one is used.
    """
    from annai.engine import Engine
    from annai.upkeep import maintenance  # it brings everything that indexes

    other = override(config, "store", engine=engine, url=url)
    if (other.database_path, other.store.url) == (config.database_path, config.store.url):
        raise click.UsageError(f"The index is kept by {engine} there already.")
    with Engine(config) as source, load_store(other) as target, progress_bar("Moving") as progress:
        moved = maintenance.migrate(source, target, progress=progress)
    click.echo(
        f"Moved {moved.documents:,} documents with {moved.sections:,} sections to {engine}, and found them the same "
        f"(checksum {moved.checksum[:12]})."
    )
    click.echo(
        f'To use it, write into annai.toml:\n\n[store]\nengine = "{engine}"' + (f'\nurl = "{url}"' if url else "")
    )
