"""Which files do patterns leave out? The lines of a .gitignore, matched with git's meaning.

git looks at one level at a time: a path is reached only when none of its folders was left out, and a line is held
against the whole path or, if it has no `/`, against the last name alone. Patterns that are a plain name, `*.ext` or
`prefix*` are looked up without a regular expression; nearly all lines of real ignore files are of that kind.
"""

import logging
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence

logger = logging.getLogger(__name__)

MAX_BYTES = 1_000_000
"""No person writes a longer ignore file; what follows in one is not read."""

_SPECIAL = re.compile(r"[*?\[\\]")
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"),
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class Patterns:
    """A list of pattern lines; where several match, the last one decides."""

    def __init__(self, lines: Iterable[str], origin: str) -> None:
        """Compile the lines; a line that makes no sense is skipped with a warning that names its `origin`."""
        self._runs: list[_Run] = []
        for line in lines:
            try:
                self._add(_strip(line))
            except (ValueError, re.error) as error:
                logger.warning("%s: the pattern %r is skipped: %s", origin, line, error)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def last(self, name: str, path: str, folder: bool) -> int:
        """A number that grows with the position of the last line that matches; -1 if none does.

        `path` is relative to the folder of the patterns, without a slash at either end, and `name` its last part.
        """
        index = len(self._runs)
        while index:
            index -= 1
            if self._runs[index].matches(name, path, folder):
                return index
        return -1

    def selects(self, index: int) -> bool:
        """Whether the line `last` spoke of selects what it matches; a line with `!` and -1 do not."""
        return index >= 0 and not self._runs[index].negated

    def _add(self, line: str) -> None:
        if not line or line.startswith("#"):
            return
        negated = line.startswith("!")
        pattern = line[negated:]
        folders_only = pattern.endswith("/")
        if folders_only:
            pattern = pattern[:-1]
        if not pattern:
            return
        if not pattern.isascii():
            pattern = unicodedata.normalize("NFC", pattern)
        if not self._runs or self._runs[-1].negated != negated:
            self._runs.append(_Run(negated))
        self._runs[-1].add(pattern, folders_only)


def read_patterns(files: Sequence[str]) -> Patterns:
    """The lines of some ignore files, one after the other; a file that is not there has none."""
    lines: list[str] = []
    for file in files:
        try:
            # As git does, a link is not taken for an ignore file: it could lead anywhere.
            if not stat.S_ISREG(os.lstat(file).st_mode):
                continue
            with open(file, "rb") as stream:  # noqa: PTH123 - the walk keeps plain strings for speed
                data = stream.read(MAX_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            logger.warning("%r cannot be read (%s); its patterns do not count", file, error.strerror)
            continue
        if len(data) > MAX_BYTES:
            logger.warning("%r is longer than %d bytes; the rest of it does not count", file, MAX_BYTES)
            data = data[:MAX_BYTES].rpartition(b"\n")[0]
        lines += data.decode("utf-8-sig", errors="replace").split("\n")
    return Patterns(lines, " and ".join(files))


class _Run:
    """Neighbouring lines that are all negated or all not: their order among themselves makes no difference."""

    __slots__ = ("files", "folders", "negated")

    def __init__(self, negated: bool) -> None:
        self.negated = negated
        self.files = _Matchers()
        self.folders = _Matchers()

    def add(self, pattern: str, folders_only: bool) -> None:
        self.folders.add(pattern)
        if not folders_only:
            self.files.add(pattern)

    def matches(self, name: str, path: str, folder: bool) -> bool:
        matchers = self.folders if folder else self.files
        return (
            name in matchers.names
            or name.endswith(matchers.suffixes)
            or name.startswith(matchers.prefixes)
            or (bool(matchers.regexes) and any(regex.fullmatch(path) for regex in matchers.regexes))
        )


class _Matchers:
    """Patterns sorted by the cheapest way to match them."""

    __slots__ = ("names", "prefixes", "regexes", "suffixes")

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.suffixes: tuple[str, ...] = ()
        self.prefixes: tuple[str, ...] = ()
        self.regexes: list[re.Pattern[str]] = []

    def add(self, pattern: str) -> None:
        anywhere = pattern.removeprefix("**/")
        if "/" in anywhere:
            self.regexes.append(re.compile(_translate(pattern.removeprefix("/")), re.DOTALL))
        elif not _SPECIAL.search(anywhere):
            self.names.add(anywhere)
        elif anywhere.startswith("*") and not _SPECIAL.search(anywhere, 1):
            self.suffixes += (anywhere[1:],)
        elif anywhere.endswith("*") and not _SPECIAL.search(anywhere[:-1]):
            self.prefixes += (anywhere[:-1],)
        else:
            self.regexes.append(re.compile(_translate("**/" + anywhere), re.DOTALL))


def _strip(line: str) -> str:
    """The line without its ending and without trailing spaces, unless a backslash keeps them."""
    line = line.removesuffix("\n").removesuffix("\r")
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and len(stripped) < len(line) else stripped


def _translate(pattern: str) -> str:
    """A regular expression for a pattern that is anchored at the folder of its file."""
    parts = pattern.split("/")
    last = len(parts) - 1
    result = ""
    for position, part in enumerate(parts):
        if len(part) > 1 and not part.strip("*"):
            # Two of `**/` in a row mean no more than one, and would make matching slow.
            if position == last:
                result += ".+"
            elif not result.endswith("(?:.*/)?"):
                result += "(?:.*/)?"
        else:
            result += _translate_part(part, is_last=position == last) + ("/" if position < last else "")
    return result


def _translate_part(part: str, *, is_last: bool) -> str:
    """A regular expression for what stands between two slashes."""
    pieces = [""]
    position = 0
    while position < len(part):
        character = part[position]
        position += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            expression, position = _translate_class(part, position)
            pieces[-1] += expression
        elif character == "\\":
            if position < len(part):
                pieces[-1] += re.escape(part[position])
            elif is_last:
                raise ValueError("nothing follows its last backslash")
            position += 1
        else:
            pieces[-1] += re.escape(character)
    if len(pieces) == 1:
        return pieces[0]
    # What lies between two stars may be taken at its first occurrence for good: no pattern can be slow to fail.
    first, *middle, end = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle if piece) + "[^/]*" + end


def _translate_class(part: str, position: int) -> tuple[str, int]:
    """A regular expression for the bracket opened before `position`, and the position after its end."""
    negated = part[position : position + 1] in ("!", "^")
    position += negated
    first = position
    items = ""
    while position < len(part) and (part[position] != "]" or position == first):
        named = re.compile(r"\[:(\w*):\]").match(part, position)
        if named:
            if named[1] not in _CLASSES:
                raise ValueError(f"there is no class [:{named[1]}:]")
            items += _CLASSES[named[1]]
            position = named.end()
            continue
        low, position = _class_character(part, position)
        high = low
        if part[position : position + 1] == "-" and part[position + 1 : position + 2] not in ("", "]"):
            high, position = _class_character(part, position + 1)
        if low <= high:
            items += f"{re.escape(low)}-{re.escape(high)}"
    if position >= len(part):
        raise ValueError("its bracket is not closed")
    if negated:
        return f"[^/{items}]", position + 1
    return (f"(?!/)[{items}]" if items else "(?!)"), position + 1


def _class_character(part: str, position: int) -> tuple[str, int]:
    if part[position] == "\\":
        position += 1
        if position >= len(part):
            raise ValueError("its bracket is not closed")
    return part[position], position + 1
