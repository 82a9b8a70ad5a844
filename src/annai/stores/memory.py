"""How would an index behave with nothing to go wrong? The reference store: plain dictionaries, exact answers."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from annai.answers import Where
from annai.config import Config
from annai.stores.base import IndexedDocument, Inventory, Scored, Store, Vectors, unknown_collection
from annai.stores.bm25 import (
    Matches,
    average_length,
    count_words,
    is_prefix,
    length_damping,
    saturation,
    score,
    weights_of,
    word_value,
)
from annai.stores.memory_requests import MemoryRequests
from annai.stores.metadata import count_fields
from annai.stores.paths import is_under, path_prefixes, trim_prefix
from annai.stores.scores import top_scores
from annai.text.fields import FieldWeights
from annai.text.metadata import document_times, metadata
from annai.types import (
    Collection,
    Document,
    FileState,
    ListedDocument,
    MetadataField,
    Outline,
    Statistics,
    StoredSection,
)

P = ParamSpec("P")
R = TypeVar("R")


def open_store(_config: Config) -> Store:
    """A new, empty store."""
    return MemoryStore()


@dataclass(slots=True)
class _Contents:
    """One collection with its files and documents, by path."""

    collection: Collection
    states: dict[str, FileState] = field(default_factory=dict)
    documents: dict[str, tuple[int, IndexedDocument]] = field(default_factory=dict)
    """With the key of the root section; the others follow it."""


def _with_lock(
    method: "Callable[Concatenate[MemoryStore, P], R]",
) -> "Callable[Concatenate[MemoryStore, P], R]":
    """Let one thread at a time use the store."""

    @wraps(method)
    def locked(self: "MemoryStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return locked


class MemoryStore(Store):
    """Keeps everything in dictionaries and compares with every passage."""

    def __init__(self) -> None:
        self._contents: dict[str, _Contents] = {}
        self._next_key = 1
        self.lock = threading.RLock()
        self.requests: MemoryRequests = MemoryRequests()

    @property
    def address(self) -> str:
        """Nowhere else."""
        return "memory"

    @_with_lock
    def collections(self) -> list[Collection]:
        """Every collection, ordered by name."""
        return [self._contents[name].collection for name in sorted(self._contents)]

    @_with_lock
    def save_collection(self, collection: Collection) -> None:
        """Add or replace."""
        if collection.name in self._contents:
            self._contents[collection.name].collection = collection
        else:
            self._contents[collection.name] = _Contents(collection)

    @_with_lock
    def delete_collection(self, name: str) -> None:
        """Forget it and its documents."""
        self._contents.pop(name, None)
        self.requests.forget(name)

    @_with_lock
    def swap_collection(self, staging: str, name: str) -> None:
        """Move the documents over."""
        old, new = self._existing(name).collection, self._existing(staging)
        new.collection = dataclasses.replace(
            old,
            embedder=new.collection.embedder,
            probe=new.collection.probe,
            settings=new.collection.settings,
            chunk_size=new.collection.chunk_size,
            chunk_overlap=new.collection.chunk_overlap,
            imported_at=new.collection.imported_at,
        )
        self._contents[name] = self._contents.pop(staging)

    @_with_lock
    def documents(self, collection: str, *, after: str = "", limit: int | None = None) -> list[ListedDocument]:
        """The documents in the order of their paths."""
        documents = self._contents[collection].documents if collection in self._contents else {}
        paths = sorted(path for path in documents if path > after)[:limit]
        sections = {path: documents[path][1].sections for path in paths}
        states = self._contents[collection].states if paths else {}
        return [
            ListedDocument(
                path,
                documents[path][1].document.title,
                len(sections[path]),
                sections[path][0].token_count,
                *document_times(documents[path][1].document.front_matter, states[path].mtime_ns),
            )
            for path in paths
        ]

    @_with_lock
    def metadata(self, collection: str, name: str) -> list[tuple[str, str]]:
        """From the front matter of every document."""
        return [(path, value) for path, own, value in self._metadata(collection) if own == name]

    @_with_lock
    def fields(self, collection: str) -> list[MetadataField]:
        """Count what every document says."""
        return count_fields(self._metadata(collection))

    @_with_lock
    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """What is known of the files."""
        states = self._contents[collection].states if collection in self._contents else {}
        wanted = None if under is None else {*map(trim_prefix, under)}
        return {
            path: state
            for path, state in states.items()
            if wanted is None or not wanted.isdisjoint(path_prefixes(path))
        }

    @_with_lock
    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """Replace, forget, remember."""
        contents = self._existing(collection)
        for path in removed:
            contents.states.pop(path, None)
            contents.documents.pop(path, None)
        for indexed in documents:
            path = indexed.document.path
            stored = dataclasses.replace(
                indexed, document=dataclasses.replace(indexed.document, collection=collection, outline=Outline())
            )
            contents.documents[path] = (self._next_key, stored)
            contents.states[path] = indexed.document.state
            self._next_key += len(indexed.sections)
        for state in states:
            contents.states[state.path] = state
            if state.problem and state.problem.kind == "skipped":
                contents.documents.pop(state.path, None)

    @_with_lock
    def document(self, collection: str, path: str) -> Document | None:
        """The document, or None."""
        contents = self._contents.get(collection)
        stored = contents.documents.get(path) if contents else None
        if contents is None or stored is None:
            return None
        return dataclasses.replace(stored[1].document, state=contents.states[path])

    @_with_lock
    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document."""
        contents = self._contents.get(collection)
        stored = contents.documents.get(path) if contents else None
        return self._sections(contents, *stored) if contents and stored else []

    @_with_lock
    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Sections by key."""
        wanted = set(keys)
        everything = (
            section
            for contents in self._contents.values()
            for stored in contents.documents.values()
            for section in self._sections(contents, *stored)
        )
        return {section.key: section for section in everything if section.key in wanted}

    @_with_lock
    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The vectors of sections."""
        known = {
            root + order: vector
            for root, indexed in self._documents()
            for order, vector in enumerate(indexed.vectors)
            if len(vector) == dimension
        }
        zeros = np.zeros(dimension, np.float32)
        return np.array([known.get(key, zeros) for key in keys], np.float32).reshape(len(keys), dimension)

    @_with_lock
    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The tokens of passages."""
        known = {
            root + order: packed for root, indexed in self._documents() for order, packed in indexed.tokens.items()
        }
        return {key: known[key] for key in keys if key in known}

    @_with_lock
    def nearest(self, vector: Vectors, limit: int, where: Where) -> list[Scored]:
        """Compare with every passage."""
        cosines = {
            root + order: float(indexed.vectors[order] @ vector)
            for root, indexed in self._documents(where)
            if indexed.vectors.shape[1] == len(vector)
            for order in indexed.keywords
        }
        keys = sorted(cosines)
        return top_scores(np.array(keys, np.int64), np.array([cosines[key] for key in keys]), limit)

    @_with_lock
    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Count words in every passage."""
        counts = self._word_counts()
        keys = np.array(sorted(counts), np.int64)
        lengths = np.array([counts[key].length for key in keys.tolist()], np.float64)
        weights = weights_of(fields)
        damping = length_damping(lengths, average_length(int(lengths.sum()), len(keys)))

        def matches() -> Iterator[Matches]:
            for word, weight in words.items():
                frequencies = np.array([counts[key].frequency(word, weights.tolist()) for key in keys.tolist()])
                found = np.flatnonzero(frequencies)
                value = word_value(weight, len(keys), len(found))
                yield Matches(value, found, saturation(frequencies[found], damping[found]))

        positions, shares = score(matches(), len(keys))
        allowed = np.isin(keys[positions], [*self._word_counts(where)])
        return top_scores(keys[positions][allowed], shares[allowed], limit)

    @_with_lock
    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """Look for the words in every passage."""
        return Counter(word for passage in self._word_counts().values() for word in passage.counts.keys() & {*words})

    @_with_lock
    def dimension(self, collection: str) -> int:
        """Of any of its documents."""
        contents = self._contents.get(collection)
        documents = contents.documents.values() if contents else ()
        return max((indexed.vectors.shape[1] for _, indexed in documents), default=0)

    @_with_lock
    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection."""
        contents = self._contents.get(collection)
        documents = [indexed for _, indexed in contents.documents.values()] if contents else []
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
        """Nobody else writes meanwhile."""
        with self.lock:
            yield

    @_with_lock
    def inventory(self) -> Inventory:
        """Everything belongs to a document here."""
        keys = np.array(
            sorted(root + order for root, each in self._documents() for order in range(len(each.sections))), np.int64
        )
        words = {key: len(passage.counts) for key, passage in sorted(self._word_counts().items()) if passage.counts}
        return Inventory(keys, keys, np.array([*words], np.int64), np.array([*words.values()], np.int64))

    def sweep(self) -> None:
        """There is nothing that no document owns."""

    def vacuum(self) -> None:
        """Nothing is kept of what was deleted."""

    def close(self) -> None:
        """Forget everything."""
        self._contents.clear()

    def _existing(self, collection: str) -> _Contents:
        if collection not in self._contents:
            raise unknown_collection(collection)
        return self._contents[collection]

    def _metadata(self, collection: str) -> Iterator[tuple[str, str, str]]:
        """Every path with every name and value."""
        contents = self._contents.get(collection)
        for path, (_, indexed) in contents.documents.items() if contents else ():
            for name, value in metadata(indexed.document.front_matter):
                yield path, name, value

    def _documents(self, where: Where | None = None) -> list[tuple[int, IndexedDocument]]:
        """Every document that passes a restriction, with the key of its root."""
        where = where or Where()
        return [
            (root, indexed)
            for name, contents in self._contents.items()
            if not where.collections or name in where.collections
            for path, (root, indexed) in contents.documents.items()
            if (not where.paths or is_under(path, where.paths))
            and not is_under(path, where.excludes)
            and (where.documents is None or path in where.documents)
            and not (where.clean_only and (contents.states[path].problem or self.requests.is_waiting(name, path)))
        ]

    def _word_counts(self, where: Where | None = None) -> dict[int, "_WordCounts"]:
        """The words of every passage that passes a restriction, by key."""
        return {
            root + order: _WordCounts(count_words(keywords), keywords.length)
            for root, indexed in self._documents(where)
            for order, keywords in indexed.keywords.items()
        }

    def _sections(self, contents: _Contents, root: int, indexed: IndexedDocument) -> list[StoredSection]:
        document = indexed.document
        waiting = self.requests.is_waiting(contents.collection.name, document.path)
        return [
            StoredSection(
                key=root + section.order,
                root_key=root,
                collection=contents.collection.name,
                path=document.path,
                title=document.title,
                section=section,
                is_cjk=indexed.is_cjk,
                problem=contents.states[document.path].problem,
                waiting=waiting,
            )
            for section in indexed.sections
        ]


@dataclass(frozen=True, slots=True)
class _WordCounts:
    """How often one passage has each of its words, field by field, and how many words it has in all."""

    counts: Mapping[str, bytes]
    length: int

    def frequency(self, word: str, weights: Sequence[float]) -> float:
        """How often the passage has a word of a query, its fields counted by weight."""
        own = [word] if not is_prefix(word) else [each for each in self.counts if each.startswith(word)]
        return float(
            sum(
                weight * count
                for each in own
                for weight, count in zip(weights, self.counts.get(each, bytes(len(weights))), strict=True)
            )
        )
