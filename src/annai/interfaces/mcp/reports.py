"""What is the state of the collections and of the index? Reports for a model, as fields and as Markdown, in pages."""

from collections.abc import Sequence
from typing import Any

from annai.asking.conditions import shorten_value
from annai.errors import QueryError
from annai.interfaces.mcp.budget import (
    Item,
    check_page,
    check_room,
    clip,
    clip_line,
    fit_items,
    fit_lines,
    json_tokens,
    paginate,
)
from annai.interfaces.mcp.results import NOTE_TOKENS, ToolResult
from annai.interfaces.render.notes import left_out_lines, searched_sentence, state_word, summary_line
from annai.interfaces.render.records import collection_json
from annai.project import waiting_files
from annai.serving.wire import plain
from annai.types import Collection, CollectionStatus, ImportSummary, ListedEntry, Listing, MetadataField, Status
from annai.values import shorten

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


def listing_result(listing: Listing, budget: int, after: str = "", notes: Sequence[str] = ()) -> ToolResult:
    """The documents of a folder or a glob, or the folders of a large one, from the one after this on."""
    share = int(budget * SHARE)
    problems = fit_lines([f"{each.path}: {each.problem.reason}" for each in listing.problems if each.problem], share)
    notes = fit_lines(notes, share)
    names = [each.name for each in listing.entries]
    if after and after not in names:
        raise QueryError(f"{shorten(after)} is not in this list", "leave out `after`.")
    rest = listing.entries[names.index(after) + 1 if after else 0 :]
    # Only what is shown is measured: the list may be very long.
    shown = fit_items(map(_entry_item, rest), check_room(budget - 2 * share - NOTE_TOKENS))
    check_room(len(shown) - bool(rest))
    rows, lines = _columns(shown)
    fields: dict[str, Any] = {"total": listing.documents, "entries": rows}
    fields |= ({"not_indexed": problems} if problems else {}) | ({"notes": notes} if notes else {})
    has_folders = any(not each.title for each in listing.entries)
    lines = [
        f"{listing.documents:,} documents{'; list a folder by its name as `path`' if has_folders else ''}:",
        *lines,
        *([f"Not indexed ({len(listing.problems):,}):", _list(problems)] if problems else []),
        *(f"Note: {note}" for note in notes),
    ]
    if len(shown) < len(rest):
        fields |= {"remaining": len(rest) - len(shown), "next_after": rest[len(shown) - 1].name}
        lines.append(f"{fields['remaining']:,} more; to continue, add `after` {fields['next_after']!r}.")
    return ToolResult(fields, "\n".join(lines))


def import_result(summary: ImportSummary, status: Status, reasons: Sequence[str], budget: int) -> ToolResult:
    """What an import did, and which files are not indexed; first those that were asked for."""
    total, waiting = sum(each.statistics.sections for each in status.collections), waiting_files(status.requests)
    fields: dict[str, Any] = {**summary.counts, "total_sections": total}
    text = f"{'Done' if waiting else 'The index is up to date'}: {summary_line(summary)}, total_sections {total:,}."
    if summary.note:
        fields["note"] = clip_line(summary.note)
        text += f" {fields['note']}"
    if waiting:
        fields["waiting"] = waiting
        text += f" {waiting:,} other files still wait to be indexed."
    if problems := [*reasons, *problem_lines(status.collections), *error_lines(status)]:
        fields["problems"] = fit_lines(problems, budget - 2 * NOTE_TOKENS)
        text += "\n\nNot indexed (`index_status` names all):\n" + _list(fields["problems"])
    return ToolResult(fields, text)


def status_result(
    status: Status, budget: int, page: int = 1, problem: str = "", fields_there: Sequence[MetadataField] = ()
) -> ToolResult:
    """The state of the index, and why it could not be brought up to date; of long lists, the page with this number.

    Also the fields by which documents can be found.
    """
    waiting = waiting_files(status.requests)
    collections, share = status.collections, int(budget * SHARE)
    listed = paginate([*map(_state_item, collections)], share)
    problems = paginate([(line, line) for line in map(clip_line, problem_lines(collections))], share)
    count = max(len(listed), len(problems))
    check_page(page, count, "the status")
    rows, row_lines = _columns(listed[page - 1] if page <= len(listed) else [])
    _, named = _columns(problems[page - 1] if page <= len(problems) else [])
    indexing = fit_lines(status.indexing, share // 2)
    fields: dict[str, Any] = {
        "root": clip(str(status.root)),
        "up_to_date": not (waiting or problem),
        "waiting": waiting,
        **({"queued": status.queued} if waiting else {}),
        "indexing": indexing,
        "documents": sum(each.statistics.documents for each in collections),
        "sections": sum(each.statistics.sections for each in collections),
        "collections": rows,
        "problems": named,
        "errors": fit_lines(error_lines(status), share // 2),
        "left_out": fit_lines(_left_out(status), share // 2),
        "fields": fit_lines([*map(_field_line, fields_there)], share // 2),
        "embedder": clip(status.embedder),
        "database": clip(status.database),
        "size_on_disk": status.size_on_disk,
    }
    if notes := fit_lines([each.note for each in collections if each.note], share // 2):
        fields["notes"] = notes
    if problem:
        fields["problem"] = clip_line(problem)
    queued = max(status.queued, waiting)
    state = f"being updated, {queued - waiting:,} of {queued:,} files done" if waiting else "up to date"
    total = sum(map(len, problems))
    lines = [
        f"The index of `{fields['root']}` is {'not up to date' if problem else state}: {fields['documents']:,} "
        f"documents, {fields['sections']:,} sections.",
        *([fields["problem"]] if problem else []),
        *notes,
        *row_lines,
        *([f"Being indexed now: {', '.join(indexing)}"] if indexing else []),
        *([f"Not indexed ({total:,}):", _list(named)] if named else []),
        *(["Failed, or waiting:", _list(fields["errors"])] if fields["errors"] else []),
        *(["Left out:", _list(fields["left_out"])] if fields["left_out"] else []),
        *([f"Fields for `where`: {'; '.join(fields['fields'])}."] if fields["fields"] else []),
        f"Embedder {fields['embedder']}; index `{fields['database']}`, {status.size_on_disk:,} bytes.",
    ]
    return _paged(fields, lines, "index_status", page, count)


def _left_out(status: Status) -> list[str]:
    """The files that are not read, of each collection."""
    several = len(status.collections) > 1
    return [
        f"{each.collection.name}: {line}" if several else line
        for each in status.collections
        for line in left_out_lines(each.left_out)
    ]


def _field_line(field: MetadataField) -> str:
    """A field of documents, how many have it, and its frequent values."""
    values = f": {', '.join(map(shorten_value, field.values))}" if field.values else ""
    return clip_line(f"{field.name} ({field.documents:,}{values})")


def error_lines(status: Status) -> list[str]:
    """The latest requests that failed or wait, with the reasons; what failed for good is among the problems too."""
    known = {(each.collection.name, state.path) for each in status.collections for state in each.problems}
    failed = [each for each in status.errors if (each.collection, each.path) not in known]
    return [f"{each.collection}:{each.path} {state_word(each.status)}: {each.error}" for each in failed]


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


def _entry_item(entry: ListedEntry) -> Item:
    if not entry.title:
        return {"folder": entry.name, "documents": entry.documents}, f"- {entry.name} ({entry.documents:,} documents)"
    title = clip(entry.title)
    fields = {"path": entry.name, "title": title, "sections": entry.sections, "tokens": entry.tokens}
    fields |= ({"created": entry.created} if entry.created else {}) | {"updated": entry.updated}
    facts = f"{entry.sections:,} sections, {entry.tokens:,} tokens, updated {entry.updated[:10]}"
    return fields, f"- {entry.name}: {title} ({facts})"


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
