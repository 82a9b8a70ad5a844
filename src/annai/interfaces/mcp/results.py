"""How does an answer look to a model? The same values twice, as fields and as Markdown; either is enough alone."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from annai.answers import Answer, Hit, Query
from annai.definitions import dataclass
from annai.files.pages import page_name
from annai.interfaces.mcp.budget import (
    Excerpt,
    Item,
    clip_names,
    content_tokens,
    fit_excerpts,
    fit_items,
    fit_lines,
    fit_windows,
    hit_fields,
    window_fields,
)
from annai.interfaces.render.notes import correction_lines, more_place, result_count, unmatched_lines
from annai.text.escapes import escape_line

NOTE_TOKENS = 150
"""Tokens of a budget that are reserved for notes on the results as a whole, besides the answer's own notes."""

MAX_NOTES_SHARE = 0.25
"""The share of a budget that the answer's own notes may take."""

_STATUS_NOTES = {
    "updating": "the file has changed since; this is the older text",
    "outdated": "the file could not be read since; this is the older text",
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returns: fields for a program, Markdown for a reader."""

    fields: dict[str, Any]
    text: str


def answer_result(
    answer: Answer, query: Query, budget: int, notes: Sequence[str] = (), *, is_windows: bool = False
) -> ToolResult:
    """Search results within this many tokens: with their windows, or with the content that was asked for."""
    # The windows are from all over the document: to name its other sections too takes tokens from them.
    hits = (replace(each, more=()) for each in answer.results) if is_windows else answer.results
    answer = replace(answer, results=tuple(map(clip_names, hits)))
    notes = [*notes, *correction_lines(answer), *unmatched_lines(answer), *([answer.note] if answer.note else [])]
    if not answer.confident:
        notes.append("No good match: these are only the nearest sections, and probably do not answer.")
    notes = fit_lines(notes, int(budget * MAX_NOTES_SHARE))
    budget -= NOTE_TOKENS + sum(map(content_tokens, notes))
    ranks = count(query.offset + 1)
    hints = []
    if query.mode == "exact":
        separator, items = "\n", fit_items(map(_line, answer.results), budget)
    elif query.content == "none":
        separator, items = "\n", fit_items(map(_location, ranks, answer.results), budget)
    elif is_windows:
        separator, items = "\n\n", [*map(_windows, ranks, fit_windows(answer.results, budget))]
    else:
        excerpts = fit_excerpts(answer.results, budget)
        separator, items = "\n\n", [*map(_result, ranks, excerpts)]
        if any(not excerpt.is_whole for excerpt in excerpts):
            hints.append("Read what is truncated with `get_document` and its path:lines.")
    if not items:
        notes.append("Not even one result fits: raise `search.max_tokens`.")
    fields: dict[str, Any] = {
        "total": answer.total,
        "verdict": answer.verdict,
        "confident": answer.confident,
        "results": [row for row, _ in items],
        **({"notes": notes} if notes else {}),
    }
    if items and (len(items) < len(answer.results) or _may_go_on(answer, query)):
        fields["next_offset"] = query.offset + len(items)
        hints.append(f"More results: `offset` {fields['next_offset']}.")
    found = separator.join(block for _, block in items)
    return ToolResult(
        fields,
        "\n\n".join([_heading(answer, query, len(items)), found, *(f"Note: {each}" for each in (*notes, *hints))]),
    )


def empty_result(answer: Answer, query: Query, budget: int, reasons: Sequence[str], notes: Sequence[str]) -> ToolResult:
    """Nothing was found: why, if that is known, and what to try."""
    hints = [
        *(["a smaller `offset`"] if query.offset else []),
        *(["leave out `path`"] if query.where.paths else []),
        *(["leave out `where` or `since`"] if query.where.conditions else []),
        *(["leave out `depth`"] if query.depths else []),
        *(["(?i) in a /regex/, since upper and lower case differ"] if query.mode == "exact" else []),
        *([f'mode "hybrid" instead of "{query.mode}"'] if query.mode != "hybrid" else []),
        *(["all collections, with `search`"] if query.where.collections else []),
        "other words, or fewer",
        *(["`list_collections` to see what there is"] if query.where.collections else []),
    ]
    reasons, notes = (fit_lines(each, int(budget * MAX_NOTES_SHARE)) for each in (reasons, notes))
    sentences = ["Nothing found.", *reasons, f"Try: {'; '.join(hints)}.", *notes]
    return ToolResult(
        {
            "total": answer.total,
            "verdict": answer.verdict,
            "confident": answer.confident,
            "results": [],
            "notes": sentences,
        },
        " ".join(sentences),
    )


def nothing_result(budget: int, notes: Sequence[str]) -> ToolResult:
    """There is nothing to search yet, or what is there does not answer and most is still to come: why."""
    notes = fit_lines(notes, int(budget * MAX_NOTES_SHARE))
    fields = {"total": 0, "verdict": "no good match", "confident": False, "results": [], "notes": notes}
    return ToolResult(fields, "\n".join(notes))


def line_range(first: int, last: int) -> str:
    """A range of lines in words."""
    return f"line {first}" if first == last else f"lines {first}–{last}"


def line_span(first: int, last: int) -> str:
    """A range of lines as an address has it."""
    return f"{first}" if first == last else f"{first}-{last}"


def fence(text: str) -> str:
    """A text between fences longer than any it contains, so that nothing in it is taken for ours."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    marks = "`" * (longest + 1)
    body = text.rstrip("\r\n")
    return f"{marks}\n{body}\n{marks}"


def _heading(answer: Answer, query: Query, shown: int) -> str:
    if not query.offset:
        return result_count(answer, shown)
    what = "Lines" if query.mode == "exact" else "Results"
    return f"{what} {query.offset + 1}–{query.offset + shown} of {answer.total:,}"


def _may_go_on(answer: Answer, query: Query) -> bool:
    """Whether more results match well than were asked for."""
    return answer.matching > query.end


def _line(hit: Hit) -> Item:
    """A line of an exact search."""
    place = hit.file or hit.path
    status = {} if hit.index_status == "latest" else {"index_status": hit.index_status}
    old = "" if hit.index_status == "latest" else f" ({_STATUS_NOTES[hit.index_status]})"
    return {"path": place, "line": hit.start_line, "text": hit.preview, **status}, (
        f"{escape_line(place)}:{hit.start_line}: {hit.preview}{old}"
    )


def _location(rank: int, hit: Hit) -> Item:
    """A result in one line: where it is."""
    return hit_fields(replace(hit, more=())), f"{rank}. {' · '.join(_facts(hit))}"


def _result(rank: int, excerpt: Excerpt) -> Item:
    """A result: where it is, and its text."""
    hit, fields, facts = excerpt.hit, hit_fields(excerpt.hit), _facts(excerpt.hit)
    fields["content"] = excerpt.content.rstrip("\r\n")
    if not excerpt.is_whole:
        fields["truncated"] = True
        facts.append(_truncation_fact(excerpt))
        if excerpt.first_line not in (0, hit.start_line):
            fields["content_start_line"] = excerpt.first_line
    lines = [f"### {rank}. {' · '.join(facts)}"]
    lines += [fence(excerpt.content)] if excerpt.content else []
    lines += [f"Also {more_place(each, hit.path)}: {each.heading}" for each in hit.more]
    return fields, "\n".join(lines)


def _windows(rank: int, hit: Hit) -> Item:
    """A result: where it is, and the parts of it that answer."""
    fields = hit_fields(hit)
    lines = [f"### {rank}. {' · '.join(_facts(hit))}"]
    shown = []
    for window in hit.windows:
        place = window_fields(hit, window)
        shown.append({**place, "text": window.text})
        heading = f" · {place['heading']}" if "heading" in place else ""
        lines += [f"{line_range(window.start_line, window.end_line)}{heading}", fence(window.text)]
    fields["windows"] = shown
    return fields, "\n".join(lines)


def _facts(hit: Hit) -> list[str]:
    old = [] if hit.index_status == "latest" else [_STATUS_NOTES[hit.index_status]]
    place = f"{hit.file or hit.path}:{line_span(hit.start_line, hit.end_line)}"
    pages = [page_name(hit.path, hit.page)] if hit.page else []
    return [place, *pages, hit.verdict, hit.breadcrumbs, *old]


def _truncation_fact(excerpt: Excerpt) -> str:
    if not excerpt.content:
        return "truncated: text not shown"
    if excerpt.content == excerpt.hit.preview:
        return f"truncated: preview of line {excerpt.first_line}"
    first = excerpt.first_line or excerpt.hit.start_line
    return f"truncated: {line_range(first, first + excerpt.content.rstrip().count(chr(10)))}"
