"""What of a text do readers read? The same text, with spaces in place of what is written for programs."""

import re
from functools import lru_cache

from annai.definitions import lazy_pattern
from annai.types import Format

READ_ATTRIBUTES = ("alt", "title", "label", "text", "heading", "description", "summary", "caption")
"""Attributes of tags and template calls whose values readers read."""

MAX_BACKTICKS = 16
"""Longer runs of backticks do not begin a code span: looking for the ends of runs of every length takes too long."""

MAX_INDENT = 80
"""Blanks beside a template call that stands alone on its line."""


@lru_cache(maxsize=2)  # the passages of a document are asked for one after another
def readable(text: str, text_format: Format, *, is_shown: bool = False) -> str:
    """The text with blanks in place of what readers do not read: every other character and line stays where it is.

    In Markdown that is comments, tags, scripts and styles, MDX imports and exports, template calls, ids and attributes
    of headings, and link definitions; but not in code, where all of it is text. Tags and calls keep `READ_ATTRIBUTES`.
    A call in a sentence stands for a word of it: it keeps all its quoted words, which name that word, also in another
    language; in what is shown only if it has none of these attributes. In reStructuredText it is comments.
    """
    if text_format == "markdown" and any(map(text.__contains__, _MARKDOWN_HINTS)):
        # Every line begins after a line end, and no construct begins without one of a few characters: that is quick.
        return _MARKDOWN.sub(_blank_shown if is_shown else _blank_indexed, f"\n{text}")[1:]
    if text_format == "rst" and ".." in text:
        return _RST.sub(lambda match: _blank(match[0], []), f"\n{text}")[1:]
    return text


_MARKDOWN_HINTS = ("<", "{", "]:", "import", "export")
"""What is not read has one of these in it."""

# No pattern takes more than linear time: what repeats is possessive, or ends where the same construct begins again.
_QUOTED = r"""(?:"[^"]*+"|'[^']*+')"""
_BRACES = r"\{(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+\}"
_VALUE_OF = rf"\s*+=\s*+(?:{_QUOTED}|{_BRACES}|[^\s<>\"'{{}}]++)"
_ATTRIBUTES = rf"(?:\s++(?:[^\s<>\"'{{}}=/]++(?:{_VALUE_OF})?|{_BRACES}))*+\s*+"
# Directly after a Latin word, anything else is a type, as in `List<String>`.
_AFTER_WORD = (
    r"/|(?:abbr|[abisqu]|br|cite|code|del|dfn|em|img|ins|kbd|mark|ruby|samp|small|span|strong|su[bp]|var|wbr)\b"
)

_MARKDOWN = lazy_pattern(
    rf"""[\n<`{{\\](?:
    (?<=\n)(?:
        (?P<fence>[ \t>]*+(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]++)*+(?P<marks>`{{3,}}(?=[^`\n]*$)|~{{3,}})[^\n]*
            (?:\n(?![ \t>]*+(?P=marks)[`~]*[ \t\r]*$)[^\n]*)*+(?:\n[^\n]*)?)
      | (?P<indented>[ \t\r]*+
            (?:\n(?:[ ]{{4}}|\t)(?![ \t]*(?:```|~~~|[-*+>][ ]|\d+[.)][ ]|\{{[{{%]|<[A-Z!]|[\r\n]))[^\n]*+)++)
      | (?P<definition>[ ]{{0,3}}\[(?!\^)[^\[\]\n]++\]:[ \t]*+(?:\r?\n[ \t]++)?(?:<[^<>\n]*+>|[^\s<]\S*+)
            (?:[ \t]++(?:"[^"\n]*+"|'[^'\n]*+'|\([^()\n]*+\)))?[ \t\r]*+$)
      | (?P<import>import[ \t]++(?:[\w*$, \t]*(?:\{{[^{{}}]*+\}}[ \t]*+)?\bfrom[ \t]*+)?
            ["'][^"'\n]++["'][ \t]*+;?[ \t\r]*+$)
      | (?P<export>export[ \t]++(?:default|const|let|var|function|async|class|\*|\{{)(?=[^\n]*[={{(;*'"])[^\n]*+
            (?:\n(?![ \t\r]*+(?:\n|\Z))[^\n]*+)*+)
    )
  | (?<=<)(?:
        !--(?:[^-]++|-(?!->))*+(?:(?P<comment>-->)|\Z)
      | (?P<element>script|style)(?=[\s>]){_ATTRIBUTES}
            (?:(?P<empty>/>)|>(?:[^<]++|<(?!/(?P=element)\b))*+(?:(?P<script></(?P=element)\s*+>)|\Z))
      | (?P<tag>(?:(?<![A-Za-z0-9_]<)|(?={_AFTER_WORD}))/?(?:[A-Za-z][\w.:-]*+{_ATTRIBUTES})?/?>)
    )
  | (?<=\{{)(?:
        (?P<call>(?:\{{[^{{}}]*+\}}|%[^{{}}]*+(?<=%))\}})
      | /\*(?:[^*]++|\*(?!/\s*+\}}))*+(?:(?P<remark>\*/\s*+\}})|\Z)
      | (?P<attributes>:?[ \t]*+[#.][^{{}}\s]++(?:[ \t]++(?:[#.]|[\w-]++=)[^{{}}\s]++)*+[ \t]*+\}}(?=[ \t#]*+\r?$))
    )
  | (?<=\\)(?P<escape>[!-/:-@\[-`{{-~])
  | (?<=`)(?<!``)(?P<code>(?P<ticks>`{{0,{MAX_BACKTICKS - 1}}})(?!`)
        (?:[^`\n]++|\n(?![ \t>]*+(?:\r?\n|```|~~~|\#|\Z))|(?!`(?P=ticks)(?!`))`++)*+`(?P=ticks)(?!`))
    )""",
    re.VERBOSE | re.MULTILINE,
)
_TEXT = frozenset(("fence", "indented", "escape", "code", "element", None))
"""What is left as it is: code, and comments and scripts without an end."""

_VALUE = lazy_pattern(rf"""(?<![\w-])(?:{"|".join(READ_ATTRIBUTES)})\s*=\s*\{{?\s*(?:"([^"]*)"|'([^']*)')""")
_ARGUMENT = lazy_pattern(r""""([^"]*)"|'([^']*)'""")

_RST = lazy_pattern(
    r"\n([ \t]*+)\.\.(?:[ \t]++(?![_\[|]|[\w:.+-]+::)\S[^\n]*+(?:\n(?:[ \t\r]*+(?=\n)|\1[ \t]++[^\n]*+))*+|[ \t\r]*+$)",
    re.MULTILINE,
)
_NOT_LINE_END = lazy_pattern(r"[^\n\r]")


def _blank_indexed(match: re.Match[str]) -> str:
    if match.lastgroup in _TEXT:
        return match[0]
    is_word = match.lastgroup == "call" and not _is_alone_on_its_line(match)
    return _blank(match[0], _spans(_ARGUMENT, match[0])) if is_word else _blank_shown(match)


def _blank_shown(match: re.Match[str]) -> str:
    kind, source = match.lastgroup, match[0]
    if kind in _TEXT:
        return source
    kept = _spans(_VALUE, source) if kind in ("tag", "call") and "=" in source else []
    if kind == "call" and not kept and not _is_alone_on_its_line(match):
        kept = _spans(_ARGUMENT, source)
    return _blank(source, kept)


def _blank(source: str, kept: list[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in kept:
        parts += [_blanks(source[at:start]), source[start:end]]
        at = end
    return "".join((*parts, _blanks(source[at:])))


def _blanks(source: str) -> str:
    return _NOT_LINE_END.sub(" ", source) if "\n" in source or "\r" in source else " " * len(source)


def _spans(pattern: re.Pattern[str], source: str) -> list[tuple[int, int]]:
    return [match.span(match.lastindex or 0) for match in pattern.finditer(source)]


def _is_alone_on_its_line(match: re.Match[str]) -> bool:
    # Only so far to each side: a line may be a megabyte of calls.
    text, (start, end) = match.string, match.span()
    before = text[max(start - MAX_INDENT, 0) : start].rpartition("\n")[2]
    after = text[end : end + MAX_INDENT].partition("\n")[0]
    return not before.strip() and not after.strip()
