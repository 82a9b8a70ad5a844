"""What does a workbook (.xlsx) say? Each sheet as a table under its name, with the values that were last computed."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from annai.files.formats.markdown import Converted, escape_inline, heading, join, table
from annai.files.formats.package import Element, Package, attribute, child, core_properties, descendants, local, text_of

MAX_COLUMNS = 200
"""What stands further to the right is left out: nobody reads it as text."""

_BUILT_IN_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_DATE_FORMAT = re.compile(r"[ymdhsge]", re.I)
_NOT_A_DATE = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|general', re.I)
_COLUMN = re.compile(r"([A-Z]{1,3})\d+")


def convert(data: bytes) -> Converted:
    """A workbook as Markdown."""
    package = Package(data)
    name = next((t for kind, t in package.relations("").values() if kind == "officeDocument"), "xl/workbook.xml")
    relations = package.relations(name)
    workbook = package.need(name)
    parts = dict(relations.values())
    strings = [*_strings(package.xml(parts.get("sharedStrings", "xl/sharedStrings.xml")))]
    dates = _date_styles(package.xml(parts.get("styles", "xl/styles.xml")))
    settings = next(descendants(workbook, "workbookPr"), None)
    is_1904 = settings is not None and attribute(settings, "date1904") in ("1", "true")
    start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)
    blocks: list[str] = []
    for sheet in descendants(workbook, "sheet"):
        reference = next((value for key, value in sheet.attrib.items() if key.endswith("}id")), "")
        kind, target = relations.get(reference, ("", ""))
        root = package.xml(target) if kind == "worksheet" else None
        if root is None:
            continue
        rows = [row for row in _rows(root, strings, dates, start) if any(row)]
        blocks += [heading(2, sheet.get("name", "")), table(rows)]
    return Converted(join(blocks), core_properties(package))


def _strings(root: Element | None) -> Iterator[str]:
    for item in root if root is not None else ():
        # Without the reading of Japanese characters, which stands beside them.
        yield "".join(text_of(t) for part in item if local(part) in ("t", "r") for t in descendants(part, "t"))


def _date_styles(root: Element | None) -> set[str]:
    """The numbers of the cell styles that show a number as a date."""
    if root is None:
        return set()
    own = {attribute(each, "numFmtId"): attribute(each, "formatCode") for each in descendants(root, "numFmt")}
    styles = child(root, "cellXfs")
    found = set()
    for number, each in enumerate(styles if styles is not None else ()):
        format_id = attribute(each, "numFmtId")
        is_own = bool(_DATE_FORMAT.search(_NOT_A_DATE.sub("", own.get(format_id, ""))))
        if is_own or (format_id.isdigit() and int(format_id) in _BUILT_IN_DATES):
            found.add(str(number))
    return found


def _rows(root: Element, strings: list[str], dates: set[str], start: datetime) -> Iterator[list[str]]:
    for row in descendants(root, "row"):
        cells: list[str] = []
        for each in row:
            column = _column(attribute(each, "r"), len(cells))
            if column >= MAX_COLUMNS:
                break
            cells += [""] * (column - len(cells))
            cells.append(escape_inline(_value(each, strings, dates, start)))
        yield cells


def _column(reference: str, default: int) -> int:
    match = _COLUMN.match(reference)
    if not match:
        return default
    number = 0
    for letter in match[1]:
        number = number * 26 + ord(letter) - 64
    return max(number - 1, default)


def _value(cell: Element, strings: list[str], dates: set[str], start: datetime) -> str:
    kind, value = attribute(cell, "t"), text_of(child(cell, "v"))
    if kind == "s":
        return strings[int(value)] if value.isdigit() and int(value) < len(strings) else ""
    if kind == "inlineStr":
        return "".join(text_of(each) for each in descendants(cell, "t"))
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind in ("", "n") and attribute(cell, "s") in dates:
        return _date(value, start)
    return value.removesuffix(".0")


def _date(value: str, start: datetime) -> str:
    try:
        moment = start + timedelta(days=float(value))
    except (ValueError, OverflowError):
        return value
    if float(value) < 1:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d}" if moment.time() == datetime.min.time() else f"{moment:%Y-%m-%d %H:%M}"
