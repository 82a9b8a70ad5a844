"""What of an index is seen by whoever may know of some collections only? As if there were no others.

It holds for everything that is made of what a store tells: results, suggestions, corrections, counts. A store that is
seen so is read; what is written goes to the store itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from annai.answers import Where
from annai.errors import StoreError
from annai.stores.base import (
    IndexedDocument,
    Inventory,
    RequestResult,
    Requests,
    Scored,
    Store,
    StoredText,
    Vectors,
    newest_first,
)
from annai.text.fields import FIELD_WEIGHTS, FieldWeights
from annai.types import (
    Collection,
    Document,
    FileState,
    ListedDocument,
    MetadataField,
    Request,
    RequestStatus,
    Statistics,
    StoredSection,
)

MAX_COUNTED = 501
"""How far the passages that hold a word are counted: no rule of a search asks for more."""

HIDDEN_ADDRESS = "(not shown)"


class ScopedStore(Store):
    """A store of which only some collections can be seen."""

    def __init__(self, store: Store, scope: frozenset[str]) -> None:
        self._store = store
        self.scope: frozenset[str] = scope
        self.read_only = store.read_only
        self.shared = store.shared
        self.requests = _ScopedRequests(store.requests, scope)

    # Reading

    @property
    def problem(self) -> str:
        """That there is one; where the index is, is not told."""
        return "the engine beside it does not have all of the index." if self._store.problem else ""

    def collections(self) -> list[Collection]:
        """All of them: `annai.collection` needs to know that there are others, and shows those of the scope alone."""
        return self._store.collections()

    def statistics(self, collection: str) -> Statistics:
        """Zeros outside of the scope."""
        return self._store.statistics(collection) if collection in self.scope else Statistics(0, 0, 0)

    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """None outside of the scope."""
        return self._store.states(collection, under) if collection in self.scope else {}

    def documents(self, collection: str, *, after: str = "", limit: int | None = None) -> list[ListedDocument]:
        """None outside of the scope."""
        return self._store.documents(collection, after=after, limit=limit) if collection in self.scope else []

    def metadata(self, collection: str, name: str) -> list[tuple[str, str]]:
        """None outside of the scope."""
        return self._store.metadata(collection, name) if collection in self.scope else []

    def fields(self, collection: str) -> list[MetadataField]:
        """None outside of the scope."""
        return self._store.fields(collection) if collection in self.scope else []

    def document(self, collection: str, path: str) -> Document | None:
        """None outside of the scope."""
        return self._store.document(collection, path) if collection in self.scope else None

    def documents_at(self, addresses: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Document]:
        """None outside of the scope."""
        return self._store.documents_at([each for each in addresses if each[0] in self.scope])

    def texts(self, where: Where) -> Iterator[StoredText]:
        """Those of the scope."""
        seen = self._narrowed(where)
        return self._store.texts(seen) if seen else iter(())

    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """None outside of the scope."""
        return self._store.sections(collection, path) if collection in self.scope else []

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """The store's own."""
        with self._store.snapshot():
            yield

    # Searching

    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Those of the scope."""
        return {key: each for key, each in self._store.lookup(keys).items() if each.collection in self.scope}

    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The store's own: keys come from what was found."""
        return self._store.vectors(keys, dimension)

    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The store's own: keys come from what was found."""
        return self._store.tokens(keys)

    def nearest(self, vector: Vectors, limit: int, where: Where) -> list[Scored]:
        """Those of the scope."""
        seen = self._narrowed(where)
        return self._store.nearest(vector, limit, seen) if seen else []

    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """Those of the scope."""
        seen = self._narrowed(where)
        return self._store.matching(words, fields, limit, seen) if seen else []

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """Counted in the scope, one by one: a word that others hold alone is unknown here."""
        where = Where(collections=tuple(sorted(self.scope)))
        found = {
            word: len(self._store.matching({word: 1.0}, FIELD_WEIGHTS, MAX_COUNTED, where))
            for word in self._store.holding(words)
        }
        return {word: count for word, count in found.items() if count}

    def dimension(self, collection: str) -> int:
        """0 outside of the scope."""
        return self._store.dimension(collection) if collection in self.scope else 0

    def _narrowed(self, where: Where) -> Where | None:
        """The same restriction within the scope; None if nothing is left."""
        names = tuple(each for each in where.collections or sorted(self.scope) if each in self.scope)
        return replace(where, collections=names) if names else None

    # Reporting

    @property
    def address(self) -> str:
        """Not shown: it belongs to the whole index."""
        return HIDDEN_ADDRESS

    def size_on_disk(self) -> int:
        """0: the size of the whole index tells of the others."""
        return 0

    # Writing

    def save_collection(self, collection: Collection) -> None:
        """Change a collection of the scope."""
        if collection.name not in self.scope:
            _refuse()
        self._store.save_collection(collection)

    def delete_collection(self, name: str) -> None:
        """Refused."""
        _refuse()

    def swap_collection(self, staging: str, name: str) -> None:
        """Refused."""
        _refuse()

    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """Refused."""
        _refuse()

    def inventory(self) -> Inventory:
        """Refused."""
        _refuse()

    def sweep(self) -> None:
        """Refused."""
        _refuse()

    def vacuum(self) -> None:
        """Refused."""
        _refuse()

    def close(self) -> None:
        """Nothing: the store belongs to whoever opened it."""


class _ScopedRequests(Requests):
    """The queue, as far as it concerns some collections."""

    def __init__(self, requests: Requests, scope: frozenset[str]) -> None:
        self._requests = requests
        self._scope = scope

    def pending(self, collection: str, paths: Sequence[str]) -> list[Request]:
        """None outside of the scope."""
        return self._requests.pending(collection, paths) if collection in self._scope else []

    def get(self, ids: Sequence[int]) -> list[Request]:
        """Those of the scope."""
        return [each for each in self._requests.get(ids) if each.collection in self._scope]

    def counts(self, collections: Sequence[str] | None = None) -> dict[RequestStatus, int]:
        """Of the scope."""
        return self._requests.counts(self._narrowed(collections))

    def latest(
        self,
        status: RequestStatus | None = None,
        collection: str = "",
        limit: int = 100,
        under: Sequence[str] | None = None,
    ) -> list[Request]:
        """Those of the scope."""
        names = self._narrowed([collection] if collection else None)
        found = (each for name in names for each in self._requests.latest(status, name, limit, under))
        return newest_first(found)[:limit]

    def due(self, collections: Sequence[str] | None = None) -> int:
        """Of the scope."""
        return self._requests.due(self._narrowed(collections))

    def due_in(self, collections: Sequence[str] | None = None) -> float | None:
        """Of the scope."""
        return self._requests.due_in(self._narrowed(collections))

    def _narrowed(self, collections: Sequence[str] | None) -> list[str]:
        return [each for each in (sorted(self._scope) if collections is None else collections) if each in self._scope]

    def add(
        self, collection: str, paths: Iterable[str], *, pause: float = 0.0, error: str = "", first: bool = False
    ) -> list[int]:
        """Refused."""
        _refuse()

    def claim(self, limit: int, collections: Sequence[str] | None = None) -> list[Request]:
        """Refused."""
        _refuse()

    def finish(self, results: Sequence[RequestResult]) -> None:
        """Refused."""
        _refuse()

    def record(self, ended: Sequence[Request]) -> None:
        """Refused."""
        _refuse()

    def recover(self, *, died: bool = True) -> int:
        """Refused."""
        _refuse()

    def prune(self, older_than: float) -> None:
        """Refused."""
        _refuse()


def _refuse() -> NoReturn:
    raise StoreError("Only the whole index can be written", "ask with a token for all collections.")
