"""How much of an answer fits? Whole sections first, then the passages that matched, within a number of tokens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from annai.text.lines import LINE_END
from annai.text.tokens import count_tokens
from annai.types import Hit

POINTERS_SHARE = 0.5
"""The most of a budget that goes into naming the results, and not into what they say."""

FIELDS_COST = 150
"""The tokens of a result's field names, quotes and numbers."""

LEAST_CUT = 40
"""Tokens; fewer of a passage tell nothing."""


@dataclass(frozen=True, slots=True)
class Share:
    """What an answer shows of a hit."""

    hit: Hit
    content: str
    is_whole: bool = True
    first_line: int = 0
    """The line of the document on which the content begins, where it is not whole; 0 if there is none."""


def share_out(hits: Sequence[Hit], tokens: int) -> list[Share]:
    """What to show of each hit, in their order; those for which there is no room at all are left out.

    A hit is shown whole if that leaves room to name those after it; else with the passage that matched, if that fits.
    What is left in the end goes to those that are cut: they go on from where their passage begins.
    """
    pointers = [pointer_cost(hit) for hit in hits]
    while len(pointers) > 1 and sum(pointers) > tokens * POINTERS_SHARE:
        pointers.pop()
    left = tokens - sum(pointers)
    shares: list[Share] = []
    for hit in hits[: len(pointers)]:
        share = Share(hit, "", is_whole=not hit.content)
        for text, is_whole in ((hit.content, True), (hit.passage, False)):
            if text and (cost := content_cost(text)) <= left:
                share = Share(hit, text, is_whole, 0 if is_whole else hit.passage_line)
                left -= cost
                break
        shares.append(share)
    parts = [place for place, share in enumerate(shares) if not share.is_whole]
    for count, place in enumerate(parts):
        longer = _longer(shares[place], left // (len(parts) - count))
        left += content_cost(shares[place].content) - content_cost(longer.content)
        shares[place] = longer
    return shares


def _longer(share: Share, room: int) -> Share:
    """As much more of a hit's text as there is room for."""
    hit = share.hit
    rest = _from_passage(hit)
    room += content_cost(share.content) if share.content else 0
    if room < LEAST_CUT or len(share.content) >= len(rest):
        return share
    text = cut(rest, room)
    return Share(hit, text, is_whole=False, first_line=hit.passage_line) if len(text) > len(share.content) else share


def _from_passage(hit: Hit) -> str:
    """A hit's text from the passage on that matched."""
    every = lines(hit.content)
    # The content is the section, or the document around it.
    for first_line in (hit.start_line, 1):
        line = sum(map(len, every[: hit.passage_line - first_line]))
        start = hit.content.find(hit.passage, line)
        if 0 <= start - line <= len(every[min(hit.passage_line - first_line, len(every) - 1)]):
            return hit.content[start:]
    return hit.passage or hit.content


def content_cost(text: str) -> int:
    """The tokens of a text, in JSON or in Markdown, whichever takes more."""
    return max(count_tokens(text), count_tokens(json.dumps(text, ensure_ascii=False)[1:-1]))


def pointer_cost(hit: Hit) -> int:
    """The tokens that it takes to name a hit with all its fields."""
    names = [hit.id, hit.collection, hit.path, hit.title, hit.heading, *hit.heading_path]
    return FIELDS_COST + sum(map(count_tokens, names))


def cut(text: str, tokens: int) -> str:
    """The beginning of a text: as many whole lines as fit; of a longer first line, its beginning."""
    kept, left = [], tokens
    for line in lines(text):
        left -= content_cost(line)
        if left < 0:
            break
        kept.append(line)
    if kept:
        return "".join(kept)
    start = lines(text)[0]
    while content_cost(start) > tokens and len(start) > 1:
        start = start[: len(start) * 3 // 4]
    return start


def lines(text: str) -> list[str]:
    """The lines of a text, each with its end."""
    result, at = [], 0
    for match in LINE_END.finditer(text):
        result.append(text[at : match.end()])
        at = match.end()
    return [*result, text[at:]] if at < len(text) or not result else result
