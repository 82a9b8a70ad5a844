"""Is annai ready for the programs that install it? The plugin, the registry's entry and the bundle say what is true."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.mcpb import build
from annai import __version__
from tests.test_docs import ROOT

PLUGIN = ROOT / "agents" / "claude-code"
SKILL = PLUGIN / "skills" / "search-documents" / "SKILL.md"
SNIPPET = ROOT / "agents" / "AGENTS.md"
TOOLS = ["search", "get_document", "list_documents", "reindex", "index_status"]


def read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def test_everything_names_this_version() -> None:
    entry = read(ROOT / "server.json")
    versions = [
        read(PLUGIN / ".claude-plugin" / "plugin.json")["version"],
        read(ROOT / "agents" / "mcpb.json")["version"],
        entry["version"],
        *(package["version"] for package in entry["packages"]),
    ]
    assert set(versions) == {__version__}


def test_the_marketplace_leads_to_the_plugin() -> None:
    (listed,) = read(ROOT / ".claude-plugin" / "marketplace.json")["plugins"]
    assert (ROOT / listed["source"]).samefile(PLUGIN)
    assert listed["name"] == read(PLUGIN / ".claude-plugin" / "plugin.json")["name"]
    assert read(PLUGIN / ".mcp.json")["mcpServers"]["annai"] == {"command": "annai", "args": ["mcp"]}


def test_the_skill_says_when_to_use_it() -> None:
    _, front_matter, body = SKILL.read_text(encoding="utf-8").split("---\n", 2)
    values = yaml.safe_load(front_matter)
    assert values["name"] == SKILL.parent.name
    assert 100 < len(values["description"]) <= 1024
    assert len(body.splitlines()) < 100


@pytest.mark.parametrize("page", [SKILL, SNIPPET], ids=["skill", "snippet"])
def test_what_agents_are_told_names_tools_and_arguments_that_exist(page: Path) -> None:
    told = set(re.findall(r"`([a-z_]+)`", page.read_text(encoding="utf-8")))
    others = {"path", "mode", "part", "offset", "content"}
    assert told - others <= set(TOOLS)
    assert {"search", "get_document"} <= told


def test_the_registry_entry_keeps_to_the_registry_rules() -> None:
    entry = read(ROOT / "server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert len(entry["description"]) <= 100
    # The registry looks for this in what PyPI shows, to see that both have one owner.
    assert f"mcp-name: {entry['name']} " in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_bundle_holds_what_it_needs_to_serve_a_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(build(tmp_path / "dist")) as archive:
        archive.extractall(tmp_path / "bundle")
    manifest = read(tmp_path / "bundle" / "manifest.json")
    assert (tmp_path / "bundle" / manifest["server"]["entry_point"]).is_file()
    run, folder, where, *command = manifest["server"]["mcp_config"]["args"]
    assert (run, folder, where) == ("run", "--directory", "${__dirname}")
    (tmp_path / "docs").mkdir()
    words = [word.replace("${user_config.folder}", str(tmp_path / "docs")) for word in command]
    handshake = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "bundle" / "src")},
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    tools = json.loads(done.stdout.splitlines()[-1])["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS == [tool["name"] for tool in manifest["tools"]]
