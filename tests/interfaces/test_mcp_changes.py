"""What does an agent see of changes? Collections and documents that come and go while its server runs."""

import asyncio
from pathlib import Path

import pytest
from mcp import Client

from annai.config import load_config
from annai.engine import Engine
from tests.agents import ERAS, connected
from tests.conftest import Annai, state_of
from tests.loopback import eventually

WITH_COLLECTIONS = ["get_document", "list_documents", "list_collections", "reindex", "index_status"]


@pytest.mark.parametrize("mode", ERAS)
def test_collections_are_tools_and_changes_are_noticed_while_running(tmp_path: Path, mode: str) -> None:
    (tmp_path / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    for name in ("api", "guide"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# About {name}\n\nEvery zebra of the {name} is described here.")
    annai = Annai(tmp_path)
    annai("collection", "add", "-n", "api", "-d", "What the API can do", "-s", "api")
    with connected(tmp_path, mode) as agent:
        assert "- api: What the API can do" in (agent.client.instructions or "")
        capabilities = agent.client.server_capabilities
        assert capabilities.tools
        assert capabilities.tools.list_changed is True
        tools = agent.tools()
        assert [*tools] == ["search", "api", *WITH_COLLECTIONS]
        assert (tools["api"].description or "").startswith("What the API can do")
        assert tools["search"].input_schema["properties"]["collections"]["items"]["enum"] == ["api"]
        assert {row["collection"] for row in agent.fields("api", query="zebra")["results"]} == {"api"}

        def change(*arguments: str) -> list[str]:
            """Have another process change a collection, and wait for the notice."""
            if mode == "legacy":
                before = agent.notices.count("notifications/tools/list_changed")
                annai(*arguments)
                eventually(lambda: agent.notices.count("notifications/tools/list_changed") > before)
            else:
                agent.do(lambda client: _next_event(client, annai, arguments))
            return [*agent.tools()]

        added = change("collection", "add", "-n", "guide", "-d", "How to begin", "-s", "guide")
        assert added == ["search", "api", "guide", *WITH_COLLECTIONS]
        found = agent.fields("search", query="zebra", collections=["guide"])["results"]
        assert {row["collection"] for row in found} == {"guide"}
        assert "one of api, guide" in agent.failure("search", query="zebra", collections=["other"])
        assert change("collection", "disable", "-n", "api") == ["search", "guide", *WITH_COLLECTIONS]
        assert "There is no tool 'api'" in agent.failure("api", query="zebra")
        assert change("collection", "delete", "-y", "-n", "guide") == ["search", *WITH_COLLECTIONS]
        assert "Every collection is disabled" in agent.failure("search", query="zebra")


@pytest.mark.parametrize(("choice", "count"), [("auto", 8), ("auto", 9), ("each", 9), ("one", 1)])
def test_few_collections_are_tools_and_many_are_an_argument(tmp_path: Path, choice: str, count: int) -> None:
    settings = f'[embedding]\nprovider = "hashing"\n[mcp]\ncollection_tools = "{choice}"\n'
    (tmp_path / "annai.toml").write_text(settings)
    names = [f"part{number}" for number in range(count)]
    with Engine(load_config(docs_dir=tmp_path)) as engine:
        for name in names:
            (tmp_path / name).mkdir()
            (tmp_path / name / "a.md").write_text(f"# About {name}\n\nA zebra of {name}.")
            engine.add_collection(name, tmp_path / name, f"What {name} is about")
    with connected(tmp_path, "auto") as agent:
        tools = agent.tools()
        is_each = choice == "each" or (choice, count) == ("auto", 8)
        assert [*tools] == ["search", *(names if is_each else ()), *WITH_COLLECTIONS]
        argument = tools["search"].input_schema["properties"]["collections"]
        assert (f"- {names[-1]}: What {names[-1]} is about" in argument["description"]) is not is_each
        assert argument["items"].get("enum") == (names if is_each else None)
        found = agent.fields("search", query="zebra", collection=names[-1])["results"]
        assert [(row["path"], row["collection"]) for row in found] == [(f"{names[-1]}/a.md", names[-1])]
        assert f"one of {', '.join(names)}" in agent.failure("search", query="zebra", collections="other")
        if is_each:
            assert [*tools["part0"].input_schema["properties"]] == ["query", "limit"]
            assert agent.fields("part0", query="zebra", mode="keyword", top_k=1)["results"][0]["path"] == "part0/a.md"


async def _next_event(client: Client, annai: Annai, arguments: tuple[str, ...]) -> None:
    async with client.listen(tools_list_changed=True) as events:
        await asyncio.get_running_loop().run_in_executor(None, lambda: annai(*arguments))
        async for _ in events:
            return


def test_clients_are_notified_when_the_list_of_resources_changes(tmp_path: Path) -> None:
    (tmp_path / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    (tmp_path / "a.md").write_text("# A\n\nzebra")
    with connected(tmp_path) as agent:
        agent.call("reindex")
        assert [each.name for each in agent.do(lambda client: client.list_resources()).resources] == ["a.md"]
        (tmp_path / "b.md").write_text("# B\n\nzebra")
        eventually(lambda: "notifications/resources/list_changed" in agent.notices)
        assert [each.name for each in agent.do(lambda client: client.list_resources()).resources] == ["a.md", "b.md"]


def test_a_first_search_indexes_by_itself_and_tells_how_far_it_is(tmp_path: Path) -> None:
    docs, data = tmp_path / "docs", tmp_path / "data" / "deep"
    docs.mkdir()
    for number in range(1500):
        (docs / f"{number}.md").write_text(f"# Note {number}\n\n" + f"zebra number {number} lives here. " * 60)
    reports: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    with connected(tmp_path, "auto", ["--docs-dir", str(docs), "--data-dir", str(data)]) as agent:
        found = agent.do(lambda client: client.call_tool("search", {"query": "zebra"}, progress_callback=note))
        assert len(found.structured_content["results"]) == 5
        assert agent.fields("index_status")["documents"] == 1500
    assert (data / "index.sqlite").exists()
    assert not (state_of(docs) / "index.sqlite").exists()
    assert reports
    assert [done for done, _, _ in reports] == sorted({done for done, _, _ in reports})
    assert "files indexed" in (reports[-1][2] or "")


def test_changes_are_seen_by_the_next_search_and_deleted_files_are_gone(tmp_path: Path) -> None:
    (tmp_path / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    file = tmp_path / "a.md"
    file.write_text("# A\n\nzebra")
    with connected(tmp_path) as agent:

        def found(word: str) -> list[str]:
            return [row["path"] for row in agent.fields("search", query=word, mode="keyword")["results"]]

        assert found("zebra") == ["a.md"]
        file.write_text("# A\n\ngiraffe")
        eventually(lambda: found("giraffe") == ["a.md"])
        assert found("zebra") == []
        (tmp_path / "b.md").write_text("# B\n\ngiraffe")
        file.unlink()
        eventually(lambda: found("giraffe") == ["b.md"])


def test_an_agent_can_renew_an_index_that_another_model_made(tmp_path: Path) -> None:
    settings = tmp_path / "annai.toml"
    settings.write_text('[embedding]\nprovider = "hashing"\n')
    (tmp_path / "a.md").write_text("# A\n\nzebra")
    Annai(tmp_path)("search", "zebra")
    settings.write_text('[embedding]\nprovider = "static"\n')
    with connected(tmp_path) as agent:
        found = agent.fields("search", query="zebra")
        assert found["results"]
        assert "still has the vectors of hashing-1/256" in found["notes"][0]
        assert agent.fields("get_document", path="a.md")["content"] == "# A\n\nzebra"
        agent.fields("reindex", force=True)
        found = agent.fields("search", query="zebra")
        assert found["results"]
        assert "still has the vectors" not in str(found.get("notes"))


def test_without_a_watcher_every_search_looks_at_the_disk_first(tmp_path: Path) -> None:
    (tmp_path / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n[watcher]\nenabled = false\n')
    with connected(tmp_path) as agent:
        for word in ("zebra", "giraffe", "lion"):
            (tmp_path / f"{word}.md").write_text(f"# A\n\n{word}")
            found = agent.fields("search", query=word, mode="keyword")
            # On a machine that is too busy to index it within a moment, the answer says so.
            assert found["results"] or "still being indexed" in found["notes"][0]
