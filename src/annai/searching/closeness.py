"""How close is a passage to a question, token by token? Each token of the question meets the nearest of the passage.

The index keeps the tokens of every passage (`embedders.packing`), so that a search reads no text for this.
"""

import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from annai.definitions import dataclass
from annai.embedders.static import StaticEmbedder, vector_lengths
from annai.embedders.subwords import WORD_START
from annai.text.tokens import word_weight, words

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

MAX_QUERY_TOKENS = 64
"""Of a longer question, only the tokens with the longest vectors count: they say most."""

BLOCK_TOKENS = 16
"""A window is two neighbouring blocks of this many tokens, about a sentence: 12 to 32 are as good."""

LITTLE_WORD_WEIGHT = 0.5
"""What a token of a word that says little (`how`, `する`) counts; .25 is as good, and 1 harms questions in everyday
language: their other words are in nearly all of these passages, so that such words would be the rare ones."""

_TOKEN_ID_LIMIT = 1 << 16
"""Token ids are below this."""


@dataclass(frozen=True, slots=True)
class Closeness:
    """How close passages are to a question, a number from 0 to 1 for each."""

    passage: Floats
    """How much of the question is in the passage, its labels included."""
    window: Floats
    """The same for the passage's best window of text, its labels included: what belongs together stands together."""
    title: Floats
    """How much of the document's title is in the question."""
    coverage: Floats
    """As `window`, but each token counts by the square of its length alone: comparable from question to question."""
    about: Floats
    """How nearly the question is the document's title: the share of either that is in the other, whichever is less."""
    place: Floats
    """Where in the passage's text that window begins, as a share of it."""
    is_empty: NDArray[np.bool_]
    """Whether the passage has no text, only labels."""
    query_tokens: int
    """How many different tokens the question has."""
    query_words: int
    """The same, where a word in Latin letters counts once, of however many tokens it is made."""

    def take(self, rows: Integers) -> "Closeness":
        """That of some of the passages."""
        return Closeness(
            self.passage[rows],
            self.window[rows],
            self.title[rows],
            self.coverage[rows],
            self.about[rows],
            self.place[rows],
            self.is_empty[rows],
            self.query_tokens,
            self.query_words,
        )


def closeness(
    embedder: StaticEmbedder, query: str, packed: Sequence[bytes], counted: int | None = None
) -> Closeness | None:
    """Compare a question with passages; None if nothing can be compared, as for a question without tokens.

    A token's weight is the length of its vector times its rarity among these passages, or the first `counted` of them:
    a token that all of them hold does not tell them apart. That of a word that says little is less: how rare it is here
    means nothing.
    """
    asked = question_tokens(embedder, query)
    query_tokens, query_lengths = asked.ids, asked.lengths
    tokens = _PassageTokens(packed, len(packed) if counted is None else counted)
    if not len(query_tokens) or not len(tokens.distinct):
        return None
    rows, cosines, lengths = asked.compare(tokens.distinct)
    similarity, lengths = cosines.take(rows, axis=0), lengths[rows]
    # Two steps take a quarter of the time of np.clip.
    np.maximum(similarity, 0, out=similarity)
    np.minimum(similarity, 1, out=similarity)

    weights = query_lengths * tokens.rarity(query_tokens) * _word_weights(embedder, query_tokens)
    weights /= max(float(weights.sum()), 1e-9)
    labels, blocks, owners = tokens.best_by_part(similarity)
    windows = blocks.copy()
    np.maximum(blocks[:-1], blocks[1:], out=windows[:-1])
    last = np.flatnonzero(np.append(owners[1:] != owners[:-1], True))
    windows[last] = blocks[last]
    starts = np.append(0, last[:-1] + 1)
    passage = _weighted_sums(np.maximum(np.maximum.reduceat(blocks, starts), labels), weights)
    windows = np.maximum(windows, labels[owners])
    window_sums = _weighted_sums(windows, weights)
    window = np.maximum.reduceat(window_sums, starts)
    best = np.empty(len(starts), np.int64)
    is_best = np.flatnonzero(window_sums == window[owners])[::-1]
    best[owners[is_best]] = is_best  # of several, the first
    place = ((best - starts) / (last + 1 - starts)).astype(np.float32)
    own_weights = query_lengths**2 / max(float((query_lengths**2).sum()), 1e-9)
    coverage = np.maximum.reduceat(_weighted_sums(windows, own_weights), starts)
    # The highest of each row, in a fifth of the time that rows of a few numbers take.
    highest = np.ascontiguousarray(similarity.T).max(axis=0)
    title = tokens.title_coverage(highest, lengths * tokens.rarity(tokens.distinct))
    about = np.minimum(title, _weighted_sums(tokens.best_in_title(similarity), own_weights))
    return Closeness(passage, window, title, coverage, about, place, tokens.is_empty, len(query_tokens), asked.words)


class _PassageTokens:
    """The tokens of several passages in one array, each as its index among the distinct tokens."""

    def __init__(self, packed: Sequence[bytes], counted: int) -> None:
        self._count, self._counted = len(packed), counted
        values = np.frombuffer(b"".join(packed), "<u2")
        sizes = np.array([len(each) // 2 for each in packed], np.int64)
        starts = np.cumsum(sizes) - sizes
        # Two numbers before the tokens of each: how many are of the title, and how many of the other labels.
        is_token = np.ones(len(values), bool)
        is_token[starts] = is_token[starts + 1] = False
        self._title_lengths = values[starts].astype(np.int64)
        self._label_lengths = values[starts + 1] + self._title_lengths
        self._lengths = sizes - 2
        self.is_empty: NDArray[np.bool_] = self._lengths == self._label_lengths
        ids = values[is_token]
        is_present = np.zeros(_TOKEN_ID_LIMIT, bool)
        is_present[ids] = True
        self.distinct: Integers = np.flatnonzero(is_present)
        self._is_present = is_present
        # Only what is looked up is written and read: filling all of it would push other things out of the caches.
        self._index_of = np.empty(_TOKEN_ID_LIMIT, np.uint16)
        self._index_of[self.distinct] = np.arange(len(self.distinct))
        self._tokens = self._index_of[ids].astype(np.int64)
        self._owners = np.repeat(np.arange(self._count), self._lengths)
        is_held = np.zeros((self._count, len(self.distinct)), bool)
        is_held[self._owners, self._tokens] = True
        self._passage_counts = is_held[:counted].sum(axis=0)

    def rarity(self, token_ids: Integers) -> Floats:
        """How rare each token is among the passages that are counted."""
        counts = np.zeros(len(token_ids), np.int64)
        present = self._is_present[token_ids]
        counts[present] = self._passage_counts[self._index_of[token_ids[present]]]
        return rarity(counts, self._counted)

    def best_by_part(self, similarity: Floats) -> tuple[Floats, Floats, Integers]:
        """The highest similarity in each passage's labels and in each block of text, and each block's passage."""
        starts = np.cumsum(self._lengths) - self._lengths
        # The labels are the first part of each passage; the first block of its text is a token shorter than the others.
        blocks = (self._lengths - self._label_lengths) // BLOCK_TOKENS + 1
        owners = np.repeat(np.arange(self._count), blocks + 1)
        first = np.cumsum(blocks + 1) - blocks - 1
        block = np.arange(len(owners)) - first[owners] - 1
        part_starts = starts[owners] + np.maximum(block * BLOCK_TOKENS - 1, 0) + self._label_lengths[owners]
        part_starts[first] = starts
        # A row of zeros at the end, so that the last part may be empty.
        found = np.zeros((len(self._tokens) + 1, similarity.shape[1]), np.float32)
        similarity.take(self._tokens, axis=0, out=found[:-1], mode="clip")
        best = np.maximum.reduceat(found, part_starts)
        best[part_starts == np.append(part_starts[1:], len(self._tokens))] = 0
        is_text = block >= 0
        return best[first], best[is_text], owners[is_text]

    @cached_property
    def _titles(self) -> tuple[Integers, Integers]:
        """The tokens of all titles, and the passage of each."""
        position = np.arange(len(self._tokens)) - np.repeat(np.cumsum(self._lengths) - self._lengths, self._lengths)
        is_title = position < self._title_lengths[self._owners]
        return self._tokens[is_title], self._owners[is_title]

    def best_in_title(self, similarity: Floats) -> Floats:
        """The highest similarity of each of the question's tokens in each passage's title."""
        tokens, owners = self._titles
        best = np.zeros((self._count, similarity.shape[1]), np.float32)
        np.maximum.at(best, owners, similarity.take(tokens, axis=0))
        return best

    def title_coverage(self, similarity: Floats, weights: Floats) -> Floats:
        """The share of each title, by weight, that is similar to something in the question."""
        tokens, owners = self._titles
        covered = np.bincount(owners, weights[tokens] * similarity[tokens], self._count)
        return (covered / np.maximum(np.bincount(owners, weights[tokens], self._count), 1e-9)).astype(np.float32)


def rarity(held: Integers, count: int) -> Floats:
    """How rare tokens are that so many of `count` texts hold."""
    return np.asarray(np.sqrt(np.log1p((count - held + 0.5) / (held + 0.5))), np.float32)


class QuestionTokens:
    """The different tokens of a question: those with the longest vectors, which say most."""

    def __init__(self, model: StaticEmbedder, question: str) -> None:
        # Not np.unique: its first call imports a module, which takes longer than all of this.
        ids = np.array(sorted({*model.token_ids(question).tolist()}), np.uint16)
        vectors = model.token_vectors(ids)
        lengths = vector_lengths(vectors)
        heaviest = np.argsort(-lengths, kind="stable")[:MAX_QUERY_TOKENS]
        self._model = model
        self.ids: Integers = ids[heaviest].astype(np.int64)
        self.lengths: Floats = lengths[heaviest]
        self.words = sum(not _continues_word(model.piece(token)) for token in self.ids.tolist())
        """How many words they are, where each token of a script without spaces is one."""
        self.directions: Floats = vectors[heaviest] / self.lengths[:, None]
        """Their vectors, of length 1."""
        # Passages, windows and sentences of one search have mostly the same tokens; row 0 is of none.
        self._rows = np.zeros(_TOKEN_ID_LIMIT, np.uint16)
        self._cosines = np.zeros((1, len(self.ids)), np.float32)
        self._lengths = np.zeros(1, np.float32)
        self._lock = threading.Lock()

    def compare(self, ids: NDArray[np.integer]) -> tuple[NDArray[np.uint16], Floats, Floats]:
        """The row of each of some tokens in a table of all that were compared: its cosines, and its length."""
        with self._lock:
            rows = self._rows[ids]
            if not rows.all():
                new = np.sort(ids[rows == 0])
                new = new[np.append(True, new[1:] != new[:-1])]
                cosines, lengths = self._model.token_cosines(new, self.directions)
                self._rows[new] = np.arange(len(self._lengths), len(self._lengths) + len(new))
                self._cosines = np.concatenate([self._cosines, cosines])
                self._lengths = np.concatenate([self._lengths, lengths])
                rows = self._rows[ids]
            return rows, self._cosines, self._lengths


@lru_cache(maxsize=8)  # every step of a search asks for those of its question
def question_tokens(model: StaticEmbedder, question: str) -> QuestionTokens:
    """The tokens of a question."""
    return QuestionTokens(model, question)


def _word_weights(embedder: StaticEmbedder, token_ids: Integers) -> Floats:
    """What each token counts as a word."""
    return np.array([_piece_weight(embedder.piece(token)) for token in token_ids.tolist()], np.float32)


@lru_cache(maxsize=4096)
def _piece_weight(piece: str) -> float:
    return 1.0 if any(word_weight(word) == 1 for word in words(piece)) else LITTLE_WORD_WEIGHT


def _continues_word(piece: str) -> bool:
    """Whether a token is a later part of a word in Latin letters."""
    return piece.isascii() and not piece.startswith(WORD_START)


def _weighted_sums(similarity: Floats, weights: Floats) -> Floats:
    """Sums by weight; not with BLAS, which was once seen to warn of invalid values where all were finite."""
    sums: Floats = np.einsum("ij,j->i", similarity, weights)
    return sums
