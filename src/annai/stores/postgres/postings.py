"""Which passages hold a word, in PostgreSQL? For every word packed lists of passages and counts, scored with numpy.

Lists are kept in segments, as in an SQLite file: a write adds a small one, and eight of a level become one of the next.
A posting also tells how long its passage is, so that a search reads nothing but the lists of its words. Passages that
were deleted stay in the lists, named by `annai_tombstones`, until `compact` drops them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from annai.stores import bm25
from annai.stores.bm25 import FIELD_COUNTS, Matches, is_prefix
from annai.stores.postgres.database import PostgresDatabase
from annai.stores.postgres.rows import escape
from annai.text.fields import FieldWeights
from annai.text.keywords import Keywords

SEGMENTS_PER_LEVEL = 8

POSTING = np.dtype([("low", "<u4"), ("high", "<u2"), ("length", "<u2"), *FIELD_COUNTS])
"""A passage's key in 48 bits, its length in words, and how often it has the word in each field."""

MAX_POSTINGS = 4_000_000
"""What one search reads at most: beyond it the most common words of the query are left out, which tell the least."""

MAX_SPAN = 50_000_000
"""Up to this range of keys the scores are added up in one plain array; beyond it, the keys are sorted first."""

MIN_TOMBSTONES, MIN_DELETED_SHARE = 2_000, 0.1
"""This many tombstones, and this share of the passages deleted, make it worth writing the lists again."""

COMPACT_WORDS = 2_000
"""Words whose lists are rewritten at a time: it bounds memory."""

_LAST_CHARACTER = "\U0010ffff"
_SELECT_LISTS = "SELECT word, list FROM annai_postings WHERE word = ANY(%s)"
_SIZES = "SELECT word, sum(octet_length(list))::bigint AS size FROM annai_postings WHERE word = ANY(%s)"
_SELECT_RAREST = f"""
    WITH sizes AS MATERIALIZED ({_SIZES} GROUP BY word),
    ranked AS (SELECT word, size, sum(size) OVER rarest AS total, row_number() OVER rarest AS rank FROM sizes
        WINDOW rarest AS (ORDER BY size, word))
    SELECT r.word, r.size, p.list FROM ranked r
    LEFT JOIN annai_postings p ON p.word = r.word AND (r.total <= %s OR r.rank = 1)
"""
"""Each word with the bytes of its lists, and the lists of the rarest words that have so many bytes together."""
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext(%s))::int"

Keys = NDArray[np.int64]


def write_postings(database: PostgresDatabase, passages: Mapping[int, Keywords]) -> None:
    """Add the words of some passages, by key, within a transaction."""
    lists: dict[str, bytearray] = {}
    for key, keywords in passages.items():
        head = (key | min(keywords.length, 0xFFFF) << 48).to_bytes(8, "little")
        for word, counts in bm25.count_words(keywords).items():
            lists.setdefault(word, bytearray()).extend(head + counts)
    if not lists:
        return
    segment = database.number("INSERT INTO annai_segments (level) VALUES (0) RETURNING id")
    database.copy(
        "annai_postings",
        ("word", "segment", "list"),
        [(escape(word), segment, bytes(postings)) for word, postings in sorted(lists.items())],
        ("text", "int8", "bytea"),
    )


def merge(database: PostgresDatabase) -> None:
    """Make one segment of eight, level by level, unless another process does; searches and writes go on meanwhile."""
    while level := database.row(
        "SELECT level, array_agg(id) FROM annai_segments GROUP BY level HAVING count(*) >= %s ORDER BY level LIMIT 1",
        (SEGMENTS_PER_LEVEL,),
    ):
        number, segments = level
        with database.unlimited(), database.writing():
            if not database.number(_LOCK, (database.lock_name("postings"),)):
                return
            # Another process may have merged them in the meantime.
            present = database.rows("SELECT id FROM annai_segments WHERE id = ANY(%s)", (segments,))
            if len(present) < len(segments):
                continue
            merged = database.number("INSERT INTO annai_segments (level) VALUES (%s) RETURNING id", (number + 1,))
            database.rows(
                """INSERT INTO annai_postings (word, segment, list)
                SELECT word, %s, string_agg(list, ''::bytea ORDER BY segment) FROM annai_postings
                WHERE segment = ANY(%s) GROUP BY word""",
                (merged, segments),
            )
            _delete_segments(database, segments)


def compact(database: PostgresDatabase, *, always: bool = False) -> None:
    """Write the lists again without deleted passages, if these are many and no other process does it."""
    buried, deleted, passages = database.rows(
        """SELECT count(*), coalesce(sum(section_count), 0)::bigint,
        (SELECT coalesce(sum(passages), 0)::bigint FROM annai_counters) FROM annai_tombstones"""
    )[0]
    if not buried or (not always and (buried < MIN_TOMBSTONES or deleted < MIN_DELETED_SHARE * passages)):
        return
    with database.unlimited(), database.writing():
        if not database.number(_LOCK, (database.lock_name("postings"),)):
            return
        # First the tombstones: a passage that was deleted by now is named by the segments that are read after them.
        # What is written meanwhile is for the next time.
        tombstones = _read_tombstones(database)
        segments = [number for (number,) in database.rows("SELECT id FROM annai_segments")]
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
            lists = [(word, tombstones.filter(np.frombuffer(part, POSTING)).tobytes()) for word, part in rows]
            database.copy(
                "annai_postings",
                ("word", "segment", "list"),
                [(word, merged, part) for word, part in lists if part],
                ("text", "int8", "bytea"),
            )
        _delete_segments(database, segments)
        database.rows("DELETE FROM annai_tombstones WHERE first_section = ANY(%s)", (tombstones.firsts.tolist(),))


def score(
    database: PostgresDatabase, counts: "Counts", words: Mapping[str, float], fields: FieldWeights
) -> tuple[Keys, NDArray[np.float64]]:
    """The keys of the passages that hold any of the words, ascending, with their shares of the best score."""
    matches = [*_matches(database, counts, words, fields)]
    ends = [int(end) for word in matches if len(word.positions) for end in (word.positions.min(), word.positions.max())]
    if not ends:
        return np.zeros(0, np.int64), np.zeros(0)
    low, high = min(ends), max(ends)
    if high - low < MAX_SPAN:
        for word in matches:
            word.positions = word.positions - low
        positions, shares = bm25.score(matches, high - low + 1)
        return positions + low, shares
    keys = np.unique(np.concatenate([word.positions for word in matches])).astype(np.int64)
    for word in matches:
        word.positions = np.searchsorted(keys, word.positions)
    positions, shares = bm25.score(matches, len(keys))
    return keys[positions], shares


def holding(database: PostgresDatabase, tombstones: "Tombstones", words: Sequence[str]) -> dict[str, int]:
    """How many passages the list of each word names, without those that were deleted."""
    plain = {escape(word): word for word in words}
    sizes: dict[str, int] = dict(database.rows(f"{_SIZES} GROUP BY word", ([*plain],)))
    counts = {word: size // POSTING.itemsize for word, size in sizes.items()}
    # Only these lists can be full of deleted passages.
    short = [word for word, count in counts.items() if count <= tombstones.count]
    if short:
        counts |= dict.fromkeys(short, 0)
        for word, part in database.rows(_SELECT_LISTS, (short,), binary=True):
            counts[word] += len(tombstones.filter(np.frombuffer(part, POSTING)))
    return {plain[word]: count for word, count in counts.items() if count}


def word_counts(database: PostgresDatabase) -> tuple[Keys, Keys]:
    """Every passage that the lists name and that was not deleted, ascending, and how many different words it has."""
    tombstones = _read_tombstones(database)
    lists = database.rows("SELECT list FROM annai_postings", binary=True)
    parts = [_keys(tombstones.filter(np.frombuffer(part, POSTING))) for (part,) in lists]
    passages, counts = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]), return_counts=True)
    return passages, counts.astype(np.int64)


def bury(database: PostgresDatabase, keys: Keys) -> None:
    """Leave tombstones for passages that the lists name and that do not exist, within a transaction."""
    database.rows(
        "INSERT INTO annai_tombstones SELECT key, 1 FROM unnest(%s::bigint[]) AS key ON CONFLICT DO NOTHING",
        (keys.tolist(),),
    )


class Tombstones:
    """Which passages were deleted, as ranges of keys."""

    def __init__(self, rows: Sequence[tuple[int, ...]]) -> None:
        ordered = np.array(sorted(rows), np.int64).reshape(-1, 2)
        self.firsts = ordered[:, 0]
        # A sweep may bury a passage of a document that is buried as a whole at the same time.
        self._ends = np.maximum.accumulate(ordered.sum(axis=1))

    @property
    def count(self) -> int:
        """How many sections were deleted, at most."""
        return int((self._ends - self.firsts).sum())

    def filter(self, postings: NDArray[np.void]) -> NDArray[np.void]:
        """The postings of passages that were not deleted."""
        if not len(self.firsts) or not len(postings):
            return postings
        keys = _keys(postings)
        before = np.searchsorted(self.firsts, keys, side="right") - 1
        return np.asarray(postings[(before < 0) | (keys >= self._ends[before])])


class Counts(NamedTuple):
    """What a score is measured by: how much there is in all, and what of it was deleted."""

    passages: int
    words: int
    tombstones: Tombstones


def _read_tombstones(database: PostgresDatabase) -> Tombstones:
    return Tombstones(database.rows("SELECT first_section, section_count FROM annai_tombstones"))


def _keys(postings: NDArray[np.void]) -> Keys:
    return np.asarray(postings["low"].astype(np.int64) | (postings["high"].astype(np.int64) << 32))


def _matches(
    database: PostgresDatabase, counts: Counts, words: Mapping[str, float], fields: FieldWeights
) -> Iterator[Matches]:
    """The passages that hold each word; their positions are their keys."""
    passages, weights = counts.passages, bm25.weights_of(fields)
    average = bm25.average_length(counts.words, passages)
    lists, left_out = _lists(database, words)
    for word, weight in words.items():
        postings = counts.tombstones.filter(np.frombuffer(lists.get(word, b""), POSTING))
        keys: NDArray[np.integer] = _keys(postings)
        lengths, frequencies = postings["length"], bm25.weighted_frequencies(postings, weights)
        if is_prefix(word):
            keys, frequencies, first = bm25.merge_positions(keys, frequencies)
            lengths = lengths[first]
        value = bm25.word_value(weight, passages, min(left_out.get(word, len(keys)), passages))
        damping = bm25.length_damping(lengths.astype(np.float64), average)
        yield Matches(value, keys, bm25.saturation(frequencies, damping))


def _lists(database: PostgresDatabase, words: Mapping[str, float]) -> tuple[dict[str, bytes], dict[str, int]]:
    """Each word's list, put together from the segments; for a prefix, the lists of all words that begin so.

    Also, how many passages hold each of the words that are too common to be read.
    """
    plain = {escape(word): word for word in words if not is_prefix(word)}
    parts: dict[str, list[bytes]] = {}
    left_out: dict[str, int] = {}
    room = MAX_POSTINGS * POSTING.itemsize
    for word, size, part in database.rows(_SELECT_RAREST, ([*plain], room), binary=True) if plain else ():
        if part is None:
            left_out[plain[word]] = size // POSTING.itemsize
        else:
            parts.setdefault(plain[word], []).append(part)
    for word in filter(is_prefix, words):
        rows = database.rows(
            "SELECT list FROM annai_postings WHERE word >= %s AND word < %s",
            (word, word + _LAST_CHARACTER),
            binary=True,
        )
        parts[word] = [part for (part,) in rows]
    return {word: b"".join(found) for word, found in parts.items()}, left_out


def _delete_segments(database: PostgresDatabase, segments: Sequence[int]) -> None:
    database.rows("DELETE FROM annai_postings WHERE segment = ANY(%s)", (segments,))
    database.rows("DELETE FROM annai_segments WHERE id = ANY(%s)", (segments,))
