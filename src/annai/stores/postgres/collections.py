"""Which collections and files does an index in PostgreSQL know? Their rows, whether or not a file became a document."""

from collections.abc import Sequence

from annai.stores.base import unknown_collection
from annai.stores.postgres.database import PostgresDatabase
from annai.stores.postgres.rows import collection_row, escape, read_collection, read_state, state_row, unescape
from annai.stores.rows import COLLECTION_COLUMNS, KEPT_COLUMNS, STATE_COLUMNS, names, overwrite
from annai.types import Collection, FileState

_PLACES = ", ".join(["%s"] * len(COLLECTION_COLUMNS))
_SELECT_COLLECTIONS = f"SELECT {names(COLLECTION_COLUMNS)} FROM annai_collections ORDER BY name"

_SELECT_STATES = f"""SELECT {names(STATE_COLUMNS)} FROM annai_files
    WHERE collection_id = (SELECT id FROM annai_collections WHERE name = %s)"""
SELECT_STATES_UNDER = f"""SELECT found.* FROM unnest(%s::text[]) AS w, LATERAL (
    {_SELECT_STATES} AND path = w UNION ALL
    {_SELECT_STATES} AND path > w || '/' AND path < w || '0') AS found"""
"""One look into the index of (collection, path) for each path, whatever the planner thinks, and one for what is in it.
A folder's files are those from `folder/` on that come before `folder0`, since 0 follows the slash."""

_STATE_KINDS = ("text", "bigint", "bigint", "text", "text", "text", "bigint")
"""The types of `STATE_COLUMNS`."""


class Collections:
    """The tables `annai_collections` and `annai_files`. What writes does so within the caller's transaction."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def read(self) -> list[Collection]:
        """Every collection, ordered by name."""
        return [*map(read_collection, self._database.rows(_SELECT_COLLECTIONS))]

    def save(self, collection: Collection) -> None:
        """Add or replace."""
        self._database.rows(
            f"""INSERT INTO annai_collections ({names(COLLECTION_COLUMNS)}) VALUES ({_PLACES})
            ON CONFLICT (name) DO UPDATE SET {overwrite(COLLECTION_COLUMNS[1:])}""",
            collection_row(collection),
        )

    def number(self, name: str, *, lock: str = "") -> int:
        """The collection's number, its row locked as `lock` says; 0 if there is none."""
        return self._database.number(f"SELECT id FROM annai_collections WHERE name = %s {lock}", (name,))

    def existing(self, name: str, *, lock: str = "") -> int:
        """The collection's number, its row locked as `lock` says; if there is none, a `StoreError`."""
        number = self.number(name, lock=lock)
        if not number:
            raise unknown_collection(name)
        return number

    def delete(self, number: int, name: str) -> None:
        """Delete a collection that has no files any more, and its requests."""
        self._database.rows("DELETE FROM annai_collections WHERE id = %s", (number,))
        self._database.rows("DELETE FROM annai_requests WHERE collection = %s", (name,))

    def replace(self, old: int, new: int) -> None:
        """Delete the collection `old`, which has no files any more, and give `new` its name and description."""
        (about,) = self._database.rows(
            f"DELETE FROM annai_collections WHERE id = %s RETURNING {names(KEPT_COLUMNS)}", (old,)
        )
        self._database.rows(
            f"UPDATE annai_collections SET ({names(KEPT_COLUMNS)}) = (%s, %s, %s, %s, %s, %s) WHERE id = %s",
            (*about, new),
        )

    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """What is known of a collection's files, or of those that paths name."""
        if under is None:
            rows = self._database.rows(_SELECT_STATES, (collection,))
        else:
            paths = sorted({escape(path) for path in under})
            rows = self._database.rows(SELECT_STATES_UNDER, (paths, collection, collection))
        return {unescape(row[0]): read_state(row) for row in rows}

    def save_states(self, collection: int, states: Sequence[FileState]) -> dict[str, int]:
        """Remember what is known of files, in one statement; returns their numbers by path."""
        # In the order of their paths, so that two writers never wait for each other in a ring.
        rows = [state_row(state) for state in sorted(states, key=lambda state: state.path)]
        if not rows:
            return {}
        columns = ", ".join(f"%s::{kind}[]" for kind in _STATE_KINDS)
        saved = self._database.rows(
            f"""INSERT INTO annai_files (collection_id, {names(STATE_COLUMNS)})
            SELECT %s, * FROM unnest({columns}) ON CONFLICT (collection_id, path)
            DO UPDATE SET {overwrite(STATE_COLUMNS[1:])} RETURNING path, id""",
            (collection, *map(list, zip(*rows, strict=True))),
        )
        return {unescape(path): number for path, number in saved}

    def delete_paths(self, collection: int, paths: Sequence[str]) -> list[int]:
        """Forget files by their paths; returns their numbers."""
        rows = self._database.rows(
            "DELETE FROM annai_files WHERE collection_id = %s AND path = ANY(%s) RETURNING id",
            (collection, sorted(escape(path) for path in paths)),
        )
        return [number for (number,) in rows]

    def delete_files(self, collection: int) -> list[int]:
        """Forget all files of a collection; returns their numbers."""
        rows = self._database.rows("DELETE FROM annai_files WHERE collection_id = %s RETURNING id", (collection,))
        return [number for (number,) in rows]
