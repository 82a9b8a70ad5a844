"""How does LanceDB find neighbours? One flat table a dimension, in a folder or an object store."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from textwrap import shorten
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import Bitmap, BTree, HnswSq
from numpy.typing import NDArray

from annai.answers import Where
from annai.config import Config
from annai.errors import StoreError, StoreFull
from annai.settings import StoreSettings
from annai.stores.base import Store, Vectors
from annai.stores.paths import trim_prefix
from annai.stores.sidecar.neighbours import Neighbours, Passage, redact_url
from annai.stores.sidecar.vectors import open_beside
from annai.stores.sqlite.search_index import Span

logger = logging.getLogger(__name__)

INDEX_FROM = 50_000
"""From this many passages on they get a vector index; fewer are compared one by one, exactly, in milliseconds."""

WRITES_BEFORE_COMPACTION = 32
"""Each write leaves a small file; this many of them are put together."""

OLD_VERSIONS_KEPT = timedelta(minutes=10)
"""How long what a compaction replaced stays, for searches that still read it."""

SEARCHED_PARTS, REFINE_FACTOR = 40, 2
"""How many parts of the vector index a search looks into, and how many times the candidates are compared in full."""

MAX_REASON = 150
"""Characters of an error of LanceDB that are shown: it goes on with where in its source it arose."""

Connection = Any
"""A connection of LanceDB, a third party's object."""

Table = Any
"""A table of LanceDB, a third party's object."""

ArrowObject = Any
"""A schema or a table of pyarrow, a third party's object."""

_DISTANCE = "cosine"


def open_store(config: Config) -> Store:
    """Open the index: the file, and the folder or URI of the table."""
    folder = config.database_path.with_suffix("")
    return open_beside(config, LanceNeighbours(config.store, folder))


class LanceNeighbours(Neighbours):
    """Passages in LanceDB: their vectors, and what filters and people look at."""

    prefix = "passages"

    def __init__(self, settings: StoreSettings, folder: Path) -> None:
        self.folder = folder
        self._uri = settings.url or str(folder)
        self.address = redact_url(self._uri)
        self.is_shared = bool(settings.url)
        self._settings = settings
        self._writes = 0
        self._opened: dict[str, Table] = {}
        self._connected: Connection = None

    def open(self) -> None:
        """Make the folder."""
        with self._translate_errors():
            _ = self._connection

    @property
    def _connection(self) -> Connection:
        if self._connected is None:
            # Every search sees what other processes wrote before it.
            self._connected = lancedb.connect(self._uri, read_consistency_interval=timedelta(0))
        return self._connected

    def names(self) -> list[str]:
        """Page by page."""
        with self._translate_errors():
            page = self._connection.list_tables()
            names = [*page.tables]
            while page.page_token:
                page = self._connection.list_tables(page_token=page.page_token)
                names += page.tables
            return names

    def add(self, passages: Sequence[Passage]) -> None:
        """One file; keys are new, unless a passage is added again after it was lost."""
        dimension = len(passages[0].vector)
        with self._translate_errors():
            self._table(dimension, make=True).add(_rows(passages, dimension))
        self._writes += 1

    def remove(self, spans: Sequence[Span]) -> None:
        """By ranges of keys."""
        with self._translate_errors():
            for table in self._tables():
                for start in range(0, len(spans), 500):
                    clauses = [f"(key >= {first} AND key < {past})" for first, past in spans[start : start + 500]]
                    table.delete(" OR ".join(clauses))

    def nearest(self, vector: Vectors, count: int, collections: Sequence[int] | None, where: Where, /) -> list[int]:
        """Filtered first, then compared."""
        with self._translate_errors():
            table = self._table(len(vector))
            if table is None:
                return []
            search = table.search(vector).distance_type(_DISTANCE)
            search = (
                search.nprobes(SEARCHED_PARTS)
                .ef(max(REFINE_FACTOR * count, self._settings.hnsw_search_ef))
                .refine_factor(REFINE_FACTOR)
            )
            if clause := _clause(collections, where):
                search = search.where(clause, prefilter=True)
            found = search.select(["key", "_distance"]).limit(count).to_arrow()
            return [int(key) for key in found["key"].to_pylist()]

    def count(self) -> int:
        """Of each table."""
        with self._translate_errors():
            return sum(int(table.count_rows()) for table in self._tables())

    def drop(self, name: str) -> None:
        """With its files."""
        self._opened.pop(name, None)
        with self._translate_errors():
            self._connection.drop_table(name)

    def keys(self) -> NDArray[np.int64]:
        """One column of every table."""
        with self._translate_errors():
            parts = [
                table.search().select(["key"]).limit(None).to_arrow()["key"].to_numpy() for table in self._tables()
            ]
            return np.concatenate([np.zeros(0, np.int64), *parts])

    def optimize(self, *, now: bool = False) -> None:
        """Put small files together, and index large tables."""
        if not now and self._writes < WRITES_BEFORE_COMPACTION:
            return
        self._writes = 0
        with self._translate_errors():
            for table in self._tables():
                indexed = {name for index in table.list_indices() for name in index.columns}
                if "key" not in indexed:
                    table.create_index("key", config=BTree())
                    table.create_index("path", config=BTree())
                    table.create_index("collection", config=Bitmap())
                if "vector" not in indexed and table.count_rows() >= INDEX_FROM:
                    self._build_graph(table)
                table.optimize(cleanup_older_than=OLD_VERSIONS_KEPT)

    def vacuum(self) -> None:
        """Keep the latest version alone."""
        self.optimize(now=True)
        with self._translate_errors(), warnings.catch_warnings():
            # It warns that others may still read older versions: a vacuum means to end that.
            warnings.simplefilter("ignore", UserWarning)
            for table in self._tables():
                table.optimize(cleanup_older_than=timedelta(0))

    def apply_settings(self) -> None:
        """The new graph takes the old one's place when it is done; how wide to search is said with every search."""
        wanted = (_DISTANCE.upper(), self._settings.hnsw_m, self._settings.hnsw_construction_ef)
        with self._translate_errors():
            for table in self._tables():
                # An older LanceDB does not tell what it built.
                details = [index.index_details for index in table.list_indices() if "vector" in index.columns]
                for graph in filter(None, details):
                    links = graph["hnsw"]
                    if (graph["metric_type"], links["max_connections"], links["construction_ef"]) != wanted:
                        count = table.count_rows()
                        logger.warning("building LanceDB's graph of %d vectors again, with the settings of now", count)
                        self._build_graph(table)

    def _build_graph(self, table: Table) -> None:
        table.create_index(
            "vector",
            config=HnswSq(
                distance_type=_DISTANCE,
                m=self._settings.hnsw_m,
                ef_construction=self._settings.hnsw_construction_ef,
            ),
        )

    def size_on_disk(self) -> int:
        """The files of the folder; nothing, if it is somewhere else."""
        if "://" in self._uri:
            return 0
        return sum(file.stat().st_size for file in Path(self._uri).rglob("*") if file.is_file())

    def close(self) -> None:
        """LanceDB holds nothing open."""
        self._opened.clear()
        self._connected = None

    def _tables(self) -> list[Table]:
        own = self.own_names()
        for name in own:
            if name not in self._opened:
                self._opened[name] = self._connection.open_table(name)
        return [self._opened[name] for name in own]

    def _table(self, dimension: int, *, make: bool = False) -> Table:
        name = f"{self.prefix}_{dimension}"
        if name not in self._opened:
            self._tables()
        if name not in self._opened and make:
            self._opened[name] = self._connection.create_table(name, schema=_schema(dimension), exist_ok=True)
        return self._opened.get(name)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn LanceDB's errors into sentences."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            text = str(error)
            if "No space left" in text or "os error 28" in text:
                raise StoreFull(
                    f"There is no space left for {self.address}", "free some and run the command again."
                ) from error
            reason = shorten(text.splitlines()[0], MAX_REASON) if text else type(error).__name__
            raise StoreError(
                f"LanceDB could not use {self.address} ({reason})",
                "check that store.url is right and can be written. "
                "Nothing is lost: what was not written is indexed again later.",
            ) from error


def _schema(dimension: int) -> ArrowObject:
    """A flat row a passage: no nesting, so that every column can be filtered and indexed."""
    return pa.schema(
        [
            ("key", pa.int64()),
            ("collection", pa.int32()),
            ("path", pa.string()),
            ("heading", pa.string()),
            ("depth", pa.int8()),
            ("section_number", pa.string()),
            ("start_line", pa.int32()),
            ("end_line", pa.int32()),
            ("token_count", pa.int32()),
            ("vector", pa.list_(pa.float32(), dimension)),
        ]
    )


def _rows(passages: Sequence[Passage], dimension: int) -> ArrowObject:
    vectors = np.concatenate([passage.vector for passage in passages]).astype(np.float32)
    schema = _schema(dimension)
    columns: list[Any] = [
        [passage.key for passage in passages],
        [passage.collection for passage in passages],
        [passage.path for passage in passages],
        [passage.section.heading for passage in passages],
        [passage.section.depth for passage in passages],
        [".".join(map(str, passage.section.number)) for passage in passages],
        [passage.section.start_line for passage in passages],
        [passage.section.end_line for passage in passages],
        [passage.section.token_count for passage in passages],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=False)]
    arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(vectors), dimension))
    return pa.Table.from_arrays(arrays, schema=schema)


def _clause(collections: Sequence[int] | None, where: Where) -> str:
    """The restriction in LanceDB's SQL; paths it could misread are left to the index file."""
    clauses = []
    if collections is not None:
        clauses.append(f"collection IN ({', '.join(map(str, [*collections, -1]))})")
    prefixes = [trim_prefix(prefix) for prefix in where.paths]
    if prefixes and all(prefix.isprintable() for prefix in prefixes):
        quoted = [prefix.replace("'", "''") for prefix in prefixes]
        alternatives = [f"path = '{each}' OR starts_with(path, '{each}/')" for each in quoted]
        clauses.append(f"({' OR '.join(alternatives)})")
    return " AND ".join(clauses)
