"""What changed on disk? Walk a folder by its rules and compare what is there with what the index knows."""

import errno
import logging
import os
import stat
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from annai.config import STATE_FOLDER
from annai.errors import CollectionError
from annai.files.ignore import Patterns, read_patterns
from annai.settings import Files
from annai.types import Change, ChangeKind, FileState

logger = logging.getLogger(__name__)

IGNORE_FILES = (".gitignore", ".annaiignore")
"""The later one has the last word where both speak of the same file."""
NEVER_ENTERED = frozenset({STATE_FOLDER, ".git"})


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that the settings ask for."""

    path: str
    """Relative to the source, `/`-separated, NFC."""
    file: str
    """Where it is on disk, spelled as the file system spells it."""
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What differs between a folder and the index."""

    changes: tuple[Change, ...]
    """In the order of their paths."""
    unchanged: int
    """How many known files are as they were, those included that could not be looked at."""
    total_bytes: int
    """The size of what is to be read: the new and the updated files."""
    unlisted: tuple[str, ...] = ()
    """Files and folders that could not be looked at."""


def scan(
    source: Path,
    settings: Files,
    known: Mapping[str, FileState],
    *,
    only: Sequence[str] | None = None,
) -> Scan:
    """Walk `source` and tell what changed since the index last saw it.

    With `only`, no more is looked at than these
    paths and what lies in them, by the same rules; `known` should then hold no more either. Raises `CollectionError`
    when the source itself cannot be listed; below it, what cannot be listed counts as unchanged.
    """
    walk = _Walk(source, settings, only)
    return compare(walk.files(), known, source=source, unlisted=walk.unlisted)


def compare(
    found: Iterable[FoundFile],
    known: Mapping[str, FileState],
    *,
    source: Path = Path(),
    unlisted: Sequence[str] = (),
) -> Scan:
    """Tell how the files found differ from the known ones.

    A known file that was not found is deleted, unless it is one of `unlisted` or lies in one of them: paths that
    could not be looked at. `source` only serves to say where a deleted file was.
    """
    changes: list[Change] = []
    unchanged = total_bytes = 0
    present = set()
    for item in found:
        present.add(item.path)
        kind = _kind(item, known.get(item.path))
        if kind is None:
            unchanged += 1
            continue
        same_hash = known[item.path].hash if kind is ChangeKind.TOUCHED else ""
        changes.append(Change(kind, item.path, Path(item.file), item.size, item.mtime_ns, same_hash))
        if kind is not ChangeKind.TOUCHED:
            total_bytes += item.size
    hidden = tuple(f"{path}/" for path in unlisted)
    for path in known.keys() - present:
        if f"{path}/".startswith(hidden):
            unchanged += 1
        else:
            changes.append(Change(ChangeKind.DELETED, path, source / path))
    changes.sort(key=lambda change: change.path)
    return Scan(tuple(changes), unchanged, total_bytes, tuple(unlisted))


def _kind(item: FoundFile, state: FileState | None) -> ChangeKind | None:
    """What happened to a file that is there; None if nothing did."""
    if state is None:
        return ChangeKind.NEW
    if state.problem is not None and state.problem.kind == "failed":
        return ChangeKind.UPDATED
    if item.size != state.size:
        return ChangeKind.UPDATED
    if item.mtime_ns == state.mtime_ns:
        return None
    same = state.hash and _hash(item.file) == state.hash
    return ChangeKind.TOUCHED if same else ChangeKind.UPDATED


def _hash(file: str) -> str:
    """SHA-256 of the file's bytes; empty if they cannot be read, which the reader will then explain."""
    import hashlib  # OpenSSL takes milliseconds to load, and most scans hash nothing

    try:
        with open(file, "rb") as stream:  # noqa: PTH123 - the walk keeps plain strings for speed
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


class _Rules(NamedTuple):
    """The ignore files of one folder."""

    patterns: Patterns
    cut: int
    """How much of a path from the top of the repository leads to that folder."""


class _Folder(NamedTuple):
    """A folder to be listed."""

    file: str
    """Where it is on disk."""
    path: str
    """Its path from the source with a slash at the end; empty for the source."""
    real: str
    """Where it is on disk without symbolic links."""
    rules: tuple[_Rules, ...]
    """The ignore files that count for it, from the outermost to the innermost."""
    included: int
    """What the include patterns said of it or of a folder above it: see `Patterns.last`."""
    whole: bool
    """Whether all of it is looked at, or only what leads to the paths asked for."""


class _Walk:
    """One walk through a source, or through the parts of it that hold the paths asked for."""

    def __init__(self, source: Path, settings: Files, only: Sequence[str] | None = None) -> None:
        self._only = None if only is None else frozenset(only)
        self._on_the_way = {path[:end] for path in self._only or () for end in _slashes(path)}
        self.unlisted: list[str] = []
        """Paths that could not be looked at."""
        self._source = source
        self._real_source = os.path.realpath(source)
        self._settings = settings
        self._include = Patterns(settings.include, "files.include")
        self._exclude = Patterns(settings.exclude, "files.exclude")
        self._trunk = ""
        """The path that leads from the top of the git repository to the source."""
        self._found: list[FoundFile] = []
        self._links: list[tuple[str, str, _Folder]] = []
        self._pending: list[_Folder] = []
        self._entered: set[str] = set()

    def files(self) -> list[FoundFile]:
        """Walk, and return what was found in the order of the paths."""
        rules = self._rules_above() if self._settings.respect_gitignore else ()
        start = _Folder(os.fspath(self._source), "", self._real_source, rules, -1, whole=self._only is None)
        self._pending.append(start)
        while self._pending:
            self._list(self._pending.pop())
            # Links wait until all else is done, so that a folder is found under its own name rather than a link's.
            if not self._pending and self._links:
                self._links.sort(reverse=True)
                self._follow(*self._links.pop())
        self._found.sort(key=lambda item: (item.path, item.file))
        result: list[FoundFile] = []
        for item in self._found:
            if result and result[-1].path == item.path:
                logger.warning("%r is left out: its name is the same as that of %r", item.file, result[-1].file)
            else:
                result.append(item)
        return result

    def _list(self, folder: _Folder) -> None:
        """Sort the entries of one folder into files, folders and links."""
        if folder.real in self._entered:
            return
        try:
            with os.scandir(folder.file) as iterator:
                entries = list(iterator)
        except OSError as error:
            self._cannot_list(folder, error)
            return
        if self._settings.follow_symlinks:
            self._entered.add(folder.real)
        if self._settings.respect_gitignore:
            folder = self._with_rules(folder, entries)
        for entry in entries:
            name = entry.name if entry.name.isascii() else _storable_name(entry)
            path = folder.path + name
            if not name or not (folder.whole or self._leads_on(path)):
                continue
            if entry.is_symlink():
                if self._settings.follow_symlinks:
                    self._links.append((path, entry.path, folder))
            elif entry.is_dir(follow_symlinks=False):
                if self._enters(name, path, folder):
                    real = f"{folder.real}/{entry.name}"
                    self._pending.append(self._below(name, path, folder, entry.path, real))
            elif entry.is_file(follow_symlinks=False) and self._wants(name, path, folder):
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    self._cannot_look(path, entry.path, error)
                    continue
                self._found.append(FoundFile(path, entry.path, status.st_size, status.st_mtime_ns))

    def _with_rules(self, folder: _Folder, entries: Sequence[os.DirEntry[str]]) -> _Folder:
        """The folder with the ignore files that it holds itself."""
        present = {entry.name: entry.path for entry in entries if entry.name in IGNORE_FILES}
        patterns = read_patterns([present[name] for name in IGNORE_FILES if name in present]) if present else None
        if not patterns:
            return folder
        return folder._replace(rules=(*folder.rules, _Rules(patterns, len(self._trunk + folder.path))))

    def _follow(self, path: str, file: str, folder: _Folder) -> None:
        """Look where a link leads, and take what it leads to if that is inside the source."""
        name = path.rpartition("/")[2]
        real = os.path.realpath(file)
        inside = real.removeprefix(self._real_source.rstrip(os.sep) + os.sep)
        if inside == real or not NEVER_ENTERED.isdisjoint(Path(inside).parts):
            return
        try:
            status = Path(real).stat()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.ELOOP:
                self._cannot_look(path, file, error)
            return
        if stat.S_ISDIR(status.st_mode):
            if real not in self._entered and self._enters(name, path, folder):
                self._pending.append(self._below(name, path, folder, file, real))
        elif stat.S_ISREG(status.st_mode) and self._wants(name, path, folder):
            self._found.append(FoundFile(path, file, status.st_size, status.st_mtime_ns))

    def _leads_on(self, path: str) -> bool:
        return path in self._on_the_way or (self._only is not None and path in self._only)

    def _below(self, name: str, path: str, folder: _Folder, file: str, real: str) -> _Folder:
        included = max(folder.included, self._include.last(name, path, folder=True))
        whole = folder.whole or (self._only is not None and path in self._only)
        return _Folder(file, f"{path}/", real, folder.rules, included, whole)

    def _enters(self, name: str, path: str, folder: _Folder) -> bool:
        return name not in NEVER_ENTERED and not self._leaves_out(name, path, folder, is_folder=True)

    def _wants(self, name: str, path: str, folder: _Folder) -> bool:
        included = max(folder.included, self._include.last(name, path, folder=False))
        return self._include.selects(included) and not self._leaves_out(name, path, folder, is_folder=False)

    def _leaves_out(self, name: str, path: str, folder: _Folder, *, is_folder: bool) -> bool:
        """Whether the exclude patterns or the ignore files leave out a file or folder of `folder`."""
        if self._exclude.selects(self._exclude.last(name, path, is_folder)):
            return True
        for rules in reversed(folder.rules):
            last = rules.patterns.last(name, (self._trunk + path)[rules.cut :], is_folder)
            if last >= 0:
                return rules.patterns.selects(last)
        return False

    def _rules_above(self) -> tuple[_Rules, ...]:
        """The ignore files above the source, up to the root of its git repository."""
        real = Path(self._real_source)
        for top in (real, *real.parents):
            if os.path.lexists(top / ".git"):
                break
        else:
            return ()
        way = real.relative_to(top).parts
        self._trunk = unicodedata.normalize("NFC", "".join(f"{part}/" for part in way))
        rules: list[_Rules] = []
        for depth in range(len(way)):
            above = top.joinpath(*way[:depth])
            cut = len(unicodedata.normalize("NFC", "".join(f"{part}/" for part in way[:depth])))
            rules.append(_Rules(read_patterns([str(above / name) for name in IGNORE_FILES]), cut))
        return tuple(rules)

    def _cannot_list(self, folder: _Folder, error: OSError) -> None:
        if folder.path:
            self._cannot_look(folder.path.removesuffix("/"), folder.file, error)
        elif isinstance(error, FileNotFoundError):
            raise CollectionError(
                f"There is no folder {self._source}; bring it back, or give the collection another one."
            ) from error
        else:
            raise CollectionError(
                f"{self._source} cannot be listed ({(error.strerror or str(error)).lower()}); "
                "correct that, or give the collection another folder."
            ) from error

    def _cannot_look(self, path: str, file: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            logger.warning("%r cannot be looked at (%s); what is known of it is kept", file, error.strerror)
            self.unlisted.append(path)


def _slashes(path: str) -> list[int]:
    return [place for place, character in enumerate(path) if character == "/"]


def _storable_name(entry: os.DirEntry[str]) -> str:
    """The name in NFC, whatever the locale; empty, with a warning, if it is not Unicode and cannot be stored."""
    try:
        name = os.fsencode(entry.name).decode("utf-8") if os.name == "posix" else entry.name
        name.encode("utf-8")
    except UnicodeError:
        logger.warning("%r is left out: its name is not valid UTF-8; rename it to have it indexed", entry.path)
        return ""
    return unicodedata.normalize("NFC", name)
