"""Which passages hold a word? For every word a packed list of passages and counts, scored with numpy.

Lists are kept in segments. A write adds one small segment; when a level has `SEGMENTS_PER_LEVEL`, they become one of
the next level, so that a word's list lies in few places however the index grew. Passages that were deleted stay in
the lists until a merge drops them; whoever reads asks the passage table which ones live.
"""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from annai.stores.base import BM25_K1, inverse_document_frequency, is_beginning
from annai.stores.sqlite.database import Database
from annai.stores.sqlite.passage_table import PassageTable
from annai.text.fields import FIELD_NAMES, FieldWeights
from annai.text.keywords import Keywords

SEGMENTS_PER_LEVEL = 8
MERGE_BYTES = 16_000_000
"""How much of the lists a merge holds in memory at a time."""

POSTING = np.dtype([("key", "<u4"), ("title", "u1"), ("headings", "u1"), ("path", "u1"), ("body", "u1")])
"""A passage's key, and how often it has the word in each field (255 stands for more)."""

Live = Callable[[], NDArray[np.bool_]]
"""Tells, for every key that was ever given, whether its passage is still there; asked only when a merge is due."""

_LAST_CHARACTER = "\U0010ffff"


def write_postings(database: Database, passages: Mapping[int, Keywords], live: Live) -> None:
    """Add the words of some passages, by key, within a transaction; merge where a level is full."""
    lists: dict[str, array[int]] = {}
    for key, keywords in passages.items():
        for word, counts in _counts(keywords).items():
            posting = lists.setdefault(word, array("I"))
            # Key and counts as two 32-bit numbers: the layout of POSTING on a little-endian machine.
            posting.append(key)
            posting.append(int.from_bytes(counts, "little"))
    if not lists:
        return
    segment = _new_segment(database, level=0)
    database.insert(
        "INSERT INTO postings (segment, word, list) VALUES (?, ?, ?)",
        [(segment, word, _bytes(lists[word])) for word in sorted(lists)],
    )
    level = 0
    while len(full := _segments(database, level)) >= SEGMENTS_PER_LEVEL:
        _merge(database, full, level + 1, live)
        level += 1


def compact(database: Database, live: Live) -> None:
    """Make one segment of all, without what was deleted, within a transaction."""
    rows = database.rows("SELECT id, level FROM segments")
    if rows:
        _merge(database, [number for number, _ in rows], max(level for _, level in rows), live)


def score(
    database: Database, words: Mapping[str, float], fields: FieldWeights, table: PassageTable
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The places in the table of the passages that hold any of the words, ascending, with their shares of BM25."""
    lists = _lists(database, words)
    total = len(table)
    best_possible = 0.0
    sums = np.zeros(table.count)
    weights = np.array([getattr(fields, name) for name in FIELD_NAMES])
    for word, weight in words.items():
        postings = np.frombuffer(lists.get(word, b""), POSTING)
        places, present = table.positions(postings["key"].astype(np.int64))
        if not present.all():
            places, postings = places[present], postings[present]
        frequencies = _frequencies(postings, weights)
        if is_beginning(word):
            # A passage may hold several words that begin so.
            places, owners = np.unique(places, return_inverse=True)
            frequencies = np.bincount(owners, frequencies, minlength=len(places)).astype(np.float64)
        value = weight * (BM25_K1 + 1) * inverse_document_frequency(total, len(places))
        best_possible += value
        damping = table.dampings[places]
        damping += frequencies
        frequencies *= value
        frequencies /= damping
        sums[places] += frequencies
    found = np.flatnonzero(sums)
    return found, sums[found] / best_possible if len(found) else sums[found]


def holding(database: Database, words: Sequence[str]) -> dict[str, int]:
    """How many passages the list of each word names; a list's length is known without reading it."""
    return dict(
        database.rows(
            """SELECT word, sum(length(list)) / ? FROM postings
            WHERE segment IN (SELECT id FROM segments) AND word IN (SELECT value FROM json_each(?)) GROUP BY word""",
            (POSTING.itemsize, json.dumps(list(words))),
        )
    )


def word_counts(database: Database, alive: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every living passage that the lists name, ascending, and how many different words lead to it."""
    counts = np.zeros(len(alive), np.int64)
    for (part,) in database.connection.execute("SELECT list FROM postings WHERE segment IN (SELECT id FROM segments)"):
        keys = np.frombuffer(part, POSTING)["key"]
        counts += np.bincount(keys[keys < len(alive)], minlength=len(alive))
    passages = np.flatnonzero(counts * alive)
    return passages, counts[passages]


def _lists(database: Database, words: Iterable[str]) -> dict[str, bytes]:
    """Each word's list, put together from the segments; for a beginning, the lists of all words that begin so."""
    lists: dict[str, bytes] = {}
    rows = database.rows(
        """SELECT word, list FROM postings
        WHERE segment IN (SELECT id FROM segments) AND word IN (SELECT value FROM json_each(?))""",
        (json.dumps([word for word in words if not is_beginning(word)]),),
    )
    for word, part in rows:
        lists[word] = lists.get(word, b"") + part
    for word in filter(is_beginning, words):
        rows = database.rows(
            """SELECT list FROM postings
            WHERE segment IN (SELECT id FROM segments) AND word >= ? AND word < ?""",
            (word, word + _LAST_CHARACTER),
        )
        lists[word] = b"".join(part for (part,) in rows)
    return lists


def _frequencies(postings: NDArray[np.void], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often each passage has the word, its fields counted by weight."""
    # The four counts as one number: of most words in most passages, all but the body's are nought.
    packed = np.ascontiguousarray(postings).view("<u4")[1::2]
    sums = np.asarray((packed >> 24) * weights[3], np.float64)
    others = np.flatnonzero(packed & 0xFFFFFF)
    if len(others):
        rest = packed[others]
        sums[others] += sum(((rest >> (8 * place)) & 0xFF) * weights[place] for place in range(3))
    return sums


def _counts(keywords: Keywords) -> dict[str, bytearray]:
    """How often each word stands in each field, capped to fit a byte."""
    found: dict[str, bytearray] = {}
    for place, name in enumerate(FIELD_NAMES):
        for word, count in Counter(getattr(keywords, name).split()).items():
            found.setdefault(word, bytearray(len(FIELD_NAMES)))[place] = min(count, 255)
    return found


def _bytes(numbers: "array[int]") -> bytes:
    return np.frombuffer(numbers, np.uint32).astype("<u4").tobytes()


def _new_segment(database: Database, level: int) -> int:
    return database.number("INSERT INTO segments (level) VALUES (?) RETURNING id", (level,))


def _segments(database: Database, level: int) -> list[int]:
    return [number for (number,) in database.rows("SELECT id FROM segments WHERE level = ?", (level,))]


def _merge(database: Database, segments: list[int], level: int, live: Live) -> None:
    """Put several segments' lists into a new one, without the passages that are gone."""
    merged = _new_segment(database, level)
    chosen = json.dumps(segments)
    alive = live()
    for words, lists in _chunks(database, chosen):
        postings = np.frombuffer(b"".join(lists), POSTING)
        kept = alive[postings["key"]]
        ends = np.cumsum([len(part) // POSTING.itemsize for part in lists])
        bounds = [0, *np.concatenate(([0], np.cumsum(kept)))[ends].tolist()]
        raw = postings[kept].tobytes()
        rows: dict[str, bytes] = {}
        for word, start, end in zip(words, bounds, bounds[1:], strict=False):
            if end > start:
                rows[word] = rows.get(word, b"") + raw[start * POSTING.itemsize : end * POSTING.itemsize]
        database.insert(
            "INSERT INTO postings (segment, word, list) VALUES (?, ?, ?)",
            [(merged, word, part) for word, part in rows.items()],
        )
    for table, column in (("postings", "segment"), ("segments", "id")):
        database.rows(f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (chosen,))


def _chunks(database: Database, segments: str) -> Iterator[tuple[list[str], list[bytes]]]:
    """The lists of some segments in the order of their words, a bounded part at a time; no word is in two parts."""
    words: list[str] = []
    lists: list[bytes] = []
    size = 0
    cursor = database.connection.execute(
        "SELECT word, list FROM postings WHERE segment IN (SELECT value FROM json_each(?)) ORDER BY word", (segments,)
    )
    for word, part in cursor:
        if size >= MERGE_BYTES and word != words[-1]:
            yield words, lists
            words, lists, size = [], [], 0
        words.append(str(word))
        lists.append(bytes(part))
        size += len(lists[-1])
    if words:
        yield words, lists
