"""What does a Word document (.docx) say? Headings by their styles, lists, tables, notes, and pages as Word saw them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from annai.files.formats.markdown import Converted, escape, escape_inline, heading, join, page, table
from annai.files.formats.package import Element, Package, attribute, child, core_properties, descendants, local

MAIN = "word/document.xml"

_HEADING = re.compile(r"(?:heading|見出し|überschrift|titre)\s*(\d)", re.I)
_CODE_STYLE = re.compile(r"code|verbatim|html preformatted|macro", re.I)
_IGNORED = frozenset(("del", "moveFrom", "Fallback", "instrText", "delText", "pPr", "rPr"))


class _Style(NamedTuple):
    level: int = 0
    """Of a heading; 0 for others."""
    list_level: int = -1
    is_code: bool = False


def convert(data: bytes) -> Converted:
    """A Word document as Markdown."""
    package = Package(data)
    name = next((target for kind, target in package.relations("").values() if kind == "officeDocument"), MAIN)
    body = child(package.need(name), "body")
    reader = _Reader(package, name)
    # Only Word knows where its pages end: it notes that when it saves.
    reader.knows_pages = body is not None and next(descendants(body, "lastRenderedPageBreak"), None) is not None
    blocks = [page(1)] if reader.knows_pages else []
    blocks += reader.blocks(body) if body is not None else []
    blocks += reader.notes()
    return Converted(join(_join_items(blocks)), core_properties(package))


class _Reader:
    def __init__(self, package: Package, name: str) -> None:
        self._package = package
        self._relations = package.relations(name)
        self._styles = self._read_styles()
        self._numbered = self._read_numbering()
        self.knows_pages = False
        self._page = 1

    def _part(self, kind: str) -> Element | None:
        name = next((target for each, target in self._relations.values() if each == kind), "")
        return self._package.xml(name) if name else None

    def _read_styles(self) -> dict[str, _Style]:
        root = self._part("styles")
        found: dict[str, _Style] = {}
        for style in descendants(root, "style") if root is not None else ():
            name = attribute(named, "val") if (named := child(style, "name")) is not None else ""
            outline = child(style, "pPr", "outlineLvl")
            match = _HEADING.match(name)
            level = int(match[1]) if match else int(attribute(outline, "val") or 9) + 1 if outline is not None else 0
            level = 1 if name.lower() in ("title", "表題") else level if level <= 9 else 0
            is_list = name.lower().startswith("list ") and "continue" not in name.lower()
            depth = int(name[-1]) - 1 if name[-1:].isdigit() else 0
            found[attribute(style, "styleId")] = _Style(level, depth if is_list else -1, bool(_CODE_STYLE.search(name)))
        return found

    def _read_numbering(self) -> dict[tuple[str, str], bool]:
        """Which levels of which lists are numbered."""
        root = self._part("numbering")
        if root is None:
            return {}
        kinds = {
            (attribute(each, "abstractNumId"), attribute(level, "ilvl")): attribute(kind, "val") != "bullet"
            for each in descendants(root, "abstractNum")
            for level in descendants(each, "lvl")
            if (kind := child(level, "numFmt")) is not None
        }
        found: dict[tuple[str, str], bool] = {}
        for each in descendants(root, "num"):
            base = child(each, "abstractNumId")
            own = attribute(base, "val") if base is not None else ""
            found |= {(attribute(each, "numId"), level): kind for (name, level), kind in kinds.items() if name == own}
        return found

    def blocks(self, container: Element) -> Iterator[str]:
        """The paragraphs and tables in an element."""
        for element in container:
            name = local(element)
            if name == "p":
                before = self._page
                block = self._paragraph(element)
                if self._page != before:
                    yield page(self._page)
                yield block
            elif name == "tbl":
                yield table([*self._rows(element)])
            elif name not in _IGNORED and name != "sectPr":
                yield from self.blocks(element)

    def _rows(self, element: Element) -> Iterator[list[str]]:
        for row in (each for each in element.iter() if local(each) == "tr"):
            cells = [each for each in row if local(each) in ("tc", "sdt")]
            yield [" ".join(self._inline(part) for part in descendants(each, "p")) for each in cells]

    def _paragraph(self, element: Element) -> str:
        own = child(element, "pPr")
        named = child(own, "pStyle")
        style = self._styles.get(attribute(named, "val") if named is not None else "", _Style())
        text = self._inline(element).strip()
        outline = child(own, "outlineLvl")
        level = int(attribute(outline, "val") or 9) + 1 if outline is not None else style.level
        if not text or 1 <= level <= 9:
            return heading(level, text.replace("\\", "")) if text else ""
        if style.is_code:
            return f"\0code{text}"
        numbering = child(own, "numPr")
        number, depth = child(numbering, "numId"), child(numbering, "ilvl")
        if numbering is None and style.list_level < 0:
            return escape(text) if "](" not in text else text
        at = attribute(depth, "val") if depth is not None else "0"
        is_numbered = self._numbered.get((attribute(number, "val"), at), False) if number is not None else False
        indent = "   " * min(int(at) if at.isdigit() else 0, 8) if numbering is not None else "   " * style.list_level
        return f"{indent}{'1.' if is_numbered else '-'} {text}"

    def _inline(self, element: Element) -> str:
        """The text in an element, with its links; page ends are counted."""
        parts: list[str] = []
        for each in element:
            name = local(each)
            if name == "t":
                parts.append(escape_inline(each.text or ""))
            elif name in ("tab", "br", "cr"):
                parts.append(" " if name == "tab" else "\n")
            elif name == "noBreakHyphen":
                parts.append("-")
            elif name == "lastRenderedPageBreak":
                self._page += 1
            elif name == "hyperlink":
                parts.append(self._link(each))
            elif name == "ruby":
                parts += [self._inline(base) for base in each if local(base) == "rubyBase"]
            elif name in ("footnoteReference", "endnoteReference"):
                parts.append(f"[^{name[0]}{attribute(each, 'id')}]")
            elif name not in _IGNORED:
                parts.append(self._inline(each))
        return "".join(parts)

    def _link(self, element: Element) -> str:
        text = self._inline(element)
        _, target = self._relations.get(attribute(element, "id"), ("", ""))
        is_web = target.startswith(("http://", "https://", "mailto:")) and not re.search(r"[\s()<>]", target)
        return f"[{text}]({target})" if is_web and text.strip() and "[" not in text else text

    def notes(self) -> Iterator[str]:
        """The footnotes and endnotes."""
        for kind in ("footnotes", "endnotes"):
            root = self._part(kind)
            for note in root if root is not None else ():
                if attribute(note, "type") in ("", "normal"):
                    text = " ".join(self._inline(each).strip() for each in descendants(note, "p"))
                    yield f"[^{kind[0]}{attribute(note, 'id')}]: {text.strip()}"


def _join_items(blocks: list[str]) -> list[str]:
    """Blocks, with the items of a list on lines after one another, and lines of code in one fence."""
    from annai.files.formats.markdown import code

    result: list[str] = []
    is_item, lines = False, list[str]()
    for block in (*(each for each in blocks if each), ""):
        if block.startswith("\0code"):
            lines.append(block.removeprefix("\0code").replace("\\", ""))
            continue
        if lines:
            result.append(code("\n".join(lines)))
            lines, is_item = [], False
        begins = bool(re.match(r" *(?:- |1\. )", block))
        if begins and is_item:
            result[-1] += f"\n{block}"
        else:
            result.append(block)
        is_item = begins
    return result
