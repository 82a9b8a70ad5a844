"""Is an index whole, and can it live elsewhere? Checking, repairing, tidying, and moving to another engine."""

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from annai.engine import Engine
from annai.errors import CollectionError, StoreError
from annai.project import Progress
from annai.stores.base import IndexedDocument, Inventory, Store
from annai.text.fields import passage_fields
from annai.text.keywords import extract_keywords
from annai.types import Collection, Document, FileState, StoredSection

MOVED_AT_ONCE = 64
"""Documents in one write of a move: it bounds memory."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in an index that does not fit together."""

    reason: str
    collection: str = ""
    path: str = ""
    """The document it concerns; empty if it concerns none."""

    def __str__(self) -> str:
        return f"{self.collection}:{self.path}: {self.reason}" if self.path else self.reason


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move brought to its new place."""

    collections: int
    documents: int
    sections: int
    checksum: str
    """Of every document, section, vector, token and word; the same here and there."""


def check(store: Store) -> list[Fault]:
    """Hold documents, sections, vectors and keywords against each other."""
    with store.snapshot():
        held = store.inventory()
        owned: list[int] = []
        faults: list[Fault] = []
        for collection in store.collections():
            documents = sections = 0
            for path, state in sorted(store.states(collection.name).items()):
                document, parts = store.document(collection.name, path), store.sections(collection.name, path)
                owned += [part.key for part in parts]
                documents += document is not None
                sections += len(parts)
                reason = _fault(document, parts, state, held)
                if reason:
                    faults.append(Fault(reason, collection.name, path))
            counted = store.statistics(collection.name)
            if (counted.documents, counted.sections) != (documents, sections):
                told = f"{counted.documents:,} documents and {counted.sections:,} sections"
                faults.append(Fault(f"{collection.name} counts {told}, and has {documents:,} and {sections:,}"))
    for name, keys in (("sections", held.sections), ("vectors", held.vectors), ("passages' words", held.passages)):
        if strangers := len(np.setdiff1d(keys, owned)):
            faults.append(Fault(f"{strangers:,} {name} belong to no document"))
    return faults


def repair(engine: Engine) -> list[Fault]:
    """Make again from the stored documents whatever does not fit, and return the faults that are left.

    A document whose own text is gone is forgotten, so that the next update reads its file again.
    """
    store = engine.store
    with engine.alone():
        store.sweep()
        for fault in check(store):
            if not fault.path:
                continue
            document = store.document(fault.collection, fault.path)
            if document is not None:
                engine.restore(fault.collection, document)
            else:
                state = store.states(fault.collection, [fault.path])[fault.path]
                store.write(fault.collection, states=[dataclasses.replace(state, size=-1, hash="", problem=None)])
        store.sweep()
        return [fault for fault in check(store) if not _is_to_be_read_again(store, fault)]


def vacuum(engine: Engine) -> tuple[int, int]:
    """Give back the space of what was deleted; the bytes on disk before and after."""
    with engine.alone():
        before = engine.store.size_on_disk()
        engine.store.vacuum()
        return before, engine.store.size_on_disk()


def migrate(source: Engine, target: Store, *, progress: Progress | None = None) -> Moved:
    """Copy everything into an empty store without embedding again, and make sure that nothing was lost or changed.

    When it fails, the new place is left as it was found: empty.
    """
    taken = [each.name for each in target.collections() if target.statistics(each.name).documents]
    if taken:
        raise CollectionError(
            f"The new store already has documents of {', '.join(taken)}; name an empty one with --url, or delete them "
            "there first."
        )
    with source.alone():
        everything = source.store.collections()
        total = sum(source.store.statistics(each.name).documents for each in everything)
        try:
            with target.bulk():
                done = 0
                for collection in everything:
                    for moved in _copy(source.store, target, collection):
                        done += moved
                        if progress:
                            progress(done, total)
            here, there = (checksum(store) for store in (source.store, target))
            if here != there:
                raise StoreError(
                    "The copy differs from the original, so it was deleted; run `annai store check --repair`, then "
                    "try again."
                )
        except BaseException:
            for collection in everything:
                target.delete_collection(collection.name)
            raise
    sections = sum(target.statistics(each.name).sections for each in everything)
    return Moved(len(everything), total, sections, there)


def checksum(store: Store) -> str:
    """One number for all that an index holds, whatever engine holds it."""
    digest = hashlib.sha256()
    with store.snapshot():
        held = store.inventory()
        for collection in store.collections():
            digest.update(repr(collection).encode())
            for path, state in sorted(store.states(collection.name).items()):
                digest.update(repr(state).encode())
                indexed = _read(store, collection, path)
                if indexed is None:
                    continue
                keys = [each.key for each in store.sections(collection.name, path)]
                places = np.searchsorted(held.passages, keys)
                counts = [
                    int(held.words[place]) if place < len(held.passages) and held.passages[place] == key else 0
                    for key, place in zip(keys, places.tolist(), strict=True)
                ]
                document = indexed.document
                told = (document.title, document.text, document.format, document.body_start, indexed.is_cjk, counts)
                digest.update(repr((told, sorted(document.front_matter.items()), indexed.sections)).encode())
                digest.update(indexed.vectors.astype("<f2").tobytes())
                digest.update(repr(sorted(indexed.tokens.items())).encode())
    return digest.hexdigest()


def _fault(document: Document | None, parts: list[StoredSection], state: FileState, held: Inventory) -> str:
    """What is wrong with a document; empty if nothing is."""
    if document is None:
        return "" if state.problem or state.size < 0 else "its text is missing"
    if [part.section.order for part in parts] != [*range(len(parts))] or not parts:
        return "some of its sections are missing"
    keys = [part.key for part in parts]
    if missing := len(np.setdiff1d(keys, held.vectors)):
        return f"{missing} of its {len(keys)} vectors are missing"
    for part in parts:
        if part.section.is_passage:
            expected = len(extract_keywords(passage_fields(document, part.section)).distinct)
            place = int(np.searchsorted(held.passages, part.key))
            there = place < len(held.passages) and held.passages[place] == part.key
            if expected != (int(held.words[place]) if there else 0):
                number = ".".join(map(str, part.section.number)) or "0"
                return f"the words of its section {number} are not those of its text"
    return ""


def _is_to_be_read_again(store: Store, fault: Fault) -> bool:
    return bool(fault.path) and store.states(fault.collection, [fault.path])[fault.path].size < 0


def _copy(source: Store, target: Store, collection: Collection) -> Iterator[int]:
    """Move one collection, its files' states and the requests that wait; how many documents each write had."""
    target.save_collection(collection)
    states = source.states(collection.name)
    paths = sorted(states)
    for start in range(0, len(paths), MOVED_AT_ONCE):
        part = paths[start : start + MOVED_AT_ONCE]
        documents = [each for each in (_read(source, collection, path) for path in part) if each]
        known = {each.document.path for each in documents}
        target.write(collection.name, documents, states=[states[path] for path in part if path not in known])
        yield len(documents)
    waiting = source.requests.latest("pending", collection.name, limit=len(paths) + 1)
    target.requests.add(collection.name, [each.path for each in reversed(waiting)])


def _read(store: Store, collection: Collection, path: str) -> IndexedDocument | None:
    """A document with all that makes it findable, as it was written; words are made again from its text."""
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
