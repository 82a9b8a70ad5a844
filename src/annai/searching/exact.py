"""Which lines hold exactly this? Every one of them, in the order of their paths, with its place and their true number.

All texts are looked through: 25 MB take some hundredths of a second, and the lists of words cannot vouch for a file.
They know no front matter, no link's target and no markup, and only the beginning of a long word.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from annai.answers import Answer, Hit, Query, Where
from annai.asking.exact import Wanted
from annai.files.pages import page_at
from annai.stores.base import PassageSearcher, StoredText
from annai.text.lines import Lines
from annai.text.metadata import document_times
from annai.text.tokens import count_tokens
from annai.timer import timer

PREVIEW_CHARACTERS = 100
"""Of a line's preview, for each line that a preview may have."""

BEFORE_SHARE = 0.25
"""How much of the preview of a long line stands before what was found."""


def find_lines(store: PassageSearcher, query: Query, parts: Mapping[str, Where]) -> Answer:
    """The lines of these parts of collections that hold what an exact query, already checked, looks for."""
    start = perf_counter()
    wanted = Wanted(query.text)
    total, hits = 0, list[Hit]()
    with timer("search_total"), store.snapshot():
        for name, where in sorted(parts.items()):
            for stored in store.texts(replace(where, collections=(name,))):
                numbers = [*wanted.lines(stored.text)]
                shown = numbers[max(query.offset - total, 0) : max(query.end - total, 0)]
                total += len(numbers)
                if shown:
                    hits += _hits(store, stored, shown, query, wanted)
    took_ms = (perf_counter() - start) * 1000
    best = 1.0 if total else 0.0
    return Answer(query.text, took_ms, total, tuple(hits), best, matching=total, mode="exact")


def _hits(
    store: PassageSearcher, stored: StoredText, numbers: Sequence[int], query: Query, wanted: Wanted
) -> list[Hit]:
    """Some lines of a document, each with the innermost section around it."""
    document = store.document(stored.collection, stored.path)
    sections = [each for each in store.sections(stored.collection, stored.path) if not each.section.piece]
    if document is None or not sections:
        return []
    section_starts = [each.section.start for each in sections]
    line_starts = [*Lines(document.text).starts, len(document.text)]
    created, updated = document_times(document.front_matter, document.state.mtime_ns)
    hits = []
    for number in numbers:
        start = line_starts[number - 1]
        line = document.text[start : line_starts[number]].rstrip("\r\n")
        around = sections[max(bisect_right(section_starts, start) - 1, 0)]
        section = around.section
        hits.append(
            Hit(
                id=around.id,
                collection=stored.collection,
                path=stored.path,
                title=around.title,
                heading=section.heading,
                heading_path=section.heading_path,
                depth=section.depth,
                section_number=section.number,
                start_line=number,
                end_line=number,
                start_position=start,
                end_position=start + len(line),
                token_count=count_tokens(line),
                score=1.0,
                content="" if query.content == "none" else line,
                created=created,
                updated=updated,
                preview=_excerpt(line, wanted, query.preview_lines * PREVIEW_CHARACTERS),
                preview_line=number,
                page=page_at(stored.path, document.text, start),
                index_status="outdated" if around.problem else "updating" if around.waiting else "latest",
                is_dirty=around.problem is not None or around.waiting,
                passage=line,
                passage_line=number,
            )
        )
    return hits


def _excerpt(line: str, wanted: Wanted, most: int) -> str:
    """A line, or of one that is too long the part around what was found first."""
    if len(line) <= most:
        return line
    first = next(iter(wanted.spans(line)), (0, 0))[0]
    start = max(min(first - int(most * BEFORE_SHARE), len(line) - most), 0)
    return ("…" if start else "") + line[start : start + most] + ("…" if start + most < len(line) else "")
