"""How is an answer shown? The same values as text for people, as JSON, as Markdown and as lists of files."""

import io
import json
import os
import shutil
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from annai.config import Config
from annai.interfaces.terminal import Screen, echo, standard_output
from annai.searching.meant import searched_text
from annai.text.escapes import escape_json, escape_line
from annai.text.tokens import matching_spans, query_words, words
from annai.types import Answer, Collection, Hit, ImportSummary, Selection, Status, StoredSection

SEARCH_FORMATS = ("text", "json", "markdown", "files")

SCORE_PARTS = {
    "meaning": "meaning",
    "document": "whole document",
    "words": "words",
    "phrase": "exact phrase",
    "more_words": "words of the next passage",
    "passage": "tokens of the passage",
    "window": "tokens of its best lines",
    "title": "tokens of its title",
    "behind": "behind the document's best passage",
}
"""What people read for each of `Reasons.parts`."""

MIN_SHOWN_PART = 0.005
"""What would be shown as 0.00 is not shown."""

BAR_CELLS = 10

MAX_PREVIEW_CHARACTERS = 400
"""A preview line is cut here before it is fitted to the terminal."""


def print_answer(answer: Answer, form: str, config: Config, *, preview_lines: int = 3, explain: bool = False) -> None:
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


def answer_json(answer: Answer, explain: bool = False) -> dict[str, object]:
    """An answer as plain values, with the names that every interface uses; with `explain`, also why each was found."""
    results = []
    for hit in answer.results:
        values = asdict(hit)
        for hidden in () if explain else ("passage", "passage_line", "reasons"):
            del values[hidden]
        results.append(values)
    notes = {name: value for name in ("note", "corrected", "expanded", "excluded") if (value := getattr(answer, name))}
    return {
        "query": answer.query,
        "took_ms": round(answer.took_ms, 1),
        "total": answer.total,
        **notes,
        "results": results,
    }


def correction_lines(answer: Answer) -> list[str]:
    """What was searched for other than the query says as it stands: what replaced words, and what was left out."""
    corrected = [f"No document holds “{typed}”; searched for “{meant}”." for typed, meant in answer.corrected.items()]
    expanded = [f"Searched for “{long}” as well as “{short}”." for short, long in answer.expanded.items()]
    excluded = [f"Left out sections that hold “{phrase}”." for phrase in answer.excluded]
    return [*corrected, *expanded, *excluded]


def section_json(stored: StoredSection) -> dict[str, object]:
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


def selection_json(selection: Selection) -> dict[str, object]:
    """A section with its text, its parent and its children."""
    return {
        **section_json(selection.section),
        "content": selection.text(selection.section),
        "parent": section_json(selection.parent) if selection.parent else None,
        "children": [section_json(child) for child in selection.children],
    }


def document_json(selection: Selection) -> dict[str, object]:
    """A document with its text and the list of its sections."""
    document = selection.document
    return {
        "id": selection.sections[0].id,
        "collection": document.collection,
        "path": document.path,
        "title": document.title,
        "format": document.format,
        "front_matter": document.front_matter,
        "hash": document.state.hash,
        "content": document.text,
        "sections": [section_json(each) for each in selection.sections if not each.section.piece],
    }


def breadcrumbs(title: str, heading_path: Sequence[str]) -> str:
    """Where a section is in its document: the headings from the outermost to its own, or else the title."""
    return " › ".join(dict.fromkeys(heading_path or (title,)))


def section_line(stored: StoredSection) -> str:
    """A section as one line of a list."""
    section = stored.section
    return (
        f"{stored.id}  lines {section.start_line}–{section.end_line}, {section.token_count} tokens  {section.heading}"
    )


def collection_json(collection: Collection) -> dict[str, object]:
    """A collection as plain values."""
    return {
        "name": collection.name,
        "description": collection.description,
        "source": str(collection.source),
        "enabled": collection.enabled,
        "imported_at": collection.imported_at or None,
    }


def status_json(status: Status) -> dict[str, object]:
    """A project's state as plain values."""
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
                "problems": [
                    {"path": state.path, "kind": state.problem.kind, "reason": state.problem.reason}
                    for state in each.problems
                    if state.problem
                ],
            }
            for each in status.collections
        ],
        "requests": dict(status.requests),
        "indexing": status.indexing,
        "errors": [asdict(request) for request in status.errors],
        "server": asdict(status.server) if status.server else None,
    }


def queue_lines(status: Status) -> list[str]:
    """The state of the queue: what waits, what is being indexed, and what failed lately."""
    counts = {str(state): count for state, count in status.requests.items()}
    names = {"pending": "waiting", "processing": "being indexed", "failed": "failed"}
    shown = [f"{counts[state]:,} {name}" for state, name in names.items() if counts.get(state)]
    lines = [f"Queue      {', '.join(shown) or 'empty: everything is indexed'}"]
    lines += [f"Indexing   {path}" for path in status.indexing]
    for request in status.errors:
        tried = f" (tried {request.attempts} times)" if request.attempts > 1 else ""
        lines.append(f"Failed     {request.collection}:{request.path}: {request.error}{tried}")
    return lines


def summary_line(summary: ImportSummary) -> str:
    """What an import did, in one line."""
    return ", ".join(f"{name} {count:,}" for name, count in asdict(summary).items())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], config: Config) -> None:
    """Draw a table on standard output."""
    from rich.box import SIMPLE_HEAD  # rich is loaded only where something is drawn
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(escape_line(cell)) for cell in row))
    screen, drawn = standard_output(config), io.StringIO()
    console = Console(
        file=drawn,
        force_terminal=screen.has_color,
        no_color=not screen.has_color,
        # Without a terminal there is no width to cut to.
        width=_terminal_width() if screen.is_terminal else 1000,
    )
    console.print(table)
    echo(drawn.getvalue(), nl=False, styled=True)


def size(count: int) -> str:
    """A number of bytes, for people."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def _render_text(answer: Answer, screen: Screen, preview_lines: int, explain: bool) -> str:
    weights = query_words(searched_text(answer))
    terms = {word for word, weight in weights.items() if weight == 1} or set(weights)
    width = _terminal_width()
    several = len({hit.collection for hit in answer.results}) > 1
    blocks = [f"{screen.show(line, dim=True)}\n" for line in correction_lines(answer)]
    for hit in answer.results:
        address = screen.show(f"{_relative_path(hit, answer.sources)}:{hit.passage_line}", bold=True)
        label = screen.show(f"[{hit.collection}] ", fg="magenta") if several else ""
        lines = [f"{label}{address}  {_bar(hit.score, screen)} {hit.score:.2f}"]
        lines.append(
            "  "
            + screen.show(breadcrumbs(hit.title, hit.heading_path), fg="cyan")
            + (" (out of date)" if hit.is_dirty else "")
        )
        if explain:
            lines.append("  " + screen.show(_explanation(hit), dim=True))
        lines += [
            f"  {screen.show('│', dim=True)} {_highlight(line, terms, width - 4, screen)}"
            for line in _best_lines(_without_heading(hit), terms, preview_lines)
        ]
        blocks.append("\n".join(lines) + "\n")
    if answer.results:
        more = f" of {answer.total}" if answer.total > len(answer.results) else ""
        note = f"; {answer.note}" if answer.note else ""
        summary = f"{len(answer.results)}{more} results in {answer.took_ms:.0f} ms{note}"
        blocks.append(f"{screen.show(summary, dim=True)}\n")
    return "\n".join(blocks)


def _render_markdown(answer: Answer, explain: bool) -> str:
    blocks = [f"# {answer.query}\n", *(f"{line}\n" for line in correction_lines(answer))]
    for hit in answer.results:
        notes = f"`{hit.path}:{hit.start_line}` · score {hit.score:.2f}"
        if explain:
            notes += f" · {_explanation(hit)}"
        quote = "\n".join(f"> {line}".rstrip() for line in hit.content.strip().splitlines())
        blocks.append(f"## {breadcrumbs(hit.title, hit.heading_path)}\n\n{notes}\n" + (f"\n{quote}\n" if quote else ""))
    return "\n".join(blocks)


def _best_lines(passage: str, terms: set[str], count: int) -> list[str]:
    """The `count` consecutive non-blank lines of a passage that hold most of the terms; of several such, the first."""
    lines = [line[:MAX_PREVIEW_CHARACTERS].rstrip() for line in passage.splitlines() if line.strip()]
    matches = [terms.intersection(words(line)) for line in lines]
    starts = range(max(len(lines) - count, 0) + 1)
    best = max(starts, key=lambda start: len(set().union(*matches[start : start + count])), default=0)
    return lines[best : best + count]


def _without_heading(hit: Hit) -> str:
    """The passage without its heading line: the heading is shown above it."""
    first, _, rest = hit.passage.lstrip().partition("\n")
    return rest if first.strip("# ") == hit.heading and rest.strip() else hit.passage


def _highlight(line: str, terms: set[str], width: int, screen: Screen) -> str:
    """The line with its matches highlighted, cut to the width around the first match."""
    spans = matching_spans(line, terms)
    first = spans[0][0] if spans else 0
    begin = 0 if _cells(line[: first + 20]) <= width else max(first - 20, 0)
    end = begin
    room = width - 2
    while end < len(line) and room >= 2:
        room -= _cells(line[end])
        end += 1
    pieces, at = [], begin
    for start, stop in spans:
        if start >= end:
            break
        pieces += [
            screen.show(line[at : max(start, at)]),
            screen.show(line[max(start, at) : min(stop, end)], fg="yellow", bold=True),
        ]
        at = min(max(stop, at), end)
    pieces.append(screen.show(line[at:end]))
    return ("…" if begin else "") + "".join(pieces) + ("…" if end < len(line) else "")


def _cells(text: str) -> int:
    """How many terminal cells the text takes."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in escape_line(text))


def _terminal_width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


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
    ) + (f"; score: {', '.join(parts)}" if parts else "")


def _relative_path(hit: Hit, sources: Mapping[str, Path]) -> str:
    """The hit's file, relative to the current folder."""
    return os.path.relpath(sources[hit.collection] / hit.path)
