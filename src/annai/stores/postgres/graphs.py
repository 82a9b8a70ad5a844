"""When do vectors in PostgreSQL get an HNSW index? When they are many, and most of those to come are there."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from psycopg import errors

from annai.settings import StoreSettings
from annai.stores.postgres.database import PostgresDatabase, clean_up
from annai.stores.postgres.upgrade import Connection

logger = logging.getLogger(__name__)

INDEX_FROM = 10_000
"""From this many passages of one dimension on they get a graph; fewer are compared one by one, exactly."""

MAX_INDEXED_DIMENSION = 4_000
"""Numbers of a vector that pgvector can index; longer ones are compared one by one."""

LINK_BYTES, NODE_BYTES = 40, 300
"""What a graph takes while it is built, besides the vectors: for each of its `hnsw_m`, and for each passage."""

MAX_MEMORY_MB = 2_000
"""What the server may take to build one. A graph that does not fit is built on disk, which takes many times as long."""

MAX_WAITING_SHARE = 0.25
"""While more files than this share of the documents wait to be indexed, the graph waits too: at once it is built
faster."""

GROWTH_FACTOR = 1.1
"""A graph that has to wait is thought of again when there are this many times as many passages."""

MAX_OWN_SHARE = 0.5
"""A collection that has less than this share of the passages gets a graph of its own; a larger one is searched by the
graph of all, most of whose answers are its own."""

_DUE = """
    WITH counted AS (SELECT dimension, collection_id, sum(passages)::bigint AS passages,
        sum(documents)::bigint AS documents FROM annai_counters GROUP BY dimension, collection_id),
    totals AS (SELECT dimension, sum(passages)::bigint AS passages, sum(documents)::bigint AS documents
        FROM counted GROUP BY dimension)
    SELECT t.dimension, NULL::int, t.passages, t.documents FROM totals t WHERE t.passages >= %s
    UNION ALL SELECT c.dimension, c.collection_id, c.passages, c.documents
    FROM counted c JOIN totals t USING (dimension) WHERE c.passages >= %s AND c.passages < %s * t.passages
"""
"""The graphs that there should be: for a dimension, and for a collection (NULL: for all of them)."""

_OTHERS = """
    SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = 'annai_vectors'::regclass AND i.indisvalid AND c.relname LIKE 'annai\\_hnsw\\_%%'
    AND NOT c.reloptions @> %s
"""
"""The graphs that were built with other settings than these."""

_REPLACEMENT = "annai_replacement_"
"""Begins the name of a graph that is to take the place of another, or that another took the place of."""

_SET_TO_BUILD = ("maintenance_work_mem", "max_parallel_maintenance_workers")


class Graphs:
    """The graphs of a database, as far as this process builds them."""

    def __init__(self, database: PostgresDatabase, settings: StoreSettings, waiting: Callable[[], int]) -> None:
        self._database = database
        self._settings = settings
        self._waiting = waiting
        """Counts the files that are still to be indexed."""
        self._asked: dict[str, int] = {}
        """Of how many passages it is known, by the name of their graph, that it has to wait."""

    def build(self, dimensions: Sequence[int] | None = None) -> None:
        """Build the graphs that are due, of these dimensions or of all, while others read and write."""
        if dimensions is None:
            self._drop_abandoned()
        for dimension, collection, passages, documents in self._database.rows(
            _DUE, (INDEX_FROM, INDEX_FROM, MAX_OWN_SHARE)
        ):
            is_asked = dimensions is None or dimension in dimensions
            name = graph_name(dimension, collection)
            if not is_asked or dimension > MAX_INDEXED_DIMENSION:
                continue
            # Counting what waits takes the longer the more does, so it is not counted after every write.
            if dimensions is not None and passages < GROWTH_FACTOR * self._asked.get(name, 0):
                continue
            if self._database.number(
                "SELECT indisvalid::int FROM pg_index WHERE indexrelid = to_regclass(%s)",
                (f"{self._database.schema}.{name}",),
            ):
                continue
            if self._waiting() <= MAX_WAITING_SHARE * documents:
                _build(self._database, self._settings, name, passages)
            else:
                self._asked[name] = passages

    def rebuild(self) -> None:
        """Build the graphs again that were built with other settings; searches use the old ones until then."""
        settings = self._settings
        wanted = [f"m={settings.hnsw_m}", f"ef_construction={settings.hnsw_construction_ef}"]
        due = {
            graph_name(dimension, collection): passages
            for dimension, collection, passages, _ in self._database.rows(_DUE, (INDEX_FROM, INDEX_FROM, MAX_OWN_SHARE))
        }
        for (name,) in self._database.rows(_OTHERS, (wanted,)):
            logger.warning("building the graph %s again, with %s", name, " and ".join(wanted))
            _build(self._database, settings, name, due.get(name, INDEX_FROM), replace=True)

    def _drop_abandoned(self) -> None:
        """Drop the graphs of collections that are gone."""
        known = {number for (number,) in self._database.rows("SELECT id FROM annai_collections")}
        for (name,) in self._database.rows(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relname LIKE %s",
            (self._database.schema, "annai\\_hnsw\\_%\\_%"),
        ):
            if _parts(name)[1] not in known:
                with self._database.unlimited() as connection:
                    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self._database.schema}.{name}")


def graph_name(dimension: int, collection: int | None = None) -> str:
    """The name of the graph of all passages of a dimension, or of those of one collection."""
    return f"annai_hnsw_{dimension}" if collection is None else f"annai_hnsw_{dimension}_{collection}"


def _parts(name: str) -> tuple[int, int | None]:
    """The dimension and the collection, if it is of one, that the name of a graph tells."""
    dimension, _, collection = name.removeprefix("annai_hnsw_").partition("_")
    return int(dimension), int(collection) if collection else None


def _build(
    database: PostgresDatabase, settings: StoreSettings, name: str, passages: int, *, replace: bool = False
) -> None:
    """Build one, unless another process does; to `replace` one, it is built beside it and then takes its name."""
    dimension, collection = _parts(name)
    built = name.replace("annai_hnsw_", _REPLACEMENT) if replace else name
    with database.advisory_lock(name.removeprefix("annai_")) as mine, database.unlimited() as connection:
        if not mine:
            return
        kind = f"(vector::{database.vectors}.halfvec({dimension})) {database.vectors}.halfvec_ip_ops"
        only = "" if collection is None else f" AND collection_id = {collection}"
        create = f"""CREATE INDEX CONCURRENTLY {built} ON {database.schema}.annai_vectors USING hnsw ({kind})
            WITH (m = {settings.hnsw_m}, ef_construction = {settings.hnsw_construction_ef})
            WHERE dimension = {dimension} AND is_passage{only}"""
        # One that is there was cut off while it was built, or before it was dropped.
        drop = f"DROP INDEX CONCURRENTLY IF EXISTS {database.schema}.{built}"
        with _memory(database, connection, passages * (2 * dimension + LINK_BYTES * settings.hnsw_m + NODE_BYTES)):
            try:
                connection.execute(drop)
                connection.execute(create)
            except (errors.DiskFull, errors.OutOfMemory):
                if database.is_pooled:
                    raise
                # Processes that build together share that memory, of which a container often allows very little.
                connection.execute("SET max_parallel_maintenance_workers = 0")
                connection.execute(drop)
                connection.execute(create)
        if replace:
            renames = ((name, f"{built}_old"), (built, name), (f"{built}_old", built))
            connection.execute("; ".join(f"ALTER INDEX {database.schema}.{a} RENAME TO {b}" for a, b in renames))
            connection.execute(drop)


@contextmanager
def _memory(database: PostgresDatabase, connection: Connection, needed: int) -> Iterator[None]:
    """Let the server take this many bytes for building, unless it is set to take more anyway.

    Behind a pooler it takes what it is set to, since the setting would be another client's.
    """
    if database.is_pooled:
        yield
        return
    megabytes = min(needed // 1_000_000 + 1, MAX_MEMORY_MB)
    connection.execute(
        """SELECT set_config('maintenance_work_mem', greatest(setting::bigint, %s * 1000)::text, false)
        FROM pg_settings WHERE name = 'maintenance_work_mem'""",
        (megabytes,),
    )
    with clean_up(lambda: [connection.execute(f"RESET {name}") for name in _SET_TO_BUILD]):
        yield
