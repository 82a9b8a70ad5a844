"""How do the collections and the index stand? What a model is told of them, in the same two forms as an answer."""

from collections.abc import Sequence
from typing import Any

from annai.interfaces.mcp.results import ToolResult
from annai.interfaces.render import collection_json
from annai.serving.wire import plain
from annai.types import Collection, CollectionStatus, ImportSummary, Status

SHOWN_PROBLEMS = 20
"""Files that a status names; the others are counted."""

LONGEST_DESCRIPTION = 200
"""Bytes of one collection's line in the instructions: two hundred letters, or some sixty of Japanese."""


def collections_result(collections: Sequence[CollectionStatus]) -> ToolResult:
    """What there is to search."""
    rows = [
        {
            **collection_json(each.collection),
            "documents": each.statistics.documents,
            "sections": each.statistics.sections,
        }
        for each in collections
    ]
    lines = [
        f"- **{each.collection.name}**{'' if each.collection.enabled else ' (disabled)'}: "
        f"{each.collection.description or 'no description'} "
        f"({each.statistics.documents:,} documents, {each.statistics.sections:,} sections, "
        f"in `{each.collection.source}`)"
        for each in collections
    ]
    return ToolResult({"collections": rows}, "\n".join(lines))


def import_result(summary: ImportSummary, total_sections: int, problems: Sequence[str]) -> ToolResult:
    """What an indexing did."""
    counts = {
        "added": summary.added,
        "updated": summary.updated,
        "deleted": summary.deleted,
        "unchanged": summary.unchanged,
        "skipped": summary.skipped,
        "failed": summary.failed,
        "total_sections": total_sections,
    }
    text = "The index is up to date: " + ", ".join(f"{key} {count:,}" for key, count in counts.items()) + "."
    fields: dict[str, Any] = dict(counts)
    if problems:
        fields["problems"] = list(problems)
        text += "\n\nNot indexed:\n" + "\n".join(f"- {each}" for each in problems)
    return ToolResult(fields, text)


def status_result(status: Status) -> ToolResult:
    """How the index stands."""
    waiting = status.requests.get("pending", 0) + status.requests.get("processing", 0)
    collections = status.collections
    problems = problem_lines(collections)
    fields = {
        "root": str(status.root),
        "up_to_date": not waiting,
        "waiting": waiting,
        "indexing": list(status.indexing[:SHOWN_PROBLEMS]),
        "documents": sum(each.statistics.documents for each in collections),
        "sections": sum(each.statistics.sections for each in collections),
        "collections": [
            {"name": each.collection.name, "imported_at": each.collection.imported_at or None} | plain(each.statistics)
            for each in collections
        ],
        "problems": problems,
        "errors": [f"{each.collection}:{each.path}: {each.error}" for each in status.errors],
        "embedder": status.embedder,
        "database": status.database,
        "size_on_disk": status.size_on_disk,
    }
    state = "up to date" if not waiting else f"being brought up to date, {waiting:,} files to go"
    lines = [
        f"The index of `{status.root}` is {state}: {fields['documents']:,} documents, {fields['sections']:,} sections.",
        *(
            f"- **{each.collection.name}**: {each.statistics.documents:,} documents, {each.statistics.sections:,} "
            f"sections, last indexed {each.collection.imported_at or 'never'}"
            for each in collections
        ),
        *([f"Being indexed now: {', '.join(status.indexing[:SHOWN_PROBLEMS])}"] if status.indexing else []),
        *(["Not indexed:", *(f"- {each}" for each in problems)] if problems else []),
        f"Embedder {status.embedder}; index `{status.database}`, {status.size_on_disk:,} bytes.",
    ]
    return ToolResult(fields, "\n".join(lines))


def problem_lines(collections: Sequence[CollectionStatus]) -> list[str]:
    """The files that were skipped or failed, with the reasons; only the first of many."""
    every = [
        f"{each.collection.name}:{state.path} {state.problem.kind}: {state.problem.reason}"
        for each in collections
        for state in each.problems
        if state.problem
    ]
    more = len(every) - SHOWN_PROBLEMS
    return [*every[:SHOWN_PROBLEMS], *([f"and {more:,} more"] if more > 0 else [])]


def described(collections: Sequence[Collection], bytes_left: int) -> str:
    """A list of collections and what they hold, within so many bytes."""
    lines: list[str] = []
    for place, each in enumerate(collections):
        rest = f"- and {len(collections) - place} more: `list_collections` names them"
        line = f"- {each.name}: {' '.join(each.description.split()) or 'no description'}"
        while len(line.encode()) > LONGEST_DESCRIPTION:
            line = line[:-2].rstrip() + "…"
        needed = len(line.encode()) + 1 + (len(rest.encode()) if place < len(collections) - 1 else 0)
        if needed > bytes_left:
            return "\n".join([*lines, rest])
        lines.append(line)
        bytes_left -= len(line.encode()) + 1
    return "\n".join(lines)
