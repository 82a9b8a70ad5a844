"""How does a schema of PostgreSQL become an index of this version, for one project, while others use it?"""

import logging
import re
from typing import Any

from psycopg import errors

from annai.definitions import dataclass
from annai.errors import NewerIndex, StoreError
from annai.stores.postgres import metadata
from annai.stores.postgres.schema import MIGRATIONS, READABLE_FROM

logger = logging.getLogger(__name__)

MIN_PGVECTOR = (0, 8)
"""The first version that goes on searching its index when a filter left too few."""

Connection = Any
"""A connection of psycopg, a third party's object."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an index is in a database. Names are quoted, as statements need them."""

    schema: str
    vectors: str
    """The schema of the extension pgvector, often `public`."""
    is_newer: bool = False
    """Whether a newer annai made it: this one can read it, and must not write."""


def open_place(connection: Connection, server: str, schema: str, project: str, *, read_only: bool) -> Place:
    """Find the index of a project, making or upgrading it where that is due; `schema` is empty for the user's own."""
    name = schema or connection.execute("SELECT current_schema()").fetchone()[0]
    if not name:
        raise StoreError(
            f"The search_path at {server} names no schema that exists", "name one in store.schema, which annai makes."
        )
    if re.search(r'[%".]', name):
        raise StoreError(f'The schema {name!r} has one of % " . in its name', "name another in store.schema.")
    quoted = f'"{name}"'
    known = _read(connection, quoted)
    version = int(known.get("version", 0))
    if version > len(MIGRATIONS) and int(known.get("readable_from", version)) > len(MIGRATIONS):
        raise newer(server, version)
    if read_only and version < len(MIGRATIONS):
        reason = "is of an older annai" if version else "does not exist"
        raise StoreError(
            f"There is no index for this annai at {server} (it {reason}), and it cannot be written here",
            "open it once from a machine that may write.",
        )
    if version < len(MIGRATIONS):
        _migrate(connection, server, name, quoted)
    if project and not read_only:
        _check_project(connection, server, quoted, project)
    if version > len(MIGRATIONS):
        logger.warning(
            "a newer annai upgraded the index at %s, so this one only searches it; upgrade annai on this machine",
            server,
        )
    return Place(quoted, f'"{_extension(connection, server)}"', version > len(MIGRATIONS))


def newer(server: str, version: int) -> NewerIndex:
    """The error of an index that a newer annai has upgraded."""
    return NewerIndex(
        f"The index at {server} was written by a newer annai (its version is {version}, this annai knows "
        f"{len(MIGRATIONS)}), so this one writes nothing",
        "upgrade annai on this machine.",
    )


def _read(connection: Connection, schema: str) -> dict[str, Any]:
    """What an index says of itself; empty if there is none."""
    if connection.execute("SELECT to_regclass(%s)", (f"{schema}.annai_schema",)).fetchone() == (None,):
        return {}
    row = connection.execute(f"SELECT to_jsonb(s) FROM {schema}.annai_schema s").fetchone()
    return dict(row[0]) if row else {}


def _migrate(connection: Connection, server: str, name: str, schema: str) -> None:
    """Upgrade it, while nobody writes; whoever waited for the same finds it done."""
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('annai_schema'))")
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"{name}.annai_schema",))
        if connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
            connection.execute(f"CREATE SCHEMA {schema}")
        vectors = _extension(connection, server)
        connection.execute(f'SET LOCAL search_path TO {schema}, "{vectors}"')
        known = _read(connection, schema)
        version = int(known.get("version", 0))
        if version >= len(MIGRATIONS):
            return
        connection.execute(
            f"""CREATE TABLE IF NOT EXISTS {schema}.annai_schema (version integer NOT NULL);
            ALTER TABLE {schema}.annai_schema ADD COLUMN IF NOT EXISTS readable_from integer NOT NULL DEFAULT 1;
            ALTER TABLE {schema}.annai_schema ADD COLUMN IF NOT EXISTS project text NOT NULL DEFAULT '';"""
        )
        for number in range(version, len(MIGRATIONS)):
            connection.execute(MIGRATIONS[number])
        if 0 < version < metadata.VERSION:
            metadata.fill_metadata(connection)
        connection.execute(f"DELETE FROM {schema}.annai_schema")
        connection.execute(
            f"INSERT INTO {schema}.annai_schema (version, readable_from, project) VALUES (%s, %s, %s)",
            (len(MIGRATIONS), READABLE_FROM, known.get("project", "")),
        )
    if version:
        logger.warning("upgraded the index at %s from version %d to %d", server, version, len(MIGRATIONS))


def _check_project(connection: Connection, server: str, schema: str, project: str) -> None:
    """Make the schema this project's, or raise an error if it is another's."""
    connection.execute(f"UPDATE {schema}.annai_schema SET project = %s WHERE project = ''", (project,))
    owner = connection.execute(f"SELECT project FROM {schema}.annai_schema").fetchone()[0]
    if owner != project:
        raise StoreError(
            f"The index at {server} in the schema {schema} belongs to the project {owner!r}, and this one is "
            f"{project!r}",
            f"to use the same index from here, set project.name to {owner!r} in annai.toml; for an index "
            "of its own, name another schema in store.schema.",
        )


def _extension(connection: Connection, server: str) -> str:
    """The schema of pgvector, which is installed if it is not."""
    find = """SELECT n.nspname, e.extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector'"""
    row = connection.execute(find).fetchone()
    if row is None:
        # Not into the project's own schema: others in this database need it too.
        has_public = connection.execute("SELECT to_regnamespace('public')").fetchone() != (None,)
        try:
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS vector{' SCHEMA public' if has_public else ''}")
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"The database at {server} lacks the extension pgvector, and the user of store.url may not create it",
                "let a superuser run `CREATE EXTENSION vector` in this database.",
            ) from error
        row = connection.execute(find).fetchone()
    schema, installed = row
    if tuple(map(int, installed.split(".")[:2])) < MIN_PGVECTOR:
        raise StoreError(
            f"The PostgreSQL at {server} has pgvector {installed}, and annai needs 0.8 or newer",
            "install it there and run `ALTER EXTENSION vector UPDATE`.",
        )
    return str(schema)
