"""How is Markdown written that says exactly what another file says? Text that cannot become markup, tables, pages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from annai.definitions import dataclass
from annai.files.pages import page_marker

MAX_LEVEL = 6

MAX_PROPERTY_CHARACTERS, MAX_PROPERTIES = 10_000, 500
"""Of what a document says about itself, this much of a text and of a list is read: no abstract and no list of authors
is longer, and unlike the document's text nothing else bounds it."""


class ConversionError(Exception):
    """A file cannot be converted; the message says why, as the end of a sentence about the file."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A file as Markdown, and what it says about itself."""

    text: str
    values: Mapping[str, object] = field(default_factory=dict)
    """As front matter would say it: `title`, `author`, `date`, `tags` …; only values that JSON can hold."""


_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|\{(?=[{%#./:*])|\\(?=[!-/:-@\[-`{-~])")
# What would make a line a heading, a rule, a quote, a fence or a link definition; a list is as good as its text.
_LINE_MARKUP = re.compile(r"^(?=#{1,6}(?:\s|$)|[-=*_+][-=*_ ]*$|>|`{3}|~{3}|\[[^\[\]]+\]:)", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_MODULE_LINE = re.compile(r"^(?=(?:import|export)\s)", re.MULTILINE)


def escape(text: str) -> str:
    """A paragraph of text: what looks like a tag, a template call or the beginning of a block is only text."""
    return escape_lines(escape_inline(text))


def escape_inline(text: str) -> str:
    """A part of a paragraph, without tags and template calls."""
    return _MARKUP.sub(r"\\\g<0>", text)


def escape_lines(paragraph: str) -> str:
    """A paragraph whose parts are escaped already: no line of it begins another block."""
    return _MODULE_LINE.sub(" ", _LINE_MARKUP.sub(r"\\", _INDENT.sub("", paragraph)))


def heading(level: int, text: str) -> str:
    """A heading, on a line of its own; empty without text."""
    words = " ".join(text.split())
    return f"{'#' * max(1, min(level, MAX_LEVEL))} {escape(words)}" if words else ""


def code(text: str, language: str = "") -> str:
    """A block of code, whatever backticks are in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table of escaped cells whose first row is its head; empty rows and columns at the end are left out."""
    kept = [[" ".join(each.split()).replace("|", "\\|") for each in row] for row in rows]
    while kept and not any(kept[-1]):
        kept.pop()
    width = max((max((at + 1 for at, each in enumerate(row) if each), default=0) for row in kept), default=0)
    if not width:
        return ""
    lines = ["| " + " | ".join([*row, *[""] * width][:width]) + " |" for row in kept]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def join(blocks: Sequence[str]) -> str:
    """Blocks with a blank line between them."""
    text = "\n\n".join(each.strip("\n") for each in blocks if each.strip())
    return f"{text}\n" if text else ""


def page(number: int, unit: str = "page") -> str:
    """The mark before what stands on a page."""
    return page_marker(number, unit)


def properties(
    *,
    title: str | None = "",
    author: Sequence[str] | str | None = "",
    subject: str | None = "",
    tags: Sequence[str] | str | None = "",
    created: str | None = "",
    modified: str | None = "",
    description: str | None = "",
) -> dict[str, object]:
    """What a document says about itself, under the names that front matter uses; what is empty is left out.

    `date` is when it was created; ISO 8601 as far as the file has it so.
    """
    authors = [author] if isinstance(author, str) else [*(author or ())]
    keywords = re.split(r"[,;、，]", tags[:MAX_PROPERTY_CHARACTERS]) if isinstance(tags, str) else [*(tags or ())]
    people = [name for each in authors[:MAX_PROPERTIES] if (name := one_line(each))]
    values: dict[str, object] = {
        "title": one_line(title or ""),
        "author": people[0] if len(people) == 1 else people,
        "date": one_line(created or ""),
        "updated": one_line(modified or ""),
        "subject": one_line(subject or ""),
        "description": one_line(description or ""),
        "tags": [word for each in keywords[:MAX_PROPERTIES] if (word := one_line(each))],
    }
    return {name: value for name, value in values.items() if value}


def one_line(text: str) -> str:
    """The text of a property: its words, as far as they are read."""
    return " ".join(text[:MAX_PROPERTY_CHARACTERS].split())
