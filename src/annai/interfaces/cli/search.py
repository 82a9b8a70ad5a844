"""`annai search`: ask a question of the documents here."""

import logging
import sys
from pathlib import Path

import click

from annai.answers import PREVIEW_LINES, Answer, Content, Mode, Query, Sort
from annai.asking.addresses import filter_from_here
from annai.asking.query import MAX_DEPTH, MAX_LINES, MAX_PREVIEW_LINES, MAX_RESULTS, make_query
from annai.config import Config
from annai.errors import ConfigError
from annai.interfaces.cli import NOTHING_FOUND
from annai.interfaces.cli.completion import complete_collections, complete_documents
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import (
    confirm_large_index,
    database_option,
    format_option,
    project_command,
    tell_of_ancestor,
    warn_if_stale,
    with_index_file,
)
from annai.interfaces.cli.progress import progress_bar
from annai.interfaces.render.answer import SEARCH_FORMATS, print_answer
from annai.interfaces.render.notes import result_count, unmatched_lines
from annai.interfaces.terminal import echo
from annai.opening import open_project
from annai.timer import seconds_loading
from annai.values import choices

logger = logging.getLogger(__name__)

SLOW_LOAD_SECONDS = 2.0
"""Whoever waits this long for a model is told how not to."""


class _Search(Command):
    """Says how to ask for words that begin with a dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities or error.option_name.startswith("--"):
                raise
            raise click.UsageError(
                f"There is no option {error.option_name}. If it is part of the query, put the query last, after --: "
                "annai search -- routing -vue",
                ctx,
            ) from error


@click.command(
    cls=_Search,
    examples=(
        "annai search how do I roll back a bad deployment",
        "annai search 環境構築の方法 -n 3 --path guide",
        """annai search '"error 1042" -staging' --json""",
        "annai search --mode exact 'num_gpus=0.5'",
        "echo 'what is a token?' | annai search - --format files",
    ),
)
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option(
    "-n", "--limit", type=click.IntRange(1, MAX_LINES), help="Number of results (search.limit: 5; of lines, all)."
)
@click.option("--offset", type=click.IntRange(0), default=0, help="Number of results to leave out at the beginning.")
@click.option(
    "--per-document",
    type=click.IntRange(0, MAX_RESULTS),
    help="Sections of one document that may be results of their own; 0: no limit (search.per_document: 1).",
)
@click.option(
    "-c",
    "--collection",
    "collections",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_collections,
    help="Search only this collection; repeatable.",
)
@click.option(
    "--depth",
    "depths",
    type=click.IntRange(0, MAX_DEPTH),
    multiple=True,
    help="Return sections of this depth; repeatable.",
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    shell_complete=complete_documents,
    help="Search only files under this path or glob; repeatable.",
)
@click.option(
    "--exclude",
    "excludes",
    multiple=True,
    shell_complete=complete_documents,
    help="Exclude files under this path or glob; repeatable.",
)
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Search only documents whose front matter says so: status=draft, tags=k8s, date>=2025-01-01; repeatable.",
)
@click.option("--since", default="", metavar="WHEN", help="Search only documents updated since: 2w, or 2025-01-31.")
@click.option("--until", default="", metavar="WHEN", help="Search only documents last updated until then.")
@click.option(
    "--mode",
    type=click.Choice(choices(Mode)),
    help="Rank by meaning (vector), words (keyword) or both (hybrid), or list every line that holds it (exact).",
)
@click.option(
    "--sort",
    type=click.Choice(choices(Sort)),
    default="score",
    show_default=True,
    help="Order of the best results; depth: documents first, -depth: the deepest sections first.",
)
@click.option("--clean-only", is_flag=True, help="Exclude documents that changed since they were indexed.")
@click.option(
    "--content",
    type=click.Choice(choices(Content)),
    help="Text in each result (search.content: section).",
)
@format_option(SEARCH_FORMATS, "text")
@click.option("-0", "--null", "is_null", is_flag=True, help="With --format files: end each with a zero byte.")
@click.option(
    "--preview-lines",
    type=click.IntRange(0, MAX_PREVIEW_LINES),
    default=PREVIEW_LINES,
    show_default=True,
    help="Lines to show of each result; of the first, up to three times as many.",
)
@click.option("--explain", is_flag=True, help="Show what each result is ranked by.")
@click.option("-y", "--yes", is_flag=True, help="Index without asking, however many files there are.")
@database_option
@project_command()
def command(
    config: Config,
    words: tuple[str, ...],
    limit: int | None,
    offset: int,
    per_document: int | None,
    collections: tuple[str, ...],
    depths: tuple[int, ...],
    paths: tuple[str, ...],
    excludes: tuple[str, ...],
    where: tuple[str, ...],
    since: str,
    until: str,
    mode: Mode | None,
    sort: Sort,
    clean_only: bool,
    content: Content | None,
    form: str,
    is_null: bool,
    preview_lines: int,
    explain: bool,
    yes: bool,
    database: Path | None,
) -> None:
    r"""Search this folder by meaning and by words.

    The first search builds the index, and every later one updates it; a running
    server (`annai server start`) keeps it up to date all the time. The exit
    status is 1 if no document matches well, and 2 after an error.

    QUERY is a question, some words, "a phrase" or code; - reads it from standard
    input. It needs quotes only where your shell would take it apart: for ? * ( ' and
    for "a phrase". -word and -"a phrase" leave out the sections that hold it: annai
    search "routing -vue". Put -- before a query that begins with a dash.

    --mode keyword ranks documents by QUERY's words, in any form; --mode exact lists
    every line that has QUERY just so, with its file and number, as grep does. Between
    slashes it is a pattern (RE2): annai search --mode exact '/num_gpus=\d/'.

    --path and --exclude take a file or folder, as it is shown or absolute, or a glob:
    "docs/**/*.md" is relative to where you are, "*.md" matches names everywhere.

    --where compares with =, !=, <, <=, > or >=: numbers as numbers, dates as dates
    (2025 is the whole year), a list by each of its values. Quote < and > for your shell.
    "status=" finds documents without the field. `annai status --fields` lists the fields.
    --since and --until take how long ago (12h, 3d, 2w, 6m, 1y) or a date.
    """
    if is_null and form != "files":
        raise click.UsageError("-0 ends the names of files: add --format files.")
    query = _read_query() if words == ("-",) else " ".join(words)
    asked = make_query(
        query,
        config.search,
        limit=limit,
        offset=offset,
        per_document=per_document,
        collections=collections,
        paths=[filter_from_here(each, config.root) for each in paths],
        excludes=[filter_from_here(each, config.root) for each in excludes],
        clean_only=clean_only,
        where=where,
        since=since,
        until=until,
        depths=depths,
        mode=mode,
        sort=sort,
        content=content,
        preview_lines=preview_lines,
    )
    # Said here and nowhere else: a server's log has no questions in it.
    logger.debug('[search] query="%s", top_k=%d', asked.text, asked.limit)
    tell_of_ancestor(config)
    if database:
        config = with_index_file(config, database)
        if not database.exists():
            raise ConfigError(f"There is no index file {database}", f"`annai import --database {database}` makes one.")
    loaded_before = seconds_loading()
    with open_project(config) as project, progress_bar("Indexing") as progress:
        answer = project.search(asked, progress=progress, confirm=confirm_large_index(yes))
    warn_if_stale(answer.freshness)
    print_answer(answer, "null" if is_null else form, config, preview_lines=preview_lines, explain=explain)
    for line in unmatched_lines(answer):
        echo(line, err=True)
    if not answer.results and not answer.unmatched and not answer.unmet:
        echo(_nothing(answer, asked), err=True)
    if seconds_loading() - loaded_before > SLOW_LOAD_SECONDS:
        echo("`annai server start` keeps the model loaded.", err=True)
    if not (answer.results and answer.confident):
        raise click.exceptions.Exit(NOTHING_FOUND)


def _nothing(answer: Answer, query: Query) -> str:
    """What to say where there are no results."""
    if answer.empty:
        return answer.empty
    if answer.total:
        return f"There are only {result_count(answer, answer.total)}; make --offset {query.offset} smaller."
    if query.mode == "exact":
        return f"No line holds {query.text!r}; upper and lower case differ."
    note = f" ({answer.note})" if answer.note else ""
    remedy = "ask again when the rest is indexed" if answer.freshness.waiting else "try other or fewer words"
    return f"Nothing found for {query.text!r}{note}; {remedy}."


def _read_query() -> str:
    """The query from standard input, without the line ends around it."""
    if sys.stdin is None:
        raise click.UsageError("There is no standard input to read the query from.")
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip("\r\n")
