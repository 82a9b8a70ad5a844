"""How is an answer shown? The same values as text for people, as JSON, as Markdown and as lists of files."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from annai.answers import PREVIEW_LINES, Answer, Hit, OtherSection
from annai.config import Config
from annai.files.pages import page_at, page_name, place
from annai.interfaces.terminal import Screen, cells, echo, standard_output
from annai.text.escapes import escape_json, escape_line
from annai.text.width import wrap

if TYPE_CHECKING:
    from annai.text.matches import Asked
    from annai.types import (
        Collection,
        Document,
        ImportSummary,
        LeftOut,
        MetadataField,
        Selection,
        Status,
        StoredSection,
    )

SEARCH_FORMATS = ("text", "json", "markdown", "files")

SCORE_PARTS = {
    "meaning": "meaning",
    "document": "whole document",
    "words": "words",
    "phrase": "exact phrase",
    "more_words": "words of the next passage",
    "passage": "tokens of the passage",
    "window": "tokens of its best lines",
    "coverage": "share of the question in them",
    "title": "tokens of its title",
    "behind": "behind the document's best passage",
}
"""What people read for each of `Reasons.parts`."""

MIN_SHOWN_PART = 0.005
"""What would be shown as 0.00 is not shown."""

BAR_CELLS = 10

MAX_KINDS = 6
"""Kinds of files that are not read which are named; the others are counted together."""

COLUMN_GAP = "  "

_NUMBER = re.compile(r"[\d.,]+|—")
"""What stands at the right of its column."""


def print_answer(
    answer: Answer, form: str, config: Config, *, preview_lines: int = PREVIEW_LINES, explain: bool = False
) -> None:
    """Write an answer to standard output in one of `SEARCH_FORMATS`."""
    if form == "text":
        echo(_render_text(answer, standard_output(config), preview_lines, explain), nl=False, styled=True)
    elif form == "json":
        print_json(answer_json(answer, explain))
    elif form == "files":
        echo("".join(f"{_relative_path(hit, answer.sources)}:{hit.start_line}\n" for hit in answer.results), nl=False)
    else:
        echo(_render_markdown(answer, explain), nl=False)


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
        if not hit.more:
            del values["more"]
        for each in (values, *values.get("more", ())):
            if not each["page"]:
                del each["page"]
        values["created"] = hit.created or None
        values = {name: values[name] for name in ("id", "collection", "path", "file")} | values
        for hidden in () if explain else ("passage", "passage_line", "reasons"):
            del values[hidden]
        results.append(values)
    if marks:
        _add_marks(answer, results)
    names = ("note", "corrected", "expanded", "excluded", "unmatched", "unmet")
    notes = {name: value for name in names if (value := getattr(answer, name))}
    return {
        "query": answer.query,
        "took_ms": round(answer.took_ms, 1),
        "total": answer.total,
        "confident": answer.confident,
        **notes,
        "results": results,
    }


def _add_marks(answer: Answer, results: list[dict[str, object]]) -> None:
    """Say of each result which spans of its preview, breadcrumbs and file the question names."""
    from annai.asking.meant import searched_text  # only the page asks for them
    from annai.text.matches import asked, matching_spans

    question = asked(searched_text(answer))
    for hit, values in zip(answer.results, results, strict=True):
        shown = {"preview": hit.preview, "breadcrumbs": hit.breadcrumbs, "file": hit.file}
        values["breadcrumbs"] = hit.breadcrumbs
        values["place"] = place("", hit.path, hit.preview_line, hit.page)
        values["marks"] = {name: matching_spans(text, question) for name, text in shown.items()}


def correction_lines(answer: Answer) -> list[str]:
    """What was searched for other than the query says as it stands: what replaced words, and what was left out."""
    corrected = [f"No document holds “{typed}”; searched for “{meant}”." for typed, meant in answer.corrected.items()]
    expanded = [f"Searched for “{long}” as well as “{short}”." for short, long in answer.expanded.items()]
    excluded = [f"Left out sections that hold “{phrase}”." for phrase in answer.excluded]
    return [*corrected, *expanded, *excluded]


def doubt_lines(answer: Answer) -> list[str]:
    """What to say above results that hardly answer the question."""
    return ["No good match; nearest:"] if answer.results and not answer.confident else []


def result_count(answer: Answer, shown: int | None = None) -> str:
    """How many results there are and, if more documents match, how many of those."""
    count = len(answer.results) if shown is None else shown
    more = f" of {answer.total}" if answer.total > count else ""
    return f"{count}{more} results" if more else counted(count, "result")


def unmatched_lines(answer: Answer) -> list[str]:
    """Which of the paths and conditions that a search was restricted to lead to no document, and what to do."""
    paths = [
        f"No document is under “{path}”; "
        + (f"did you mean {' or '.join(similar)}?" if similar else "give a path as a search shows it, or a glob.")
        for path, similar in answer.unmatched.items()
    ]
    return [*paths, *answer.unmet.values()]


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


def _times_json(document: "Document") -> dict[str, object]:
    """When a document was written, if it says so, and last changed."""
    from annai.text.metadata import document_times  # a search shows no times of its own

    created, updated = document_times(document.front_matter, document.state.mtime_ns)
    return {"created": created or None, "updated": updated}


def field_json(field: "MetadataField") -> dict[str, object]:
    """A field of documents as plain values."""
    values = [{"value": value, "documents": count} for value, count in field.values.items()]
    return {"name": field.name, "documents": field.documents, "values": values}


def section_line(stored: "StoredSection") -> str:
    """A section as one line of a list."""
    section = stored.section
    return (
        f"{stored.id}  lines {section.start_line}–{section.end_line}, {section.token_count} tokens  {section.heading}"
    )


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


def searched_sentence(status: "Status") -> str:
    """What a search looks at, from the status of the whole project; what it leaves out of the project's folder too."""
    from annai.types import IMPLICIT_COLLECTION  # an answer is printed without it

    root = status.root
    if status.searched == (IMPLICIT_COLLECTION,):
        return f"A search covers all of {root}."
    rest = f"the rest of {root}"
    names = [f"{rest} ({each})" if each == IMPLICIT_COLLECTION else each for each in status.searched]
    sentence = f"A search covers {', '.join(names) or 'nothing: every collection is disabled'}."
    sources = [each.collection.source for each in status.collections]
    if IMPLICIT_COLLECTION not in status.searched and not any(map(root.is_relative_to, sources)):
        sentence += f" It does not cover {rest}; `annai collection enable {IMPLICIT_COLLECTION}` adds it."
    return sentence


def queue_lines(status: "Status") -> list[tuple[str, ...]]:
    """The state of the queue, as parts of lines: what waits, what is being indexed, and what failed lately."""
    counts = {str(state): count for state, count in status.requests.items()}
    names = {"pending": "waiting", "processing": "being indexed", "failed": "failed"}
    shown = [f"{counts[state]:,} {name}" for state, name in names.items() if counts.get(state)]
    lines: list[tuple[str, ...]] = [("Queue     ", ", ".join(shown) or "empty: everything is indexed")]
    lines += [("Indexing  ", path) for path in status.indexing]
    for request in status.errors:
        tried = f" (tried {request.attempts} times)" if request.attempts > 1 else ""
        lines.append(("Failed    ", f"{request.collection}:{request.path}:", f"{request.error}{tried}"))
    return lines


def summary_line(summary: "ImportSummary") -> str:
    """What an import did, in one line."""
    return ", ".join(f"{name} {count:,}" for name, count in summary.counts.items())


def left_out_lines(kinds: "Sequence[LeftOut]") -> list[str]:
    """The files that are not read: what would read some of them, and the most frequent of the others."""
    lines = [f"{each.files:,} {_kind(each)}: {each.install}" for each in kinds if each.install]
    others = [each for each in kinds if not each.install]
    shown = [f"{each.files:,} {_kind(each)}" for each in others[:MAX_KINDS]]
    rest = sum(each.files for each in others[MAX_KINDS:])
    shown += [f"{rest:,} of other kinds"] if rest else []
    return [*lines, *([f"not read: {', '.join(shown)}"] if shown else [])]


def _kind(kind: "LeftOut") -> str:
    return kind.suffix or "without an ending"


def print_lines(lines: Iterable[Sequence[str]], config: Config) -> None:
    """Write lines to standard output, each a label and parts, between which it is broken if it does not fit."""
    screen = standard_output(config)
    for parts in lines:
        echo(screen.flow([escape_line(part) if screen.is_terminal else part for part in parts]), styled=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], config: Config, *, optional: Sequence[str] = ()
) -> None:
    """Draw a table on standard output.

    Where a terminal is too narrow, the `optional` columns are left out, and that is said; where that is not enough, the
    rows become a list.
    """
    screen = standard_output(config)
    table = [*zip(columns, *([escape_line(cell) for cell in row] for row in rows), strict=True)]
    narrow = [column for column in table if column[0] not in optional]
    if _table_width(table) <= screen.width:
        echo("\n".join(_table_lines(table, screen)), styled=True)
    elif _table_width(narrow) <= screen.width:
        left_out = f"A wider terminal also shows: {', '.join(optional)}."
        echo("\n".join([*_table_lines(narrow, screen), screen.show(left_out, dim=True)]), styled=True)
    else:
        for name, *values in [*zip(*table, strict=True)][1:]:
            named = [f"{column} {value}" for column, value in zip(columns[1:], values, strict=True) if value]
            echo(screen.show(name, bold=True), styled=True)
            echo(screen.flow(["  " + " ".join(named[:1]), *named[1:]], " · "), styled=True)


def _table_width(table: Sequence[Sequence[str]]) -> int:
    return sum(max(map(cells, column)) for column in table) + len(COLUMN_GAP) * (len(table) - 1)


def _table_lines(table: Sequence[Sequence[str]], screen: Screen) -> list[str]:
    """A table, given as columns that begin with their names; numbers stand at the right."""
    padded = []
    for column in table:
        width, is_number = max(map(cells, column)), all(map(_NUMBER.fullmatch, column[1:]))
        pads = [" " * (width - cells(cell)) for cell in column]
        padded.append([pad + cell if is_number else cell + pad for cell, pad in zip(column, pads, strict=True)])
    header, *lines = (COLUMN_GAP.join(row).rstrip() for row in zip(*padded, strict=True))
    return [screen.show(header, bold=True), screen.show("─" * _table_width(table), dim=True), *lines]


def local_time(timestamp: str) -> str:
    """A time for people, of this machine's zone; empty if it has not come."""
    from datetime import datetime  # only where one is shown

    return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M}" if timestamp else ""


def time_ago(timestamp: str) -> str:
    """How long ago something was, for people; a date if that is long ago, and empty if it has not come."""
    from datetime import UTC, datetime  # only where one is shown

    if not timestamp:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds()
    if seconds < 60:
        return "just now"
    for unit, length, most in (("minute", 60, 60), ("hour", 3600, 24), ("day", 86400, 30)):
        if (number := int(seconds // length)) < most:
            return f"{counted(number, unit)} ago"
    return local_time(timestamp)[:10]


def counted(count: int, noun: str) -> str:
    """So many of something: 1 result, 2 results."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def size(count: int) -> str:
    """A number of bytes, for people."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def _render_text(answer: Answer, screen: Screen, preview_lines: int, explain: bool) -> str:
    question = _question(answer) if screen.has_color else None
    width = screen.width
    several = len({hit.collection for hit in answer.results}) > 1
    blocks = [f"{screen.show(line, dim=True)}\n" for line in (*correction_lines(answer), *doubt_lines(answer))]
    for hit in answer.results:
        path = place(_relative_path(hit, answer.sources), hit.path, hit.preview_line, hit.page)
        address = screen.link(_mark(path, question, screen, bold=True), answer.sources[hit.collection] / hit.path)
        label = screen.show(f"[{hit.collection}] ", fg="magenta") if several else ""
        lines = [screen.flow([f"{label}{address}", f"{_bar(hit.score, screen)} {hit.score:.2f}"], "  ")]
        lines.append(
            "  " + _mark(hit.breadcrumbs, question, screen, fg="cyan") + (" (out of date)" if hit.is_dirty else "")
        )
        if explain:
            explained = [screen.show(word, dim=True) for word in _explanation(hit).split()]
            lines.append(screen.flow(["  " + explained[0], *explained[1:]]))
        lines += [
            f"  {screen.show('│', dim=True)} {line}"
            for line in _preview_lines(hit, question, width - 4, screen, preview_lines)
        ]
        lines += [f"  {screen.show(_more_line(each, hit.path), dim=True)}" for each in hit.more]
        blocks.append("\n".join(lines) + "\n")
    if answer.results:
        note = f"; {answer.note}" if answer.note else ""
        summary = f"{result_count(answer)} in {answer.took_ms:.0f} ms{note}"
        blocks.append(f"{screen.show(summary, dim=True)}\n")
    return "\n".join(blocks)


def _question(answer: Answer) -> "Asked":
    """What to mark. A search through a server has loaded none of this, and most answers go into a pipe, uncoloured."""
    from annai.asking.meant import searched_text
    from annai.text.matches import asked

    return asked(searched_text(answer))


def _render_markdown(answer: Answer, explain: bool) -> str:
    notes_above = (*correction_lines(answer), *doubt_lines(answer))
    blocks = [f"# {answer.query}\n", *(f"{line}\n" for line in notes_above)]
    for hit in answer.results:
        where = place(_relative_path(hit, answer.sources), hit.path, hit.start_line, hit.page)
        notes = f"`{where}` · score {hit.score:.2f}"
        if explain:
            notes += f" · {_explanation(hit)}"
        quote = "\n".join(f"> {line}".rstrip() for line in hit.content.strip().splitlines())
        more = "".join(f"- {more_place(each, hit.path)}: {each.heading} (`{each.id}`)\n" for each in hit.more)
        parts = [f"{notes}\n", *([f"{quote}\n"] if quote else []), *([f"See also:\n\n{more}"] if more else [])]
        blocks.append(f"## {hit.breadcrumbs}\n\n" + "\n".join(parts))
    return "\n".join(blocks)


def _more_line(section: OtherSection, path: str) -> str:
    """Another section of the same document, in one line."""
    return f"+ {more_place(section, path)}: {section.heading}  {section.id}"


def more_place(section: OtherSection, path: str) -> str:
    """Where another section of a document begins: `line 44`, `page 12`."""
    return page_name(path, section.page) if section.page else f"line {section.line}"


def _preview_lines(hit: Hit, question: "Asked | None", width: int, screen: Screen, count: int) -> list[str]:
    """The preview, wrapped to the width with its matches marked; a terminal gets as many lines as were asked for."""
    # A line that is escaped has its full width.
    shown = [escape_line(line) if screen.is_terminal else line for line in hit.preview.split("\n") if line]
    lines = [_mark(line, question, screen, span) for line in shown for span in wrap(line, width)]
    if screen.is_terminal and len(lines) > count:
        return [*lines[: count - 1], f"{lines[count - 1]}…"][:count]
    return lines


def _mark(
    text: str,
    question: "Asked | None",
    screen: Screen,
    span: tuple[int, int] | None = None,
    *,
    fg: str | None = None,
    bold: bool | None = None,
) -> str:
    """A text, or a span of it, with what the question names marked: in grep's colour, which every background suits."""
    begin, end = span or (0, len(text))
    if question is None:
        return screen.show(text[begin:end], fg=fg, bold=bold)
    from annai.text.matches import matching_spans

    pieces, at = [], begin
    for start, stop in matching_spans(text, question):
        first, last = max(start, at), min(stop, end)
        if first < last:
            pieces += [
                screen.show(text[at:first], fg=fg, bold=bold),
                screen.show(text[first:last], fg="red", bold=True),
            ]
            at = last
    return "".join((*pieces, screen.show(text[at:end], fg=fg, bold=bold) if at < end else ""))


def _bar(score: float, screen: Screen) -> str:
    full = round(score * BAR_CELLS)
    return screen.show("█" * full, fg="green") + screen.show("░" * (BAR_CELLS - full), dim=True)


def _explanation(hit: Hit) -> str:
    """Where a hit's score comes from, in one line."""
    reasons = hit.reasons
    parts = [f"{part:+.2f} {SCORE_PARTS[name]}" for name, part in reasons.parts.items() if abs(part) >= MIN_SHOWN_PART]
    return (
        f"meaning {reasons.similarity:.2f}, whole document {reasons.document_similarity:.2f}, "
        f"words {reasons.keywords:.2f}" + ("" if reasons.rerank is None else f", reranker {reasons.rerank:.2f}")
    ) + (f"; ranked by {reasons.ranking:.2f}: {', '.join(parts)}" if parts else "")


def _relative_path(hit: Hit, sources: Mapping[str, Path]) -> str:
    """The hit's file, relative to the current folder."""
    return os.path.relpath(sources[hit.collection] / hit.path)
