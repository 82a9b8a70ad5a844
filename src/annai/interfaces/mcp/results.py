"""How does an answer look to a model? The same values twice, as fields and as Markdown, each enough alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from annai.interfaces.mcp.budget import Share, share_out
from annai.interfaces.render import answer_json, correction_lines
from annai.serving.wire import plain
from annai.text.tokens import count_tokens
from annai.types import Answer, Hit, Query

NOTE_TOKENS = 150
"""Kept free of a budget for what is said about the results as a whole, beside what the answer itself says."""

_STATES = {
    "updating": "the file has changed; this is how it was",
    "outdated": "the file could not be read since; this is how it was",
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returns: fields for a program, Markdown for a reader."""

    fields: dict[str, Any]
    text: str


def answer_result(answer: Answer, tokens: int, notes: Sequence[str] = ()) -> ToolResult:
    """Search results, within so many tokens."""
    own = [*correction_lines(answer), *([answer.note] if answer.note else [])]
    shares = share_out(answer.results, tokens - NOTE_TOKENS - sum(map(count_tokens, own)))
    notes = [*notes, *own, *_what_is_missing(answer, shares)]
    results = []
    for share, values in zip(shares, _results_json(answer), strict=False):
        values["content"] = share.content
        if not share.is_whole:
            values["truncated"] = True
            values["content_start_line"] = share.first_line or values["start_line"]
        results.append(values)
    fields = {
        "query": answer.query,
        "took_ms": round(answer.took_ms, 1),
        "total": answer.total,
        "results": results,
        **({"notes": notes} if notes else {}),
    }
    count = f"{len(shares)} of {answer.total}" if answer.total > len(shares) else str(len(shares))
    heading = f"{count} results for “{_one_line(answer.query)}”"
    blocks = [_block(place, share) for place, share in enumerate(shares, 1)]
    return ToolResult(fields, "\n\n".join([heading, *blocks, *(f"Note: {note}" for note in notes)]))


def no_results(query: Query, reasons: Sequence[str], notes: Sequence[str]) -> ToolResult:
    """That nothing was found, why as far as that is known, and what to try."""
    hints = [
        *(["leave out `path`"] if query.where.paths else []),
        *(["leave out `depth`"] if query.depths else []),
        *([f'mode "hybrid" instead of "{query.mode}"'] if query.mode != "hybrid" else []),
        *(["all collections, with `search`"] if query.where.collections else []),
        "other words, or fewer",
        "`list_collections` to see what there is",
    ]
    said = [f"Nothing was found{''.join(f': {each}' for each in reasons)}.", f"Try: {'; '.join(hints)}.", *notes]
    return ToolResult({"query": query.text, "total": 0, "results": [], "notes": said}, " ".join(said))


def span(first: int, last: int) -> str:
    """A range of lines in words."""
    return f"line {first}" if first == last else f"lines {first}–{last}"


def fenced(text: str) -> str:
    """A text between fences that it does not hold itself, so that nothing in it is taken for ours."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    kept = text.rstrip("\r\n")
    return f"{fence}\n{kept}\n{fence}"


def _results_json(answer: Answer) -> list[dict[str, Any]]:
    results = answer_json(answer)["results"]
    return plain(results) if isinstance(results, list) else []


def _what_is_missing(answer: Answer, shares: Sequence[Share]) -> list[str]:
    notes = []
    if any(not share.is_whole for share in shares):
        notes.append(
            "Results marked as cut are longer than fits here; `get_document` with a result's id reads it whole."
        )
    if len(shares) < len(answer.results):
        notes.append(
            f"{len(answer.results) - len(shares)} more results did not fit; ask with a `path` or a smaller `limit`."
        )
    return notes


def _block(place: int, share: Share) -> str:
    """A result: where it stands, how to read on, and its text."""
    hit = share.hit
    names = " › ".join(dict.fromkeys(hit.heading_path or (hit.title,)))
    facts = [names, span(hit.start_line, hit.end_line), f"score {hit.score:.2f}", f"id `{hit.id}`"]
    if not share.is_whole:
        facts.append(_how_cut(share, hit))
    if hit.index_status != "latest":
        facts.append(_STATES[hit.index_status])
    head = f"### {place}. {hit.path}:{hit.start_line}\n{' · '.join(facts)}"
    return f"{head}\n{fenced(share.content)}" if share.content else head


def _how_cut(share: Share, hit: Hit) -> str:
    if not share.content:
        return "cut: only named here"
    count = share.content.rstrip().count("\n") + 1
    first = share.first_line or hit.start_line
    return f"cut: {span(first, first + count - 1)} of {hit.token_count:,} tokens"


def _one_line(text: str) -> str:
    return " ".join(text.split())
