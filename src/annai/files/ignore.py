"""Which files do patterns exclude? The lines of a .gitignore, matched as git matches them.

git descends one level at a time: it reaches a path only if none of its folders is excluded. A line with a `/` is
matched against the whole path, any other against the last name only. Patterns that are a plain name, `*.ext` or
`prefix*` need no regular expression; nearly all lines of real ignore files are of these kinds.
"""

import logging
import re
import unicodedata
from collections.abc import Iterable, Sequence

from annai.errors import SkippedFile
from annai.files.inside import open_regular

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 200_000
"""No one writes a longer ignore file; the rest of one is not read: every line of it costs time for every file."""

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
        """Compile the lines; an invalid line is skipped with a warning that names its `origin`."""
        self._groups: list[_Group] = []
        for line in lines:
            try:
                self._add(_strip_line(line))
            except (ValueError, re.error) as error:
                logger.warning("%s: skipped the pattern %r: %s", origin, line, error)
        for group in self._groups:
            group.files.finish()
            group.folders.finish()

    def __bool__(self) -> bool:
        return bool(self._groups)

    def last_match(self, name: str, path: str, is_folder: bool) -> int:
        """A number that grows with the position of the last matching line; -1 if none matches.

        `path` is relative to the folder of the patterns, without a slash at either end; `name` is its last part.
        """
        # Every file of every search comes through here, so nothing is called that need not be.
        for index in range(len(self._groups) - 1, -1, -1):
            group = self._groups[index]
            matchers = group.folders if is_folder else group.files
            if (
                name in matchers.names
                or name.endswith(matchers.suffixes)
                or name.startswith(matchers.prefixes)
                or (matchers.regexes and any(regex.fullmatch(path) for regex in matchers.regexes))
            ):
                return index
        return -1

    @property
    def concern_files(self) -> bool:
        """Whether any line is about files, and not only about folders."""
        return any(group.files.is_used for group in self._groups)

    @property
    def certain_suffixes(self) -> tuple[str, ...]:
        """Ends of the names of files that are selected, whatever the other lines say."""
        return self._groups[-1].files.suffixes if self._groups and not self._groups[-1].negated else ()

    def selects(self, index: int) -> bool:
        """Whether what `last_match` returned selects the path; a line with `!` and -1 do not."""
        return index >= 0 and not self._groups[index].negated

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
        if not self._groups or self._groups[-1].negated != negated:
            self._groups.append(_Group(negated))
        self._groups[-1].add(pattern, folders_only)


def read_patterns(files: Sequence[str]) -> Patterns:
    """The lines of several ignore files, one after the other."""
    return Patterns([line for file in files for line in read_lines(file)], " and ".join(files))


def read_lines(file: str) -> list[str]:
    """The lines of an ignore file; a missing one has none."""
    try:
        # As in git, a symbolic link is not an ignore file: it could point anywhere.
        with open_regular(file) as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, SkippedFile):
        return []
    except OSError as error:
        logger.warning("cannot read %r (%s); its patterns are ignored", file, error.strerror)
        return []
    if len(data) > MAX_FILE_BYTES:
        logger.warning("%r is longer than %d bytes; the rest of it is ignored", file, MAX_FILE_BYTES)
        data = data[:MAX_FILE_BYTES].rpartition(b"\n")[0]
    return data.decode("utf-8-sig", errors="replace").split("\n")


class _Group:
    """Consecutive lines that are all negated or all not: their order does not matter."""

    __slots__ = ("files", "folders", "negated")

    def __init__(self, negated: bool) -> None:
        self.negated = negated
        self.files = _Matchers()
        self.folders = _Matchers()

    def add(self, pattern: str, folders_only: bool) -> None:
        self.folders.add(pattern)
        if not folders_only:
            self.files.add(pattern)


class _Matchers:
    """Patterns by the cheapest way to match them."""

    __slots__ = ("_ends", "_starts", "names", "prefixes", "regexes", "suffixes")

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.suffixes: tuple[str, ...] = ()
        self.prefixes: tuple[str, ...] = ()
        self.regexes: list[re.Pattern[str]] = []
        self._ends: list[str] = []
        self._starts: list[str] = []

    @property
    def is_used(self) -> bool:
        return bool(self.names or self.suffixes or self.prefixes or self.regexes)

    def add(self, pattern: str) -> None:
        anywhere = pattern.removeprefix("**/")
        if "/" in anywhere:
            self.regexes.append(re.compile(_translate(pattern.removeprefix("/")), re.DOTALL))
        elif not _SPECIAL.search(anywhere):
            self.names.add(anywhere)
        elif anywhere.startswith("*") and not _SPECIAL.search(anywhere, 1):
            self._ends.append(anywhere[1:])
        elif anywhere.endswith("*") and not _SPECIAL.search(anywhere[:-1]):
            self._starts.append(anywhere[:-1])
        else:
            self.regexes.append(re.compile(_translate("**/" + anywhere), re.DOTALL))

    def finish(self) -> None:
        """Once every pattern is added: tuples are what a name is compared with quickly, and slow to add to."""
        self.suffixes, self.prefixes = tuple({*self._ends}), tuple({*self._starts})


def _strip_line(line: str) -> str:
    """The line without its ending and without trailing spaces, unless a backslash escapes them."""
    line = line.removesuffix("\n").removesuffix("\r")
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and len(stripped) < len(line) else stripped


def _translate(pattern: str) -> str:
    """A regular expression for a pattern that is anchored at the folder of its file."""
    parts = pattern.split("/")
    last = len(parts) - 1
    sections = [""]
    for position, part in enumerate(parts):
        if len(part) > 1 and not part.strip("*"):
            # Two `**/` in a row mean the same as one.
            if position == last:
                sections[-1] += ".+"
            elif sections[-1] or len(sections) == 1:
                sections.append("")
        else:
            sections[-1] += _translate_part(part, is_last=position == last) + ("/" if position < last else "")
    if len(sections) == 1:
        return sections[0]
    # As between two stars: what is between two `**/` is matched where it first fits, without backtracking.
    first, *middle, end = sections
    return first + "".join(f"(?>(?:.*?/)??{each})" for each in middle) + "(?:.*/)?" + end


def _translate_part(part: str, *, is_last: bool) -> str:
    """A regular expression for the part between two slashes."""
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
                raise ValueError("nothing follows the last backslash")
            position += 1
        else:
            pieces[-1] += re.escape(character)
    if len(pieces) == 1:
        return pieces[0]
    # What is between two stars is matched at its first occurrence, without backtracking: no pattern is slow to fail.
    first, *middle, end = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle if piece) + "[^/]*" + end


def _translate_class(part: str, position: int) -> tuple[str, int]:
    """A regular expression for the bracket that opens before `position`, and the position after its end."""
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
        raise ValueError("a bracket is not closed")
    if negated:
        return f"[^/{items}]", position + 1
    return (f"(?!/)[{items}]" if items else "(?!)"), position + 1


def _class_character(part: str, position: int) -> tuple[str, int]:
    if part[position] == "\\":
        position += 1
        if position >= len(part):
            raise ValueError("a bracket is not closed")
    return part[position], position + 1
