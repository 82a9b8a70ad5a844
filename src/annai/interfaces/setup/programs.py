"""Which programs can use annai, and how are they configured? One table; docs/mcp.md says where each row was found."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from annai.interfaces.setup.edits import Form
from annai.interfaces.setup.values import Json

Level = Literal["project", "user"]
"""Whether a file holds the servers of one project, or of all projects of a user."""

Folder = Callable[[], Path]


def _home(*parts: str) -> Folder:
    return lambda: Path.home().joinpath(*parts)


def _config(*parts: str, windows: tuple[str, ...] = ()) -> Folder:
    """In `~/.config`, also on macOS; on Windows, where `windows` names another place, there."""
    if windows and os.name == "nt":
        return lambda: _windows_folder().joinpath(*windows)
    return lambda: Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config").joinpath(*parts)


def _application(*parts: str) -> Folder:
    """Where desktop programs keep their settings."""
    if sys.platform == "darwin":
        return _home("Library", "Application Support", *parts)
    return _config(*parts, windows=parts)


def _named(variable: str, folder: Folder) -> Folder:
    """The folder that an environment variable names, or else this one."""
    return lambda: Path(os.environ.get(variable) or folder())


def _windows_folder() -> Path:
    return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")


@dataclass(frozen=True, slots=True)
class Program:
    """A program with an agent in it, and how it is configured."""

    title: str
    next_step: str
    """What the user has to do after the file is written."""
    folder: Folder
    """Its settings' folder. Where its own folder exists, the program is installed."""
    is_own: bool = field(default=True, kw_only=True)
    """Whether no other program uses that folder; if one does, only a file in it tells."""
    user: tuple[str, ...] = ()
    """Its file for all projects, from its folder; if there are several names, the first that exists is used."""
    project: tuple[str, ...] = ()
    """Its file for one project, from the workspace's root; likewise."""
    commands: tuple[str, ...] = ()
    """Its own commands: where one is on PATH, the program is installed."""
    form: Form = "json"
    rejects_comments: bool = False
    """Whether it is known to reject a JSON file that has comments or trailing commas."""
    section: tuple[str, ...] = ("mcpServers",)
    """The keys that lead to its servers."""
    other_section: tuple[str, ...] = ()
    """Other keys that lead there, in files that have them already."""
    command_key: str = "command"
    one_command: bool = False
    """Whether the command and its arguments are one list."""
    extra: dict[str, Json] = field(default_factory=dict)
    """What an entry needs besides the command."""
    url_key: str = "url"
    """The key for the address of a server over HTTP; empty if the program's file takes none."""
    headers_key: str = "headers"
    http_extra: dict[str, Json] = field(default_factory=dict)
    """What such an entry needs besides the address."""


_CODE = ("Code", "User")

PROGRAMS: dict[str, Program] = {
    "claude-code": Program(
        "Claude Code",
        "Start `claude` in this folder and allow the server; `/mcp` shows it.",
        _home(),
        is_own=False,
        user=(".claude.json",),
        project=(".mcp.json",),
        commands=("claude",),
        rejects_comments=True,
        extra={"type": "stdio"},
        http_extra={"type": "http"},
    ),
    "claude-desktop": Program(
        "Claude Desktop",
        "Quit Claude Desktop and start it again.",
        _application("Claude"),
        user=("claude_desktop_config.json",),
        url_key="",
    ),
    "cursor": Program(
        "Cursor",
        "Open this folder in Cursor and enable the server in its settings, under MCP.",
        _home(".cursor"),
        user=("mcp.json",),
        project=(".cursor/mcp.json",),
        commands=("cursor", "cursor-agent"),
    ),
    "vscode": Program(
        "VS Code",
        "Open this folder in VS Code and start the server from the command “MCP: List Servers”.",
        _application(*_CODE),
        user=("mcp.json",),
        project=(".vscode/mcp.json",),
        commands=("code",),
        section=("servers",),
        extra={"type": "stdio"},
        http_extra={"type": "http"},
    ),
    "codex": Program(
        "Codex",
        "Start `codex` in this folder and trust it; `/mcp` shows the server.",
        _named("CODEX_HOME", _home(".codex")),
        user=("config.toml",),
        project=(".codex/config.toml",),
        commands=("codex",),
        form="toml",
        section=("mcp_servers",),
        headers_key="http_headers",
    ),
    "gemini-cli": Program(
        "Gemini CLI",
        "Start `gemini` in this folder; `/mcp` shows the server.",
        _home(".gemini"),
        is_own=False,
        user=("settings.json",),
        project=(".gemini/settings.json",),
        commands=("gemini",),
        url_key="httpUrl",
    ),
    "windsurf": Program(
        "Windsurf",
        "Refresh the servers in Windsurf's MCP toolbar.",
        _home(".codeium", "windsurf"),
        user=("mcp_config.json",),
        commands=("windsurf",),
        url_key="serverUrl",
    ),
    "zed": Program(
        "Zed",
        "Open this folder in Zed; Settings, AI, MCP Servers shows the server.",
        _config("zed", windows=("Zed",)),
        user=("settings.json",),
        project=(".zed/settings.json",),
        commands=("zed", "zeditor"),
        section=("context_servers",),
    ),
    "opencode": Program(
        "opencode",
        "Start `opencode` in this folder; `opencode mcp list` shows the server.",
        _config("opencode"),
        user=("opencode.json", "opencode.jsonc"),
        project=("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        commands=("opencode",),
        section=("mcp",),
        other_section=("mcp", "servers"),
        one_command=True,
        extra={"type": "local", "enabled": True},
        http_extra={"type": "remote", "enabled": True},
    ),
    "copilot-cli": Program(
        "GitHub Copilot CLI",
        "Start `copilot` in this folder; `/mcp show` shows the server.",
        _named("COPILOT_HOME", _home(".copilot")),
        user=("mcp-config.json",),
        project=(".github/mcp.json",),
        commands=("copilot",),
        extra={"type": "stdio", "tools": ["*"]},
        http_extra={"type": "http", "tools": ["*"]},
    ),
    "cline": Program(
        "Cline in VS Code",
        "Cline's MCP Servers panel shows the server.",
        _application(*_CODE, "globalStorage", "saoudrizwan.claude-dev"),
        user=("settings/cline_mcp_settings.json",),
        http_extra={"type": "streamableHttp"},
    ),
    "cline-cli": Program(
        "Cline CLI",
        "Start `cline`; `cline mcp` shows the server.",
        _named("CLINE_DIR", _home(".cline")),
        user=("data/settings/cline_mcp_settings.json",),
        commands=("cline",),
        http_extra={"type": "streamableHttp"},
    ),
    "roo": Program(
        "Roo Code",
        "Open this folder in VS Code; Roo Code's MCP settings show the server.",
        _application(*_CODE, "globalStorage", "rooveterinaryinc.roo-cline"),
        user=("settings/mcp_settings.json",),
        project=(".roo/mcp.json",),
        http_extra={"type": "streamable-http"},
    ),
    "kiro": Program(
        "Kiro",
        "Open this folder in Kiro; its MCP panel, or `/mcp` in its CLI, shows the server.",
        _home(".kiro"),
        user=("settings/mcp.json",),
        project=(".kiro/settings/mcp.json",),
        commands=("kiro", "kiro-cli"),
    ),
    "qwen-code": Program(
        "Qwen Code",
        "Start `qwen` in this folder; `/mcp` shows the server.",
        _home(".qwen"),
        user=("settings.json",),
        project=(".qwen/settings.json",),
        commands=("qwen",),
        url_key="httpUrl",
    ),
    "goose": Program(
        "Goose",
        "Add this to config.yaml in Goose's settings folder, and start a new session.",
        _config("goose", windows=("Block", "goose", "config")),
        commands=("goose",),
        form="yaml",
        section=("extensions",),
        command_key="cmd",
        extra={"type": "stdio", "description": "Search this folder of documents", "enabled": True, "timeout": 300},
        url_key="uri",
        http_extra={
            "type": "streamable_http",
            "description": "Search this folder of documents",
            "enabled": True,
            "timeout": 300,
        },
    ),
    "amp": Program(
        "Amp",
        "Start `amp` in this folder and approve the server.",
        _config("amp"),
        user=("settings.json", "settings.jsonc"),
        project=(".amp/settings.json", ".amp/settings.jsonc"),
        commands=("amp",),
        section=("amp.mcpServers",),
    ),
    "lm-studio": Program(
        "LM Studio",
        "Enable the server in a chat of LM Studio, under Integrations.",
        _home(".lmstudio"),
        user=("mcp.json",),
        commands=("lms",),
    ),
    "antigravity": Program(
        "Antigravity",
        "Refresh the servers in Antigravity, under Manage MCP Servers.",
        _home(".gemini"),
        is_own=False,
        user=("config/mcp_config.json", "antigravity/mcp_config.json"),
        commands=("agy", "antigravity"),
        url_key="serverUrl",
    ),
    "junie": Program(
        "JetBrains Junie",
        "Open this folder in the IDE, or start `junie` in it, and allow the server.",
        _home(".junie"),
        user=("mcp/mcp.json",),
        project=(".junie/mcp/mcp.json",),
        commands=("junie",),
    ),
    "jetbrains": Program(
        "JetBrains AI Assistant",
        "Paste this in the IDE's settings: Tools, AI Assistant, Model Context Protocol (MCP), Add.",
        _application("JetBrains"),
    ),
}
"""The programs by the names that `annai setup` takes."""
