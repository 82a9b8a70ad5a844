"""Does every store keep the contract of annai.stores.base? The suite that annai ships, run over each engine."""

from annai.testing.stores import *  # noqa: F403 - the contract
from annai.testing.stores import indexed, matching_paths, nearest_paths, vector
from tests.engines import open_durable, open_store, postgres_folder, postgres_url

__all__ = [
    "indexed",
    "matching_paths",
    "nearest_paths",
    "open_durable",
    "open_store",
    "postgres_folder",
    "postgres_url",
    "vector",
]
