"""What does a PDF say? Its text page by page, with headings from its bookmarks or else from the sizes of its letters.

It needs `pypdfium2`: PDFium, which Chrome reads PDFs with.
"""

import ctypes
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from annai.files.formats.markdown import ConversionError, Converted, escape, heading, join, page, properties

MAX_HEADING_CHARACTERS = 120
"""A longer line is not a heading."""

MIN_HEADING_RATIO = 1.15
"""Letters of a heading are at least this much larger than those of the text."""

MAX_HEADING_SHARE = 0.2
"""Where more of the lines would be headings, sizes mean something else: a poster, slides, a page of formulas."""

MIN_REPEATED_PAGES, REPEATED_SHARE, EDGE_LINES = 4, 0.3, 2
"""A line among the first or last of this many pages, and of this share of all, is a page's head or foot."""

MAX_BOOKMARKS = 20_000

_PASSWORD_ERROR = 4
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_RUNNING = re.compile(r"^0$|^0 .*[^\W\d]|[^\W\d].* 0$")
_HYPHEN = re.compile(r"(?<=[A-Za-z])(?:\ufffe|\x02|-\n(?=[a-z]))\n?")
_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")
_DATE = re.compile(r"D?:?(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?(Z|[+-]\d{2}'?\d{2})?")
_BULLET = re.compile(r"^[•‣◦▪●○■□・·–]\s*")
_LIST_START = re.compile(r"^(?:[•‣◦▪●○■□・·–]\s*|\(?\d{1,3}[.)]\s|[①-⑳])")


class _Line(NamedTuple):
    text: str
    size: float
    """Of its letters, in points."""
    top: float
    bottom: float


def convert(data: bytes) -> Converted:
    """A PDF's text as Markdown. Raises `ConversionError` if it cannot be read, or holds only images."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", 0) == _PASSWORD_ERROR or "password" in str(error).lower():
            raise ConversionError("it is encrypted; save it without a password to index it") from error
        raise ConversionError("it is broken: not a PDF that can be opened") from error
    pages = [[*_lines(document, number)] for number in range(len(document))]
    if not any(pages):
        raise ConversionError("it holds no text, only images; make its text readable with an OCR program to index it")
    repeated = _repeated(pages)
    pages = [[line for line in lines if _edge_key(line.text) not in repeated] for lines in pages]
    bookmarks = _bookmarks(document)
    levels = {} if bookmarks else _heading_sizes(pages)
    blocks: list[str] = []
    for number, lines in enumerate(pages):
        titles = bookmarks.get(number, [])
        blocks += [page(number + 1), *_blocks(lines, titles, levels)]
    return Converted(join(blocks), _values(document))


def _lines(document: Any, number: int) -> Iterator[_Line]:  # noqa: ANN401 - pypdfium2 is an extra
    import pypdfium2
    import pypdfium2.raw as pdfium

    try:
        loaded = document[number]
        text_page = loaded.get_textpage()
    except pypdfium2.PdfiumError:
        return  # one broken page of a readable file
    try:
        text = text_page.get_text_range(errors="replace")
        if not text.strip():
            return
        sizes = _Sizes(pdfium, text_page.raw)
        at = 0
        for raw in text.split("\r\n"):
            line = _clean(raw)
            if line:
                # Positions count UTF-16 units; a line before this one may hold some beyond the first plane.
                start = at + len(raw) - len(raw.lstrip())
                yield _Line(line, *sizes.measure(start, len(raw.strip())))
            at += len(raw.encode("utf-16-le", "replace")) // 2 + 2
    finally:
        text_page.close()
        loaded.close()


class _Sizes:
    """How large the letters of one page are."""

    def __init__(self, pdfium: Any, handle: Any) -> None:  # noqa: ANN401 - pypdfium2 is an extra
        self._pdfium, self._handle = pdfium, handle
        self._count = pdfium.FPDFText_CountChars(handle)

    def measure(self, start: int, length: int) -> tuple[float, float, float]:
        """The usual size of the letters of a line, and where it begins and ends from the bottom of the page."""
        last = max(start, start + length - 1)
        sizes, top, bottom = [], 0.0, 0.0
        for at in {start, (start + last) // 2, last}:
            if at >= self._count:
                continue
            box = [ctypes.c_double() for _ in range(4)]
            if self._pdfium.FPDFText_GetCharBox(self._handle, at, *map(ctypes.byref, box)):
                bottom, top = box[2].value, max(top, box[3].value)
            if size := self._pdfium.FPDFText_GetFontSize(self._handle, at):
                sizes.append(self._scaled(at, size))
        return (round(sorted(sizes)[len(sizes) // 2] * 2) / 2 if sizes else 0.0), top, bottom

    def _scaled(self, at: int, size: float) -> float:
        """The size as it is seen: a font of one point may be drawn ten times as large."""
        matrix = self._pdfium.FS_MATRIX()
        if self._pdfium.FPDFText_GetMatrix(self._handle, at, ctypes.byref(matrix)):
            return float(size * max(abs(matrix.d), abs(matrix.b)))
        return float(size)


def _clean(text: str) -> str:
    text = "".join(" " if unicodedata.category(each) == "Cc" else each for each in text.replace("\x02", "\ufffe"))
    return " ".join(text.replace("\x00", "").split())


def _edge_key(text: str) -> str:
    """A line without its numbers: the foot of every page has another one."""
    return _NUMBER.sub("0", text.lower())


def _repeated(pages: Sequence[Sequence[_Line]]) -> set[str]:
    """The heads and feet of pages: lines at their edges that come again and again, but for a number."""
    if len(pages) < MIN_REPEATED_PAGES:
        return set()
    counts = Counter(
        key for lines in pages for key in {_edge_key(each.text) for each in (*lines[:EDGE_LINES], *lines[-EDGE_LINES:])}
    )
    least = max(MIN_REPEATED_PAGES, len(pages) * REPEATED_SHARE)
    # With the number of the page in it, the head of a single chapter is enough.
    return {key for key, count in counts.items() if count >= (MIN_REPEATED_PAGES if _RUNNING.search(key) else least)}


def _bookmarks(document: Any) -> dict[int, list[tuple[int, str]]]:  # noqa: ANN401 - pypdfium2 is an extra
    """The bookmarks of a PDF by page: their levels and titles, in order."""
    found: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for count, bookmark in enumerate(document.get_toc(max_depth=6)):
        if count >= MAX_BOOKMARKS:
            break
        target = bookmark.get_dest()
        index = target.get_index() if target else None
        if index is not None and (title := _clean(bookmark.get_title())):
            found[index].append((bookmark.level + 1, title))
    return found


def _heading_sizes(pages: Sequence[Sequence[_Line]]) -> dict[float, int]:
    """The sizes of letters that are headings, and their levels."""
    letters, lines = Counter[float](), Counter[float]()
    for each in (line for page_lines in pages for line in page_lines):
        letters[each.size] += len(each.text)
        lines[each.size] += 1
    body = letters.most_common(1)[0][0] if letters else 0.0
    larger = sorted((size for size in letters if size >= body * MIN_HEADING_RATIO), reverse=True)
    if not body or sum(lines[size] for size in larger) > MAX_HEADING_SHARE * lines.total():
        return {}
    return {size: min(level, 3) for level, size in enumerate(larger, 1)}


def _blocks(lines: Sequence[_Line], titles: Sequence[tuple[int, str]], levels: dict[float, int]) -> Iterator[str]:
    """A page's headings and paragraphs. A bookmark whose title is no line of its page comes before the page's text."""
    places = _place_titles(lines, titles)
    yield from (heading(level, text) for level, text in places.pop(-1, []))
    paragraph: list[_Line] = []
    skipped: set[int] = set()
    for at, line in enumerate(lines):
        if at in places:
            yield _paragraph(paragraph)
            paragraph = []
            for level, text in places[at]:
                yield heading(level, text)
                skipped |= _title_lines(lines, at, text)
        if at in skipped:
            continue
        level = levels.get(line.size, 0)
        if level and len(line.text) <= MAX_HEADING_CHARACTERS and any(map(str.isalpha, line.text)):
            yield _paragraph(paragraph)
            paragraph = []
            yield heading(level, line.text)
            continue
        if paragraph and _begins_paragraph(paragraph[-1], line):
            yield _paragraph(paragraph)
            paragraph = []
        paragraph.append(line)
    yield _paragraph(paragraph)


def _place_titles(lines: Sequence[_Line], titles: Sequence[tuple[int, str]]) -> dict[int, list[tuple[int, str]]]:
    """The lines before which bookmarks stand; -1 is the top of the page."""
    places: dict[int, list[tuple[int, str]]] = {}
    after = 0
    for level, title in titles:
        wanted = _letters(title)
        for at in range(after, len(lines)):
            found = _letters(lines[at].text)
            if found and (found.endswith(wanted) or (wanted.startswith(found) and _title_lines(lines, at, title))):
                places.setdefault(at, []).append((level, title))
                after = at + 1
                break
        else:
            places.setdefault(after - 1 if after else -1, []).append((level, title))
    return places


def _title_lines(lines: Sequence[_Line], start: int, title: str) -> set[int]:
    """The lines that make up a title; none if they go on with something else."""
    wanted, found = _letters(title), ""
    for at in range(start, min(start + 3, len(lines))):
        found += _letters(lines[at].text)
        if found.endswith(wanted):
            return {*range(start, at + 1)}
    return set()


def _letters(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFKC", text).lower() if each.isalnum())


def _begins_paragraph(last: _Line, line: _Line) -> bool:
    """Whether a line begins a paragraph: after a gap, in letters of another size, or as an item of a list."""
    gap, height = last.bottom - line.top, max(line.size, last.size, 1.0)
    is_apart = gap > 0.75 * height or gap < -3 * height
    return is_apart or abs(last.size - line.size) > 1 or bool(_LIST_START.match(line.text))


def _paragraph(lines: Sequence[_Line]) -> str:
    if not lines:
        return ""
    text = lines[0].text
    for line in lines[1:]:
        is_japanese = bool(_CJK.match(text[-1:]) and _CJK.match(line.text))
        text += line.text if is_japanese else f"\n{line.text}"
    text = _HYPHEN.sub("", text)
    bullet = _BULLET.match(text)
    return f"- {escape(text[bullet.end() :])}" if bullet else escape(text)


def _values(document: Any) -> dict[str, object]:  # noqa: ANN401 - pypdfium2 is an extra
    known = document.get_metadata_dict(skip_empty=True)
    return properties(
        title=_clean(known.get("Title", "")),
        author=_clean(known.get("Author", "")),
        subject=_clean(known.get("Subject", "")),
        tags=_clean(known.get("Keywords", "")),
        created=_date(known.get("CreationDate", "")),
        modified=_date(known.get("ModDate", "")),
    )


def _date(text: str) -> str:
    """A PDF's date as ISO 8601: `D:20250301120000+09'00'`."""
    match = _DATE.match(text)
    if not match:
        return ""
    year, month, day, hour, minute, second, zone = match.groups()
    date = "-".join(each for each in (year, month, day) if each)
    if not (day and hour):
        return date
    offset = (zone or "").replace("'", "")
    zone = "" if not offset else "+00:00" if offset == "Z" else f"{offset[:3]}:{offset[3:5] or '00'}"
    return f"{date}T{hour}:{minute or '00'}:{second or '00'}{zone}"
