"""How does Qdrant find neighbours and words? Dense and sparse vectors of the same points, in a server or a cluster."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from annai.answers import Where
from annai.config import Config
from annai.errors import StoreError
from annai.stores.base import Scored, Store
from annai.stores.bm25 import Matches, is_prefix, saturation, score, weighted_frequencies, weights_of, word_value
from annai.stores.scores import top_scores
from annai.stores.sidecar.qdrant_points import Point, QdrantPoints
from annai.stores.sidecar.qdrant_sparse import read_counts, sparse_words, word_number
from annai.stores.sidecar.vectors import WIDEN_FACTOR, SidecarVectors, open_beside
from annai.stores.sqlite.passage_table import PassageTable
from annai.stores.sqlite.search_index import IndexFile, Keys, Span, WordIndex, candidate_count
from annai.text.fields import FieldWeights
from annai.text.keywords import Keywords

READ_UP_TO = 50_000
"""If there are no more passages than this, their words are read from the file where Qdrant cannot be asked."""


def open_store(config: Config) -> Store:
    """Open the index: the file, and Qdrant's server."""
    points = QdrantPoints(config.store)
    return open_beside(config, points, lambda file, vectors: QdrantWords(file, points, vectors))


class QdrantWords(WordIndex):
    """A word index in the sparse vectors of points; the file only counts how many passages hold each word."""

    def __init__(self, file: IndexFile, points: QdrantPoints, vectors: SidecarVectors) -> None:
        self._file = file
        self._points = points
        self._vectors = vectors
        self._read: dict[int, Point] = {}
        """What was read from the file, by key, while Qdrant does not answer."""

    def add(self, passages: Mapping[int, Keywords], /) -> None:
        """The points have them; the file counts them."""
        self._count(Counter(number for words in passages.values() for number in sparse_words(words).weights))

    def drop(self, span: Span) -> None:
        """The points stay for a while; the file no longer counts them."""
        dropped = Counter(number for _, numbers in self._points.words(range(*span)) for number in numbers)
        self._count({number: -count for number, count in dropped.items()})

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Candidates by sparse vectors, then their counts."""
        table = self._file.passages.table()
        if not words or not len(table):
            return []
        query = {word_number(word, prefix=is_prefix(word)): weight for word, weight in words.items()}
        points, positions = self._candidates(query, limit, table, where)
        holding = self._holding(query)
        values = {number: word_value(weight, len(table), holding.get(number, 0)) for number, weight in query.items()}
        matches = _matches(points, values, fields, table.length_damping[positions])
        chosen, shares = score(matches, len(points))
        return [each for each in top_scores(table.keys[positions[chosen]], shares, limit) if each.score > 0]

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """From the counts that are kept for scoring."""
        numbers = {word_number(word): word for word in words}
        return {numbers[number]: count for number, count in self._holding(numbers).items() if count > 0}

    def word_counts(self) -> tuple[Keys, Keys]:
        """Each point carries its own count."""
        known = {*self._file.passages.keys().tolist()}
        try:
            counted = self._points.word_counts()
        except StoreError:
            counted = {}  # As the vectors, which are reported.
        passages = sorted(key for key, count in counted.items() if count and key in known)
        return np.array(passages, np.int64), np.array([counted[key] for key in passages], np.int64)

    def compact(self) -> None:
        """The engine forgets what was deleted."""

    def recount(self) -> None:
        """Count the words of all points."""
        counts = Counter(number for _, numbers in self._points.words() for number in numbers)
        with self._file.database.writing():
            self._file.database.rows("DELETE FROM word_counts")
            self._count(counts)

    def _candidates(
        self, query: dict[int, float], limit: int, table: PassageTable, where: Where
    ) -> tuple[list[Point], NDArray[np.int64]]:
        """Points that may match best, and their positions in the table, ascending."""
        usable = self._file.passages.usable(table, where)
        collections = self._file.passages.collections(table, where)
        count = candidate_count(limit)
        while True:
            points = self._find(query, count, collections, where)
            positions, present = table.positions(np.array([point.key for point in points], np.int64))
            present[present] = usable[positions[present]]
            if np.count_nonzero(present) >= min(limit, count // WIDEN_FACTOR) or len(points) < count:
                order = np.flatnonzero(present)[np.argsort(positions[present])]
                return [points[index] for index in order], positions[order].astype(np.int64)
            count *= WIDEN_FACTOR

    def _find(
        self, query: dict[int, float], count: int, collections: Sequence[int] | None, where: Where
    ) -> list[Point]:
        """Points that may match best; those of the file, while Qdrant fails or lost some."""
        health = self._vectors.health
        if health.is_usable():
            try:
                points = self._points.with_words(query, count, collections, where)
                if points or not health.has_lost():
                    self._read.clear()
                    return points
            except StoreError as error:
                health.fail(error)
        keys = self._file.passages.keys()
        if len(keys) > READ_UP_TO:
            raise StoreError(f"Words cannot be looked up: {health.problem}")
        missing = np.setdiff1d(keys, [*self._read])
        for passage in self._vectors.copying.read(missing):
            self._read[passage.key] = Point(passage.key, sparse_words(passage.keywords).counts)
        read = [point for key in keys.tolist() if (point := self._read.get(key))]
        postings, owners = read_counts(point.counts for point in read)
        return [read[owner] for owner in np.unique(owners[np.isin(postings["word"], [*query])])]

    def _holding(self, numbers: Iterable[int]) -> dict[int, int]:
        """How many passages hold each of some words."""
        return dict(
            self._file.database.rows(
                "SELECT number, passages FROM word_counts WHERE number IN (SELECT value FROM json_each(?))",
                (json.dumps([*numbers]),),
            )
        )

    def _count(self, more: Mapping[int, int]) -> None:
        self._file.database.insert(
            """INSERT INTO word_counts VALUES (?, ?)
            ON CONFLICT (number) DO UPDATE SET passages = passages + excluded.passages""",
            list(more.items()),
        )


def _matches(
    points: Sequence[Point], values: Mapping[int, float], fields: FieldWeights, damping: NDArray[np.float64]
) -> Iterator[Matches]:
    """The points that hold each word, by its number."""
    postings, owners = read_counts(point.counts for point in points)
    weights = weights_of(fields)
    for number, value in values.items():
        own = postings["word"] == number
        frequencies = weighted_frequencies(postings[own], weights)
        yield Matches(value, owners[own], saturation(frequencies, damping[owners[own]]))
