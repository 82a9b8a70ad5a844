"""Which passages hold a word? For every word a packed list of passages and counts, scored with numpy.

Lists are kept in segments. A write adds one small segment; when a level has `SEGMENTS_PER_LEVEL`, they become one of
the next level, so that a word's list lies in few places however the index grew. Passages that were deleted stay in
the lists until a merge drops them; the passage table tells which ones still exist.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice, pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from annai.answers import Where
from annai.errors import DamagedIndex
from annai.stores.base import Scored
from annai.stores.bm25 import (
    FIELD_COUNTS,
    Matches,
    Numbers,
    Positions,
    is_prefix,
    merge_positions,
    saturation,
    score,
    weighted_frequencies,
    weights_of,
    word_value,
)
from annai.stores.scores import top_scores
from annai.stores.sqlite.database import damaged
from annai.stores.sqlite.passage_table import PassageTable
from annai.stores.sqlite.search_index import IndexFile, Keys
from annai.stores.sqlite.vocabulary import MANY_WORDS, NO_WORDS
from annai.text.fields import FieldWeights
from annai.text.keywords import Keywords, sorted_order

SEGMENTS_PER_LEVEL = 8

MERGE_BYTES = 1_000_000
"""How much of the lists a merge holds in memory at a time. It takes several times as much meanwhile, and a process that
stays does not get all of it back; more is no quicker."""

COUNTED_LISTS = 5_000
"""Lists whose passages are counted at a time."""

MAX_KEPT_POSTINGS, LIST_POSTINGS = 250_000, 30
"""So many postings of the lists that were read last are kept in memory, 20 bytes each, and a list takes as much room as
so many more: a search needs its lists twice, and many questions have the same words."""

POSTING = np.dtype([("key", "<u4"), *FIELD_COUNTS])
"""A passage's key, and how often it has the word in each field."""

_LAST_CHARACTER = "\U0010ffff"


@dataclass(slots=True)
class _Holders:
    """The passages of a table that hold a word."""

    positions: Positions
    postings: NDArray[np.void]
    _shares: tuple[FieldWeights, Numbers] | None = None

    @property
    def size(self) -> int:
        """How many postings it takes the room of."""
        return len(self.positions) + LIST_POSTINGS

    def shares(self, fields: FieldWeights, table: PassageTable) -> Numbers:
        """How much of the word's value each passage gets."""
        if self._shares is None or self._shares[0] != fields:
            frequencies = weighted_frequencies(self.postings, weights_of(fields))
            self._shares = fields, saturation(frequencies, table.length_damping[self.positions])
        return self._shares[1]


class _Kept:
    """The lists of words that were looked up last, for one table."""

    def __init__(self, table: PassageTable) -> None:
        self.table = table
        self.vocabulary = NO_WORDS
        self._lists: dict[str, _Holders] = {}
        self._size = 0
        self._lock = threading.Lock()

    def get(self, word: str) -> _Holders | None:
        """The list of a word, if it is kept."""
        with self._lock:
            if found := self._lists.pop(word, None):
                self._lists[word] = found  # It is the latest now.
            return found

    def add(self, word: str, holders: _Holders) -> None:
        """Keep a list; what was looked up longest ago gives way."""
        with self._lock:
            if word in self._lists or holders.size > MAX_KEPT_POSTINGS // 2:
                return
            self._lists[word] = holders
            self._size += holders.size
            while self._size > MAX_KEPT_POSTINGS:
                self._size -= self._lists.pop(next(iter(self._lists))).size


class Postings:
    """The word index: the tables `segments` and `postings` of the file."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._database = file.database
        self._kept: _Kept | None = None

    def add(self, passages: Mapping[int, Keywords], /) -> None:
        """One new segment; merge where a level is full."""
        words, lists = _lists(passages)
        if not words:
            return
        segment = self._new_segment(level=0)
        self._database.insert(
            "INSERT INTO postings (segment, word, list) VALUES (?, ?, ?)",
            [(segment, word, part) for word, part in zip(words, lists, strict=True)],
        )
        level = 0
        while len(full := self._segments(level)) >= SEGMENTS_PER_LEVEL:
            self._merge(full, level + 1)
            level += 1

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """As `Store.matching`: adds up each word's list of passages."""
        table = self._file.passages.table()
        positions, shares = score(self._matches(words, fields, table), table.count)
        allowed = self._file.passages.allowed(table, where)
        if allowed is not None:
            chosen = allowed[positions]
            positions, shares = positions[chosen], shares[chosen]
        return top_scores(table.keys[positions], shares, limit)

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """As `Store.holding`: the passages of each word's list that still exist."""
        with self._database.reading():
            found = self._holders(words, self._file.passages.table())
        return {word: len(holders.positions) for word, holders in found.items() if len(holders.positions)}

    def word_counts(self) -> tuple[Keys, Keys]:
        """Every passage that has words, ascending, and how many different words lead to it; reads every list."""
        alive = self._file.documents.live_keys()
        counts = np.zeros(len(alive), np.int64)
        cursor = self._database.connection.execute(
            "SELECT list FROM postings WHERE segment IN (SELECT id FROM segments)"
        )
        # Many lists at a time: most are short, and each count goes over all keys.
        while lists := list(islice(cursor, COUNTED_LISTS)):
            keys = self._read(b"".join(part for (part,) in lists))["key"]
            counts += np.bincount(keys[keys < len(alive)], minlength=len(alive))
        passages = np.flatnonzero(counts * alive)
        return passages, counts[passages]

    def compact(self) -> None:
        """Make one segment of all."""
        rows = self._database.rows("SELECT id, level FROM segments")
        if rows:
            self._merge([number for number, _ in rows], max(level for _, level in rows))

    def _matches(self, words: Mapping[str, float], fields: FieldWeights, table: PassageTable) -> Iterator[Matches]:
        """The passages of the table that hold each word."""
        holders = self._holders([word for word in words if not is_prefix(word)], table)
        for word, weight in words.items():
            if is_prefix(word):
                positions, shares = self._beginning(word, fields, table)
            elif word in holders:
                positions, shares = holders[word].positions, holders[word].shares(fields, table)
            else:
                positions, shares = np.zeros(0, np.int64), np.zeros(0)
            yield Matches(word_value(weight, len(table), len(positions)), positions, shares)

    def _holders(self, words: Sequence[str], table: PassageTable) -> dict[str, _Holders]:
        """The passages of the table that hold each word that is in any list."""
        kept = self._kept
        if kept is None or kept.table is not table:
            kept = self._kept = _Kept(table)
        found = {word: holders for word in words if (holders := kept.get(word))}
        lists: dict[str, bytes] = {}
        missing = [word for word in words if word not in found]
        parts = self._parts(missing) if len(missing) < MANY_WORDS else self._many_parts(missing, kept)
        for word, part in parts:
            lists[word] = lists[word] + part if word in lists else part
        for word, raw in lists.items():
            found[word] = _Holders(*_existing(self._read(raw), table))
            kept.add(word, found[word])
        return found

    def _beginning(self, start: str, fields: FieldWeights, table: PassageTable) -> tuple[Positions, Numbers]:
        """The passages that hold words that begin so, and how much of their value each gets."""
        rows = self._database.rows(
            """SELECT list FROM postings
            WHERE segment IN (SELECT id FROM segments) AND word >= ? AND word < ?""",
            (start, start + _LAST_CHARACTER),
        )
        found, postings = _existing(self._read(b"".join(part for (part,) in rows)), table)
        positions, frequencies, _ = merge_positions(found, weighted_frequencies(postings, weights_of(fields)))
        return positions, saturation(frequencies, table.length_damping[positions])

    def _parts(self, words: Iterable[str], segments: Sequence[int] | None = None) -> list[tuple[str, bytes]]:
        """The lists of words, segment by segment; in all segments unless some are named."""
        chosen = "SELECT id FROM segments" if segments is None else "SELECT value FROM json_each(?2)"
        # Sorted, as the table is: neighbours are on the same page.
        values = json.dumps(sorted(words)), json.dumps(segments)
        return self._database.rows(
            f"""SELECT word, list FROM postings
            WHERE segment IN ({chosen}) AND word IN (SELECT value FROM json_each(?1))""",
            values[: 1 if segments is None else 2],
        )

    def _many_parts(self, words: Sequence[str], kept: _Kept) -> list[tuple[str, bytes]]:
        """The same for many words. Each time, the words of one more segment are read; with all of them, it is quick."""
        segments = [number for (number,) in self._database.rows("SELECT id FROM segments ORDER BY id")]
        vocabulary = kept.vocabulary
        if unread := [number for number in segments if number not in vocabulary.segments]:
            rows = self._database.rows("SELECT word FROM postings WHERE segment = ?", (unread[0],))
            kept.vocabulary = vocabulary = vocabulary.with_words(unread.pop(0), (word for (word,) in rows))
        likely, others = vocabulary.split(words)
        return self._parts(likely) + (self._parts(others, unread) if unread else [])

    def _read(self, raw: bytes) -> NDArray[np.void]:
        """The postings of a list."""
        if len(raw) % POSTING.itemsize:
            raise DamagedIndex(damaged(self._database.path))
        return np.frombuffer(raw, POSTING)

    def _new_segment(self, level: int) -> int:
        return self._database.number("INSERT INTO segments (level) VALUES (?) RETURNING id", (level,))

    def _segments(self, level: int) -> list[int]:
        return [number for (number,) in self._database.rows("SELECT id FROM segments WHERE level = ?", (level,))]

    def _merge(self, segments: list[int], level: int) -> None:
        """Put several segments' lists into a new one, without the passages that were deleted."""
        merged = self._new_segment(level)
        alive = self._file.documents.live_keys()
        for words, lists in self._take_lists(segments):
            postings = self._read(b"".join(lists))
            # A key over all that were given would be damage; its passage is not alive either.
            kept = alive[np.minimum(postings["key"], len(alive) - 1)] & (postings["key"] < len(alive))
            ends = np.cumsum([len(part) // POSTING.itemsize for part in lists])
            # A word comes once for each segment that has it: its lists are neighbours.
            is_last = [word != following for word, following in zip(words, [*words[1:], None], strict=True)]
            bounds = [0, *(POSTING.itemsize * np.concatenate(([0], np.cumsum(kept)))[ends[is_last]]).tolist()]
            raw = (postings if kept.all() else postings[kept]).tobytes()
            self._database.insert(
                "INSERT INTO postings (segment, word, list) VALUES (?, ?, ?)",
                [
                    (merged, word, raw[start:end])
                    for word, (start, end) in zip(compress(words, is_last), pairwise(bounds), strict=True)
                    if end > start
                ],
            )
        self._database.insert("DELETE FROM segments WHERE id = ?", [(segment,) for segment in segments])

    def _take_lists(self, segments: list[int]) -> Iterator[tuple[list[str], list[bytes]]]:
        """Take all lists out of some segments in the order of their words; no word is in two parts.

        They are deleted before their like is written: the file need not have room for both.
        """
        for low, high in self._word_ranges(segments):
            rows: list[tuple[str, bytes]] = []
            for segment in sorted(segments):  # the oldest first, so that lists stay in the order of their keys
                chosen = "FROM postings WHERE segment = ? AND word >= ? AND word < ?"
                rows += self._database.rows(f"SELECT word, list {chosen}", (segment, low, high))
                self._database.rows(f"DELETE {chosen}", (segment, low, high))
            rows.sort(key=itemgetter(0))
            if rows:
                yield [word for word, _ in rows], [part for _, part in rows]

    def _word_ranges(self, segments: list[int]) -> list[tuple[str, str]]:
        """Ranges of words whose lists a merge can hold in memory: the first word of each, and the one after."""
        # A word's lists have the same sum: a window of SQLite's ends after all that are equal in its order.
        rows = self._database.rows(
            """SELECT min(word) FROM (SELECT word, sum(length(list)) OVER (ORDER BY word) / ? AS part FROM postings
            WHERE segment IN (SELECT value FROM json_each(?))) GROUP BY part ORDER BY part""",
            (MERGE_BYTES, json.dumps(segments)),
        )
        edges = [word for (word,) in rows]
        return [*pairwise((*edges, _LAST_CHARACTER))]


def _existing(postings: NDArray[np.void], table: PassageTable) -> tuple[Positions, NDArray[np.void]]:
    """The positions of a list's passages that exist, and their postings."""
    positions, present = table.positions(postings["key"].astype(np.int64))
    return (positions, postings) if present.all() else (positions[present], postings[present])


def _lists(passages: Mapping[int, Keywords]) -> tuple[list[str], list[bytes]]:
    """The words of some passages in their order, and the list of each."""
    vocabularies = {id(each.vocabulary): each.vocabulary for each in passages.values()}
    words, numbers = _merge_vocabularies(vocabularies)
    keywords = passages.values()
    postings = np.zeros(sum(len(each.words) for each in keywords), [("key", "<u4"), ("counts", "<u4")])
    postings["key"] = np.repeat(np.fromiter(passages, np.int64), [len(each.words) for each in keywords])
    if not len(postings):
        return [], []
    postings["counts"] = np.concatenate([each.counts for each in keywords])
    own = np.concatenate([numbers[id(each.vocabulary)][each.words] for each in keywords])
    order = sorted_order(own, len(words))
    own, raw = own[order], postings[order].tobytes()
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    size = POSTING.itemsize
    bounds = [*(starts * size).tolist(), len(raw)]
    return [words[number] for number in own[starts].tolist()], [raw[a:b] for a, b in pairwise(bounds)]


def _merge_vocabularies(
    vocabularies: Mapping[int, Sequence[str]],
) -> tuple[Sequence[str], dict[int, NDArray[np.int64]]]:
    """The words of all vocabularies in their order, and for each vocabulary the new numbers of its words."""
    if len(vocabularies) == 1:
        (only,) = vocabularies.values()
        return only, {number: np.arange(len(only)) for number in vocabularies}
    words = sorted({word for vocabulary in vocabularies.values() for word in vocabulary})
    numbers = dict(zip(words, range(len(words)), strict=True))
    return words, {
        key: np.fromiter(map(numbers.__getitem__, vocabulary), np.int64) for key, vocabulary in vocabularies.items()
    }
