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
from annai.fields import FieldWeights
from annai.stores.base import (
    IndexedDocument,
    Keywords,
    Scored,
    Store,
    Vectors,
    trim_prefix,
)
from annai.stores.database import Database, cannot_write
from annai.stores.postings import compact, score, write_postings
from annai.stores.requests import SqliteRequests
from annai.stores.rows import SECTION_COLUMNS, section_row, stored_section
from annai.stores.signs import PassageRow, PassageTable, pack_signs
from annai.types import Collection, Document, FileState, Format, Problem, Statistics, StoredSection, Where

CANDIDATES_PER_RESULT, FEWEST_CANDIDATES = 4, 400
"""How many passages are compared in full for each one asked for, and at least (benchmarks/vectors.py)."""


def open_store(config: Config) -> Store:
    """Open the index of a project, making it if there is none."""
    path = config.database_path
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.name == STATE_FOLDER and not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        if not path.exists():
            raise StoreReadOnly(cannot_write(path)) from error
    return SqliteStore(path)


class SqliteStore(Store):
    """The default store."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        self._passages: tuple[int, PassageTable] | None = None
        self.requests = SqliteRequests(self._database)
        self.read_only = self._database.read_only

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
                self._next_generation()

    def swap_collection(self, staging: str, name: str) -> None:
        """Move the documents over."""
        with self._database.writing():
            old, new = self._existing_collection(name), self._existing_collection(staging)
            self._empty_collection(old)
            for table in ("files", "passages"):
                self._database.rows(f"UPDATE {table} SET collection_id = ? WHERE collection_id = ?", (old, new))
            self._database.rows(
                """UPDATE collections SET (embedder, settings, imported_at) =
                (SELECT embedder, settings, imported_at FROM collections WHERE id = ?) WHERE id = ?""",
                (new, old),
            )
            self._database.rows("DELETE FROM collections WHERE id = ?", (new,))
            compact(self._database, self._live)
            self._next_generation()

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
            write_postings(self._database, words, self._live)
            if documents or removed or states:
                self._next_generation()

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

    def nearest(self, vector: Vectors, limit: int, where: Where) -> list[Scored]:
        """Candidates by the signs of their vectors, then their vectors."""
        table = self._passage_table()
        count = max(limit * CANDIDATES_PER_RESULT, FEWEST_CANDIDATES)
        keys = np.sort(table.candidates(vector, count, self._allowed(table, where)))
        if not len(keys):
            return []
        return _best(keys, self.vectors(keys.tolist(), len(vector)) @ vector, limit)

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Add up each word's list of passages."""
        table = self._passage_table()
        places, shares = score(self._database, words, fields, table)
        allowed = self._allowed(table, where)
        if allowed is not None:
            chosen = allowed[places]
            places, shares = places[chosen], shares[chosen]
        return _best(table.keys[places], shares.clip(max=1.0), limit)

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
        first = self._database.number("SELECT seq FROM sqlite_sequence WHERE name = 'sections'") + 1
        passages = sorted(indexed.keywords)
        self._database.rows(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                file_id,
                first,
                len(sections),
                document.title,
                indexed.japanese,
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
        self._database.rows(
            "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                file_id,
                collection,
                first,
                indexed.vectors.shape[1],
                np.array(passages, "<u4").tobytes(),
                np.array([indexed.keywords[order].length for order in passages], "<u4").tobytes(),
                pack_signs(indexed.vectors[passages]).tobytes(),
            ),
        )
        return {first + order: words for order, words in indexed.keywords.items()}

    def _drop_document(self, file_id: int) -> None:
        span = self._database.row(
            "SELECT first_section, first_section + section_count FROM documents WHERE id = ?", (file_id,)
        )
        if span is None:
            return
        self._database.rows("DELETE FROM vectors WHERE section_id >= ? AND section_id < ?", span)
        self._database.rows("DELETE FROM sections WHERE id >= ? AND id < ?", span)
        self._database.rows("DELETE FROM passages WHERE document_id = ?", (file_id,))
        self._database.rows("DELETE FROM documents WHERE id = ?", (file_id,))

    def _empty_collection(self, number: int) -> None:
        for (file_id,) in self._database.rows("SELECT id FROM files WHERE collection_id = ?", (number,)):
            self._drop_document(file_id)
        self._database.rows("DELETE FROM files WHERE collection_id = ?", (number,))

    def _live(self) -> NDArray[np.bool_]:
        """For every key that was ever given, whether it is a section's."""
        last = self._database.number("SELECT seq FROM sqlite_sequence WHERE name = 'sections'")
        live = np.zeros(last + 1, bool)
        for first, count in self._database.rows("SELECT first_section, section_count FROM documents"):
            live[first : first + count] = True
        return live

    def _next_generation(self) -> None:
        self._database.rows("UPDATE generation SET number = number + 1")

    def _passage_table(self) -> PassageTable:
        """The table of passages, read again when documents were written, by this process or another."""
        held = self._passages
        generation = self._database.number("SELECT number FROM generation")
        if held is None or held[0] != generation:
            rows = self._database.rows(
                "SELECT document_id, collection_id, first_section, dimension, ordinals, lengths, signs FROM passages"
            )
            held = self._passages = generation, PassageTable([PassageRow(*row) for row in rows])
        return held[1]

    def _allowed(self, table: PassageTable, where: Where) -> NDArray[np.bool_] | None:
        """Which passages of the table the restriction lets through; None if it lets all."""
        allowed: NDArray[np.bool_] | None = None
        if where.collections:
            rows = self._database.rows(
                "SELECT id FROM collections WHERE name IN (SELECT value FROM json_each(?))",
                (json.dumps(where.collections),),
            )
            named = {number for (number,) in rows}
            if not table.collection_ids <= named:
                allowed = np.isin(table.collections, list(named))
        if where.paths or where.excludes or where.clean_only:
            documents = np.isin(table.documents, self._documents_under(where))
            allowed = documents if allowed is None else allowed & documents
        return allowed

    def _documents_under(self, where: Where) -> list[int]:
        clauses, values = ["true"], list[object]()
        for prefixes, form in ((where.paths, "({})"), (where.excludes, "NOT ({})")):
            if prefixes:
                clauses.append(form.format(" OR ".join(["path = ? OR substr(path, 1, ?) = ?"] * len(prefixes))))
                for prefix in map(trim_prefix, prefixes):
                    values += [prefix, len(prefix) + 1, prefix + "/"]
        if where.clean_only:
            clauses.append(
                """problem_kind IS NULL AND NOT EXISTS (SELECT 1 FROM index_requests r JOIN collections c
                ON c.name = r.collection WHERE c.id = files.collection_id AND r.path = files.path
                AND r.status IN ('pending', 'processing'))"""
            )
        rows = self._database.rows(f"SELECT id FROM files WHERE {' AND '.join(clauses)}", values)
        return [number for (number,) in rows]


def _best(keys: NDArray[np.int64], scores: NDArray[np.floating], limit: int) -> list[Scored]:
    """The highest scores first; `keys` ascend, so that ties come in their order."""
    order = np.argsort(-scores, kind="stable")[:limit]
    return [Scored(int(keys[place]), float(scores[place])) for place in order]


def _json_list(keys: Sequence[int]) -> str:
    return json.dumps([int(key) for key in keys])
