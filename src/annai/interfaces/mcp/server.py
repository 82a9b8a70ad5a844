"""What does an agent's program ask for? The protocol's requests, answered for one project in both of its eras."""

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakSet

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from annai import __version__
from annai.errors import AnnaiError, EmbedderMismatch, QueryError
from annai.interfaces.mcp import resources
from annai.interfaces.mcp.access import Access
from annai.interfaces.mcp.arguments import schema
from annai.interfaces.mcp.indexing import Indexing
from annai.interfaces.mcp.prompts import ANSWER, answer_prompt, asked
from annai.interfaces.mcp.reports import described
from annai.interfaces.mcp.tools import Tool, Tools, arguments_of
from annai.types import Collection

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]

LOOK_SECONDS = 1.0
"""How often to look whether a collection was added, changed or removed, by this process or another."""

RESOURCES_SHARE = 0.01
"""The list of documents is looked at less often where that takes long, to cost at most this share of the time."""

LONGEST_INSTRUCTIONS = 1000
"""Bytes: they stand in the model's context all the time."""

INSTRUCTIONS = (
    "annai searches this project's documents by meaning and by words, in Japanese and English. Use `search` (or a "
    "collection's own tool) before answering questions about them, `get_document` with a result's id to read on, and "
    "cite what you use as path:line. The index keeps itself up to date.\nCollections:\n"
)


class ProjectServer(Server[None]):
    """One project, for any number of clients."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._indexing = Indexing(access)
        self._tools = Tools(access.config, self._indexing)
        self._connections: WeakSet[Connection] = WeakSet()
        """The clients that shook hands; those of the newer era listen by themselves."""
        self._bus = InMemorySubscriptionBus()
        self._listed: resources.Listing | None = None
        """The documents as clients know them, once one has asked."""
        self._complaint = ""
        super().__init__(
            "annai",
            version=__version__,
            title=f"annai: {access.config.name}",
            lifespan=self._living,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        # Nothing is measured here: the SDK's own middleware would only cost time.
        self.middleware[:] = [self._prepared]
        self.add_notification_handler("notifications/initialized", types.NotificationParams, self._shook_hands)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What is told in the handshake: that the lists of tools and resources change, too."""
        told = notification_options or NotificationOptions(tools_changed=True, resources_changed=True)
        return super().create_initialization_options(told, experimental_capabilities, extensions)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """Only what is really told: the list of prompts never changes, and single documents are not followed."""
        found = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        if found.prompts and found.resources:
            found.prompts.list_changed = False
            found.resources.subscribe = False
        return found

    def close(self) -> None:
        """Stop what is at work."""
        self._indexing.close()

    # The life of a connection

    async def _prepared(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Have the instructions ready before a client asks for them."""
        if ctx.method in ("initialize", "server/discover"):
            collections = await self._collections()
            room = LONGEST_INSTRUCTIONS - len(INSTRUCTIONS.encode())
            names = described([each for each in collections if each.enabled], room)
            self.instructions = INSTRUCTIONS + (names or f"- the folder {self._access.config.name}")
        return await call_next(ctx)

    async def _shook_hands(self, ctx: Context, params: types.NotificationParams) -> None:  # noqa: ARG002 - a handler
        # The SDK offers no other way to a connection from inside a handler.
        self._connections.add(ctx.session._connection)

    @asynccontextmanager
    async def _living(self, server: Server[None]) -> AsyncIterator[None]:  # noqa: ARG002 - the SDK's signature
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch)
            yield
            group.cancel_scope.cancel()

    async def _watch(self) -> None:
        """Notice changes of the lists, and tell every client."""
        tools: list[tuple[str, str]] | None = None
        next_listing = 0.0
        while True:
            collections = await self._collections()
            seen = [(each.name, each.description) for each in collections if each.enabled]
            if tools is not None and seen != tools:
                await self._tell_changed(tools=True)
            tools = seen
            began = anyio.current_time()
            if self._listed is not None and began >= next_listing:
                listing = await self._documents()
                if listing != self._listed:
                    self._listed = listing
                    await self._tell_changed(tools=False)
                next_listing = anyio.current_time() + (anyio.current_time() - began) / RESOURCES_SHARE
            await anyio.sleep(LOOK_SECONDS)

    async def _tell_changed(self, *, tools: bool) -> None:
        await self._bus.publish(ToolsListChanged() if tools else ResourcesListChanged())
        for connection in list(self._connections):
            await (connection.send_tool_list_changed() if tools else connection.send_resource_list_changed())

    async def _collections(self) -> Sequence[Collection]:
        """The registered collections; none while the project cannot be opened, which every call then tells."""
        try:
            collections = await self._indexing.use(lambda project: project.list_collections())
        except Exception as error:
            # Whatever it is, it must not end the connection; it is told once, and by every tool that is called.
            if str(error) != self._complaint:
                logger.warning("%s", error, exc_info=not isinstance(error, AnnaiError))
            self._complaint = str(error)
            return ()
        self._complaint = ""
        return collections

    async def _documents(self) -> resources.Listing:
        """Every document; none while the project cannot be opened."""
        try:
            return await self._indexing.use(resources.documents)
        except Exception as error:
            logger.debug("no documents can be listed: %s", error)
            return []

    # Tools

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:  # noqa: ARG002 - a handler
        return types.ListToolsResult(
            tools=[_described(each) for each in self._tools.all_tools(await self._collections())]
        )

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Whatever goes wrong becomes a sentence: the model can act on it, and the connection lives on."""
        try:
            tools = {each.name: each for each in self._tools.all_tools(await self._collections())}
            if params.name not in tools:
                return _failure(f"There is no tool {params.name[:100]!r}; there are {', '.join(tools)}.")
            tool = tools[params.name]
            told = await tool.call(arguments_of(tool, params.arguments), ctx.session.report_progress)
        except EmbedderMismatch as error:
            return _failure(f"{error} The tool `reindex` does that too, with force true.")
        except AnnaiError as error:
            return _failure(str(error))
        except Exception as error:
            logger.exception("%s failed", params.name)
            return _failure(
                f"annai failed inside ({type(error).__name__}: {error}); its log on standard error tells more."
            )
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=told.text)], structured_content=told.fields
        )

    # Resources

    async def _list_resources(
        self,
        ctx: Context,  # noqa: ARG002 - a handler
        params: types.PaginatedRequestParams | None,
    ) -> types.ListResourcesResult:
        listing = await self._documents()
        if self._listed is None:
            self._listed = listing
        with _as_protocol_errors():
            return resources.page(listing, (params.cursor if params else None) or "")

    async def _list_templates(
        self,
        ctx: Context,  # noqa: ARG002 - a handler
        params: types.PaginatedRequestParams | None,  # noqa: ARG002 - there is one page
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[resources.TEMPLATE])

    async def _read_resource(
        self,
        ctx: Context,  # noqa: ARG002 - a handler
        params: types.ReadResourceRequestParams,
    ) -> types.ReadResourceResult:
        with _as_protocol_errors():
            return await self._indexing.use(lambda project: resources.read(project, str(params.uri)))

    # Prompts

    async def _list_prompts(
        self,
        ctx: Context,  # noqa: ARG002 - a handler
        params: types.PaginatedRequestParams | None,  # noqa: ARG002 - there is one page
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[ANSWER])

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        with _as_protocol_errors():
            if params.name != ANSWER.name:
                raise QueryError(f"There is no prompt {params.name[:100]!r}; there is {ANSWER.name}.")
            question, collection = asked(params.arguments)
            found = await self._tools.search(question, collection, ctx.session.report_progress)
            return answer_prompt(question, found.text)


@contextmanager
def _as_protocol_errors() -> Iterator[None]:
    """Tell what is wrong with a request where the protocol has no other place for it."""
    try:
        yield
    except AnnaiError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error


def _described(tool: Tool) -> types.Tool:
    """A tool as the protocol wants it."""
    hints = types.ToolAnnotations(
        read_only_hint=tool.is_read_only,
        destructive_hint=False,
        idempotent_hint=True,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.text,
        input_schema=schema(tool.arguments),
        annotations=hints,
    )


def _failure(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=sentence)], is_error=True)
