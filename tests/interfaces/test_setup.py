"""Is annai added to an agent's program correctly, with nothing else in its configuration changed?"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.errors import ConfigError
from annai.interfaces.setup.edits import parse_json, set_json, set_toml
from annai.interfaces.setup.programs import PROGRAMS
from tests.conftest import Annai

PROJECT_FILES = {
    "claude-code": (".mcp.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".vscode/mcp.json", "servers"),
    "gemini-cli": (".gemini/settings.json", "mcpServers"),
}
ENTRY = {"command": "annai", "args": ["mcp", "--docs-dir", "/a/フォルダー"]}


@pytest.fixture
def annai(tmp_path: Path) -> Annai:
    """The program, in a folder with one document."""
    folder = tmp_path / "My docs"
    folder.mkdir()
    (folder / "zebra.md").write_text("# The zebra\n\nEvery zebra is described here.")
    return Annai(folder)


def shared_file(client: str) -> Path:
    home = Path(os.environ["HOME"])
    if client == "codex":
        return home / ".codex" / "config.toml"
    folder = "Library/Application Support" if sys.platform == "darwin" else ".config"
    return home / folder / "Claude" / "claude_desktop_config.json"


@pytest.mark.parametrize("client", PROJECT_FILES)
def test_a_project_file_gets_the_entry_and_keeps_the_rest(annai: Annai, client: str) -> None:
    path, section = PROJECT_FILES[client]
    file = annai.folder / path
    assert str(file) in annai("setup", client).stdout
    entry = json.loads(file.read_text())[section]["annai"]
    assert entry["args"][-3:] == ["mcp", "--docs-dir", str(annai.folder)]
    assert "already has this entry" in annai("setup", client).stdout
    kept = file.read_text()
    other = {"other": {"command": "x"}}
    file.write_text(json.dumps({"before": 1, section: other, "after": [2]}))
    said = annai("setup", client).stdout
    assert f"{file.name}.bak" in said
    assert json.loads(file.read_text()) == {"before": 1, section: {**other, "annai": entry}, "after": [2]}
    assert json.loads(file.with_name(f"{file.name}.bak").read_text()) == {"before": 1, section: other, "after": [2]}
    assert json.loads(kept)[section]["annai"] == entry


@pytest.mark.parametrize("client", ["claude-desktop", "codex"])
def test_a_shared_file_holds_every_project_under_its_own_name(annai: Annai, tmp_path: Path, client: str) -> None:
    other = tmp_path / "elsewhere" / "My docs"
    other.mkdir(parents=True)
    file = shared_file(client)

    def servers() -> dict[str, Any]:
        text = file.read_text()
        read = tomllib.loads(text) if client == "codex" else json.loads(text)
        return dict(read[PROGRAMS[client].section])

    annai("setup", client)
    Annai(other)("setup", client)
    assert "already has this entry" in Annai(other)("setup", client).stdout
    assert {name: entry["args"][-1] for name, entry in servers().items()} == {
        "annai-My-docs": str(annai.folder),
        "annai-My-docs-2": str(other),
    }


@pytest.mark.parametrize("client", PROGRAMS)
def test_print_shows_the_entry_and_writes_nothing(annai: Annai, client: str) -> None:
    shown = annai("setup", client, "--print")
    read = tomllib.loads(shown.stdout) if client == "codex" else json.loads(shown.stdout)
    (entry,) = read[PROGRAMS[client].section].values()
    assert entry["args"][-1] == str(annai.folder)
    assert [each.name for each in annai.folder.iterdir()] == ["zebra.md"]
    assert not shared_file(client).exists()


def test_what_is_written_starts_a_server_from_any_folder(annai: Annai, tmp_path: Path) -> None:
    annai("setup", "claude-code")
    entry = json.loads((annai.folder / ".mcp.json").read_text())["mcpServers"]["annai"]
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        cwd=tmp_path,
        input=json.dumps(call) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["title"] == "annai: My docs"


def test_a_project_with_its_own_settings_is_named_by_them(annai: Annai, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text(f'[project]\nroot = "{annai.folder}"\n')
    annai("setup", "claude-code", "--config", str(config))
    entry = json.loads((annai.folder / ".mcp.json").read_text())["mcpServers"]["annai"]
    assert entry["args"][-2:] == ["--config", str(config)]


def test_a_file_that_is_not_understood_is_left_alone(annai: Annai) -> None:
    file = annai.folder / ".mcp.json"
    for text in ("{ not json", "[]", '{"mcpServers": 5}'):
        file.write_text(text)
        assert "by hand" in annai("setup", "claude-code", code=1).stderr
        assert file.read_text() == text
        assert "annai" in json.loads(annai("setup", "claude-code", "--print").stdout)["mcpServers"]
    codex = shared_file("codex")
    codex.parent.mkdir(parents=True)
    for text in ("not toml", "mcp_servers = 5\n", 'mcp_servers = { other = { command = "x" } }\n'):
        codex.write_text(text)
        assert "by hand" in annai("setup", "codex", code=1).stderr
        assert codex.read_text() == text


def test_a_link_stays_a_link_and_a_mode_stays_the_same(annai: Annai, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text('{"mcpServers": {}}')
    real.chmod(0o600)
    (annai.folder / ".mcp.json").symlink_to(real)
    annai("setup", "claude-code")
    assert (annai.folder / ".mcp.json").is_symlink()
    assert "annai" in json.loads(real.read_text())["mcpServers"]
    assert real.stat().st_mode & 0o777 == 0o600


COMMENTED = """\
{
  // My servers
  "servers": {
    "one": { "command": "1", /* the first */ "args": [] }, // keep "this" { comment
    "two": {
      "command": "2" // and this one
    } // and this
  },
  "inputs": [], // trailing comma follows
}
"""


def test_comments_order_and_line_ends_of_json_stay() -> None:
    for text in (COMMENTED, COMMENTED.replace("\n", "\r\n")):
        changed = set_json(text, "servers", "annai", ENTRY)
        assert parse_json(changed)["servers"]["annai"] == ENTRY
        ours = [line for line in changed.splitlines() if line not in text.splitlines()]
        kept = [line for line in changed.splitlines() if line in text.splitlines()]
        # The line of the member before ours gets a comma, and nothing else is different.
        assert [line for line in text.splitlines() if line not in kept] == ["    } // and this"]
        assert ours[0] == "    }, // and this"
        assert "\r\n" in changed or "\r" not in text
        assert set_json(changed, "servers", "annai", ENTRY) == changed


def test_an_entry_that_is_there_keeps_what_a_user_added() -> None:
    text = '{"mcpServers": {"annai": {"command": "old", "env": {"A": "1"}}, "z": {}}}'
    changed = set_json(text, "mcpServers", "annai", ENTRY)
    assert json.loads(changed) == {"mcpServers": {"annai": {"env": {"A": "1"}, **ENTRY}, "z": {}}}


TOML = """\
# my settings
model = "o5"  # the best

[mcp_servers.other]   # keep
command = "x"

[mcp_servers.annai]
# set by me
command = "old"
args = [
  "mcp",  # a comment
  "--docs-dir", "/old",
]
startup_timeout_sec = 20

[profile]
args = ["not ours"]
"""


def test_comments_and_order_of_toml_stay() -> None:
    changed = set_toml(TOML, "mcp_servers", "annai", ENTRY)
    read = tomllib.loads(changed)
    assert read["mcp_servers"]["annai"] == {**ENTRY, "startup_timeout_sec": 20}
    assert read["profile"] == {"args": ["not ours"]}
    for line in ("# my settings", 'model = "o5"  # the best', "[mcp_servers.other]   # keep", "# set by me"):
        assert line in changed.splitlines()
    assert set_toml(changed, "mcp_servers", "annai", ENTRY) == changed
    added = set_toml(TOML, "mcp_servers", "annai-new", ENTRY)
    assert added.startswith(TOML)
    assert tomllib.loads(added)["mcp_servers"]["annai-new"] == ENTRY


NAMES = st.text(alphabet=st.sampled_from('ab"\\/{}[],: \n//漢'), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.none() | st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=2), max_size=3),
    st.sampled_from([None, 2, "\t"]),
)
def test_any_json_keeps_its_values(
    outer: dict[str, Any], servers: dict[str, Any] | None, indent: int | str | None
) -> None:
    before = {**outer, **({} if servers is None else {"servers": servers})}
    changed = set_json(json.dumps(before, indent=indent), "servers", "annai", ENTRY)
    expected = {**before, "servers": {**(servers or {}), "annai": ENTRY}}
    assert json.loads(changed) == expected
    assert [*json.loads(changed)] == [*expected]


@pytest.mark.parametrize("text", ["", "\n", "{}", "{ }", "// nothing yet\n", "{\n  // nothing yet\n}\n", '{"a": 1,}'])
def test_files_with_little_in_them_work_too(text: str) -> None:
    changed = set_json(text, "servers", "annai", ENTRY)
    assert parse_json(changed)["servers"] == {"annai": ENTRY}
    assert ("nothing yet" in changed) == ("nothing yet" in text)


def test_what_is_no_object_is_refused() -> None:
    for text in ("[1]", '{"servers": []}', '{"servers": {"annai": 1}}'):
        with pytest.raises(ConfigError, match="not an object"):
            set_json(text, "servers", "annai", ENTRY)
