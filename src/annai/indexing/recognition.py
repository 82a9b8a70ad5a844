"""Does the model that made a collection's vectors still answer to its name? Vectors of two models are never mixed."""

import dataclasses

from annai.embedders.base import Embedder
from annai.errors import EmbedderError, EmbedderMismatch
from annai.models.probe import is_same_model, probe_dimension
from annai.stores.base import STAGING_SUFFIX, Store
from annai.types import Collection


def is_of_another(store: Store, collection: Collection, embedder: Embedder) -> bool:
    """Whether another embedder made the collection's vectors, which can be compared with no others."""
    # An index without documents has no vectors to compare: the settings may change their mind.
    return collection.embedder not in ("", embedder.identity) and bool(store.dimension(collection.name))


def change_note(collection: Collection, asked: str, way: str = "") -> str:
    """Which model made the vectors that a collection has until it gets those of another, and the way to these."""
    name = collection.name
    way = way or f"`annai import -c {name} -m replace` makes new ones"
    return f"{name!r} still has the vectors of {collection.embedder}, and the settings name {asked}: {way}"


def check_model(store: Store, collection: Collection, identity: str, probed: str) -> None:
    """Raise `EmbedderMismatch` if another model answers to this name than the one that made the collection's vectors.

    `probed` is what it makes of a fixed text now; of an older index only the dimension is known.
    """
    dimension = store.dimension(collection.name)
    if not probed or not dimension:
        return
    same_dimension = probe_dimension(probed) == dimension
    if not (is_same_model(collection.probe, probed) if collection.probe else same_dimension):
        name = collection.name.removesuffix(STAGING_SUFFIX)
        raise EmbedderMismatch(
            f"Another model answers as {identity} than the one that indexed the collection {name!r}, and their vectors "
            f"cannot be compared",
            f"run `annai import -c {name} -m replace`, or return to the former model.",
        )


def record_model(store: Store, collection: Collection, embedder: Embedder) -> Collection:
    """Check that the model is still the one that made the vectors; note which one makes them, before the first."""
    # Read again: another process may have replaced the collection by one of another model.
    collection = next((each for each in store.collections() if each.name == collection.name), collection)
    if is_of_another(store, collection, embedder):
        raise EmbedderMismatch(f"{change_note(collection, embedder.identity)}.")
    probed = ""
    if not embedder.is_additive:
        try:
            probed = embedder.probe()
        except EmbedderError:
            # What is cached can be stored without the model, and the rest fails as this did.
            if embedder.cache is None or collection.embedder != embedder.identity:
                raise
    check_model(store, collection, embedder.identity, probed)
    is_kept = collection.probe and store.dimension(collection.name)
    probe = collection.probe if is_kept or not probed else probed
    recorded = dataclasses.replace(collection, embedder=embedder.identity, probe=probe)
    if recorded != collection:
        store.save_collection(recorded)
    return recorded
