"""What is inside a zipped document? Its parts, read within limits: a few bytes can unpack to gigabytes."""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from functools import cached_property
from xml.etree import ElementTree

from annai.files.formats.markdown import ConversionError, properties

MAX_PART_BYTES = 100_000_000
"""No text of a document is longer."""
MAX_PARTS = 50_000

Element = ElementTree.Element

_DOCTYPE = re.compile(rb"<!DOCTYPE|<!ENTITY", re.I)


class Package:
    """A zipped document: `.docx`, `.pptx`, `.xlsx`, `.odt`, `.epub` …"""

    def __init__(self, data: bytes) -> None:
        if data.startswith(b"\xd0\xcf\x11\xe0"):
            # What Office encrypts is not a ZIP file but a container of its own, which old formats are too.
            raise ConversionError("it is encrypted, or in the format of before 2007; save it anew without a password")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise ConversionError("it is broken: not a document that can be unpacked") from error
        if len(self._zip.namelist()) > MAX_PARTS:
            raise ConversionError(f"it has more than {MAX_PARTS:,} parts")
        self._unpacked = 0

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its parts."""
        return frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """A part's bytes; empty if there is no such part."""
        name = name.lstrip("/")
        if name not in self.names:
            return b""
        try:
            with self._zip.open(name) as part:
                data = part.read(MAX_PART_BYTES - self._unpacked + 1)
        except RuntimeError as error:
            raise ConversionError("it is encrypted; save it without a password to index it") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise ConversionError(f"it is broken: its part {name} cannot be unpacked") from error
        self._unpacked += len(data)
        if self._unpacked > MAX_PART_BYTES:
            raise ConversionError(f"it unpacks to more than {MAX_PART_BYTES // 1_000_000} MB")
        return data

    def xml(self, name: str) -> Element | None:
        """A part as XML; None if there is no such part."""
        data = self.read(name)
        return parse_xml(data, name) if data else None

    def need(self, name: str) -> Element:
        """A part that every document of its kind has."""
        found = self.xml(name)
        if found is None:
            raise ConversionError(f"it is broken: it has no {name}")
        return found

    def relations(self, name: str) -> dict[str, tuple[str, str]]:
        """What a part of an Office document refers to: id → kind and the name of the part, or an address."""
        folder, _, file = name.rpartition("/")
        root = self.xml(f"{folder}/_rels/{file}.rels" if folder else f"_rels/{file}.rels")
        found = {}
        for each in root if root is not None else ():
            target = each.get("Target", "")
            if each.get("TargetMode") != "External":
                target = resolve(folder, target)
            found[each.get("Id", "")] = (each.get("Type", "").rpartition("/")[2], target)
        return found


def parse_xml(data: bytes, name: str) -> Element:
    """XML without a document type: that could define entities which expand to gigabytes."""
    if _DOCTYPE.search(data):
        raise ConversionError(f"its part {name} defines a document type, which no program writes")
    try:
        return ElementTree.fromstring(data)  # noqa: S314 - nothing to expand, and in a process with limits
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ConversionError(f"it is broken: its part {name} is not valid XML") from error


def resolve(folder: str, target: str) -> str:
    """The name of a part, from a reference to it in a part of that folder."""
    parts: list[str] = [] if target.startswith("/") else folder.split("/") if folder else []
    for each in target.split("/"):
        if each == "..":
            parts = parts[:-1]
        elif each not in ("", "."):
            parts.append(each)
    return "/".join(parts)


def local(element: Element) -> str:
    """An element's name without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element, name: str) -> str:
    """An attribute's value, whatever its namespace."""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""


def child(element: Element | None, *names: str) -> Element | None:
    """The first child of this name, its first child of the next name, and so on."""
    for name in names:
        element = next((each for each in element if local(each) == name), None) if element is not None else None
    return element


def descendants(element: Element, name: str) -> Iterator[Element]:
    """All elements of this name in another one."""
    return (each for each in element.iter() if local(each) == name)


def text_of(element: Element | None) -> str:
    """All text in an element."""
    return "".join(element.itertext()) if element is not None else ""


def core_properties(package: Package) -> dict[str, object]:
    """What an Office document says about itself."""
    root = package.xml("docProps/core.xml")
    known = {local(each): text_of(each).strip() for each in root} if root is not None else {}
    return properties(
        title=known.get("title"),
        author=known.get("creator"),
        subject=known.get("subject"),
        tags=known.get("keywords"),
        created=known.get("created"),
        modified=known.get("modified"),
        description=known.get("description"),
    )
