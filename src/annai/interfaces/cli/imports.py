"""`annai import`: index a collection now, and say what was done."""

from pathlib import Path
from time import perf_counter

import click

from annai.config import Config, override
from annai.errors import ConfigError
from annai.interfaces.cli.options import allow_deletions_option, project_command
from annai.interfaces.cli.progress import indexed_line, progress_bar, short_duration
from annai.interfaces.terminal import echo
from annai.opening import open_project, own_server
from annai.types import ImportMode, ImportSummary
from annai.values import choices


@click.command("import")
@click.option("-n", "--name", default="", help="Collection to index; optional if there is only one.")
@click.option(
    "-m",
    "--mode",
    type=click.Choice(choices(ImportMode)),
    default="new",
    show_default=True,
    help="new: index an empty collection; replace: rebuild it, then swap; update: index what changed.",
)
@click.option("--database", type=click.Path(path_type=Path), help="Index file, instead of the one in the settings.")
@click.option("--chunk-size", type=int, help="Tokens per window or piece (chunking.size).")
@click.option("--chunk-overlap", type=int, help="Tokens shared by neighbours (chunking.overlap).")
@allow_deletions_option
@click.option(
    "--adopt", is_flag=True, help="In an index that machines share: let this machine index it, with its settings."
)
@project_command()
def command(
    config: Config,
    name: str,
    mode: ImportMode,
    database: Path | None,
    chunk_size: int | None,
    chunk_overlap: int | None,
    allow_deletions: bool,
    adopt: bool,
) -> None:
    """Index all of a collection, or what changed."""
    config = override(config, "chunking", size=chunk_size, overlap=chunk_overlap)
    config = override(config, "database", path=str(database.absolute()) if database else None)
    is_chunked_otherwise = chunk_size is not None or chunk_overlap is not None
    if is_chunked_otherwise and (config.server_url or own_server(config)):
        raise ConfigError(
            "A running server uses its own chunk size and overlap: set chunking.size or chunking.overlap in annai.toml "
            "and run `annai server restart`, or run `annai server stop` first."
        )
    start = perf_counter()
    try:
        with open_project(config) as project, progress_bar("Indexing", tell=False) as progress:
            summary = project.import_collection(name, mode, allow_deletions, adopt, progress=progress)
    except KeyboardInterrupt:
        if mode != "replace":
            raise
        # What was built so far is deleted, unlike what an update indexed.
        raise KeyboardInterrupt("the collection is as it was before.") from None
    tell(summary, perf_counter() - start)


def tell(summary: ImportSummary, seconds: float) -> None:
    """Say what was done."""
    files = summary.added + summary.updated
    first = (
        indexed_line(files, summary.size, summary.passages, seconds)
        if files
        else f"nothing to index ({short_duration(seconds)})"
    )
    counts = ", ".join(f"{name} {count:,}" for name, count in summary.counts.items() if count)
    echo(f"{first}: {counts}" if counts else first)
    if summary.skipped or summary.failed:
        echo("`annai status` shows which files were skipped or failed, and why.", err=True)
