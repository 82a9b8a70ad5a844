"""When do vectors in PostgreSQL get an HNSW index? When they are many, and not while most of them are still to come."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import errors

from annai.settings import StoreSettings
from annai.stores.postgres.database import PostgresDatabase

INDEX_FROM = 10_000
"""Passages of one dimension from which on they get a graph; fewer are compared one by one, exactly."""

LARGEST_INDEXED = 4_000
"""Numbers of a vector that pgvector can index; longer ones are compared one by one."""

LINK_BYTES, NODE_BYTES = 40, 300
"""What a graph takes while it is built, beside the vectors: for each of its `hnsw_m`, and for each passage."""

MOST_MEMORY_MB = 2_000
"""What the server may take to build one. A graph that does not fit is built on disk, which takes many times as long."""

STILL_TO_COME = 4
"""While more than one in so many documents still waits, the graph does too: at once it is built faster."""


def build_graphs(
    database: PostgresDatabase, settings: StoreSettings, waiting: int, dimensions: Sequence[int] | None = None
) -> None:
    """Build the graphs that are due, of these dimensions or of all; others read and write meanwhile.

    `waiting` tells how many files are still to be indexed.
    """
    for dimension, passages, documents in database.rows(
        "SELECT dimension, sum(passages)::bigint, sum(documents)::bigint FROM annai_counters GROUP BY dimension"
    ):
        wanted = dimensions is None or dimension in dimensions
        if not wanted or passages < INDEX_FROM or dimension > LARGEST_INDEXED or waiting * STILL_TO_COME > documents:
            continue
        name = f"annai_hnsw_{dimension}"
        if not database.number("SELECT indisvalid::int FROM pg_index WHERE indexrelid = to_regclass(%s)", (name,)):
            _build(database, settings, name, dimension, passages)


def _build(database: PostgresDatabase, settings: StoreSettings, name: str, dimension: int, passages: int) -> None:
    """Build one, unless another process is at it."""
    with database.connection() as connection:
        (mine,) = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s))", (name,)).fetchone()
        if not mine:
            return
        try:
            with _roomy(connection, passages * (2 * dimension + LINK_BYTES * settings.hnsw_m + NODE_BYTES)):
                try:
                    _create(connection, settings, name, dimension)
                except (errors.DiskFull, errors.OutOfMemory):
                    # Processes that build together share that memory, of which a container often allows very little.
                    connection.execute("SET max_parallel_maintenance_workers = 0")
                    _create(connection, settings, name, dimension)
        finally:
            connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", (name,))


def _create(connection: Any, settings: StoreSettings, name: str, dimension: int) -> None:  # noqa: ANN401 - psycopg's
    # One that is there and not valid was cut off while it was built.
    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    connection.execute(
        f"""CREATE INDEX CONCURRENTLY {name} ON annai_vectors
        USING hnsw ((vector::halfvec({dimension})) halfvec_ip_ops)
        WITH (m = {settings.hnsw_m}, ef_construction = {settings.hnsw_construction_ef})
        WHERE dimension = {dimension} AND is_passage"""
    )


@contextmanager
def _roomy(connection: Any, needed: int) -> Iterator[None]:  # noqa: ANN401 - psycopg's
    """Let the server take so many bytes for building, unless it is set to take more anyway."""
    megabytes = min(needed // 1_000_000 + 1, MOST_MEMORY_MB)
    connection.execute(
        """SELECT set_config('maintenance_work_mem', greatest(setting::bigint, %s * 1000)::text, false)
        FROM pg_settings WHERE name = 'maintenance_work_mem'""",
        (megabytes,),
    )
    try:
        yield
    finally:
        for name in ("maintenance_work_mem", "max_parallel_maintenance_workers"):
            connection.execute(f"RESET {name}")
