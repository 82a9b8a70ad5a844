"""Write the transcript in docs/mcp.md: one real session of the SDK's client with the example documents."""

import asyncio
import json
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters

PAGE = Path(__file__).parent / "mcp.md"
BEGIN, END = "<!-- transcript: make docs writes it -->\n", "<!-- end of the transcript -->\n"
QUESTION = "開発環境を用意する方法を教えて"


def main() -> None:
    """Hold the session, and put it between the marks of the page."""
    with tempfile.TemporaryDirectory() as folder:
        docs = Path(folder) / "docs"
        shutil.copytree(PAGE.parent.parent / "examples", docs, ignore=shutil.ignore_patterns(".annai"))
        told = "".join(asyncio.run(_session(docs)))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    # Where it ran says nothing; a machine's speed neither.
    told = re.sub(r'"took_ms": [\d.]+', '"took_ms": 4.1', told.replace(str(docs), "/home/you/docs"))
    PAGE.write_text(f"{before}{BEGIN}\n{told}{END}{after}", encoding="utf-8")


async def _session(docs: Path) -> list[str]:
    async with _connected(docs) as client:
        told = [
            f"The client connects (protocol {client.protocol_version}), and is told:\n\n",
            _fenced(client.instructions or ""),
            "It lists the tools: ",
            ", ".join(f"`{tool.name}`" for tool in (await client.list_tools()).tools) + ".\n\n",
        ]
        arguments: dict[str, Any] = {"query": QUESTION, "limit": 2}
        found = await client.call_tool("search", arguments)
        told += [f"The model calls `search` with `{_json(arguments)}`, and reads:\n\n", _fenced(_text(found))]
        first = found.structured_content["results"][0]
        told += ["The first result again, as a client gets it that reads fields:\n\n", _fenced(_json(first, 2), "json")]
        arguments = {"path": first["path"], "part": "children"}
        around = {"path": first["id"], "part": "whole", "start_line": 1, "end_line": 24}
        for given, why in ((arguments, "asks what is inside"), (around, "reads the document's beginning")):
            answer = await client.call_tool("get_document", given)
            told += [f"It {why}, `get_document` with `{_json(given)}`:\n\n", _fenced(_text(answer))]
        wrong = {"path": "engineering/環境構築"}
        answer = await client.call_tool("get_document", wrong)
        told += [
            f"A path that does not exist, `{_json(wrong)}`, comes back with what does:\n\n",
            _fenced(_text(answer)),
        ]
    return told


@asynccontextmanager
async def _connected(docs: Path) -> AsyncIterator[Client]:
    arguments = ["-m", "annai", "mcp", "--docs-dir", str(docs)]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
        yield client


def _text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _fenced(text: str, language: str = "text") -> str:
    fence = "`" * (max(map(len, re.findall("`{3,}", text)), default=2) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n\n"


if __name__ == "__main__":
    main()
