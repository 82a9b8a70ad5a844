"""What does a document say? All of it, one section, its parent or children, or some lines, in pages that fit."""

from collections.abc import Collection, Sequence
from typing import Any

from annai.answers import breadcrumbs
from annai.definitions import dataclass
from annai.errors import NotFound, QueryError
from annai.interfaces.mcp.budget import (
    MIN_EXCERPT_TOKENS,
    Item,
    check_page,
    check_room,
    clip,
    fit_items,
    json_tokens,
    line_tokens,
    paginate,
    split_lines,
    truncate,
)
from annai.interfaces.mcp.results import NOTE_TOKENS, ToolResult, fence, line_range, line_span
from annai.project import Project
from annai.types import Selection, StoredSection

PAGE_SHARE = 0.85
"""The share of a budget that is the text itself; the rest names the page and, on the first of several, the sections."""

MAX_SUGGESTED_SECTIONS = 50
"""Sections that are named when the requested one does not exist."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a text."""

    text: str
    first_line: int
    last_line: int


def document_result(
    project: Project,
    budget: int,
    *,
    path: str,
    part: str = "section",
    start_line: int | None = None,
    end_line: int | None = None,
    page: int = 1,
) -> ToolResult:
    """The requested part of a document, within this many tokens; the other arguments are those of `get_document`."""
    selection = _locate(project, path)
    if part == "children":
        return _children_result(selection, budget, page)
    if selection.last_line and part == "section" and start_line is None and end_line is None:
        start_line, end_line = selection.line, selection.last_line
    by_lines = start_line is not None or end_line is not None
    stored = selection.sections[0] if by_lines else _select_part(selection, part)
    text, first_line = full_text(selection, stored), 1 if stored.section.order == 0 else stored.section.start_line
    if by_lines:
        text, first_line = _slice_lines(text, start_line or 1, end_line)
    starts = {each.section.start_line for each in selection.sections if not each.section.piece}
    fields = {"path": selection.file, "start_line": 0, "end_line": 0, "section": _breadcrumbs(stored)}
    remaining = budget - json_tokens(fields) - NOTE_TOKENS
    check_room(remaining - MIN_EXCERPT_TOKENS)
    share = min(int(budget * PAGE_SHARE), remaining)
    pages = split_pages(text, first_line, share, starts)
    check_page(page, len(pages), selection.file)
    inner = _inner_sections(selection, stored) if page == 1 < len(pages) else []
    return _page_result(fields, stored, pages, page, inner, remaining - share)


def full_text(selection: Selection, stored: StoredSection) -> str:
    """A section's text; for the root the whole file, front matter included."""
    return selection.document.text if stored.section.order == 0 else selection.text(stored)


def split_pages(text: str, first_line: int, budget: int, starts: Collection[int]) -> list[Page]:
    """Cut a text into pages: at line ends, and where a section starts if that wastes less than half a page."""
    lines = split_lines(text)
    costs = [line_tokens(line, budget) for line in lines]
    pages: list[Page] = []
    start = 0
    while start < len(lines):
        end, cost = start, 0
        while end < len(lines) and cost + costs[end] <= budget:
            cost += costs[end]
            end += 1
        if end == start:
            # One line that is longer than a page.
            piece = truncate(lines[start], budget)
            pages.append(Page(piece, first_line + start, first_line + start))
            lines[start] = lines[start][len(piece) :]
            costs[start] = line_tokens(lines[start], budget)
            continue
        if end < len(lines):
            second_half = range((start + end) // 2 + 1, end + 1)
            end = max((line for line in second_half if first_line + line in starts), default=end)
        pages.append(Page("".join(lines[start:end]), first_line + start, first_line + end - 1))
        start = end
    return pages or [Page("", first_line, first_line)]


def _locate(project: Project, path: str) -> Selection:
    """Find a document or a section; the error for a missing section lists the document's sections."""
    try:
        return project.locate(path)
    except NotFound as error:
        name, mark, number = path.rpartition("#")
        if not mark:
            raise
        try:
            selection = project.locate(name)
        except NotFound:
            raise error from None
        marks = ["#" + ".".join(map(str, each.section.number)) for each in selection.sections if not each.section.piece]
        shown = ", ".join(marks[1 : MAX_SUGGESTED_SECTIONS + 1])
        more = " …" if len(marks) > MAX_SUGGESTED_SECTIONS + 1 else ""
        raise NotFound(f"{name} has no section #{number[:20]}", f"it has {shown + more or 'none'}.") from error


def _select_part(selection: Selection, part: str) -> StoredSection:
    if part == "whole":
        return selection.sections[0]
    if part == "parent":
        if selection.parent is None:
            raise QueryError(f"{selection.section.id} is the whole document", "it has no parent.")
        return selection.parent
    return selection.section


def _children(selection: Selection, parent: int | None) -> list[StoredSection]:
    """The sections directly inside the one with this order."""
    return [each for each in selection.sections if each.section.parent == parent and not each.section.piece]


def _inner_sections(selection: Selection, stored: StoredSection) -> list[StoredSection]:
    """The sections inside one; if that is a single chapter, those inside the chapter."""
    sections = [stored]
    while len(sections) == 1:
        sections = _children(selection, sections[0].section.order)
    return sections


def _slice_lines(text: str, first: int, last: int | None) -> tuple[str, int]:
    """Some lines of a document, and the number of the first."""
    lines = split_lines(text)
    if first > len(lines) or (last is not None and last < first):
        raise QueryError(
            f"There is no {line_range(first, last or first)} in this document", f"it has {len(lines):,} lines."
        )
    return "".join(lines[first - 1 : last]), first


def _children_result(selection: Selection, budget: int, number: int) -> ToolResult:
    """One page of the sections inside one; if there are none, of those next to it."""
    stored, listed = selection.section, selection.children
    lines = line_span(stored.section.start_line, stored.section.end_line)
    place = f"{selection.file}:{lines}" if stored.section.order else selection.file
    fields: dict[str, Any] = {"path": place, "section": _breadcrumbs(stored), "children": {}}
    name = "children"
    title = f"{len(listed):,} sections inside {place} ({_breadcrumbs(stored)}), each by its lines"
    if not listed:
        name = "siblings"
        listed = [each for each in _children(selection, stored.section.parent) if each.id != stored.id]
        title = f"{place} has no sections inside it" + (". Next to it, by their lines" if listed else "")
    pages = paginate([*map(_list_item, listed)], check_room(budget - json_tokens(fields) - NOTE_TOKENS))
    check_page(number, len(pages), f"the sections of {place}")
    shown = pages[number - 1]
    fields[name] = _by_lines(shown)
    said = [title + (":" if listed else "."), *(line for _, line in shown)]
    if len(pages) > 1:
        said[0] = f"{title}, page {number} of {len(pages)}:"
        fields |= {"page": number, "pages": len(pages)}
    if number < len(pages):
        fields["next_page"] = number + 1
        said.append(f"\n{_next_page(number)}")
    return ToolResult(fields, "\n".join(said))


def _page_result(
    fields: dict[str, Any],
    stored: StoredSection,
    pages: Sequence[Page],
    number: int,
    inner: Sequence[StoredSection],
    remaining: int,
) -> ToolResult:
    """One page, with as many of the inner sections as fit into the remaining tokens."""
    page = pages[number - 1]
    fields |= {"start_line": page.first_line, "end_line": page.last_line, "content": page.text}
    facts = [f"{fields['path']}:{line_span(page.first_line, page.last_line)}", _breadcrumbs(stored)]
    if len(pages) > 1:
        fields |= {"page": number, "pages": len(pages)}
        facts.append(f"page {number} of {len(pages)}")
    blocks = [f"### {' · '.join(facts)}", fence(page.text)]
    if number < len(pages):
        fields["next_page"] = number + 1
        blocks.append(_next_page(number))
    listed = fit_items([*map(_list_item, inner)], remaining)
    if listed:
        fields["children"] = _by_lines(listed)
        blocks.append("Sections inside, each by its lines:\n" + "\n".join(line for _, line in listed))
    return ToolResult(fields, "\n\n".join(blocks))


def _next_page(number: int) -> str:
    return f"To continue, call `get_document` with the same arguments and `page` {number + 1}."


def _list_item(stored: StoredSection) -> Item:
    """A section as an item of a list: its lines and its heading."""
    heading = clip(stored.section.heading) or clip(stored.title)
    lines = line_span(stored.section.start_line, stored.section.end_line)
    return {lines: heading}, f"- {lines}: {heading}"


def _by_lines(items: Sequence[Item]) -> dict[str, str]:
    """Sections as fields: lines → heading."""
    return {lines: heading for field, _ in items if isinstance(field, dict) for lines, heading in field.items()}


def _breadcrumbs(stored: StoredSection) -> str:
    return breadcrumbs(clip(stored.title), [*map(clip, stored.section.heading_path)])
