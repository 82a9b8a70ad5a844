"""What is the state of the collections and of the index? Reports for a model, as fields and as Markdown."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from annai.interfaces.mcp.results import ToolResult
from annai.interfaces.render import collection_json, searched_sentence, summary_line
from annai.serving.wire import plain
from annai.types import Collection, CollectionStatus, ImportSummary, Status

MAX_SHOWN_FILES = 20
"""Files that a status names; further ones are only counted."""

MAX_COLLECTION_LINE_BYTES = 200
"""One collection's line in the instructions: two hundred letters, or about sixty Japanese characters."""


def collections_result(status: Status) -> ToolResult:
    """What there is to search, and what a search without a collection covers."""
    collections = status.collections
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
        f"{each.collection.description or 'no description'} ({_counts(each)}, in `{each.collection.source}`)"
        for each in collections
    ]
    fields = {"collections": rows, "searched": list(status.searched)}
    return ToolResult(fields, "\n".join([*lines, searched_sentence(status)]))


def import_result(summary: ImportSummary, total_sections: int, problems: Sequence[str]) -> ToolResult:
    """What an import did."""
    fields: dict[str, Any] = {**asdict(summary), "total_sections": total_sections}
    text = f"The index is up to date: {summary_line(summary)}, total_sections {total_sections:,}."
    if problems:
        fields["problems"] = list(problems)
        text += "\n\nNot indexed:\n" + "\n".join(f"- {each}" for each in problems)
    return ToolResult(fields, text)


def status_result(status: Status) -> ToolResult:
    """The state of the index."""
    waiting = status.requests.get("pending", 0) + status.requests.get("processing", 0)
    collections = status.collections
    problems = problem_lines(collections)
    indexing = list(status.indexing[:MAX_SHOWN_FILES])
    fields = {
        "root": str(status.root),
        "up_to_date": not waiting,
        "waiting": waiting,
        "indexing": indexing,
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
    state = f"being updated, {waiting:,} files to go" if waiting else "up to date"
    lines = [
        f"The index of `{status.root}` is {state}: {fields['documents']:,} documents, {fields['sections']:,} sections.",
        *(
            f"- **{each.collection.name}**: {_counts(each)}, last indexed {each.collection.imported_at or 'never'}"
            for each in collections
        ),
        *([f"Being indexed now: {', '.join(indexing)}"] if indexing else []),
        *(["Not indexed:", *(f"- {each}" for each in problems)] if problems else []),
        f"Embedder {status.embedder}; index `{status.database}`, {status.size_on_disk:,} bytes.",
    ]
    return ToolResult(fields, "\n".join(lines))


def problem_lines(collections: Sequence[CollectionStatus]) -> list[str]:
    """The files that were skipped or failed, with the reasons; only the first of many."""
    lines = [
        f"{each.collection.name}:{state.path} {state.problem.kind}: {state.problem.reason}"
        for each in collections
        for state in each.problems
        if state.problem
    ]
    more = len(lines) - MAX_SHOWN_FILES
    return [*lines[:MAX_SHOWN_FILES], *([f"and {more:,} more"] if more > 0 else [])]


def collection_list(collections: Sequence[Collection], max_bytes: int) -> str:
    """A list of collections with their descriptions, within this many bytes."""
    lines: list[str] = []
    remaining = max_bytes
    for index, each in enumerate(collections):
        more = f"- and {len(collections) - index} more: `list_collections` names them"
        line = f"- {each.name}: {' '.join(each.description.split()) or 'no description'}"
        while len(line.encode()) > MAX_COLLECTION_LINE_BYTES:
            line = line[:-2].rstrip() + "…"
        is_last = index == len(collections) - 1
        if len(line.encode()) + 1 + (0 if is_last else len(more.encode())) > remaining:
            return "\n".join([*lines, more])
        lines.append(line)
        remaining -= len(line.encode()) + 1
    return "\n".join(lines)


def _counts(status: CollectionStatus) -> str:
    return f"{status.statistics.documents:,} documents, {status.statistics.sections:,} sections"
