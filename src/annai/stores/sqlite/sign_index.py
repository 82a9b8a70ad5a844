"""How does an index file find neighbours by itself? By the sign bits that it keeps with every passage."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from annai.answers import Where
from annai.stores.base import IndexedDocument, Vectors
from annai.stores.sqlite.search_index import IndexFile, Keys, Span, TakeKeys, VectorIndex
from annai.stores.sqlite.sign_bits import pack_signs


class SignIndex(VectorIndex):
    """The vector index of the default store: rows of the file itself, so most of the contract is done by the file."""

    address = ""

    def __init__(self, file: IndexFile) -> None:
        self._file = file

    @property
    def problem(self) -> str:
        """None: it is in the file."""
        return ""

    def opened(self) -> None:
        """All is in the file."""

    def candidates(self, vector: Vectors, count: int, where: Where) -> Keys:
        """Those whose signs agree best with the vector's."""
        table = self._file.passages.table()
        return table.candidates(vector, count, self._file.passages.allowed(table, where))

    @contextmanager
    def adding(self, _collection: str, _documents: Sequence[IndexedDocument], /) -> Iterator[TakeKeys]:
        """The next keys; writing the sections takes them."""
        following = 0

        def take(count: int) -> int:
            nonlocal following
            first = following or self._file.documents.last_key() + 1
            following = first + count
            return first

        yield take

    def pack(self, vectors: Vectors, /) -> bytes:
        """The sign bits."""
        return pack_signs(vectors).tobytes()

    def drop(self, span: Span) -> None:
        """The row with the sign bits is deleted with the passages."""

    def present(self, keys: Keys) -> Keys:
        """All of them."""
        return keys

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """Nothing waits."""
        yield

    def purge(self) -> None:
        """Nothing is left."""

    def sweep(self) -> None:
        """The file was swept."""

    def vacuum(self) -> None:
        """The file was vacuumed."""

    def apply_settings(self) -> None:
        """There are none."""

    def size_on_disk(self) -> int:
        """Nothing is beside the file."""
        return 0

    def close(self) -> None:
        """The file is closed."""
