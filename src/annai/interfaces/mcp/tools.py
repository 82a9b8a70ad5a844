"""What can an agent do? The tools: how they are described to a model, and what each of them does."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from annai.asking.query import MAX_DEPTH, MAX_PATH_CHARACTERS, MAX_QUERY_CHARACTERS, make_query
from annai.config import Config
from annai.errors import NotFound, QueryError
from annai.interfaces.mcp.arguments import Argument, check_arguments
from annai.interfaces.mcp.documents import document_result
from annai.interfaces.mcp.indexing import Indexing, Report
from annai.interfaces.mcp.reports import collections_result, import_result, listing_result, status_result
from annai.interfaces.mcp.results import ToolResult, answer_result, empty_result, waiting_result
from annai.interfaces.render import correction_lines, unmatched_lines
from annai.types import Collection, Mode
from annai.values import choices

MOST_RESULTS = 50
"""Results of one search: more would not fit into any answer."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a model sees it, and what it does."""

    name: str
    title: str
    text: str
    arguments: tuple[Argument, ...]
    call: Callable[[dict[str, Any], Report], Awaitable[ToolResult]]
    is_read_only: bool = True


class Tools:
    """The tools of one project."""

    def __init__(self, config: Config, indexing: Indexing) -> None:
        self._config = config
        self._indexing = indexing
        self._budget = config.search.max_tokens

    def all_tools(self, collections: Sequence[Collection]) -> list[Tool]:
        """All tools in order: the search of everything, one search per collection, and the rest.

        A project without registered collections is one collection, and `search` is its tool.
        """
        enabled = [each for each in collections if each.enabled]
        names = tuple(each.name for each in enabled)
        return [self._search_all(names), *map(self._search_one, enabled), *self._others()]

    async def search(self, query: str, collection: str, report: Report) -> ToolResult:
        """Search with a query alone, and perhaps a collection."""
        arguments = check_arguments("search", self._search_arguments(), {"query": query})
        return await self._search({**arguments, "collections": (collection,) if collection else ()}, report)

    def _search_all(self, names: tuple[str, ...]) -> Tool:
        which = Argument("collections", "strings", "Only these collections; default: all.", choices=names)
        return Tool(
            "search",
            "Search documents",
            "Search the project's documents by meaning and by words, in Japanese and English (a question in one "
            "language finds text in the other). Returns the documents that answer best, each by its best section, with "
            "path, lines, score, id and text. Read more of a result with `get_document` and its id; cite as path:line.",
            (*self._search_arguments(), *((which,) if names else ())),
            self._search,
        )

    def _search_one(self, collection: Collection) -> Tool:
        def call(arguments: dict[str, Any], report: Report) -> Awaitable[ToolResult]:
            return self._search({**arguments, "collections": (collection.name,)}, report)

        return Tool(
            collection.name,
            f"Search {collection.name}",
            f"{collection.description or f'The documents of {collection.name}.'}\n\n"
            f"Searches the collection `{collection.name}` by meaning and by words, in Japanese and English. Returns "
            "sections with path, lines, score, id and text; `get_document` reads on.",
            self._search_arguments(),
            call,
        )

    def _search_arguments(self) -> tuple[Argument, ...]:
        settings = self._config.search
        return (
            Argument(
                "query",
                "string",
                'A question or some words; -word and -"a phrase" exclude.',
                required=True,
                minimum=1,
                maximum=MAX_QUERY_CHARACTERS,
            ),
            Argument(
                "limit",
                "integer",
                "How many results.",
                default=min(settings.limit, MOST_RESULTS),
                minimum=1,
                maximum=MOST_RESULTS,
            ),
            Argument(
                "per_document",
                "integer",
                "How many sections of one document may be results of their own; 0: no limit.",
                default=settings.per_document,
                minimum=0,
                maximum=MOST_RESULTS,
            ),
            Argument(
                "depth",
                "integer",
                "Return sections of this depth: 0 whole documents, 1 to 3 what stands under a heading of that level; "
                "default: the smallest section around each match.",
                minimum=0,
                maximum=MAX_DEPTH,
            ),
            Argument(
                "path",
                "string",
                "Only documents under this folder, this file or this glob, such as `guide/` or `guide/**/*.md`.",
                maximum=MAX_PATH_CHARACTERS,
            ),
            Argument(
                "mode",
                "string",
                "hybrid: by meaning and words; vector: by meaning; keyword: by words, for exact names.",
                default=settings.mode,
                choices=choices(Mode),
            ),
        )

    def _others(self) -> list[Tool]:
        reference = Argument(
            "path",
            "string",
            "A path as a search shows it (`guide/setup.md`), also with a line or lines (`guide/setup.md:44-60`) or a "
            "heading (`guide/setup.md#install-it`); or a section's id (`docs:guide/setup.md#1.2`).",
            required=True,
            minimum=1,
            maximum=MAX_PATH_CHARACTERS,
        )
        part = Argument(
            "part",
            "string",
            "section: what `path` names; whole: the whole document around a section; parent: the section around it; "
            "children: the list of sections inside it.",
            default="section",
            choices=("section", "whole", "parent", "children"),
        )
        page = Argument("page", "integer", "Which page of a long answer.", default=1, minimum=1)
        return [
            Tool(
                "get_document",
                "Read a document",
                "Read a document or one section of it, as it is in the index. Long texts and lists come in pages.",
                (
                    reference,
                    part,
                    Argument("start_line", "integer", "Only from this line of the document.", minimum=1),
                    Argument("end_line", "integer", "Only up to this line, included.", minimum=1),
                    page,
                ),
                self._get_document,
            ),
            Tool(
                "list_documents",
                "List documents",
                "List documents with their titles; of a large folder, its folders. Says why a file is not indexed.",
                (
                    Argument("path", "string", "Only this folder, file or glob.", maximum=MAX_PATH_CHARACTERS),
                    Argument("after", "string", "Continue a long list after this.", maximum=MAX_PATH_CHARACTERS),
                ),
                self._list_documents,
            ),
            Tool(
                "list_collections",
                "List collections",
                "List the collections of documents, with what they hold and where their files are.",
                (page,),
                self._list_collections,
            ),
            Tool(
                "reindex",
                "Update the index",
                "Bring the index up to date with the files now, and wait for it. Seldom needed: saved files are "
                "noticed by themselves, and a search looks for changes first.",
                (
                    Argument("paths", "strings", "Only these files or folders; default: everything."),
                    Argument(
                        "force",
                        "boolean",
                        "Read every file again, changed or not; needed once after the embedding model was changed.",
                        default=False,
                    ),
                ),
                self._reindex,
                is_read_only=False,
            ),
            Tool(
                "index_status",
                "Show the index's state",
                "Show how many documents are indexed, whether files are still waiting, and which could not be read.",
                (page,),
                self._index_status,
            ),
        ]

    async def _search(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        names = tuple(arguments.get("collections") or ())
        query = make_query(
            arguments["query"],
            self._config.search,
            limit=arguments["limit"],
            per_document=arguments["per_document"],
            collections=names,
            paths=(arguments["path"],) if arguments["path"] else (),
            depths=() if arguments["depth"] is None else (arguments["depth"],),
            mode=arguments["mode"],
        )
        freshness = await self._indexing.refresh(names, report)
        notes = freshness.notes
        try:
            answer = await self._indexing.use(lambda project: project.search(query, refresh=False))
        except NotFound:
            if not freshness.waiting:
                raise
            return waiting_result(query, self._budget, notes)
        if not answer.results:
            return empty_result(query, self._budget, unmatched_lines(answer), [*correction_lines(answer), *notes])
        return answer_result(answer, self._budget, notes)

    async def _get_document(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        if arguments["part"] == "children" and (arguments["start_line"] or arguments["end_line"]):
            raise QueryError("Lines are lines of the text: leave out part `children`, or start_line and end_line.")
        await self._indexing.refresh((), report, wait=False)
        return await self._indexing.use(lambda project: document_result(project, self._budget, **arguments))

    async def _list_documents(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        freshness = await self._indexing.refresh((), report, wait=False)
        listing = await self._indexing.use(lambda project: project.browse(arguments["path"] or ""))
        return listing_result(listing, self._budget, arguments["after"] or "", freshness.notes)

    async def _list_collections(self, arguments: dict[str, Any], report: Report) -> ToolResult:  # noqa: ARG002 - as every tool
        status = await self._indexing.use(lambda project: project.status())
        return collections_result(status, self._budget, arguments["page"])

    async def _reindex(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        paths: tuple[str, ...] = arguments["paths"] or ()
        summary = await self._indexing.reindex(paths, arguments["force"], report)
        status = await self._indexing.use(lambda project: project.status())
        reasons = await self._indexing.use(lambda project: [*filter(None, map(project.why_missing, paths))])
        return import_result(summary, status, reasons, self._budget)

    async def _index_status(self, arguments: dict[str, Any], report: Report) -> ToolResult:
        freshness = await self._indexing.refresh((), report, wait=False)
        status = await self._indexing.use(lambda project: project.status())
        return status_result(status, self._budget, arguments["page"], freshness.problem)


def arguments_of(tool: Tool, values: dict[str, Any] | None) -> dict[str, Any]:
    """A tool's arguments, checked."""
    return check_arguments(tool.name, tool.arguments, values or {})
