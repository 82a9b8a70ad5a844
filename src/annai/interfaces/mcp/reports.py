"""What is the state of the collections and of the index? Reports for a model, as fields and as Markdown, in pages."""

from collections.abc import Sequence
from typing import Any

from annai.interfaces.mcp.budget import Item, check_page, clip, clip_line, fit_lines, json_tokens, paginate
from annai.interfaces.mcp.results import NOTE_TOKENS, ToolResult
from annai.interfaces.render import collection_json, searched_sentence, summary_line
from annai.serving.wire import plain
from annai.types import Collection, CollectionStatus, ImportSummary, Status

SHARE = 0.2
"""The share of a budget for each of several lists of one report; the rest is for what is said once."""

MAX_COLLECTION_LINE_BYTES = 200
"""One collection's line in the instructions: two hundred letters, or about sixty Japanese characters."""


def collections_result(status: Status, budget: int, page: int = 1) -> ToolResult:
    """What there is to search, and what a search without a collection covers."""
    share = int(budget * SHARE)
    searched, covered = list(status.searched), searched_sentence(status)
    if json_tokens([searched, covered]) > 2 * share:
        searched, covered = [], f"A search covers {len(searched):,} of {len(status.collections):,} collections."
    pages = paginate([*map(_collection_item, status.collections)], budget - 2 * share - NOTE_TOKENS)
    check_page(page, len(pages), "the collections")
    rows, lines = _columns(pages[page - 1])
    fields = {"collections": rows, **({"searched": searched} if searched or len(pages) == 1 else {})}
    return _paged(fields, [*lines, covered], "list_collections", page, len(pages))


def import_result(summary: ImportSummary, total_sections: int, problems: Sequence[str], budget: int) -> ToolResult:
    """What an import did."""
    fields: dict[str, Any] = {**summary.counts, "total_sections": total_sections}
    text = f"The index is up to date: {summary_line(summary)}, total_sections {total_sections:,}."
    if problems:
        fields["problems"] = fit_lines(problems, budget - 2 * NOTE_TOKENS)
        text += "\n\nNot indexed (`index_status` names all):\n" + _list(fields["problems"])
    return ToolResult(fields, text)


def status_result(status: Status, budget: int, page: int = 1) -> ToolResult:
    """The state of the index; of long lists, the page with this number."""
    waiting = status.requests.get("pending", 0) + status.requests.get("processing", 0)
    collections, share = status.collections, int(budget * SHARE)
    listed = paginate([*map(_state_item, collections)], share)
    problems = paginate([(line, line) for line in map(clip_line, problem_lines(collections))], share)
    count = max(len(listed), len(problems))
    check_page(page, count, "the status")
    rows, row_lines = _columns(listed[page - 1] if page <= len(listed) else [])
    _, problem = _columns(problems[page - 1] if page <= len(problems) else [])
    indexing = fit_lines(status.indexing, share // 2)
    fields = {
        "root": clip(str(status.root)),
        "up_to_date": not waiting,
        "waiting": waiting,
        "indexing": indexing,
        "documents": sum(each.statistics.documents for each in collections),
        "sections": sum(each.statistics.sections for each in collections),
        "collections": rows,
        "problems": problem,
        "errors": fit_lines([f"{each.collection}:{each.path}: {each.error}" for each in status.errors], share // 2),
        "embedder": clip(status.embedder),
        "database": clip(status.database),
        "size_on_disk": status.size_on_disk,
    }
    state = f"being updated, {waiting:,} files to go" if waiting else "up to date"
    total = sum(map(len, problems))
    lines = [
        f"The index of `{fields['root']}` is {state}: {fields['documents']:,} documents, "
        f"{fields['sections']:,} sections.",
        *row_lines,
        *([f"Being indexed now: {', '.join(indexing)}"] if indexing else []),
        *([f"Not indexed ({total:,}):", _list(problem)] if problem else []),
        f"Embedder {fields['embedder']}; index `{fields['database']}`, {status.size_on_disk:,} bytes.",
    ]
    return _paged(fields, lines, "index_status", page, count)


def problem_lines(collections: Sequence[CollectionStatus]) -> list[str]:
    """The files that were skipped or failed, with the reasons."""
    return [
        f"{each.collection.name}:{state.path} {state.problem.kind}: {state.problem.reason}"
        for each in collections
        for state in each.problems
        if state.problem
    ]


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


def _collection_item(status: CollectionStatus) -> Item:
    collection, statistics = status.collection, status.statistics
    source, description = clip_line(str(collection.source)), clip_line(collection.description)
    fields = {
        **collection_json(collection),
        "description": description,
        "source": source,
        "documents": statistics.documents,
        "sections": statistics.sections,
    }
    return fields, (
        f"- **{collection.name}**{'' if collection.enabled else ' (disabled)'}: "
        f"{description or 'no description'} ({_counts(status)}, in `{source}`)"
    )


def _state_item(status: CollectionStatus) -> Item:
    collection = status.collection
    fields = {"name": collection.name, "imported_at": collection.imported_at or None} | plain(status.statistics)
    return fields, f"- **{collection.name}**: {_counts(status)}, last indexed {collection.imported_at or 'never'}"


def _columns(items: Sequence[Item]) -> tuple[list[object], list[str]]:
    return [field for field, _ in items], [line for _, line in items]


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {each}" for each in lines)


def _paged(fields: dict[str, Any], lines: Sequence[str], tool: str, page: int, pages: int) -> ToolResult:
    """A report with how to go on, if there is more."""
    if pages == 1:
        return ToolResult(fields, "\n".join(lines))
    fields |= {"page": page, "pages": pages} | ({"next_page": page + 1} if page < pages else {})
    more = f" To continue, call `{tool}` with `page` {page + 1}." if page < pages else ""
    return ToolResult(fields, "\n".join([*lines, f"Page {page} of {pages}.{more}"]))


def _counts(status: CollectionStatus) -> str:
    return f"{status.statistics.documents:,} documents, {status.statistics.sections:,} sections"
