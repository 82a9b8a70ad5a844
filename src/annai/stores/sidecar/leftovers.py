"""Which keys may an engine hold though no document owns them? Noted in the index file before it can be wrong.

The table `leftovers` holds spans of keys and when each is due: from then on it is certain that nobody needs them.
"""

import time
from collections.abc import Sequence

from annai.stores.sqlite.database import Database
from annai.stores.sqlite.documents import Documents
from annai.stores.sqlite.search_index import Span

ABANDONED_SECONDS = 3_600.0
"""A write that reserved keys and did not end within this time was cut off."""

GRACE_SECONDS = 10.0
"""How long the engine keeps what was replaced, for searches that began before."""


class Leftovers:
    """The table of an index file."""

    def __init__(self, database: Database, documents: Documents) -> None:
        self._database = database
        self._documents = documents

    def reserve(self, sizes: Sequence[int]) -> list[Span]:
        """Take this many keys for each document that no other write will take, and note that nobody owns them yet."""
        if not sizes:
            return []
        with self._database.writing():
            first = self._documents.last_key() + 1
            spans = []
            for size in sizes:
                spans.append((first, first + size))
                first += size
            # SQLite's own note of the last key that was given; it has none before the first section.
            self._database.rows("DELETE FROM sqlite_sequence WHERE name = 'sections'")
            self._database.rows("INSERT INTO sqlite_sequence (name, seq) VALUES ('sections', ?)", (first - 1,))
            abandoned = time.time() + ABANDONED_SECONDS
            self._database.insert("INSERT INTO leftovers VALUES (?, ?, ?)", [(*span, abandoned) for span in spans])
        return spans

    def adopt(self, span: Span) -> None:
        """A document owns reserved keys from now on, if the caller's transaction succeeds."""
        self._database.rows("DELETE FROM leftovers WHERE first = ? AND past = ?", span)

    def abandon(self, span: Span) -> None:
        """No document owns these keys any more, if the caller's transaction succeeds."""
        self._database.rows("INSERT INTO leftovers VALUES (?, ?, ?)", (*span, time.time() + GRACE_SECONDS))

    def release(self, spans: Sequence[Span]) -> None:
        """A write failed: the keys that it reserved are due at once."""
        with self._database.writing():
            self._database.insert("UPDATE leftovers SET due_at = 0 WHERE first = ? AND past = ?", spans)

    def due(self, *, early: bool = False) -> dict[int, Span]:
        """The spans that are due, by the number of their row; with `early`, without the time of grace."""
        now = time.time() + (GRACE_SECONDS if early else 0.0)
        rows = self._database.rows("SELECT rowid, first, past FROM leftovers WHERE due_at <= ?", (now,))
        return {number: (first, past) for number, first, past in rows}

    def reserved(self) -> list[Span]:
        """The spans that a write may still be adding, or a search reading."""
        rows = self._database.rows("SELECT first, past FROM leftovers WHERE due_at > ?", (time.time(),))
        return [(first, past) for first, past in rows]

    def clear(self, numbers: Sequence[int]) -> None:
        """The engine has forgotten the spans of these rows."""
        with self._database.writing():
            self._database.insert("DELETE FROM leftovers WHERE rowid = ?", [(number,) for number in numbers])

    def clear_all(self) -> None:
        """The engine holds nothing that no document owns."""
        self._database.rows("DELETE FROM leftovers")
