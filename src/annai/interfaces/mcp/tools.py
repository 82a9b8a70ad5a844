"""What can an agent do? The tools: how they are described to a model, and what each of them does."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

from annai.answers import PREVIEW_LINES, Content, Mode, Sort
from annai.asking.query import (
    MAX_CONDITION_CHARACTERS,
    MAX_DEPTH,
    MAX_PATH_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    make_query,
)
from annai.config import Config
from annai.definitions import dataclass
from annai.errors import QueryError
from annai.interfaces.mcp.arguments import Argument, check_arguments
from annai.interfaces.mcp.documents import document_result
from annai.interfaces.mcp.indexing import Indexing, Report
from annai.interfaces.mcp.reports import (
    collection_list,
    collections_result,
    import_result,
    listing_result,
    status_result,
)
from annai.interfaces.mcp.results import ToolResult, answer_result, empty_result, nothing_result
from annai.interfaces.render.notes import correction_lines, unmatched_lines
from annai.types import IMPLICIT_COLLECTION, Collection
from annai.values import choices

MOST_RESULTS, MOST_LINES = 50, 500
"""Results of one search, and lines of an exact one: more would not fit into any answer."""


DEFAULT_SHARE = 0.375
"""Of the most tokens that an answer may have, what one has unless more are asked for: 1,500 of 4,000."""

MIN_TOKENS = 300
"""An answer of fewer says nothing."""

COMPETING = 5
"""Results whose windows share these tokens (`annai.searching.results`)."""

HEADER_TOKENS = 25
"""What is said of a result besides its text."""

MAX_COLLECTION_TOOLS = 8
"""With more collections than this, `search` alone searches them: every tool costs tokens in every conversation."""

MAX_LISTED_BYTES = 2000
"""What the names and descriptions of collections may take in the argument of `search`."""

ALWAYS_SHOWN = ("query", "limit")
"""The arguments in the schema of a collection's own tool; it takes the others of `search` as well."""


CONDITIONS = (
    Argument(
        "where",
        "condition",
        "Metadata: `tags=k8s`, `status!=draft`, `updated>=2w` (ago).",
        maximum=MAX_CONDITION_CHARACTERS,
        several=True,
        is_list=True,
    ),
    Argument("since", "string", "", default="", maximum=MAX_CONDITION_CHARACTERS, hidden=True),
    Argument("until", "string", "", default="", maximum=MAX_CONDITION_CHARACTERS, hidden=True),
)
"""What documents must say about themselves, in every tool that finds some."""

MAX_READABLE = 40
"""Characters of a collection's own name in that of its tool, which may have 64."""

PAGE = Argument("page", "integer", "Of a long answer.", default=1, minimum=1)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a model sees it, and what it does."""

    name: str
    text: str
    arguments: tuple[Argument, ...]
    call: Callable[[dict[str, Any], Report], Awaitable[ToolResult]]
    is_read_only: bool = True
    is_listed: bool = True
    """Whether clients are told of it; it can be called in any case."""


class Tools:
    """The tools of one project."""

    def __init__(self, config: Config, indexing: Indexing, *, can_change: bool = True) -> None:
        self._config = config
        self._can_change = can_change
        self._indexing = indexing
        self._budget = config.search.max_tokens

    def all_tools(self, collections: Sequence[Collection]) -> list[Tool]:
        """All tools in order: the search of everything, one search per collection if they are few, and the rest.

        A project without registered collections is one collection, and `search` is its tool.
        """
        enabled = [each for each in collections if each.enabled]
        choice = self._config.mcp.collection_tools
        is_each = choice == "each" or (choice == "auto" and len(enabled) <= MAX_COLLECTION_TOOLS)
        own = [*map(self._search_one, enabled)] if is_each else []
        return [
            self._search_all(enabled, is_described=not is_each),
            *own,
            self._reading(),
            self._document_listing(),
            self._collection_listing(is_listed=bool(collections)),
            *(each for each in self._upkeep() if each.is_read_only or self._can_change),
        ]

    async def search(self, query: str, collection: str, report: Report) -> ToolResult:
        """Search with a query alone, and perhaps a collection."""
        arguments = check_arguments("search", self._search_arguments(), {"query": query})
        return await self._search({**arguments, "collections": (collection,) if collection else ()}, report)

    def _search_all(self, collections: Sequence[Collection], *, is_described: bool) -> Tool:
        listed = f"\n{collection_list(collections, MAX_LISTED_BYTES)}" if is_described else ""
        which = Argument(
            "collections",
            "string",
            f"Only these; default: all.{listed}",
            choices=tuple(each.name for each in collections) or (IMPLICIT_COLLECTION,),
            names_choices=is_described,
            several=True,
            is_list=True,
            hidden=not collections,
        )
        return Tool(
            "search",
            "Search the project's documents by meaning and words, in Japanese and English (either finds the other). "
            "Returns the parts of every document that answer: path, lines, score, text. Cite as path:line.",
            (*self._search_arguments(), which),
            self._search,
        )

    def _search_one(self, collection: Collection) -> Tool:
        def call(arguments: dict[str, Any], report: Report) -> Awaitable[ToolResult]:
            return self._search({**arguments, "collections": (collection.name,)}, report)

        arguments = (replace(each, hidden=each.name not in ALWAYS_SHOWN) for each in self._search_arguments())
        return Tool(
            _tool_name(collection.name),
            f"{collection.description or f'The documents of {collection.name}.'}\n\n"
            f"As `search`, in the collection `{collection.name}` alone.",
            tuple(arguments),
            call,
        )

    def _search_arguments(self) -> tuple[Argument, ...]:
        settings = self._config.search
        limit = min(settings.limit, MOST_RESULTS)
        return (
            Argument(
                "query",
                "string",
                'A question or words; -word and -"a phrase" exclude.',
                required=True,
                minimum=1,
                maximum=MAX_QUERY_CHARACTERS,
            ),
            Argument("limit", "integer", f"Results to return; default {limit}.", minimum=1),
            Argument("offset", "integer", "Results to skip.", default=0, minimum=0),
            Argument(
                "content",
                "string",
                "section, passage, document or none (one line each); default: what answers.",
                choices=choices(Content),
                names_choices=True,
            ),
            Argument(
                "max_tokens",
                "integer",
                "",
                default=int(self._budget * DEFAULT_SHARE),
                minimum=MIN_TOKENS,
                hidden=True,
            ),
            Argument(
                "path",
                "path",
                "Only this folder, file or glob (`guide/**/*.md`).",
                maximum=MAX_PATH_CHARACTERS,
                several=True,
            ),
            *CONDITIONS,
            Argument(
                "depth",
                "integer",
                "0: whole documents; 1 to 3: sections under headings of that level.",
                minimum=0,
                maximum=MAX_DEPTH,
                several=True,
                hidden=True,
            ),
            Argument(
                "per_document",
                "integer",
                "How many sections of one document; default 1, 0: all.",
                default=settings.per_document,
                minimum=0,
                hidden=True,
            ),
            Argument(
                "mode",
                "string",
                "vector (meaning), keyword (words, ranked), exact (every line with a string or /regex/); "
                f"default {settings.mode}.",
                default=settings.mode,
                choices=choices(Mode),
                names_choices=True,
            ),
            Argument("sort", "string", "", default="score", choices=choices(Sort), hidden=True),
            Argument("clean_only", "boolean", "", default=False, hidden=True),
            Argument("excludes", "path", "", several=True, maximum=MAX_PATH_CHARACTERS, hidden=True),
        )

    def _collection_listing(self, *, is_listed: bool) -> Tool:
        text = "List the collections: what they hold and where their files are."
        return Tool("list_collections", text, (PAGE,), self._list_collections, is_listed=is_listed)

    def _reading(self) -> Tool:
        line = Argument("", "integer", "", minimum=1, hidden=True)
        return Tool(
            "get_document",
            "Read a document or a part of it; long ones in pages.",
            (
                Argument(
                    "path",
                    "path",
                    "As a search shows it, alone, with lines (`guide/setup.md:44-60`) or a heading "
                    "(`setup.md#install-it`).",
                    required=True,
                    minimum=1,
                    maximum=MAX_PATH_CHARACTERS,
                ),
                Argument(
                    "part",
                    "string",
                    "parent: the section around; children: a list of those inside; whole: the document.",
                    default="section",
                    choices=("section", "parent", "children", "whole"),
                    names_choices=True,
                ),
                replace(line, name="start_line"),
                replace(line, name="end_line"),
                PAGE,
            ),
            self._get_document,
        )

    def _document_listing(self) -> Tool:
        return Tool(
            "list_documents",
            "List documents with titles, or say why a file is not indexed.",
            (
                Argument("path", "path", "Folder, file or glob.", maximum=MAX_PATH_CHARACTERS),
                Argument("after", "string", "Go on after this.", maximum=MAX_PATH_CHARACTERS),
                *(replace(each, hidden=True) for each in CONDITIONS),
            ),
            self._list_documents,
        )

    def _upkeep(self) -> list[Tool]:
        return [
            Tool(
                "reindex",
                "Update the index now. Seldom needed: changes are noticed by themselves.",
                (
                    Argument("path", "path", "Only this file or folder.", several=True),
                    Argument(
                        "force",
                        "boolean",
                        "Unchanged files too, as after a change of the embedding model.",
                        default=False,
                    ),
                ),
                self._reindex,
                is_read_only=False,
            ),
            Tool(
                "index_status",
                "How much is indexed, what waits and what failed.",
                (PAGE,),
                self._index_status,
            ),
        ]

    async def _search(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        names = tuple(arguments.get("collections") or ())
        usual, most = self._config.search.limit, MOST_RESULTS
        if arguments["mode"] == "exact":
            usual = most = MOST_LINES
        limit = min(arguments["limit"] or usual, most)
        query = make_query(
            arguments["query"],
            self._config.search,
            limit=limit,
            offset=arguments["offset"],
            per_document=min(arguments["per_document"], MOST_RESULTS),
            collections=names,
            paths=arguments["path"],
            excludes=arguments["excludes"],
            depths=arguments["depth"],
            mode=arguments["mode"],
            sort=arguments["sort"],
            content=arguments["content"] or "section",
            # A line of an exact search is a preview; else one only stands where no more of a text fits.
            preview_lines=PREVIEW_LINES if arguments["mode"] == "exact" else int(bool(arguments["content"])),
            max_tokens=min(arguments["max_tokens"], self._budget) - HEADER_TOKENS * min(limit, COMPETING),
            clean_only=arguments["clean_only"],
            **_conditions(arguments),
        )
        freshness = await self._indexing.refresh(names, report)
        notes = freshness.notes
        answer = await self._indexing.use(lambda project: project.search(query, refresh=False))
        if answer.empty or (freshness.is_first and not answer.results):
            return nothing_result(self._budget, notes or [answer.empty])
        if not answer.results:
            reasons, notes = unmatched_lines(answer), [*correction_lines(answer), *notes]
            return empty_result(answer, query, self._budget, reasons, notes)
        return answer_result(answer, query, self._budget, notes, is_windows=not arguments["content"])

    async def _get_document(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        if arguments["part"] == "children" and (arguments["start_line"] or arguments["end_line"]):
            raise QueryError("Lines are lines of the text: leave out part `children`, or start_line and end_line.")
        await self._indexing.refresh((), report, wait=False)
        return await self._indexing.use(lambda project: document_result(project, self._budget, **arguments))

    async def _list_documents(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        freshness = await self._indexing.refresh((), report, wait=False)
        path, conditions = arguments["path"] or "", _conditions(arguments)
        listing = await self._indexing.use(lambda project: project.browse(path, **conditions))
        return listing_result(listing, self._budget, arguments["after"] or "", freshness.notes)

    async def _list_collections(self, arguments: dict[str, Any], report: Report) -> ToolResult:  # noqa: ARG002 - as every tool
        status = await self._indexing.use(lambda project: project.status())
        return collections_result(status, self._budget, arguments["page"])

    async def _reindex(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        paths: tuple[str, ...] = arguments["path"]
        summary = await self._indexing.reindex(paths, arguments["force"], report)
        status = await self._indexing.use(lambda project: project.status())
        reasons = await self._indexing.use(lambda project: [*filter(None, map(project.why_missing, paths))])
        return import_result(summary, status, reasons, self._budget)

    async def _index_status(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        freshness = await self._indexing.refresh((), report, wait=False)
        status = await self._indexing.use(lambda project: project.status())
        fields = await self._indexing.use(lambda project: project.fields() if status.searched else [])
        return status_result(status, self._budget, arguments["page"], freshness.problem, fields)


def _tool_name(collection: str) -> str:
    """The name of a collection's tool: its own or, since tools are named in ASCII, one that always means the same."""
    if collection.isascii():
        return collection
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", collection).strip("_-") or "collection"
    return f"{readable[:MAX_READABLE]}_{crc32(collection.encode()):08x}"


def _conditions(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `CONDITIONS`."""
    return {each.name: arguments[each.name] for each in CONDITIONS}


def arguments_of(tool: Tool, values: dict[str, Any] | None) -> dict[str, Any]:
    """A tool's arguments, checked."""
    return check_arguments(tool.name, tool.arguments, values or {})
