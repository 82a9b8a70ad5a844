"""How does a document become a page? As HTML that can be read and does nothing else.

Documents are hostile: whatever they hold, no script runs, no form sends and nothing is loaded from another host.
"""

import functools
import posixpath
import re
from collections.abc import Callable, Collection, Sequence
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlencode, urlsplit

from annai.answers import breadcrumbs
from annai.files.pages import shown_pages
from annai.interfaces.render.records import content_json
from annai.text.lines import LINE_END, Lines
from annai.text.outline import outline
from annai.types import Document, Selection, StoredSection

if TYPE_CHECKING:
    from pyromark import Options

MAX_SHOWN_CHARACTERS = 500_000
"""Of a longer document only what is around the line that was asked for is shown, as plain text: browsers give up."""

MAX_CLEANING_STEPS = 200_000_000
"""What makes HTML harmless looks at every open element for each that begins: more of that takes seconds."""

MAX_OUTLINE_DEPTH = 3
"""Headings of this level and above are listed beside the text."""

REMOTE_IMAGE = "remote:"
"""Before the address of an image on another host: the page shows a link in its place."""

IMAGE_TYPES = {
    ".apng": "image/apng",
    ".avif": "image/avif",
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".ico": "image/x-icon",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}

_TAGS = set(
    "a abbr b blockquote br caption cite code col colgroup dd del details dfn div dl dt em figcaption figure h1 h2 h3 "
    "h4 h5 h6 hr i img input ins kbd li mark ol p pre q rp rt ruby s samp small span strong sub summary sup table "
    "tbody td tfoot th thead tr u ul var wbr".split()
)
_ATTRIBUTES = {
    "*": {"data-line", "dir", "lang"},
    "a": {"href", "title"},
    "details": {"open"},
    "img": {"src", "alt", "title", "width", "height"},
    "input": {"checked"},
    "ol": {"start", "reversed"},
    "td": {"align", "colspan", "rowspan"},
    "th": {"align", "colspan", "rowspan", "scope"},
}
_DROPPED_WHOLE = {"script", "style", "template", "noscript", "iframe", "object", "svg", "math", "select", "textarea"}
"""Elements whose content is no text to read."""

_WEB_SCHEMES = {"http", "https", "mailto"}

_SUFFIXES = ("", ".md", ".mdx", ".markdown", ".rst", ".txt", ".org", ".adoc", ".html")
_FOLDER_PAGES = ("index", "README", "_index")
"""The document that a link to a folder means, as the generators of sites have it."""

_LINE_END = re.compile(LINE_END.pattern.encode())

Sign = Callable[[str], str]
"""Makes the key that the address of an image needs."""


def reading_json(place: Selection, documents: Callable[[], Sequence[str]], sign: Sign) -> dict[str, object]:
    """What the page shows of a document: its HTML, its outline, and which lines of it were asked for."""
    document = place.document
    lines = Lines(document.text)
    headings = outline(document.text, document.format, document.body_start).headings
    return {
        **{name: value for name, value in content_json(place).items() if name != "content"},
        "line": place.line,
        "breadcrumbs": breadcrumbs(document.title, place.section.section.heading_path),
        "parent": _neighbour(place.parent) if place.parent else None,
        # Not the text before a section's first subsection, which has no heading of its own.
        "children": [_neighbour(each) for each in place.children if each.section.number[-1:] != (0,)],
        "headings": [
            {"heading": each.text, "depth": each.level, "line": lines.number(each.start)}
            for each in headings
            if each.level <= MAX_OUTLINE_DEPTH
        ],
        "is_excerpt": len(document.text) > MAX_SHOWN_CHARACTERS,
        "html": document_html(document, documents, sign, around=place.span[0]),
    }


def _neighbour(stored: StoredSection) -> dict[str, object]:
    section = stored.section
    return {"id": stored.id, "heading": section.heading or stored.title, "line": section.start_line}


def document_html(document: Document, documents: Callable[[], Sequence[str]], sign: Sign, around: int = 0) -> str:
    """A document's body as HTML; where a block, list item or table row begins, an empty element has its `data-line`.

    `documents` gives the paths of the collection's documents, which relative links may lead to. Of a document that is
    too long, it is the text around a position.
    """
    if document.format != "markdown" or len(document.text) > MAX_SHOWN_CHARACTERS:
        return _lines_html(document.text, around)
    import nh3  # only a server whose page is open needs it
    import pyromark

    paths = functools.cache(lambda: frozenset(documents()))
    body = shown_pages(document.path, document.text[document.body_start :])
    places, opened = _marked_places(body)
    marked = _with_line_marks(body, places, Lines(document.text).number(document.body_start))
    html = pyromark.html(marked, options=_options())
    if opened * html.count("<") > MAX_CLEANING_STEPS:
        return _lines_html(document.text, around)

    def checked(tag: str, attribute: str, value: str) -> str | None:
        if attribute == "data-line":
            return value if value.isdecimal() and len(value) < 10 else None
        if (tag, attribute) == ("a", "href"):
            return _link(document, value, paths)
        if (tag, attribute) == ("img", "src"):
            return _image(document, value, sign)
        return value

    return nh3.clean(
        html,
        tags=_TAGS,
        clean_content_tags=_DROPPED_WHOLE,
        attributes=_ATTRIBUTES,
        attribute_filter=checked,
        set_tag_attribute_values={"a": {"target": "_blank"}, "input": {"type": "checkbox", "disabled": ""}},
        url_schemes=_WEB_SCHEMES,
    )


def _options() -> "Options":
    from pyromark import Options

    return (
        Options.ENABLE_TABLES
        | Options.ENABLE_FOOTNOTES
        | Options.ENABLE_STRIKETHROUGH
        | Options.ENABLE_TASKLISTS
        | Options.ENABLE_HEADING_ATTRIBUTES
        | Options.ENABLE_GFM
    )


def _lines_html(text: str, around: int) -> str:
    """A text line by line as it is; of one that is too long, what is around a position."""
    begin = max(min(around - MAX_SHOWN_CHARACTERS // 2, len(text) - MAX_SHOWN_CHARACTERS), 0)
    lines = LINE_END.split(text[begin : begin + MAX_SHOWN_CHARACTERS])
    first = Lines(text).number(begin)
    rows = (f'<span data-line="{number}">{escape(line)}</span>\n' for number, line in enumerate(lines, first))
    return f"<pre>{''.join(rows)}</pre>"


def _with_line_marks(body: str, places: set[tuple[int, bool]], first_line: int) -> str:
    """Markdown with a mark where each block, list item and table row begins; nothing else of it changes."""
    data = body.encode()
    starts = [0, *(match.end() for match in _LINE_END.finditer(data))]
    parts, at, line = [], 0, 0
    for position, is_block in sorted(places):
        while line + 1 < len(starts) and starts[line + 1] <= position:
            line += 1
        if is_block:
            cut, mark = starts[line], '\n\n<div data-line="{}"></div>\n\n'
        else:
            # What begins with an escaped character begins before the backslash.
            cut, mark = position - (data[position - 1 : position] == b"\\"), '<i data-line="{}"></i>'
        parts += [data[at:cut], mark.format(first_line + line).encode()]
        at = cut
    return b"".join([*parts, data[at:]]).decode()


def _marked_places(body: str) -> tuple[set[tuple[int, bool]], int]:
    """Where marks go, and how many elements of its HTML can be open at once: tags in it may never be closed.

    Marks go, in bytes, to the beginning of each outermost block, and before the text of items and rows.
    """
    import pyromark

    places: set[tuple[int, bool]] = set()
    depth = deepest = tags = 0
    is_waiting = False
    for event, span in pyromark.events_with_range(body, options=_options()):
        kind, what = next(iter(event.items())) if isinstance(event, dict) else (event, "")
        name = next(iter(what)) if isinstance(what, dict) else what
        if depth == 0 and kind in ("Start", "Rule"):
            places.add((span["start"], True))
        if kind == "Start" and name in ("Item", "TableRow"):
            is_waiting = True
        elif is_waiting and not (kind == "TaskListMarker" or (kind == "Start" and name in ("Paragraph", "TableCell"))):
            is_inline = kind in ("Text", "Code") or (kind == "Start" and name in ("Emphasis", "Strong", "Link"))
            if is_inline:
                places.add((span["start"], False))
            is_waiting = False
        depth += {"Start": 1, "End": -1}.get(kind, 0)
        deepest = max(deepest, depth)
        tags += str(what).count("<") if kind in ("Html", "InlineHtml") else 0
    return places, deepest + tags


def _link(document: Document, href: str, documents: Callable[[], Collection[str]]) -> str | None:
    """Where a link leads: to the web, to a document of the collection, or nowhere."""
    address = _split(href)
    if address is None:
        return None
    scheme, path, fragment = address
    if scheme:
        return href
    found = _find(_resolve(document.path, path), documents()) if path else document.path
    if found is None:
        return None
    reference = f"{document.collection}:{found}" + (f"#{fragment}" if fragment else "")
    return "/?" + urlencode({"open": reference}, quote_via=quote)


def _image(document: Document, source: str, sign: Sign) -> str | None:
    """Where an image comes from: from the collection's folder, or it becomes a link."""
    address = _split(source)
    if address is None:
        return None
    scheme, path, _ = address
    if scheme:
        return REMOTE_IMAGE + source if scheme != "mailto" else None
    resolved = _resolve(document.path, path)
    if resolved is None or posixpath.splitext(resolved)[1].lower() not in IMAGE_TYPES:
        return None
    image = f"{document.collection}:{resolved}"
    return "/image?" + urlencode({"at": image, "key": sign(image)}, quote_via=quote)


def _split(address: str) -> tuple[str, str, str] | None:
    """The scheme, path and fragment of a link's address; None for one that must not be followed."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return None
    if parts.scheme:
        leads_somewhere = parts.scheme in _WEB_SCHEMES and (parts.netloc or parts.scheme == "mailto")
        return (parts.scheme, "", "") if leads_somewhere else None
    if parts.netloc or "\\" in address or address.lstrip().startswith("//"):
        return None
    return "", unquote(parts.path), unquote(parts.fragment)


def _resolve(path: str, relative: str) -> str | None:
    """A relative path in the collection's folder; None for one that leads out of it."""
    folder = "" if relative.startswith("/") else posixpath.dirname(path)
    resolved = posixpath.normpath(posixpath.join(folder, relative.lstrip("/") if not folder else relative))
    return None if resolved.startswith("..") or "\0" in resolved else resolved


def _find(path: str | None, documents: Collection[str]) -> str | None:
    """The document that a link to a file, to a page of the site made of it, or to a folder means."""
    if path is None:
        return None
    page = path.removesuffix(".html").removesuffix("/index")
    folders = [posixpath.normpath(posixpath.join(page, name)) for name in _FOLDER_PAGES]
    candidates = [path, *(name + suffix for name in (page, *folders) for suffix in _SUFFIXES)]
    return next((each for each in candidates if each in documents), None)
