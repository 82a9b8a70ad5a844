"""How is a place in a document written? As annai prints it: `path:44`, `path#1.2`, an id, an `annai://` address.

It is needed where a command starts, so it loads nothing that searches.
"""

import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from annai.definitions import lazy_pattern
from annai.state import as_stored, here

SCHEME = "annai://"
"""An address that means the same to every program: `annai://COLLECTION/PATH`, percent-encoded."""

FILE_SCHEME = "file://"

_LINES = lazy_pattern(r"(?::|#L)(?P<first>\d{1,9})(?:[-–]L?(?P<last>\d{1,9}))?\Z")
"""Lines as annai and grep write them, or as GitHub does: `#L44-L60`."""

_PAGE = lazy_pattern(r"(?:, ?(?:page|slide) ?|#(?:page|slide)=)(?P<page>\d{1,6})\Z")
"""A page as annai cites it, or as links into a PDF do: `#page=12`."""

_NUMBER = lazy_pattern(r"(?P<number>\d{1,9}(?:\.\d{1,9})*)?(?:~(?P<piece>\d{1,9}))?")
_GLOB = lazy_pattern(r"[*?\[]")


class Address(NamedTuple):
    """One way to read a reference: a path, and what of its document is meant; all of it, if nothing else is said."""

    path: str
    """With a collection's name and a colon before it, perhaps."""
    number: tuple[int, ...] = ()
    piece: int = 0
    anchor: str = ""
    """A heading's, as GitHub makes it."""
    line: int | None = None
    last_line: int = 0
    page: int = 0
    """Of a file that has pages or slides."""


def readings(reference: str) -> list[Address]:
    """Every way to read a reference, likeliest first: names of files may contain `:` and `#` too."""
    found = [Address(reference)]
    if lines := _LINES.search(reference):
        found.append(Address(reference[: lines.start()], line=int(lines["first"]), last_line=int(lines["last"] or 0)))
    if page := _PAGE.search(reference):
        found.append(Address(reference[: page.start()], page=int(page["page"])))
    path, mark, fragment = reference.rpartition("#")
    if mark and (number := _NUMBER.fullmatch(fragment)):
        numbers = tuple(map(int, number["number"].split("."))) if number["number"] else ()
        found.append(Address(path, number=numbers, piece=int(number["piece"] or 0)))
    if fragment and mark:
        found.append(Address(path, anchor=unquote(fragment)))
    if reference.startswith(SCHEME):
        collection, _, rest = reference.removeprefix(SCHEME).partition("/")
        found += readings(f"{unquote(collection)}:{unquote(rest)}")
    if reference.startswith(f"{FILE_SCHEME}/"):
        found += readings(unquote(reference.removeprefix(FILE_SCHEME)))
    return [each for each in found if each.path.strip()]


def from_here(reference: str, root: Path | None = None) -> str:
    """A reference as it was typed; one whose path leads from the current folder to a file, with the absolute path.

    So it means to every process what it means here. Outside of the project at `root` a path of the project comes first.
    """
    is_outside = root is not None and not here().is_relative_to(root)
    for address in readings(reference):
        path = address.path
        is_named = reference.startswith(path) and not os.path.isabs(path) and os.path.lexists(path)  # noqa: PTH117
        if is_named and not (is_outside and root and os.path.lexists(root / path)):
            # Not as Path has it: `..` may follow a link.
            return f"{as_stored(Path(os.path.abspath(path)))}{reference[len(path) :]}"  # noqa: PTH100
    return reference


def filter_from_here(path: str, root: Path) -> str:
    """The same for a path that a search of the project at `root` is restricted to.

    A glob with a slash in it is relative to the current folder, if that is in the project and has what the glob names.
    """
    head = _GLOB.split(path)[0].rpartition("/")[0]
    if not is_glob(path) or "/" not in path.strip("/") or os.path.lexists(path):
        return from_here(path, root)
    is_here = here().is_relative_to(root) and Path(head).is_dir()
    return os.path.abspath(path) if is_here else path  # noqa: PTH100 - it is not one file's


def is_glob(path: str) -> bool:
    """Whether a path has wildcards in it."""
    return bool(_GLOB.search(path))


def anchors(headings: Sequence[str]) -> Iterator[str]:
    """The anchors of a document's headings, as GitHub makes them: the second of two equal ones ends in `-1`."""
    seen: dict[str, int] = {}
    for heading in headings:
        anchor = make_anchor(heading)
        count = seen[anchor] = seen.get(anchor, -1) + 1
        yield f"{anchor}-{count}" if count else anchor


def make_anchor(heading: str) -> str:
    """A heading as a link names it on GitHub: in lower case, without punctuation, with hyphens for spaces."""
    text = unicodedata.normalize("NFC", heading).strip().lower()
    return "".join(each for each in text if _is_word_character(each)).replace(" ", "-")


def _is_word_character(character: str) -> bool:
    """Letters, marks, decimal digits and connectors, in any script; hyphens and spaces."""
    category = unicodedata.category(character)
    return character in "- " or category[0] in "LM" or category in ("Nd", "Pc")
