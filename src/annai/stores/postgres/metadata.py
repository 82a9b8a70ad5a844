"""What do the documents in PostgreSQL say about themselves? A row for each name and value."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from annai.stores import metadata as fields
from annai.stores.base import MAX_FIELD_VALUES, MAX_FIELDS
from annai.stores.postgres.rows import unescape
from annai.stores.rows import NO_FRONT_MATTER
from annai.text.metadata import metadata
from annai.types import MetadataField

if TYPE_CHECKING:
    from annai.stores.postgres.database import PostgresDatabase
    from annai.stores.postgres.upgrade import Connection

VERSION = 4
"""The version of the schema that has the table."""

FILL_BATCH = 1_000
"""Documents that are read at a time to fill it."""

_COLUMNS = ("name", "value", "document_id")
_KINDS = ("text", "text", "int8")

_SELECT_METADATA, _SELECT_FIELDS = fields.select_metadata("annai_", "%s"), fields.select_fields("annai_", "%s")


def read_metadata(database: "PostgresDatabase", collection: str, name: str) -> list[tuple[str, str]]:
    """What documents say under a name."""
    rows = database.rows(_SELECT_METADATA, (name, collection))
    return [(unescape(path), value) for path, value in rows]


def count_fields(database: "PostgresDatabase", collection: str) -> list[MetadataField]:
    """The names under which documents say something."""
    return fields.read_fields(database.rows(_SELECT_FIELDS, (collection, MAX_FIELDS, MAX_FIELD_VALUES)))


def write_metadata(database: "PostgresDatabase", documents: Iterable[tuple[int, Mapping[str, object]]]) -> None:
    """Write what documents say about themselves, given their front matter, within a transaction."""
    database.copy("annai_metadata", _COLUMNS, [*_rows(documents)], _KINDS)


def fill_metadata(connection: "Connection") -> None:
    """Write what all documents of an older index say about themselves, within the transaction that makes the table."""
    last = 0
    while True:
        documents = connection.execute(
            f"SELECT id, front_matter FROM annai_documents WHERE id > %s AND front_matter <> '{NO_FRONT_MATTER}' "
            f"ORDER BY id LIMIT {FILL_BATCH}",
            (last,),
        ).fetchall()
        if not documents:
            return
        last = documents[-1][0]
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO annai_metadata ({', '.join(_COLUMNS)}) VALUES (%s, %s, %s)",
                [*_rows((number, json.loads(text)) for number, text in documents)],
            )


def _rows(documents: Iterable[tuple[int, Mapping[str, object]]]) -> Iterator[tuple[Any, ...]]:
    return ((name, value, number) for number, values in documents for name, value in metadata(values))
