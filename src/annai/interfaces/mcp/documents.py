"""What does a document say? All of it, one section, its parent or children, or some lines, in pages that fit."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from annai.errors import NotFound, QueryError
from annai.interfaces.mcp.budget import content_tokens, split_lines, truncate
from annai.interfaces.mcp.results import NOTE_TOKENS, ToolResult, fence, line_range
from annai.interfaces.render import section_json
from annai.project import Project
from annai.serving.wire import plain
from annai.text.tokens import count_tokens
from annai.types import Selection, StoredSection, breadcrumbs

PAGE_SHARE = 0.8
"""The share of a budget that is the text itself; the rest names the page and, in long documents, the inner sections."""

MAX_SUGGESTED_SECTIONS = 50
"""Sections that are named when the requested one does not exist."""

SECTION_FIELDS_TOKENS = 30
"""The tokens of a section in the list of inner sections, besides its id and heading."""


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
        return _children_result(selection)
    if selection.last_line and part == "section" and start_line is None and end_line is None:
        start_line, end_line = selection.line, selection.last_line
    by_lines = start_line is not None or end_line is not None
    stored = selection.sections[0] if by_lines else _select_part(selection, part)
    text, first_line = full_text(selection, stored), 1 if stored.section.order == 0 else stored.section.start_line
    if by_lines:
        text, first_line = _slice_lines(text, start_line or 1, end_line)
    starts = {each.section.start_line for each in selection.sections if not each.section.piece}
    pages = split_pages(text, first_line, int(budget * PAGE_SHARE), starts)
    if not 1 <= page <= len(pages):
        count = "1 page" if len(pages) == 1 else f"{len(pages)} pages"
        raise QueryError(f"There is no page {page} of {stored.id}; it has {count}.")
    inner = _inner_sections(selection, stored) if len(pages) > 1 else []
    return _page_result(selection, stored, pages, page, inner, int(budget * (1 - PAGE_SHARE)) - NOTE_TOKENS)


def full_text(selection: Selection, stored: StoredSection) -> str:
    """A section's text; for the root the whole file, front matter included."""
    return selection.document.text if stored.section.order == 0 else selection.text(stored)


def split_pages(text: str, first_line: int, budget: int, starts: Collection[int]) -> list[Page]:
    """Cut a text into pages: at line ends, and where a section starts if that wastes less than half a page."""
    lines = split_lines(text)
    costs = [content_tokens(line) for line in lines]
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
            costs[start] = content_tokens(lines[start])
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
        raise NotFound(f"{name} has no section #{number[:20]}; it has {shown + more or 'none'}.") from error


def _select_part(selection: Selection, part: str) -> StoredSection:
    if part == "whole":
        return selection.sections[0]
    if part == "parent":
        if selection.parent is None:
            raise QueryError(f"{selection.section.id} is the whole document; it has no parent.")
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
            f"There is no {line_range(first, last or first)} in this document; it has {len(lines):,} lines."
        )
    return "".join(lines[first - 1 : last]), first


def _children_result(selection: Selection) -> ToolResult:
    """The sections inside one; if there are none, those next to it."""
    stored, listed = selection.section, selection.children
    fields = {**_section_fields(stored), "children": [_section_fields(each) for each in listed]}
    title = f"{len(listed)} sections inside {stored.path} ({_breadcrumbs(stored)}):"
    if not listed:
        listed = [each for each in _children(selection, stored.section.parent) if each.id != stored.id]
        fields["siblings"] = [_section_fields(each) for each in listed]
        title = f"{stored.id} has no sections inside it." + (" Next to it:" if listed else "")
    return ToolResult(plain(fields), "\n".join([title, *map(_list_item, listed)]))


def _page_result(
    selection: Selection,
    stored: StoredSection,
    pages: Sequence[Page],
    number: int,
    inner: Sequence[StoredSection],
    remaining: int,
) -> ToolResult:
    """One page, with as many of the inner sections as fit into the remaining tokens."""
    page = pages[number - 1]
    fields: dict[str, Any] = {
        **_section_fields(stored),
        "file": selection.file,
        "start_line": page.first_line,
        "end_line": page.last_line,
        "page": number,
        "pages": len(pages),
        "content": page.text,
    }
    facts = [_breadcrumbs(stored), line_range(page.first_line, page.last_line), f"id `{stored.id}`"]
    if len(pages) > 1:
        facts.append(f"page {number} of {len(pages)}")
    blocks = [f"### {selection.file}:{page.first_line}\n{' · '.join(facts)}", fence(page.text)]
    if number < len(pages):
        fields["next_page"] = number + 1
        blocks.append(f"To continue, call `get_document` with the same arguments and `page` {number + 1}.")
    listed: list[StoredSection] = []
    for section in inner:
        remaining -= count_tokens(f"{section.id}{section.section.heading}") + SECTION_FIELDS_TOKENS
        if remaining < 0:
            break
        listed.append(section)
    if listed:
        names = ("id", "heading", "start_line", "end_line")
        fields["children"] = [{name: _section_fields(section)[name] for name in names} for section in listed]
        blocks.append("Sections inside; read one by its id:\n" + "\n".join(map(_list_item, listed)))
    return ToolResult(plain(fields), "\n\n".join(blocks))


def _section_fields(stored: StoredSection) -> dict[str, Any]:
    """A section's fields, without its positions in the file's text, which a model cannot use."""
    fields = section_json(stored)
    for name in ("start_position", "end_position"):
        del fields[name]
    return fields


def _list_item(stored: StoredSection) -> str:
    """A section as an item of a Markdown list."""
    section = stored.section
    lines = line_range(section.start_line, section.end_line)
    return f"- {section.heading or stored.title} (id `{stored.id}`, {lines})"


def _breadcrumbs(stored: StoredSection) -> str:
    return breadcrumbs(stored.title, stored.section.heading_path)
