"""Under which names may an index keep its vectors in an engine? Under names that only it has, wherever others may be.

In the folder beside the index file nobody else is, and the names are fixed. Elsewhere they carry a random id of the
index, or what `store.collection_name` says. The file remembers which names it took, so that it never takes over, and
never removes, what another project made.
"""

import re
from uuid import uuid4

from annai.errors import ConfigError, StoreError
from annai.stores.sidecar.neighbours import Neighbours
from annai.stores.sqlite.database import Database

COLLECTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What every engine takes for the beginning of a name."""


class Claims:
    """The tables `identity` and `engine_copies` of an index file."""

    def __init__(self, database: Database, neighbours: Neighbours, collection_name: str) -> None:
        if collection_name and not COLLECTION_NAME.fullmatch(collection_name):
            raise ConfigError(
                f"store.collection_name is {collection_name!r}",
                "use 1 to 64 of the characters A-Z a-z 0-9 _ -, and begin with a letter or a digit.",
            )
        self._database = database
        self._neighbours = neighbours
        self._collection_name = collection_name
        self._fixed_prefix = neighbours.prefix

    def claim(self) -> None:
        """Give the engine the names of this index; raises a `StoreError` if they are another's."""
        self._neighbours.prefix = self._choose_prefix()
        if self._database.read_only or self._is_claimed():
            return
        if self._neighbours.is_shared and (taken := self._neighbours.own_names()):
            raise StoreError(
                f"{self._neighbours.address} already has {taken[0]}, which another project may have made",
                "choose another store.collection_name, or delete it there if it was this project's own.",
            )
        # Before anything is made under these names: cut off in between, they are known as this index's own.
        with self._database.writing():
            self._database.rows("INSERT OR IGNORE INTO engine_copies VALUES (?, ?, false)", self._place())

    def is_complete(self) -> bool:
        """Whether the engine was given all that the file holds."""
        row = self._database.row("SELECT complete FROM engine_copies WHERE address = ? AND prefix = ?", self._place())
        return row == (1,)

    def complete(self) -> None:
        """The engine was given all that the file holds, if the caller's transaction succeeds."""
        self._database.rows("UPDATE engine_copies SET complete = true WHERE address = ? AND prefix = ?", self._place())

    def _place(self) -> tuple[str, str]:
        return self._neighbours.address, self._neighbours.prefix

    def _is_claimed(self) -> bool:
        return bool(self._database.rows("SELECT 1 FROM engine_copies WHERE address = ? AND prefix = ?", self._place()))

    def _choose_prefix(self) -> str:
        if self._neighbours.is_shared:
            # First: a copy of the file loses what the first one claimed, a name that the user chose included.
            identity = self._identity()
            return self._collection_name or f"{self._fixed_prefix}_{identity}"
        return self._collection_name or self._fixed_prefix

    def _identity(self) -> str:
        """The id of this index; a copy of its file gets another, and none of the names that the first one took."""
        inode = str(self._database.path.stat().st_ino)
        row = self._database.row("SELECT id, inode FROM identity")
        if self._database.read_only:
            return str(row[0]) if row else ""
        if row and row[1] == inode:
            return str(row[0])
        with self._database.writing():
            # Another process may have done it while this one waited for the lock.
            row = self._database.row("SELECT id FROM identity WHERE inode = ?", (inode,))
            if row is None:
                row = (uuid4().hex[:16],)
                self._database.rows("DELETE FROM identity")
                self._database.rows("DELETE FROM engine_copies")
                self._database.rows("INSERT INTO identity VALUES (?, ?)", (*row, inode))
        return str(row[0])
