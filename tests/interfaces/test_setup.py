"""Is annai added to an agent's program correctly, with nothing else in its configuration changed?"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args
from urllib.request import Request, urlopen

import pytest
import yaml

from annai import __version__
from annai.config import Config, load_config
from annai.interfaces.setup.aliases import ALIASES
from annai.interfaces.setup.edits import parse
from annai.interfaces.setup.entries import (
    apply_edit,
    is_set_up,
    levels,
    plan_edit,
    plan_removal,
    snippet,
    target,
    workspace,
)
from annai.interfaces.setup.programs import PROGRAMS, Level, Program
from annai.serving.pidfile import read_token
from tests.conftest import Annai

on_unix = pytest.mark.skipif(os.name == "nt", reason="links, modes and terminals are Unix's")


@pytest.fixture
def annai(tmp_path: Path) -> Annai:
    """The program, in a folder with one document."""
    folder = tmp_path / "My docs"
    folder.mkdir()
    (folder / "zebra.md").write_text("# The zebra\n\nEvery zebra is described here.")
    return Annai(folder)


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
CODE = "Library/Application Support/Code/User" if sys.platform == "darwin" else ".config/Code/User"
CLAUDE = "Library/Application Support/Claude" if sys.platform == "darwin" else ".config/Claude"
FILES: dict[str, tuple[str | None, str | None, str]] = {
    "claude-code": (".claude.json", ".mcp.json", "mcpServers"),
    "claude-desktop": (f"{CLAUDE}/claude_desktop_config.json", None, "mcpServers"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "vscode": (f"{CODE}/mcp.json", ".vscode/mcp.json", "servers"),
    "codex": (".codex/config.toml", ".codex/config.toml", "mcp_servers"),
    "gemini-cli": (".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", None, "mcpServers"),
    "zed": (".config/zed/settings.json", ".zed/settings.json", "context_servers"),
    "opencode": (".config/opencode/opencode.json", "opencode.json", "mcp"),
    "copilot-cli": (".copilot/mcp-config.json", ".github/mcp.json", "mcpServers"),
    "cline": (f"{CODE}/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", None, "mcpServers"),
    "cline-cli": (".cline/data/settings/cline_mcp_settings.json", None, "mcpServers"),
    "roo": (
        f"{CODE}/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        ".roo/mcp.json",
        "mcpServers",
    ),
    "kiro": (".kiro/settings/mcp.json", ".kiro/settings/mcp.json", "mcpServers"),
    "qwen-code": (".qwen/settings.json", ".qwen/settings.json", "mcpServers"),
    "goose": (None, None, "extensions"),
    "amp": (".config/amp/settings.json", ".amp/settings.json", "amp.mcpServers"),
    "lm-studio": (".lmstudio/mcp.json", None, "mcpServers"),
    "antigravity": (".gemini/config/mcp_config.json", None, "mcpServers"),
    "junie": (".junie/mcp/mcp.json", ".junie/mcp/mcp.json", "mcpServers"),
    "jetbrains": (None, None, "mcpServers"),
}
"""For every program, by its documentation: the user's file, the project's file, and the key of its servers."""

PLACES: list[tuple[str, Level]] = [
    (name, level)
    for name, (user, project, _) in FILES.items()
    for level, file in zip(get_args(Level), (project, user), strict=True)
    if file
]

EXISTING = {
    "json": """\
// Mine
{
  "theme": "dark", // a "comment" with { braces
  "SECTION": {
    /* another server */
    "other": { "command": "x", "args": ["--a", "b"] } // the last
  }, // and a trailing comma
}
""",
    "toml": """\
# mine
theme = "dark"  # a [comment]

[SECTION.other]  # another server
command = "x"
args = [
  "--a",  # and why
]
""",
}
EMPTY = {
    "json": '{\n    "theme": "dark" // mine\n}\n',
    "toml": '# mine\ntheme = "dark"\n',
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A project, which is the current folder."""
    for name in ("CODEX_HOME", "COPILOT_HOME", "CLINE_DIR", "APPDATA", "UV"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "My docs #1"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return load_config()


def read(program: Program, text: str) -> Any:  # noqa: ANN401 - any file
    """The values of a file, by another parser than annai's where there is one."""
    text = text.removeprefix("\ufeff")
    if program.form == "json":
        return parse("json", text)
    return tomllib.loads(text)


def file_of(config: Config, name: str, level: str) -> Path:
    user, project, _ = FILES[name]
    file = Path.home() / str(user) if level == "user" else config.root / str(project)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def test_every_program_is_tested() -> None:
    assert [*FILES] == [*PROGRAMS]


@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
@pytest.mark.parametrize(("name", "level"), PLACES)
def test_a_file_with_comments_gets_the_entry_once_and_is_as_before_when_it_is_removed(
    config: Config, name: str, level: Level, http: bool
) -> None:
    program, section = PROGRAMS[name], FILES[name][2]
    if http and not program.url_key:
        return
    file = file_of(config, name, level)
    existing = EXISTING[program.form].replace("SECTION", section)
    for text in (
        existing,
        EMPTY[program.form],
        "\ufeff" + existing,
        existing.replace("\n", "\r\n"),
    ):
        file.write_bytes(text.encode())
        place = target(config, program, level, http=http)
        assert place.file == file
        assert not is_set_up(place)
        apply_edit(plan_edit(place))
        changed = file.read_bytes().decode()
        before, after = read(program, text), read(program, changed)
        (ours,) = set(after[section]) - set(before.get(section, {}))
        entry = after[section].pop(ours)
        assert after == before or {key: each for key, each in after.items() if each} == before
        assert ours == ("annai" if level == "project" else "annai-My-docs--1")
        if http:
            assert entry[program.url_key] == "http://127.0.0.1:24280/mcp"
            assert entry[program.headers_key] == {"Authorization": f"Bearer {read_token(config)}"}
            assert program.command_key not in entry
        else:
            words = entry[program.command_key] if program.one_command else entry["args"]
            assert words[-3:] == ["mcp", "--docs-dir", str(config.root)]
        # Every comment is still there, and a second run changes nothing.
        assert is_set_up(place)
        for line in text.splitlines():
            comment = line.partition("//" if program.form == "json" else "#")[2]
            assert comment in changed
        assert not plan_edit(place).is_needed
        apply_edit(plan_removal(place))
        assert file.read_bytes().decode() == text
        assert not plan_removal(place).is_needed


@pytest.mark.parametrize(("name", "level"), PLACES)
def test_a_file_that_annai_made_is_deleted_with_its_last_entry(config: Config, name: str, level: Level) -> None:
    file = file_of(config, name, level)
    place = target(config, PROGRAMS[name], level)
    assert apply_edit(plan_edit(place)) is None
    assert read(PROGRAMS[name], file.read_text())
    apply_edit(plan_removal(place))
    assert not file.exists()
    assert [*config.root.iterdir()] == []


def test_switching_to_http_and_back_leaves_no_mixture(config: Config) -> None:
    for name, level in PLACES:
        program = PROGRAMS[name]
        if not program.url_key:
            continue
        file = file_of(config, name, level)
        apply_edit(plan_edit(target(config, program, level)))
        first = file.read_text()
        apply_edit(plan_edit(target(config, program, level, http=True)))
        (entry,) = read(program, file.read_text())[FILES[name][2]].values()
        assert program.command_key not in entry
        apply_edit(plan_edit(target(config, program, level)))
        assert file.read_text() == first


def test_opencode_keeps_the_servers_of_its_second_version_together(config: Config) -> None:
    file = config.root / "opencode.jsonc"
    text = '{\n  "mcp": {\n    "servers": { "other": { "type": "local", "command": ["x"] } } // two\n  }\n}\n'
    file.write_text(text)
    place = target(config, PROGRAMS["opencode"], "project")
    apply_edit(plan_edit(place))
    assert [*parse("json", file.read_text())["mcp"]["servers"]] == ["other", "annai"]
    apply_edit(plan_removal(place))
    assert file.read_text() == text


def test_the_workspace_is_the_repository_and_not_the_folder_of_documents(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = config.root / "docs" / "guide"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert workspace(load_config()) == inside
    assert workspace(load_config(docs_dir=config.root)) == inside
    (config.root / "docs" / "annai.toml").touch()
    assert workspace(load_config()) == inside.parent
    (config.root / ".git").mkdir()
    assert workspace(load_config()) == config.root
    assert workspace(load_config(docs_dir=inside)) == config.root


def test_under_uvx_the_entry_starts_uvx(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("uv", "uvx"):
        (tmp_path / tool).touch()
    monkeypatch.setenv("UV", str(tmp_path / "uv"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "cache" / "uv" / "archive-v0" / "a1b2"))
    entry = json.loads(snippet(target(config, PROGRAMS["cursor"], "project")))["mcpServers"]["annai"]
    assert entry["command"] == str(tmp_path / "uvx")
    assert entry["args"][-4:] == ["annai", "mcp", "--docs-dir", str(config.root)]


def test_setup_alone_lists_what_is_installed_and_set_up(annai: Annai) -> None:
    home = Path(os.environ["HOME"])
    (home / ".cursor").mkdir()
    (home / ".codeium" / "windsurf").mkdir(parents=True)
    quiet = {"PATH": ""}
    lines = annai("setup", environment=quiet).stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["cursor", "windsurf"]
    assert "claude-code" in lines[2]
    annai("setup", "--all", environment=quiet)
    assert (annai.folder / ".cursor" / "mcp.json").exists()
    lines = annai("setup", environment=quiet).stdout.splitlines()
    assert f"set up in {annai.folder / '.cursor' / 'mcp.json'}" in lines[0]
    assert f"set up in {home / '.codeium' / 'windsurf' / 'mcp_config.json'}" in lines[1]
    assert "Deleted" in annai("setup", "--all", "--remove", environment=quiet).stdout
    assert [each.name for each in annai.folder.iterdir()] == ["zebra.md"]
    assert "no entry" in annai("setup", "cursor", "--remove").stdout


def test_levels_that_a_program_does_not_have_are_refused(annai: Annai) -> None:
    assert "use --user" in annai("setup", "windsurf", "--project", code=2).stderr
    assert "leave out --http" in annai("setup", "claude-desktop", "--http", code=2).stderr
    assert "Name a program" in annai("setup", "--remove", code=2).stderr


def test_the_home_folder_is_no_project(annai: Annai) -> None:
    home = Annai(Path(os.environ["HOME"]))
    assert "change to a folder of documents" in home("setup", "cursor", code=2).stderr
    home("setup", "cursor", "--docs-dir", str(annai.folder))
    (entry,) = json.loads((home.folder / ".cursor" / "mcp.json").read_text())["mcpServers"].values()
    assert entry["args"][-1] == str(annai.folder)


@on_unix
def test_in_the_home_folder_a_terminal_is_asked_for_the_folder(annai: Annai) -> None:
    asked, answered = typed(Annai(Path.home()), f"{annai.folder}\n", "setup", "zed", "--print")
    assert "Folder of documents" in asked
    (entry,) = json.loads(answered)["context_servers"].values()
    assert entry["args"][-1] == str(annai.folder)


def test_two_folders_of_documents_in_one_workspace_have_an_entry_each(config: Config) -> None:
    docs = config.root / "docs"
    docs.mkdir()
    places = [target(load_config(docs_dir=folder), PROGRAMS["cursor"], "project") for folder in (config.root, docs)]
    for place in places:
        apply_edit(plan_edit(place))
        assert not plan_edit(place).is_needed
    servers = json.loads(places[0].file.read_text())["mcpServers"]
    assert {name: entry["args"][-1] for name, entry in servers.items()} == {
        "annai": str(config.root),
        "annai-docs": str(docs),
    }
    apply_edit(plan_removal(places[0]))
    assert [*json.loads(places[0].file.read_text())["mcpServers"]] == ["annai-docs"]
    # A folder that is gone, or a command without one, as people who share the file write it, is replaced.
    for words in (["mcp"], ["mcp", "--docs-dir", str(config.root / "gone")]):
        places[0].file.write_text(json.dumps({"mcpServers": {"annai": {"command": "annai", "args": words}}}))
        apply_edit(plan_edit(places[0]))
        assert [*json.loads(places[0].file.read_text())["mcpServers"]] == ["annai"]


def test_an_entry_over_http_reaches_the_server_with_its_token(annai: Annai) -> None:
    annai("server", "start", "--port", "auto")
    try:
        said = annai("setup", "cursor", "--http").stdout
        assert "do not commit it" in said
        file = annai.folder / ".cursor" / "mcp.json"
        assert file.stat().st_mode & 0o777 == 0o600
        entry = json.loads(file.read_text())["mcpServers"]["annai"]
        kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        request = Request(entry["url"], json.dumps(INITIALIZE).encode(), kinds | entry["headers"])  # noqa: S310
        with urlopen(request, timeout=60) as answer:  # noqa: S310 - the server that was just started
            assert "annai: My docs" in answer.read().decode()
    finally:
        annai("server", "stop")


@pytest.mark.parametrize("client", ["claude-desktop", "codex"])
def test_a_shared_file_holds_every_project_under_its_own_name(
    config: Config, tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "elsewhere" / config.root.name
    other.mkdir(parents=True)
    for folder in (config.root, other, config.root):
        monkeypatch.chdir(folder)
        place = target(load_config(), PROGRAMS[client], "user")
        apply_edit(plan_edit(place))
        assert not plan_edit(place).is_needed
    servers = read(PROGRAMS[client], place.file.read_text())[FILES[client][2]]
    assert {name: entry["args"][-1] for name, entry in servers.items()} == {
        "annai-My-docs--1": str(config.root),
        "annai-My-docs--1-2": str(other),
    }
    apply_edit(plan_removal(place))
    assert [*read(PROGRAMS[client], place.file.read_text())[FILES[client][2]]] == ["annai-My-docs--1-2"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_print_shows_the_entry_and_writes_nothing(config: Config, name: str) -> None:
    program = PROGRAMS[name]
    for level in levels(config, program):
        shown = read(program, snippet(target(config, program, level)))
        (entry,) = shown[FILES[name][2]].values()
        words = entry[program.command_key] if program.one_command else entry["args"]
        assert words[-1] == str(config.root)
    assert [*config.root.iterdir()] == []


def test_what_has_no_file_is_printed_to_paste(annai: Annai) -> None:
    done = annai("setup", "jetbrains")
    assert "annai-My-docs" in json.loads(done.stdout)["mcpServers"]
    assert "Paste this" in done.stderr
    done = annai("setup", "goose")
    (entry,) = yaml.safe_load(done.stdout)["extensions"].values()
    assert entry["args"] == ["mcp", "--docs-dir", str(annai.folder)]
    assert "Add this to config.yaml" in done.stderr
    assert "remove the entry where you added it" in annai("setup", "goose", "--remove").stdout


def test_what_is_written_starts_a_server_from_any_folder(annai: Annai, tmp_path: Path) -> None:
    annai("setup", "claude-code")
    entry = json.loads((annai.folder / ".mcp.json").read_text())["mcpServers"]["annai"]
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        cwd=tmp_path,
        input=json.dumps(INITIALIZE) + "\n",
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
        assert "by hand" in annai("setup", "claude-code", code=2).stderr
        assert file.read_text() == text
        assert "annai" in json.loads(annai("setup", "claude-code", "--print").stdout)["mcpServers"]
    codex = annai.folder / ".codex" / "config.toml"
    codex.parent.mkdir()
    for text in ("not toml", "mcp_servers = 5\n", "mcp_servers.annai = 5\n"):
        codex.write_text(text)
        assert "by hand" in annai("setup", "codex", code=2).stderr
        assert codex.read_text() == text


@on_unix
def test_a_link_stays_a_link_and_a_mode_stays_the_same(annai: Annai) -> None:
    real = annai.folder / "dotfiles.json"
    real.write_text('{"mcpServers": {}}')
    real.chmod(0o640)
    (annai.folder / ".mcp.json").symlink_to(real)
    annai("setup", "claude-code")
    assert (annai.folder / ".mcp.json").is_symlink()
    assert "annai" in json.loads(real.read_text())["mcpServers"]
    assert real.stat().st_mode & 0o777 == 0o640
    annai("setup", "claude-code", "--http")
    assert real.stat().st_mode & 0o777 == 0o600, "it contains a token now"


LINKS = [
    ("claude-code", ".mcp.json", "settings.json"),
    ("claude-code", ".mcp.json", "new.json"),
    ("cursor", ".cursor", "."),
    ("cursor", ".cursor", "new"),
]
"""A program, a link in the project, and where below a folder outside of it that leads."""


@on_unix
@pytest.mark.parametrize(("program", "link", "to"), LINKS)
def test_nothing_is_written_through_a_link_that_leads_out_unless_the_user_says_so(
    annai: Annai, tmp_path: Path, program: str, link: str, to: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "settings.json").write_text("{}")
    (annai.folder / link).symlink_to(outside / to)
    before = tree(outside)
    refused = annai("setup", program, stdin="y\n", code=2).stderr
    assert f"leads to {outside}" in refused
    assert "--yes" in refused
    assert tree(outside) == before
    asked, answered = typed(annai, "n\n", "setup", program)
    assert "Write there?" in asked
    assert answered.startswith("Left ")
    assert tree(outside) == before
    asked, answered = typed(annai, "y\n", "setup", program)
    assert answered.startswith(f"Wrote {outside}")
    written = tree(outside)
    assert "annai" in "".join(written.values())
    assert "--yes" in annai("setup", program, "--remove", code=2).stderr
    assert tree(outside) == written
    annai("setup", program, "--remove", "--yes")
    assert "annai" not in "".join(text for name, text in tree(outside).items() if ".bak" not in name)


@on_unix
def test_links_of_the_users_own_folder_are_followed_as_before(annai: Annai, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    (Path.home() / ".claude.json").symlink_to(real)
    annai("setup", "claude-code", "--user")
    assert "annai" in real.read_text()


@on_unix
def test_what_a_clone_can_plant_harms_neither_a_look_nor_a_backup(annai: Annai, tmp_path: Path) -> None:
    (annai.folder / ".cursor").mkdir()
    (annai.folder / ".cursor" / "mcp.json").symlink_to("/dev/zero")
    (annai.folder / ".mcp.json").write_text("{}")
    (annai.folder / ".mcp.json.bak").symlink_to(tmp_path / "outside")
    (annai.folder / ".kiro").symlink_to(".kiro")
    assert "not a regular file" in annai("setup").stdout
    assert ".mcp.json.bak2" in annai("setup", "claude-code").stdout
    assert not (tmp_path / "outside").exists()
    (annai.folder / "annai.toml").symlink_to(tmp_path / "outside")
    assert "is a link" in annai("init", "--force", code=2).stderr
    assert not (tmp_path / "outside").exists()


def tree(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def typed(annai: Annai, answer: str, *arguments: str) -> tuple[str, str]:
    """What is asked and answered at a terminal."""
    keys, terminal = os.openpty()
    os.write(keys, answer.encode())
    done = subprocess.run(
        [sys.executable, "-m", "annai", *arguments],
        cwd=annai.folder,
        stdin=terminal,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    os.close(keys)
    os.close(terminal)
    return done.stderr, done.stdout


@pytest.mark.parametrize("text", ['{\n  // mine\n  "mcpServers": {}\n}\n', '{\n"mcpServers": {},\n}\n'])
def test_a_file_that_its_program_rejects_is_not_changed_without_a_word(annai: Annai, text: str) -> None:
    (annai.folder / ".mcp.json").write_text(text)
    said = "Claude Code reads no comments and no trailing commas, so it rejects all of"
    for _ in range(2):
        assert said in annai("setup", "claude-code").stderr
    (annai.folder / ".vscode").mkdir()
    (annai.folder / ".vscode" / "mcp.json").write_text(text)
    assert annai("setup", "vscode").stderr == ""
    (annai.folder / ".mcp.json").write_text("\ufeff{}")
    assert annai("setup", "claude-code").stderr == ""


@pytest.mark.skipif(os.name == "nt", reason="makes a program of its own")
def test_annai_answers_to_its_predecessors_names_when_asked(tmp_path: Path) -> None:
    program = tmp_path / "annai"
    program.write_text(
        f"#!/bin/sh\nexec '{sys.executable}' -c 'import sys; sys.argv[0] = \"{program}\"; "
        'from annai.__main__ import main; main()\' "$@"\n'
    )
    program.chmod(0o755)

    def run(*command: str) -> str:
        done = subprocess.run([tmp_path / command[0], *command[1:]], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert run("annai", "setup", "aliases").splitlines() == [f"Wrote {tmp_path / name}." for name in ALIASES]
    assert [run(name, "--version") for name in ALIASES] == [f"annai, version {__version__}\n"] * 2
    assert "already answers" in run("annai", "setup", "aliases")
    assert len(run("annai", "setup", "aliases", "--remove").splitlines()) == 2
    assert not (tmp_path / "mdvec").exists()
    (tmp_path / "mdvec").write_text("somebody else's")
    assert "is another program" in run("annai", "setup", "aliases")
    assert "does not answer" in run("annai", "setup", "aliases", "--remove")
    assert (tmp_path / "mdvec").read_text() == "somebody else's"
