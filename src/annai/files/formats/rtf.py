"""What does a Rich Text file (.rtf) say? Its paragraphs, its tables, and headings where it names them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from annai.files.formats.markdown import (
    ConversionError,
    Converted,
    escape,
    escape_inline,
    heading,
    join,
    properties,
    table,
)

_TOKEN = re.compile(
    rb"\\([a-z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.I
)
_HIDDEN = frozenset(
    b"fonttbl colortbl stylesheet listtable listoverridetable revtbl rsidtbl generator pict object themedata "
    b"colorschememapping datastore latentstyles xmlnstbl header footer headerl headerr headerf footerl footerr footerf "
    b"fldinst bkmkstart bkmkend nonshppict mmathPr info filetbl pgdsctbl listtext pntext upr".split()
)
_CHARACTERS = {
    **{b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’", b"ldblquote": "“", b"rdblquote": "”"},
    **{b"bullet": "•", b"tab": " ", b"line": "\n", b"emspace": " ", b"enspace": " "},
}
_CODE_PAGES = {128: "cp932", 134: "gbk", 129: "cp949", 136: "cp950", 204: "cp1251", 161: "cp1253", 162: "cp1254"}
_FONT, _CHARSET = re.compile(rb"\\f(\d+)"), re.compile(rb"\\fcharset(\d+)")
_INFO = re.compile(rb"\{\\(title|author|subject|keywords)\s((?:[^{}\\]|\\[^{}])*)\}")
_STYLE, _HEADING = re.compile(rb"\\s(\d+)"), re.compile(rb"\b(?:heading|\\u-?\d)")

MAX_DEPTH = 2_000


def convert(data: bytes) -> Converted:
    """A Rich Text file as Markdown."""
    if not data.lstrip().startswith(b"{\\rtf"):
        raise ConversionError("it is broken: not a Rich Text file")
    reader = _Reader(data)
    blocks = reader.read(data)
    known = {name.decode(): _plain(text, reader.encoding) for name, text in _INFO.findall(data[:100_000])}
    return Converted(
        join(blocks),
        properties(
            title=known.get("title"),
            author=known.get("author"),
            subject=known.get("subject"),
            tags=known.get("keywords"),
        ),
    )


class _Group(NamedTuple):
    """What holds within braces."""

    is_hidden: bool
    encoding: str | None
    following: int
    """How many characters follow a Unicode one, for readers that do not know it."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        page = re.search(rb"\\ansicpg(\d{1,5})", data[:2000])
        self.encoding = f"cp{page[1].decode()}" if page and page[1] != b"10000" else "cp1252"
        self._fonts = dict(_fonts(data[:200_000]))
        self._levels = dict(_levels(data[:500_000]))
        self._blocks: list[str] = []
        self._text: list[str] = []
        self._bytes = bytearray()
        self._rows: list[list[str]] = []
        self._cells: list[str] = []
        self._level = 0
        self._is_in_table = False

    def read(self, data: bytes) -> list[str]:
        """The blocks of the file."""
        groups = [_Group(is_hidden=False, encoding=None, following=1)]
        skip, starts_group = 0, False
        for match in _TOKEN.finditer(data):
            word, number, byte, symbol, brace, text = match.groups()
            hidden, encoding, following = groups[-1]
            if brace == b"{":
                self._decode(encoding)
                groups.append(groups[-1])
                if len(groups) > MAX_DEPTH:
                    raise ConversionError("its groups are nested too deeply")
                starts_group, skip = True, 0
                continue
            if brace == b"}":
                self._decode(encoding)
                if len(groups) > 1:
                    groups.pop()
                skip = 0
            elif word is not None:
                if word == b"u" and number is not None and not hidden:
                    skip = following
                groups[-1] = self._control(word, number, groups[-1])
            elif symbol == b"*" and starts_group:
                groups[-1] = groups[-1]._replace(is_hidden=True)
            elif byte is not None and not hidden:
                skip -= 1
                if skip < 0:
                    self._bytes += bytes.fromhex(byte.decode())
            elif symbol is not None and not hidden:
                self._decode(encoding)
                self._text.append(
                    {b"~": " ", b"_": "-"}.get(symbol, symbol.decode("latin-1") if symbol in b"\\{}" else "")
                )
            elif text is not None and not hidden:
                self._bytes += text[max(skip, 0) :]
                skip = 0
            starts_group = False
        self._decode(None)
        self._end_paragraph()
        self._end_table()
        return self._blocks

    def _control(self, word: bytes, number: bytes | None, group: _Group) -> _Group:
        """Obey a control word, and return what holds in its group from now on."""
        if word in _HIDDEN:
            return group._replace(is_hidden=True)
        if word == b"uc" and number is not None:
            return group._replace(following=max(int(number), 0))
        if word == b"f" and number is not None:
            self._decode(group.encoding)
            return group._replace(encoding=self._fonts.get(int(number)))
        if not group.is_hidden:
            self._decode(group.encoding)
            if word == b"u" and number is not None:
                self._text.append(chr(int(number) % 65_536))
            else:
                self._word(b"par" if word.lower() == b"par" else word, int(number or 0))
        return group

    def _decode(self, encoding: str | None) -> None:
        if self._bytes:
            try:
                self._text.append(self._bytes.decode(encoding or self.encoding, "replace"))
            except LookupError:
                self._text.append(self._bytes.decode("cp1252", "replace"))
            self._bytes = bytearray()

    def _word(self, word: bytes, number: int) -> None:
        if word in _CHARACTERS:
            self._text.append(_CHARACTERS[word])
        elif word in (b"par", b"sect", b"page"):
            self._end_paragraph()
        elif word == b"cell":
            self._cells.append(escape_inline(self._take()))
        elif word == b"row":
            self._rows.append(self._cells)
            self._cells = []
        elif word == b"pard":
            self._level, self._is_in_table = 0, False
        elif word == b"intbl":
            self._is_in_table = True
        elif word == b"outlinelevel":
            self._level = number + 1 if 0 <= number < 9 else 0
        elif word == b"s" and number in self._levels:
            self._level = self._levels[number]

    def _take(self) -> str:
        # Characters beyond the first plane come as two halves.
        text = "".join(self._text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        self._text = []
        return text.strip()

    def _end_paragraph(self) -> None:
        if self._is_in_table:
            self._text.append(" ")
            return
        if text := self._take():
            self._end_table()
            self._blocks.append(heading(self._level, text) if self._level else escape(text))

    def _end_table(self) -> None:
        self._blocks.append(table(self._rows))
        self._rows = []


def _fonts(data: bytes) -> Iterator[tuple[int, str | None]]:
    """The fonts that the file names, and the encoding of each."""
    for part in re.findall(rb"[^{};]+", data):
        if (font := _FONT.search(part)) and (charset := _CHARSET.search(part, font.end())):
            yield int(font[1]), _CODE_PAGES.get(int(charset[1]))


def _levels(data: bytes) -> Iterator[tuple[int, int]]:
    """The styles that are headings, and the level of each: the last digit of its name."""
    for part in re.findall(rb"\{([^{}]+);\}", data):
        style = _STYLE.search(part) if part[-1:].isdigit() else None
        if style and _HEADING.search(part, max(style.end(), part.rfind(b";"))):
            yield int(style[1]), int(part[-1:])


def _plain(text: bytes, encoding: str) -> str:
    reader = _Reader(b"")
    reader.encoding = encoding
    return " ".join(" ".join(reader.read(text)).split())
