"""What changed on disk? Compares the files of a folder with what the index knows of them."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from annai.definitions import dataclass
from annai.errors import ReadError
from annai.files.inside import open_inside
from annai.files.kinds import EXTRAS, missing_extra, suffix_of
from annai.files.walk import OnFolder, ScannedFile, Walk, file_times, ignore, is_certain
from annai.plugins import install_command
from annai.settings import Files
from annai.types import LINK, Change, ChangeKind, FileState, LeftOut


@dataclass(frozen=True, slots=True)
class Scan:
    """What differs between a folder and the index."""

    changes: tuple[Change, ...]
    """In the order of their paths."""
    unchanged: int
    """How many known files did not change, including those that could not be accessed."""
    total_bytes: int
    """The size of the files to read: the new and the updated ones."""
    inaccessible: tuple[str, ...] = ()
    """Paths of files and folders that could not be accessed."""
    left_out: tuple[LeftOut, ...] = ()
    """The files that no rule excludes and annai does not read, if they were to be counted."""


def scan(
    source: Path,
    settings: Files,
    known: Mapping[str, FileState],
    *,
    only: Sequence[str] | None = None,
    without: Sequence[Path] = (),
    count_left_out: bool = False,
    on_folder: OnFolder = ignore,
) -> Scan:
    """Walk `source` and return what changed since the index last saw it.

    With `only`, just these paths and everything below them are scanned, by the same rules; `known` should then have
    just these too. The folders `without` are as if they were not there. Raises `CollectionError` if the source itself
    cannot be listed; a folder below it that cannot be listed counts as unchanged. A new file that needs an extra which
    is not installed is left out; one that was read while the extra was there stays in the index.
    """
    walk = Walk(source, settings, only, without, on_folder)
    found, lacking = _readable(walk.files(), known)
    compared = compare(source, found, known, inaccessible=walk.inaccessible, linked=settings.linked_folders)
    return replace(compared, left_out=_left_out(walk, lacking)) if count_left_out else compared


def left_out(source: Path, settings: Files, known: Container[str], *, without: Sequence[Path] = ()) -> list[LeftOut]:
    """The files that no rule excludes and annai does not read: first those that an extra would read, then the most."""
    walk = Walk(source, settings, None, without)
    return [*_left_out(walk, _readable(walk.files(), known)[1])]


def _readable(found: list[ScannedFile], known: Container[str]) -> tuple[list[ScannedFile], Counter[str]]:
    """The files that can be read, or were, and how many of each kind cannot for want of an extra."""
    suffixes = tuple(EXTRAS)
    needing = [item for item in found if item.path.lower().endswith(suffixes)]
    if not needing:
        return found, Counter()
    missing = {suffix for suffix in suffixes if missing_extra(suffix)}
    lacking = [item for item in needing if suffix_of(item.path) in missing and item.path not in known]
    if not lacking:
        return found, Counter()
    gone = {item.path for item in lacking}
    kinds = Counter(suffix_of(item.path) for item in lacking)
    return [item for item in found if item.path not in gone], kinds


def _left_out(walk: Walk, lacking: Mapping[str, int]) -> tuple[LeftOut, ...]:
    readable = [LeftOut(kind, count, install_command(EXTRAS[kind][0])) for kind, count in lacking.items()]
    readable += [LeftOut(LINK, count, remedy) for remedy, count in walk.ignored_links().items()]
    others = [LeftOut(kind, count) for kind, count in walk.left_out().items()]
    return (*readable, *sorted(others, key=lambda each: (-each.files, each.suffix)))


def compare(
    source: Path,
    found: Sequence[ScannedFile],
    known: Mapping[str, FileState],
    *,
    inaccessible: Sequence[str] = (),
    linked: Sequence[str] = (),
) -> Scan:
    """How the files found in `source` differ from the known ones.

    A known file that was not found is deleted, unless it is one of the `inaccessible` paths or below one of them.
    """
    changes: list[Change] = []
    # Nearly all files of a search are as they were: nothing is called for them.
    different = [
        item
        for item in found
        if (state := known.get(item.path)) is None
        or item[2:] != (state.size, state.mtime_ns, state.ctime_ns)
        or state.problem is not None
    ]
    unchanged, total_bytes = len(found) - len(different), 0
    for item in different:
        kind = _change_kind(source, item, known.get(item.path), linked)
        if kind is None:
            unchanged += 1
            continue
        same_hash = known[item.path].hash if kind is ChangeKind.TOUCHED else ""
        file = Path(item.file)
        changes.append(Change(kind, item.path, file, item.size, item.mtime_ns, same_hash, item.ctime_ns))
        if kind is not ChangeKind.TOUCHED:
            total_bytes += item.size
    unknown = tuple(f"{path}/" for path in inaccessible)
    for path in known.keys() - {item.path for item in found}:
        if f"{path}/".startswith(unknown):
            unchanged += 1
        else:
            changes.append(Change(ChangeKind.DELETED, path, source / path))
    changes.sort(key=lambda change: change.path)
    return Scan(tuple(changes), unchanged, total_bytes, tuple(inaccessible))


def differs(file: Path, state: FileState) -> bool:
    """Whether a file is not as it was when its state was recorded, by its size and time; a missing one is not."""
    try:
        status = file.stat()
    except OSError:
        return True
    mtime_ns, ctime_ns = file_times(status)
    # The reader records a time that is uncertain as a nanosecond later.
    mtime_ns += state.mtime_ns == mtime_ns + 1
    return status.st_size != state.size or not is_same_time(mtime_ns, ctime_ns, state)


def is_same_time(mtime_ns: int, ctime_ns: int, state: FileState) -> bool:
    """Whether a file has the times that were recorded; if not, its content decides."""
    return mtime_ns == state.mtime_ns and (not (ctime_ns and state.ctime_ns) or ctime_ns == state.ctime_ns)


def _change_kind(source: Path, item: ScannedFile, state: FileState | None, linked: Sequence[str]) -> ChangeKind | None:
    """How a file on disk differs from its known state; None if it does not."""
    if state is None:
        return ChangeKind.NEW
    if item.size != state.size:
        return ChangeKind.UPDATED
    has_failed = state.problem is not None and state.problem.kind == "failed"
    if is_same_time(item.mtime_ns, item.ctime_ns, state) and not has_failed:
        return None
    if not state.hash or _hash(source, Path(item.file), linked) != state.hash:
        return ChangeKind.UPDATED
    # One whose time is uncertain is compared again each time.
    return ChangeKind.TOUCHED if is_certain(item.mtime_ns) else None


def _hash(source: Path, file: Path, linked: Sequence[str]) -> str:
    """SHA-256 of the file's bytes; empty if they cannot be read, which the reader then reports."""
    import hashlib  # OpenSSL takes milliseconds to load, and most scans hash nothing

    try:
        with open_inside(source, file, linked) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ReadError):
        return ""
