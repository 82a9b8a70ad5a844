"""Which directories are registered? Add, change and remove collections, and choose which are searched."""

import dataclasses
import functools
import os
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from annai import state
from annai.config import Config, override
from annai.errors import CollectionError
from annai.settings import Chunking
from annai.stores.base import STAGING_SUFFIX, DocumentReader, DocumentWriter
from annai.types import IMPLICIT_COLLECTION, Collection

NAME = re.compile(r"[\w-]{1,64}")
"""Of any script, and kept in NFC. None has a colon, which `STAGING_SUFFIX` begins with, or a slash."""

NAMED = "named"
"""The origin of a collection whose folder the user has just named: whatever that holds is right."""

RESERVED = frozenset(
    {
        *(IMPLICIT_COLLECTION, "search", "get_document", "list_documents", "list_collections", "reindex"),
        "index_status",
    }
)
"""The implicit collection, and the names of annai's own MCP tools: each collection becomes a tool beside them."""


def registered(store: DocumentReader, config: Config) -> list[Collection]:
    """Every collection that a user registered, ordered by name; beside others also the project's root, if it was kept.

    Of a store with a scope, there are only those in it.
    """
    return [each for each in _everything(store, config) if _is_seen(store, each.name)]


def _everything(store: DocumentReader, config: Config, known: Sequence[Collection] | None = None) -> list[Collection]:
    """The same whether or not the store's scope holds them; `known` are those of the store, where they were read."""
    known = store.collections() if known is None else known
    others = [each for each in known if NAME.fullmatch(each.name) and each.name != IMPLICIT_COLLECTION]
    kept = [_placed(store, config, each) for each in known if each.name == IMPLICIT_COLLECTION] if others else []
    return sorted([*others, *kept], key=lambda each: each.name)


def searchable(
    store: DocumentReader, config: Config, names: Sequence[str] = (), known: Sequence[Collection] | None = None
) -> list[Collection]:
    """The collections a search looks at: those named, else the enabled ones, else the project's root itself.

    `known` are those of the store, if they were read already.
    """
    stored = store.collections() if known is None else known
    if names:
        return [find(store, config, name, stored) for name in dict.fromkeys(names)]
    everything = _everything(store, config, stored)
    if not everything:
        return [find(store, config, IMPLICIT_COLLECTION, stored)]
    known = [each for each in everything if _is_seen(store, each.name)]
    enabled = [each for each in known if each.enabled]
    if not known:
        raise CollectionError(_nothing_seen(store))
    if not enabled:
        raise CollectionError("Every collection is disabled", "enable one with `annai collection enable NAME`.")
    return enabled


def find(store: DocumentReader, config: Config, name: str, known: Sequence[Collection] | None = None) -> Collection:
    """The collection of that name; the implicit one exists while none is registered, or if it was kept."""
    stored = store.collections() if known is None else known
    everything = _everything(store, config, stored)
    seen = {each.name: each for each in everything if _is_seen(store, each.name)}
    name = unicodedata.normalize("NFC", name)
    if name in seen:
        return seen[name]
    if name == IMPLICIT_COLLECTION and _is_seen(store, name):
        if not everything:
            return _root(store, config, stored)
        raise CollectionError(
            f"The rest of {config.root} is not searched beside the registered collections",
            f"`annai collection enable {name}` adds it.",
        )
    if not seen and store.scope is not None:
        raise CollectionError(_nothing_seen(store))
    there_are = f"registered: {', '.join(seen)}" if seen else "none is registered; add one with `annai collection add`"
    raise CollectionError(f"There is no collection {name!r}", f"{there_are}.")


def nested_sources(store: DocumentReader, config: Config, name: str) -> list[Path]:
    """The folders inside a collection's that are not part of it: the project's root is what lies around the others."""
    if name != IMPLICIT_COLLECTION:
        return []
    own = [each.source for each in _everything(store, config) if each.name != IMPLICIT_COLLECTION]
    return [source for source in own if source != config.root and source.is_relative_to(config.root)]


def is_hidden(store: DocumentReader, config: Config, name: str, file: Path) -> bool:
    """Whether a file in a collection's folder belongs to another collection, which the store's scope does not hold."""
    if store.scope is None or name != IMPLICIT_COLLECTION:
        return False
    hidden = [each.source for each in _everything(store, config) if not _is_seen(store, each.name)]
    return any(Path(os.path.normpath(file)).is_relative_to(source) for source in hidden)


def is_here(store: DocumentReader, config: Config, collection: Collection) -> bool:
    """Whether this machine indexes the collection; in a shared index another machine may."""
    return not store.shared or (is_own(store, config, collection) and collection.source.is_dir())


def is_own(store: DocumentReader, config: Config, collection: Collection) -> bool:
    """Whether this machine may index the collection: nobody has yet, or this machine has."""
    return not store.shared or collection.owner in ("", config.machine)


def check_owner(store: DocumentReader, config: Config, collection: Collection) -> None:
    """Raise `CollectionError` if another machine indexes the collection, or if this one has no name."""
    if not is_own(store, config, collection):
        raise CollectionError(served_only(collection))
    if store.shared and not config.machine:
        raise CollectionError(
            "This machine cannot keep a name of its own, which an index that machines share needs", "set store.machine."
        )


def served_only(collection: Collection) -> str:
    """The sentence for a collection that another machine indexes."""
    return (
        f"The collection {collection.name!r} is indexed by {collection.owner}, and this machine only serves it; index "
        f"it there, or let this machine do so from now on with `annai import -c {collection.name} --adopt`."
    )


def here(store: DocumentReader, config: Config) -> list[str] | None:
    """The names of the collections whose files this machine has; None means all."""
    if not store.shared:
        return None
    # Read once: another machine may register the first one in between.
    known = {each.name: each for each in store.collections()}
    named = [_placed(store, config, each) for name, each in known.items() if NAME.fullmatch(name)]
    implicit = Collection(IMPLICIT_COLLECTION, config.root)
    return [each.name for each in named or [implicit] if is_here(store, config, each)]


def sources(store: DocumentReader, config: Config, known: Sequence[Collection] | None = None) -> dict[str, Path]:
    """Where each collection's files are; `known` are those of the store, if they were read already."""
    root = {IMPLICIT_COLLECTION: config.root} if _is_seen(store, IMPLICIT_COLLECTION) else {}
    seen = [each for each in _everything(store, config, known) if _is_seen(store, each.name)]
    return root | {each.name: each.source for each in seen}


def file_path(config: Config, source: Path, path: str) -> str:
    """Where a collection's file is, from the project's root; on another drive, from that one's."""
    folder = _relative(source, config.root)
    return path if folder == "." else f"{folder.removesuffix('/')}/{path}"


def chunking_of(config: Config, collection: Collection, origin: str = "") -> Chunking:
    """How a collection's documents are split: as the settings say, except for what an import was told.

    Raises `ConfigError` where the two do not go together; `origin` is what it names as their source.
    """
    size, overlap = collection.chunk_size, collection.chunk_overlap
    if size is None and overlap is None:
        return config.chunking
    name = collection.name.removesuffix(STAGING_SUFFIX)
    origin = origin or f"the collection {name!r} (`annai import -c {name} --chunk-size 0` makes it follow the settings)"
    # A section too is cut into pieces only where it is longer than one of them.
    return override(config, "chunking", origin, size=size, max_tokens=size, overlap=overlap).chunking


def chunked(config: Config, collection: Collection, size: int | None, overlap: int | None) -> Collection:
    """The collection with other sizes of pieces; None leaves one as it is, and a size of 0 leaves both to the settings.

    Raises `ConfigError` where they are not what the settings file could say.
    """
    if size is None and overlap is None:
        return collection
    if size == 0:
        size, collection = None, dataclasses.replace(collection, chunk_size=None, chunk_overlap=None)
    changed = dataclasses.replace(
        collection,
        chunk_size=collection.chunk_size if size is None else size,
        chunk_overlap=collection.chunk_overlap if overlap is None else overlap,
    )
    chunking_of(config, changed, "the command line")
    return changed


def only_one(candidates: Sequence[Collection]) -> Collection:
    """The collection that is meant if none was named."""
    if len(candidates) > 1:
        names = ", ".join(each.name for each in candidates)
        raise CollectionError(
            f"There are several collections ({names})", "name one with `-c NAME`, or update all: `annai index rebuild`."
        )
    return candidates[0]


@functools.lru_cache(maxsize=256)
def _relative(folder: Path, root: Path) -> str:
    try:
        return Path(os.path.relpath(folder, root)).as_posix()
    except ValueError:
        return folder.as_posix()


def add(
    store: DocumentWriter,
    config: Config,
    name: str,
    source: Path,
    description: str = "",
    *,
    keep_root: bool | None = None,
) -> Collection:
    """Register a directory.

    `keep_root` says whether the project's root is searched beside it, as a collection of its own; if it is not said,
    the first one that is added leaves the root in the search if it has been indexed, and the others change nothing.
    """
    name = unicodedata.normalize("NFC", name)
    if not NAME.fullmatch(name):
        raise CollectionError(
            f"{name!r} is not a valid collection name", "use 1 to 64 letters and digits of any script, _ and -."
        )
    if name in RESERVED:
        raise CollectionError(f"annai uses the name {name!r} itself", "choose another.")
    known = registered(store, config)
    if any(each.name == name for each in known):
        raise CollectionError(
            f"The collection {name!r} already exists", f"change it with `annai collection update {name}`."
        )
    owner = config.machine if store.shared else ""
    collection = Collection(name, _directory(source), description, owner=owner)
    if config.root.is_relative_to(collection.source):
        keep_root = False  # Nothing is left around it.
    elif keep_root is None and not known:
        keep_root = bool(store.statistics(IMPLICIT_COLLECTION).documents)
    if keep_root:
        store.save_collection(dataclasses.replace(_root(store, config), enabled=True))
    store.save_collection(collection)
    if keep_root is False:
        store.delete_collection(IMPLICIT_COLLECTION)
    return collection


def update(
    store: DocumentWriter,
    config: Config,
    name: str,
    *,
    description: str | None = None,
    source: Path | None = None,
    enabled: bool | None = None,
) -> Collection:
    """Change what is given and keep the rest; the next search or import compares a new source with the index."""
    is_root = name == IMPLICIT_COLLECTION
    if is_root and (source is not None or not registered(store, config)):
        raise CollectionError(f"{name!r} is the project itself", "`annai collection add` registers a folder.")
    # It can be enabled again after it was left out.
    old = _root(store, config) if is_root and enabled else find(store, config, name)
    new = dataclasses.replace(
        old,
        description=old.description if description is None else description,
        source=old.source if source is None else _directory(source),
        enabled=old.enabled if enabled is None else enabled,
    )
    if source is not None:
        owner = config.machine if store.shared else ""
        new = dataclasses.replace(new, owner=owner, origin=NAMED)
    store.save_collection(new)
    return new


def follow_project(store: DocumentWriter, config: Config) -> None:
    """Once a project was moved: the folders in it that are collections were moved with it."""
    if not (formers := state.former_roots(config.state_folder)):
        return
    for former in formers:
        for each in store.collections():
            if each.source.is_relative_to(former) and is_own(store, config, each):
                store.save_collection(dataclasses.replace(each, source=config.root / each.source.relative_to(former)))
    (config.state_folder / state.MOVED).unlink(missing_ok=True)


def delete(store: DocumentWriter, config: Config, name: str) -> None:
    """Delete a collection and everything indexed from it; the files themselves stay.

    Without any, the project's root is searched again, though it was disabled beside them.
    """
    name = find(store, config, name).name
    store.delete_collection(name + STAGING_SUFFIX)
    store.delete_collection(name)
    root = _root(store, config)
    if not root.enabled and not registered(store, config):
        store.save_collection(dataclasses.replace(root, enabled=True))


def _is_seen(store: DocumentReader, name: str) -> bool:
    return store.scope is None or name in store.scope


def _nothing_seen(store: DocumentReader) -> str:
    names = ", ".join(sorted(store.scope or ()))
    return f"This token is for {names}, and there is no such collection here; ask for another token."


def _root(store: DocumentReader, config: Config, known: Sequence[Collection] | None = None) -> Collection:
    """The project's root as a collection, whether or not it is searched."""
    known = store.collections() if known is None else known
    implicit = Collection(IMPLICIT_COLLECTION, config.root, f"The documents of {config.name}")
    return _placed(store, config, next((each for each in known if each.name == IMPLICIT_COLLECTION), implicit))


def _placed(store: DocumentReader, config: Config, root: Collection) -> Collection:
    """A collection where it is: a project that was moved is where it is now; in a shared index, where that says."""
    if root.name != IMPLICIT_COLLECTION:
        return root
    is_elsewhere = store.shared and (root.owner or store.statistics(root.name).documents)
    return root if is_elsewhere else dataclasses.replace(root, source=config.root)


def _directory(source: Path) -> Path:
    # What cannot be the path of anything (too long, a zero byte, an unknown user's home) is no folder either.
    with suppress(OSError, ValueError, RuntimeError):
        folder = source.expanduser().resolve()
        if folder.is_dir():
            return state.as_stored(folder)
    raise CollectionError(f"There is no folder {source}", "name an existing one with --source.")
