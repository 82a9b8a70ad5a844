"""What could arrive? Texts, bytes and JSON as no sane program would send them."""

import json
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from annai.serving.wire import from_json
from annai.values import TypeHint

NASTY = (
    *(
        "\0",
        "\x1b]52;c;eA==\x07",
        "\x1b[31m",
        "\x85",
        "\x0c",
        "\u2028",
        "\ufeff",
        "\ufffd",
        "\u202e",
        "e\u0301",
        "か\u3099",
    ),
    *(
        "👩‍👩‍👧",
        "🇯🇵",
        "日本語の文。",
        "ﷺ",
        "İ",
        "ß",
        "\U0010ffff",
        "\uffff",
        "か\u3099",
        "\r",
        "\r\n",
        "\n",
        "\t",
        " ",
        "　",
    ),
)
"""What has broken programs before."""

TEXTS = st.lists(st.text(max_size=8) | st.sampled_from(NASTY), max_size=12).map("".join)
"""What a file can hold once it is decoded."""

ANY_TEXTS = st.one_of(TEXTS, TEXTS, st.text(st.characters(), max_size=20), st.sampled_from(["\ud800", "a\udcff.md"]))
"""The same, and lone surrogates: JSON and file names can carry them."""

MARKUP = (
    *("# One", "## Two ##", "###### Six", "####### seven", "#", "Title\n=====", "Sub\n---", "[a]: b\n---"),
    *("```", "~~~", "    code", "- item", "* item", "1. one", "> quote", "> > - deep", "| a | b |\n|---|---|"),
    *("<!--", "-->", "<div>", "</div>", "---", "+++", "...", "title: a", "title: [", "&a [*a, *a]", "a: !!int x"),
    *("date: 2024-99-99", ".. note::\n   text", "====  ====", "====\nOver\n====", "+----+", "| a  |", "::", ".."),
    *("`x`__", "***a**", "`` ` ``", "{#id}", "{{< x >}}", "x" * 300, "word " * 60, "長い" * 60, "\\", "**", "_a_"),
    *("[t](u", "![", "<", "&amp;", "&#0;", "&#xd800;", "\t- a", "  "),
)
"""Lines that mean something in Markdown, reStructuredText and front matter, whole and broken."""

DOCUMENTS = st.lists(
    st.tuples(st.sampled_from(MARKUP) | TEXTS, st.sampled_from(["\n", "\n\n", "\r\n", "\r", "", " "])).map("".join),
    max_size=25,
).map("".join)
"""Texts of documents."""

_ENCODINGS = (
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-32",
    "cp932",
    "euc_jp",
    "iso2022_jp",
    "cp1252",
    "gb18030",
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """The bytes of a file: noise, or a text in some encoding, perhaps cut off or with other bytes in it."""
    data = draw(st.binary(max_size=300)) if draw(st.integers(0, 4)) == 0 else b""
    if not data:
        data = draw(DOCUMENTS).encode(draw(st.sampled_from(_ENCODINGS)), "replace")
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(data)))
        data = data[:place] + draw(st.binary(max_size=4)) + data[place + draw(st.integers(0, 3)) :]
    return data


NUMBERS = st.one_of(
    st.integers(-5, 2000),
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**400, -(10**400)]),
    st.floats(allow_nan=False),
)
"""JSON has numbers of any size, and 1e999 is read as infinity."""

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | ANY_TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXTS, inner, max_size=4),
    max_leaves=8,
)


PATHS = st.sampled_from(["/nowhere", "/\0", "~no-such-user/x", "/" + "x" * 5000, "../..", "~\0"]) | ANY_TEXTS


def like(hint: TypeHint, texts: st.SearchStrategy[str] = ANY_TEXTS) -> st.SearchStrategy[Any]:
    """Values that JSON has for a type hint: nine in ten of the right kind."""
    origin: TypeHint = get_origin(hint)
    inner = [each for each in get_args(hint) if each not in (type(None), Ellipsis)]
    fitting: st.SearchStrategy[Any]
    if origin is Literal:
        fitting = st.sampled_from(inner)
    elif origin in (tuple, list, Sequence):
        fitting = st.lists(like(inner[0], texts), max_size=3)
    elif origin in (types.UnionType, Union):
        fitting = st.none() | like(inner[0], texts)
    elif origin is None:
        fitting = {bool: st.booleans(), int: st.integers(-1, 10), float: NUMBERS, Path: PATHS}.get(hint, texts)
    else:
        fitting = JSON
    return st.integers(0, 9).flatmap(lambda chance: JSON if chance == 9 else fitting)


def travelled(value: object) -> object:
    """A value as it comes out of JSON."""
    return json.loads(json.dumps(value).replace("Infinity", "1e999"))


def is_json(value: object) -> bool:
    """Whether a value can be written as JSON that any program reads, and read again."""
    text = json.dumps(value, allow_nan=False)
    text.encode()
    return bool(from_json(text.encode()) == value)
