"""Which passages hold a word, in PostgreSQL? For every word packed lists of passages and counts, scored with numpy.

Lists are kept in segments, as in an SQLite file: a write adds a small one, and eight of a level become one of the next.
An entry also tells how long its passage is, so that a search reads nothing but the lists of its words. Passages that
are gone stay in the lists, named by `annai_tombstones`, until `compact` drops them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annai.stores.base import BM25_B, BM25_K1, inverse_document_frequency, is_beginning
from annai.stores.postgres.database import PostgresDatabase, escape
from annai.text.fields import FIELD_NAMES, FieldWeights
from annai.text.keywords import Keywords

SEGMENTS_PER_LEVEL = 8

ENTRY = np.dtype(
    [
        ("low", "<u4"),
        ("high", "<u2"),
        ("length", "<u2"),
        ("title", "u1"),
        ("headings", "u1"),
        ("path", "u1"),
        ("body", "u1"),
    ]
)
"""A passage's key in 48 bits, its length in words, and how often it has the word in each field (255: or more)."""

MOST_ENTRIES = 4_000_000
"""What one search reads at most: of a query's words the most common are left out beyond it, which tell the least."""

MOST_SPAN = 50_000_000
"""Up to this range of keys the scores are added up in one plain array; beyond it, the keys are sorted first."""

FEWEST_DEAD, DEAD_SHARE = 2_000, 0.1
"""So many tombstones, and this share of the passages gone, make it worth writing the lists anew."""

COMPACT_WORDS = 2_000
"""Words whose lists are rewritten at a time: it bounds memory."""

_LAST_CHARACTER = "\U0010ffff"
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext(current_schema() || '.annai_postings'))::int"

Keys = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is of everything: what BM25 compares a passage with."""

    passages: int
    words: int


def write_postings(database: PostgresDatabase, passages: Mapping[int, Keywords]) -> None:
    """Add the words of some passages, by key, within a transaction."""
    lists: dict[str, bytearray] = {}
    for key, keywords in passages.items():
        head = (key | min(keywords.length, 0xFFFF) << 48).to_bytes(8, "little")
        for word, counts in _counts(keywords).items():
            lists.setdefault(word, bytearray()).extend(head + counts)
    if not lists:
        return
    segment = database.number("INSERT INTO annai_segments (level) VALUES (0) RETURNING id")
    database.copy(
        "annai_postings",
        ("word", "segment", "list"),
        [(escape(word), segment, bytes(entries)) for word, entries in sorted(lists.items())],
        ("text", "int8", "bytea"),
    )


def merge(database: PostgresDatabase) -> None:
    """Make one segment of eight, level by level, if nobody else is at it; searches and writes go on meanwhile."""
    while level := database.row(
        "SELECT level, array_agg(id) FROM annai_segments GROUP BY level HAVING count(*) >= %s ORDER BY level LIMIT 1",
        (SEGMENTS_PER_LEVEL,),
    ):
        number, segments = level
        with database.writing():
            if not database.number(_LOCK):
                return
            # Another process may have merged them while this one was on its way.
            left = database.rows("SELECT id FROM annai_segments WHERE id = ANY(%s)", (segments,))
            if len(left) < len(segments):
                continue
            merged = database.number("INSERT INTO annai_segments (level) VALUES (%s) RETURNING id", (number + 1,))
            database.rows(
                """INSERT INTO annai_postings (word, segment, list)
                SELECT word, %s, string_agg(list, ''::bytea ORDER BY segment) FROM annai_postings
                WHERE segment = ANY(%s) GROUP BY word""",
                (merged, segments),
            )
            _drop(database, segments)


def compact(database: PostgresDatabase, *, always: bool = False) -> None:
    """Write the lists anew without the passages that are gone, if they are many and nobody else is at it."""
    dead, gone, passages = database.rows(
        """SELECT count(*), coalesce(sum(section_count), 0)::bigint,
        (SELECT coalesce(sum(passages), 0)::bigint FROM annai_counters) FROM annai_tombstones"""
    )[0]
    if not dead or (not always and (dead < FEWEST_DEAD or gone < DEAD_SHARE * passages)):
        return
    with database.writing():
        if not database.number(_LOCK):
            return
        # Only what is seen now: what is written meanwhile is for the next time.
        segments = [number for (number,) in database.rows("SELECT id FROM annai_segments")]
        tombs = _Tombs(database.rows("SELECT first_section, section_count FROM annai_tombstones"))
        words = [
            word
            for (word,) in database.rows(
                "SELECT DISTINCT word FROM annai_postings WHERE segment = ANY(%s) ORDER BY word", (segments,)
            )
        ]
        level = database.number("SELECT max(level) FROM annai_segments")
        merged = database.number("INSERT INTO annai_segments (level) VALUES (%s) RETURNING id", (level,))
        for start in range(0, len(words), COMPACT_WORDS):
            rows = database.rows(
                """SELECT word, string_agg(list, ''::bytea ORDER BY segment) FROM annai_postings
                WHERE word = ANY(%s) AND segment = ANY(%s) GROUP BY word""",
                (words[start : start + COMPACT_WORDS], segments),
                binary=True,
            )
            living = [(word, merged, tombs.without(np.frombuffer(entries, ENTRY)).tobytes()) for word, entries in rows]
            database.copy(
                "annai_postings",
                ("word", "segment", "list"),
                [row for row in living if row[2]],
                ("text", "int8", "bytea"),
            )
        _drop(database, segments)
        database.rows("DELETE FROM annai_tombstones WHERE first_section = ANY(%s)", (tombs.firsts.tolist(),))


def score(
    database: PostgresDatabase, words: Mapping[str, float], fields: FieldWeights, totals: Totals
) -> tuple[Keys, NDArray[np.float64]]:
    """The keys of the passages that hold any of the words, ascending, with their shares of BM25."""
    lists = _lists(database, words)
    tombs = _Tombs(database.rows("SELECT first_section, section_count FROM annai_tombstones"))
    weights = np.array([getattr(fields, name) for name in FIELD_NAMES])
    average = max(totals.words / max(totals.passages, 1), 1)
    found: list[tuple[Keys, NDArray[np.float64]]] = []
    best_possible = 0.0
    for word, weight in words.items():
        entries = tombs.without(np.frombuffer(lists.get(word, b""), ENTRY))
        keys, frequencies = keys_of(entries), np.stack([entries[name] for name in FIELD_NAMES], axis=1) @ weights
        damping = BM25_K1 * (1 - BM25_B + BM25_B * entries["length"] / average)
        if is_beginning(word):
            # A passage may hold several words that begin so.
            keys, first, owners = np.unique(keys, return_index=True, return_inverse=True)
            frequencies, damping = np.bincount(owners, frequencies, minlength=len(keys)), damping[first]
        value = weight * (BM25_K1 + 1) * inverse_document_frequency(totals.passages, len(keys))
        best_possible += value
        found.append((keys, value * frequencies / (frequencies + damping)))
    keys, sums = _added(found)
    return keys, sums / best_possible if len(keys) else sums


def holding(database: PostgresDatabase, words: Sequence[str]) -> dict[str, int]:
    """How many passages the list of each word names."""
    plain = {escape(word): word for word in words}
    return {plain[word]: size // ENTRY.itemsize for word, size in _sizes(database, [*plain]).items()}


def keys_of(entries: NDArray[np.void]) -> Keys:
    """The keys of entries."""
    return np.asarray(entries["low"].astype(np.int64) | (entries["high"].astype(np.int64) << 32))


class _Tombs:
    """Which passages are gone, as ranges of keys."""

    def __init__(self, rows: Sequence[tuple[int, int]]) -> None:
        ordered = np.array(sorted(rows), np.int64).reshape(-1, 2)
        self.firsts = ordered[:, 0]
        self._ends = ordered.sum(axis=1)

    def without(self, entries: NDArray[np.void]) -> NDArray[np.void]:
        """The entries of passages that are there."""
        if not len(self.firsts) or not len(entries):
            return entries
        keys = keys_of(entries)
        before = np.searchsorted(self.firsts, keys, side="right") - 1
        return np.asarray(entries[(before < 0) | (keys >= self._ends[before])])


def _added(parts: Sequence[tuple[Keys, NDArray[np.float64]]]) -> tuple[Keys, NDArray[np.float64]]:
    """The sum of each key's values, by ascending keys; within one part, no key comes twice."""
    parts = [part for part in parts if len(part[0])]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0)
    low, high = min(int(keys.min()) for keys, _ in parts), max(int(keys.max()) for keys, _ in parts)
    if high - low < MOST_SPAN:
        sums = np.zeros(high - low + 1)
        for keys, values in parts:
            sums[keys - low] += values
        places = np.flatnonzero(sums)
        return places + low, sums[places]
    keys, owners = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    return keys, np.bincount(owners, np.concatenate([values for _, values in parts])).astype(np.float64)


def _lists(database: PostgresDatabase, words: Mapping[str, float]) -> dict[str, bytes]:
    """Each word's list, put together from the segments; for a beginning, the lists of all words that begin so."""
    plain = {escape(word): word for word in words if not is_beginning(word)}
    sizes = _sizes(database, [*plain])
    room = MOST_ENTRIES * ENTRY.itemsize
    chosen: list[str] = []
    for word, size in sorted(sizes.items(), key=lambda item: item[1]):
        if size > room and chosen:
            break
        chosen.append(word)
        room -= size
    lists: dict[str, bytes] = {}
    rows = database.rows("SELECT word, list FROM annai_postings WHERE word = ANY(%s)", (chosen,), binary=True)
    for word, part in rows:
        lists[plain[word]] = lists.get(plain[word], b"") + part
    for word in filter(is_beginning, words):
        rows = database.rows(
            "SELECT list FROM annai_postings WHERE word >= %s AND word < %s",
            (word, word + _LAST_CHARACTER),
            binary=True,
        )
        lists[word] = b"".join(part for (part,) in rows)
    return lists


def _sizes(database: PostgresDatabase, words: Sequence[str]) -> dict[str, int]:
    """The bytes of each word's list."""
    return dict(
        database.rows(
            "SELECT word, sum(octet_length(list))::bigint FROM annai_postings WHERE word = ANY(%s) GROUP BY word",
            ([*words],),
        )
    )


def _counts(keywords: Keywords) -> dict[str, bytearray]:
    """How often each word stands in each field, capped to fit a byte."""
    found: dict[str, bytearray] = {}
    for place, name in enumerate(FIELD_NAMES):
        for word, count in Counter(getattr(keywords, name).split()).items():
            found.setdefault(word, bytearray(len(FIELD_NAMES)))[place] = min(count, 255)
    return found


def _drop(database: PostgresDatabase, segments: Sequence[int]) -> None:
    database.rows("DELETE FROM annai_postings WHERE segment = ANY(%s)", (segments,))
    database.rows("DELETE FROM annai_segments WHERE id = ANY(%s)", (segments,))
