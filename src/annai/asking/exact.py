"""What does an exact search look for? A string as it is typed, or between slashes a pattern; found line by line.

A line ends where annai ends lines everywhere (`text.lines`), so that `path:line` is one address. Patterns come from
strangers: RE2 looks for them, whose time grows with the text alone, and never Python's `re`, which one short pattern
can keep busy for ever.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from annai.definitions import lazy_pattern
from annai.errors import QueryError

_WORD = r"\pL\pM\p{Nl}\p{Nd}\p{Pc}\x{24b6}-\x{24e9}\x{200c}\x{200d}"
_SPACE = r"\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_CLASSES = {r"\w": _WORD, r"\s": _SPACE, r"\d": r"\p{Nd}"}
"""What ripgrep means by them, in every script; RE2 by itself means ASCII."""

_TOKEN = lazy_pattern(r"\\Q.*?(?:\\E|\Z)|\\.|\[:\^?\w+:\]|\[\^?\]?|.", re.DOTALL)
_PART = lazy_pattern(
    r"\\[pP](?:\{[^}]*\}|.)|\\(.)|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]?|\{[^}]*\}?|([^\\.^$*+?()\[{])|(.)", re.DOTALL
)
_UNPREDICTABLE = lazy_pattern(r"\||\(\?|\\[0-9xQ]")
_PLAIN = lazy_pattern(r"[^\\.^$*+?()\[\]{}|]+")


class Wanted:
    """What one exact search looks for. Raises `QueryError` for what cannot be looked for."""

    def __init__(self, text: str) -> None:
        if "\n" in text or "\r" in text:
            raise QueryError("An exact search looks inside lines", "leave out the line end.")
        body = text[1:-1] if len(text) > 2 and text[0] == text[-1] == "/" else ""
        is_pattern = bool(body) and not _PLAIN.fullmatch(body)
        self._pattern = _compile(body) if is_pattern else None
        self._held = (_required(body) if is_pattern else body or text).encode("utf-8", "surrogatepass")
        """What every line holds that is found."""

    def lines(self, text: bytes) -> Iterator[int]:
        """The numbers of the lines of a text, in UTF-8, that hold it, counted from 1."""
        if self._held not in text:
            return
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        number, start = 1, 0
        while start < len(text) and (found := self._find(text, start)) >= 0:
            number += text.count(b"\n", start, found)
            if found == len(text) and text.endswith(b"\n"):
                return  # What follows the last line end is no line.
            yield number
            end = text.find(b"\n", found)
            if end < 0:
                return
            number, start = number + 1, end + 1

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where a line holds it, in characters."""
        if self._pattern:
            return [match.span() for match in self._pattern.finditer(line) if match.end() > match.start()]
        return [match.span() for match in re.finditer(re.escape(self._held.decode("utf-8", "surrogatepass")), line)]

    def _find(self, text: bytes, start: int) -> int:
        if self._pattern is None:
            return text.find(self._held, start)
        match = self._pattern.search(text, start)
        return match.start() if match else -1


@lru_cache(maxsize=16)  # a search needs it several times
def _compile(pattern: str) -> Any:  # noqa: ANN401 - google-re2 has no types
    try:
        import re2  # an extra
    except ImportError as error:
        from annai.plugins import install_command  # needed only here

        raise QueryError(
            "Patterns need google-re2, which is not installed",
            f"run `{install_command('patterns')}`. A string without slashes around it needs nothing.",
        ) from error
    options = re2.Options()
    options.never_nl, options.never_capture, options.log_errors = True, True, False
    try:
        return re2.compile(f"(?m){_in_every_script(pattern)}", options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise QueryError(
            f"The pattern cannot be read ({reason})", "it takes RE2's syntax, without look-around and back-references."
        ) from error


def _in_every_script(pattern: str) -> str:
    r"""The pattern with the letters, digits and spaces of all scripts for `\w`, `\d` and `\s`.

    `\b`, and their opposites inside of brackets, stay those of ASCII: RE2 has no way to say more.
    """
    translated, is_inside = "", False
    for match in _TOKEN.finditer(pattern):
        part = match[0]
        members = _CLASSES.get(part.lower())
        if members and is_inside and part.islower():
            translated += members
        elif members and not is_inside:
            translated += f"[{'' if part.islower() else '^'}{members}]"
        else:
            translated += part
        is_inside = part != "]" and (is_inside or part.startswith("["))
    return translated


def _required(pattern: str) -> str:
    """The longest string that is surely in everything the pattern matches: most texts are passed over by it."""
    if _UNPREDICTABLE.search(pattern):
        return ""
    runs, depth = [""], 0
    for match in _PART.finditer(pattern):
        part, escaped, plain = match[0], match[1], match[2]
        depth += (part == "(") - (part == ")")
        character = plain or (escaped if escaped and not escaped.isalnum() else None)
        if character and not depth:
            runs[-1] += character
            continue
        if part[0] in "*?{":
            runs[-1] = runs[-1][:-1]  # The one before it may be missing.
        runs.append("")
    return max(runs, key=len)
