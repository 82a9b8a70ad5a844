"""Which documents is a search restricted to? Paths, globs and conditions, made into what a store compares."""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from annai.answers import Condition, Where
from annai.asking.addresses import is_glob
from annai.asking.conditions import Comparison, why_unmet
from annai.asking.references import find_existing, similar_paths
from annai.config import Config
from annai.files.ignore import Patterns
from annai.state import here
from annai.stores.base import DocumentReader
from annai.stores.paths import is_under, path_prefixes
from annai.text.metadata import UPDATED, file_time
from annai.types import FileState

Named = str | frozenset[str]
"""What a filter names in a collection: a prefix (`.` is all of it), or the documents that a glob matches."""


class Filters:
    """The paths, excludes and conditions of one query whose collections are known."""

    def __init__(self, store: DocumentReader, config: Config, where: Where, sources: Mapping[str, Path]) -> None:
        self._store = store
        self._config = config
        self._where = where
        self._sources = {name: sources[name] for name in where.collections}
        self._known_documents: dict[str, dict[str, FileState]] = {}
        self._values: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._paths = {path: self._find(path) for path in where.paths}
        self._excludes = {path: self._find(path) for path in where.excludes}
        self._meeting = {
            condition: {name: self._meets(name, condition) for name in self._sources} for condition in where.conditions
        }

    def parts(self) -> dict[str, Where]:
        """What to search of each collection, as a store compares it; those of which nothing is left are left out.

        Globs and conditions become lists of documents, since every engine can compare these.
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

    def unmet(self, *, is_answered: bool) -> dict[str, str]:
        """The conditions that no document meets, or whose field none has, each with what there is instead."""
        found: dict[str, str] = {}
        for condition, meeting in self._meeting.items():
            values = Counter(value for name in self._sources for _, value in self._rows(name, condition.field))
            if not values or not any(meeting.values()):
                known = Counter[str]()
                for name in self._sources if not values else ():
                    known.update({each.name: each.documents for each in self._store.fields(name)})
                frequent = sorted(values, key=lambda value: (-values[value], value))
                found[str(condition)] = why_unmet(condition, frequent, [each for each, _ in known.most_common()])
        if not found and not is_answered and self._meeting and not self.parts():
            every = " and ".join(map(str, self._meeting))
            found[every] = f"No document{' there' if self._paths or self._excludes else ''} has {every}."
        return found

    def _part(self, name: str) -> Where | None:
        chosen = [named[name] for named in self._paths.values() if name in named]
        excluded = [named[name] for named in self._excludes.values() if name in named]
        if "." in excluded or (self._paths and not chosen):
            return None
        everything = not self._paths or "." in chosen
        prefixes = [] if everything else [each for each in chosen if isinstance(each, str)]
        globs = [] if everything else [each for each in chosen if not isinstance(each, str)]
        excluded_globs = [each for each in excluded if not isinstance(each, str)]
        meeting = [each[name] for each in self._meeting.values()]
        documents = None
        if globs or excluded_globs or meeting:
            known = sorted(frozenset.intersection(*meeting)) if meeting else self._documents(name)
            kept = [path for path in known if everything or is_under(path, prefixes) or any(path in g for g in globs)]
            kept = [path for path in kept if not any(path in each for each in excluded_globs)]
            if meeting and not kept:
                return None
            prefixes, documents = [], None if len(kept) == len(known) and not meeting else tuple(kept)
        return dataclasses.replace(
            self._where,
            collections=(),
            paths=tuple(prefixes),
            excludes=tuple(each for each in excluded if isinstance(each, str)),
            documents=documents,
            conditions=(),
        )

    def _meets(self, name: str, condition: Condition) -> frozenset[str]:
        """The documents of a collection that meet a condition."""
        rows, is_negative = self._rows(name, condition.field), condition.operator == "!="
        if not condition.value:
            found, is_negative = frozenset(path for path, _ in rows), not is_negative
        else:
            holds = Comparison(condition).holds
            found = frozenset(path for path, value in rows if holds(value))
        return frozenset(self._documents(name)) - found if is_negative else found

    def _rows(self, name: str, field: str) -> list[tuple[str, str]]:
        """What a collection's documents say under a name; what does not say so was updated when its file was."""
        if (name, field) not in self._values:
            rows = self._store.metadata(name, field)
            if field == UPDATED:
                said = {path for path, _ in rows}
                files = ((path, state) for path, state in self._documents(name).items() if path not in said)
                rows = [*rows, *((path, f'"{file_time(state.mtime_ns)}"') for path, state in files)]
            self._values[name, field] = rows
        return self._values[name, field]

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
            for base in (self._config.root, here()):
                yield {name: _folder(source, base) for name, source in self._sources.items()}

    def _documents(self, name: str) -> dict[str, FileState]:
        if name not in self._known_documents:
            states = self._store.states(name).items()
            self._known_documents[name] = {path: state for path, state in states if not _is_skipped(state)}
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
