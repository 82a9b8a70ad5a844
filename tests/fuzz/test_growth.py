"""Does reading take time in proportion to the size? Every reader, on a file that repeats one mark of some format."""

import io
import random
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from annai.asking.defining import defining_pattern
from annai.errors import ReadError
from annai.files.formats.markdown import ConversionError
from annai.files.ignore import Patterns
from annai.files.kinds import CONVERTERS
from annai.files.reader import read_document
from annai.interfaces.page.documents import document_html
from annai.interfaces.setup.json_text import parse as parse_json
from annai.searching.preview import make_preview
from annai.settings import Chunking, Files
from annai.splitters.base import STRATEGIES, load_splitter
from annai.splitters.windows import cut_windows
from annai.text.fields import passage_fields
from annai.text.keywords import extract_keywords
from annai.text.links import link_share
from annai.text.readable import readable
from annai.types import Change, ChangeKind, Document
from tests.fuzz import EXAMPLES

SIZE, TIMES = 15_000 if EXAMPLES else 30_000, 4
"""Characters of the smaller text, and how many times as long the longer one is."""

MOST = 10
"""The processor may take so many times as long for the longer one: in proportion it is 4, by the square 16."""

LEAST_SECONDS = 0.5
"""What takes less for the longer one says nothing: the page cleans what is nested up to a bound of a quarter second."""


def read(suffix: str, text: str) -> Document:
    """A file as the index reads it."""
    file = Path(FOLDER[0]) / f"a{suffix}"
    file.write_bytes(text.encode())
    return read_document("c", file.parent, Change(ChangeKind.NEW, file.name, file), Files())


def index(suffix: str) -> Callable[[str], object]:
    """Read, split and find the words of a file."""

    def work(text: str) -> None:
        document = read(suffix, text)
        for strategy in STRATEGIES:
            sections = load_splitter(strategy)(document, Chunking())
        for section in sections[:200]:
            extract_keywords(passage_fields(document, section))
        readable(document.text, document.format, is_shown=True)
        link_share(document.text)

    return work


def show(text: str) -> None:
    """Read what a search reads of a document that it found."""
    document = read(".md", text)
    whole = load_splitter("sections")(document, Chunking())[0]
    cut_windows(document.text, document.format)
    make_preview("what is a", document, whole, (whole.start, whole.end), 3)
    defining_pattern("a").search(document.text)


def convert(suffix: str, wrap: Callable[[str], bytes] = str.encode) -> Callable[[str], object]:
    """Convert a file, as the process for that does."""
    module, _, name = CONVERTERS[suffix].partition(":")
    return lambda text: getattr(import_module(f"annai.files.formats.{module}"), name)(wrap(text))


def word(text: str) -> bytes:
    """A Word document with this text in it, or as its XML."""
    body = "".join(" " if each in "<>&" else each for each in text)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as package:
        part = f'<w:document xmlns:w="x"><w:body><w:p><w:r><w:t>{body}</w:t></w:r></w:p></w:body></w:document>'
        package.writestr("word/document.xml", part)
    return data.getvalue()


def ignore(text: str) -> None:
    """A path against these patterns."""
    patterns = Patterns(text.split("\n"), ".gitignore")
    patterns.last_match("f.md", "a/" * 70 + "f.md", is_folder=False)


READERS: dict[str, Callable[[str], object]] = {
    **{suffix: index(suffix) for suffix in (".md", ".rst", ".txt")},
    "yaml": lambda text: read(".md", f"---\nx: {text[:65_000]}\n---\n"),
    "toml": lambda text: read(".md", f"+++\nx = {text[:65_000]}\n+++\n"),
    "page": lambda text: document_html(read(".md", text), list, str),
    **{suffix: convert(suffix) for suffix in (".html", ".org", ".adoc", ".eml")},
    ".rtf": convert(".rtf", lambda text: b"{\\rtf1 " + text.encode() + b"}"),
    "mail.html": convert(".eml", lambda text: b"Subject: x\nContent-Type: text/html\n\n" + text.encode()),
    "mail.to": convert(".eml", lambda text: b"From: a@b\nTo: " + text.replace("\n", "").encode() + b"\n\nx"),
    ".docx": convert(".docx", word),
    ".gitignore": ignore,
    "shown": show,
    ".mcp.json": parse_json,
}

FOUND = (
    *((".html", "<!--"), (".html", "<!-- >"), (".html", "<![CDATA[ >"), (".html", "<a "), ("mail.html", "<!--")),
    *((".adoc", "http://a"), (".adoc", "<<a,"), (".rtf", "\\f1"), (".rtf", "{\\s1 heading "), ("mail.to", "<a@b>")),
    *(("mail.to", "<![CDATA[ >"), (".mcp.json", '"\\"'), (".mcp.json", "/*"), ("page", "<ul>"), ("page", "+ ")),
    *(("shown", "*"), ("shown", "「")),
    *((".gitignore", "*.a\n"), (".gitignore", "a*\n"), (".gitignore", "**/a/"), ("yaml", "[")),
)
"""What took time by the square of the size, or more."""

TOKENS = (
    *("<!--", "<!-- >", "<!", "<?", "</", "<a ", '<a b="', "<a b='", "<![CDATA[", "<![CDATA[ >", "<script>", "<style>"),
    *(
        "<div>",
        "<p>",
        "<a>",
        "<a></a>",
        "<table>",
        "<tr><td>",
        "<ul>",
        "<li>",
        "<pre>",
        "<b>",
        "</b>",
        "<b><p>",
        "<svg>",
    ),
    *(
        "<select>",
        "<main>",
        "<title>",
        "<br>",
        "&",
        "&a",
        "&#",
        "<x/>",
        "<blockquote>",
        "<details>",
        "<A b={",
        "<A b={{",
    ),
    *(
        "http://a",
        "link:a",
        "<<a",
        "<<a,",
        "[[a",
        "[[a]",
        "[[a][",
        "[a](",
        "![",
        "[",
        "]",
        "](",
        "[a]: b\n",
        "[^a]",
        "(",
    ),
    *("{", "{{", "{{<", "{{%", "{%", "{#a", "{/*", "/*", "//", "////\n", "*", "**", "* ", "*a ", "_", "__", "_a ", "~"),
    *("`", "``", "` ", "`a", "```\n", "```a\n", "~~~\n", "|", "|a", "|\n|-|\n", "| a | b |\n|---|---|\n", "#", "# a\n"),
    *(
        "a\n=\n",
        "a\n-\n",
        "- ",
        "- a\n",
        "1. ",
        "1. a\n",
        "+ ",
        "> ",
        ">\n",
        "> a\n",
        "> - ",
        "    a\n",
        "\t",
        "\n",
        "\r",
    ),
    *(" ", "  \n", "\\", "\\a", '"', "'", '"\\"', "...", "---\n", "+++\n", "---\na: b\n", "a: ", "- a: ", "? ", "[a, "),
    *(
        "{a: ",
        "&a [",
        "*a ",
        "!!",
        "|\n",
        ":a",
        "::\n",
        ":a:`b",
        "`a`_",
        ".. a::\n",
        ".. note::\n   ",
        ".. _a: b\n",
        "..\n",
    ),
    *("====\na\n====\n", "+--+\n", "==== ====\n", ":a: b\n", "a.", "a. ", "。", "あ", "漢", "a", "aA", "1,", "e\u0301"),
    *("か\u3099", "👩\u200d", "\u3000", "#+begin_src\n", "#+a: ", "* a :b", "= a  ", "\\'a", "\\u1 ", "{\\", "\\par "),
    *(
        "\\f1",
        "\\cell ",
        "{\\*",
        "{\\s1 heading ",
        "{\\title a",
        "=?",
        "=?utf-8?q?a?= ",
        "a@b,",
        "<a@b>",
        '"a" ',
        "a=b;",
    ),
    *(
        "--a\n",
        "a:\n b\n",
        "import ",
        "export a\n",
        "export const a = {",
        "*.a\n",
        "a*\n",
        "?a\n",
        "!?a\n?b\n",
        "**/a/",
    ),
)
"""Marks that some format knows."""

ALL = [(reader, token) for reader in READERS for token in TOKENS]
CASES = random.sample(ALL, min(EXAMPLES, len(ALL))) if EXAMPLES else FOUND

FOLDER: list[Path] = []


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    FOLDER[:] = [tmp_path]


def seconds(work: Callable[[str], object], text: str) -> float:
    """How long the processor takes, at best of some tries."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        # The last one is a sentence about the file where it is converted in a process.
        with suppress(ReadError, ConversionError, ValueError, RecursionError):
            work(text)
        best = min(best, time.process_time() - start)
        if best < LEAST_SECONDS:
            break
    return best


@pytest.mark.parametrize(("reader", "token"), CASES)
def test_time_grows_as_the_file_does(reader: str, token: str) -> None:
    work = READERS[reader]
    short, long = (token * (size // len(token)) for size in (SIZE, SIZE * TIMES))
    taken, longer = seconds(work, short), seconds(work, long)
    assert longer < LEAST_SECONDS or longer < MOST * max(taken, LEAST_SECONDS / MOST), f"{taken:.2f} s, {longer:.2f} s"
