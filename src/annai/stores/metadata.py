"""Which fields do documents have? What they say about themselves, counted: in SQL, or one by one."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from annai.stores.base import MAX_FIELD_VALUES, MAX_FIELDS
from annai.stores.rows import Row
from annai.text.metadata import read_values
from annai.types import MetadataField


def select_metadata(prefix: str, mark: str) -> str:
    """The statement that reads what a collection's documents say under a name; `mark` stands for a value."""
    return f"""
        SELECT f.path, m.value FROM {prefix}metadata m JOIN {prefix}files f ON f.id = m.document_id
        WHERE m.name = {mark} AND f.collection_id = (SELECT id FROM {prefix}collections WHERE name = {mark})
    """


def select_fields(prefix: str, mark: str) -> str:
    """The statement that reads a collection's fields: a row for each frequent value, with its count.

    The values it takes are the collection's name, `MAX_FIELDS` and `MAX_FIELD_VALUES`.
    """
    return f"""
        WITH own AS (
            SELECT m.name, m.value, m.document_id FROM {prefix}metadata m JOIN {prefix}files f ON f.id = m.document_id
            WHERE f.collection_id = (SELECT id FROM {prefix}collections WHERE name = {mark})
        ), counted AS (
            SELECT name, count(DISTINCT document_id) AS documents FROM own GROUP BY name
            ORDER BY documents DESC, name LIMIT {mark}
        ), frequent AS (
            SELECT name, value, count(*) AS times,
            row_number() OVER (PARTITION BY name ORDER BY count(*) DESC, value) AS place FROM own GROUP BY name, value
        )
        SELECT c.name, c.documents, v.value, v.times FROM counted c JOIN frequent v ON v.name = c.name
        WHERE v.place <= {mark} ORDER BY c.documents DESC, c.name, v.place
    """


def read_fields(rows: Iterable[Row]) -> list[MetadataField]:
    """The fields of rows of `select_fields`."""
    return [
        MetadataField(name, documents, read_values((value, times) for _, _, value, times in own))
        for (name, documents), own in groupby(rows, lambda row: (row[0], row[1]))
    ]


def count_fields(rows: Iterable[tuple[str, str, str]]) -> list[MetadataField]:
    """The same from every path, name and value."""
    documents: dict[str, set[str]] = {}
    values: dict[str, Counter[str]] = {}
    for path, name, value in rows:
        documents.setdefault(name, set()).add(path)
        values.setdefault(name, Counter())[value] += 1
    frequent = sorted(documents, key=lambda name: (-len(documents[name]), name))[:MAX_FIELDS]
    counts = {name: sorted(values[name].items(), key=lambda each: (-each[1], each[0])) for name in frequent}
    return [
        MetadataField(name, len(documents[name]), read_values(counts[name][:MAX_FIELD_VALUES])) for name in frequent
    ]
