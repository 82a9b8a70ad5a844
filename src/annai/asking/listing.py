"""Which documents are there? Those under a folder or of a glob, with their titles; of a large folder, its folders."""

from collections import Counter
from collections.abc import Mapping

from annai import collection as collections
from annai.answers import Condition, Where
from annai.asking.addresses import is_glob
from annai.asking.filters import Filters
from annai.asking.missing import why_missing
from annai.asking.references import similar_paths
from annai.config import Config
from annai.errors import NotFound
from annai.stores.base import MAX_FIELD_VALUES, DocumentReader, DocumentWriter
from annai.stores.paths import is_under
from annai.text.metadata import UPDATED
from annai.types import IMPLICIT_COLLECTION, FileState, ListedDocument, ListedEntry, Listing, MetadataField

MAX_FLAT_DOCUMENTS = 60
"""Up to this many are listed one by one, whatever folders they are in."""


def list_documents(
    store: DocumentWriter, config: Config, path: str = "", conditions: tuple[Condition, ...] = ()
) -> Listing:
    """The documents under a folder, or those that a glob names; everything that is searched, without a path.

    With conditions, those that meet them. Raises `NotFound` if there are none.
    """
    searched = collections.searchable(store, config)
    sources = {each.name: each.source for each in searched}
    names = tuple(sources)
    where = Where(names, (path,) if path.strip() else (), conditions=conditions)
    filters = Filters(store, config, where, sources)
    parts = filters.parts()
    found = {name: _documents(store, name, part) for name, part in parts.items()}
    count, problems = sum(map(len, found.values())), _problems(store, parts)
    if not count and (unmet := filters.unmet(is_answered=False)) and not filters.unmatched(is_answered=False):
        raise NotFound(" ".join(unmet.values()))
    if not (count or problems) and path.strip():
        _raise_missing(store, config, names, path)
    is_flat = is_glob(path) or count <= MAX_FLAT_DOCUMENTS
    entries = []
    for name, documents in found.items():
        prefix = "" if names == (IMPLICIT_COLLECTION,) else f"{name}:"
        if is_flat:
            entries += [_entry(prefix, each) for each in documents]
        elif len(found) > 1:
            entries += [ListedEntry(prefix, len(documents))] if documents else []
        else:
            entries += _folder(prefix, documents)
    return Listing(count, tuple(entries), problems)


def list_fields(store: DocumentReader, config: Config, name: str = "") -> list[MetadataField]:
    """What the documents of a collection, or all that are searched, say about themselves, the most common first."""
    searched = [each.name for each in collections.searchable(store, config, (name,) if name else ())]
    documents, values = Counter[str](), dict[str, Counter[str]]()
    for field in (field for each in searched for field in store.fields(each)):
        documents[field.name] += field.documents
        values.setdefault(field.name, Counter()).update(field.values)
    # What does not say so was updated when its file was: all have it, and a few values would tell little.
    documents[UPDATED] = sum(store.statistics(each).documents for each in searched)
    values[UPDATED] = Counter()
    return [
        MetadataField(field, count, dict(values.get(field, Counter()).most_common(MAX_FIELD_VALUES)))
        for field, count in sorted(documents.items(), key=lambda each: (-each[1], each[0]))
        if count
    ]


def _folder(prefix: str, documents: list[ListedDocument]) -> list[ListedEntry]:
    """The folders and documents directly in the innermost folder that holds all of these documents."""
    paths = [each.path for each in documents]
    common = [*zip(*(path.split("/")[:-1] for path in (min(paths), max(paths))), strict=False)]
    depth = next((index for index, (first, last) in enumerate(common) if first != last), len(common))
    folders = Counter("/".join(path.split("/")[: depth + 1]) for path in paths if path.count("/") > depth)
    return [
        *(ListedEntry(f"{prefix}{folder}/", number) for folder, number in sorted(folders.items())),
        *(_entry(prefix, each) for each in documents if each.path.count("/") == depth),
    ]


def _entry(prefix: str, document: ListedDocument) -> ListedEntry:
    listed = (document.title, document.sections, document.tokens, document.created, document.updated)
    return ListedEntry(prefix + document.path, 1, *listed)


def _documents(store: DocumentWriter, name: str, part: Where) -> list[ListedDocument]:
    wanted = None if part.documents is None else frozenset(part.documents)
    return [
        each
        for each in store.documents(name)
        if (wanted is None or each.path in wanted) and (not part.paths or is_under(each.path, part.paths))
    ]


def _problems(store: DocumentWriter, parts: Mapping[str, Where]) -> tuple[FileState, ...]:
    """The files under these parts that were skipped or failed; a glob names only documents."""
    states = [
        state
        for name, part in parts.items()
        if part.documents is None
        for state in store.states(name, part.paths or None).values()
    ]
    return tuple(sorted((each for each in states if each.problem), key=lambda state: state.path))


def _raise_missing(store: DocumentWriter, config: Config, names: tuple[str, ...], path: str) -> None:
    if reason := why_missing(store, config, path):
        raise NotFound(reason)
    similar = similar_paths(store, names, path)
    hint = f"; did you mean {' or '.join(similar)}?" if similar else "."
    raise NotFound(f"There is no document under {path!r}{hint}")
