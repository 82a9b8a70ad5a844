"""What does an OpenDocument file (.odt, .odp, .ods) say? Headings, paragraphs, lists, tables, notes and slides."""

from collections.abc import Iterator

from annai.files.formats.markdown import (
    ConversionError,
    Converted,
    code,
    escape_inline,
    escape_lines,
    heading,
    join,
    properties,
    table,
)
from annai.files.formats.markdown import page as page_mark
from annai.files.formats.package import Element, Package, attribute, child, descendants, local, text_of

MAX_REPEATED = 200
"""A cell that is repeated more often only fills the sheet."""

_SKIPPED = frozenset(
    "tracked-changes annotation annotation-end forms sequence-decls table-of-content alphabetical-index ruby-text "
    "variable-decls user-field-decls dde-connection-decls binary-data".split()
)


def convert(data: bytes) -> Converted:
    """An OpenDocument file as Markdown."""
    package = Package(data)
    if b"encryption-data" in package.read("META-INF/manifest.xml"):
        raise ConversionError("it is encrypted; save it without a password to index it")
    root = package.need("content.xml")
    reader = _Reader(root)
    body = child(root, "body")
    blocks = [block for part in (body if body is not None else ()) for block in reader.blocks(part)]
    meta = package.xml("meta.xml")
    known = child(meta, "meta") if meta is not None else None
    named = [(local(each), text_of(each).strip()) for each in (known if known is not None else ())]
    values = dict(reversed(named))
    return Converted(
        join(blocks),
        properties(
            title=values.get("title"),
            author=values.get("initial-creator") or values.get("creator"),
            subject=values.get("subject"),
            tags=[text for name, text in named if name == "keyword"],
            created=values.get("creation-date"),
            modified=values.get("date"),
            description=values.get("description"),
        ),
    )


class _Reader:
    def __init__(self, root: Element) -> None:
        self._slides = 0
        styles = [*descendants(root, "style")]
        self._parents = {attribute(each, "name"): attribute(each, "parent-style-name") for each in styles}

    def blocks(self, container: Element) -> Iterator[str]:
        """The blocks in an element."""
        lines: list[str] = []
        for element in container:
            name = local(element)
            if name == "p" and self._is_code(element):
                lines.append(self._inline(element).replace("\\", ""))
                continue
            if lines:
                yield code("\n".join(lines))
                lines = []
            yield from self._block(element, name)
        if lines:
            yield code("\n".join(lines))

    def _block(self, element: Element, name: str) -> Iterator[str]:
        if name == "h":
            level = attribute(element, "outline-level")
            yield heading(int(level) if level.isdigit() else 1, self._inline(element).replace("\\", ""))
        elif name == "p":
            text = self._inline(element)
            yield heading(1, text) if self._style(element) == "Title" else escape_lines(text)
            # What is anchored in a paragraph: text boxes.
            for box in descendants(element, "text-box"):
                yield from self.blocks(box)
        elif name == "list":
            yield "\n".join(self._items(element, 0))
        elif name == "table":
            if local_name := attribute(element, "name") if self._is_sheet(element) else "":
                yield heading(2, local_name)
            yield table([*self._rows(element)])
        elif name == "page":
            self._slides += 1
            yield page_mark(self._slides, "slide")
            yield from self._slide(element)
        elif name not in _SKIPPED:
            yield from self.blocks(element)

    def _slide(self, element: Element) -> Iterator[str]:
        frames = [each for each in element if attribute(each, "class") in ("title",)]
        title = " ".join(text for frame in frames for each in descendants(frame, "p") if (text := self._inline(each)))
        yield heading(2, title or f"Slide {self._slides}")
        for each in element:
            if each in frames:
                continue
            if local(each) == "notes":
                notes = [self._inline(part) for part in descendants(each, "p")]
                yield f"Notes: {text}" if (text := "\n".join(filter(str.strip, notes))) else ""
            else:
                yield from self._block(each, local(each))

    def _is_sheet(self, element: Element) -> bool:
        return bool(attribute(element, "name")) and not attribute(element, "name").startswith("Table")

    def _style(self, element: Element) -> str:
        name = attribute(element, "style-name")
        return self._parents.get(name) or name

    def _is_code(self, element: Element) -> bool:
        return self._style(element) in ("Preformatted_20_Text", "Source_20_Code")

    def _items(self, element: Element, depth: int) -> Iterator[str]:
        for item in element:
            is_first = True
            for part in item:
                if local(part) == "list":
                    yield from self._items(part, depth + 1)
                elif local(part) in ("p", "h") and (text := self._inline(part)):
                    yield "   " * depth + ("- " if is_first else "  ") + text
                    is_first = False

    def _rows(self, element: Element) -> Iterator[list[str]]:
        for row in descendants(element, "table-row"):
            cells: list[str] = []
            for each in row:
                if local(each) not in ("table-cell", "covered-table-cell"):
                    continue
                text = " ".join(self._inline(part) for part in descendants(each, "p"))
                count = attribute(each, "number-columns-repeated")
                times = int(count) if count.isdigit() and len(count) < 6 else 1
                cells += [text] * (times if times <= MAX_REPEATED else 1)
            if any(cells):
                yield cells

    def _inline(self, element: Element) -> str:
        """The text in an element, with its links and notes."""
        parts = [escape_inline(element.text or "")]
        for each in element:
            name = local(each)
            if name == "s":
                count = attribute(each, "c")
                parts.append(" " * (int(count) if count.isdigit() and len(count) < 4 else 1))
            elif name in ("tab", "line-break"):
                parts.append(" " if name == "tab" else "\n")
            elif name == "note":
                parts.append(f" ({self._note(each)})")
            elif name == "a" and attribute(each, "href").startswith(("http://", "https://", "mailto:")):
                text, target = self._inline(each), attribute(each, "href")
                is_plain = "[" not in text and not any(sign in target for sign in " ()<>")
                parts.append(f"[{text}]({target})" if is_plain and text.strip() else text)
            elif name not in _SKIPPED and name != "text-box":
                parts.append(self._inline(each))
            parts.append(escape_inline(each.tail or ""))
        return "".join(parts)

    def _note(self, element: Element) -> str:
        return " ".join(self._inline(each) for each in descendants(element, "p"))
