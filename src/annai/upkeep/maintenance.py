"""Is an index sound, and can it move? Checking, repairing, tidying, and moving to another engine."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.config import Config
from annai.definitions import dataclass
from annai.engine import Engine
from annai.errors import CollectionError, StoreError
from annai.project import Done, Progress
from annai.stores.base import IndexedDocument, Inventory, Store
from annai.stores.sqlite.database import set_aside
from annai.text.fields import passage_fields
from annai.text.keywords import extract_keywords
from annai.types import Collection, Document, FileState, StoredSection

MIGRATION_BATCH = 64
"""Documents in one write of a migration: it bounds memory."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in an index that is inconsistent."""

    reason: str
    collection: str = ""
    path: str = ""
    """The document it concerns; empty if it concerns none."""

    def __str__(self) -> str:
        return f"{self.collection}:{self.path}: {self.reason}" if self.path else self.reason


@dataclass(frozen=True, slots=True)
class MigrationSummary:
    """What was copied to another store."""

    collections: int
    documents: int
    sections: int
    checksum: str
    """Of every document, section, vector, token and word; the same in both stores."""


def check(store: Store) -> list[Fault]:
    """Compare documents, sections, vectors and keywords with each other; raises `DamagedIndex` if it is damaged."""
    store.verify()
    with store.snapshot():
        inventory = store.inventory()
        owned: list[int] = []
        faults = [Fault(store.problem)] if store.problem else []
        for collection in store.collections():
            documents = sections = 0
            for path, state in sorted(store.states(collection.name).items()):
                document, parts = store.document(collection.name, path), store.sections(collection.name, path)
                owned += [part.key for part in parts]
                documents += document is not None
                sections += len(parts)
                reason = _fault(document, parts, state, inventory)
                if reason:
                    faults.append(Fault(reason, collection.name, path))
            counted = store.statistics(collection.name)
            if (counted.documents, counted.sections) != (documents, sections):
                counts = f"{counted.documents:,} documents and {counted.sections:,} sections"
                faults.append(Fault(f"{collection.name} counts {counts} but has {documents:,} and {sections:,}"))
    for name, keys in (
        ("sections", inventory.sections),
        ("vectors", inventory.vectors),
        ("passages' words", inventory.passages),
    ):
        if orphans := len(np.setdiff1d(keys, owned)):
            faults.append(Fault(f"{orphans:,} {name} belong to no document"))
    return faults


def repair(engine: Engine) -> list[Fault]:
    """Index again the files of whatever is inconsistent, and return the faults that are left."""
    store = engine.store
    with engine.alone():
        store.sweep()
        for fault in check(store):
            if fault.path:
                state = store.states(fault.collection, [fault.path])[fault.path]
                store.write(fault.collection, states=[replace(state.marked_as_changed(), problem=None)])
    engine.rebuild()
    return check(store)


def rebuild(config: Config, *, progress: Progress | None = None) -> Path:
    """Index every file again into a new index file that knows what was registered; returns where the damaged one is."""
    aside = set_aside(config.database_path)
    with Engine(config) as engine:
        engine.rebuild(progress=progress)
    return aside


def vacuum(engine: Engine) -> tuple[int, int]:
    """Give back the space of what was deleted; the bytes on disk before and after."""
    with engine.alone():
        before = engine.store.size_on_disk()
        engine.store.vacuum()
        return before, engine.store.size_on_disk()


def migrate(source: Engine, target: Store, *, progress: Progress | None = None) -> MigrationSummary:
    """Copy everything into an empty store without embedding again, and check that nothing was lost or changed.

    When it fails, the other store is left empty, as it was.
    """
    taken = [each.name for each in target.collections() if target.statistics(each.name).documents]
    if taken:
        raise CollectionError(
            f"The new store already has documents of {', '.join(taken)}",
            "name an empty one with --url, or delete them there first.",
        )
    with source.alone():
        everything = source.store.collections()
        total = sum(source.store.statistics(each.name).documents for each in everything)
        try:
            with target.bulk():
                done = 0
                for collection in everything:
                    for copied_documents in _copy(source.store, target, collection):
                        done += copied_documents
                        if progress:
                            progress(Done(done, total))
            copied = checksum(target)
            if copied != checksum(source.store):
                raise StoreError(
                    "The copy differs from the original, so it was deleted",
                    "run `annai store check --repair`, then try again.",
                )
        except BaseException:
            for collection in everything:
                target.delete_collection(collection.name)
            raise
    sections = sum(target.statistics(each.name).sections for each in everything)
    return MigrationSummary(len(everything), total, sections, copied)


def checksum(store: Store) -> str:
    """One number for all that an index holds, the same whatever engine holds it."""
    digest = hashlib.sha256()
    with store.snapshot():
        inventory = store.inventory()
        for collection in store.collections():
            digest.update(repr(collection).encode())
            for path, state in sorted(store.states(collection.name).items()):
                digest.update(repr(state).encode())
                indexed = _read(store, collection, path)
                if indexed is None:
                    continue
                keys = [each.key for each in store.sections(collection.name, path)]
                counts = [_word_count(inventory, key) for key in keys]
                document = indexed.document
                values = (document.title, document.text, document.format, document.body_start, indexed.is_cjk, counts)
                digest.update(repr((values, sorted(document.front_matter.items()), indexed.sections)).encode())
                digest.update(indexed.vectors.astype("<f2").tobytes())
                digest.update(repr(sorted(indexed.tokens.items())).encode())
    return digest.hexdigest()


def _fault(document: Document | None, parts: list[StoredSection], state: FileState, inventory: Inventory) -> str:
    """What is wrong with a document; empty if nothing is."""
    if document is None:
        return "" if state.problem or state.is_marked_as_changed else "its text is missing"
    if [part.section.order for part in parts] != [*range(len(parts))] or not parts:
        return "some of its sections are missing"
    keys = [part.key for part in parts]
    if missing := sum(_index(inventory.vectors, key) < 0 for key in keys):
        return f"{missing} of its {len(keys)} vectors are missing"
    for part in parts:
        if part.section.is_passage:
            expected = len(extract_keywords(passage_fields(document, part.section)).distinct)
            if expected != _word_count(inventory, part.key):
                number = ".".join(map(str, part.section.number)) or "0"
                return f"the words of its section {number} do not match its text"
    return ""


def _word_count(inventory: Inventory, key: int) -> int:
    """How many different words lead to a passage."""
    index = _index(inventory.passages, key)
    return int(inventory.words[index]) if index >= 0 else 0


def _index(keys: NDArray[np.int64], key: int) -> int:
    """The index of a key among ascending keys; -1 if it is not there."""
    index = int(np.searchsorted(keys, key))
    return index if index < len(keys) and keys[index] == key else -1


def _copy(source: Store, target: Store, collection: Collection) -> Iterator[int]:
    """Copy one collection, its files' states and its pending requests; yields how many documents each write had."""
    target.save_collection(collection)
    states = source.states(collection.name)
    paths = sorted(states)
    for start in range(0, len(paths), MIGRATION_BATCH):
        part = paths[start : start + MIGRATION_BATCH]
        documents = [each for each in (_read(source, collection, path) for path in part) if each]
        known = {each.document.path for each in documents}
        target.write(collection.name, documents, states=[states[path] for path in part if path not in known])
        yield len(documents)
    pending = source.requests.latest("pending", collection.name, limit=len(paths) + 1)
    target.requests.add(collection.name, [each.path for each in reversed(pending)])


def _read(store: Store, collection: Collection, path: str) -> IndexedDocument | None:
    """A document as it was written; its keywords are extracted from its text again."""
    document = store.document(collection.name, path)
    if document is None:
        return None
    parts = store.sections(collection.name, path)
    keys = [part.key for part in parts]
    tokens = store.tokens(keys)
    return IndexedDocument(
        document=document,
        is_cjk=parts[0].is_cjk,
        sections=[part.section for part in parts],
        vectors=store.vectors(keys, store.dimension(collection.name)),
        keywords={
            part.section.order: extract_keywords(passage_fields(document, part.section))
            for part in parts
            if part.section.is_passage
        },
        tokens={part.section.order: tokens[part.key] for part in parts if part.key in tokens},
    )
