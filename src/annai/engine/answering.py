"""How do several collections give one answer? Those with the same embedder are searched together, and fused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from annai import collection as collections
from annai.answers import Answer, Freshness, Query, Where
from annai.asking.filters import Filters
from annai.config import Config
from annai.embedders.base import Embedder
from annai.errors import EmbedderError, StoreError
from annai.files.scanner import differs
from annai.indexing.recognition import check_model
from annai.rerankers.base import Reranker
from annai.searching.fusion import fuse, limit_and_sort, rerank
from annai.searching.search import search
from annai.stores.base import Store
from annai.types import Collection


class Answering:
    """Answers questions from an index as it is."""

    def __init__(
        self,
        store: Store,
        config: Config,
        embedder_of: Callable[[str], Embedder],
        find_reranker: Callable[[], Reranker | None],
    ) -> None:
        self._store = store
        self._config = config
        self._embedder_of = embedder_of
        self._find_reranker = find_reranker

    def answer(
        self, query: Query, searched: Sequence[Collection], sources: dict[str, Path], freshness: Freshness
    ) -> Answer:
        """The answer of these collections; where they could not be brought up to date, hits say what differs.

        `sources` is where the files of every collection are.
        """
        where = replace(query.where, collections=tuple(collection.name for collection in searched))
        filters = Filters(self._store, self._config, where, sources)
        answer = self._search_parts(query, filters.parts())
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
            answer = replace(answer, note="; ".join(filter(None, (answer.note, slower))))
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

    def _search_parts(self, query: Query, parts: Mapping[str, Where]) -> Answer:
        """Search parts of collections, grouped by embedder and restriction, and join the results in one answer."""
        if query.mode == "exact":
            from annai.searching.exact import find_lines  # other searches do without it

            return find_lines(self._store, query, parts)
        groups: dict[tuple[str, Where], list[str]] = {}
        for name, where in parts.items():
            # A keyword search needs no embedder.
            identity = "" if query.mode == "keyword" else self._embedder_of(name).identity
            groups.setdefault((identity, where), []).append(name)
        if not groups:
            return Answer(query.text, 0.0, 0, ())
        places = [replace(where, collections=tuple(names)) for (_, where), names in groups.items()]
        reranker = self._find_reranker()
        if len(groups) == 1 and reranker is None:
            return self._search(replace(query, where=places[0]))
        limit = max(query.end, self._config.rerank.candidates if reranker else 0)
        answers = []
        for where in places:
            asked = replace(query, where=where, limit=limit, offset=0, sort="score")
            answers.append(self._search(asked))
        answer = fuse(answers)
        if reranker and answer.results:
            answer = rerank(answer, reranker, self._config.rerank)
        return limit_and_sort(answer, query)

    def _search(self, query: Query) -> Answer:
        """Search collections that have the same embedder; without it, by words alone."""
        embedder = self._embedder_of(query.where.collections[0])
        try:
            answer = search(self._store, embedder, query)
            if query.mode != "keyword" and embedder.is_watched:
                for name in query.where.collections:
                    found = collections.find(self._store, self._config, name)
                    check_model(self._store, found, embedder.identity, embedder.probed)
            return answer
        except EmbedderError as error:
            if query.mode != "hybrid":
                raise
            answer = search(self._store, embedder, replace(query, mode="keyword"))
            return replace(answer, note=f"searched by words alone: {error}")

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
