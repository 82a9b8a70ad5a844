"""`annai status`: how does the index stand?"""

from collections import Counter

import click

from annai.asking.conditions import shorten_value
from annai.config import Config
from annai.indexing.deletions import GONE
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import collection_option, format_option, project_command, tell_of_ancestor
from annai.interfaces.render.notes import left_out_lines, queue_lines, searched_sentence
from annai.interfaces.render.records import field_json, print_json, status_json
from annai.interfaces.render.table import print_lines, print_table
from annai.interfaces.render.units import size, time_ago
from annai.interfaces.terminal import echo
from annai.opening import open_project
from annai.types import CollectionStatus, MetadataField, Status

MAX_VALUE_CELLS = 24
"""Characters of a value in the table of fields."""

MOST_ALIKE = 20
"""Files with the same problem that are listed one by one."""


@click.command(cls=Command, examples=("annai status", "annai status -c api --json", "annai status --fields"))
@collection_option("Show this collection alone, with all its documents.")
@click.option("--fields", is_flag=True, help="List what --where can search by: the fields of the documents.")
@format_option()
@project_command()
def command(config: Config, name: str, fields: bool, form: str | None) -> None:
    """Show what is indexed, and what was left out.

    Lists each collection with its counts, the size on disk, and every file that was
    skipped or failed, with the reason; and how many files of other kinds annai does not
    read. With --fields, lists instead what documents say about themselves, in how many
    of them, and the most frequent values.
    """
    if fields:
        _print_fields(config, name, form)
        return
    tell_of_ancestor(config, always=True)
    with open_project(config) as project:
        status = project.status(name)
        paths = project.document_paths(name) if name else None
    if (form or config.display.default_format) == "json":
        print_json(status_json(status, paths))
        return
    lines: list[tuple[str, ...]] = [
        ("Project   ", str(status.root)),
        ("Index     ", status.database, f"({size(status.size_on_disk)})"),
        ("Embedder  ", status.embedder),
    ]
    if status.problem:
        lines.insert(2, ("Engine    ", f"the index file answers in its place: {status.problem}"))
    if status.server:
        lines.append(("Server    ", status.server.url, f"(pid {status.server.pid})"))
    if status.server or status.requests.get("pending") or status.requests.get("processing"):
        lines += queue_lines(status)
    print_lines(lines, config)
    echo()
    if name:
        _print_collection(status.collections[0], config)
    else:
        _print_collections(status, config)
        echo(f"\n{searched_sentence(status)}")
    if paths:
        echo()
        for path in paths:
            echo(path)
    for each in status.collections:
        if each.note:
            echo(f"\n{each.collection.name}: {each.note}")
    _print_problems(status, config)
    _print_left_out(status)


def _print_left_out(status: Status) -> None:
    for each in status.collections:
        label = f"{each.collection.name}: " if len(status.collections) > 1 else ""
        lines = left_out_lines(each.left_out)
        if lines:
            echo()
        for line in lines:
            echo(f"{label}{line}")


def _print_fields(config: Config, name: str, form: str | None) -> None:
    with open_project(config) as project:
        found = project.fields(name)
    if (form or config.display.default_format) == "json":
        print_json([field_json(each) for each in found])
    elif not found:
        echo("Nothing is indexed yet; `annai search` does that.", err=True)
    else:
        rows = [(each.name, f"{each.documents:,}", _frequent(each)) for each in found]
        print_table(("field", "documents", "frequent values"), rows, config)


def _frequent(field: MetadataField) -> str:
    values = [f"{shorten_value(value, MAX_VALUE_CELLS)} ({count:,})" for value, count in field.values.items()]
    return ", ".join(values) or "what they say, or the times of their files"


def _print_collection(status: CollectionStatus, config: Config) -> None:
    """All that is known of one collection."""
    collection, statistics = status.collection, status.statistics
    kinds = Counter(state.problem.kind for state in status.problems if state.problem)
    problems = "".join(f", {count:,} {kind}" for kind, count in sorted(kinds.items()))
    lines: list[tuple[str, ...]] = [
        ("Collection ", collection.name, "" if collection.enabled else "(disabled)"),
        ("Description", collection.description),
        ("Source     ", str(collection.source)),
        ("Documents  ", f"{statistics.documents:,}{problems}"),
        ("Sections   ", f"{statistics.sections:,}"),
        ("Vectors    ", f"{statistics.vectors:,}", f"({collection.embedder})" if collection.embedder else ""),
        ("Last import", time_ago(collection.imported_at) or "never"),
    ]
    sizes = (("Chunk size ", collection.chunk_size), ("Overlap    ", collection.chunk_overlap))
    lines += [(label, f"{tokens:,} tokens (as an import was told)") for label, tokens in sizes if tokens is not None]
    print_lines([tuple(filter(None, line)) for line in lines], config)


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
            time_ago(each.collection.imported_at) or "never",
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
