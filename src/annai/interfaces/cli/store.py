"""`annai store …`: check the index, compact it, or move it to another engine."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from annai.config import Config, override
from annai.errors import DamagedIndex
from annai.interfaces.cli.conventions import Group
from annai.interfaces.cli.options import json_option, project_command
from annai.interfaces.cli.progress import progress_bar
from annai.interfaces.render.records import print_json
from annai.interfaces.render.units import counted, size
from annai.interfaces.terminal import echo, say, warn
from annai.stores.base import ENGINES, load_store

if TYPE_CHECKING:
    from annai.upkeep.maintenance import Fault

KEPT = [name for name in ENGINES if name != "memory"]
"""Engines that an index can move to: one in memory is gone when the command ends."""

SHOWN = 20
"""Faults that are named one by one."""


@click.group(cls=Group, examples=("annai store check", "annai store vacuum"))
def command() -> None:
    """Check the index, compact it, or move it to another engine."""


@command.command("check", examples=("annai store check", "annai store check --repair", "annai store check --json"))
@click.option("--repair", "repairing", is_flag=True, help="Index again, from the files, whatever is inconsistent.")
@json_option
@project_command(server=False)
@click.pass_context
def check(context: click.Context, config: Config, repairing: bool, as_json: bool) -> None:
    """Check that the index is consistent.

    Reads all of it, and compares documents, sections, vectors and keywords. With
    --repair, the files of whatever is inconsistent are indexed again. A damaged index
    is renamed and built again as a whole; the collections that you registered stay.
    """
    from annai.engine import Engine
    from annai.upkeep import maintenance  # it brings everything that indexes

    try:
        with Engine(config) as engine:
            faults = maintenance.check(engine.store)
            if not as_json:
                _show(faults)
            left = maintenance.repair(engine) if faults and repairing else faults
    except DamagedIndex as error:
        if not repairing:
            raise
        with progress_bar("Indexing") as progress:
            aside = maintenance.rebuild(config, progress=progress)
        say(f"The damaged index is now {aside}, which you can delete.")
        faults, left = [maintenance.Fault(str(error))], []
    if as_json:
        print_json({"faults": [asdict(each) for each in faults], "repaired": len(faults) - len(left)})
        context.exit(bool(left))
    if not faults:
        say("The index is consistent.")
    elif not left:
        say(f"Repaired: {len(faults):,}.")
    else:
        hint = "`annai import -m replace` rebuilds it" if repairing else "`annai store check --repair` fixes them"
        many = "1 inconsistency" if len(left) == 1 else f"{len(left):,} inconsistencies"
        warn(f"{many} in the index; {hint}.")
        context.exit(1)


def _show(faults: "Sequence[Fault]") -> None:
    for fault in faults[:SHOWN]:
        echo(str(fault))
    if len(faults) > SHOWN:
        echo(f"… and {len(faults) - SHOWN:,} more")


@command.command("vacuum", examples=("annai store vacuum", "annai store vacuum --docs-dir ~/notes"))
@project_command(server=False)
def vacuum(config: Config) -> None:
    """Free the space of deleted data, and compact the index."""
    from annai.engine import Engine
    from annai.upkeep import maintenance  # it brings everything that indexes

    with Engine(config) as engine:
        before, after = maintenance.vacuum(engine)
    say(f"{size(before)} before, {size(after)} now.")


@command.command(
    "migrate",
    examples=(
        "annai store migrate --to lancedb",
        "annai store migrate --to postgres --url postgresql://me@host/annai",
    ),
)
@click.option(
    "--to", "engine", required=True, metavar="ENGINE", help=f"The engine to move to: {', '.join(KEPT)}, or a plugin."
)
@click.option("--url", default="", help="Where the engine is (store.url).")
@project_command(server=False)
def migrate(config: Config, engine: str, url: str) -> None:
    """Move the index to another engine without embedding again.

    Copies everything, then compares counts and checksums. The old index stays where
    it is; [store] in annai.toml says which one is used.
    """
    from annai.engine import Engine
    from annai.upkeep import maintenance  # it brings everything that indexes

    if engine == "memory":
        raise click.UsageError("The engine memory saves nothing; choose another.")
    if engine == "postgres" and not url:
        raise click.UsageError("Name the database with --url postgresql://USER@HOST/DATABASE.")
    other = override(config, "store", engine=engine, url=url)
    if other.store == config.store:
        raise click.UsageError(f"The index is already stored there, in {engine}.")
    with Engine(config) as source, load_store(other) as target, progress_bar("Moving") as progress:
        moved = maintenance.migrate(source, target, progress=progress)
    say(
        f"Moved {counted(moved.documents, 'document')} with {counted(moved.sections, 'section')} to {engine}; "
        f"the copy is identical (checksum {moved.checksum[:12]})."
    )
    say(f'To use it, add this to annai.toml:\n\n[store]\nengine = "{engine}"' + (f'\nurl = "{url}"' if url else ""))
