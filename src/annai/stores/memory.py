"""How would an index behave with nothing to go wrong? The reference store: plain dictionaries, exact answers."""

import dataclasses
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from annai.config import Config
from annai.stores.base import (
    BM25_B,
    BM25_K1,
    IndexedDocument,
    Inventory,
    Scored,
    Store,
    Vectors,
    inverse_document_frequency,
    is_beginning,
    is_under,
)
from annai.stores.memory_requests import MemoryRequests
from annai.text.fields import FIELD_NAMES, FieldWeights
from annai.text.keywords import Keywords
from annai.types import Collection, Document, FileState, Outline, Statistics, StoredSection, Where

P = ParamSpec("P")
R = TypeVar("R")


def open_store(config: Config) -> Store:  # noqa: ARG001 - every engine is opened with the config
    """A new, empty store."""
    return MemoryStore()


@dataclass
class _Held:
    """One collection with its files and documents, by path."""

    collection: Collection
    states: dict[str, FileState] = field(default_factory=dict)
    documents: dict[str, tuple[int, IndexedDocument]] = field(default_factory=dict)
    """With the key of the root section; the others follow it."""


def _one_at_a_time(
    method: "Callable[Concatenate[MemoryStore, P], R]",
) -> "Callable[Concatenate[MemoryStore, P], R]":
    """Let threads take turns."""

    @wraps(method)
    def alone(self: "MemoryStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn:
            return method(self, *args, **kwargs)

    return alone


class MemoryStore(Store):
    """Keeps everything in dictionaries and compares with every passage."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._next_key = 1
        self.turn = threading.RLock()
        self.requests: MemoryRequests = MemoryRequests()

    @property
    def address(self) -> str:
        """Nowhere else."""
        return "memory"

    @_one_at_a_time
    def collections(self) -> list[Collection]:
        """Every collection, ordered by name."""
        return [self._held[name].collection for name in sorted(self._held)]

    @_one_at_a_time
    def save_collection(self, collection: Collection) -> None:
        """Add or replace."""
        if collection.name in self._held:
            self._held[collection.name].collection = collection
        else:
            self._held[collection.name] = _Held(collection)

    @_one_at_a_time
    def delete_collection(self, name: str) -> None:
        """Forget it and its documents."""
        self._held.pop(name, None)
        self.requests.forget(name)

    @_one_at_a_time
    def swap_collection(self, staging: str, name: str) -> None:
        """Move the documents over."""
        new = self._held.pop(staging)
        made = new.collection
        new.collection = dataclasses.replace(
            self._held[name].collection,
            embedder=made.embedder,
            settings=made.settings,
            imported_at=made.imported_at,
        )
        self._held[name] = new

    @_one_at_a_time
    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """What is known of the files."""
        states = self._held[collection].states if collection in self._held else {}
        return {path: state for path, state in states.items() if under is None or is_under(path, under)}

    @_one_at_a_time
    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """Replace, forget, remember."""
        held = self._held[collection]
        for path in removed:
            held.states.pop(path, None)
            held.documents.pop(path, None)
        for indexed in documents:
            path = indexed.document.path
            kept = dataclasses.replace(
                indexed, document=dataclasses.replace(indexed.document, collection=collection, outline=Outline())
            )
            held.documents[path] = (self._next_key, kept)
            held.states[path] = indexed.document.state
            self._next_key += len(indexed.sections)
        for state in states:
            held.states[state.path] = state
            if state.problem and state.problem.kind == "skipped":
                held.documents.pop(state.path, None)

    @_one_at_a_time
    def document(self, collection: str, path: str) -> Document | None:
        """The document, or None."""
        held = self._held.get(collection)
        found = held.documents.get(path) if held else None
        if held is None or found is None:
            return None
        return dataclasses.replace(found[1].document, state=held.states[path])

    @_one_at_a_time
    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document."""
        held = self._held.get(collection)
        found = held.documents.get(path) if held else None
        return self._stored(held, *found) if held and found else []

    @_one_at_a_time
    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Sections by key."""
        wanted = set(keys)
        everything = (
            stored
            for held in self._held.values()
            for found in held.documents.values()
            for stored in self._stored(held, *found)
        )
        return {stored.key: stored for stored in everything if stored.key in wanted}

    @_one_at_a_time
    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The vectors of sections."""
        known = {
            root + order: vector
            for held in self._held.values()
            for root, indexed in held.documents.values()
            for order, vector in enumerate(indexed.vectors)
            if len(vector) == dimension
        }
        nothing = np.zeros(dimension, np.float32)
        return np.array([known.get(key, nothing) for key in keys], np.float32).reshape(len(keys), dimension)

    @_one_at_a_time
    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The tokens of passages."""
        known = {
            root + order: packed
            for held in self._held.values()
            for root, indexed in held.documents.values()
            for order, packed in indexed.tokens.items()
        }
        return {key: known[key] for key in keys if key in known}

    @_one_at_a_time
    def nearest(self, vector: Vectors, limit: int, where: Where) -> list[Scored]:
        """Compare with every passage."""
        scored = [
            Scored(root + order, float(indexed.vectors[order] @ vector))
            for root, indexed in self._documents(where)
            if indexed.vectors.shape[1] == len(vector)
            for order in indexed.keywords
        ]
        return _best(scored, limit)

    @_one_at_a_time
    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Count words in every passage."""
        everything = {
            root + order: keywords
            for root, indexed in self._documents(Where())
            for order, keywords in indexed.keywords.items()
        }
        allowed = {root + order for root, indexed in self._documents(where) for order in indexed.keywords}
        counts = {key: _weighted_counts(keywords, fields) for key, keywords in everything.items()}
        lengths = {key: keywords.length for key, keywords in everything.items()}
        average = sum(lengths.values()) / max(len(lengths), 1)

        scores: defaultdict[int, float] = defaultdict(float)
        best_possible = 0.0
        for word, weight in words.items():
            frequencies = {key: f for key, count in counts.items() if (f := _frequency(count, word)) > 0}
            value = weight * inverse_document_frequency(len(everything), len(frequencies))
            best_possible += value * (BM25_K1 + 1)
            for key, frequency in frequencies.items():
                damped = frequency + BM25_K1 * (1 - BM25_B + BM25_B * lengths[key] / average)
                scores[key] += value * frequency * (BM25_K1 + 1) / damped
        return _best([Scored(key, score / best_possible) for key, score in scores.items() if key in allowed], limit)

    @_one_at_a_time
    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """Look for the words in every passage."""
        counts = Counter(
            word
            for _, indexed in self._documents(Where())
            for keywords in indexed.keywords.values()
            for word in _weighted_counts(keywords, FieldWeights()).keys() & {*words}
        )
        return dict(counts)

    @_one_at_a_time
    def dimension(self, collection: str) -> int:
        """Of any of its documents."""
        held = self._held.get(collection)
        return max((indexed.vectors.shape[1] for _, indexed in held.documents.values()), default=0) if held else 0

    @_one_at_a_time
    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection."""
        held = self._held.get(collection)
        documents = [indexed for _, indexed in held.documents.values()] if held else []
        return Statistics(
            documents=len(documents),
            sections=sum(len(indexed.sections) for indexed in documents),
            vectors=sum(len(indexed.vectors) for indexed in documents),
        )

    def size_on_disk(self) -> int:
        """Nothing is on disk."""
        return 0

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Nobody else's turn."""
        with self.turn:
            yield

    @_one_at_a_time
    def inventory(self) -> Inventory:
        """Everything belongs to a document here."""
        held = [found for held in self._held.values() for found in held.documents.values()]
        keys = np.array(sorted(root + order for root, each in held for order in range(len(each.sections))), np.int64)
        words = {
            root + order: len(_weighted_counts(keywords, FieldWeights()))
            for root, each in held
            for order, keywords in each.keywords.items()
        }
        passages = np.array(sorted(key for key, count in words.items() if count), np.int64)
        return Inventory(keys, keys, passages, np.array([words[key] for key in passages.tolist()], np.int64))

    def sweep(self) -> None:
        """There is nothing that no document owns."""

    def vacuum(self) -> None:
        """Nothing is kept of what was deleted."""

    def close(self) -> None:
        """Forget everything."""
        self._held.clear()

    def _documents(self, where: Where) -> list[tuple[int, IndexedDocument]]:
        return [
            (root, indexed)
            for name, held in self._held.items()
            if not where.collections or name in where.collections
            for path, (root, indexed) in held.documents.items()
            if (not where.paths or is_under(path, where.paths))
            and not is_under(path, where.excludes)
            and not (where.clean_only and (held.states[path].problem or self.requests.is_waiting(name, path)))
        ]

    def _stored(self, held: _Held, root: int, indexed: IndexedDocument) -> list[StoredSection]:
        document = indexed.document
        waiting = self.requests.is_waiting(held.collection.name, document.path)
        return [
            StoredSection(
                key=root + section.order,
                root_key=root,
                collection=held.collection.name,
                path=document.path,
                title=document.title,
                section=section,
                is_cjk=indexed.is_cjk,
                problem=held.states[document.path].problem,
                waiting=waiting,
            )
            for section in indexed.sections
        ]


def _best(scored: list[Scored], limit: int) -> list[Scored]:
    return sorted(scored, key=lambda each: (-each.score, each.key))[:limit]


def _weighted_counts(keywords: Keywords, fields: FieldWeights) -> dict[str, float]:
    counts: defaultdict[str, float] = defaultdict(float)
    for name in FIELD_NAMES:
        for word in getattr(keywords, name).split():
            counts[word] += getattr(fields, name)
    return counts


def _frequency(counts: Mapping[str, float], word: str) -> float:
    if is_beginning(word):
        return sum(count for each, count in counts.items() if each.startswith(word))
    return counts.get(word, 0.0)
