"""What does an answer cost an agent? Calls and tokens until the text of the right section is in hand.

    python benchmarks/agent.py [SOURCE …] [--questions 100] [--keep FOLDER]

Questions of docs_en and docs_ja in the language of the documents are played through the SDK's client on `annai mcp`, in
a process of its own. A client shows a model either the text or the JSON of an answer, so both are counted, with the
call itself. Every SOURCE is the `src` of a checkout (default: this one), so that two versions can be compared.

The judgements name the right page. Its right section is the leaf that holds most of the question's words, the rare ones
of the page counting most; it is in hand when every line of it stood in an answer about its page. The agent searches
with the question alone. If the page is among the results, it reads the result that was truncated, or the section that
is named beside it, or else the page from its beginning, until it has the section. If not, it looks further down, to hit
30: with `offset` and without texts where that can be said, and with `limit` 30 where it cannot. Then it gives up.

The second table compares the same ten results with the same text: the passage that matched, in a budget of any size. It
also counts the results that fit into 4,000 tokens.
"""

import argparse
import asyncio
import json
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from ranking import open_indexed

from annai.engine import Engine
from annai.searching.evaluation import normalize_path, read_judgements, read_questions
from annai.text.tokens import count_tokens, words

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import eval_folder

SETS = ("docs_en", "docs_ja")
MAX_HITS = 30
"""An agent that has seen so many results gives up."""

MAX_PAGES = 20
"""Pages of one document that it reads at most."""

MANY_TOKENS = 200_000

TEMPLATE = """\
[project]
root = "tree"
[database]
path = "../index.sqlite"
[files]
respect_gitignore = false
exclude = []
[watcher]
enabled = false
[search]
max_tokens = {max_tokens}
content = "{content}"
"""


@dataclass(frozen=True, slots=True)
class Task:
    """A question, the page that answers it, and the lines of the right section."""

    text: str
    page: str
    first_line: int
    last_line: int
    lines: frozenset[str]


@dataclass(slots=True)
class Cost:
    """What one question took."""

    calls: int = 0
    text: int = 0
    json: int = 0
    is_found: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The results of all searches."""
    missing: set[str] = field(default_factory=set)
    """Lines of the right section that are not in hand yet."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=Path, default=[Path(__file__).parents[1] / "src"])
    parser.add_argument("--questions", type=int, default=100, help="so many of each set")
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        workspace = (options.keep or Path(temporary)).resolve()
        tasks = {name: read_tasks(name, workspace / name, options.questions) for name in SETS}
        print("| source | set | tools | in hand | by one call | calls | tokens as text | tokens as JSON |")
        print("|---|---|---|---|---|---|---|---|")
        for name, source in ((name, source) for name in SETS for source in options.sources):
            tools, costs = asyncio.run(play(source, workspace / name, tasks[name]))
            in_hand = mean(each.is_found for each in costs)
            by_one = mean(each.is_found and each.calls == 1 for each in costs)
            totals = (mean(each.text for each in costs), mean(each.json for each in costs))
            print(
                f"| {source} | {name} | {tools:,} | {in_hand:.0%} | {by_one:.0%} | "
                f"{mean(each.calls for each in costs):.2f} | {' | '.join(f'{each:,.0f}' for each in totals)} |",
                flush=True,
            )
        print("\n| source | set | ten passages as text | as JSON | results for limit 20, mean | fewest |")
        print("|---|---|---|---|---|---|")
        for name, source in ((name, source) for name in SETS for source in options.sources):
            cells = asyncio.run(compare(source, workspace / name, tasks[name]))
            print(f"| {source} | {name} | {cells} |", flush=True)


def read_tasks(name: str, workspace: Path, count: int) -> list[Task]:
    """Every n-th question in the documents' own language, with the section that answers it."""
    folder = eval_folder()
    judgements = read_judgements(folder / name / "qrels.tsv")
    questions = [each for each in read_questions(folder / name / "queries.jsonl") if not each.type.startswith("xl_")]
    with open_indexed(folder, name, workspace) as engine:
        paths = {normalize_path(path): path for path in engine.document_paths("root")}
        chosen = questions[:: max(len(questions) // count, 1)][:count]
        return [right_section(engine, each.text, paths[next(iter(judgements[each.id]))]) for each in chosen]


def right_section(engine: Engine, text: str, page: str) -> Task:
    """The section of the page that holds most of the question's words."""
    selection = engine.locate(f"root:{page}")
    parents = {each.section.parent for each in selection.sections if not each.section.piece}
    leaves = [each for each in selection.sections if not each.section.piece and each.section.order not in parents]
    held = [{*words(selection.text(each))} for each in leaves]
    counts = Counter(word for each in held for word in each)
    weights = {word: math.log(1 + len(leaves) / counts[word]) for word in {*words(text)} if counts[word]}
    best = max(range(len(leaves)), key=lambda row: (sum(weights[word] for word in held[row] & {*weights}), -row))
    section = leaves[best].section
    return Task(text, page, section.start_line, section.end_line, frozenset(_lines(selection.text(leaves[best]))))


async def play(source: Path, workspace: Path, tasks: Sequence[Task]) -> tuple[int, list[Cost]]:
    """The tokens of the list of tools, and what each question took."""
    async with connected(source, workspace) as client:
        tools = (await client.list_tools()).tools
        listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        arguments = next(each.input_schema["properties"] for each in tools if each.name == "search")
        return _json_tokens({"tools": listed}), [await answer(client, each, "offset" in arguments) for each in tasks]


async def answer(client: Client, task: Task, can_go_on: bool) -> Cost:
    """Search and read until the section is in hand, or until there is nothing more to try."""
    cost = Cost(missing={*task.lines})
    asked: dict[str, Any] = {"query": task.text}
    while True:
        fields = await call(client, cost, task, "search", asked)
        rows = fields["results"]
        cost.rows += rows
        row = next((each for each in rows if each["path"] == task.page), None)
        if row is not None:
            await read_on(client, cost, task, row)
            break
        if can_go_on and "offset" not in asked:
            asked |= {"offset": len(rows), "limit": MAX_HITS - len(rows), "content": "none"}
        elif not can_go_on and "limit" not in asked:
            asked["limit"] = MAX_HITS
        else:
            break
    cost.is_found = not cost.missing
    return cost


async def read_on(client: Client, cost: Cost, task: Task, row: dict[str, Any]) -> None:
    """Read what is missing of the right page, of which this is a result."""
    if cost.missing and row["start_line"] <= task.first_line <= row["end_line"]:
        await read(client, cost, task, row.get("id") or f"{row['path']}:{row['start_line']}-{row['end_line']}")
    named = row.get("more", ())
    for line in (each["line"] for each in named) if isinstance(named, list) else map(int, named):
        if cost.missing and task.first_line <= line <= task.last_line:
            await read(client, cost, task, f"{row['path']}:{line}")
    if cost.missing:
        await read(client, cost, task, row["path"])


async def read(client: Client, cost: Cost, task: Task, reference: str) -> None:
    """Read something page by page, until the section is in hand."""
    page: int | None = 1
    while cost.missing and page and page <= MAX_PAGES:
        arguments = {"path": reference, **({"page": page} if page > 1 else {})}
        page = (await call(client, cost, task, "get_document", arguments)).get("next_page")


async def call(client: Client, cost: Cost, task: Task, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool, and note what it cost and what was read."""
    result = await client.call_tool(tool, arguments)
    (block,) = result.content
    said = block.text if isinstance(block, types.TextContent) else ""
    if result.is_error:
        sys.exit(f"{tool} {arguments}: {said}")
    fields: dict[str, Any] = result.structured_content
    asked = _json_tokens({"name": tool, "arguments": arguments})
    cost.calls += 1
    cost.text += asked + count_tokens(said)
    cost.json += asked + _json_tokens(fields)
    for row in fields.get("results", [fields]):
        if (row.get("file") or row["path"]) == task.page:
            for text in (row.get("content", ""), *(each["text"] for each in row.get("windows", ()))):
                cost.missing -= {*_lines(text)}
    return fields


async def compare(source: Path, workspace: Path, tasks: Sequence[Task]) -> str:
    """The cells of the second table."""
    text, as_json, counts = [], [], []
    async with connected(source, workspace, MANY_TOKENS, "passage") as client:
        (arguments,) = (each.input_schema["properties"] for each in (await client.list_tools()).tools[:1])
        content = {"content": "passage"} if "content" in arguments else {}
        for task in tasks:
            result = await client.call_tool("search", {"query": task.text, "limit": 10, **content})
            text.append(count_tokens(getattr(result.content[0], "text", "")))
            as_json.append(_json_tokens(result.structured_content))
    async with connected(source, workspace) as client:
        for task in tasks:
            result = await client.call_tool("search", {"query": task.text, "limit": 20})
            counts.append(len(result.structured_content["results"]))
    return f"{mean(text):,.0f} | {mean(as_json):,.0f} | {mean(counts):.1f} | {min(counts)}"


@asynccontextmanager
async def connected(
    source: Path, workspace: Path, max_tokens: int = 4000, content: str = "section"
) -> AsyncIterator[Client]:
    """A client on the `annai mcp` of a checkout, over an indexed set."""
    settings = workspace / "annai.toml"
    settings.write_text(TEMPLATE.format(max_tokens=max_tokens, content=content), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "ANNAI_CONFIG": str(settings)}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "annai", "mcp"], env=environment, cwd=str(workspace)
    )
    async with Client(server) as client:
        yield client


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def _json_tokens(value: object) -> int:
    return count_tokens(json.dumps(value, ensure_ascii=False))


if __name__ == "__main__":
    main()
