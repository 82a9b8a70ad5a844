"""Can a file that unpacks to much more than it is harm the process that indexes? Bombs in every container there is."""

import base64
import io
import json
import resource
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest

from annai.errors import SkippedFile
from annai.files.conversion import convert
from annai.files.formats.markdown import Converted
from annai.files.kinds import CONVERTERS
from annai.settings import Documents
from tests.files.test_conversion import RELATION, relations
from tests.fuzz import EXAMPLES, attempt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it compares memory in Linux's units")

LIMITS = Documents(timeout_seconds=10, max_memory_mb=400)
MAX_TEXT = 10_000_000
SIZE = 120_000_000
"""Bytes that a bomb unpacks to: more than a package may."""

MANY = 300_000
MAX_VALUES = 1_000_000
"""Characters of what a document says about itself."""

PARENT_KIB = 250_000
"""What this process may grow by for one file: its text as JSON, decoded, and some room."""

OPEN_DOCUMENT = {"main.xml": '<d xmlns:t="t"><t:body><t:text><t:p>{}</t:p></t:text></t:body></d>'}

# What every kind of package must have so that its main part is read: the text goes where {} is.
PARTS: dict[str, dict[str, str]] = {
    ".docx": {
        "_rels/.rels": relations(("r", "officeDocument", "main.xml")),
        "main.xml": '<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:body></w:document>',
    },
    ".pptx": {
        "_rels/.rels": relations(("r", "officeDocument", "ppt/p.xml")),
        "ppt/p.xml": f'<p xmlns:r="{RELATION}">' + '<sldId r:id="s"/>' * 50 + "</p>",
        "ppt/_rels/p.xml.rels": relations(("s", "slide", "main.xml")),
        "ppt/main.xml": '<p:sld xmlns:p="p" xmlns:a="a"><p:sp><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sp></p:sld>',
    },
    ".xlsx": {
        "_rels/.rels": relations(("r", "officeDocument", "w.xml")),
        "w.xml": f'<w xmlns:r="{RELATION}"><sheet name="a" r:id="s"/></w>',
        "_rels/w.xml.rels": relations(("s", "worksheet", "sheet.xml"), ("t", "sharedStrings", "main.xml")),
        "main.xml": "<sst><si><t>{}</t></si></sst>",
        "sheet.xml": "<s>" + '<row><c t="s"><v>0</v></c></row>' * 50 + "</s>",
    },
    ".odt": OPEN_DOCUMENT,
    ".odp": OPEN_DOCUMENT,
    ".ods": OPEN_DOCUMENT,
    ".epub": {
        "META-INF/container.xml": '<c><rootfile full-path="b.opf"/></c>',
        "b.opf": '<p><item id="a" href="main.xml" media-type="application/xhtml+xml"/>'
        + '<itemref idref="a"/>' * 50
        + "</p>",
        "main.xml": "<html><body><p>{}</p></body></html>",
    },
}
NAMES = {".odt": "content.xml", ".odp": "content.xml", ".ods": "content.xml", ".pptx": "ppt/main.xml"}
PROPERTIES = {".odt": "meta.xml", ".odp": "meta.xml", ".ods": "meta.xml"}


def package(
    suffix: str, text: str, *, head: str = "", encoding: str = "utf-8", more: dict[str, str] | None = None
) -> bytes:
    """A package whose text is this."""
    main = NAMES.get(suffix, "main.xml")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, part in PARTS[suffix].items():
            is_main = name.endswith("main.xml")
            content = (head + part.replace("{}", text)) if is_main else part
            archive.writestr(main if is_main else name, content.encode(encoding if is_main else "utf-8"))
        for name, part in (more or {}).items():
            archive.writestr(name, part)
    return buffer.getvalue()


def laughs(suffix: str, encoding: str) -> bytes:
    """Entities that expand to gigabytes."""
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 20 if n else "ha" * 50}">' for n in range(10))
    declared = "utf-16" if encoding == "utf-16" else "utf-8"
    head = f'<?xml version="1.0" encoding="{declared}"?><!DOCTYPE d [{entities}]>'
    return package(suffix, "&e9;", head=head, encoding=encoding)


def overlapping(suffix: str) -> bytes:
    """Many names in the directory for the bytes of one part: 50 KB that are read again and again."""
    whole = package(suffix, "word " * 2_000_000)
    end = whole.rindex(b"PK\x05\x06")
    size, start = struct.unpack("<LL", whole[end + 12 : end + 20])
    directory, entries, at = whole[start : start + size], [], 0
    while at < len(directory):
        name, extra, comment = struct.unpack("<HHH", directory[at + 28 : at + 34])
        entries.append(directory[at : at + 46 + name + extra + comment])
        at += len(entries[-1])
    largest = max(entries, key=lambda entry: int(struct.unpack("<L", entry[24:28])[0]))
    again = b"".join(largest[:28] + struct.pack("<H", 6) + largest[30:46] + b"%06d" % n for n in range(2_000))
    count = len(entries) + 2_000
    closing = whole[end : end + 8] + struct.pack("<HHLL", count, count, size + len(again), start) + b"\0\0"
    return whole[:start] + directory + again + closing


def described(suffix: str) -> bytes:
    """Properties of a document as long as books."""
    name = PROPERTIES.get(suffix, "docProps/core.xml")
    values = "".join(f"<{each}>{'long ' * 1_000_000}</{each}>" for each in ("title", "creator", "keyword", "keywords"))
    return package(suffix, "short", more={name: f"<m><meta>{values}</meta>{values}</m>"})


ZIPPED: dict[str, Callable[[str], bytes]] = {
    "text": lambda suffix: package(suffix, "a" * SIZE),
    "words": lambda suffix: package(suffix, "word " * (MAX_TEXT // 25)),
    "elements": lambda suffix: package(suffix, "<a/>" * (SIZE // 5)),
    "deep": lambda suffix: package(suffix, "<a>" * MANY + "x" + "</a>" * MANY),
    "attributes": lambda suffix: package(suffix, "<a " + "".join(f'b{n}="c" ' for n in range(MANY)) + "/>"),
    "entities": lambda suffix: laughs(suffix, "utf-8"),
    "entities in UTF-16": lambda suffix: laughs(suffix, "utf-16"),
    "parts": lambda suffix: package(suffix, "x", more={f"{n}": "" for n in range(60_000)}),
    "overlap": overlapping,
    "nested": lambda suffix: package(suffix, base64.b64encode(package(suffix, "a" * SIZE)).decode()),
    "properties": described,
}


def multipart(depth: int) -> bytes:
    head = "From: a@example.com\nSubject: a\n"
    parts = "".join(f'Content-Type: multipart/mixed; boundary="{n}"\n\n--{n}\n' for n in range(depth))
    return f"{head}{parts}Content-Type: text/plain\n\nx\n".encode()


def pdf(filters: str, stream: bytes) -> bytes:
    return (
        b"%%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
        b"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 99999999 >>\nendobj\n"
        b"3 0 obj\n<< /Type /Page /Parent 2 0 R /Contents 4 0 R /MediaBox [0 0 9 9] >>\nendobj\n"
        b"4 0 obj\n<< /Filter [%s] /Length %d >>\nstream\n%s\nendstream\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%%%EOF"
    ) % (filters.encode(), len(stream), stream)


def cells(count: int, text: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "markdown", "source": text}] * count}).encode()


OTHERS: dict[str, Callable[[], bytes]] = {
    "twice deflated.pdf": lambda: pdf("/FlateDecode /FlateDecode", zlib.compress(zlib.compress(bytes(SIZE * 5)))),
    "text.pdf": lambda: pdf("/FlateDecode", zlib.compress(b"BT (word) Tj ET " * (SIZE // 16))),
    "deep.eml": lambda: multipart(5_000),
    "encoded.eml": lambda: b"From: a\nContent-Transfer-Encoding: base64\n\n" + base64.b64encode(b"a " * (SIZE // 4)),
    "header.eml": lambda: b"From: a\nSubject: " + b"long\n " * 2_000_000 + b"\n\nx",
    "cells.ipynb": lambda: cells(MANY, "x"),
    "text.ipynb": lambda: cells(60, "word " * 200_000),
    "title.ipynb": lambda: json.dumps({"cells": [], "metadata": {"title": "long " * 4_000_000}}).encode(),
    "groups.rtf": lambda: b"{\\rtf1 " + b"{" * MANY + b"x" + b"}" * MANY,
    "binary.rtf": lambda: b"{\\rtf1 x \\bin2147483647 y" + b"\\bin999999999999999999999 " * 1_000,
    "title.html": lambda: b"<title>" + b"long " * 4_000_000 + b"</title><p>x",
    "cells.html": lambda: b"<table>" + b"<tr>" + b"<td colspan=1000 rowspan=65534>x" * 50_000,
    "title.org": lambda: b"#+TITLE: " + b"long " * 400_000 + b"\n\nx",
    "attributes.adoc": lambda: b"= T\n:a: {b}{b}{b}\n:b: {a}{a}{a}\n\n" + b"{a} " * 100_000,
}

BOMBS: dict[str, Callable[[], bytes]] = {
    **{f"{kind}{suffix}": partial(ZIPPED[kind], suffix) for suffix, kind in product(PARTS, ZIPPED)},
    **OTHERS,
}


def test_every_kind_of_file_has_its_bombs() -> None:
    # Those that are left out are lines of text, which fuzz/test_documents.py and the limit of a text's size see to.
    assert {f".{name.rpartition('.')[2]}" for name in BOMBS} >= CONVERTERS.keys() - {".htm", ".asciidoc"}


@pytest.mark.parametrize("name", BOMBS if EXAMPLES else [*BOMBS][::9])
def test_a_bomb_is_read_within_limits_or_refused_with_its_reason(name: str) -> None:
    data = BOMBS[name]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = attempt(SkippedFile, lambda: convert(name, data, LIMITS, MAX_TEXT))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < PARENT_KIB
    if isinstance(found, Converted):
        assert len(found.text) <= MAX_TEXT
        assert len(json.dumps(found.values)) < MAX_VALUES
    else:
        assert "annai cannot read it yet" not in str(found)
    assert convert("a.html", b"<p>fine", LIMITS, MAX_TEXT).text == "fine\n"
