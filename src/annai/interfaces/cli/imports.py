"""`annai import`: index a collection now, and say what was done."""

from pathlib import Path
from time import perf_counter

import click

from annai.config import Config, override
from annai.errors import ConfigError
from annai.interfaces.cli.options import duration, progress_bar, project_command
from annai.interfaces.render import summary_line
from annai.opening import open_project, own_server
from annai.types import ImportMode, ImportSummary
from annai.values import choices


@click.command("import")
@click.option("-n", "--name", default="", help="The collection; not needed where there is only one.")
@click.option(
    "-m",
    "--mode",
    type=click.Choice(choices(ImportMode)),
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
    mode: ImportMode,
    database: Path | None,
    chunk_size: int | None,
    chunk_overlap: int | None,
) -> None:
    """Index a collection: all of it, or what changed."""
    config = override(config, "chunking", size=chunk_size, overlap=chunk_overlap)
    config = override(config, "database", path=str(database.absolute()) if database else None)
    if (chunk_size or chunk_overlap) and (config.server_url or own_server(config)):
        raise ConfigError(
            "How documents are cut is a setting of the server that runs: write chunking.size or chunking.overlap into "
            "annai.toml and `annai server restart`, or `annai server stop` first."
        )
    start = perf_counter()
    with open_project(config) as project, progress_bar("Indexing") as progress:
        summary = project.import_collection(name, mode, progress=progress)
    tell(summary, perf_counter() - start)


def tell(summary: ImportSummary, seconds: float) -> None:
    """Say what was done."""
    click.echo(f"{summary_line(summary)} ({duration(seconds)})")
    if summary.skipped or summary.failed:
        click.echo("`annai status` tells which files were skipped or failed, and why.", err=True)
