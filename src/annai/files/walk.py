"""Which files does a folder hold? Walks through it by the include and exclude patterns, ignore files and links."""

import errno
import logging
import os
import stat
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from annai.errors import CollectionError
from annai.files.ignore import Patterns, read_patterns
from annai.files.inside import allowed_roots, lies_in
from annai.files.kinds import suffix_of
from annai.settings import Files
from annai.state import OLD_STATE_FOLDER

logger = logging.getLogger(__name__)

IGNORE_FILES = (".gitignore", ".annaiignore")
"""Where both have a pattern for a file, the later one decides."""

MAX_TIME_NS = 2**63 - 1

SECOND_NS, COARSE_NS = 10**9, 3 * 10**9
"""FAT keeps times in steps of two seconds; one more, since its clock is not this one's."""

SKIPPED_FOLDERS = frozenset({OLD_STATE_FOLDER, ".git"})


OnFolder = Callable[[str, str], None]
"""Called with every folder before it is listed: its path with a slash at the end, empty for the source, and on disk."""


def ignore(path: str, folder: str) -> None:
    """Do nothing with a folder."""


class ScannedFile(NamedTuple):
    """A file that the settings include."""

    path: str
    """Relative to the source, `/`-separated, NFC."""
    file: str
    """Its path on disk, spelled as the file system spells it."""
    size: int
    mtime_ns: int
    ctime_ns: int = 0


class _Rules(NamedTuple):
    """The ignore files of one folder."""

    patterns: Patterns
    prefix_length: int
    """How many characters of a path from the root of the repository lead to that folder."""


class Folder(NamedTuple):
    """A folder to list."""

    file: str
    """Its path on disk."""
    path: str
    """Its path from the source with a slash at the end; empty for the source."""
    real: str
    """Its path on disk without symbolic links."""
    rules: tuple[_Rules, ...]
    """The ignore files that apply to it, from the outermost to the innermost."""
    included: int
    """What the include patterns say about it or a folder above it: see `Patterns.last_match`."""
    is_requested: bool
    """Whether everything in it is scanned, or only what leads to the requested paths."""


class Walk:
    """One walk through a source, or through the parts of it that lead to the requested paths."""

    def __init__(
        self,
        source: Path,
        settings: Files,
        only: Sequence[str] | None = None,
        without: Sequence[Path] = (),
        on_folder: OnFolder = ignore,
    ) -> None:
        # A path that is not in NFC is one of two files whose names are the same in NFC: only both show that.
        self._requested = None if only is None else frozenset(only).union(unicodedata.normalize("NFC", p) for p in only)
        self._parents = {path[:end] for path in self._requested or () for end in _slashes(path)}
        """The folders that lead to the requested paths."""
        self.inaccessible: list[str] = []
        """Paths that could not be accessed."""
        self._source = source
        self._real_source = os.path.realpath(source)
        self._settings = settings
        self._include = Patterns(settings.include, "files.include")
        self._certain_suffixes = self._include.certain_suffixes
        self._exclude = Patterns(settings.exclude, "files.exclude")
        self._excludes_files = self._exclude.concern_files
        self._prefix = ""
        """The path from the root of the git repository to the source, with a slash at the end."""
        self._files: list[ScannedFile] = []
        self._roots = allowed_roots(self._real_source, settings.linked_folders)
        self._follows_links = settings.follow_symlinks or len(self._roots) > 1
        self._links: list[tuple[str, str, Folder]] = []
        """Those to follow, the first by path at hand."""
        self._ignored_links: list[tuple[str, str, Folder]] = []
        self._pending: list[Folder] = []
        self._visited: set[str] = set()
        self._others: list[tuple[str, str, Folder]] = []
        """Files that no include pattern selects: name, path and folder."""
        self._on_folder = on_folder
        self._without = frozenset(os.path.realpath(folder) for folder in without)

    def files(self) -> list[ScannedFile]:
        """Walk, and return the files, each under a path of its own."""
        rules = self._parent_rules() if self._settings.respect_gitignore else ()
        start = Folder(os.fspath(self._source), "", self._real_source, rules, -1, is_requested=self._requested is None)
        self._pending.append(start)
        while self._pending or self._links:
            if self._pending:
                self._list(self._pending.pop())
                continue
            # Links come last, so that a folder is found under its own path rather than a link's.
            self._follow(*heappop(self._links))
        if len({item.path for item in self._files}) == len(self._files):
            return self._files
        # Of files whose names are the same in NFC, one that is spelled so comes first.
        self._files.sort(key=lambda item: (item.path, not item.file.endswith(item.path), item.file))
        result: dict[str, ScannedFile] = {}
        for item in self._files:
            # The others keep their own spelling: by it the reader skips them, and says why.
            path = item.path if item.path not in result else self._own_spelling(item.file)
            if path in result:
                logger.warning("skipped %r: its name is the same as that of %r", item.file, result[path].file)
            result.setdefault(path, item if path == item.path else item._replace(path=path))
        return list(result.values())

    def _own_spelling(self, file: str) -> str:
        return _decoded(os.path.relpath(file, self._source)).replace(os.sep, "/")

    def _list(self, folder: Folder) -> None:
        """Sort the entries of one folder into files, folders and links."""
        if folder.real in self._visited or (self._without and os.path.normpath(folder.real) in self._without):
            return
        self._on_folder(folder.path, folder.file)
        try:
            with os.scandir(folder.file) as iterator:
                entries = list(iterator)
        except OSError as error:
            self._handle_unlistable(folder, error)
            return
        if self._follows_links:
            self._visited.add(folder.real)
        if self._settings.respect_gitignore:
            folder = self._add_own_rules(folder, entries)
        # Every file of every search comes through here: nothing is looked up or called for one that need not be.
        certain_suffixes = () if self._excludes_files or folder.rules else self._certain_suffixes
        above, is_requested, add = folder.path, folder.is_requested, self._files.append
        for entry in entries:
            name = name if (name := entry.name).isascii() else storable_name(name)
            path = above + name
            if not (is_requested or self._leads_to_requested(path)):
                continue
            # Most entries are files.
            if entry.is_file(follow_symlinks=False):
                if not name.endswith(certain_suffixes) and not self._should_include(name, path, folder):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    self._handle_inaccessible(path, entry.path, error)
                    continue
                written, changed = file_times(status)
                add(ScannedFile(path, entry.path, status.st_size, written, changed))
            elif entry.is_symlink():
                link = (path, entry.path, folder)
                heappush(self._links, link) if self._follows_links else self._ignored_links.append(link)
            elif entry.is_dir(follow_symlinks=False) and self._should_enter(name, path, folder):
                real = f"{folder.real}/{entry.name}"
                self._pending.append(self._subfolder(name, path, folder, entry.path, real))

    def _add_own_rules(self, folder: Folder, entries: Sequence[os.DirEntry[str]]) -> Folder:
        """The folder with its own ignore files added to its rules."""
        names = [entry.name for entry in entries]
        present = [entries[names.index(name)].path for name in IGNORE_FILES if name in names]
        patterns = read_patterns(present) if present else None
        if not patterns:
            return folder
        return folder._replace(rules=(*folder.rules, _Rules(patterns, len(self._prefix + folder.path))))

    def _follow(self, path: str, file: str, folder: Folder) -> None:
        """Resolve a link, and include its target if it may be followed there."""
        real = os.path.realpath(file)
        root = next((root for root in self._roots if lies_in(real, root) and real != self._real_source), None)
        is_followed = root is not None and (self._settings.follow_symlinks or root != self._real_source)
        if not is_followed:
            self._ignored_links.append((path, file, folder))
            return
        if not SKIPPED_FOLDERS.isdisjoint(Path(os.path.relpath(real, root)).parts):
            return
        try:
            status = Path(real).stat()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.ELOOP:
                self._handle_inaccessible(path, file, error)
            return
        name = path.rpartition("/")[2]
        if stat.S_ISDIR(status.st_mode):
            if real not in self._visited and self._should_enter(name, path, folder):
                self._pending.append(self._subfolder(name, path, folder, file, real))
        elif stat.S_ISREG(status.st_mode) and self._should_include(name, path, folder):
            self._files.append(ScannedFile(path, file, status.st_size, *file_times(status)))

    def ignored_links(self) -> Counter[str]:
        """How many links were not followed that no rule excludes, by what would make annai follow them."""
        remedies = Counter[str]()
        others = len(self._others)
        for path, file, folder in self._ignored_links:
            name = path.rpartition("/")[2]
            is_folder, is_file = os.path.isdir(file), os.path.isfile(file)  # noqa: PTH112, PTH113 - errors are no
            if (is_folder and self._should_enter(name, path, folder)) or (
                is_file and self._should_include(name, path, folder)
            ):
                is_inside = lies_in(os.path.realpath(file), self._real_source)
                remedies["files.follow_symlinks" if is_inside else "files.linked_folders"] += 1
        del self._others[others:]  # A link counts once.
        return remedies

    def _leads_to_requested(self, path: str) -> bool:
        return path in self._parents or (self._requested is not None and path in self._requested)

    def _subfolder(self, name: str, path: str, folder: Folder, file: str, real: str) -> Folder:
        included = max(folder.included, self._include.last_match(name, path, is_folder=True))
        is_requested = folder.is_requested or (self._requested is not None and path in self._requested)
        return Folder(file, f"{path}/", real, folder.rules, included, is_requested)

    def _should_enter(self, name: str, path: str, folder: Folder) -> bool:
        return name not in SKIPPED_FOLDERS and not self._is_excluded(name, path, folder, is_folder=True)

    def _should_include(self, name: str, path: str, folder: Folder) -> bool:
        if not name.endswith(self._certain_suffixes):
            included = max(self._include.last_match(name, path, False), folder.included)
            if not self._include.selects(included) and not self._is_included_in_lower_case(name, path, folder):
                self._others.append((name, path, folder))
                return False
        return not (self._excludes_files or folder.rules) or not self._is_excluded(name, path, folder, is_folder=False)

    def _is_included_in_lower_case(self, name: str, path: str, folder: Folder) -> bool:
        """Whether a file would be included if the ending of its name were in lower case: `Report.PDF`."""
        stem, dot, suffix = path.rpartition(".")
        if not dot or suffix.islower() or "/" in suffix:
            return False
        name = name.rpartition(".")[0] + dot + suffix.lower()
        included = self._include.last_match(name, stem + dot + suffix.lower(), False)
        return self._include.selects(max(included, folder.included))

    def left_out(self) -> Counter[str]:
        """How many files of each kind no include pattern selects and no rule excludes; hidden ones do not count."""
        shown = (each for each in self._others if not each[0].startswith("."))
        read = (each for each in shown if not self._is_excluded(*each, is_folder=False))
        return Counter(suffix_of(path) for _, path, _ in read)

    def _is_excluded(self, name: str, path: str, folder: Folder, *, is_folder: bool) -> bool:
        """Whether the exclude patterns or the ignore files exclude a file or folder of `folder`."""
        if (is_folder or self._excludes_files) and self._exclude.selects(
            self._exclude.last_match(name, path, is_folder)
        ):
            return True
        for rules in reversed(folder.rules):
            last = rules.patterns.last_match(name, (self._prefix + path)[rules.prefix_length :], is_folder)
            if last >= 0:
                return rules.patterns.selects(last)
        return False

    def _parent_rules(self) -> tuple[_Rules, ...]:
        """The ignore files above the source, up to the root of its git repository."""
        real = Path(self._real_source)
        for root in (real, *real.parents):
            if os.path.lexists(root / ".git"):
                break
        else:
            return ()
        parts = real.relative_to(root).parts
        self._prefix = unicodedata.normalize("NFC", "".join(f"{part}/" for part in parts))
        rules: list[_Rules] = []
        for depth in range(len(parts)):
            above = root.joinpath(*parts[:depth])
            prefix_length = len(unicodedata.normalize("NFC", "".join(f"{part}/" for part in parts[:depth])))
            rules.append(_Rules(read_patterns([str(above / name) for name in IGNORE_FILES]), prefix_length))
        return tuple(rules)

    def _handle_unlistable(self, folder: Folder, error: OSError) -> None:
        if folder.path:
            self._handle_inaccessible(folder.path.removesuffix("/"), folder.file, error)
        elif isinstance(error, FileNotFoundError):
            raise CollectionError(
                f"There is no folder {self._source}", "restore it, or give the collection another one."
            ) from error
        else:
            raise CollectionError(
                f"{self._source} cannot be listed ({(error.strerror or str(error)).lower()})",
                "fix that, or give the collection another folder.",
            ) from error

    def _handle_inaccessible(self, path: str, file: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            logger.warning("cannot access %r (%s); its last indexed state stays", file, error.strerror)
            self.inaccessible.append(path)


def _slashes(path: str) -> list[int]:
    return [index for index, character in enumerate(path) if character == "/"]


def storable_name(name: str) -> str:
    """The name in NFC, whatever the locale."""
    return unicodedata.normalize("NFC", _decoded(name))


def _decoded(name: str) -> str:
    """The name as text; bytes that are not UTF-8 are escaped, and the reader skips a file whose name has some."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def file_times(status: os.stat_result) -> tuple[int, int]:
    """When a file's content changed, as far as its owner says, and when it or its status did; 0 if nobody knows.

    A time before 1678 or after 2262, which 64 bits do not hold, is the nearest one that they do.
    """
    # On Windows it is the time when the file was made.
    written, changed = status.st_mtime_ns, 0 if os.name == "nt" else status.st_ctime_ns
    if -MAX_TIME_NS <= written <= MAX_TIME_NS and -MAX_TIME_NS <= changed <= MAX_TIME_NS:
        return written, changed
    return _clamp(written), _clamp(changed)


def is_certain(mtime_ns: int) -> bool:
    """Whether a file that is written again would have another time.

    Where times are whole seconds, or every second one as on FAT, one that was written just now might not.
    """
    return mtime_ns % SECOND_NS != 0 or time.time_ns() - mtime_ns > COARSE_NS


def _clamp(time_ns: int) -> int:
    return max(-MAX_TIME_NS, min(time_ns, MAX_TIME_NS))
