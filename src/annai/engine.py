"""What can be done with a project? The one object that the interfaces use: it opens the parts and joins them."""

import dataclasses
import difflib
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from annai import collection as collections
from annai.config import Config
from annai.embedders.base import Embedder, load_embedder
from annai.errors import CollectionError, ConfigError, NotFound, QueryError
from annai.indexer import Confirm, Indexer, Progress
from annai.search import search
from annai.stores.base import Statistics, Store, load_store, trim_prefix
from annai.types import (
    IMPLICIT_COLLECTION,
    Answer,
    Collection,
    Document,
    FileState,
    ImportSummary,
    Query,
    StoredSection,
)

ImportMode = Literal["new", "replace", "update"]

_SECTION_MARK = re.compile(r"#(?P<number>\d+(?:\.\d+)*)?(?:~(?P<piece>\d+))?\Z")


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """How a collection stands."""

    collection: Collection
    statistics: Statistics
    problems: tuple[FileState, ...]
    """The files that were skipped or failed, by path."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a project stands."""

    root: Path
    database: Path
    size_on_disk: int
    embedder: str
    collections: tuple[CollectionStatus, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A document, and the section of it that was asked for (its root, if none was)."""

    document: Document
    sections: Sequence[StoredSection]
    section: StoredSection

    @property
    def parent(self) -> StoredSection | None:
        """The section around this one."""
        parent = self.section.section.parent
        return None if parent is None else self.sections[parent]

    @property
    def children(self) -> list[StoredSection]:
        """The sections directly inside this one; pieces are not sections of their own."""
        own = self.section.section.order
        return [each for each in self.sections if each.section.parent == own and not each.section.piece]

    def text(self, section: StoredSection) -> str:
        """A section's text."""
        return self.document.text[section.section.start : section.section.end]


class Engine:
    """A project, opened. Close it, or use it in a `with` block."""

    def __init__(self, config: Config) -> None:
        _refuse_to_wander(config)
        self.config = config
        self.store: Store = load_store(config)

    @cached_property
    def embedder(self) -> Embedder:
        """Made when something is embedded for the first time."""
        return load_embedder(self.config.embedding)

    @cached_property
    def _indexer(self) -> Indexer:
        return Indexer(self.store, self.embedder, self.config)

    # Collections

    def list_collections(self) -> list[Collection]:
        """The registered collections, ordered by name."""
        return collections.registered(self.store)

    def add_collection(self, name: str, description: str, source: Path) -> Collection:
        """Register a directory."""
        return collections.add(self.store, name, description, source)

    def update_collection(
        self,
        name: str,
        *,
        description: str | None = None,
        source: Path | None = None,
        enabled: bool | None = None,
    ) -> Collection:
        """Change what is given of a collection."""
        return collections.update(
            self.store, self.config, name, description=description, source=source, enabled=enabled
        )

    def delete_collection(self, name: str) -> None:
        """Forget a collection and all its data."""
        collections.delete(self.store, self.config, name)

    # Indexing

    def import_collection(
        self, name: str = "", mode: ImportMode = "update", *, progress: Progress | None = None
    ) -> ImportSummary:
        """Index one collection: all of it anew, or what changed; with no name, the project's only one."""
        candidates = collections.searchable(self.store, self.config, (name,) if name else ())
        if len(candidates) > 1:
            names = ", ".join(each.name for each in candidates)
            raise CollectionError(f"There are several collections ({names}); name one with `-n NAME`.")
        (collection,) = candidates
        if mode == "new" and self.store.statistics(collection.name).documents:
            raise CollectionError(
                f"The collection {collection.name!r} has data already; "
                "`-m update` brings it up to date, `-m replace` builds it anew."
            )
        if mode == "replace":
            return self._indexer.replace(collection, progress=progress)
        return self._indexer.update(collection, progress=progress)

    def refresh(
        self, names: Sequence[str] = (), *, progress: Progress | None = None, confirm: Confirm | None = None
    ) -> None:
        """Bring everything that a search of these collections looks at up to date with the disk."""
        for collection in collections.searchable(self.store, self.config, names):
            self._indexer.update(collection, progress=progress, confirm=confirm)

    # Searching

    def search(self, query: Query) -> Answer:
        """Answer a question from the index as it is; `refresh` first to have it up to date."""
        searched = collections.searchable(self.store, self.config, query.where.collections)
        if query.mode != "keyword":
            for collection in searched:
                self._indexer.check_embedder(collection)
        names = tuple(collection.name for collection in searched)
        where = dataclasses.replace(query.where, collections=names)
        answer = search(self.store, self.embedder, dataclasses.replace(query, where=where))
        if not answer.results and not any(self.store.states(name) for name in names):
            sources = ", ".join(str(collection.source) for collection in searched)
            raise NotFound(
                f"There are no documents in {sources}; annai looks for {', '.join(self.config.files.include)} "
                "(files.include in annai.toml)."
            )
        return answer

    def locate(self, reference: str) -> Place:
        """Find a document or a section by its path or id: `PATH`, `COLLECTION:PATH` or either with `#1.2` after it."""
        if not reference.partition("#")[0].strip():
            raise QueryError("No document is named; give a path as `annai search` shows it.")
        for collection, path, number, piece in self._readings(reference):
            sections = self.store.sections(collection, path)
            document = self.store.document(collection, path)
            if document is None:
                continue
            for stored in sections:
                if stored.section.number == number and stored.section.piece == piece:
                    return Place(document, sections, stored)
            raise NotFound(
                f"{path} has no section {'.'.join(map(str, number))}; `annai get {path} --children` lists its sections."
            )
        raise NotFound(f"There is no document {reference!r} in the index{self._similar_paths(reference)}.")

    def _readings(self, reference: str) -> Iterator[tuple[str, str, tuple[int, ...], int]]:
        """Everything a reference can mean, likeliest first: file names may hold `:` and `#` too."""
        known = [each.name for each in collections.searchable(self.store, self.config)]
        text = unicodedata.normalize("NFC", reference)
        marks: list[tuple[str, tuple[int, ...], int]] = [(text, (), 0)]
        if mark := _SECTION_MARK.search(text):
            number = tuple(map(int, mark["number"].split("."))) if mark["number"] else ()
            marks.append((text[: mark.start()], number, int(mark["piece"] or 0)))
        sources = self.sources()
        for path, number, piece in marks:
            for name in known:
                yield name, trim_prefix(path), number, piece
                # As shown by a search: relative to the current folder. Only a way to spell it; no file is opened.
                yield name, Path(os.path.relpath(path, sources[name])).as_posix(), number, piece
            name, _, rest = path.partition(":")
            if name in known:
                yield name, trim_prefix(rest), number, piece

    def _similar_paths(self, reference: str) -> str:
        paths = [
            path
            for collection in collections.searchable(self.store, self.config)
            for path, state in self.store.states(collection.name).items()
            if state.problem is None
        ]
        wanted = _SECTION_MARK.sub("", reference)
        close = difflib.get_close_matches(wanted, paths, n=3, cutoff=0.5)
        close += [path for path in paths if path.rpartition("/")[2] == wanted.rpartition("/")[2]]
        return f"; did you mean {' or '.join(dict.fromkeys(close[:3]))}?" if close else ""

    # Telling

    def status(self, name: str = "") -> Status:
        """How the project stands, or one collection of it."""
        if name:
            shown = [collections.find(self.store, self.config, name)]
        else:
            shown = self.list_collections() or [collections.find(self.store, self.config, IMPLICIT_COLLECTION)]
        return Status(
            root=self.config.root,
            database=self.config.database_path,
            size_on_disk=self.store.size_on_disk(),
            embedder=self.embedder.identity,
            collections=tuple(self._collection_status(collection) for collection in shown),
        )

    def sources(self) -> dict[str, Path]:
        """Where each collection's files are."""
        implicit = {IMPLICIT_COLLECTION: self.config.root}
        return implicit | {collection.name: collection.source for collection in self.list_collections()}

    def document_paths(self, name: str) -> list[str]:
        """The paths of a collection's documents, in order."""
        return sorted(path for path, state in self.store.states(name).items() if not state.problem)

    def _collection_status(self, collection: Collection) -> CollectionStatus:
        problems = [state for state in self.store.states(collection.name).values() if state.problem]
        return CollectionStatus(
            collection, self.store.statistics(collection.name), tuple(sorted(problems, key=lambda state: state.path))
        )

    def close(self) -> None:
        """Let go of the index."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _refuse_to_wander(config: Config) -> None:
    """The home folder and the root of the file system are indexed only when the user says so."""
    for folder, name in ((Path.home(), "your home folder"), (Path(config.root.anchor), "the whole file system")):
        if config.root == folder.resolve() and not config.named:
            raise ConfigError(
                f"This is {name}, which annai does not index by itself; go to a folder of documents, "
                f"or name this one with --docs-dir {config.root}."
            )
