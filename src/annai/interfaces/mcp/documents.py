"""What does a document say? Whole, one section, its surroundings or some lines, in pages that a model can hold."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from annai.errors import NotFound, QueryError
from annai.interfaces.mcp.budget import content_cost, cut, lines
from annai.interfaces.mcp.results import NOTE_TOKENS, ToolResult, fenced, span
from annai.interfaces.render import section_json
from annai.project import Project
from annai.serving.wire import plain
from annai.text.tokens import count_tokens
from annai.types import Selection, StoredSection

PAGE_SHARE = 0.8
"""What of a budget is the text itself; the rest names the page and, in long documents, the sections inside."""

SHOWN_MARKS = 50
"""Sections that are offered instead of one that does not exist."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a text."""

    text: str
    first_line: int
    last_line: int


def read_document(
    project: Project,
    tokens: int,
    *,
    path: str,
    part: str = "section",
    start_line: int | None = None,
    end_line: int | None = None,
    page: int = 1,
) -> ToolResult:
    """What was asked for of a document; the arguments are those of the tool."""
    place = locate(project, path)
    if part == "children":
        return _tell_sections(place)
    by_lines = start_line is not None or end_line is not None
    stored = place.sections[0] if by_lines else _chosen(place, part)
    # The root's text is the whole file, front matter included.
    is_root = stored.section.order == 0
    text, first_line = (place.document.text, 1) if is_root else (place.text(stored), stored.section.start_line)
    if by_lines:
        text, first_line = _between(text, start_line or 1, end_line)
    starts = {each.section.start_line for each in place.sections if not each.section.piece}
    pages = paged(text, first_line, int(tokens * PAGE_SHARE), starts)
    if not 1 <= page <= len(pages):
        count = "1 page" if len(pages) == 1 else f"{len(pages)} pages"
        raise QueryError(f"There is no page {page} of {stored.id}; it has {count}.")
    inside = _inside(place, stored) if len(pages) > 1 else []
    return _tell(stored, pages, page, inside, int(tokens * (1 - PAGE_SHARE)) - NOTE_TOKENS)


def locate(project: Project, path: str) -> Selection:
    """Find a document or a section; what is not there comes with what is."""
    try:
        return project.locate(path)
    except NotFound as error:
        name, mark, number = path.rpartition("#")
        if not mark:
            raise
        try:
            place = project.locate(name)
        except NotFound:
            raise error from None
        marks = ["#" + ".".join(map(str, each.section.number)) for each in place.sections if not each.section.piece]
        known = ", ".join(marks[1 : SHOWN_MARKS + 1]) + (" …" if len(marks) > SHOWN_MARKS + 1 else "")
        raise NotFound(f"{name} has no section #{number[:20]}; it has {known or 'none'}.") from error


def paged(text: str, first_line: int, tokens: int, starts: Collection[int]) -> list[Page]:
    """Cut a text into pages: at line ends, and where a section begins if that wastes less than half a page."""
    rest = lines(text)
    costs = [content_cost(line) for line in rest]
    pages: list[Page] = []
    at = 0
    while at < len(rest):
        end, cost = at, 0
        while end < len(rest) and cost + costs[end] <= tokens:
            cost += costs[end]
            end += 1
        if end == at:
            # One line that is longer than a page.
            piece = cut(rest[at], tokens)
            pages.append(Page(piece, first_line + at, first_line + at))
            rest[at] = rest[at][len(piece) :]
            costs[at] = content_cost(rest[at])
            continue
        if end < len(rest):
            end = max(
                (line for line in range((at + end) // 2 + 1, end + 1) if first_line + line in starts), default=end
            )
        pages.append(Page("".join(rest[at:end]), first_line + at, first_line + end - 1))
        at = end
    return pages or [Page("", first_line, first_line)]


def brief(stored: StoredSection) -> dict[str, Any]:
    """A section's fields, without those that only say where it stands in the file's text."""
    kept = section_json(stored)
    for name in ("start_position", "end_position"):
        del kept[name]
    return kept


def section_line(stored: StoredSection) -> str:
    """A section in one line of a list."""
    section = stored.section
    return f"- {section.heading or stored.title} (id `{stored.id}`, {span(section.start_line, section.end_line)})"


def headings(stored: StoredSection) -> str:
    """Where a section stands in its document."""
    return " › ".join(dict.fromkeys(stored.section.heading_path or (stored.title,)))


def _tell_sections(place: Selection) -> ToolResult:
    """The sections inside one; if there are none, those beside it."""
    stored, shown = place.section, place.children
    fields = {**brief(stored), "children": [brief(each) for each in shown]}
    said = f"{len(shown)} sections inside {stored.path} ({headings(stored)}):"
    if not shown:
        around = stored.section.parent
        beside = [each for each in place.sections if each.section.parent == around and not each.section.piece]
        shown = [each for each in beside if each.id != stored.id]
        fields["siblings"] = [brief(each) for each in shown]
        said = f"{stored.id} has no sections inside it." + (" Beside it:" if shown else "")
    return ToolResult(plain(fields), "\n".join([said, *map(section_line, shown)]))


def _chosen(place: Selection, part: str) -> StoredSection:
    if part == "whole":
        return place.sections[0]
    if part == "parent":
        if place.parent is None:
            raise QueryError(f"{place.section.id} is the whole document; there is nothing around it.")
        return place.parent
    return place.section


def _inside(place: Selection, stored: StoredSection) -> list[StoredSection]:
    """The sections inside one; where that is a single chapter, those inside the chapter."""
    found = [stored]
    while len(found) == 1:
        around = found[0].section.order
        found = [each for each in place.sections if each.section.parent == around and not each.section.piece]
    return found


def _between(text: str, first: int, last: int | None) -> tuple[str, int]:
    """Some lines of a document, and the number of the first."""
    every = lines(text)
    if first > len(every) or (last is not None and last < first):
        asked = span(first, last or first)
        raise QueryError(f"There is no {asked} in this document; it has {len(every):,} lines.")
    return "".join(every[first - 1 : last]), first


def _tell(
    stored: StoredSection, pages: Sequence[Page], number: int, inside: Sequence[StoredSection], left: int
) -> ToolResult:
    page = pages[number - 1]
    fields: dict[str, Any] = {
        **brief(stored),
        "start_line": page.first_line,
        "end_line": page.last_line,
        "page": number,
        "pages": len(pages),
        "content": page.text,
    }
    facts = [headings(stored), span(page.first_line, page.last_line), f"id `{stored.id}`"]
    if len(pages) > 1:
        facts.append(f"page {number} of {len(pages)}")
    blocks = [f"### {stored.path}:{page.first_line}\n{' · '.join(facts)}", fenced(page.text)]
    if number < len(pages):
        fields["next_page"] = number + 1
        blocks.append(f"It goes on: call `get_document` with the same arguments and `page` {number + 1}.")
    shown: list[StoredSection] = []
    for child in inside:
        left -= count_tokens(f"{child.id}{child.section.heading}") + 30
        if left < 0:
            break
        shown.append(child)
    if shown:
        kept = ("id", "heading", "start_line", "end_line")
        fields["children"] = [{name: brief(child)[name] for name in kept} for child in shown]
        blocks.append("Sections inside, to read one alone:\n" + "\n".join(map(section_line, shown)))
    return ToolResult(plain(fields), "\n\n".join(blocks))
