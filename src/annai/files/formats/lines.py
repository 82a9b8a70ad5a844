"""What do Org and AsciiDoc files say? The same lines as Markdown, so that a line's number stays what it is."""

import re

from annai.errors import SkippedFile
from annai.files.encoding import decode
from annai.files.formats.markdown import ConversionError, Converted, properties

_NAMED = {"title": "title", "author": "author", "date": "created", "filetags": "tags", "keywords": "tags"}

_ORG_HEADING = re.compile(r"^(\*{1,6})\s++(?:(?:TODO|DONE|NEXT|WAITING)\s++)?(?:\[#[A-Z]\]\s++)?(.*)$")
_ORG_TAGS = re.compile(r":[\w@:]+:")
_ORG_KEYWORD = re.compile(r"^\s*#\+(\w+):\s*(.*)$")
_ORG_BLOCK = re.compile(r"^\s*#\+(begin|end)_(\w+)\s*(\S*)", re.I)
_ORG_LINK = re.compile(r"\[\[([^\[\]]+)\](?:\[([^\[\]]+)\])?\]")
_ORG_DRAWER = re.compile(r"^\s*:[\w-]+:(?:\s.*)?$")

_ADOC_HEADING = re.compile(r"^(={1,6})\s++(\S.*)$")
_ADOC_CLOSING = re.compile(r"=+")
_ADOC_ATTRIBUTE = re.compile(r"^:!?([\w-]+)!?:\s*(.*)$")
_ADOC_SOURCE = re.compile(r"^\[(?:source|,)?,?\s*([\w+#-]*).*\]\s*$")
# What a link is not is looked for once: where it ends, or where the next could begin.
_ADOC_LINK = re.compile(r"(?:link:|(?=https?://))([^\s\[\]]++)(?:\[([^\[\]]*+)\])?")
_ADOC_REFERENCE = re.compile(r"<<([^<>,]++),([^<>]++)>>|<<([^<>]++)>>")
_ADOC_ITEM = re.compile(r"^\s*(\*{1,5}|\.{1,5})\s+(?=\S)")
_FENCES = {"----": "```", "....": "```", "```": "```"}


def convert_org(data: bytes) -> Converted:
    """An Org file, line by line."""
    lines: list[str] = []
    values: dict[str, str] = {}
    is_code = False
    for line in _lines(data):
        block = _ORG_BLOCK.match(line)
        if block and block[2].lower() in ("src", "example"):
            is_code = block[1].lower() == "begin"
            lines.append(f"```{block[3] if is_code else ''}")
        elif is_code:
            lines.append(line)
        elif match := _ORG_HEADING.match(line):
            lines.append(f"{'#' * len(match[1])} {_org_inline(_without_last(match[2], _ORG_TAGS))}")
        elif match := _ORG_KEYWORD.match(line):
            values.setdefault(match[1].lower(), match[2].strip())
            lines.append("")
        elif block or _ORG_DRAWER.match(line) or line.startswith("# "):
            lines.append("")
        else:
            lines.append(re.sub(r"^(\s*\|)([-+]+)\|\s*$", _org_rule, _org_inline(line)))
    return _converted(lines, values)


def _without_last(heading: str, mark: re.Pattern[str]) -> str:
    """A heading without its last word, if that is such a mark."""
    words = heading.rsplit(maxsplit=1)
    return words[0] if len(words) > 1 and mark.fullmatch(words[1]) else heading.rstrip()


def _org_rule(match: re.Match[str]) -> str:
    return match[1] + "|".join(" --- " for _ in match[2].split("+")) + "|"


def _org_inline(text: str) -> str:
    return _ORG_LINK.sub(lambda match: f"[{match[2]}]({match[1]})" if match[2] else match[1], text)


def convert_asciidoc(data: bytes) -> Converted:  # noqa: PLR0912 - one branch for each kind of line
    """An AsciiDoc file, line by line."""
    lines: list[str] = []
    values: dict[str, str] = {}
    fence, is_comment, is_table, language = "", False, False, ""
    for line in _lines(data):
        mark = line.rstrip()
        if fence:
            lines.append(_FENCES[fence] if mark == fence else line)
            fence = "" if mark == fence else fence
        elif mark == "////":
            is_comment = not is_comment
            lines.append("")
        elif is_comment or (line.startswith("//") and not line.startswith("///")):
            lines.append("")
        elif mark in _FENCES:
            fence = mark
            lines.append(_FENCES[mark] + language)
            language = ""
        elif mark == "|===":
            is_table = not is_table
            lines.append("")
        elif match := _ADOC_HEADING.match(line):
            heading = _without_last(match[2], _ADOC_CLOSING)
            values.setdefault("title", heading) if match[1] == "=" else None
            lines.append(f"{'#' * len(match[1])} {_adoc_inline(heading)}")
        elif match := _ADOC_ATTRIBUTE.match(line):
            values.setdefault(match[1].lower().replace("revdate", "date"), match[2].strip())
            lines.append("")
        elif match := _ADOC_SOURCE.match(line):
            language = match[1] if "source" in line or line.startswith("[,") else ""
            lines.append("")
        elif match := re.match(r"^\.(?=[^\s.])(.*)$", line):
            lines.append(f"**{match[1].strip()}**")
        elif match := _ADOC_ITEM.match(line):
            kind = "-" if match[1][0] == "*" else "1."
            lines.append("   " * (len(match[1]) - 1) + f"{kind} {_adoc_inline(line[match.end() :])}")
        elif line.strip() == "+":
            lines.append("")
        else:
            lines.append(_adoc_inline(line.replace("|", " ").strip() if is_table else line))
    return _converted(lines, values)


def _adoc_inline(text: str) -> str:
    text = _ADOC_LINK.sub(lambda match: match[0] if match[2] is None else f"[{match[2] or match[1]}]({match[1]})", text)
    return _ADOC_REFERENCE.sub(lambda match: match[2].lstrip() if match[2] else match[3], text)


def _lines(data: bytes) -> list[str]:
    try:
        return decode(data).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    except SkippedFile as error:
        raise ConversionError(str(error)) from error


def _converted(lines: list[str], values: dict[str, str]) -> Converted:
    named = {_NAMED[name]: value for name, value in values.items() if name in _NAMED and value}
    tags = named.pop("tags", "").replace(":", ",")
    return Converted("\n".join(lines), properties(**named, tags=tags))
