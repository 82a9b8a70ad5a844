"""How much of a text only leads elsewhere? Link lists hold the words of many questions and answer none."""

import re

from annai.definitions import lazy_pattern

# Each begins with one of a few characters, and what a pattern may begin with is looked for once: that is quick.
_LINK = lazy_pattern(
    r"[\[`:{h](?:"
    r"(?<=\[)(?P<text>[^\[\]]{0,500})\](?:\([^()\s]{0,2000}(?:\s+\"[^\"]{0,500}\")?\)|\[[^\[\]]{0,500}\])"  # Markdown
    r"|(?<=`)(?P<label>[^`<>]{1,500})<[^<>`]{1,2000}>`_{0,2}|(?<=:)[\w:]{1,50}:`(?P<role>[^`<>]{1,500})`"  # reST
    r"|(?<=\{)(?:\w{1,50}\}`(?P<myst>[^`<>]{1,500})`|\{[^{}]{1,500}\}\})|(?<=h)ttps?://[^\s<>)]{1,2000})"
)
"""A link, and what it shows; a template call or a bare address shows one word."""

_FRAME = lazy_pattern(r"\n[ \t]*(?:#+ .*|\.\. .*|:\w[\w-]*:.*|<[^<>\n]*>|[-=~^]{3,})(?=\n)")
"""Lines that frame a text: headings, directives with their options, tags and rules."""

_MARK = lazy_pattern(r"\][(\[]|[:>}]`|\{\{|://")
"""What every link has."""

_WORD = lazy_pattern(r"[A-Za-z0-9]+|[^\W\dA-Za-z_]")
_NO_WORD = {code: " " for code in range(128) if not chr(code).isalnum()}


def link_share(text: str) -> float:
    """The share of a text's words that are in links."""
    if not _MARK.search(text):
        return 0.0
    linked = 0

    def take(match: re.Match[str]) -> str:
        nonlocal linked
        shown = next(filter(None, match.groups()), "")
        linked += max(_count_words(shown), 1)
        return " "

    rest = _count_words(_LINK.sub(take, _FRAME.sub("\n", f"\n{text}\n")))
    return linked / max(linked + rest, 1)


def _count_words(text: str) -> int:
    # Most texts are ASCII, where this takes a third of the time.
    return len(text.translate(_NO_WORD).split()) if text.isascii() else len(_WORD.findall(text))
