"""What does JSON say? Answers, documents, collections and the status as plain values, named alike everywhere."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from annai.answers import Answer
from annai.files.pages import page_at, place
from annai.interfaces.terminal import echo
from annai.text.escapes import escape_json

if TYPE_CHECKING:
    from annai.types import Collection, Document, MetadataField, Selection, Status, StoredSection


def print_json(value: object) -> None:
    """Write a value to standard output as JSON that is safe to show and loses nothing."""
    echo(escape_json(json.dumps(value, ensure_ascii=False, indent=2)))


def answer_json(answer: Answer, explain: bool = False, *, marks: bool = False) -> dict[str, object]:
    """An answer as plain values, with the names that every interface uses.

    With `explain`, also why each was found; with `marks`, which spans of what is shown the question names.
    """
    results = []
    for hit in answer.results:
        values = asdict(hit)
        for name in ("windows", "more"):
            if not values[name]:
                del values[name]
        for each in (values, *values.get("windows", ()), *values.get("more", ())):
            if not each["page"]:
                del each["page"]
        values["created"] = hit.created or None
        values["verdict"] = hit.verdict
        first = ("id", "collection", "path", "file", "verdict", "score")
        values = {name: values[name] for name in first} | values
        for hidden in () if explain else ("passage", "passage_line", "reasons"):
            del values[hidden]
        results.append(values)
    if marks:
        _add_marks(answer, results)
    names = ("note", "empty", "corrected", "expanded", "excluded", "unmatched", "unmet")
    notes = {name: value for name in names if (value := getattr(answer, name))}
    return {
        "query": answer.query,
        "took_ms": round(answer.took_ms, 1),
        "total": answer.total,
        "verdict": answer.verdict,
        "confident": answer.confident,
        **notes,
        "results": results,
    }


def section_json(stored: "StoredSection") -> dict[str, object]:
    """A section as plain values, with the names that a hit uses."""
    section = stored.section
    return {
        "id": stored.id,
        "collection": stored.collection,
        "path": stored.path,
        "title": stored.title,
        "heading": section.heading,
        "heading_path": section.heading_path,
        "depth": section.depth,
        "section_number": section.number,
        "start_line": section.start_line,
        "end_line": section.end_line,
        "start_position": section.start,
        "end_position": section.end,
        "token_count": section.token_count,
    }


def selection_json(selection: "Selection") -> dict[str, object]:
    """What was asked for with its text, and the section's parent and children."""
    return {
        **content_json(selection),
        "parent": section_json(selection.parent) if selection.parent else None,
        "children": [section_json(child) for child in selection.children],
    }


def content_json(selection: "Selection") -> dict[str, object]:
    """What was asked for of a document: a section's values, its text, and with some lines their numbers."""
    lines = {"start_line": selection.line, "end_line": selection.last_line} if selection.last_line else {}
    document = selection.document
    page = page_at(document.path, document.text, selection.span[0])
    return {
        **section_json(selection.section),
        **lines,
        **({"page": page} if page else {}),
        "file": selection.file,
        **_times_json(selection.document),
        "content": selection.content,
    }


def document_json(selection: "Selection") -> dict[str, object]:
    """A document with its text and the list of its sections."""
    document = selection.document
    return {
        "id": selection.sections[0].id,
        "collection": document.collection,
        "path": document.path,
        "file": selection.file,
        "title": document.title,
        "format": document.format,
        "front_matter": document.front_matter,
        **_times_json(document),
        "hash": document.state.hash,
        "content": document.text,
        "sections": [section_json(each) for each in selection.sections if not each.section.piece],
    }


def field_json(field: "MetadataField") -> dict[str, object]:
    """A field of documents as plain values."""
    values = [{"value": value, "documents": count} for value, count in field.values.items()]
    return {"name": field.name, "documents": field.documents, "values": values}


def collection_json(collection: "Collection") -> dict[str, object]:
    """A collection as plain values."""
    return {
        "name": collection.name,
        "description": collection.description,
        "source": str(collection.source),
        "enabled": collection.enabled,
        "imported_at": collection.imported_at or None,
        "owner": collection.owner or None,
    }


def status_json(status: "Status", documents: Sequence[str] | None = None) -> dict[str, object]:
    """A project's state as plain values; with the paths of the documents, if one collection was asked for."""
    listed = {} if documents is None else {"document_paths": list(documents)}
    return {
        "root": str(status.root),
        "database": status.database,
        "size_on_disk": status.size_on_disk,
        "embedder": status.embedder,
        "collections": [
            {
                **collection_json(each.collection),
                **asdict(each.statistics),
                "embedder": each.collection.embedder or None,
                "chunk_size": each.collection.chunk_size,
                "chunk_overlap": each.collection.chunk_overlap,
                **listed,
                "problems": [
                    {"path": state.path, "kind": state.problem.kind, "reason": state.problem.reason}
                    for state in each.problems
                    if state.problem
                ],
                "left_out": [asdict(kind) for kind in each.left_out],
                "note": each.note or None,
            }
            for each in status.collections
        ],
        "searched": status.searched,
        "requests": dict(status.requests),
        "indexing": status.indexing,
        "errors": [asdict(request) for request in status.errors],
        "server": asdict(status.server) if status.server else None,
        "problem": status.problem or None,
    }


def _add_marks(answer: Answer, results: list[dict[str, object]]) -> None:
    """Say of each result which spans of its preview, breadcrumbs and file the question names."""
    spans_in = _marker(answer)
    for hit, values in zip(answer.results, results, strict=True):
        shown = {"preview": hit.preview, "breadcrumbs": hit.breadcrumbs, "file": hit.file}
        values["breadcrumbs"] = hit.breadcrumbs
        values["place"] = place("", hit.path, hit.preview_line, hit.page)
        values["marks"] = {name: spans_in(text) for name, text in shown.items()}


def _marker(answer: Answer) -> Callable[[str], Sequence[Sequence[int]]]:
    """Finds what the question names in a text; what is not there in an exact search is not marked."""
    if answer.mode == "exact":
        from annai.asking.exact import Wanted  # as below

        return Wanted(answer.query).spans
    from annai.asking.meant import searched_text  # only the page asks for them
    from annai.text.matches import asked, matching_spans

    return partial(matching_spans, question=asked(searched_text(answer)))


def _times_json(document: "Document") -> dict[str, object]:
    """When a document was written, if it says so, and last changed."""
    from annai.text.metadata import document_times  # a search shows no times of its own

    created, updated = document_times(document.front_matter, document.state.mtime_ns)
    return {"created": created or None, "updated": updated}
