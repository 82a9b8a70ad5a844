"""What do the tests of the stores' contract write and ask? The fixtures too."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from annai.answers import Where
from annai.stores.base import IndexedDocument, Store
from annai.text.fields import FieldWeights
from annai.text.keywords import count_given_words
from annai.text.tokens import query_words, words
from annai.types import Collection, Document, FileState, Section

Opener = Callable[[], Store]

DIMENSION = 256


@pytest.fixture
def open_durable() -> Opener:
    """Opens a store that outlives its object; to be overridden."""
    pytest.skip("there is no fixture open_durable: the index ends with the object that opened it")


@pytest.fixture
def store(open_store: Opener) -> Iterator[Store]:
    with open_store() as store:
        store.save_collection(Collection("a", Path("/a")))
        yield store


def vector(seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    values = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return values / np.linalg.norm(values)


def indexed(path: str, text: str = "text", *, seed: int = 0, parts: int = 0) -> IndexedDocument:
    """A document whose root has `parts` children; the children, or the root alone, are its passages."""
    root = Section(0, None, 0, "Title", (), (), 0, len(text), 1, 1, 1, last_depth=0, is_passage=not parts)
    children = [
        Section(i, 0, 1, f"Part {i}", ("Title", f"Part {i}"), (i,), 0, len(text), 1, 1, 1, last_depth=1)
        for i in range(1, parts + 1)
    ]
    sections = [root, *children]
    document = Document("a", path, "Title", text, FileState(path, len(text), 5, "hash"), front_matter={"tags": ["x"]})
    keywords = count_given_words(["titl"], [], words(path), words(text))
    return IndexedDocument(
        document=document,
        is_cjk=False,
        sections=sections,
        vectors=np.array([vector(seed + order) for order in range(len(sections))]),
        keywords={section.order: keywords for section in sections if section.is_passage},
    )


def paths_of(store: Store, keys: list[int]) -> list[str]:
    found = store.lookup(keys)
    return [found[key].path for key in keys]


def nearest_paths(store: Store, seed: int, where: Where | None = None, limit: int = 10) -> list[str]:
    return paths_of(store, [each.key for each in store.nearest(vector(seed), limit, where or Where())])


def matching_paths(store: Store, query: str, where: Where | None = None, limit: int = 10) -> list[str]:
    found = store.matching(query_words(query), FieldWeights(), limit, where or Where())
    return paths_of(store, [each.key for each in found])
