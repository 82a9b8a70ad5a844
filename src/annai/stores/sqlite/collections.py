"""Which collections and files does an index file know? Their rows, whether or not a file became a document.

All else can be made again from the files; what was registered cannot. So a second file beside the index contains it
too, with a checksum, and a new index gets it from there.
"""

import json
import logging
import os
from binascii import crc32
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from annai.state import private_opener
from annai.stores.base import STAGING_SUFFIX, unknown_collection
from annai.stores.rows import (
    COLLECTION_COLUMNS,
    KEPT_COLUMNS,
    STATE_COLUMNS,
    collection_row,
    names,
    overwrite,
    read_collection,
    read_state,
    state_row,
)
from annai.stores.sqlite.database import Database, write_failed
from annai.types import Collection, FileState

logger = logging.getLogger(__name__)

_PLACES = ", ".join("?" * len(COLLECTION_COLUMNS))
_SELECT_COLLECTIONS = f"SELECT {names(COLLECTION_COLUMNS)} FROM collections ORDER BY name"


class Collections:
    """The tables `collections` and `files`. What writes does so within the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._copy = database.path.with_name(f"{database.path.name}.collections")

    @contextmanager
    def registering(self) -> Iterator[None]:
        """A transaction that changes collections, and with them the copy of what was registered."""
        before = _read_bytes(self._copy)
        try:
            with self._database.writing():
                yield
                self._write_copy(_packed(self._registered()))
        except BaseException:
            self._write_copy(before)
            raise

    def recover(self) -> None:
        """Register what the copy knows and the index does not, because it is new or lost what was written last."""
        if self._database.read_only or self._is_whole():
            return
        with self.registering():
            # Read again: another process may have been registering.
            known = {each.name: each for each in self.read()}
            for each in _unpacked(_read_bytes(self._copy)):
                current = known.get(each.name, each)
                if each.name not in known or _registration(current) != each:
                    logger.info("the collection %r is registered again, as the index had lost it", each.name)
                    noted = (current.imported_at, current.embedder, current.settings, current.probe)
                    self.save(_noting(each, *noted))

    def _is_whole(self) -> bool:
        """Whether the index knows all that the copy does, and the copy is there and sound."""
        raw, known = _read_bytes(self._copy), self._registered()
        return raw == _packed(known) or not (raw or known)

    def read(self) -> list[Collection]:
        """Every collection, ordered by name."""
        return [*map(read_collection, self._database.rows(_SELECT_COLLECTIONS))]

    def save(self, collection: Collection) -> None:
        """Add or replace."""
        self._database.rows(
            f"""INSERT INTO collections ({names(COLLECTION_COLUMNS)}) VALUES ({_PLACES})
            ON CONFLICT (name) DO UPDATE SET {overwrite(COLLECTION_COLUMNS[1:])}""",
            collection_row(collection),
        )

    def number(self, name: str) -> int:
        """The collection's number; 0 if there is none."""
        return self._database.number("SELECT id FROM collections WHERE name = ?", (name,))

    def existing(self, name: str) -> int:
        """The collection's number; if there is none, a `StoreError`."""
        number = self.number(name)
        if not number:
            raise unknown_collection(name)
        return number

    def delete(self, number: int, name: str) -> None:
        """Delete a collection that has no files any more, and its requests."""
        self._database.rows("DELETE FROM collections WHERE id = ?", (number,))
        self._database.rows("DELETE FROM index_requests WHERE collection = ?", (name,))

    def replace(self, old: int, new: int) -> None:
        """Delete the collection `old`, which has no files any more, and give `new` its name and description."""
        (about,) = self._database.rows(f"DELETE FROM collections WHERE id = ? RETURNING {names(KEPT_COLUMNS)}", (old,))
        self._database.rows(
            f"UPDATE collections SET ({names(KEPT_COLUMNS)}) = (?, ?, ?, ?, ?, ?) WHERE id = ?", (*about, new)
        )

    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """What is known of a collection's files, or of those that paths name."""
        columns, number = names(STATE_COLUMNS), self.number(collection)
        if under is None:
            rows = self._database.rows(f"SELECT {columns} FROM files WHERE collection_id = ?", (number,))
        else:
            # One look into the index of (collection, path) for each path, whatever else the collection has. A folder's
            # files are those from `folder/` on that come before `folder0`: 0 follows the slash.
            rows = self._database.rows(
                f"""WITH wanted AS MATERIALIZED (SELECT value FROM json_each(?2))
                SELECT {columns} FROM wanted CROSS JOIN files ON collection_id = ?1 AND path = value UNION ALL
                SELECT {columns} FROM wanted CROSS JOIN files
                ON collection_id = ?1 AND path > value || '/' AND path < value || '0'""",
                (number, json.dumps(list(under))),
            )
        return {row[0]: read_state(row) for row in rows}

    def save_state(self, collection: int, state: FileState) -> int:
        """Remember what is known of a file; returns its number."""
        return self._database.number(
            f"""INSERT INTO files (collection_id, {names(STATE_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (collection_id, path) DO UPDATE SET {overwrite(STATE_COLUMNS[1:])} RETURNING id""",
            (collection, *state_row(state)),
        )

    def file(self, collection: int, path: str) -> int:
        """The number of a file; 0 if it is not known."""
        return self._database.number("SELECT id FROM files WHERE collection_id = ? AND path = ?", (collection, path))

    def files(self, collection: int) -> list[int]:
        """The numbers of a collection's files."""
        rows = self._database.rows("SELECT id FROM files WHERE collection_id = ?", (collection,))
        return [number for (number,) in rows]

    def delete_file(self, number: int) -> None:
        """Forget a file."""
        self._database.rows("DELETE FROM files WHERE id = ?", (number,))

    def delete_files(self, collection: int) -> None:
        """Forget all files of a collection."""
        self._database.rows("DELETE FROM files WHERE collection_id = ?", (collection,))

    def _registered(self) -> list[Collection]:
        return [_registration(each) for each in self.read() if not each.name.endswith(STAGING_SUFFIX)]

    def _write_copy(self, raw: bytes) -> None:
        if raw == _read_bytes(self._copy):
            return
        draft = self._copy.with_name(f"{self._copy.name}.{os.getpid()}")
        try:
            with open(draft, "wb", opener=private_opener) as stream:
                stream.write(raw)
            draft.replace(self._copy)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise write_failed(self._copy, error) from error


def _registration(collection: Collection) -> Collection:
    """What the user said of a collection, without what indexing noted."""
    return _noting(collection)


def _noting(
    collection: Collection, imported_at: str = "", embedder: str = "", settings: str = "", probe: str = ""
) -> Collection:
    return replace(collection, imported_at=imported_at, embedder=embedder, settings=settings, probe=probe)


def _packed(collections: Sequence[Collection]) -> bytes:
    """Registrations as the copy has them: a checksum, and a line of JSON."""
    rows = [dict(zip(COLLECTION_COLUMNS, collection_row(each), strict=True)) for each in collections]
    raw = json.dumps(rows).encode()
    return b"%08x\n%s\n" % (crc32(raw), raw)


def _unpacked(raw: bytes) -> list[Collection]:
    """The registrations of a copy; none, if it is damaged."""
    checksum, _, rest = raw.partition(b"\n")
    if checksum != b"%08x" % crc32(rest[:-1]):
        return []
    blank = dict(zip(COLLECTION_COLUMNS, collection_row(Collection("", Path())), strict=True))
    # A column that came later has its default.
    return [read_collection([row.get(name, blank[name]) for name in COLLECTION_COLUMNS]) for row in json.loads(rest)]


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
