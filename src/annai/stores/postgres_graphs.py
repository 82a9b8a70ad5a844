"""When do vectors in PostgreSQL get an HNSW index? When they are many, and not while most of them are still to come."""

from collections.abc import Sequence

from annai.settings import StoreSettings
from annai.stores.postgres_database import PostgresDatabase

INDEX_FROM = 10_000
"""Passages of one dimension from which on they get a graph; fewer are compared one by one, exactly."""

LARGEST_INDEXED = 4_000
"""Numbers of a vector that pgvector can index; longer ones are compared one by one."""

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
            _build(database, settings, name, dimension)


def _build(database: PostgresDatabase, settings: StoreSettings, name: str, dimension: int) -> None:
    """Build one, unless another process is at it."""
    with database.connection() as connection:
        (mine,) = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s))", (name,)).fetchone()
        if not mine:
            return
        try:
            # One that is there and not valid was cut off while it was built.
            connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            connection.execute(
                f"""CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON annai_vectors
                USING hnsw ((vector::halfvec({dimension})) halfvec_ip_ops)
                WITH (m = {settings.hnsw_m}, ef_construction = {settings.hnsw_construction_ef})
                WHERE dimension = {dimension} AND is_passage"""
            )
        finally:
            connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", (name,))
