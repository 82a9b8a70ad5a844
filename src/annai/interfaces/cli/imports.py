"""`annai import`: index a collection now, and say what was done."""

from pathlib import Path
from time import perf_counter
from typing import cast

import click

from annai.config import Config, override
from annai.engine import Engine, ImportMode
from annai.interfaces.cli.options import duration, progress_bar, project_command


@click.command("import")
@click.option("-n", "--name", default="", help="The collection; not needed where there is only one.")
@click.option(
    "-m",
    "--mode",
    type=click.Choice(["new", "replace", "update"]),
    default="new",
    show_default=True,
    help="new: it must be empty; replace: build it anew and swap; update: what changed.",
)
@click.option("--database", type=click.Path(path_type=Path), help="Another index file than the settings name.")
@click.option("--chunk-size", type=int, help="Tokens in a window or piece (chunking.size).")
@click.option("--chunk-overlap", type=int, help="Tokens that neighbours share (chunking.overlap).")
@project_command()
def command(
    config: Config,
    name: str,
    mode: str,
    database: Path | None,
    chunk_size: int | None,
    chunk_overlap: int | None,
) -> None:
    """Index a collection: all of it, or what changed."""
    config = override(config, "chunking", size=chunk_size, overlap=chunk_overlap)
    config = override(config, "database", path=str(database.absolute()) if database else None)
    start = perf_counter()
    with Engine(config) as engine, progress_bar("Indexing") as progress:
        summary = engine.import_collection(name, cast(ImportMode, mode), progress=progress)
    counts = (
        ("added", summary.added),
        ("updated", summary.updated),
        ("deleted", summary.deleted),
        ("unchanged", summary.unchanged),
        ("skipped", summary.skipped),
        ("failed", summary.failed),
    )
    click.echo(", ".join(f"{label} {count:,}" for label, count in counts) + f" ({duration(perf_counter() - start)})")
    if summary.skipped or summary.failed:
        click.echo("`annai status` tells which files were skipped or failed, and why.", err=True)
