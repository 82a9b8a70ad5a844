"""When do vectors in PostgreSQL get an HNSW index? When they are many, and most of those to come are there."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from psycopg import errors

from annai.settings import StoreSettings
from annai.stores.postgres.database import Connection, PostgresDatabase, clean_up

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

_SET_TO_BUILD = ("maintenance_work_mem", "max_parallel_maintenance_workers")


class Graphs:
    """The graphs of a database, as far as this process builds them."""

    def __init__(self, database: PostgresDatabase, settings: StoreSettings, waiting: Callable[[], int]) -> None:
        self._database = database
        self._settings = settings
        self._waiting = waiting
        """Counts the files that are still to be indexed."""
        self._asked: dict[int, int] = {}
        """Of how many passages of each dimension it is known that their graph has to wait."""

    def build(self, dimensions: Sequence[int] | None = None) -> None:
        """Build the graphs that are due, of these dimensions or of all, while others read and write."""
        for dimension, passages, documents in self._database.rows(
            "SELECT dimension, sum(passages)::bigint, sum(documents)::bigint FROM annai_counters GROUP BY dimension"
        ):
            is_asked = dimensions is None or dimension in dimensions
            if not is_asked or passages < INDEX_FROM or dimension > MAX_INDEXED_DIMENSION:
                continue
            # Counting what waits takes the longer the more does, so it is not counted after every write.
            if dimensions is not None and passages < GROWTH_FACTOR * self._asked.get(dimension, 0):
                continue
            name = f"annai_hnsw_{dimension}"
            if self._database.number(
                "SELECT indisvalid::int FROM pg_index WHERE indexrelid = to_regclass(%s)",
                (f"{self._database.schema}.{name}",),
            ):
                continue
            if self._waiting() <= MAX_WAITING_SHARE * documents:
                _build(self._database, self._settings, name, dimension, passages)
            else:
                self._asked[dimension] = passages


def _build(database: PostgresDatabase, settings: StoreSettings, name: str, dimension: int, passages: int) -> None:
    """Build one, unless another process does."""
    with database.advisory_lock(f"hnsw_{dimension}") as mine, database.unlimited() as connection:
        if not mine:
            return
        with _memory(database, connection, passages * (2 * dimension + LINK_BYTES * settings.hnsw_m + NODE_BYTES)):
            try:
                _create(database, connection, settings, name, dimension)
            except (errors.DiskFull, errors.OutOfMemory):
                # Processes that build together share that memory, of which a container often allows very little.
                if database.is_pooled:
                    raise
                connection.execute("SET max_parallel_maintenance_workers = 0")
                _create(database, connection, settings, name, dimension)


def _create(
    database: PostgresDatabase, connection: Connection, settings: StoreSettings, name: str, dimension: int
) -> None:
    # One that is not valid was cut off while it was built.
    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {database.schema}.{name}")
    connection.execute(
        f"""CREATE INDEX CONCURRENTLY {name} ON {database.schema}.annai_vectors
        USING hnsw ((vector::{database.vectors}.halfvec({dimension})) {database.vectors}.halfvec_ip_ops)
        WITH (m = {settings.hnsw_m}, ef_construction = {settings.hnsw_construction_ef})
        WHERE dimension = {dimension} AND is_passage"""
    )


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
