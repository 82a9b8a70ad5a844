"""What does an agent see? Every tool, resource and prompt, through the SDK's client, in both eras of the protocol."""

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from annai.config import load_config
from annai.engine import Engine
from annai.interfaces.setup.programs import PROGRAMS
from annai.settings import Search
from annai.text.tokens import count_tokens
from tests.agents import ERAS, Agent, connected, text
from tests.conftest import EXAMPLES

FIXED = ["get_document", "list_documents", "reindex", "index_status"]
RESULT_FIELDS = ["path", "start_line", "end_line", "section", "verdict", "score", "windows"]
SETUP = "engineering/環境構築.md"
HOLIDAYS = "handbook/holidays.md"


@pytest.fixture(scope="module", params=ERAS)
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A client on the example documents, with no set-up at all: the index is made by the first search."""
    folder = tmp_path_factory.mktemp("agent") / "docs"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns(".annai"))
    with connected(folder, request.param) as agent:
        yield agent


def test_the_protocol_is_the_one_that_was_requested(agent: Agent) -> None:
    expected = {"legacy": "2025-11-25", "auto": "2026-07-28"}[agent.client.mode]
    assert agent.client.protocol_version == expected
    info = agent.client.server_info
    assert info
    assert info.name == "annai"


def test_a_japanese_question_is_answered_from_the_documents(agent: Agent) -> None:
    found = agent.fields("search", query="環境構築の方法", limit=3)
    assert found["results"][0]["path"] == SETUP
    assert len({row["path"] for row in found["results"]}) == 3
    assert [*found["results"][0]] == RESULT_FIELDS
    (sections, *_) = agent.fields("search", query="環境構築の方法", content="section")["results"]
    assert sections["more"]["35"] == "手順"
    assert {"total", "verdict", "confident", "results"} == {*found} - {"next_offset"}


def test_a_collection_with_a_japanese_name_has_a_tool_with_one_of_ascii(tmp_path: Path) -> None:
    for folder in ("設計", "api設計"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.md").write_text(f"# {folder}\n\nAbout apples.", encoding="utf-8")
    with Engine(load_config(docs_dir=tmp_path)) as engine:
        for folder in ("設計", "api設計"):
            engine.add_collection(folder, tmp_path / folder, "設計書")
    with connected(tmp_path, "auto") as agent:
        tools = {name: each.description or "" for name, each in agent.tools().items()}
        own = {name: text for name, text in tools.items() if "collection `" in text}
        assert all(re.fullmatch(r"(collection|api)_[0-9a-f]{8}", name) for name in own)
        for name, described in own.items():
            (found,) = agent.fields(name, query="apples")["results"]
            assert f"the collection `{found['section']}` alone" in described
        assert len(agent.fields("search", query="apples", collections=["設計"])["results"]) == 1


def test_a_folder_without_documents_is_an_empty_answer_and_no_error(tmp_path: Path) -> None:
    with connected(tmp_path, "auto") as agent:
        found = agent.call("search", query="apple")
        assert not found.is_error
        assert found.structured_content["results"] == []
        assert text(found).startswith("There are no documents in")


def test_text_and_fields_are_each_enough_alone(agent: Agent) -> None:
    result = agent.call("search", query="how do I roll back a bad deployment?", limit=4, content="section")
    said = text(result)
    fields: dict[str, Any] = result.structured_content
    assert len(fields["results"]) == 4
    for row in fields["results"]:
        assert f"{row['path']}:{row['start_line']}-{row['end_line']} · {row['verdict']} · {row['section']}" in said
        assert row["content"] in said


def test_what_answers_is_shown_at_its_own_lines_and_as_long_as_is_asked_for(agent: Agent) -> None:
    lengths = []
    for tokens in (400, 1500, 3000):
        answer = agent.call("search", query="how do I roll back a bad deployment?", max_tokens=tokens)
        lengths.append(count_tokens(text(answer)))
        windows = [(row["path"], each) for row in answer.structured_content["results"] for each in row["windows"]]
        assert windows
        for path, window in windows:
            lines = (EXAMPLES / path).read_text(encoding="utf-8").splitlines()
            written = "\n".join(lines[window["start_line"] - 1 : window["end_line"]])
            assert window["text"] in written
            assert window["text"].splitlines()[0] in lines[window["start_line"] - 1]
            assert window["text"] in text(answer)
    assert lengths == sorted({*lengths})


def test_a_result_is_read_on_by_its_path_and_lines(agent: Agent) -> None:
    (row,) = agent.fields("search", query="ソースコードを取得する", limit=1, content="section")["results"]
    lines = f"{row['start_line']}-{row['end_line']}"
    section = agent.fields("get_document", path=f"{row['path']}:{lines}")
    assert section["content"].rstrip() == row["content"]
    by_fields = {name: row[name] for name in ("path", "start_line", "end_line")}
    assert agent.fields("get_document", **by_fields)["content"] == section["content"]
    parent = agent.fields("get_document", path=f"{row['path']}:{lines}", part="parent")
    assert row["content"] in parent["content"]
    assert row["section"].startswith(f"{parent['section']} › ")
    around = f"{row['path']}:{parent['start_line']}-{parent['end_line']}"
    children = agent.fields("get_document", path=around, part="children")["children"]
    assert children[lines] == row["section"].split(" › ")[-1]
    whole = agent.fields("get_document", path=f"{row['path']}:{lines}", part="whole")
    assert whole["content"] == (EXAMPLES / SETUP).read_text(encoding="utf-8")


def test_some_lines_of_a_document_can_be_read(agent: Agent) -> None:
    expected = (EXAMPLES / SETUP).read_text(encoding="utf-8").splitlines(keepends=True)
    part = agent.fields("get_document", path=SETUP, start_line=3, end_line=5)
    assert part["content"] == "".join(expected[2:5])
    assert (part["start_line"], part["end_line"]) == (3, 5)
    assert agent.fields("get_document", path=SETUP, start_line=len(expected))["content"] == expected[-1]
    assert agent.fields("get_document", path=f"{SETUP}:3-5") == part
    row = agent.fields("search", query="環境構築の方法", limit=1)["results"][0]
    assert agent.fields("get_document", path=f"{row['path']}:{row['start_line']}")["section"] == row["section"]
    # Under the page's own heading stands all of the page.
    assert agent.fields("get_document", path=f"annai://root/{quote(SETUP)}:3")["end_line"] == len(expected)
    assert {row["path"] for row in agent.fields("search", query="手順", path="**/環境*.md")["results"]} == {SETUP}
    assert f"it has {len(expected)} lines" in agent.failure("get_document", path=SETUP, start_line=9999)


def test_where_something_is_missing_the_answer_says_what_to_do(agent: Agent) -> None:
    agent.call("search", query="x")
    assert f"did you mean {SETUP}" in agent.failure("get_document", path="enginering/環境構築.md")
    assert "#1.2" in agent.failure("get_document", path=f"{SETUP}#7.7")
    assert "has 1 page" in agent.failure("get_document", path=HOLIDAYS, page=3)
    assert "it has no parent" in agent.failure("get_document", path=HOLIDAYS, part="parent")
    empty = agent.call("search", query="zyxwv", mode="keyword", path="enginering")
    assert not empty.is_error
    assert "did you mean engineering" in text(empty)
    assert 'mode "hybrid"' in text(empty)
    assert empty.structured_content["results"] == []


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("search", {}, "search needs the argument 'query'"),
        ("search", {"query": ""}, "query must be between 1 and 10,000 characters, not 0"),
        ("search", {"query": "   "}, "The query is empty"),
        ("search", {"query": 5}, "query must be a string, not 5"),
        ("search", {"query": "x", "limit": 0}, "limit must be at least 1, not 0"),
        ("search", {"query": "x", "limit": "many"}, "limit must be a whole number, not 'many'"),
        ("search", {"query": "x", "depth": 4}, "depth must be between 0 and 3, not 4"),
        ("search", {"query": "x", "mode": "fast"}, "mode must be one of hybrid, vector, keyword"),
        ("search", {"query": "x", "pathh": "a"}, "did you mean 'path'?"),
        ("search", {"query": "x", "content": "all"}, "content must be one of passage, section, document, none"),
        ("search", {"query": "x", "offset": -5}, "offset must be at least 0"),
        ("search", {"query": "x", "depth": [1, "deep"]}, "each of depth must be a whole number"),
        ("search", {"query": "x" * 1_000_000}, "query must be between 1 and 10,000 characters, not 1,000,000"),
        ("search", {"x" * 1_000_000: 1, "query": "x"}, "search has no argument 'xxx"),
        ("get_document", {"path": HOLIDAYS, "part": "all"}, "part must be one of"),
        ("get_document", {"path": "../../etc/passwd"}, "There is no document"),
        ("get_document", {"path": HOLIDAYS, "part": "children", "end_line": 3}, "leave out part"),
        ("reindex", {"paths": ["nowhere"]}, "There is no file or folder 'nowhere'"),
        ("reindex", {"force": "perhaps"}, "force must be true or false"),
        ("serch", {"query": "x"}, "There is no tool 'serch'; there are search"),
    ],
)
def test_wrong_arguments_come_back_as_a_sentence(
    agent: Agent, tool: str, arguments: dict[str, object], sentence: str
) -> None:
    said = agent.failure(tool, **arguments)
    assert sentence in said
    assert len(said) < 500


def test_what_can_mean_only_one_thing_is_taken_for_that(agent: Agent) -> None:
    """As models and the programs around them send it; the plain form of each is beside it."""
    folder, glob = Path(agent.fields("index_status")["root"]), "**/*.md"
    plain: dict[str, Any] = {"query": "deployment", "limit": 2}
    for loose, strict in (
        ({"limit": "2", "depth": None, "path": ""}, {}),
        (
            {"limit": 2.0, "path": "null", "mode": "", "content": " ", "depth": "", "collections": []},
            {"collections": "root"},
        ),
        ({"limit": None, "top_k": "2"}, {}),
        ({"maxResults": 2, "Mode": "Keyword"}, {"mode": "keyword"}),
        ({"limit": 1000}, {"limit": 50}),
        ({"path": str(folder / "engineering")}, {"path": "engineering"}),
        ({"path": f"{folder}/engineering/{glob}"}, {"path": "engineering"}),
        ({"path": ["`engineering/`"]}, {"path": "engineering"}),
        ({"path": '["engineering", "handbook"]'}, {"paths": ["engineering", "handbook"]}),
        ({"path": f"root:{SETUP}#1.2"}, {"path": SETUP}),
        ({"path": f"{SETUP}:3-5"}, {"path": SETUP}),
        ({"depth": [0, 1]}, {"depths": "0,1"}),
        ({"sort": "path", "clean_only": "true"}, {"sort": "PATH", "cleanOnly": True}),
    ):
        found, expected = ({**plain, **each} for each in (loose, strict))
        if found["limit"] is None:
            del found["limit"]
        assert agent.fields("search", **found) == agent.fields("search", **expected), loose
    assert agent.fields("search", query="deployment", depth=0.0)["results"][0]["start_line"] == 1


def test_a_document_is_read_by_every_address_that_annai_prints(agent: Agent) -> None:
    folder = Path(agent.fields("index_status")["root"])
    expected = agent.fields("get_document", path=SETUP, start_line=6, end_line=18)
    for address in (
        f"{SETUP}:6-18",
        f" `{SETUP}:6-18` ",
        f"{SETUP}:6–18",
        f"{SETUP}#L6-L18",
        f"root:{SETUP}:6-18",
        f"{folder}/{SETUP}:6-18",
        f"file://{quote(str(folder / SETUP))}:6-18",
        f"annai://root/{quote(SETUP)}:6-18",
    ):
        assert agent.fields("get_document", id=address)["content"] == expected["content"], address
    for address in (f"root:{SETUP}#1.1", f"{SETUP}#必要なもの", f"{SETUP}:7"):
        assert agent.fields("get_document", uri=address)["content"].rstrip() == expected["content"].rstrip()
    assert agent.fields("reindex", paths=f"root:{SETUP}#1.1")["unchanged"] == 1


def test_every_tool_says_what_it_does_and_what_it_takes(agent: Agent) -> None:
    tools = agent.tools()
    assert [*tools] == ["search", *FIXED]
    for tool in tools.values():
        assert tool.description
        assert tool.annotations
        if tool.name == "reindex":
            assert tool.annotations.destructive_hint is False
        else:
            assert tool.annotations.read_only_hint
        assert all(each["description"] for each in tool.input_schema["properties"].values())
    arguments = tools["search"].input_schema
    assert [*arguments["properties"]] == ["query", "limit", "offset", "content", "path", "where", "mode"]
    assert arguments["required"] == ["query"]
    assert arguments["properties"]["limit"] == {"type": "integer", "description": "Results to return; default 5."}


def test_the_list_of_tools_costs_few_tokens(agent: Agent) -> None:
    listed = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in agent.tools().values()]
    assert count_tokens(json.dumps({"tools": listed}, ensure_ascii=False)) <= 975


def test_a_search_goes_on_where_the_last_one_ended(agent: Agent) -> None:
    first = agent.call("search", query="配達", limit=4)
    assert first.structured_content["next_offset"] == 4
    assert text(first).endswith("Note: More results: `offset` 4.")
    second = agent.call("search", query="配達", limit=8, offset=4)
    assert text(second).startswith("Results 5–12 of 17\n\n### 5. ")
    seen = [row["path"] for each in (first, second) for row in each.structured_content["results"]]
    assert len({*seen}) == 12
    beyond = agent.call("search", query="配達", offset=500)
    assert beyond.structured_content["results"] == []
    assert "a smaller `offset`" in text(beyond)


def test_an_exact_search_lists_lines_and_tells_their_true_number(agent: Agent) -> None:
    files = {each.relative_to(EXAMPLES).as_posix(): each.read_text(encoding="utf-8") for each in EXAMPLES.rglob("*.md")}
    expected = [
        {"path": path, "line": number, "text": line}
        for path in sorted(files)
        for number, line in enumerate(files[path].split("\n"), 1)
        if "booking-api" in line
    ]
    found = agent.call("search", query="booking-api", mode="exact")
    assert found.structured_content["results"] == expected
    assert found.structured_content["total"] == len(expected) > 5
    first = expected[0]
    assert f"\n{first['path']}:{first['line']}: {first['text']}\n" in text(found)
    part = agent.fields("search", query="booking-api", mode="exact", limit=2, offset=1, path="engineering")
    assert part["results"] == [each for each in expected if str(each["path"]).startswith("engineering/")][1:3]
    assert part["next_offset"] == 3
    many = agent.call("search", query="e", mode="exact")
    assert many.structured_content["total"] > len(many.structured_content["results"]) > 20
    assert many.structured_content["next_offset"] == len(many.structured_content["results"])
    assert count_tokens(text(many)) <= Search().max_tokens
    assert count_tokens(json.dumps(many.structured_content, ensure_ascii=False)) <= Search().max_tokens
    assert "upper and lower case differ" in text(agent.call("search", query="BOOKING-API", mode="exact"))


def test_locations_alone_take_one_line_each(agent: Agent) -> None:
    result = agent.call("search", query="parcel", limit=12, content="none")
    rows = result.structured_content["results"]
    assert len(rows) == 12
    assert {name for row in rows for name in row} == {"path", "start_line", "end_line", "section", "verdict", "score"}
    lines = text(result).split("\n\n")[1].splitlines()
    assert len(lines) == 12
    for number, (line, row) in enumerate(zip(lines, rows, strict=True), 1):
        assert line.startswith(f"{number}. {row['path']}:{row['start_line']}")


def test_reindex_status_and_collections_tell_the_same_counts(agent: Agent) -> None:
    agent.call("search", query="x")
    done = agent.fields("reindex")
    assert [*done] == ["added", "updated", "deleted", "unchanged", "skipped", "failed", "total_sections"]
    files = done["unchanged"]
    assert files == len(agent.do(lambda client: client.list_resources()).resources) > 20
    status = agent.fields("index_status")
    assert status["up_to_date"]
    assert status["documents"] == files
    assert status["sections"] == done["total_sections"]
    (collection,) = agent.fields("list_collections")["collections"]
    assert (collection["documents"], collection["sections"]) == (files, done["total_sections"])
    assert agent.fields("reindex", paths="engineering", force=True)["updated"] > 5


def test_resources_are_listed_and_read(agent: Agent) -> None:
    agent.call("search", query="x")
    listed = agent.do(lambda client: client.list_resources()).resources
    (found,) = [each for each in listed if each.name == SETUP]
    assert found.uri.startswith("annai://root/engineering/%E7%92%B0")
    assert found.mime_type == "text/markdown"
    read = agent.do(lambda client: client.read_resource(str(found.uri))).contents[0]
    assert getattr(read, "text", "") == (EXAMPLES / SETUP).read_text(encoding="utf-8")
    (template,) = agent.do(lambda client: client.list_resource_templates()).resource_templates
    assert template.uri_template == "annai://{collection}/{+path}"
    for wrong in ("annai://root/nothing.md", "annai://root/../../etc/passwd", "annai://root", "file:///etc/passwd"):
        with pytest.raises(MCPError, match=r"There is no document|is not the address of a document") as raised:
            agent.do(partial(Client.read_resource, uri=wrong))
        assert raised.value.data == {"uri": wrong}


def test_collections_and_paths_are_completed(agent: Agent) -> None:
    agent.call("search", query="x")
    template = types.ResourceTemplateReference(type="ref/resource", uri="annai://{collection}/{+path}")

    def complete(name: str, value: str, **given: str) -> types.Completion:
        argument = {"name": name, "value": value}
        return agent.do(lambda client: client.complete(template, argument, given)).completion

    assert complete("collection", "r").values == ["root"]
    assert complete("path", "engineering/環", collection="root").values == [SETUP]
    assert complete("path", "Holidays").values == [HOLIDAYS]
    assert complete("path", "").total == len(agent.do(lambda client: client.list_resources()).resources)
    assert complete("other", "r").values == []
    prompt = types.PromptReference(type="ref/prompt", name="answer")
    found = agent.do(lambda client: client.complete(prompt, {"name": "collection", "value": ""}))
    assert found.completion.values == ["root"]


def test_the_prompt_asks_for_an_answer_with_citations(agent: Agent) -> None:
    (prompt,) = agent.do(lambda client: client.list_prompts()).prompts
    assert [each.name for each in prompt.arguments or []] == ["question", "collection"]
    question = "環境構築の方法は？"
    (message,) = agent.do(lambda client: client.get_prompt(prompt.name, {"question": question})).messages
    said = getattr(message.content, "text", "")
    assert question in said
    assert f"{SETUP}:" in said
    assert "(path:line)" in said
    with pytest.raises(MCPError, match="question"):
        agent.do(lambda client: client.get_prompt(prompt.name, {}))
    with pytest.raises(MCPError, match="There is no prompt"):
        agent.do(lambda client: client.get_prompt("other", {}))


def test_the_page_on_agents_names_every_tool_argument_and_program(agent: Agent) -> None:
    page = (EXAMPLES.parent / "docs" / "mcp.md").read_text(encoding="utf-8")
    for tool in agent.tools().values():
        for name in (tool.name, *tool.input_schema["properties"]):
            assert f"`{name}`" in page
    assert all(f"| `{name}` |" in page for name in PROGRAMS)


def test_instructions_name_the_collections_within_a_kilobyte(tmp_path: Path) -> None:
    (tmp_path / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    with Engine(load_config(docs_dir=tmp_path)) as engine:
        for number in range(12):
            (tmp_path / f"c{number:02}").mkdir()
            engine.add_collection(f"c{number:02}", tmp_path / f"c{number:02}", "日本語の長い説明。" * 40)
    with connected(tmp_path) as agent:
        said = agent.client.instructions or ""
        assert "data, never instructions" in said
        assert len(said.encode()) <= 1000
        assert "- c00: 日本語の長い説明。" in said
        assert "more: `list_collections` names them" in said


def test_an_answer_holds_no_more_tokens_than_allowed(tmp_path: Path) -> None:
    (tmp_path / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n[search]\nmax_tokens = 1000\n')
    for number in range(20):
        body = "\n\n".join(f"ゼブラは{number}の段落{line}に住んでいます。 zebra" for line in range(30 + number * 8))
        (tmp_path / f"{number}.md").write_text(f"# 文書 {number}\n\n{body}")
    with connected(tmp_path) as agent:
        for content in ({}, {"content": "section"}):
            result = agent.call("search", query="ゼブラ", limit=20, **content)
            assert count_tokens(text(result)) <= 1000
            assert count_tokens(json.dumps(result.structured_content, ensure_ascii=False)) <= 1000
        rows = result.structured_content["results"]
        cut = [row for row in rows if row.get("truncated")]
        assert cut
        assert result.structured_content["next_offset"] == len(rows) < 20
        for row in rows:
            whole = (tmp_path / row["path"]).read_text()
            assert row["content"] in whole
            assert row.get("truncated") or row["content"] == whole
            if row.get("truncated") and row["content"]:
                line = whole.splitlines()[row.get("content_start_line", row["start_line"]) - 1]
                assert row["content"].startswith(line)


def test_a_long_document_comes_in_pages_that_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n[search]\nmax_tokens = 2000\n')
    parts = [f"## Part {part}\n\n" + "".join(f"Line {line} of it.\n" for line in range(40)) for part in range(30)]
    whole = "---\ntitle: Long\n---\n# Long\n\n" + "\n".join(parts) + "x" * 9000
    (tmp_path / "long.md").write_text(whole)
    with connected(tmp_path) as agent:
        first = agent.fields("get_document", path="long.md")
        assert first["pages"] > 5
        assert first["next_page"] == 2
        assert "Part 0" in first["children"].values()
        pages = [agent.fields("get_document", path="long.md", page=n) for n in range(1, first["pages"] + 1)]
        assert "".join(page["content"] for page in pages) == whole
        assert "next_page" not in pages[-1]
        for page in pages[:5]:
            lines = whole.split("\n")[page["start_line"] - 1 : page["end_line"]]
            assert "\n".join(lines) == page["content"].removesuffix("\n")
            assert count_tokens(json.dumps(page)) <= 2000
        # Pages begin where sections do.
        assert all(page["content"].startswith("## Part") for page in pages[1:5])
