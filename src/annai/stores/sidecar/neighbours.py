"""What must an engine do to find the passages of an index file? The contract of LanceDB, Chroma and Qdrant."""

import logging
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from annai.answers import Where
from annai.definitions import dataclass
from annai.errors import StoreError
from annai.stores.base import Vectors
from annai.stores.sqlite.search_index import Span
from annai.types import Section

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as an engine takes it in."""

    key: int
    collection: int
    path: str
    section: Section
    vector: Vectors


class Neighbours(ABC):
    """An engine that finds the vectors near another. Errors are `StoreError`s whose messages say what to do."""

    address: str
    """Its folder or its server's address, with nothing secret in it."""

    folder: Path
    """Where it keeps its files, if that is on this machine."""

    is_shared: bool
    """Whether other projects may keep their vectors there: everywhere but in the folder beside the index file."""

    prefix: str = "annai"
    """What the names of its collections, or tables, begin with; `_` and the dimension of their vectors follow."""

    @abstractmethod
    def open(self) -> None:
        """Connect to it, if that was not done yet. The other methods do so by themselves."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all its collections, or tables, whoever made them."""

    def own_names(self) -> list[str]:
        """Those of this index."""
        own = re.compile(rf"{re.escape(self.prefix)}_[0-9]+")
        return [name for name in self.names() if own.fullmatch(name)]

    @abstractmethod
    def add(self, passages: Sequence[Passage]) -> None:
        """Take in passages, all of one dimension; one whose key is known replaces it."""

    @abstractmethod
    def remove(self, spans: Sequence[Span]) -> None:
        """Forget the passages whose keys lie in these spans; unknown ones do nothing."""

    @abstractmethod
    def nearest(self, vector: Vectors, count: int, collections: Sequence[int] | None, where: Where, /) -> list[int]:
        """The keys of about `count` passages near the vector.

        Of these collections only, if any are given; the paths of `where` may be looked at too, to answer better.
        """

    @abstractmethod
    def count(self) -> int:
        """How many passages it holds, without reading them."""

    @abstractmethod
    def keys(self) -> NDArray[np.int64]:
        """Every key there is, in no order."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Delete one of its collections, or tables, whatever state it is in."""

    def drop_all(self) -> None:
        """Delete all that this index has in it, whatever state it is in."""
        for name in self.own_names():
            self.drop(name)

    def set_aside(self) -> None:
        """Rename a damaged folder, so that an empty one takes its place; only where no other project keeps anything."""
        if self.is_shared:
            raise StoreError(
                f"{self.address} cannot be read, and other projects may use it too",
                "move it away or restore it, then run `annai store check --repair`.",
            )
        self.close()
        damaged = self.folder.with_name(f"{self.folder.name}.damaged")
        try:
            shutil.rmtree(damaged, ignore_errors=True)
            if self.folder.exists():
                self.folder.rename(damaged)
        except OSError as error:
            raise StoreError(
                f"{self.folder} is damaged and could not be renamed ({error.strerror})",
                "delete it, then run `annai store check --repair`. Nothing is lost with it.",
            ) from error
        logger.warning("%s was damaged and is now %s; the vectors are copied from the index file", self.folder, damaged)

    @abstractmethod
    def optimize(self, *, now: bool = False) -> None:
        """Order what was written for searching, if that is due; with `now`, in any case."""

    def vacuum(self) -> None:
        """Give back the space of what was removed."""
        self.optimize(now=True)

    @abstractmethod
    def apply_settings(self) -> None:
        """Build the graph again where its settings have changed; searches find everything meanwhile."""

    @abstractmethod
    def size_on_disk(self) -> int:
        """Bytes on this machine's disk."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections; closing twice is fine."""


def redact_url(url: str) -> str:
    """A URL as it may be shown: without the user, the password and what follows a question mark."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else url
