"""`annai status`: how does the index stand?"""

from collections import Counter

import click

from annai.config import Config
from annai.indexing.deletions import GONE
from annai.interfaces.cli.options import format_option, project_command
from annai.interfaces.render import (
    local_time,
    print_json,
    print_lines,
    print_table,
    queue_lines,
    searched_sentence,
    size,
    status_json,
)
from annai.interfaces.terminal import echo
from annai.opening import open_project
from annai.types import Status

MOST_ALIKE = 20
"""Files with the same problem that are listed one by one."""


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
    lines: list[tuple[str, ...]] = [
        ("Project   ", str(status.root)),
        ("Index     ", status.database, f"({size(status.size_on_disk)})"),
        ("Embedder  ", status.embedder),
    ]
    if status.server:
        lines.append(("Server    ", status.server.url, f"(pid {status.server.pid})"))
    if status.server or status.requests.get("pending") or status.requests.get("processing"):
        lines += queue_lines(status)
    print_lines(lines, config)
    echo()
    _print_collections(status, config)
    if not name:
        echo(f"\n{searched_sentence(status)}")
    if paths:
        echo()
        for path in paths:
            echo(path)
    for each in status.collections:
        if each.note:
            echo(f"\n{each.collection.name}: {each.note}")
    _print_problems(status, config)


def _print_collections(status: Status, config: Config) -> None:
    columns = ("collection", "enabled", "documents", "sections", "skipped", "failed", "last import")
    rows = [
        (
            each.collection.name,
            "yes" if each.collection.enabled else "no",
            f"{each.statistics.documents:,}",
            f"{each.statistics.sections:,}",
            f"{sum(state.problem is not None and state.problem.kind == 'skipped' for state in each.problems):,}",
            f"{sum(state.problem is not None and state.problem.kind == 'failed' for state in each.problems):,}",
            local_time(each.collection.imported_at) or "never",
        )
        for each in status.collections
    ]
    print_table(columns, rows, config, optional=("enabled",))


def _print_problems(status: Status, config: Config) -> None:
    problems = [(each.collection.name, state) for each in status.collections for state in each.problems]
    if problems:
        echo()
    shown = Counter[tuple[str, str]]()
    lines: list[tuple[str, ...]] = []
    for name, state in problems:
        if state.problem:
            shown[name, state.problem.reason] += 1
            if shown[name, state.problem.reason] <= MOST_ALIKE:
                lines.append((f"{state.problem.kind} ", f"{name}:{state.path}:", state.problem.reason))
    print_lines(lines, config)
    for (name, reason), count in shown.items():
        if count > MOST_ALIKE:
            echo(f"… and {count - MOST_ALIKE:,} more of {name}: {reason}")
    if any(reason == GONE for _, reason in shown):
        echo("\nIf files were deleted on purpose, confirm it with `annai index rebuild --allow-deletions`.")
