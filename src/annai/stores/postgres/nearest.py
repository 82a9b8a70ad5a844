"""Which passages are nearest, in PostgreSQL? Many are searched by a graph, few are compared one by one.

Where a search is restricted to a small part of what a graph covers, most of what the graph finds is thrown away,
so the passages of that part are compared instead, by the index that leads to them.
"""

from collections.abc import Collection, Mapping, Sequence

from annai.answers import Where
from annai.settings import StoreSettings
from annai.stores.base import Vectors
from annai.stores.postgres.database import PostgresDatabase
from annai.stores.postgres.graphs import INDEX_FROM, graph_name
from annai.stores.postgres.overview import Overview
from annai.stores.postgres.rows import text_vector, where_clause

SEARCH_FACTOR, MAX_SEARCH = 2, 1_000
"""How many candidates HNSW keeps for each one asked for, and the most that pgvector allows."""

MIN_GRAPH_SHARE = 0.1
"""A collection with less than this share of a graph's passages is not searched by it, if it has no graph of its own."""

_COUNT = """SELECT coalesce(sum(passages), 0)::bigint FROM (SELECT d.passages FROM annai_documents d
    WHERE d.collection_id = ANY(%s) AND d.dimension = %s {clause} LIMIT {limit}) AS counted"""


class Nearest:
    """Finds the passages of a database that are nearest to a vector, within a transaction that reads."""

    def __init__(self, database: PostgresDatabase, settings: StoreSettings) -> None:
        self._database = database
        self._settings = settings

    def find(self, vector: Vectors, count: int, where: Where, overview: Overview) -> list[tuple[int, float]]:
        """The keys of the nearest passages with their cosines, best first."""
        passages = overview.passages_of(len(vector))
        chosen = [number for number in overview.numbers(where) if number in passages]
        if not chosen:
            return []
        is_restricted = bool(where_clause(where, "", None)[0])
        clause, values = where_clause(where, "v.document_id", chosen) if is_restricted else ("", [])
        condition = _graph_condition(len(vector), passages, chosen, overview.graphs)
        if condition is None or (is_restricted and self._are_few(len(vector), where, chosen)):
            return self._compare(vector, count, chosen, clause, values)
        rows = self._search(vector, count, condition, clause, values)
        if len(rows) < count and clause:
            # The graph gave up before it found enough that the restriction lets through.
            return self._compare(vector, count, chosen, clause, values)
        return rows

    def _are_few(self, dimension: int, where: Where, collections: Sequence[int]) -> bool:
        """Whether a restriction lets so few passages through that they are better compared one by one."""
        clause, values = where_clause(where, "d.id", collections)
        sql = _COUNT.format(clause=clause, limit=INDEX_FROM)
        return self._database.number(sql, (list(collections), dimension, *values)) < INDEX_FROM

    def _search(
        self, vector: Vectors, count: int, condition: str, clause: str, values: Sequence[object]
    ) -> list[tuple[int, float]]:
        """By a graph: it is chosen by the conditions, which are those that it was built with."""
        ef = min(max(self._settings.hnsw_search_ef, SEARCH_FACTOR * count), MAX_SEARCH)
        score, text = self._score(len(vector)), text_vector(vector)
        return self._database.rows_with(
            {"hnsw.ef_search": ef, "hnsw.iterative_scan": "strict_order"},
            f"""SELECT v.section_id, -({score}) FROM annai_vectors v
            WHERE v.dimension = {len(vector)} AND v.is_passage {condition} {clause} ORDER BY {score} LIMIT {count}""",
            (text, *values, text),
        )

    def _compare(
        self, vector: Vectors, count: int, collections: Sequence[int], clause: str, values: Sequence[object]
    ) -> list[tuple[int, float]]:
        """One by one, exactly: no graph answers it, since what is ordered is made first."""
        return self._database.rows(
            f"""WITH compared AS MATERIALIZED (
                SELECT v.section_id, {self._score(len(vector))} AS product FROM annai_vectors v
                WHERE v.collection_id = ANY(%s) AND v.is_passage AND v.dimension = {len(vector)} {clause})
            SELECT section_id, -product FROM compared ORDER BY product, section_id LIMIT {count}""",
            (text_vector(vector), list(collections), *values),
        )

    def _score(self, dimension: int) -> str:
        """The expression that is smallest for the nearest."""
        kind = f"{self._database.vectors}.halfvec({dimension})"
        return f"v.vector::{kind} OPERATOR({self._database.vectors}.<#>) %s::{kind}"


def _graph_condition(
    dimension: int, passages: Mapping[int, int], chosen: Sequence[int], graphs: Collection[str]
) -> str | None:
    """What a statement says of collections for one of the graphs to answer it; None if none is worth it."""
    own, everything = sum(passages[number] for number in chosen), sum(passages.values())
    if own < INDEX_FROM:
        return None
    if own == everything:
        return "" if graph_name(dimension) in graphs else None
    if len(chosen) == 1 and graph_name(dimension, chosen[0]) in graphs:
        return f"AND v.collection_id = {chosen[0]}"
    if own >= MIN_GRAPH_SHARE * everything and graph_name(dimension) in graphs:
        # Not as a number alone, which a graph of one collection would answer too.
        return f"AND v.collection_id = ANY(ARRAY[{', '.join(map(str, chosen))}])"
    return None
