"""Where is an index kept, and what does it promise? The contract every store keeps, and the table of engines.

DocumentReader              what is stored: collections, files, documents, sections
├── DocumentWriter          what indexing needs: the queue, and writing
└── PassageSearcher         what searching needs: passages by vector and by word
StoreUpkeep                 what checking, repairing and tidying need
Store                       all of it, opened and closed
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from importlib import import_module
from types import TracebackType
from typing import NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from annai import plugins
from annai.answers import Where
from annai.config import Config
from annai.definitions import dataclass
from annai.errors import StoreError
from annai.stores.paths import is_under
from annai.text.fields import FieldWeights
from annai.text.keywords import Keywords
from annai.types import (
    Collection,
    Document,
    FileState,
    ListedDocument,
    MetadataField,
    Request,
    RequestStatus,
    Section,
    Statistics,
    StoredSection,
)

Vectors = NDArray[np.float32]

LONGEST_PAUSE_SECONDS = 3600.0
"""No request waits longer than this. One that is due later was queued before the clock was set back: it is due now."""

PROCESS_ENDED = "the process that was indexing it ended"
"""The error of a request whose process died: perhaps because of this file."""

STAGING_SUFFIX = ":building"
"""Marks a collection that is being built, within `bulk`, to replace the one before the colon."""


TEXTS_AT_ONCE = 100
"""Documents that are read at a time where all of them are gone through."""

MAX_FIELDS, MAX_FIELD_VALUES = 200, 5
"""What a list of the fields of a collection's documents tells."""


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document with all that makes it findable, ready to be written."""

    document: Document
    is_cjk: bool
    sections: Sequence[Section]
    vectors: Vectors
    """One row a section, of length 1 (or 0)."""
    keywords: Mapping[int, Keywords]
    """For each passage, by its section's `order`."""
    tokens: Mapping[int, bytes] = field(default_factory=dict)
    """For each passage, by its section's `order`, its packed tokens (`embedders.packing`); empty if there are none."""


class StoredText(NamedTuple):
    """A document's text, and where it belongs."""

    collection: str
    path: str
    text: bytes
    """All of it, in UTF-8."""


class Scored(NamedTuple):
    """A passage with a score; a search makes hundreds of these, so it is as light as can be."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class Inventory:
    """What an index holds by key, in ascending order of the keys."""

    sections: NDArray[np.int64]
    """The keys that sections have."""
    vectors: NDArray[np.int64]
    """The keys that vectors have."""
    passages: NDArray[np.int64]
    """The keys that keywords have."""
    words: NDArray[np.int64]
    """For each of these passages, how many different words lead to it."""


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The result of a request that was claimed."""

    id: int
    status: RequestStatus
    """`completed`, `skipped` or `failed`; or `pending`, to try it again."""
    error: str = ""
    hash: str = ""
    pause: float = 0.0
    """Seconds to wait before it is tried again."""


def newest_first(requests: Iterable[Request]) -> list[Request]:
    """Requests in the order of a history: what is not ended yet, then what ended last."""
    return sorted(requests, key=lambda each: (not each.completed_at, each.completed_at, each.id), reverse=True)


class Requests(ABC):
    """The queue: paths to look at again, and what came of it.

    Of one path at most one request is pending: the latest wins. Every method is one step, as those of a store are.
    """

    @abstractmethod
    def add(
        self, collection: str, paths: Iterable[str], *, pause: float = 0.0, error: str = "", first: bool = False
    ) -> list[int]:
        """Queue a request for each path; one that is still pending for it becomes `skipped`. Returns the new ids.

        They are due after `pause` seconds; `error` tells why they wait. Those that are to be done `first` get ids
        below all others, so that they are claimed before them.
        """

    @abstractmethod
    def claim(self, limit: int, collections: Sequence[str] | None = None) -> list[Request]:
        """Take the oldest pending requests that are due, of these collections; they are `processing` from now on.

        A path that is being processed already is not handed out a second time.
        """

    @abstractmethod
    def finish(self, results: Sequence[RequestResult]) -> None:
        """Record the results of claimed requests; other requests stay as they are.

        A request that is to be tried again counts one more attempt, and becomes `skipped` if a newer one is pending.
        """

    @abstractmethod
    def record(self, ended: Sequence[Request]) -> None:
        """Add requests that ended without having waited, as those of a collection indexed anew; their ids are new."""

    @abstractmethod
    def recover(self, *, died: bool = True) -> int:
        """Make every request that is `processing` pending again, and return how many there were.

        If the process that claimed them `died`, this counts as an attempt whose error is `PROCESS_ENDED`, and a newer
        request of the same path takes both over. Only the holder of the index lock may call it: nobody else is
        processing then. In a shared store it concerns only what this process claimed, which has not died, and claims
        that nobody renews any more, whose process has.
        """

    @abstractmethod
    def pending(self, collection: str, paths: Sequence[str]) -> list[Request]:
        """The pending requests of these paths, in no order; the rest of the queue is not looked at."""

    @abstractmethod
    def get(self, ids: Sequence[int]) -> list[Request]:
        """The requests with these ids, newest first; those that no longer exist are left out."""

    @abstractmethod
    def counts(self, collections: Sequence[str] | None = None) -> dict[RequestStatus, int]:
        """How many requests, of these collections, are in each state."""

    @abstractmethod
    def latest(
        self,
        status: RequestStatus | None = None,
        collection: str = "",
        limit: int = 100,
        under: Sequence[str] | None = None,
    ) -> list[Request]:
        """The latest requests as `newest_first` orders them, or only those of some files and folders.

        `under` are these, as `DocumentReader.states` takes them.
        """

    @abstractmethod
    def due(self, collections: Sequence[str] | None = None) -> int:
        """How many files, of these collections, have a request that could be claimed now or is being processed.

        The others wait for their next attempt.
        """

    @abstractmethod
    def due_in(self, collections: Sequence[str] | None = None) -> float | None:
        """Seconds until the next pending request of these collections is due, 0 if one is; None if none is pending."""

    @abstractmethod
    def prune(self, older_than: float) -> None:
        """Forget the requests that ended more than `older_than` seconds ago."""


class DocumentReader(ABC):
    """What an index holds of collections, files and documents."""

    read_only: bool = False
    """Whether the index can only be searched, because its file or folder cannot be written."""

    scope: frozenset[str] | None = None
    """The only collections that may be seen through this store; None means all."""

    shared: bool = False
    """Whether machines without a common disk may write this index at once: then claims keep them apart, not a lock."""

    @property
    def problem(self) -> str:
        """Why it answers more slowly than it should, as a sentence: an engine beside it lost its data, or is down."""
        return ""

    @abstractmethod
    def collections(self) -> list[Collection]:
        """Every collection, ordered by name."""

    @abstractmethod
    def statistics(self, collection: str) -> Statistics:
        """Counts for one collection; zeros if it is unknown."""

    @abstractmethod
    def states(self, collection: str, under: Sequence[str] | None = None) -> dict[str, FileState]:
        """What is known of the collection's files, by path; files that were skipped or failed included.

        With `under`, only the files that these paths name and those in the folders that they name.
        """

    @abstractmethod
    def documents(self, collection: str, *, after: str = "", limit: int | None = None) -> list[ListedDocument]:
        """The documents of a collection in the order of their paths, from the one after this path on."""

    @abstractmethod
    def document(self, collection: str, path: str) -> Document | None:
        """The document, or None; its outline is not kept."""

    def documents_at(self, addresses: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Document]:
        """The documents of these collections and paths; those that do not exist are left out."""
        found = {address: self.document(*address) for address in addresses}
        return {address: document for address, document in found.items() if document is not None}

    def texts(self, where: Where) -> Iterator[StoredText]:
        """The texts of all documents that pass a restriction, ordered by collection and path.

        Read it to its end, within a snapshot. It is derived from the other methods; reading the texts alone is quicker.
        """
        passes = _path_test(where)
        for name in sorted(each.name for each in self.collections()):
            if where.collections and name not in where.collections:
                continue
            paths = [each.path for each in self.documents(name) if passes(each.path)]
            for first in range(0, len(paths), TEXTS_AT_ONCE):
                addresses = [(name, path) for path in paths[first : first + TEXTS_AT_ONCE]]
                found = self.documents_at(addresses)
                for address in addresses:
                    if address in found and not (where.clean_only and self._is_dirty(*address)):
                        yield StoredText(*address, found[address].text.encode("utf-8", "surrogatepass"))

    def _is_dirty(self, collection: str, path: str) -> bool:
        """Whether a file failed, or waits, since its document was indexed."""
        return any(each.problem or each.waiting for each in self.sections(collection, path)[:1])

    @abstractmethod
    def sections(self, collection: str, path: str) -> list[StoredSection]:
        """All sections of a document in their order; empty if there is no such document."""

    @abstractmethod
    def metadata(self, collection: str, name: str) -> list[tuple[str, str]]:
        """What the collection's documents say about themselves under a name, in no order: path and value, as JSON.

        A document may have several values, or none (`text.metadata`).
        """

    @abstractmethod
    def fields(self, collection: str) -> list[MetadataField]:
        """The names under which the collection's documents say something, those of most documents first.

        At most `MAX_FIELDS`, each with its `MAX_FIELD_VALUES` most frequent values, ties by name and by the value's
        JSON.
        """

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within the block every read sees one state of the index, whatever is written meanwhile."""
        yield


class DocumentWriter(DocumentReader):
    """What indexing needs: the queue, and writing collections and documents."""

    requests: Requests
    """The queue of what is to be indexed; a collection's requests go when it does."""

    @abstractmethod
    def save_collection(self, collection: Collection) -> None:
        """Add the collection, or replace the one of that name; its documents stay."""

    @abstractmethod
    def delete_collection(self, name: str) -> None:
        """Forget the collection and all its documents; an unknown name does nothing."""

    @abstractmethod
    def swap_collection(self, staging: str, name: str) -> None:
        """Make the documents of `staging` those of `name`, whose own are deleted, and forget `staging`; all at once.

        The collection `name` takes `staging`'s embedder, probe, settings, chunk sizes and import time and keeps the
        rest of its own. Both must exist; if one does not, a `StoreError` names it.
        """

    @abstractmethod
    def write(
        self,
        collection: str,
        documents: Sequence[IndexedDocument] = (),
        removed: Sequence[str] = (),
        states: Sequence[FileState] = (),
    ) -> None:
        """Write all of this in one step: replace documents, forget paths, and remember file states.

        A document replaces the one of the same path; readers see the old one or the new one whole. A state alone
        updates what is remembered of a file; if its problem is `skipped`, the file has no document any more, if it
        is `failed`, an older document stays and is no longer clean. The collection must exist; if it does not, a
        `StoreError` names it.
        """

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """Within the block much is written: what orders the index for searching may wait until its end."""
        yield

    @contextmanager
    def replacing(self, name: str) -> Iterator[bool]:  # noqa: ARG002 - the index lock is enough here
        """Within the block nobody else replaces the collection; yields whether nobody did before.

        Only a shared store needs more than the index lock for that.
        """
        yield True

    def delete_abandoned(self, is_wanted: Callable[[Collection], bool] = lambda _: False) -> None:
        """Delete the collections that a process was building when it died, but for those that are wanted.

        Only the holder of the index lock may call it: nobody else is building then. In a shared store it does nothing
        while anybody is within `bulk`.
        """
        for each in self.collections():
            if each.name.endswith(STAGING_SUFFIX) and not is_wanted(each):
                self.delete_collection(each.name)


class PassageSearcher(DocumentReader):
    """What searching needs: passages by vector and by word, and what is stored of them."""

    @abstractmethod
    def lookup(self, keys: Sequence[int]) -> dict[int, StoredSection]:
        """Sections by key; keys that no longer exist are left out."""

    @abstractmethod
    def vectors(self, keys: Sequence[int], dimension: int) -> Vectors:
        """The vectors of sections, a row of `dimension` numbers for each key in the order of the keys.

        Numbers come back to within 0.001 of what went in; a key that no longer exists, or whose vector has another
        dimension, gives zeros.
        """

    @abstractmethod
    def tokens(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The tokens of passages, byte for byte as they went in; keys without any are left out.

        An engine may keep none: then a search makes them again from the texts, ranks the same and takes longer.
        """

    @abstractmethod
    def nearest(self, vector: Vectors, limit: int, where: Where) -> list[Scored]:
        """The passages whose vectors have the highest cosine with `vector`, best first, ties by key.

        Scores are exact cosines (to within 0.001). An engine may miss a passage in a large index, seldom.
        Collections whose vectors have another dimension are not looked at.
        """

    @abstractmethod
    def matching(self, words: Mapping[str, float], fields: FieldWeights, limit: int, where: Where) -> list[Scored]:
        """The passages that hold the words (word → weight), best first, ties by key.

        The score is BM25 over the weighted fields (`stores.bm25`), divided by what a text full of every word would
        get: 0–1, and comparable between queries. A word of one CJK character stands for every word that begins
        with it.
        """

    @abstractmethod
    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """How many passages hold each of the words; those that none holds are left out.

        Where many do, some that were deleted not long ago may still count.
        """

    @abstractmethod
    def dimension(self, collection: str) -> int:
        """How many numbers the collection's vectors have; 0 if it has none."""


class StoreUpkeep(ABC):
    """What checking, repairing, tidying and reporting need."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the index is, for people: a file, a folder or a server's address, with nothing secret in it."""

    @abstractmethod
    def size_on_disk(self) -> int:
        """Bytes that the whole index takes on disk."""

    def verify(self) -> None:  # noqa: B027 - most engines look after that themselves
        """Read all that is kept, and raise `DamagedIndex` if anything is not as it was written."""

    @abstractmethod
    def inventory(self) -> Inventory:
        """What the index holds for each key, whether or not a document owns it: to be compared with the documents."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove what no document owns, and count again what is counted."""

    @abstractmethod
    def vacuum(self) -> None:
        """Give back the space of what was deleted, and order the index for searching."""

    def tidy(self) -> None:  # noqa: B027 - some engines do it with every write
        """Clear away what deletions left behind, if that is much; called after files were indexed."""

    def apply_settings(self) -> None:  # noqa: B027 - most engines have no such settings
        """Build again what was built with other settings of the engine (`store.hnsw_*`); searches go on meanwhile.

        Only the holder of the index lock may call it: nobody else writes then.
        """


class Store(DocumentWriter, PassageSearcher, StoreUpkeep):
    """Documents, their sections, vectors and keywords, and what is remembered of files and collections.

    Every method sees the effects of every `write` that returned before, by this process or another. A method that
    writes does so wholly or, when it raises, not at all. Strings come back as they went in, whatever characters
    they hold. Stores know no embedder: vectors are rows of numbers whose dimension is one within a collection.
    Several threads may use one store at once. Every error is a `StoreError` whose message says what to do.
    """

    @abstractmethod
    def close(self) -> None:
        """Release files, connections and memory; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _path_test(where: Where) -> Callable[[str], bool]:
    """Tells whether a path is among those of a restriction."""
    named = None if where.documents is None else frozenset(where.documents)

    def passes(path: str) -> bool:
        is_named = named is None or path in named
        return is_named and (not where.paths or is_under(path, where.paths)) and not is_under(path, where.excludes)

    return passes


def unknown_collection(name: str) -> StoreError:
    """The error of writing to a collection that does not exist."""
    return StoreError(
        f"There is no collection {name!r} in the index",
        "if somebody deleted it or the index meanwhile, run the command "
        "again. `annai collection ls --all` lists those that there are.",
    )


ENGINES = {
    "sqlite": "annai.stores.sqlite.store",
    "lancedb": "annai.stores.sidecar.lancedb",
    "chroma": "annai.stores.sidecar.chroma",
    "postgres": "annai.stores.postgres.store",
    "qdrant": "annai.stores.sidecar.qdrant",
    "memory": "annai.stores.memory",
}
"""Engine → the module whose `open_store` opens it; imported when asked for."""


def load_store(config: Config) -> Store:
    """Open the store that the settings name."""
    engine = config.store.engine
    if engine not in ENGINES:
        return cast(Store, plugins.load("annai.stores", engine, StoreError)(config))
    try:
        module = import_module(ENGINES[engine])
    except ImportError as error:
        if (error.name or "").startswith("annai"):
            raise
        from annai.plugins import install_command  # needed only here

        raise StoreError(
            f"store.engine is {engine!r}, and what it needs is not installed ({error.name})",
            f"run `{install_command(engine)}`.",
        ) from error
    return cast(Store, module.open_store(config))
