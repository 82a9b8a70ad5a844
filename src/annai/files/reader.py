"""What does this file say? One file's bytes to a `Document`."""

import hashlib
import os
import unicodedata
from pathlib import Path, PurePosixPath

from annai.errors import SkippedFile, UnreadableFile
from annai.files.conversion import convert
from annai.files.encoding import decode
from annai.files.front_matter import FrontMatter, split_front_matter
from annai.files.inside import lies_in, open_inside
from annai.files.kinds import CONVERTERS, suffix_of
from annai.files.walk import file_times, is_certain
from annai.settings import Documents, Files
from annai.text.outline import outline
from annai.types import Change, Document, FileState, Format, Outline

MAX_TITLE_CHARACTERS = 200
MEGABYTE = 1_000_000

_FORMATS: dict[str, Format] = {".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".rst": "rst"}


def read_document(
    collection: str, source: Path, change: Change, settings: Files, documents: Documents | None = None
) -> Document:
    """Read one file of a collection; one that is no plain text becomes Markdown, within the limits for `documents`.

    Raises `SkippedFile` for a file that is not meant to be a document (binary, too large, not a regular file, outside
    of `source`, with a name that cannot be kept) and `UnreadableFile` for one that should be a document but cannot be
    read now.
    """
    _check_name(change)
    documents = documents or Documents()
    suffix = suffix_of(change.path)
    limits = (documents.max_file_mb, "documents.max_file_mb") if suffix in CONVERTERS else None
    try:
        data, status = read_inside(source, change.file, settings, limits)
    except OSError as error:
        raise UnreadableFile(_reason(error)) from error
    mtime_ns, ctime_ns = file_times(status)
    digest = hashlib.sha256(data).hexdigest()
    # A time that no file has there, so that the next comparison reads this one again.
    mtime_ns += 0 if is_certain(mtime_ns) else 1
    state = FileState(change.path, status.st_size, mtime_ns, digest, ctime_ns=ctime_ns)
    format_: Format
    if suffix in CONVERTERS:
        converted = convert(change.path, data, documents, int(settings.max_file_mb * MEGABYTE))
        text, format_, front_matter = converted.text, "markdown", FrontMatter(converted.values, 0)
    else:
        text, format_ = decode(data), _FORMATS.get(suffix, "text")
        front_matter = split_front_matter(text) if format_ == "markdown" else FrontMatter({}, 0)
    parts = outline(text, format_, front_matter.body_start)
    return Document(
        collection=collection,
        path=change.path,
        title=_title(front_matter, parts, change.path),
        text=text,
        state=state,
        format=format_,
        body_start=front_matter.body_start,
        front_matter=front_matter.values,
        outline=parts,
    )


def _check_name(change: Change) -> None:
    try:
        os.fsencode(change.file).decode()
    except UnicodeDecodeError as error:
        raise SkippedFile("its name is not valid UTF-8", "rename it to index it") from error
    if not unicodedata.is_normalized("NFC", change.path):
        raise SkippedFile(
            "another file's name looks the same, with its accents stored differently", "rename one of them"
        )


def read_inside(
    source: Path, file: Path, settings: Files, limits: tuple[float, str] | None = None
) -> tuple[bytes, os.stat_result]:
    """A file's bytes and its status, both from one descriptor that was checked to be inside of the source.

    `limits` are the megabytes that it may have, and the setting that says so; else they are those of a text.
    """
    megabytes, setting = limits or (settings.max_file_mb, "files.max_file_mb")
    # First whether it is inside, since that says more of a link that leads out.
    with open_inside(source, file, settings.linked_folders) as stream:
        if not settings.follow_symlinks and file.is_symlink() and lies_in(*map(os.path.realpath, (file, source))):
            raise SkippedFile("symbolic link (files.follow_symlinks is false)")
        status = os.fstat(stream.fileno())
        limit = int(megabytes * MEGABYTE)
        if status.st_size > limit:
            raise SkippedFile(_too_large(status.st_size, limit, setting))
        data = stream.read(status.st_size + 1)
        if len(data) > status.st_size:
            data += stream.read(limit + 1 - len(data))
            if len(data) > limit:
                raise SkippedFile(_too_large(len(data), limit, setting))
        return data, status


def _too_large(size: int, limit: int, setting: str) -> str:
    # A size that rounds to the limit would look like a contradiction.
    text = f"{size / MEGABYTE:.1f} MB" if round(size / MEGABYTE, 1) * MEGABYTE > limit else f"{size:,} bytes"
    return f"{text}, over the limit of {limit / MEGABYTE:g} MB ({setting})"


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "it is no longer there"
    return (error.strerror or str(error)).lower()


def _title(front_matter: FrontMatter, parts: Outline, path: str) -> str:
    """The title in the front matter, or else the first heading of level 1, or else the file's name."""
    given = front_matter.values.get("title")
    candidates = [
        str(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else "",
        next((heading.text for heading in parts.headings if heading.level == 1 and heading.text.strip()), ""),
        PurePosixPath(path).stem,
    ]
    titles = (" ".join(candidate.split())[:MAX_TITLE_CHARACTERS].rstrip() for candidate in candidates)
    return next((title for title in titles if title), path)
