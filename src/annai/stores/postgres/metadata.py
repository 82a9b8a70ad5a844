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
    from annai.stores.postgres.database import Connection, PostgresDatabase

VERSION = 4
"""The version of the schema that has the table."""

FILL_BATCH = 1_000
"""Documents that are read at a time to fill it."""

_COLUMNS = ("name", "value", "document_id")
_KINDS = ("text", "text", "int8")

_SELECT_METADATA, _SELECT_FIELDS = fields.select_metadata("annai_", "%s"), fields.select_fields("annai_", "%s")


def read_metadata(database: "PostgresDatabase", collection: str, name: str) -> list[tuple[str, str]]:
    """What documents say under a name."""
    if not database.has_metadata:
        return [(path, value) for path, own, value in _from_front_matter(database, collection) if own == name]
    rows = database.rows(_SELECT_METADATA, (name, collection))
    return [(unescape(path), value) for path, value in rows]


def count_fields(database: "PostgresDatabase", collection: str) -> list[MetadataField]:
    """The names under which documents say something."""
    if not database.has_metadata:
        return fields.count_fields(_from_front_matter(database, collection))
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


def _from_front_matter(database: "PostgresDatabase", collection: str) -> Iterator[tuple[str, str, str]]:
    """The same of an older index that cannot be written, a read replica's: path, name and value."""
    rows = database.rows(
        f"""SELECT f.path, d.front_matter FROM annai_documents d JOIN annai_files f ON f.id = d.id
        WHERE d.front_matter <> '{NO_FRONT_MATTER}'
        AND f.collection_id = (SELECT id FROM annai_collections WHERE name = %s)""",
        (collection,),
    )
    for path, text in rows:
        for name, value in metadata(json.loads(text)):
            yield unescape(path), name, value
