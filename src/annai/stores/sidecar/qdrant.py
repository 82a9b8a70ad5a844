"""How does Qdrant find neighbours and words? Dense and sparse vectors of the same points, in a cluster or a folder.

The words of a passage are a sparse vector, whose numbers Qdrant multiplies by how rare each word is. That finds the
candidates; the counts that each point carries then give them the very score that every other store gives.
"""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from annai.config import Config
from annai.stores.base import (
    BM25_B,
    BM25_K1,
    Inventory,
    Scored,
    Store,
    best,
    inverse_document_frequency,
    is_beginning,
)
from annai.stores.sidecar.qdrant_points import Point, QdrantPoints
from annai.stores.sidecar.store import WIDEN_FACTOR, SidecarStore
from annai.stores.sqlite.store import CANDIDATES_PER_RESULT, FEWEST_CANDIDATES, prepare_folder
from annai.text.fields import FIELD_NAMES, FIELD_WEIGHTS, FieldWeights
from annai.text.keywords import Keywords
from annai.text.tokens import is_cjk
from annai.types import Where

TYPICAL_LENGTH = 200
"""Words in a passage that Qdrant's own order of the candidates goes by: near enough, since they are scored again."""

COUNTS = np.dtype([("word", "<u4"), ("title", "u1"), ("headings", "u1"), ("path", "u1"), ("body", "u1")])
"""A word's number, and how often a passage has it in each field (255: or more)."""


def open_store(config: Config) -> Store:
    """Open the index: the file, and Qdrant's server or folder."""
    prepare_folder(config.database_path)
    folder = config.database_path.with_suffix("")
    return QdrantStore(config, QdrantPoints(config.store, folder, _point_words))


class QdrantStore(SidecarStore):
    """An index file, and points that hold vectors and words."""

    def __init__(self, config: Config, points: QdrantPoints) -> None:
        super().__init__(config.database_path, points)
        self._points = points

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Candidates by sparse vectors, then their counts."""
        table = self._passages.table()
        if not words or not len(table):
            return []
        allowed = self._passages.allowed(table, where)
        usable = table.alive if allowed is None else table.alive & allowed
        numbers = {word: _number(word, beginning=is_beginning(word)) for word in words}
        holding = self._holding(numbers.values())
        values = {
            numbers[word]: weight * inverse_document_frequency(len(table), holding.get(numbers[word], 0))
            for word, weight in words.items()
        }
        query = {numbers[word]: weight for word, weight in words.items()}
        collections = self._passages.collections(table, where)
        count = max(limit * CANDIDATES_PER_RESULT, FEWEST_CANDIDATES)
        while True:
            found = self._points.with_words(query, count, collections, where)
            places, present = table.positions(np.array([point.key for point in found], np.int64))
            owned = [
                (place, point)
                for place, point, there in zip(places.tolist(), found, present, strict=True)
                if there and usable[place]
            ]
            if len(owned) >= min(limit, count // WIDEN_FACTOR) or len(found) < count:
                break
            count *= WIDEN_FACTOR
        owned.sort(key=lambda each: each[0])
        average = max(table.words / len(table), 1)
        shares = [_score(point, values, fields, average) for _, point in owned]
        keys = table.keys[[place for place, _ in owned]]
        return [each for each in best(keys, np.array(shares).clip(max=1.0), limit) if each.score > 0]

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """From the counts that are kept for scoring."""
        numbers = {_number(word): word for word in words}
        return {numbers[number]: count for number, count in self._holding(numbers).items() if count > 0}

    def inventory(self) -> Inventory:
        """Words are counted where they are."""
        held = super().inventory()
        counted = self._points.word_counts()
        known = {int(key) for key in self._passage_keys()}
        passages = np.array(sorted(key for key, count in counted.items() if count and key in known), np.int64)
        counts = np.array([counted[key] for key in passages.tolist()], np.int64)
        return Inventory(held.sections, held.vectors, passages, counts)

    def sweep(self) -> None:
        """Count the words anew, too."""
        super().sweep()
        counts = Counter(number for _, numbers in self._points.words() for number in numbers)
        with self._database.writing():
            self._database.rows("DELETE FROM word_counts")
            self._count(counts)

    def _holding(self, numbers: Iterable[int]) -> dict[int, int]:
        """How many passages hold each of some words."""
        return dict(
            self._database.rows(
                "SELECT number, passages FROM word_counts WHERE number IN (SELECT value FROM json_each(?))",
                (json.dumps([*numbers]),),
            )
        )

    def _keep_words(self, words: Mapping[int, Keywords]) -> None:
        """The points have them; here they are only counted."""
        self._count(Counter(number for keywords in words.values() for number in _point_words(keywords)[0]))

    def _drop_document(self, file_id: int) -> None:
        span = self._database.row(
            "SELECT first_section, first_section + section_count FROM documents WHERE id = ?", (file_id,)
        )
        if span is not None:
            gone = Counter(number for _, numbers in self._points.words(range(*span)) for number in numbers)
            self._count(Counter({number: -count for number, count in gone.items()}))
        super()._drop_document(file_id)

    def _count(self, more: Counter[int]) -> None:
        self._database.insert(
            """INSERT INTO word_counts VALUES (?, ?)
            ON CONFLICT (number) DO UPDATE SET passages = passages + excluded.passages""",
            list(more.items()),
        )


def _point_words(keywords: Keywords) -> tuple[dict[int, float], str, int]:
    """A passage's sparse vector, its counts as they are carried, and how many different words it has."""
    counts: dict[int, list[int]] = {}
    distinct = set[str]()
    for place, name in enumerate(FIELD_NAMES):
        for word, count in Counter(getattr(keywords, name).split()).items():
            distinct.add(word)
            numbers = [_number(word)]
            if is_cjk(word[0]):
                # A query of one character stands for every word that begins with it.
                numbers.append(_number(word[0], beginning=True))
            for number in numbers:
                counts.setdefault(number, [0] * len(FIELD_NAMES))[place] += count
    rows = np.zeros(len(counts), COUNTS)
    weights = np.array([getattr(FIELD_WEIGHTS, name) for name in FIELD_NAMES])
    sparse: dict[int, float] = {}
    damping = BM25_K1 * (1 - BM25_B + BM25_B * keywords.length / TYPICAL_LENGTH)
    for row, (number, found) in zip(rows, sorted(counts.items()), strict=True):
        row["word"] = number
        for name, count in zip(FIELD_NAMES, found, strict=True):
            row[name] = min(count, 255)
        frequency = float(weights @ found)
        sparse[number] = frequency * (BM25_K1 + 1) / (frequency + damping)
    return sparse, base64.b64encode(rows.tobytes()).decode("ascii"), len(distinct)


def _score(point: Point, values: Mapping[int, float], fields: FieldWeights, average: float) -> float:
    """BM25 of one passage, as a share of what a text full of every word would get."""
    rows = np.frombuffer(base64.b64decode(point.counts), COUNTS)
    weights = np.array([getattr(fields, name) for name in FIELD_NAMES])
    damping = BM25_K1 * (1 - BM25_B + BM25_B * point.length / average)
    total = 0.0
    for number, value in values.items():
        place = int(np.searchsorted(rows["word"], number))
        if place < len(rows) and rows["word"][place] == number:
            frequency = float(
                sum(weight * int(rows[name][place]) for name, weight in zip(FIELD_NAMES, weights, strict=True))
            )
            total += value * frequency * (BM25_K1 + 1) / (frequency + damping)
    possible = (BM25_K1 + 1) * sum(values.values())
    return total / possible if possible else 0.0


def _number(word: str, *, beginning: bool = False) -> int:
    """A word's place in a sparse vector: 32 bits of its spelling. Two words seldom share one."""
    return zlib.crc32(("^" if beginning else "=").encode() + word.encode("utf-8", "surrogatepass"))
