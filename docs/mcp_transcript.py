"""Write the transcript in docs/mcp.md: one real session of the SDK's client with the example documents."""

import asyncio
import json
import os
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
    """Run the session, and write it between the marks of the page."""
    with tempfile.TemporaryDirectory() as folder:
        docs = Path(folder) / "docs"
        shutil.copytree(PAGE.parent.parent / "examples", docs)
        transcript = "".join(asyncio.run(_session(docs)))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    transcript = transcript.replace(str(docs), "/home/you/docs")
    PAGE.write_text(f"{before}{BEGIN}\n{transcript}{END}{after}", encoding="utf-8")


async def _session(docs: Path) -> list[str]:
    async with _connected(docs) as client:
        transcript = [
            f"The client connects (protocol {client.protocol_version}) and gets these instructions:\n\n",
            _fenced(client.instructions or ""),
            "It lists the tools: ",
            ", ".join(f"`{tool.name}`" for tool in (await client.list_tools()).tools) + ".\n\n",
        ]
        arguments: dict[str, Any] = {"query": QUESTION, "limit": 2}
        found = await client.call_tool("search", arguments)
        transcript += [f"The model calls `search` with `{_json(arguments)}` and gets:\n\n", _fenced(_text(found))]
        first = found.structured_content["results"][0]
        transcript += ["The first result again, as fields:\n\n", _fenced(_json(first, 2), "json")]
        arguments = {"path": first["path"], "part": "children"}
        around = {"path": f"{first['path']}:1-24"}
        for given, why in ((arguments, "asks what is inside"), (around, "reads the document's beginning")):
            answer = await client.call_tool("get_document", given)
            transcript += [f"It {why}, `get_document` with `{_json(given)}`:\n\n", _fenced(_text(answer))]
        wrong = {"path": "engineering/環境構築"}
        answer = await client.call_tool("get_document", wrong)
        transcript += [
            f"A path that does not exist, `{_json(wrong)}`, returns a sentence with similar ones:\n\n",
            _fenced(_text(answer)),
        ]
    return transcript


@asynccontextmanager
async def _connected(docs: Path) -> AsyncIterator[Client]:
    arguments = ["-m", "annai", "mcp", "--docs-dir", str(docs)]
    # With the whole environment: PYTHONPATH must name the same annai as here.
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(server) as client:
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
