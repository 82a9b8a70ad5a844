"""Which collections and files does an index file know? Their rows, whether or not a file became a document."""

import json
from collections.abc import Sequence

from annai.stores.base import unknown_collection
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
from annai.stores.sqlite.database import Database
from annai.types import Collection, FileState

_PLACES = ", ".join("?" * len(COLLECTION_COLUMNS))
_SELECT_COLLECTIONS = f"SELECT {names(COLLECTION_COLUMNS)} FROM collections ORDER BY name"


class Collections:
    """The tables `collections` and `files`. What writes does so within the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
