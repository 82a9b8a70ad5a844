"""Does any answer break the budget? Every tool's every answer, over documents and states made to be too long."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from annai.interfaces.mcp.reports import (
    collections_result,
    import_result,
    listing_result,
    status_result,
)
from annai.interfaces.mcp.results import ToolResult
from annai.text.tokens import count_tokens
from annai.types import (
    Collection,
    CollectionStatus,
    FileState,
    ImportSummary,
    ListedEntry,
    Listing,
    Problem,
    Request,
    Statistics,
    Status,
)
from tests.agents import Agent, connected, text

HEADINGS, BROKEN = 2000, 60
LONG_LINE = "zebra " * 25_000
"""150 KB without a line end."""

DOCUMENTS = {
    "changelog.md": "# Changelog\n\n"
    + "".join(f"## {number}.0\n\n{'A zebra was added. ' * 26}\n\n" for number in range(HEADINGS)),
    "line.md": f"# Line\n\n{LONG_LINE}\n",
    "heading.md": "".join(f"{marks} {LONG_LINE[:6_000]}\n\n" for marks in ("#", "##", "###")) + "zebra\n",
    "fences.md": f"# Fences\n\nzebra {'`' * 6000}\n",
    "escapes.md": "# Escapes\n\n" + 'zebra "\\"\\" \\\\\\\\ \t\t\n' * 4000,
    f"{'縞馬' * 30}/{'縞馬' * 40}.md": "# 縞馬\n\n" + "縞馬の文章 zebra です。" * 1000,
}


@dataclass(frozen=True)
class Reader:
    """An agent that checks every answer it gets."""

    agent: Agent
    budget: int

    def read(self, tool: str, **arguments: object) -> dict[str, Any]:
        """An answer or a refusal."""
        result = self.agent.call(tool, **arguments)
        fields = result.structured_content or {}
        check(ToolResult(fields, text(result)), self.budget)
        return fields

    def read_all(self, tool: str, **arguments: object) -> list[dict[str, Any]]:
        """All pages of an answer."""
        pages = [self.read(tool, **arguments)]
        while number := pages[-1].get("next_page"):
            pages.append(self.read(tool, **arguments, page=number))
        return pages


def check(result: ToolResult, budget: int) -> None:
    assert count_tokens(result.text) <= budget
    assert count_tokens(json.dumps(result.fields, ensure_ascii=False)) <= budget


@pytest.fixture(scope="module", params=[4000])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("hostile")
    settings = f'[embedding]\nprovider = "hashing"\n[search]\nmax_tokens = {request.param}\n'
    (folder / "annai.toml").write_text(settings)
    for name, written in DOCUMENTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(written, encoding="utf-8")
    for number in range(BROKEN):
        (folder / f"{'broken' * 30}{number}.md").write_bytes(b"\x00\xff\x00" * 100)
    with connected(folder, "auto") as agent:
        reader = Reader(agent, request.param)
        assert reader.read("reindex")["problems"]
        yield reader


@pytest.mark.parametrize("query", ["zebra", "縞馬", "zebra " * 1600, "qqqq"])
def test_a_search_keeps_to_its_tokens(reader: Reader, query: str) -> None:
    options: list[dict[str, Any]] = [{"limit": 1}, {"depth": 0}, {"mode": "keyword"}, {"per_document": 0}]
    options += [{"offset": 1}, {"content": "none"}, {"content": "document"}]
    for each in (*options, {"path": "nowhere/" * 500}):
        fields = reader.read("search", query=query, **{"limit": 50, **each})
        assert fields["results"] or fields["notes"]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_keeps_to_its_tokens_and_loses_nothing(reader: Reader, path: str) -> None:
    pages = reader.read_all("get_document", path=path, end_line=10)
    assert "".join(page["content"] for page in pages) == "".join(DOCUMENTS[path].splitlines(keepends=True)[:10])
    for part in ("section", "whole", "parent", "children"):
        for place in ("", "#1.1", "#9.9"):
            reader.read("get_document", path=path + place, part=part)


def test_the_list_of_two_thousand_headings_comes_in_pages(reader: Reader) -> None:
    arguments: dict[str, Any] = {"path": "changelog.md", "part": "children"}
    pages = reader.read_all("get_document", **arguments)
    assert len(pages) > 5
    headings = [heading for page in pages for heading in page["children"].values()]
    assert headings[-HEADINGS:] == [f"{number}.0" for number in range(HEADINGS)]
    assert f"it has {len(pages)} pages" in reader.agent.failure("get_document", **arguments, page=9999)
    siblings = reader.read_all("get_document", path="changelog.md#1.7", part="children")
    assert sum(len(page["siblings"]) for page in siblings) >= HEADINGS - 1


def test_every_file_that_could_not_be_read_is_named_on_some_page(reader: Reader) -> None:
    problems = [line for page in reader.read_all("index_status") for line in page["problems"]]
    assert len(problems) == BROKEN
    reader.read("list_collections")


def test_a_list_of_documents_with_endless_names_can_be_continued(reader: Reader) -> None:
    page = reader.read("list_documents")
    assert [each["path"] for each in page["entries"]] == sorted(DOCUMENTS)
    assert len(page["not_indexed"]) > 1
    assert "leave out `after`" in reader.agent.failure("list_documents", after="nothing")
    entries = tuple(ListedEntry(f"{'縞馬/' * 30}{number}.md", 1, LONG_LINE[:200]) for number in range(40))
    listing, after = Listing(40, entries), ""
    paths: list[str] = []
    while len(paths) < len(entries):
        result = listing_result(listing, 1000, after)
        check(result, 1000)
        paths += [each["path"] for each in result.fields["entries"]]
        after = result.fields.get("next_after", "")
    assert paths == [each.name for each in entries]


@pytest.mark.parametrize("budget", [1000, 4000])
def test_ten_thousand_failures_and_five_hundred_collections_come_in_pages(long_status: Status, budget: int) -> None:
    first = collections_result(long_status, budget, 1)
    last = collections_result(long_status, budget, first.fields["pages"])
    assert first.fields["collections"][0]["name"] == "collection-0"
    assert last.fields["collections"][-1]["name"] == "collection-499"
    assert "To continue, call `list_collections` with `page` 2." in first.text
    check(first, budget)
    check(last, budget)
    check(import_result(ImportSummary(failed=1), long_status, ["Why. " * 100], budget), budget)
    first = status_result(long_status, budget, 1)
    check(first, budget)
    last = status_result(long_status, budget, first.fields["pages"])
    check(last, budget)
    assert "/9999.md" in last.fields["problems"][-1]
    assert "10,000" in first.text


@pytest.fixture(scope="module")
def long_status() -> Status:
    """500 collections and 10,000 failures, made directly: real ones would take minutes."""
    folder = Path("/" + "とても長い名前/" * 100)
    failures = tuple(
        FileState(f"{'folder/' * 10}{number}.md", 1, 1, "", Problem("failed", "It is no text. " * 3))
        for number in range(10_000)
    )
    collections = tuple(
        CollectionStatus(
            Collection(f"collection-{number}", folder, "何でもある集まり。" * 200),
            Statistics(10, 100, 100),
            failures if number == 250 else (),
        )
        for number in range(500)
    )
    return Status(
        folder,
        str(folder),
        1,
        "hashing",
        collections,
        searched=tuple(each.collection.name for each in collections),
        requests={"pending": 10_000},
        indexing=tuple(f"docs:{folder}/{number}" for number in range(100)),
        errors=tuple(Request(number, "docs", f"{folder}/{number}", error="Why. " * 100) for number in range(100)),
    )
