"""What finds the passages near a vector? A part of the index file, or an engine beside it.

`SqliteStore` is given one of them: its own is `SignIndex`, which lives in the file; an engine beside the file has
another (`stores.sidecar`). Whatever it finds, the file says which passages exist.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from annai.answers import Where
from annai.definitions import dataclass
from annai.stores.base import IndexedDocument, Vectors
from annai.stores.sqlite.collections import Collections
from annai.stores.sqlite.database import Database
from annai.stores.sqlite.documents import Documents
from annai.stores.sqlite.passages import Passages

CANDIDATES_PER_RESULT, MIN_CANDIDATES = 3, 300
"""How many passages are compared in full for each one asked for, and at least (benchmarks/vectors.py)."""

Keys = NDArray[np.int64]

Span = tuple[int, int]
"""The first of some consecutive keys, and the one after their last."""

TakeKeys = Callable[[int], int]
"""Takes as many consecutive keys as a document has sections, within a transaction, and returns the first."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The parts of an index file that are the same whatever finds its passages."""

    database: Database
    collections: Collections
    documents: Documents
    passages: Passages

    @property
    def read_only(self) -> bool:
        """Whether the file cannot be written."""
        return self.database.read_only


class VectorIndex(Protocol):
    """Finds the passages near a vector. The vectors themselves are rows of the file, which score what is found."""

    @property
    def address(self) -> str:
        """Where it is, if not in the file; nothing secret."""

    @property
    def problem(self) -> str:
        """Why the file answers in its place, as a sentence; empty if it does not."""

    def opened(self) -> None:
        """Another file was put in the place of the one before; find its passages from now on."""

    def candidates(self, vector: Vectors, count: int, where: Where) -> Keys:
        """The keys of about `count` passages that may be the nearest, in no order; all exist and pass `where`."""

    def adding(self, collection: str, documents: Sequence[IndexedDocument], /) -> AbstractContextManager[TakeKeys]:
        """Prepare to add documents, which the block writes to the file in one transaction, in this order.

        When the block raises, they are not added.
        """

    def pack(self, vectors: Vectors, /) -> bytes:
        """What the file keeps with a document's passages to find them by."""

    def drop(self, span: Span) -> None:
        """Forget a document's passages, within the transaction that deletes it."""

    def present(self, keys: Keys) -> Keys:
        """Which vectors there are, given those of the file: without what the index lost, with what nobody owns."""

    def bulk(self) -> AbstractContextManager[None]:
        """Within the block much is added: ordering it for searching may wait until its end."""

    def purge(self) -> None:
        """Free at once what was deleted."""

    def sweep(self) -> None:
        """Find every passage of the file, and nothing else."""

    def vacuum(self) -> None:
        """Give back the space of what was deleted, and order the index for searching."""

    def apply_settings(self) -> None:
        """Build again what was built with other settings."""

    def size_on_disk(self) -> int:
        """Bytes beside the file."""

    def close(self) -> None:
        """Release files and connections; closing twice is fine."""


def candidate_count(limit: int) -> int:
    """How many candidates to look for when this many results are wanted."""
    return max(limit * CANDIDATES_PER_RESULT, MIN_CANDIDATES)
