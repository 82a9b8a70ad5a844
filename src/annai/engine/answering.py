"""How do several collections give one answer? Those with the same embedder are searched together, and fused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from annai import collection as collections
from annai.answers import Answer, Freshness, Query, Where
from annai.asking.filters import Filters
from annai.config import Config
from annai.embedders.base import Embedder
from annai.errors import EmbedderError, EmbedderMismatch, StoreError
from annai.files.scanner import differs
from annai.indexing.recognition import check_model
from annai.rerankers.base import Reranker
from annai.searching.fusion import fuse, limit_and_sort, rerank
from annai.searching.search import search
from annai.stores.base import Store
from annai.types import Collection

_WITHOUT_VECTORS = "searched without vectors, by words and the bundled model"
"""The bundled model compares the question with the tokens of the passages that contain some of its words."""


class Answering:
    """Answers questions from an index as it is."""

    def __init__(
        self,
        store: Store,
        config: Config,
        embedder_of: Callable[[Collection], Embedder],
        change_note: Callable[[Collection], str],
        find_reranker: Callable[[], Reranker | None],
    ) -> None:
        self._store = store
        self._config = config
        self._embedder_of = embedder_of
        self._change_note = change_note
        self._find_reranker = find_reranker

    def answer(
        self, query: Query, searched: Sequence[Collection], sources: dict[str, Path], freshness: Freshness
    ) -> Answer:
        """The answer of these collections; where they could not be brought up to date, hits say what differs.

        `sources` is where the files of every collection are.
        """
        where = replace(query.where, collections=tuple(collection.name for collection in searched))
        filters = Filters(self._store, self._config, where, sources)
        # In one snapshot, so that no question is embedded for vectors that are replaced meanwhile.
        with self._store.snapshot():
            answer = self._search_parts(query, filters.parts(), freshness.problem)
        if not answer.results and not any(self._store.states(collection.name) for collection in searched):
            waiting = self._store.requests.due(where.collections)
            folders = ", ".join(str(each.source) for each in searched)
            if not waiting and freshness.problem:
                raise StoreError(f"Nothing in {folders} is indexed yet. {freshness.problem}")
            freshness = replace(freshness, waiting=waiting)
            empty = "" if waiting else self._why_empty(folders)
            return replace(answer, empty=empty, freshness=freshness, sources=sources)
        if freshness.problem:
            answer = self._compare_with_disk(answer, sources, query.where.clean_only)
        if problem := self._store.problem:
            slower = f"answered by the index file, more slowly: {problem}"
            answer = _noting(answer, [slower])
        return replace(
            answer,
            results=tuple(
                replace(hit, file=collections.file_path(self._config, sources[hit.collection], hit.path))
                for hit in answer.results
            ),
            unmatched=filters.unmatched(is_answered=bool(answer.results)),
            unmet=filters.unmet(is_answered=bool(answer.results)),
            freshness=freshness,
            sources=sources,
        )

    def _why_empty(self, folders: str) -> str:
        looked_for = ", ".join(self._config.files.include)
        return f"There are no documents in {folders}; annai looks for {looked_for} (files.include in annai.toml)."

    def _search_parts(self, query: Query, parts: Mapping[str, Where], told: str) -> Answer:
        """Search parts of collections, grouped by embedder and restriction, and join the results in one answer.

        `told` is what is said with it anyway.
        """
        if query.mode == "exact":
            from annai.searching.exact import find_lines  # other searches do without it

            return find_lines(self._store, query, parts)
        known = {each.name: each for each in self._store.collections()}
        groups: dict[tuple[Embedder | None, Where], list[str]] = {}
        notes: list[str] = []
        for name, where in parts.items():
            embedder = None
            if query.mode != "keyword" and name in known:
                embedder = self._find_embedder(known[name], query, notes, told)
            groups.setdefault((embedder, where), []).append(name)
        if not groups:
            return Answer(query.text, 0.0, 0, ())
        places = [(embedder, replace(where, collections=tuple(names))) for (embedder, where), names in groups.items()]
        reranker = self._find_reranker()
        if len(groups) == 1 and reranker is None:
            ((embedder, where),) = places
            return _noting(self._search(embedder, replace(query, where=where)), notes)
        limit = max(query.end, self._config.rerank.candidates if reranker else 0)
        answers = []
        for embedder, where in places:
            asked = replace(query, where=where, limit=limit, offset=0, sort="score")
            answers.append(self._search(embedder, asked))
        answer = _noting(fuse(answers), notes)
        if reranker and answer.results:
            answer = rerank(answer, reranker, self._config.rerank)
        return limit_and_sort(answer, query)

    def _find_embedder(self, collection: Collection, query: Query, notes: list[str], told: str) -> Embedder | None:
        """The embedder of a collection's vectors; None if they must be done without. A note says what to do."""
        try:
            embedder = self._embedder_of(collection)
        except EmbedderMismatch as error:
            if query.mode != "hybrid":
                raise
            notes.append(_WITHOUT_VECTORS if str(error) in told else f"{_WITHOUT_VECTORS}: {error}")
            return None
        if note := self._change_note(collection):
            notes.append(note)
        return embedder

    def _search(self, embedder: Embedder | None, query: Query) -> Answer:
        """Search collections whose vectors one embedder made; without it, by the rest of the index."""
        try:
            answer = search(self._store, embedder, query)
            if embedder and embedder.is_watched:
                for name in query.where.collections:
                    found = collections.find(self._store, self._config, name)
                    check_model(self._store, found, embedder.identity, embedder.probed)
            return answer
        except EmbedderError as error:
            if query.mode != "hybrid":
                raise
            return _noting(search(self._store, None, query), [f"{_WITHOUT_VECTORS}: {error}"])

    def _compare_with_disk(self, answer: Answer, sources: Mapping[str, Path], clean_only: bool) -> Answer:
        """The answer of an index that could not be brought up to date: what differs from its file is `outdated`."""
        here = collections.here(self._store, self._config)
        hits = []
        for hit in answer.results:
            state = self._store.states(hit.collection, [hit.path]).get(hit.path)
            is_here = here is None or hit.collection in here
            if not is_here or (state and not differs(sources[hit.collection] / hit.path, state)):
                hits.append(hit)
            elif not clean_only:
                hits.append(replace(hit, index_status="outdated", is_dirty=True))
        return replace(answer, results=tuple(hits))


def _noting(answer: Answer, notes: Sequence[str]) -> Answer:
    """The answer with more to know of it."""
    return replace(answer, note="; ".join(filter(None, (answer.note, *notes))))
