"""Where is what annai made for a project, and which projects does this user have?

Index, caches, token, pid file, locks and logs of a project lie in the user's own state folder, where only this user
writes, and never in the project: whatever lies there may have come with it (docs/decisions/0010-state-of-the-user.md).
A folder in which users stand by chance, such as their home, is a project only if they name it.
"""

import errno
import functools
import logging
import os
import re
import struct
import sys
import unicodedata
from binascii import crc32
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from annai.errors import ConfigError

logger = logging.getLogger(__name__)

STATE_VARIABLE = "ANNAI_STATE"
"""Names another state folder, which is then taken as it is."""

OLD_STATE_FOLDER = ".annai"
"""Where annai up to 0.2 kept its files, in the project; it is never read, written or searched."""

PROJECTS = "projects"
"""The folder that holds a folder for each project."""

RECORD = "project"
"""The file that says whose state a folder holds: the mark of the project's folder, a line end, and its path."""

MOVED = "moved"
"""The file that names the folders which a project had before, until its collections have followed it."""

MACHINE = "machine"
"""The file that holds the machine's name."""

_NAME_LENGTH = 40
"""How many characters of a project's folder are in the name of its state's."""

_LOCAL_FILE_SYSTEMS = frozenset(
    "apfs bcachefs btrfs exfat ext2 ext3 ext4 f2fs fuseblk hfsplus jfs msdos ntfs ntfs3 overlay ramfs rootfs reiserfs "
    "tmpfs udf ufs vfat xfs zfs".split()
)
"""File systems of Linux that one machine alone can have mounted."""

_MODELESS_FILE_SYSTEMS = frozenset(
    "9p cifs drvfs exfat fuseblk msdos ntfs ntfs3 prl_fs smb3 vboxsf vfat virtiofs".split()
)
"""File systems of Linux on which everybody may seem to write everything."""

_TEMPORARY_FOLDERS = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108 - what is made there is checked
"""Where Python looks for a temporary folder, unless a variable names one."""

_FS_IOC_GETVERSION = 0x80087601
"""Linux: asks for an inode's generation, which tells it from the next one of the same number."""


SYSTEM_FOLDERS = frozenset(
    "/bin /boot /cores /dev /dev/shm /etc /export /export/home /gnu /gnu/store /home /lib /lib32 /lib64 /libx32 "
    "/lost+found /media /mnt /mnt/c /mnt/c/Users /mnt/c/Windows /net /nix /nix/store /opt /opt/homebrew /opt/local "
    "/private /private/etc /private/tmp /private/var /private/var/folders /private/var/tmp /proc /root /run "
    "/run/media /run/user /sbin /snap /srv /sys /tmp /usr /usr/bin /usr/games /usr/include /usr/lib /usr/lib32 "
    "/usr/lib64 /usr/libexec /usr/libx32 /usr/local /usr/local/bin /usr/local/include /usr/local/lib /usr/local/sbin "
    "/usr/local/share /usr/local/src /usr/sbin /usr/share /usr/src /var /var/cache "
    "/var/home /var/lib /var/log /var/mail /var/opt /var/spool /var/tmp "
    "/Applications /Library /Network /System /Users /Volumes".split()
)
"""Folders of Linux, of Windows as Linux on it sees it, and of macOS."""

SYSTEM_TREES = ("/proc/", "/sys/")
"""Whatever lies below these is no file that anybody wrote."""

SYSTEM_VARIABLES = ("TMPDIR", "TEMP", "TMP", "XDG_RUNTIME_DIR", "SystemRoot", "ProgramFiles", "ProgramData", "APPDATA")
"""The environment's names for such folders, Windows' too."""


class KnownProject(NamedTuple):
    """A project that this user has searched."""

    root: Path
    """Its folder, when it was last used."""
    folder: Path
    """Where its state is."""
    mark: str
    """What stays the same when its folder is moved or renamed; empty if the system has no such thing."""

    @property
    def is_gone(self) -> bool:
        """Whether its folder is not there, or another one has taken its place."""
        return not self.root.is_dir() or (bool(self.mark) and mark_of(self.root) != self.mark)


def locate(root: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Where a project's state is, or will be made. A project that was moved takes its state along.

    Where the user's state folder cannot be written, and has nothing of this project, it is a folder of the user's own
    in the temporary folder. Raises `ConfigError` if that is not the user's own either.
    """
    home, problem = _home(environment)
    folder = _folder_of(home, root)
    if _read(folder) is None:
        if moved := _moved(home, (root,)):
            # Another process may have done it by now; one that still works in the old place finds its index gone.
            with suppress(OSError):
                with open(moved.folder / MOVED, "ab", opener=private_opener) as stream:
                    stream.write(os.fsencode(moved.root) + b"\0")
                moved.folder.rename(folder)
                _write(folder, root)
            folder = folder if _read(folder) else moved.folder
        elif not (environment.get(STATE_VARIABLE) or _can_be_made(folder)):
            problem = f"{home} cannot be written"
            folder = _folder_of(temporary_home(), root)
    if problem:
        logger.warning(
            "%s, so the index is kept in %s, which the system may delete; name another folder in %s.",
            problem,
            folder,
            STATE_VARIABLE,
        )
    return folder


def former_roots(folder: Path) -> list[Path]:
    """The folders that a project had before it was moved, as far as its collections have not followed it yet."""
    try:
        return [Path(os.fsdecode(each)) for each in (folder / MOVED).read_bytes().split(b"\0") if each]
    except OSError:
        return []


def is_known(folder: Path, home: Path) -> bool:
    """Whether a folder is a project with state there."""
    return _read(_folder_of(home, folder)) is not None


def moved_here(folders: Sequence[Path], home: Path) -> Path | None:
    """The one of these folders that was a project under another path, if any."""
    moved = _moved(home, folders)
    return next(each for each in folders if mark_of(each) == moved.mark) if moved else None


def known_projects(environment: Mapping[str, str] = os.environ) -> list[KnownProject]:
    """Every project that this user has searched, by path."""
    home, found = state_home(environment), []
    with suppress(ConfigError):
        found = [] if environment.get(STATE_VARIABLE) or home == temporary_home() else _projects_in(temporary_home())
    return sorted([*_projects_in(home), *found], key=lambda each: each.root)


def state_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's state folder; where several machines share it, this machine's part of it."""
    return _home(environment)[0]


def temporary_home() -> Path:
    """A state folder for those who have no other, until the system tidies up."""
    import tempfile  # hardly anybody needs it

    user = ""
    if sys.platform != "win32":
        user = f"-{os.getuid()}"
    try:
        home = Path(tempfile.gettempdir(), f"annai{user}")
        named = [os.environ.get(each) for each in ("TMPDIR", "TEMP", "TMP")]
        # Where Python finds no other, it takes the current folder: what lies there may have come with a project.
        is_own = sys.platform == "win32" or home.parent in [
            Path(each) for each in (*_TEMPORARY_FOLDERS, *named) if each
        ]
        if is_own:
            with suppress(FileExistsError):
                home.mkdir(mode=0o700)
            is_own = home.is_dir() and not home.is_symlink()
            is_own = is_own and (sys.platform == "win32" or home.lstat().st_uid == os.getuid())
        problem = "" if is_own else f"{home} may be another's"
    except OSError:
        problem = "neither can the temporary folder"
    if problem:
        raise ConfigError(
            f"There is no folder in which annai can keep an index: your home cannot be written, and {problem}",
            f"name a folder in {STATE_VARIABLE}.",
        )
    return home


@functools.cache
def machine_name(home: Path) -> str:
    """The name of this machine, made here once; empty if it cannot be kept."""
    file = home / MACHINE
    try:
        if not file.exists():
            import secrets  # once in a machine's life

            make_private_folder(home)
            draft = home / f"{MACHINE}.{os.getpid()}"
            with open(draft, "w", encoding="utf-8", opener=private_opener) as stream:
                stream.write(f"{_node()}-{secrets.token_hex(4)}\n")
            # Linked, so that of two processes that do this at once both read the first one's.
            with suppress(FileExistsError):
                os.link(draft, file)
            draft.unlink()
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def home_folder() -> Path | None:
    """The home folder, if this user has one."""
    try:
        return user_home().resolve()
    except RuntimeError:
        return None


def found_by_chance(folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """What a resolved folder is that is searched whole only if the user names it; empty for any other."""
    if folder == home_folder():
        return "your home folder"
    if folder == Path(folder.anchor):
        return "the whole file system"
    name = os.fspath(folder)
    named = (Path(environment[each]).resolve() for each in SYSTEM_VARIABLES if environment.get(each))
    is_system = name in SYSTEM_FOLDERS or name.startswith(SYSTEM_TREES) or folder in named
    return "a folder of the system" if is_system else ""


def make(folder: Path, root: Path) -> None:
    """Make a project's state folder, for its user alone, and note whose it is.

    Raises `OSError` if it cannot be made, or if the project's folder is gone.
    """
    if not root.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(root))
    known = _read(folder)
    home = folder.parent.parent
    if known is None or known.root != root or known.mark != mark_of(root):
        machine_name(home)
        make_private_folder(folder)
        _write(folder, root)
    if known is None and (old := root / OLD_STATE_FOLDER).is_dir():
        logger.warning("%s is not read, and can be deleted: annai keeps its files in %s.", old, folder)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it, that only its owner can look into; one of our own is made so."""
    if not folder.parent.is_dir():
        make_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    if sys.platform != "win32" and (status := folder.stat()).st_mode & 0o077 and status.st_uid == os.getuid():
        folder.chmod(0o700)


def private_opener(path: str, flags: int) -> int:
    """For `open(..., opener=private_opener)`: a file that is made can be read by its owner only."""
    return os.open(path, flags, 0o600)


def make_private_file(file: Path) -> None:
    """Make an empty file that only its owner can read, unless it is there; one of our own is made so."""
    os.close(private_opener(os.fspath(file), os.O_RDWR | os.O_CREAT))
    if sys.platform != "win32" and (status := file.stat()).st_mode & 0o077 and status.st_uid == os.getuid():
        file.chmod(0o600)


def user_home() -> Path:
    """The user's home folder. Raises `RuntimeError` if there is none."""
    home = Path.home()
    if not home.is_absolute():
        raise RuntimeError
    return home


def absolute(name: str, environment: Mapping[str, str]) -> Path | None:
    """The folder that a variable names; one that depends on where we are, which may be in a project, does not count."""
    named = environment.get(name, "")
    return Path(named) if os.path.isabs(named) else None  # noqa: PTH117 - before every command


def as_stored(path: Path) -> Path:
    """An absolute path as the folders on it list it; links stay, and so does what is not there."""
    stored = Path(path.anchor)
    for name in path.parts[1:]:
        stored /= _stored_name(stored, name)
    return stored


def here() -> Path:
    """The current folder, as it is listed."""
    return _listed(Path.cwd())


_listed = functools.lru_cache(maxsize=1)(as_stored)
"""Every line of an answer is shown from here."""


def mark_of(folder: Path) -> str:
    """What tells a folder from every other, and stays when it is moved: its inode, and which one of that number."""
    try:
        status = os.stat(folder)  # noqa: PTH116 - before every command
        made = getattr(status, "st_birthtime", None) or _generation(folder)
    except OSError:
        return ""
    return f"{status.st_ino}:{made}"


def is_modeless(file: Path) -> bool:
    """Whether a file's mode says nothing of who may write it, because its file system has no modes."""
    return _file_system(file) in _MODELESS_FILE_SYSTEMS


def _generation(folder: Path) -> str:
    if sys.platform != "linux":
        return ""  # Windows has it in the number itself.
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return str(struct.unpack("l", fcntl.ioctl(descriptor, _FS_IOC_GETVERSION, bytes(8)))[0])
    except OSError:
        kind = _file_system(folder)
        if kind in _MODELESS_FILE_SYSTEMS or kind.startswith("fuse"):
            raise  # A stick has the same numbers as the one that was plugged in before it.
        return str(os.fstat(descriptor).st_dev)  # Others that do not tell seldom use a number again.
    finally:
        os.close(descriptor)


def _home(environment: Mapping[str, str]) -> tuple[Path, str]:
    """The user's state folder, and why it is in the temporary folder, if it is."""
    if named := environment.get(STATE_VARIABLE):
        return Path(os.path.expanduser(named)).absolute(), ""  # noqa: PTH111 - fails for no user
    try:
        home = _user_home(environment)
        if sys.platform != "win32" and home.lstat().st_uid != os.getuid():
            return temporary_home(), f"{home} belongs to another user"
        first = (home / MACHINE).read_text(encoding="utf-8").rpartition("-")[0]
    except RuntimeError:
        return temporary_home(), "You have no home folder"
    except OSError:
        return home, ""
    is_shared = first not in ("", _node()) and _file_system(home) not in _LOCAL_FILE_SYSTEMS | {""}
    return (home / "machines" / _slug(_node()) if is_shared else home), ""


def _projects_in(home: Path) -> list[KnownProject]:
    try:
        with os.scandir(home / PROJECTS) as folders:
            return [known for each in folders if (known := _read(Path(each.path)))]
    except OSError:
        return []


def _moved(home: Path, folders: Sequence[Path]) -> KnownProject | None:
    """The known project that one of these folders is, under another path than before."""
    gone = [each for each in _projects_in(home) if each.is_gone and each.mark]
    marks = {mark_of(each) for each in folders} if gone else set()
    return next((each for each in gone if each.mark in marks), None)


def _folder_of(home: Path, root: Path) -> Path:
    """The folder that belongs to this path: with a number behind it where another path has taken its name."""
    name = f"{_slug(root.name)}-{crc32(os.fsencode(root)):08x}"
    folder, number = home / PROJECTS / name, 0
    while (known := _read(folder)) and known.root != root:
        number += 1
        folder = home / PROJECTS / f"{name}-{number}"
    return folder


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)[:_NAME_LENGTH] or "root"


def _read(folder: Path) -> KnownProject | None:
    """The project whose state a folder holds, if it holds any."""
    try:
        with open(folder / RECORD, "rb") as stream:  # noqa: PTH123 - before every command
            mark, _, path = stream.read().partition(b"\n")
    except OSError:
        return None
    return KnownProject(Path(os.fsdecode(path)), folder, mark.decode(errors="replace")) if path else None


def _write(folder: Path, root: Path) -> None:
    draft = folder / f"{RECORD}.{os.getpid()}"
    with open(draft, "wb", opener=private_opener) as stream:
        stream.write(mark_of(root).encode() + b"\n" + os.fsencode(root))
    draft.replace(folder / RECORD)


def _can_be_made(folder: Path) -> bool:
    """Whether this user can make a folder, as far as the system tells."""
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _user_home(environment: Mapping[str, str]) -> Path:
    """Where programs keep what belongs to this machine alone, unlike settings, which people synchronize."""
    if named := absolute("LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME", environment):
        return named / "annai"
    parts = {"win32": "AppData/Local", "darwin": "Library/Application Support"}
    return user_home() / parts.get(sys.platform, ".local/state") / "annai"


def _node() -> str:
    """The machine's name in its network."""
    if sys.platform != "win32":
        return os.uname().nodename or MACHINE
    import platform

    return platform.node() or MACHINE


def _file_system(place: Path, mounts: str = "/proc/self/mountinfo") -> str:
    """The kind of file system that a file or folder is on, as Linux names it; empty where the system does not say."""
    if sys.platform == "win32":
        return ""
    with suppress(OSError, ValueError, IndexError):
        device = place.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        for line in Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines():
            if line.split(" ", 3)[2] == number:
                return line.rpartition(" - ")[2].split(" ", 1)[0]
    return ""


def _stored_name(folder: Path, name: str) -> str:
    """The name in its folder of what is found there by this one."""
    others = {name.swapcase(), unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}
    # Most file systems have no other name for it, and then nothing is listed.
    if not any(_is_same(folder / name, folder / other) for other in others):
        return name
    with suppress(OSError):
        listed = [each.name for each in folder.iterdir()]
        if name in listed:
            return name
        alike = (each for each in listed if _folded(each) == _folded(name) and _is_same(folder / name, folder / each))
        return next(alike, name)
    return name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False
