"""How does an engine come to hold what the index file holds, and nothing else? By their keys, copied from the file."""

from collections.abc import Iterator, Sequence

import numpy as np

from annai.answers import Where
from annai.stores.sidecar.neighbours import Neighbours, Passage
from annai.stores.sqlite.search_index import IndexFile, Keys, Span

ADD_BATCH = 2_000
"""Passages that are added to the engine in one call when it lost them."""


class Copying:
    """Copies the passages of an index file to an engine."""

    def __init__(self, file: IndexFile, neighbours: Neighbours) -> None:
        self._file = file
        self._neighbours = neighbours

    def remove_orphans(self, reserved: Sequence[Span] = ()) -> None:
        """Let the engine forget what no document owns, except for reserved keys."""
        orphans = outside(np.setdiff1d(self._neighbours.keys(), self._file.passages.keys()), reserved)
        if len(orphans):
            self._neighbours.remove([(int(key), int(key) + 1) for key in orphans])

    def add_missing(self) -> int:
        """Copy to the engine what the file holds and it does not; returns how many passages these were."""
        missing = np.setdiff1d(self._file.passages.keys(), self._neighbours.keys())
        batches: dict[int, list[Passage]] = {}
        for passage in self.read(missing):
            batch = batches.setdefault(len(passage.vector), [])
            batch.append(passage)
            if len(batch) >= ADD_BATCH:
                self._neighbours.add(batch)
                batch.clear()
        for batch in filter(None, batches.values()):
            self._neighbours.add(batch)
        self._neighbours.optimize(now=True)
        return len(missing)

    def try_search(self) -> None:
        """Raise the engine's `StoreError` if it cannot search: it may count what it can no longer read."""
        keys = self._file.passages.keys()
        if dimension := self._file.documents.vector_length(int(keys[0])) if len(keys) else 0:
            (vector,) = self._file.documents.vectors([int(keys[0])], dimension)
            self._neighbours.nearest(vector, 1, None, Where())

    def read(self, keys: Keys) -> Iterator[Passage]:
        """Passages as the file holds them, a document at a time."""
        wanted, file = {*keys.tolist()}, self._file
        for collection in file.collections.read() if wanted else ():
            number = file.collections.existing(collection.name)
            for path in file.collections.states(collection.name):
                sections = [each for each in file.documents.sections(collection.name, path) if each.key in wanted]
                dimension = file.documents.vector_length(sections[0].key) if sections else 0
                if not dimension:
                    continue
                vectors = file.documents.vectors([each.key for each in sections], dimension)
                for each, vector in zip(sections, vectors, strict=True):
                    yield Passage(each.key, number, path, each.section, vector)


def outside(keys: Keys, spans: Sequence[Span]) -> Keys:
    """The keys that lie in none of the spans."""
    for first, past in spans:
        keys = keys[(keys < first) | (keys >= past)]
    return keys
