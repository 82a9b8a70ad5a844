"""What does a book (.epub) say? Its chapters in their order."""

from urllib.parse import unquote

from annai.files.formats.html import convert as convert_html
from annai.files.formats.markdown import ConversionError, Converted, join, properties
from annai.files.formats.package import Package, descendants, local, resolve, text_of


def convert(data: bytes) -> Converted:
    """A book as Markdown."""
    package = Package(data)
    # A book that only hides its fonts has no rights, and can be read.
    if {"META-INF/encryption.xml", "META-INF/rights.xml"} <= package.names:
        raise ConversionError("it is encrypted: its text can be read with its seller's program only")
    root = next(descendants(package.need("META-INF/container.xml"), "rootfile"), None)
    name = root.get("full-path", "") if root is not None else ""
    book = package.need(name)
    folder = name.rpartition("/")[0]
    items = {each.get("id", ""): each for each in descendants(book, "item")}
    blocks: list[str] = []
    for reference in descendants(book, "itemref"):
        item = items.get(reference.get("idref", ""))
        is_text = item is not None and "html" in item.get("media-type", "")
        if item is None or not is_text or "nav" in item.get("properties", "").split():
            continue
        chapter = package.read(resolve(folder, unquote(item.get("href", ""))))
        blocks.append(convert_html(chapter).text if chapter else "")
    metadata = next(descendants(book, "metadata"), None)
    named = [(local(each), text_of(each).strip()) for each in (metadata if metadata is not None else ())]

    def first(wanted: str) -> str:
        return next((text for name, text in named if name == wanted), "")

    values = properties(
        title=first("title"),
        author=[text for name, text in named if name == "creator"],
        tags=[text for name, text in named if name == "subject"],
        created=first("date"),
    )
    return Converted(join(blocks), values)
