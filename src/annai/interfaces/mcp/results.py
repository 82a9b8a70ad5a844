"""How does an answer look to a model? The same values twice, as fields and as Markdown; either is enough alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from annai.interfaces.mcp.budget import Excerpt, clip_line, clip_names, content_tokens, fit_excerpts, fit_lines
from annai.interfaces.render import answer_json, correction_lines, result_count, unmatched_lines
from annai.serving.wire import plain
from annai.types import Answer, Query

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


def answer_result(answer: Answer, budget: int, notes: Sequence[str] = ()) -> ToolResult:
    """Search results, within this many tokens."""
    answer = replace(answer, query=clip_line(answer.query), results=tuple(map(clip_names, answer.results)))
    notes = [*notes, *correction_lines(answer), *unmatched_lines(answer), *([answer.note] if answer.note else [])]
    if not answer.confident:
        notes.append("No good match: these are only the nearest sections, and probably do not answer.")
    notes = fit_lines(notes, int(budget * MAX_NOTES_SHARE))
    named = sum(map(content_tokens, (answer.query, *notes)))
    excerpts = fit_excerpts(answer.results, budget - NOTE_TOKENS - named)
    notes += _truncation_notes(answer, excerpts)
    fields = answer_json(answer)
    rows: list[dict[str, Any]] = plain(fields["results"])
    results = [_with_excerpt(row, excerpt) for row, excerpt in zip(rows, excerpts, strict=False)]
    heading = f"{result_count(answer, len(excerpts))} for “{' '.join(answer.query.split())}”"
    blocks = [_result_block(number, excerpt) for number, excerpt in enumerate(excerpts, 1)]
    return ToolResult(
        {
            "query": answer.query,
            "took_ms": fields["took_ms"],
            "total": answer.total,
            "confident": answer.confident,
            "results": results,
            **({"notes": notes} if notes else {}),
        },
        "\n\n".join([heading, *blocks, *(f"Note: {note}" for note in notes)]),
    )


def empty_result(query: Query, budget: int, reasons: Sequence[str], notes: Sequence[str]) -> ToolResult:
    """Nothing was found: why, if that is known, and what to try."""
    hints = [
        *(["leave out `path`"] if query.where.paths else []),
        *(["leave out `depth`"] if query.depths else []),
        *([f'mode "hybrid" instead of "{query.mode}"'] if query.mode != "hybrid" else []),
        *(["all collections, with `search`"] if query.where.collections else []),
        "other words, or fewer",
        "`list_collections` to see what there is",
    ]
    reasons, notes = (fit_lines(each, int(budget * MAX_NOTES_SHARE)) for each in (reasons, notes))
    sentences = ["Nothing found.", *reasons, f"Try: {'; '.join(hints)}.", *notes]
    return ToolResult(
        {"query": clip_line(query.text), "total": 0, "confident": False, "results": [], "notes": sentences},
        " ".join(sentences),
    )


def waiting_result(query: Query, budget: int, notes: Sequence[str]) -> ToolResult:
    """There is nothing to search yet: why."""
    notes = fit_lines(notes, int(budget * MAX_NOTES_SHARE))
    fields = {"query": clip_line(query.text), "total": 0, "confident": False, "results": [], "notes": notes}
    return ToolResult(fields, "\n".join(notes))


def line_range(first: int, last: int) -> str:
    """A range of lines in words."""
    return f"line {first}" if first == last else f"lines {first}–{last}"


def fence(text: str) -> str:
    """A text between fences longer than any it contains, so that nothing in it is taken for ours."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    marks = "`" * (longest + 1)
    body = text.rstrip("\r\n")
    return f"{marks}\n{body}\n{marks}"


def _with_excerpt(row: dict[str, Any], excerpt: Excerpt) -> dict[str, Any]:
    """A result's fields with the text that fits."""
    row["content"] = excerpt.content
    del row["preview"]  # the content holds it, or is it
    if not excerpt.is_whole:
        row["truncated"] = True
        row["content_start_line"] = excerpt.first_line or row["start_line"]
    return row


def _truncation_notes(answer: Answer, excerpts: Sequence[Excerpt]) -> list[str]:
    notes = []
    if any(not excerpt.is_whole for excerpt in excerpts):
        notes.append(
            "Truncated results are too long for this answer; `get_document` with a result's id returns it all."
        )
    if len(excerpts) < len(answer.results):
        missing = len(answer.results) - len(excerpts)
        notes.append(f"{missing} more results did not fit; search with a `path` or a smaller `limit`.")
    if not excerpts:
        notes.append("Not even one result fits: raise `search.max_tokens`.")
    return notes


def _result_block(number: int, excerpt: Excerpt) -> str:
    """A result: where it is, how to read more, and its text."""
    hit = excerpt.hit
    facts = [
        hit.breadcrumbs,
        line_range(hit.start_line, hit.end_line),
        f"score {hit.score:.2f}",
        f"id `{hit.id}`",
    ]
    if not excerpt.is_whole:
        facts.append(_truncation_fact(excerpt))
    if hit.index_status != "latest":
        facts.append(_STATUS_NOTES[hit.index_status])
    lines = [f"### {number}. {hit.file or hit.path}:{hit.start_line}", " · ".join(facts)]
    lines += [fence(excerpt.content)] if excerpt.content else []
    lines += [f"- also line {each.line}: {each.heading} · id `{each.id}`" for each in hit.more]
    return "\n".join(lines)


def _truncation_fact(excerpt: Excerpt) -> str:
    if not excerpt.content:
        return "truncated: text not shown"
    if excerpt.content == excerpt.hit.preview:
        return f"truncated to a preview of line {excerpt.first_line}, {excerpt.hit.token_count:,} tokens in all"
    count = excerpt.content.rstrip().count("\n") + 1
    first = excerpt.first_line or excerpt.hit.start_line
    return f"truncated to {line_range(first, first + count - 1)}, {excerpt.hit.token_count:,} tokens in all"
