"""Does the project's server speak to agents too? /mcp over HTTP, in both eras, behind the same checks as the rest."""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.agents import ERAS, Agent, text
from tests.conftest import Annai
from tests.loopback import eventually

BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project with the quick embedder, and a token for its server."""
    folder = tmp_path_factory.mktemp("http")
    (folder / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    (folder / "zebra.md").write_text("# The zebra\n\nEvery zebra is described here.")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """`annai mcp --http`, as a user starts it; the address it tells."""
    command = [sys.executable, "-m", "annai", "mcp", "--http", "--port", "auto"]
    environment = {**os.environ, "ANNAI_TOKEN": "open-sesame"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        assert "/mcp" in process.stdout.readline()
        found = re.search(r"http://\S+:\d+", process.stdout.readline())
        assert found
        yield found[0]
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in errors


@pytest.fixture(params=ERAS)
def agent(request: pytest.FixtureRequest, url: str) -> Iterator[Agent]:
    """A client on it that knows the token."""
    headers = {"Authorization": "Bearer open-sesame"}
    connection = create_mcp_http_client(headers=headers)
    agent = Agent(streamable_http_client(f"{url}/mcp", http_client=connection), request.param, around=connection)
    try:
        yield agent
    finally:
        agent.close()


def test_tools_resources_and_prompts_work_over_http(agent: Agent) -> None:
    assert agent.client.protocol_version == {"legacy": "2025-11-25", "auto": "2026-07-28"}[agent.client.mode]
    assert "search" in agent.tools()
    result = agent.call("search", query="zebra")
    assert "zebra.md:1" in text(result)
    assert agent.fields("get_document", path="zebra.md")["content"].startswith("# The zebra")
    assert agent.fields("reindex")["unchanged"] == 1
    read = agent.do(lambda client: client.read_resource("annai://root/zebra.md")).contents[0]
    assert getattr(read, "text", "").startswith("# The zebra")
    assert agent.do(lambda client: client.get_prompt("answer", {"question": "zebra?"})).messages
    assert "query must be between 1 and 10,000 characters" in agent.failure("search", query="x" * 100_000)


def test_clients_over_http_hear_of_changes(agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capabilities = agent.client.server_capabilities
    assert capabilities.tools
    assert capabilities.tools.list_changed is True
    if agent.client.mode != "legacy":
        return
    annai = Annai(folder)
    monkeypatch.setenv("ANNAI_TOKEN", "open-sesame")
    annai("collection", "add", "-n", "all", "-d", "All of it", "-s", ".")
    eventually(lambda: "notifications/tools/list_changed" in agent.notices)
    assert "all" in agent.tools()
    annai("collection", "delete", "-y", "-n", "all")


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, BODY, 401),
        ({"Authorization": "Bearer wrong"}, BODY, 401),
        ({"Authorization": "Bearer open-sesame", "Host": "evil.example.com"}, BODY, 403),
        ({"Authorization": "Bearer open-sesame", "Origin": "https://evil.example.com"}, BODY, 403),
        ({"Authorization": "Bearer open-sesame"}, BODY + b" " * 2_000_000, 413),
    ],
    ids=["no token", "wrong token", "other host", "other page", "too large"],
)
def test_strangers_are_turned_away(url: str, headers: dict[str, str], body: bytes, status: int) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    kept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    connection.request("POST", "/mcp", body, kept)
    assert connection.getresponse().status == status
    connection.close()


def test_a_request_with_half_of_an_emoji_is_answered_with_its_id(url: str) -> None:
    client = rb'{"name": "half \ud83d", "version": "1"}'
    params = b'{"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": ' + client + b"}"
    body = b'{"jsonrpc": "2.0", "id": 77, "method": "initialize", "params": ' + params + b"}"
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    connection.request("POST", "/mcp", body, {**headers, "Authorization": "Bearer open-sesame"})
    assert b'"id":77,"result"' in connection.getresponse().read()
    connection.close()


def test_a_second_server_says_where_agents_connect(url: str, folder: Path) -> None:
    assert f"{url}/mcp" in Annai(folder)("mcp", "--http", code=2).stderr


def test_a_port_needs_http(folder: Path) -> None:
    assert "--http" in Annai(folder)("mcp", "--port", "5000", code=2).stderr
    assert "neither a port" in Annai(folder)("mcp", "--http", "--port", "x", code=2).stderr


def test_a_server_that_no_agent_asks_does_not_load_the_sdk(folder: Path) -> None:
    code = "import annai.interfaces.server, sys; assert 'mcp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
