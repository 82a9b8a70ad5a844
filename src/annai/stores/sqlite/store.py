"""How does one SQLite file hold an index? Documents, sections, vectors and keywords, written together or not at all."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from annai.config import STATE_FOLDER, Config
from annai.errors import StoreError, StoreReadOnly
from annai.stores.base import (
    IndexedDocument,
    Inventory,
    Scored,
    Store,
    Vectors,
    best,
)
from annai.stores.sqlite.database import Database, cannot_write
from annai.stores.sqlite.passages import Passages
from annai.stores.sqlite.postings import compact, holding, score, word_counts, write_postings
from annai.stores.sqlite.requests import SqliteRequests
from annai.stores.sqlite.rows import SECTION_COLUMNS, section_row, stored_section
from annai.text.fields import FieldWeights
from annai.text.keywords import Keywords
from annai.types import Collection, Document, FileState, Format, Problem, Statistics, StoredSection, Where

CANDIDATES_PER_RESULT, FEWEST_CANDIDATES = 3, 300
"""How many passages are compared in full for each one asked for, and at least (benchmarks/vectors.py)."""


def open_store(config: Config) -> Store:
    """Open the index of a project, making it if there is none."""
    prepare_folder(config.database_path)
    return SqliteStore(config.database_path)


def prepare_folder(path: Path) -> None:
    """Make the folder of an index file; one of annai's own is kept out of version control."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.name == STATE_FOLDER and not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        if not path.exists():
            raise StoreReadOnly(cannot_write(path)) from error


class SqliteStore(Store):
    """The default store; and, with an engine beside it that finds neighbours, the store of that engine."""

    def __init__(self, path: Path, *, signed: bool = True) -> None:
        self._database = Database(path)
        self._passages = Passages(self._database, signed=signed)
        self.requests = SqliteRequests(self._database)
        self.read_only = self._database.read_only

    @property
    def address(self) -> str:
        """The file."""
        return str(self._database.path)

    def collections(self) -> list[Collection]:
        """Every collection, ordered by name."""
        rows = self._database.rows(
            """SELECT name, source, description, enabled, imported_at, embedder, settings
            FROM collections ORDER BY name"""
        )
        return [Collection(name, Path(source), about, bool(on), *rest) for name, source, about, on, *rest in rows]

    def save_collection(self, collection: Collection) -> None:
        """Add or replace."""
        with self._database.writing():
            self._database.rows(
                """INSERT INTO collections (name, source, description, enabled, imported_at, embedder, settings)
                VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET source = excluded.source,
                description = excluded.description, enabled = excluded.enabled, imported_at = excluded.imported_at,
                embedder = excluded.embedder, settings = excluded.settings""",
                (
                    collection.name,
                    str(collection.source),
                    collection.description,
                    collection.enabled,
                    collection.imported_at,
                    collection.embedder,
                    collection.settings,
                ),
            )

    def delete_collection(self, name: str) -> None:
        """Forget it and its documents."""
        with self._database.writing():
            if number := self._collection_number(name):
                self._empty_collection(number)
                self._database.rows("DELETE FROM collections WHERE id = ?", (number,))
                self._database.rows("DELETE FROM index_requests WHERE collection = ?", (name,))
                compact(self._database, self._live)
                self._passages.advance()

    def swap_collection(self, staging: str, name: str) -> None:
        """The collection that was built takes the place of the old one; its documents stay where they are."""
        with self._database.writing():
            old, new = self._existing_collection(name), self._existing_collection(staging)
            self._empty_collection(old)
            (about,) = self._database.rows(
                "DELETE FROM collections WHERE id = ? RETURNING name, description, source, enabled", (old,)
            )
            self._database.rows(
                "UPDATE collections SET (name, description, source, enabled) = (?, ?, ?, ?) WHERE id = ?", (*about, new)
            )
            compact(self._database, self._live)
            self._passages.advance()

    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """What is known of the files."""
        clause, values = "", list[object]([collection])
        if under is not None:
            # A folder's files are those from `folder/` on that come before `folder0`: 0 follows the slash.
            clause = """AND id IN (
                SELECT id FROM files JOIN wanted ON path = value UNION ALL
                SELECT id FROM files JOIN wanted ON path > value || '/' AND path < value || '0')"""
            values.insert(0, json.dumps(list(under)))
        wanted = "WITH wanted AS (SELECT value FROM json_each(?))" if clause else ""
        rows = self._database.rows(
            f"""{wanted} SELECT path, size, mtime_ns, hash, problem_kind, problem_reason FROM files
            WHERE collection_id = (SELECT id FROM collections WHERE name = ?) {clause}""",
            values,
        )
        return {
            path: FileState(path, size, mtime_ns, digest, Problem(kind, reason) if kind else None)
            for path, size, mtime_ns, digest, kind, reason in rows
        }

    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """Replace, forget, remember, in one transaction."""
        with self._database.writing():
            number = self._existing_collection(collection)
            for path in removed:
                file_id = self._database.number(
                    "SELECT id FROM files WHERE collection_id = ? AND path = ?", (number, path)
                )
                self._drop_document(file_id)
                self._database.rows("DELETE FROM files WHERE id = ?", (file_id,))
            words: dict[int, Keywords] = {}
            for indexed in documents:
                file_id = self._save_state(number, indexed.document.state)
                self._drop_document(file_id)
                words |= self._insert_document(number, file_id, indexed)
            for state in states:
                file_id = self._save_state(number, state)
                if state.problem and state.problem.kind == "skipped":
                    self._drop_document(file_id)
            self._keep_words(words)
            if documents or removed or states:
                self._passages.advance()

    def document(self, collection: str, path: str) -> Document | None:
        """The document, or None."""
        row = self._database.row(
            """SELECT d.title, d.text, d.format, d.body_start, d.front_matter,
            f.size, f.mtime_ns, f.hash, f.problem_kind, f.problem_reason
            FROM documents d JOIN files f ON f.id = d.id JOIN collections c ON c.id = f.collection_id
            WHERE c.name = ? AND f.path = ?""",
            (collection, path),
        )
        if row is None:
            return None
        title, text, kind, body_start, front_matter, size, mtime_ns, digest, problem, reason = row
        return Document(
            collection=collection,
            path=path,
            title=title,
            text=text,
            state=FileState(path, size, mtime_ns, digest, Problem(problem, reason) if problem else None),
            format=cast(Format, kind),
            body_start=body_start,
            front_matter=json.loads(front_matter),
        )

    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document."""
        rows = self._database.rows(
            f"""SELECT {SECTION_COLUMNS} WHERE s.id >= d.first_section AND s.id < d.first_section + d.section_count
            AND c.name = ? AND f.path = ? ORDER BY s.id""",
            (collection, path),
        )
        return [stored_section(row) for row in rows]

    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Sections by key."""
        rows = self._database.rows(
            f"SELECT {SECTION_COLUMNS} WHERE s.id IN (SELECT value FROM json_each(?))",
            (_json_list(keys),),
        )
        return {row[0]: stored_section(row) for row in rows}

    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The vectors of sections."""
        rows = self._database.rows(
            """SELECT section_id, vector FROM vectors
            WHERE section_id IN (SELECT value FROM json_each(?)) AND length(vector) = ?""",
            (_json_list(keys), 2 * dimension),
        )
        found: dict[int, bytes] = {key: vector for key, vector in rows}  # noqa: C416 - dict() does not know the types
        nothing = bytes(2 * dimension)
        raw = b"".join(found.get(key, nothing) for key in keys)
        return np.frombuffer(raw, "<f2").astype(np.float32).reshape(len(keys), dimension)

    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The tokens of passages."""
        return dict(
            self._database.rows(
                "SELECT section_id, packed FROM tokens WHERE section_id IN (SELECT value FROM json_each(?))",
                (_json_list(keys),),
            )
        )

    def nearest(self, vector: Vectors, limit: int, where: Where) -> list[Scored]:
        """Candidates by the signs of their vectors, then their vectors."""
        count = max(limit * CANDIDATES_PER_RESULT, FEWEST_CANDIDATES)
        keys = np.sort(self._candidates(vector, count, where))
        if not len(keys):
            return []
        return best(keys, self.vectors(keys.tolist(), len(vector)) @ vector, limit)

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Add up each word's list of passages."""
        table = self._passages.table()
        places, shares = score(self._database, words, fields, table)
        allowed = self._passages.allowed(table, where)
        if allowed is not None:
            chosen = allowed[places]
            places, shares = places[chosen], shares[chosen]
        return best(table.keys[places], shares.clip(max=1.0), limit)

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """From the lengths of the words' lists."""
        return holding(self._database, words)

    def dimension(self, collection: str) -> int:
        """Of any of its documents."""
        return self._database.number(
            """SELECT dimension FROM passages JOIN collections c ON c.id = collection_id WHERE c.name = ? LIMIT 1""",
            (collection,),
        )

    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection."""
        row = self._database.row(
            """SELECT count(*), coalesce(sum(d.section_count), 0), coalesce(sum((SELECT count(*) FROM vectors v
            WHERE v.section_id >= d.first_section AND v.section_id < d.first_section + d.section_count)), 0)
            FROM documents d JOIN files f ON f.id = d.id JOIN collections c ON c.id = f.collection_id
            WHERE c.name = ?""",
            (collection,),
        )
        return Statistics(*row) if row else Statistics(0, 0, 0)

    def size_on_disk(self) -> int:
        """The file with its write-ahead log."""
        return self._database.size_on_disk()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One read transaction."""
        with self._database.reading():
            yield

    def inventory(self) -> Inventory:
        """From the tables themselves."""
        with self._database.reading():
            sections, vectors = (
                np.array([key for (key,) in self._database.rows(f"SELECT {column} FROM {table} ORDER BY 1")], np.int64)
                for column, table in (("id", "sections"), ("section_id", "vectors"))
            )
            passages, words = word_counts(self._database, self._live())
        return Inventory(sections, vectors, passages, words)

    def sweep(self) -> None:
        """Delete what has no document; the lists of words are written anew without what is gone."""
        with self._database.writing():
            self._database.rows("DELETE FROM documents WHERE id NOT IN (SELECT id FROM files)")
            self._database.rows("DELETE FROM passages WHERE document_id NOT IN (SELECT id FROM documents)")
            self._database.rows(
                """DELETE FROM sections WHERE NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = document_id
                AND sections.id >= d.first_section AND sections.id < d.first_section + d.section_count)"""
            )
            for table in ("vectors", "tokens"):
                self._database.rows(f"DELETE FROM {table} WHERE section_id NOT IN (SELECT id FROM sections)")
            compact(self._database, self._live)
            self._passages.advance(anew=True)

    def vacuum(self) -> None:
        """Merge the lists of words, and let SQLite write its file anew without the holes."""
        with self._database.writing():
            compact(self._database, self._live)
        self._database.rows("VACUUM")
        self._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _collection_number(self, name: str) -> int:
        return self._database.number("SELECT id FROM collections WHERE name = ?", (name,))

    def _existing_collection(self, name: str) -> int:
        number = self._collection_number(name)
        if not number:
            raise StoreError(f"There is no collection {name!r} ; `annai collection ls --all` lists them.")
        return number

    def _save_state(self, collection: int, state: FileState) -> int:
        problem = (state.problem.kind, state.problem.reason) if state.problem else (None, None)
        return self._database.number(
            """INSERT INTO files (collection_id, path, size, mtime_ns, hash, problem_kind, problem_reason)
            VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (collection_id, path) DO UPDATE SET size = excluded.size,
            mtime_ns = excluded.mtime_ns, hash = excluded.hash, problem_kind = excluded.problem_kind,
            problem_reason = excluded.problem_reason RETURNING id""",
            (collection, state.path, state.size, state.mtime_ns, state.hash, *problem),
        )

    def _insert_document(self, collection: int, file_id: int, indexed: IndexedDocument) -> dict[int, Keywords]:
        """Write everything but the words, which are returned by the keys of their passages."""
        document, sections = indexed.document, indexed.sections
        first = self._take_keys(len(sections))
        self._database.rows(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                file_id,
                first,
                len(sections),
                document.title,
                indexed.is_cjk,
                document.format,
                document.body_start,
                json.dumps(document.front_matter, ensure_ascii=False),
                document.text,
            ),
        )
        self._database.insert(
            f"INSERT INTO sections VALUES ({', '.join('?' * 16)})",
            [section_row(first, file_id, section) for section in sections],
        )
        self._database.insert(
            "INSERT INTO vectors VALUES (?, ?)",
            [(first + order, row.tobytes()) for order, row in enumerate(indexed.vectors.astype("<f2"))],
        )
        self._database.insert(
            "INSERT INTO tokens VALUES (?, ?)", [(first + order, packed) for order, packed in indexed.tokens.items()]
        )
        self._passages.insert(collection, file_id, first, indexed)
        return {first + order: words for order, words in indexed.keywords.items()}

    def _drop_document(self, file_id: int) -> None:
        span = self._database.row(
            "SELECT first_section, first_section + section_count FROM documents WHERE id = ?", (file_id,)
        )
        if span is None:
            return
        for table in ("vectors", "tokens"):
            self._database.rows(f"DELETE FROM {table} WHERE section_id >= ? AND section_id < ?", span)
        self._database.rows("DELETE FROM sections WHERE id >= ? AND id < ?", span)
        self._passages.drop(file_id, *span)
        self._database.rows("DELETE FROM documents WHERE id = ?", (file_id,))

    def _empty_collection(self, number: int) -> None:
        for (file_id,) in self._database.rows("SELECT id FROM files WHERE collection_id = ?", (number,)):
            self._drop_document(file_id)
        self._database.rows("DELETE FROM files WHERE collection_id = ?", (number,))

    def _live(self) -> NDArray[np.bool_]:
        """For every key that was ever given, whether it is a section's."""
        live = np.zeros(self._last_key() + 1, bool)
        for first, count in self._database.rows("SELECT first_section, section_count FROM documents"):
            live[first : first + count] = True
        return live

    def _candidates(self, vector: Vectors, count: int, where: Where) -> NDArray[np.int64]:
        """The keys of passages that may be the nearest, in no order."""
        table = self._passages.table()
        return table.candidates(vector, count, self._passages.allowed(table, where))

    def _take_keys(self, count: int) -> int:  # noqa: ARG002 - the sections that follow take the keys
        """The first key of a new document."""
        return self._last_key() + 1

    def _last_key(self) -> int:
        """The highest key that was ever given."""
        return self._database.number("SELECT seq FROM sqlite_sequence WHERE name = 'sections'")

    def _keep_words(self, words: Mapping[int, Keywords]) -> None:
        """Write the words of new passages, by key, within a transaction."""
        write_postings(self._database, words, self._live)


def _json_list(keys: Sequence[int]) -> str:
    return json.dumps([int(key) for key in keys])
