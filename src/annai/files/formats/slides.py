"""What do slides (.pptx) say? Each slide with its title, its text, its tables and the speaker's notes."""

from collections.abc import Iterator

from annai.files.formats.markdown import ConversionError, Converted, escape, heading, join, page, table
from annai.files.formats.package import Element, Package, attribute, child, core_properties, descendants, local

_TITLES = ("title", "ctrTitle")
_FRAME = ("dt", "ftr", "sldNum", "hdr")
"""Placeholders that say the same on every slide."""


def convert(data: bytes) -> Converted:
    """A presentation as Markdown."""
    package = Package(data)
    name = next((t for kind, t in package.relations("").values() if kind == "officeDocument"), "ppt/presentation.xml")
    relations = package.relations(name)
    blocks: list[str] = []
    for number, each in enumerate(descendants(package.need(name), "sldId"), 1):
        # It has an id of its own besides the relation's.
        reference = next((value for key, value in each.attrib.items() if key.endswith("}id")), "")
        kind, target = relations.get(reference, ("", ""))
        slide = package.xml(target) if kind == "slide" else None
        if slide is None:
            raise ConversionError(f"it is broken: it has no slide {number}")
        blocks += [page(number, "slide"), *_slide(slide, number), *_notes(package, target)]
    return Converted(join(blocks), core_properties(package))


def _slide(slide: Element, number: int) -> Iterator[str]:
    shapes = [each for each in slide.iter() if local(each) in ("sp", "graphicFrame")]
    title = next((each for each in shapes if _placeholder(each) in _TITLES), None)
    yield heading(2, " ".join(_paragraphs(title)) if title is not None else "") or heading(2, f"Slide {number}")
    for shape in shapes:
        if shape is title or _placeholder(shape) in _FRAME:
            continue
        for each in descendants(shape, "tbl"):
            yield table(
                [
                    [" ".join(_paragraphs(cell)) for cell in row if local(cell) == "tc"]
                    for row in each
                    if local(row) == "tr"
                ]
            )
        if local(shape) == "sp":
            yield _text(shape)
        else:
            # A diagram or a chart; what a table says was said.
            yield join([*_paragraphs(shape)]) if next(descendants(shape, "tbl"), None) is None else ""


def _placeholder(shape: Element) -> str:
    found = next(descendants(shape, "ph"), None)
    return (attribute(found, "type") or "body") if found is not None else ""


def _text(shape: Element) -> str:
    """A shape's text; of several paragraphs in a placeholder each is an item of a list."""
    paragraphs = [*_items(shape)]
    if _placeholder(shape) == "body" or len(paragraphs) > 1:
        return "\n".join(f"{'   ' * level}- {text}" for level, text in paragraphs)
    return join([escape(text) for _, text in paragraphs])


def _items(shape: Element) -> Iterator[tuple[int, str]]:
    for paragraph in descendants(shape, "p"):
        own = child(paragraph, "pPr")
        level = attribute(own, "lvl") if own is not None else ""
        if text := _line(paragraph):
            yield int(level) if level.isdigit() else 0, text


def _paragraphs(element: Element) -> Iterator[str]:
    return (text for each in descendants(element, "p") if (text := _line(each)))


def _line(paragraph: Element) -> str:
    from annai.files.formats.markdown import escape_inline

    parts = [each.text or "" if local(each) == "t" else " " if local(each) == "br" else "" for each in paragraph.iter()]
    return escape_inline(" ".join("".join(parts).split()))


def _notes(package: Package, target: str) -> Iterator[str]:
    name = next((name for kind, name in package.relations(target).values() if kind == "notesSlide"), "")
    root = package.xml(name) if name else None
    for shape in descendants(root, "sp") if root is not None else ():
        if _placeholder(shape) == "body" and (text := "\n".join(_paragraphs(shape))):
            yield f"Notes: {text}"
