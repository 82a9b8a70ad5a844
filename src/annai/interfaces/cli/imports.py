"""`annai import`: index a collection now, and say what was done."""

from dataclasses import asdict
from pathlib import Path
from time import perf_counter

import click

from annai.collection import only_one
from annai.config import Config
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import (
    allow_deletions_option,
    collection_option,
    database_option,
    json_option,
    project_command,
    tell_of_ancestor,
    with_index_file,
)
from annai.interfaces.cli.progress import indexed_line, progress_bar, short_duration
from annai.interfaces.render.notes import left_out_lines
from annai.interfaces.render.records import print_json
from annai.interfaces.terminal import echo, say
from annai.opening import open_project
from annai.project import Project
from annai.types import IMPLICIT_COLLECTION, ImportMode, ImportSummary
from annai.values import choices


@click.command(
    "import",
    cls=Command,
    examples=("annai import", "annai import -c api -m replace", "annai import -c api --chunk-size 800"),
)
@collection_option("Collection to index; optional if there is only one.")
@click.option(
    "-m",
    "--mode",
    type=click.Choice(choices(ImportMode)),
    default="update",
    show_default=True,
    help="update: index what is new or changed; replace: rebuild it, then swap; new: refuse if it has data.",
)
@database_option
@click.option(
    "--chunk-size",
    type=int,
    help="Tokens per window or piece; the collection keeps it. 0: follow chunking.size and chunking.overlap again.",
)
@click.option("--chunk-overlap", type=int, help="Tokens shared by neighbours; the collection keeps it.")
@allow_deletions_option
@click.option(
    "--adopt", is_flag=True, help="In an index that machines share: let this machine index it, with its settings."
)
@json_option
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
    as_json: bool,
) -> None:
    """Index a collection now, or rebuild it.

    A search indexes what changed by itself: import is for doing it beforehand, for
    rebuilding, and for other sizes of pieces. `annai index rebuild PATH` indexes
    single files and folders again.
    """
    tell_of_ancestor(config)
    own = config
    if database:
        config = with_index_file(config, database)
    start = perf_counter()
    try:
        with open_project(config) as project, progress_bar("Indexing", tell=False) as progress:
            if database:
                name = _register(own, project, name)
            summary = project.import_collection(
                name, mode, chunk_size, chunk_overlap, allow_deletions, adopt, progress=progress
            )
    except KeyboardInterrupt:
        if mode != "replace":
            raise
        # No search sees what was built so far, unlike what an update indexed.
        raise KeyboardInterrupt("the collection is as it was before.") from None
    tell(summary, perf_counter() - start, as_json=as_json)


def _register(own: Config, project: Project, name: str) -> str:
    """Register in another index file the collection that the project's own index has; returns its name."""
    if not own.database_path.exists():
        return name
    with open_project(own) as index:
        registered = index.list_collections()
    candidates = [each for each in registered if (each.name == name if name else each.enabled)]
    if not candidates:
        return name
    chosen = only_one(candidates)
    known = project.list_collections()
    if chosen.name == IMPLICIT_COLLECTION:
        if known:
            project.update_collection(chosen.name, enabled=True)
    elif chosen.name not in {each.name for each in known}:
        project.add_collection(chosen.name, chosen.source, chosen.description)
    return chosen.name


def tell(summary: ImportSummary, seconds: float, *, as_json: bool) -> None:
    """Say what was done."""
    if as_json:
        print_json({**asdict(summary), "seconds": round(seconds, 3)})
        return
    files = summary.added + summary.updated
    first = (
        indexed_line(files, summary.size, summary.passages, seconds)
        if files
        else f"nothing to index ({short_duration(seconds)})"
    )
    counts = ", ".join(f"{name} {count:,}" for name, count in summary.counts.items() if count)
    say(f"{first}: {counts}" if counts else first)
    if summary.left_out:
        told = "; ".join(left_out_lines(summary.left_out))
        echo(f"{told[0].upper()}{told[1:]}.", err=True)
    if summary.note:
        echo(summary.note, err=True)
    if summary.skipped or summary.failed:
        echo("`annai status` shows which files were skipped or failed, and why.", err=True)
