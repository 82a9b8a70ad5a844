"""Which documents is a search restricted to? Paths and globs as people type them, made into what a store compares."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from annai.answers import Where
from annai.asking.addresses import is_glob
from annai.asking.references import find_existing, similar_paths
from annai.config import Config
from annai.files.ignore import Patterns
from annai.stores.base import DocumentReader
from annai.stores.paths import is_under, path_prefixes
from annai.types import FileState

Named = str | frozenset[str]
"""What a filter names in a collection: a prefix (`.` is all of it), or the documents that a glob matches."""


class Filters:
    """The paths and excludes of one query whose collections are known."""

    def __init__(self, store: DocumentReader, config: Config, where: Where, sources: Mapping[str, Path]) -> None:
        self._store = store
        self._config = config
        self._where = where
        self._sources = {name: sources[name] for name in where.collections}
        self._known_documents: dict[str, list[str]] = {}
        self._paths = {path: self._find(path) for path in where.paths}
        self._excludes = {path: self._find(path) for path in where.excludes}

    def parts(self) -> dict[str, Where]:
        """What to search of each collection, as a store compares it; those that no path leads to are left out.

        Globs become lists of documents, since every engine can compare these.
        """
        found = ((name, self._part(name)) for name in self._sources)
        return {name: part for name, part in found if part is not None}

    def unmatched(self, *, is_answered: bool) -> dict[str, list[str]]:
        """The paths that lead to no document, each with similar ones; if there is an answer, only the obvious ones."""
        return {
            path: similar_paths(self._store, [*self._sources], path)
            for path, named in self._paths.items()
            if not named or not (is_answered or any(self._holds_documents(*each) for each in named.items()))
        }

    def _part(self, name: str) -> Where | None:
        chosen = [named[name] for named in self._paths.values() if name in named]
        excluded = [named[name] for named in self._excludes.values() if name in named]
        if "." in excluded or (self._paths and not chosen):
            return None
        everything = not self._paths or "." in chosen
        prefixes = [] if everything else [each for each in chosen if isinstance(each, str)]
        globs = [] if everything else [each for each in chosen if not isinstance(each, str)]
        excluded_globs = [each for each in excluded if not isinstance(each, str)]
        documents = None
        if globs or excluded_globs:
            known = self._documents(name)
            kept = [path for path in known if everything or is_under(path, prefixes) or any(path in g for g in globs)]
            kept = [path for path in kept if not any(path in each for each in excluded_globs)]
            prefixes, documents = [], None if len(kept) == len(known) else tuple(kept)
        return dataclasses.replace(
            self._where,
            collections=(),
            paths=tuple(prefixes),
            excludes=tuple(each for each in excluded if isinstance(each, str)),
            documents=documents,
        )

    def _find(self, text: str) -> Mapping[str, Named]:
        """What a filter names, by collection; a file that is really called so comes before a glob."""
        existing = find_existing(self._store, self._sources, self._config, text)
        existing = {name: inner or "." for name, inner in existing.items()}
        return existing or (self._expand(text) if is_glob(text) else {})

    def _expand(self, glob: str) -> dict[str, Named]:
        """The documents that a glob matches, or whose folders it matches.

        It is matched as a line of a .gitignore is: without a slash, against names everywhere.
        """
        pattern = Patterns([f"\\{glob}" if glob[:1] in "#!" else glob], "the path")
        for prefixes in self._bases(glob):
            found = {
                name: frozenset(path for path in self._documents(name) if _matches(pattern, prefix, path))
                for name, prefix in prefixes.items()
            }
            if any(found.values()):
                return {name: documents for name, documents in found.items() if documents}
        return {}

    def _bases(self, glob: str) -> Iterator[dict[str, str]]:
        """What stands before a document's path where the glob is matched, by collection; likeliest first."""
        if os.path.isabs(glob):  # noqa: PTH117 - a string as it was typed
            yield {name: source.as_posix().lstrip("/") + "/" for name, source in self._sources.items()}
            return
        yield dict.fromkeys(self._sources, "")
        if "/" in glob.strip("/"):
            for base in (self._config.root, Path.cwd()):
                yield {name: _folder(source, base) for name, source in self._sources.items()}

    def _documents(self, name: str) -> list[str]:
        if name not in self._known_documents:
            states = self._store.states(name).values()
            self._known_documents[name] = [each.path for each in states if not _is_skipped(each)]
        return self._known_documents[name]

    def _holds_documents(self, name: str, named: Named) -> bool:
        if not isinstance(named, str):
            return True
        states = self._store.states(name, None if named == "." else [named]).values()
        return any(not _is_skipped(each) for each in states)


def _matches(pattern: Patterns, prefix: str, path: str) -> bool:
    """Whether a pattern matches a document's path or one of the folders around it."""
    whole = prefix + path
    return any(
        pattern.selects(pattern.last_match(each.rpartition("/")[2], each, is_folder=each != whole))
        for each in path_prefixes(whole)
    )


def _folder(source: Path, base: Path) -> str:
    relative = Path(os.path.relpath(source, base)).as_posix()
    return "" if relative == "." else f"{relative}/"


def _is_skipped(state: FileState) -> bool:
    """Whether a file has no document."""
    return state.problem is not None and state.problem.kind == "skipped"
