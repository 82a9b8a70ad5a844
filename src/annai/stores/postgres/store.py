"""How does PostgreSQL hold an index? Documents, vectors, keywords and the queue in one database that machines share."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from annai.config import Config
from annai.errors import StoreError
from annai.settings import StoreSettings
from annai.stores.base import IndexedDocument, Inventory, Scored, Store, Vectors, best
from annai.stores.postgres.database import PostgresDatabase, escape, unescape
from annai.stores.postgres.documents import Documents
from annai.stores.postgres.graphs import build_graphs
from annai.stores.postgres.postings import ENTRY, Totals, compact, holding, keys_of, merge, score
from annai.stores.postgres.requests import PostgresRequests
from annai.stores.postgres.rows import SELECT_SECTIONS, from_binary, stored_section, text_vector, where_clause
from annai.text.fields import FieldWeights
from annai.types import Collection, Document, FileState, Format, Problem, Statistics, StoredSection, Where

SEARCH_FACTOR, LARGEST_SEARCH = 2, 1_000
"""How many candidates HNSW keeps for each one asked for, and the most that pgvector allows."""

TIES = 16
"""Passages asked for beyond the limit, so that those that tie with the last one come in the order of their keys."""

CHECKED_AT_ONCE = 8
"""Of the best matches so many times the limit are held against a restriction at first; more, if too few pass."""


def open_store(config: Config) -> Store:
    """Open the index that store.url names, making it if there is none."""
    if not config.store.url:
        raise StoreError(
            'store.engine is "postgres" and store.url names no database; '
            "write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE."
        )
    return PostgresStore(config.store)


class PostgresStore(Store):
    """The store for a team: any number of servers and workers on one database."""

    shared = True

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._database = PostgresDatabase(settings.url)
        self._documents = Documents(self._database)
        self._requests = PostgresRequests(self._database, settings.lease_seconds)
        self.requests = self._requests
        self.read_only = self._database.read_only
        self._postponed = False

    @property
    def address(self) -> str:
        """The server and the database."""
        return self._database.address

    def collections(self) -> list[Collection]:
        """Every collection, ordered by name."""
        rows = self._database.rows(
            """SELECT name, source, description, enabled, imported_at, embedder, settings
            FROM annai_collections ORDER BY name"""
        )
        return [Collection(name, Path(unescape(source)), unescape(about), *rest) for name, source, about, *rest in rows]

    def save_collection(self, collection: Collection) -> None:
        """Add or replace."""
        with self._database.writing():
            self._database.rows(
                """INSERT INTO annai_collections (name, source, description, enabled, imported_at, embedder, settings)
                VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO UPDATE SET source = excluded.source,
                description = excluded.description, enabled = excluded.enabled, imported_at = excluded.imported_at,
                embedder = excluded.embedder, settings = excluded.settings""",
                (
                    collection.name,
                    escape(str(collection.source)),
                    escape(collection.description),
                    collection.enabled,
                    collection.imported_at,
                    collection.embedder,
                    collection.settings,
                ),
            )

    def delete_collection(self, name: str) -> None:
        """Forget it and its documents."""
        with self._database.writing():
            if number := self._collection(name, lock="FOR UPDATE"):
                self._documents.empty(number)
                self._database.rows("DELETE FROM annai_collections WHERE id = %s", (number,))
                self._database.rows("DELETE FROM annai_requests WHERE collection = %s", (name,))
        self._tidy()

    def swap_collection(self, staging: str, name: str) -> None:
        """The collection that was built takes the place of the old one; its documents stay where they are."""
        with self._database.writing():
            old, new = self._existing(name, lock="FOR UPDATE"), self._existing(staging, lock="FOR UPDATE")
            self._documents.empty(old)
            (about,) = self._database.rows(
                "DELETE FROM annai_collections WHERE id = %s RETURNING name, description, source, enabled", (old,)
            )
            self._database.rows(
                "UPDATE annai_collections SET name = %s, description = %s, source = %s, enabled = %s WHERE id = %s",
                (*about, new),
            )
        self._tidy()

    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """What is known of the files."""
        clause, values = "", list[object]([collection])
        if under is not None:
            # A folder's files are those from `folder/` on that come before `folder0`: 0 follows the slash.
            clause = """AND id IN (SELECT f.id FROM unnest(%s::text[]) w JOIN annai_files f ON f.path = w
                UNION ALL SELECT f.id FROM unnest(%s::text[]) w
                JOIN annai_files f ON f.path > w || '/' AND f.path < w || '0')"""
            values += [[escape(path) for path in under]] * 2
        rows = self._database.rows(
            f"""SELECT path, size, mtime_ns, hash, problem_kind, problem_reason FROM annai_files
            WHERE collection_id = (SELECT id FROM annai_collections WHERE name = %s) {clause}""",
            values,
        )
        return {unescape(row[0]): _state(row) for row in rows}

    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """Replace, forget, remember, in one transaction."""
        with self._database.writing():
            number = self._existing(collection, lock="FOR KEY SHARE")
            # In the order of their paths, so that two writers never wait for each other in a ring.
            files = {
                state.path: self._documents.save_state(number, state)
                for state in sorted(
                    (*(each.document.state for each in documents), *states), key=lambda state: state.path
                )
            }
            skipped = [state.path for state in states if state.problem and state.problem.kind == "skipped"]
            gone = self._database.rows(
                "DELETE FROM annai_files WHERE collection_id = %s AND path = ANY(%s) RETURNING id",
                (number, sorted(escape(path) for path in removed)),
            )
            replaced = [files[each.document.path] for each in documents]
            self._documents.drop([file for (file,) in gone] + replaced + [files[path] for path in skipped])
            self._documents.insert(number, [(files[each.document.path], each) for each in documents])
        if documents or removed or states:
            self._tidy(documents[0].vectors.shape[1] if documents else 0)

    def document(self, collection: str, path: str) -> Document | None:
        """The document, or None."""
        row = self._database.row(
            """SELECT f.path, f.size, f.mtime_ns, f.hash, f.problem_kind, f.problem_reason,
            d.title, d.text, d.format, d.body_start, d.front_matter
            FROM annai_documents d JOIN annai_files f ON f.id = d.id JOIN annai_collections c ON c.id = f.collection_id
            WHERE c.name = %s AND f.path = %s""",
            (collection, escape(path)),
        )
        if row is None:
            return None
        title, text, kind, body_start, front_matter = row[6:]
        return Document(
            collection=collection,
            path=path,
            title=unescape(title),
            text=unescape(text),
            state=_state(row[:6]),
            format=cast(Format, kind),
            body_start=body_start,
            front_matter=json.loads(front_matter),
        )

    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document."""
        rows = self._database.rows(
            f"""{SELECT_SECTIONS} WHERE c.name = %s AND f.path = %s
            AND s.id >= d.first_section AND s.id < d.first_section + d.section_count ORDER BY s.id""",
            (collection, escape(path)),
        )
        return [stored_section(row) for row in rows]

    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Sections by key."""
        rows = self._database.rows(f"{SELECT_SECTIONS} WHERE s.id = ANY(%s)", ([int(key) for key in keys],))
        return {row[0]: stored_section(row) for row in rows}

    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The vectors of sections."""
        rows = self._database.rows(
            "SELECT section_id, vector FROM annai_vectors WHERE section_id = ANY(%s) AND dimension = %s",
            ([int(key) for key in keys], dimension),
            binary=True,
        )
        found = dict(rows)
        nothing = bytes(4 + 2 * dimension)
        return from_binary([found.get(key, nothing) for key in keys], dimension)

    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The tokens of passages."""
        return dict(
            self._database.rows(
                "SELECT section_id, packed FROM annai_tokens WHERE section_id = ANY(%s)",
                ([int(key) for key in keys],),
                binary=True,
            )
        )

    def dimension(self, collection: str) -> int:
        """Of any of its documents."""
        return self._database.number(
            """SELECT dimension FROM annai_counters WHERE passages > 0
            AND collection_id = (SELECT id FROM annai_collections WHERE name = %s) LIMIT 1""",
            (collection,),
        )

    def nearest(self, vector: Vectors, limit: int, where: Where) -> list[Scored]:
        """By HNSW where the passages are many, else one by one."""
        with self._database.reading():
            clause, values = self._restriction(where, "v.document_id")
            if clause is None:
                return []
            count = limit + TIES
            ef = min(max(self._settings.hnsw_search_ef, SEARCH_FACTOR * count), LARGEST_SEARCH)
            self._database.rows(f"SET LOCAL hnsw.ef_search = {ef}")
            self._database.rows("SET LOCAL hnsw.iterative_scan = strict_order")
            cast_vector = f"halfvec({len(vector)})"
            sql = f"""SELECT section_id, -(v.vector::{cast_vector} <#> %s::{cast_vector}) FROM annai_vectors v
                WHERE v.dimension = {len(vector)} AND v.is_passage {clause}
                ORDER BY v.vector::{cast_vector} <#> %s::{cast_vector} LIMIT {count}"""
            given_vector = text_vector(vector)
            rows = self._database.rows(sql, (given_vector, *values, given_vector))
            if len(rows) < count and clause:
                # The index gave up before it found enough that the restriction lets through: compare them all.
                self._database.rows("SET LOCAL enable_indexscan = off")
                rows = self._database.rows(sql, (given_vector, *values, given_vector))
                self._database.rows("SET LOCAL enable_indexscan = on")
        return sorted((Scored(key, value) for key, value in rows), key=lambda each: (-each.score, each.key))[:limit]

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Add up each word's list of passages, and hold the best against the restriction."""
        with self._database.reading():
            clause, values = self._restriction(where, "f.id")
            if clause is None:
                return []
            keys, shares = score(self._database, words, fields, self._totals())
            shares = shares.clip(max=1.0)
            count = limit if not clause else CHECKED_AT_ONCE * limit
            while True:
                likely = best(keys, shares, count)
                if not clause:
                    return likely
                allowed = {
                    key
                    for (key,) in self._database.rows(
                        f"""SELECT s.id FROM annai_sections s JOIN annai_files f ON f.id = s.document_id
                        WHERE s.id = ANY(%s) {clause}""",
                        ([each.key for each in likely], *values),
                    )
                }
                found = [each for each in likely if each.key in allowed]
                if len(found) >= limit or len(likely) == len(keys):
                    return found[:limit]
                count *= CHECKED_AT_ONCE

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """From the lengths of the words' lists."""
        return holding(self._database, words)

    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection."""
        row = self._database.row(
            """SELECT coalesce(sum(documents), 0), coalesce(sum(sections), 0) FROM annai_counters
            WHERE collection_id = (SELECT id FROM annai_collections WHERE name = %s)""",
            (collection,),
        )
        documents, sections = row or (0, 0)
        return Statistics(int(documents), int(sections), int(sections))

    def size_on_disk(self) -> int:
        """What the tables and their indexes take on the server."""
        return self._database.number(
            """SELECT sum(pg_total_relation_size(oid)) FROM pg_class
            WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname LIKE 'annai\\_%%'""",
            (),
        )

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One read transaction."""
        with self._database.reading():
            yield

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """A graph is built much faster at once than vector by vector."""
        self._postponed = True
        try:
            yield
        finally:
            self._postponed = False
        self._index_what_is_large()

    def inventory(self) -> Inventory:
        """From the tables themselves."""
        with self._database.reading():
            sections, vectors = (
                np.array([key for (key,) in self._database.rows(f"SELECT {column} FROM {table} ORDER BY 1")], np.int64)
                for column, table in (("id", "annai_sections"), ("section_id", "annai_vectors"))
            )
            tombs = {
                key
                for first, count in self._database.rows("SELECT first_section, section_count FROM annai_tombstones")
                for key in range(first, first + count)
            }
            lists = self._database.rows("SELECT list FROM annai_postings", binary=True)
        parts = [keys_of(np.frombuffer(part, ENTRY)) for (part,) in lists]
        passages, words = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]), return_counts=True)
        alive = ~np.isin(passages, [*tombs])
        return Inventory(sections, vectors, passages[alive], words[alive].astype(np.int64))

    def sweep(self) -> None:
        """Delete what has no document, and count again."""
        with self._database.writing():
            for table, column in (("annai_sections", "id"), ("annai_vectors", "section_id")):
                self._database.rows(
                    f"""DELETE FROM {table} t WHERE NOT EXISTS (
                        SELECT 1 FROM annai_documents d WHERE d.id = t.document_id
                        AND t.{column} >= d.first_section AND t.{column} < d.first_section + d.section_count)"""
                )
            self._database.rows("DELETE FROM annai_tokens WHERE section_id NOT IN (SELECT id FROM annai_sections)")
            self._database.rows("DELETE FROM annai_documents d WHERE id NOT IN (SELECT id FROM annai_files)")
            self._bury_strangers()
            self._database.rows("DELETE FROM annai_counters")
            self._database.rows(
                """INSERT INTO annai_counters SELECT collection_id, dimension, 0, count(*), sum(section_count),
                sum(passages), sum(words) FROM annai_documents GROUP BY collection_id, dimension"""
            )
        compact(self._database, always=True)

    def vacuum(self) -> None:
        """Lists without what is gone, indexes where they are due, and PostgreSQL's own vacuum."""
        compact(self._database, always=True)
        self._index_what_is_large()
        for (table,) in self._database.rows(
            """SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
            AND relkind = 'r' AND relname LIKE 'annai\\_%%'""",
            (),
        ):
            self._database.rows(f"VACUUM (ANALYZE) {table}")

    def close(self) -> None:
        """Close every connection."""
        self._requests.close()
        self._database.close()

    def _collection(self, name: str, *, lock: str = "") -> int:
        return self._database.number(f"SELECT id FROM annai_collections WHERE name = %s {lock}", (name,))

    def _existing(self, name: str, *, lock: str = "") -> int:
        number = self._collection(name, lock=lock)
        if not number:
            raise StoreError(f"There is no collection {name!r} ; `annai collection ls --all` lists them.")
        return number

    def _totals(self) -> Totals:
        row = self._database.row("SELECT sum(passages), sum(words) FROM annai_counters")
        passages, words = row or (0, 0)
        return Totals(int(passages or 0), int(words or 0))

    def _bury_strangers(self) -> None:
        """Tombstones for what the lists name and no section is."""
        held = self.inventory()
        strangers = np.setdiff1d(held.passages, held.sections)
        self._database.rows(
            "INSERT INTO annai_tombstones SELECT key, 1 FROM unnest(%s::bigint[]) AS key ON CONFLICT DO NOTHING",
            (strangers.tolist(),),
        )

    def _restriction(self, where: Where, document: str) -> tuple[str | None, list[object]]:
        """What a statement adds to look only at these documents: "" if at all, None if at none."""
        rows = self._database.rows("SELECT id, name FROM annai_collections")
        counted = {number for (number,) in self._database.rows("SELECT DISTINCT collection_id FROM annai_counters")}
        named = [number for number, name in rows if not where.collections or name in where.collections]
        if not named:
            return None, []
        narrowed = named if counted - {*named} else None
        return where_clause(where, document, narrowed)

    def _tidy(self, dimension: int = 0) -> None:
        """After a write: merge small lists, drop what is gone from them, and index vectors that have become many."""
        merge(self._database)
        compact(self._database)
        if dimension and not self._postponed:
            self._index_what_is_large([dimension])

    def _index_what_is_large(self, dimensions: Sequence[int] | None = None) -> None:
        build_graphs(self._database, self._settings, self._requests.due(), dimensions)


def _state(row: Sequence[Any]) -> FileState:
    path, size, mtime_ns, digest, kind, reason = row
    return FileState(unescape(path), size, mtime_ns, digest, Problem(kind, unescape(reason)) if kind else None)
