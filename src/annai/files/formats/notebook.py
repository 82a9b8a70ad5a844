"""What does a Jupyter notebook say? Its texts and its code, and of the results only what is text."""

from annai.files.formats.markdown import ConversionError, Converted, code, join, properties
from annai.text.nesting import parse_json

MAX_OUTPUT_CHARACTERS = 2_000
"""Of a longer result only the beginning is read: it is data, not text."""


def convert(data: bytes) -> Converted:
    """A notebook as Markdown."""
    try:
        notebook = parse_json(data)
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        metadata = notebook.get("metadata") or {}
        language = str((metadata.get("kernelspec") or {}).get("language") or "python")
        blocks = [block for cell in cells for block in _blocks(cell, language)]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ConversionError("it is broken: not a notebook") from error
    authors = [str(each.get("name", "")) for each in metadata.get("authors") or () if isinstance(each, dict)]
    title = metadata.get("title")
    return Converted(join(blocks), properties(title=title if isinstance(title, str) else "", author=authors))


def _blocks(cell: dict[str, object], language: str) -> list[str]:
    source = _text(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") != "code":
        return [source]
    outputs = cell.get("outputs")
    results = [text for each in (outputs if isinstance(outputs, list) else []) if (text := _output(each).strip())]
    blocks = [code(source, language)] if source.strip() else []
    return [*blocks, *(code(text[:MAX_OUTPUT_CHARACTERS], "text") for text in results)]


def _output(output: dict[str, object]) -> str:
    """The text of a result; a picture or a table for a browser has another form for readers, or none."""
    data = output.get("data")
    return _text(output.get("text") or (data.get("text/plain") if isinstance(data, dict) else "") or "")


def _text(source: object) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source)
