"""`annai status`: how does the index stand?"""

import click

from annai.config import Config
from annai.interfaces.cli.options import format_option, project_command
from annai.interfaces.render import print_json, print_table, queue_lines, searched_sentence, size, status_json
from annai.interfaces.terminal import echo
from annai.opening import open_project
from annai.types import Status


@click.command()
@click.option("-n", "--name", default="", help="Show only this collection, and list its documents.")
@format_option
@project_command()
def command(config: Config, name: str, form: str | None) -> None:
    """Show what is indexed, and what was left out.

    Lists each collection with its counts, the size on disk, and every file that was
    skipped or failed, with the reason.
    """
    with open_project(config) as project:
        status = project.status(name)
        paths = project.document_paths(name) if name else []
    if (form or config.display.default_format) == "json":
        print_json(status_json(status))
        return
    echo(f"Project    {status.root}")
    echo(f"Index      {status.database} ({size(status.size_on_disk)})")
    echo(f"Embedder   {status.embedder}")
    if status.server:
        echo(f"Server     {status.server.url} (pid {status.server.pid})")
    if status.server or status.requests.get("pending") or status.requests.get("processing"):
        for line in queue_lines(status):
            echo(line)
    echo()
    _print_collections(status, config)
    if not name:
        echo(f"\n{searched_sentence(status)}")
    if paths:
        echo()
        for path in paths:
            echo(path)
    _print_problems(status)


def _print_collections(status: Status, config: Config) -> None:
    rows = (
        (
            each.collection.name,
            "yes" if each.collection.enabled else "no",
            f"{each.statistics.documents:,}",
            f"{each.statistics.sections:,}",
            f"{each.statistics.vectors:,}",
            str(sum(state.problem is not None and state.problem.kind == "skipped" for state in each.problems)),
            str(sum(state.problem is not None and state.problem.kind == "failed" for state in each.problems)),
            each.collection.imported_at or "never",
        )
        for each in status.collections
    )
    print_table(
        ("collection", "enabled", "documents", "sections", "vectors", "skipped", "failed", "last import"), rows, config
    )


def _print_problems(status: Status) -> None:
    problems = [(each.collection.name, state) for each in status.collections for state in each.problems]
    if problems:
        echo()
    for name, state in problems:
        if state.problem:
            echo(f"{state.problem.kind}  {name}:{state.path}: {state.problem.reason}")
