"""What changed in watched folders? Linux reports a change before the call that made it returns: none comes late."""

# mypy: disable-error-code="attr-defined"
# The types are checked for other systems too, which have only half of these modules.

import ctypes
import errno
import fcntl
import os
import select
import struct
import termios

from annai.files.walk import IGNORE_FILES, SKIPPED_FOLDERS, storable_name

MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF = 2, 4, 8, 64, 128, 256, 512, 1024
OVERFLOW, IGNORED, ONLY_FOLDERS, IS_FOLDER = 0x4000, 0x8000, 0x0100_0000, 0x4000_0000
MASK = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | ONLY_FOLDERS

_EVENT = struct.Struct("iIII")
"""Watch, mask, cookie, and how many bytes of name follow."""

READ_BYTES = 1 << 16

LOCAL_SYSTEMS = frozenset(
    {
        0xEF53,  # ext2, ext3, ext4
        0x5846_5342,  # XFS
        0x9123_683E,  # Btrfs
        0x0102_1994,  # tmpfs
        0x794C_7630,  # overlay
        0xF2F5_2010,  # F2FS
        0x2FC1_2FC1,  # ZFS
        0xCA45_1A4E,  # bcachefs
        0x4D44,  # FAT
        0x2011_BAB0,  # exFAT
    }
)
"""File systems that only this system changes: of what others change on a share, or beside a virtual machine, Linux
knows nothing."""


class Inotify:
    """Folders that are watched, each under its path in a collection. Not for several threads at once."""

    def __init__(self) -> None:
        self._system = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._checked(self._system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._places: dict[int, set[tuple[str, str]]] = {}
        """Watch → the collections that the folder belongs to, with its path there and a slash at the end."""
        self.shared: set[str] = set()
        """Collections with a folder on a file system that others may change."""

    def add(self, collection: str, path: str, folder: str) -> None:
        """Watch a folder from now on; one that is gone is let be. Raises `OSError` where the system has its limit."""
        name = os.fsencode(folder)
        try:
            watch = self._checked(self._system.inotify_add_watch(self.descriptor, name, MASK))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
                return  # Whoever lists it says so.
            raise
        if watch not in self._places:
            # Its kind is the first number of what the system writes here.
            status = (ctypes.c_long * 32)()
            if self._system.statfs(name, status) or status[0] & 0xFFFF_FFFF not in LOCAL_SYSTEMS:
                self.shared.add(collection)
        self._places.setdefault(watch, set()).add((collection, path))

    def changes(self) -> dict[str, set[str]]:
        """The paths to scan again, by collection, after all that changed before this call; `""` is all of one."""
        changed: dict[str, set[str]] = {}
        while events := self._read():
            offset = 0
            while offset < len(events):
                watch, mask, _, length = _EVENT.unpack_from(events, offset)
                offset += _EVENT.size + length
                if mask & OVERFLOW:
                    changed |= {each: {""} for places in self._places.values() for each, _ in places}
                    continue
                name = storable_name(os.fsdecode(events[offset - length : offset].rstrip(b"\0")))
                for collection, folder in [*self._places.get(watch, ())]:
                    if name not in SKIPPED_FOLDERS:
                        # The patterns of an ignore file are for the whole folder.
                        path = folder.rstrip("/") if name in IGNORE_FILES or not name else folder + name
                        changed.setdefault(collection, set()).add(path)
                        if mask & MOVED_FROM and mask & IS_FOLDER:
                            self._forget(collection, f"{path}/")
                if mask & IGNORED:
                    self._places.pop(watch, None)
        return changed

    def wait(self, milliseconds: int) -> bool:
        """Wait until something is reported, but no longer than this; returns whether there is."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(milliseconds))

    def unread_bytes(self) -> int:
        """How much is reported that `changes` has not read."""
        return struct.unpack("i", fcntl.ioctl(self.descriptor, termios.FIONREAD, bytes(4)))[0]  # type: ignore[no-any-return]

    def close(self) -> None:
        """Watch nothing any more."""
        os.close(self.descriptor)

    def _forget(self, collection: str, folder: str) -> None:
        """A folder moved away with all that is in it; where it went it is watched under its new path."""
        for places in self._places.values():
            places -= {each for each in places if each[0] == collection and each[1].startswith(folder)}

    def _read(self) -> bytes:
        try:
            return os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return b""

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
