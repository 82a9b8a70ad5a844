"""Which texts is a passage found by? Its title, its headings, its path and its body, each with its weight."""

from functools import lru_cache
from pathlib import PurePosixPath

from annai.definitions import dataclass, lazy_pattern
from annai.text.readable import readable
from annai.types import Document, Section

FIELD_NAMES = ("title", "headings", "path", "body")
"""The fields of a passage, in the order in which every store packs its counts."""

FRONT_MATTER_KEYS = ("description", "summary", "keywords", "tags", "categories", "aliases")
"""What pages commonly say about themselves; it counts with the headings."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The texts of one passage, field by field."""

    title: str
    headings: str
    path: str
    body: str


@dataclass(frozen=True, slots=True)
class FieldWeights:
    """How much a word counts in each field."""

    title: float = 1.0
    headings: float = 1.0
    path: float = 1.0
    body: float = 1.0


FIELD_WEIGHTS = FieldWeights(title=3.0, headings=1.0, path=3.0, body=1.0)
"""Title and file name tell what a text is about. The same in keywords and in vectors; half or twice works as well."""


MAX_FIELD_SHARE = 0.3
"""In a vector, title and path each count at most this share of the body's length: a short text is not its title."""


def passage_fields(document: Document, passage: Section) -> Fields:
    """The texts of a passage of a document; no text is in two fields, so that the weights are what they seem."""
    headings = [heading for heading in passage.heading_path if heading != document.title]
    about = [_text(document.front_matter.get(key)) for key in FRONT_MATTER_KEYS]
    return Fields(
        title=document.title,
        headings="\n".join((*headings, *filter(None, about))),
        path=_without_suffix(document.path),
        body=_without_heading(readable(document.text, document.format)[passage.start : passage.end], passage),
    )


@lru_cache(maxsize=2)  # the passages of a document are asked for one after another
def meaningful_path(path: str) -> str:
    """The words of a path that tell what a file is about: no numbers, and nothing as short as an abbreviation."""
    return _MEANINGLESS.sub(" ", path)


_MEANINGLESS = lazy_pattern(r"\d+|(?<![A-Za-z])[A-Za-z]{1,2}(?![A-Za-z])")


@lru_cache(maxsize=2)  # as above
def _without_suffix(path: str) -> str:
    return str(PurePosixPath(path).with_suffix(""))


def _without_heading(text: str, passage: Section) -> str:
    """A passage's text without the heading it begins with, if there is more to it."""
    first, _, rest = text.lstrip().partition("\n")
    known = (passage.heading, *passage.heading_path[-1:])
    return rest if rest.strip() and first.strip("#= \t\r") in known else text


def _text(value: object) -> str:
    """A value of the front matter as text: a string, or a list of strings."""
    if isinstance(value, list):
        return "\n".join(_text(each) for each in value)
    return value if isinstance(value, str) else ""
