"""How much of an answer fits? Whole sections first, then passages that matched or previews, within a token limit."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from annai.text.lines import LINE_END
from annai.text.tokens import count_tokens
from annai.types import Hit

MAX_HEADERS_SHARE = 0.5
"""The share of a budget that may go into naming the results, rather than into their text."""

FIELD_TOKENS = 160
"""The tokens of a result's field names, quotes and numbers."""

MORE_TOKENS = 25
"""The same for each other section that is named with a result."""

MIN_EXCERPT_TOKENS = 40
"""Fewer tokens of a passage say nothing."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What an answer shows of a hit."""

    hit: Hit
    content: str
    is_whole: bool = True
    first_line: int = 0
    """The line of the document on which the content begins, if it is not whole; 0 if there is no content."""


def fit_excerpts(hits: Sequence[Hit], budget: int) -> list[Excerpt]:
    """What to show of each hit, in the same order; the last ones are dropped if not even their headers fit.

    A hit is shown whole if that leaves room for the headers after it, or else with the passage that matched or with its
    preview, if one of them fits. What remains goes to the truncated ones: they continue after their passage.
    """
    headers = [header_tokens(hit) for hit in hits]
    while len(headers) > 1 and sum(headers) > budget * MAX_HEADERS_SHARE:
        headers.pop()
    remaining = budget - sum(headers)
    excerpts: list[Excerpt] = []
    for hit in hits[: len(headers)]:
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
    """The tokens of a text, in JSON or in Markdown, whichever takes more."""
    return max(count_tokens(text), count_tokens(json.dumps(text, ensure_ascii=False)[1:-1]))


def header_tokens(hit: Hit) -> int:
    """The tokens of a hit with all its fields, but without its text."""
    names = [hit.id, hit.collection, hit.path, hit.file, hit.title, hit.heading, *hit.heading_path]
    more = sum(MORE_TOKENS + count_tokens(each.id) + count_tokens(each.heading) for each in hit.more)
    return FIELD_TOKENS + sum(map(count_tokens, names)) + more


def truncate(text: str, budget: int) -> str:
    """The beginning of a text: as many whole lines as fit, or the beginning of a first line that is too long."""
    lines = split_lines(text)
    fitting, remaining = [], budget
    for line in lines:
        remaining -= content_tokens(line)
        if remaining < 0:
            break
        fitting.append(line)
    if fitting:
        return "".join(fitting)
    start = lines[0]
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
