"""How much of an answer fits? Whole sections first, then passages or previews; lists in pages; within a token limit."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from annai.answers import Hit, Window, breadcrumbs
from annai.definitions import dataclass
from annai.errors import QueryError
from annai.files.pages import place
from annai.text.lines import LINE_END
from annai.text.tokens import count_tokens
from annai.types import IMPLICIT_COLLECTION

MAX_HEADERS_SHARE = 0.5
"""The share of a budget that may go into naming the results, rather than into their text."""

EXCERPT_TOKENS = 24
"""The tokens of what is said of a result's text: where it begins and that it is truncated."""

MIN_EXCERPT_TOKENS = 40
"""Fewer tokens of a passage say nothing."""

MAX_NAME_TOKENS = 60
"""A longer title or heading is a text by mistake: its beginning names the section as well."""

MAX_LINE_TOKENS = 150
"""A file's problem, a note, a description: what is longer is cut."""

ITEM_TOKENS = 3
"""The tokens that join an item of a list to the next."""

MAX_TOKEN_CHARACTERS = 16
"""A line with more characters for each token of its budget is too long, and need not be measured to its end."""

MAX_FENCE = 10
"""Longer runs of backticks in a text count, as the fence around the text is longer still."""

Item = tuple[object, str]
"""An item of a list, as a field and as a line of Markdown."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What an answer shows of a hit."""

    hit: Hit
    content: str
    is_whole: bool = True
    first_line: int = 0
    """The line of the document on which the content begins, if it is not whole; 0 if there is no content."""


def fit_windows(hits: Sequence[Hit], budget: int) -> list[Hit]:
    """The hits with their windows, as far as these fit; the last ones are dropped if not even their headers fit."""
    shown, headers = _fit_headers(hits, budget)
    remaining = budget - sum(headers)
    fitting = []
    for hit in shown:
        windows = []
        for window in hit.windows:
            cost = content_tokens(window.text) + header_tokens(window_fields(hit, window))
            if cost <= remaining:
                remaining -= cost
                windows.append(window)
        fitting.append(replace(hit, windows=tuple(windows)))
    return fitting


def fit_excerpts(hits: Sequence[Hit], budget: int) -> list[Excerpt]:
    """What to show of each hit, in the same order; the last ones are dropped if not even their headers fit.

    From the first to the last, a hit is shown whole if that fits, or else with the passage that matched, or else with
    its preview. What remains goes to the truncated ones: they continue after their passage.
    """
    shown, headers = _fit_headers(hits, budget)
    remaining = budget - sum(headers)
    previews = []
    for hit in shown:
        cost = content_tokens(hit.preview) if hit.preview else 0
        previews.append(cost if cost <= remaining else 0)
        remaining -= previews[-1]
    excerpts: list[Excerpt] = []
    for hit, preview in zip(shown, previews, strict=True):
        remaining += preview
        excerpt = Excerpt(hit, "", is_whole=not hit.content)
        texts = ((hit.content, True, 0), (hit.passage, False, hit.passage_line), (hit.preview, False, hit.preview_line))
        for text, is_whole, line in texts:
            if text and (cost := content_tokens(text)) <= remaining:
                excerpt = Excerpt(hit, text, is_whole, line)
                remaining -= cost
                break
        excerpts.append(excerpt)
    truncated = [index for index, excerpt in enumerate(excerpts) if not excerpt.is_whole]
    for done, index in enumerate(truncated):
        longer = _extend(excerpts[index], remaining // (len(truncated) - done))
        remaining += content_tokens(excerpts[index].content) - content_tokens(longer.content)
        excerpts[index] = longer
    return excerpts


def _fit_headers(hits: Sequence[Hit], budget: int) -> tuple[Sequence[Hit], list[int]]:
    """The first hits whose headers fit, with their tokens; where not all do, other sections are not named."""
    headers = [header_tokens(hit_fields(hit)) for hit in hits]
    if sum(headers) > budget * MAX_HEADERS_SHARE:
        hits = [replace(hit, more=()) for hit in hits]
        headers = [header_tokens(hit_fields(hit)) for hit in hits]
    while headers and sum(headers) > (budget * MAX_HEADERS_SHARE if len(headers) > 1 else budget):
        headers.pop()
    return hits[: len(headers)], headers


def hit_fields(hit: Hit) -> dict[str, Any]:
    """What a model needs of a hit beside its text: where it is, and how sure.

    Its path and lines are its address, which `get_document` takes; the rest of a `Hit` repeats these or follows.
    """
    return {
        "path": hit.file or hit.path,
        **({"cite": place(hit.file or hit.path, hit.path, 0, hit.page)} if hit.page else {}),
        **({} if hit.collection == IMPLICIT_COLLECTION else {"collection": hit.collection}),
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "section": hit.breadcrumbs,
        "verdict": hit.verdict,
        "score": round(hit.score, 2),
        **({} if hit.index_status == "latest" else {"index_status": hit.index_status}),
        **({"more": {str(each.line): each.heading for each in hit.more}} if hit.more else {}),
    }


def window_fields(hit: Hit, window: Window) -> dict[str, Any]:
    """What a model needs of a window beside its text: its lines, and its heading if that is not the hit's."""
    place = {"start_line": window.start_line, "end_line": window.end_line}
    heading = breadcrumbs("", window.heading_path)
    is_same = window.heading_path == hit.heading_path
    return place if is_same or not heading else {**place, "heading": heading}


def _extend(excerpt: Excerpt, budget: int) -> Excerpt:
    """The excerpt with as much more of the hit's text as fits."""
    hit = excerpt.hit
    rest = _text_from_passage(hit)
    budget += content_tokens(excerpt.content) if excerpt.content else 0
    if budget < MIN_EXCERPT_TOKENS or len(excerpt.content) >= len(rest):
        return excerpt
    text = truncate(rest, budget)
    is_longer = len(text) > len(excerpt.content)
    return Excerpt(hit, text, is_whole=False, first_line=hit.passage_line) if is_longer else excerpt


def _text_from_passage(hit: Hit) -> str:
    """A hit's text, starting at the passage that matched."""
    lines = split_lines(hit.content)
    # The content is the section, or the document around it.
    for first_line in (hit.start_line, 1):
        line = sum(map(len, lines[: hit.passage_line - first_line]))
        start = hit.content.find(hit.passage, line)
        if 0 <= start - line <= len(lines[min(hit.passage_line - first_line, len(lines) - 1)]):
            return hit.content[start:]
    return hit.passage or hit.content


def content_tokens(text: str) -> int:
    """The tokens of a text, in JSON or in a Markdown fence, whichever takes more."""
    fence = 2 * max(map(len, re.findall(rf"`{{{MAX_FENCE},}}", text)), default=0)
    return max(count_tokens(text) + fence, json_tokens(text) - 2)


def line_tokens(line: str, budget: int) -> int:
    """The tokens of a line, or more than the budget if it is far too long: then it is not measured to its end."""
    return budget + 1 if len(line) > budget * MAX_TOKEN_CHARACTERS else content_tokens(line)


def json_tokens(value: object) -> int:
    """The tokens of plain values as JSON."""
    return count_tokens(json.dumps(value, ensure_ascii=False))


def clip(text: str, budget: int = MAX_NAME_TOKENS) -> str:
    """A text of one line, cut with an ellipsis if it has more tokens."""
    text = " ".join(text.split()) if "\n" in text else text
    return text if content_tokens(text) <= budget else truncate(text, budget - 1).rstrip() + "…"


def clip_line(text: str) -> str:
    """A sentence, a description or a path, cut if it is longer than those are."""
    return clip(text, MAX_LINE_TOKENS)


def clip_names(hit: Hit) -> Hit:
    """A hit whose title and headings are no longer than names are."""
    more = tuple(replace(each, heading=clip(each.heading)) for each in hit.more)
    path = tuple(map(clip, hit.heading_path))
    return replace(hit, title=clip(hit.title), heading=clip(hit.heading), heading_path=path, more=more)


def fit_lines(lines: Sequence[str], budget: int) -> list[str]:
    """The first of these lines; what does not fit is counted."""
    shown = [line for _, line in fit_items([(line, line) for line in map(clip_line, lines)], budget)]
    more = len(lines) - len(shown)
    return [*shown, *([f"and {more:,} more"] if more else [])]


def fit_items(items: Iterable[Item], budget: int) -> list[Item]:
    """As many of the first items as fit."""
    shown: list[Item] = []
    for item in items:
        budget -= _item_tokens(item)
        if budget < 0:
            break
        shown.append(item)
    return shown


def paginate(items: Sequence[Item], budget: int) -> list[list[Item]]:
    """Cut a list into pages of at most this many tokens; at least one page, if only an empty one."""
    pages: list[list[Item]] = [[]]
    remaining = budget
    for item in items:
        cost = _item_tokens(item)
        check_room(budget - cost)
        if cost > remaining:
            pages.append([])
            remaining = budget
        pages[-1].append(item)
        remaining -= cost
    return pages


def _item_tokens(item: Item) -> int:
    field, line = item
    return max(json_tokens(field), count_tokens(line)) + ITEM_TOKENS


def check_room(remaining: int) -> int:
    """The tokens that remain. Raises `QueryError` if names alone are more than an answer may have."""
    if remaining < 0:
        raise QueryError("The names in this answer have more tokens than an answer may: raise `search.max_tokens`.")
    return remaining


def check_page(page: int, count: int, name: str) -> None:
    """Raise `QueryError` for a page that there is not."""
    if not 1 <= page <= count:
        raise QueryError(
            f"There is no page {page} of {name}", f"it has {'1 page' if count == 1 else f'{count} pages'}."
        )


def header_tokens(fields: Mapping[str, Any]) -> int:
    """The tokens of all that is said of a hit or a window, without its text."""
    return json_tokens(fields) + EXCERPT_TOKENS


def truncate(text: str, budget: int) -> str:
    """The beginning of a text: as many whole lines as fit, or the beginning of a first line that is too long."""
    lines = split_lines(text)
    fitting, remaining = [], budget
    for line in lines:
        remaining -= line_tokens(line, budget)
        if remaining < 0:
            break
        fitting.append(line)
    if fitting:
        return "".join(fitting)
    start = lines[0][: budget * MAX_TOKEN_CHARACTERS]
    while content_tokens(start) > budget and len(start) > 1:
        start = start[: len(start) * 3 // 4]
    return start


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with its line end."""
    result, end = [], 0
    for match in LINE_END.finditer(text):
        result.append(text[end : match.end()])
        end = match.end()
    return [*result, text[end:]] if end < len(text) or not result else result
