"""`annai search`: ask a question of the documents here."""

from typing import cast

import click

from annai.config import Config
from annai.interfaces.cli.options import open_fresh, project_command
from annai.interfaces.render import SEARCH_FORMATS, render_answer
from annai.searching.query import MAX_RESULTS, check_query
from annai.types import Content, Mode, Query, Sort, Where


@click.command()
@click.argument("query")
@click.option("-n", "--limit", type=click.IntRange(1, MAX_RESULTS), help="How many results (search.limit: 5).")
@click.option("-c", "--collection", "collections", multiple=True, help="Only this collection; may be repeated.")
@click.option(
    "--depth", "depths", type=click.IntRange(0, 3), multiple=True, help="Show sections of this depth; may be repeated."
)
@click.option("--path", "paths", multiple=True, help="Only files under this path; may be repeated.")
@click.option("--exclude", "excludes", multiple=True, help="No files under this path; may be repeated.")
@click.option("--mode", type=click.Choice(["hybrid", "vector", "keyword"]), help="By meaning and words, or by one.")
@click.option("--sort", type=click.Choice(["score", "depth", "path"]), default="score", show_default=True)
@click.option("--clean-only", is_flag=True, help="Leave out documents that changed since they were indexed.")
@click.option(
    "--content",
    type=click.Choice(["passage", "section", "document", "none"]),
    help="What a result carries (search.content: section).",
)
@click.option("--format", "form", type=click.Choice(SEARCH_FORMATS), default="text", show_default=True)
@click.option("--preview-lines", type=click.IntRange(0, 100), default=3, show_default=True)
@click.option("--explain", is_flag=True, help="Show where each score comes from.")
@click.option("--yes", is_flag=True, help="Index without asking, however many files there are.")
@project_command()
def command(
    config: Config,
    query: str,
    limit: int | None,
    collections: tuple[str, ...],
    depths: tuple[int, ...],
    paths: tuple[str, ...],
    excludes: tuple[str, ...],
    mode: str | None,
    sort: str,
    clean_only: bool,
    content: str | None,
    form: str,
    preview_lines: int,
    explain: bool,
    yes: bool,
) -> None:
    """Search this folder by meaning and by words.

    The index is made on the first search and brought up to date on every other; a
    running server (`annai server start`) keeps it so all the time.
    """
    asked = Query(
        text=query,
        limit=limit or config.search.limit,
        where=Where(collections, paths, excludes, clean_only),
        depths=depths,
        mode=cast(Mode, mode or config.search.mode),
        sort=cast(Sort, sort),
        content=cast(Content, content or config.search.content),
    )
    check_query(asked)
    with open_fresh(config, collections, yes=yes) as project:
        answer = project.search(asked)
        sources = project.sources()
    text = render_answer(answer, form, sources, preview_lines=preview_lines, explain=explain)
    click.echo(text, nl=False, color={"always": True, "never": False}.get(config.display.color))
    if not answer.results:
        click.echo(f"Nothing found for {query!r}; try other words, or fewer of them.", err=True)
