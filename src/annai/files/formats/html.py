"""What does a web page say? Its headings, paragraphs, lists, tables, code and links, and nothing that runs."""

import codecs
import re
from html.parser import HTMLParser

from annai.errors import SkippedFile
from annai.files.encoding import decode
from annai.files.formats.markdown import (
    ConversionError,
    Converted,
    code,
    escape_inline,
    escape_lines,
    join,
    properties,
    table,
)

_HIDDEN = frozenset(
    "script style template noscript iframe object svg math select textarea button canvas audio video head nav".split()
)
"""Elements that are no text to read; of the head, the title and what it says about the page are."""

_FRAME = frozenset("header footer aside".split())
"""Elements around the text, unless they are in an article of it."""

_BLOCKS = frozenset(
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form "
    "header hgroup hr html legend li main ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CODE = frozenset("code kbd samp tt".split())
_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w:.-]+)|<\?xml[^>]+encoding\s*=\s*["']([\w:.-]+)""", re.I)
_LANGUAGE = re.compile(r"(?:language|lang|highlight-source|highlight|brush:)[-_ ]?([A-Za-z0-9+#]+)")
_ANCHOR_SIGNS = "¶#§🔗"
_SPACES = re.compile(r"[ \t\r\n\f]+")

MAX_DEPTH = 500
"""Pages nested more deeply were not written by anybody."""


def convert(data: bytes) -> Converted:
    """A web page as Markdown: its main part, where it says which that is."""
    return convert_text(decode_page(data))


def convert_text(text: str) -> Converted:
    """The same for a text that is decoded already."""
    text = _without_open_ends(text)
    reader = _Reader("<main" in text.lower() or 'role="main"' in text)
    reader.feed(text)
    reader.close()
    result = reader.finish()
    if reader.main_only and not result.strip():
        reader = _Reader(main_only=False)
        reader.feed(text)
        reader.close()
        result = reader.finish()
    meta = reader.meta
    return Converted(
        result,
        properties(
            title=_SPACES.sub(" ", reader.title),
            author=meta.get("author"),
            description=meta.get("description"),
            tags=meta.get("keywords"),
            created=meta.get("date") or meta.get("dcterms.date") or meta.get("article:published_time"),
            modified=meta.get("article:modified_time") or meta.get("last-modified"),
        ),
    )


def decode_page(data: bytes) -> str:
    """The text of a page in the encoding that it names, or else in the one that it looks like."""
    declared = _CHARSET.search(data[:4096])
    if declared and not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = (declared[1] or declared[2]).decode("ascii").lower()
        # Pages that name Shift_JIS or ISO-8859-1 use the characters that Windows added to them.
        name = {"shift_jis": "cp932", "x-sjis": "cp932", "iso-8859-1": "cp1252", "us-ascii": "utf-8"}.get(name, name)
        try:
            return data.decode(name)
        except (LookupError, UnicodeError, ValueError):
            pass  # It lies: what follows finds out.
    try:
        return decode(data)
    except SkippedFile as error:
        raise ConversionError(str(error)) from error


def _without_open_ends(text: str) -> str:
    """The page with what begins a tag, a comment or a section as text, where no end of it follows.

    Python's parser looks for the end of each as far as the page goes.
    """
    comments, tags = text.rfind("-->") + 1, text.rfind(">") + 1
    parts = text[:comments], text[comments:tags].replace("<!--", "&lt;!--"), text[tags:].replace("<", "&lt;")
    return "".join(parts).replace("<![", "<! [")


class _Reader(HTMLParser):
    """Collects the blocks of a page."""

    def __init__(self, main_only: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.main_only = main_only
        self.title = ""
        self.meta: dict[str, str] = {}
        self._blocks: list[str] = []
        self._inline: list[str] = []
        self._open: list[str] = []
        """Elements that are open, innermost last."""
        self._hidden = 0
        """How many of them hide their text."""
        self._main = 0
        self._lists: list[int] = []
        """For each open list, the number of its next item; 0 for one without numbers."""
        self._item = ""
        """What stands before the next paragraph: the mark of a list item."""
        self._quotes = 0
        self._tables: list[list[list[str]]] = []
        self._pre: list[str] | None = None
        self._pre_language = ""
        self._links: list[tuple[int, str]] = []
        """For each open link, where its text begins among the parts of the paragraph, and where it leads."""

    def finish(self) -> str:
        """The page as Markdown."""
        self._flush()
        return join(self._blocks)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag in _VOID:
            self._void(tag, attributes)
            return
        if tag == "p" and "p" in self._open[-1:]:
            self.handle_endtag("p")
        if tag == "li" and self._open and "li" in self._open and self._closes("li", ("ul", "ol")):
            self.handle_endtag("li")
        if tag in ("td", "th", "tr"):
            for each in ("td", "th") if tag != "tr" else ("td", "th", "tr"):
                if each in self._open and self._closes(each, ("table",)):
                    self.handle_endtag(each)
        if len(self._open) >= MAX_DEPTH:
            raise ConversionError("its elements are nested too deeply")
        self._open.append(tag)
        if self._hides(tag, attributes):
            self._hidden += 1
            return
        if tag == "main" or attributes.get("role") == "main":
            self._main += 1
            self._open[-1] = "main:" + tag
        if not self._hidden:
            self._start(tag, attributes)

    def _hides(self, tag: str, attributes: dict[str, str]) -> bool:
        is_hidden = (
            tag in _HIDDEN
            or "hidden" in attributes
            or attributes.get("aria-hidden") == "true"
            or attributes.get("role") in ("navigation", "search", "banner", "contentinfo")
            or (tag in _FRAME and "article" not in self._open and not self._main)
        )
        if is_hidden:
            self._open[-1] = "hidden:" + tag
        return is_hidden

    def _closes(self, tag: str, containers: tuple[str, ...]) -> bool:
        """Whether an element is open within the innermost of these containers."""
        for each in reversed(self._open):
            name = each.rpartition(":")[2]
            if name == tag:
                return True
            if name in containers:
                return False
        return False

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _BLOCKS or tag in _HEADINGS:
            self._flush()
        if tag in ("ul", "ol"):
            start = attributes.get("start", "1")
            self._lists.append(0 if tag == "ul" else int(start) if start.isdecimal() and len(start) < 10 else 1)
        elif tag == "li":
            self._item = self._mark_item()
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "table":
            self._tables.append([])
        elif tag == "tr" and self._tables:
            self._tables[-1].append([])
        elif tag == "pre":
            self._pre, self._pre_language = [], _language(attributes)
        elif tag == "code" and self._pre is not None:
            self._pre_language = self._pre_language or _language(attributes)
        elif tag == "a":
            self._links.append((len(self._inline), _safe_target(attributes.get("href", ""))))

    def _mark_item(self) -> str:
        depth = max(len(self._lists), 1)
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        return "   " * (depth - 1) + (f"{number}. " if number else "- ")

    def _void(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "meta":
            name = (attributes.get("name") or attributes.get("property") or attributes.get("itemprop") or "").lower()
            if name and attributes.get("content"):
                self.meta.setdefault(name, attributes["content"])
        elif self._hidden or not self._is_read():
            return
        elif tag == "br":
            self._inline.append("\n" if self._pre is None else "")
            if self._pre is not None:
                self._pre.append("\n")
        elif tag == "hr":
            self._flush()
        elif tag == "img" and (text := attributes.get("alt", "").strip()):
            self._inline.append(text)

    def handle_endtag(self, tag: str) -> None:
        names = [each.rpartition(":")[2] for each in self._open]
        if tag not in names:
            return
        while self._open:
            last = self._open.pop()
            kind, _, name = last.rpartition(":")
            if kind == "hidden":
                self._hidden -= 1
            elif not self._hidden:
                self._end(name)
            if kind == "main":
                self._main -= 1
            if name == tag:
                break

    def _end(self, tag: str) -> None:  # noqa: PLR0912 - one branch for each element
        if tag in _HEADINGS:
            text = " ".join(self._text().split()).rstrip(_ANCHOR_SIGNS + " ")
            self._add(f"{'#' * _HEADINGS[tag]} {text}" if text else "")
        elif tag == "pre" and self._pre is not None:
            block, self._pre = "".join(self._pre).strip("\n"), None
            self._inline = []
            if block.strip():
                self._add(code(block, self._pre_language))
        elif tag in ("td", "th") and self._tables:
            if self._tables[-1]:
                self._tables[-1][-1].append(self._text())
        elif tag == "table" and self._tables:
            rows = self._tables.pop()
            # A table within a table is only layout, and so is one of a single row or column.
            is_table = len(rows) > 1 and max(map(len, rows)) > 1
            text = table(rows) if is_table else join([escape_lines(" ".join(row)) for row in rows])
            if self._tables:
                self._inline.append(" ".join(" ".join(row) for row in rows))
            else:
                self._add(text)
        elif tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif tag in _CODE and self._pre is None and self._inline and not self._links:
            last = self._inline[-1]
            if last.strip() and "`" not in last:
                self._inline[-1] = f"`{last.strip()}`"
        elif tag in ("ul", "ol"):
            self._flush()
            if self._lists:
                self._lists.pop()
            self._item = ""
        elif tag == "blockquote":
            self._flush()
            self._quotes = max(self._quotes - 1, 0)
        elif tag == "dt":
            text = self._text()
            self._add(f"**{text}**" if text and "*" not in text else text)
        elif tag in _BLOCKS:
            self._flush()

    def _end_link(self, start: int, target: str) -> None:
        text = "".join(self._inline[start:]).strip()
        if text.strip(_ANCHOR_SIGNS) == "":
            del self._inline[start:]
        elif target and "\n" not in text and "[" not in text and "]" not in text:
            self._inline[start:] = [f"[{text}]({target})"]

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1].endswith("title") and "hidden:head" in self._open:
            self.title += data
        if self._hidden or not self._is_read():
            return
        if self._pre is not None:
            self._pre.append(data)
        else:
            is_code = any(each in _CODE for each in self._open)
            text = _SPACES.sub(" ", data)
            self._inline.append(text if is_code and "`" not in text and not self._links else escape_inline(text))

    def _is_read(self) -> bool:
        return not self.main_only or self._main > 0

    def _text(self) -> str:
        """The text since the last block, on as many lines as it has breaks."""
        text, self._inline = "".join(self._inline), []
        self._links = [(0, target) for _, target in self._links]
        lines = (" ".join(line.split(" ")).strip() for line in re.sub(" {2,}", " ", text).split("\n"))
        return "\n".join(lines).strip()

    def _flush(self) -> None:
        if self._tables and self._tables[-1] and any(each in ("td", "th") for each in self._open):
            self._inline.append(" ")
            return
        if text := self._text():
            self._add(escape_lines(text))

    def _add(self, block: str) -> None:
        if not block.strip() or not (self._is_read() or self._main):
            return
        if self._item or self._lists:
            depth = 3 * max(len(self._lists) - (1 if self._item else 0), 0)
            first, *rest = block.split("\n")
            indent = " " * max(depth, 3)
            lead = self._item or indent
            self._item = ""
            block = "\n".join([lead + first, *(f"{indent}{each}" if each else "" for each in rest)])
        if self._quotes:
            block = "\n".join(f"> {each}".rstrip() for each in block.split("\n"))
        is_item = block.lstrip().startswith(("- ",)) or re.match(r" *\d+\. ", block)
        was_item = self._blocks and re.match(r" *(?:- |\d+\. )", self._blocks[-1].rpartition("\n")[2])
        if is_item and was_item and self._lists:
            self._blocks[-1] += f"\n{block}"
        else:
            self._blocks.append(block)


def _safe_target(target: str) -> str:
    """Where a link leads, if it leads to another page and no script."""
    target = re.sub(r"[\s()<>]", "", target)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", target)
    return "" if target.startswith("#") or (scheme and scheme[1].lower() not in ("http", "https", "mailto")) else target


def _language(attributes: dict[str, str]) -> str:
    match = _LANGUAGE.search(attributes.get("class", ""))
    return match[1].lower() if match else ""
