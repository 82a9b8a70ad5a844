"""How is a file opened so that no link leads out of its folder, and no pipe keeps us waiting?"""

import errno
import os
import stat
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

from annai.errors import SkippedFile, UnreadableFile

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def allowed_roots(real_source: str, linked: Sequence[str]) -> list[str]:
    """The folders, without links, into which the links of a collection may lead.

    They are its own and, if that lies in one of the `linked` folders, all of these.
    """
    roots = [os.path.realpath(os.path.expanduser(each)) for each in linked]  # noqa: PTH111 - Path's own may fail
    return [real_source, *roots] if any(lies_in(real_source, each) for each in roots) else [real_source]


def lies_in(real: str, root: str) -> bool:
    """Whether a path is a folder or something in it, both without links."""
    return f"{real}{os.sep}".startswith(root.rstrip(os.sep) + os.sep)


def open_inside(source: Path, file: Path, linked: Sequence[str] = ()) -> BufferedReader:
    """Open a file whose links, if it has any, lead to a regular file inside of `source`, or of folders `linked` to it.

    Raises `SkippedFile` for any other, `UnreadableFile` for one that is replaced meanwhile, and `OSError`.
    """
    roots = allowed_roots(os.path.realpath(source), linked)
    # The path has no links now. If its last part becomes a link or a pipe, opening must not follow it or wait.
    stream = open_regular(_real_path_inside(roots, file))
    try:
        # A folder of the path may have become a link between the check and the opening.
        if not os.path.samestat(os.fstat(stream.fileno()), Path(_real_path_inside(roots, file)).stat()):
            raise UnreadableFile("it was replaced while it was being opened")
    except BaseException:
        stream.close()
        raise
    return stream


def open_regular(path: str) -> BufferedReader:
    """Open a regular file by a path that is no link. Raises `SkippedFile` for anything else, and `OSError`."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV, errno.ELOOP, errno.EISDIR):
            raise SkippedFile("not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SkippedFile("not a regular file")
    return os.fdopen(descriptor, "rb")


def _real_path_inside(roots: Sequence[str], file: Path) -> str:
    """The file's path without symbolic links. Raises `SkippedFile` if it is outside of the roots."""
    real = os.path.realpath(file)
    if not any(lies_in(real, root) for root in roots):
        raise SkippedFile("it is outside of the collection's folder")
    return real
