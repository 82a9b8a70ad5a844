"""On which page of its file does a text stand? In the text of a converted file a comment begins each page."""

import re

from annai.definitions import lazy_pattern

SLIDES = (".pptx", ".odp")
"""Endings of files whose pages are called slides."""

_MARKER = lazy_pattern(r"^<!-- (page|slide) (\d{1,6}) -->$", re.MULTILINE)
_MARKER_NEXT = lazy_pattern(r"\s*<!-- (page|slide) (\d{1,6}) -->$", re.MULTILINE)


def page_marker(number: int, unit: str = "page") -> str:
    """The line before a page's text."""
    return f"<!-- {unit} {number} -->"


def has_pages(path: str) -> bool:
    """Whether a file of this name may have pages; in another one a marker is a comment that somebody wrote."""
    return path.lower().endswith((".pdf", ".docx", *SLIDES))


def page_at(path: str, text: str, position: int) -> int:
    """The number of the page on which a position of a file's text stands; 0 if nobody knows."""
    if not has_pages(path):
        return 0
    match = _MARKER_NEXT.match(text, position)
    if not match:
        at = max(text.rfind("<!-- page ", 0, position), text.rfind("<!-- slide ", 0, position))
        match = _MARKER.match(text, at) if at >= 0 else None
    return int(match[2]) if match else 0


def page_span(path: str, text: str, number: int) -> tuple[int, int] | None:
    """Where a page's text begins and ends; None if there is no such page."""
    markers = [*_MARKER.finditer(text)] if has_pages(path) else []
    for index, marker in enumerate(markers):
        if int(marker[2]) == number:
            return marker.start(), markers[index + 1].start() if index + 1 < len(markers) else len(text)
    return None


def shown_pages(path: str, text: str) -> str:
    """The text with lines that name its pages for readers, in place of the comments."""
    return _MARKER.sub(r"*\1 \2*", text) if has_pages(path) else text


def page_name(path: str, number: int) -> str:
    """A page as people cite it: `page 12`, `slide 3`."""
    return f"{'slide' if path.lower().endswith(SLIDES) else 'page'} {number}"


def place(shown: str, path: str, line: int | str, page: int) -> str:
    """Where something stands, as a person or a program can look it up: `guide.md:44`, `report.pdf, page 12`."""
    return f"{shown}, {page_name(path, page)}" if page else f"{shown}:{line}"
