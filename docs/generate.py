"""Write docs/commands.md, docs/settings.md and docs/rpc.md from the program itself: python docs/generate.py."""

import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_origin

import click

from annai.interfaces.cli import cli
from annai.interfaces.rpc import METHODS, Service
from annai.project import OPERATIONS
from annai.settings import COLLECTIONS_TEXT, SECTIONS, default_text, explain
from annai.values import TypeHint, choices

DOCS = Path(__file__).parent


def commands_page() -> str:
    """Every command with its help."""
    lines = ["# Commands", "", "Generated from the program; `make docs` updates this page."]
    for name, command, context in _commands(cli, click.Context(cli, info_name="annai", **cli.context_settings)):
        lines += ["", f"## {name}", "", "```text", command.get_help(context).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Every setting with its meaning and default."""
    lines = [
        "# Settings",
        "",
        "Generated from the program; `make docs` updates this page. All settings are optional. annai reads them from",
        "`annai.toml` (`annai init` writes one), named by `--config PATH` or the variable `ANNAI_CONFIG`, or found in",
        "the current folder or above it. `[tool.annai]` in `pyproject.toml` works too. What a cloned repository may",
        "not set by itself, [security.md](security.md) says.",
    ]
    for name, section in SECTIONS.items():
        lines += ["", f"## [{name}]", "", "| key | default | meaning |", "|---|---|---|"]
        lines += [f"| `{item.name}` | `{default_text(item)}` | {explain(item)} |" for item in fields(section)]
    lines += ["", "## [collections.NAME.embedding]", "", *COLLECTIONS_TEXT]
    return "\n".join(lines) + "\n"


def rpc_page() -> str:
    """Every call that a server answers."""
    lines = [
        "# JSON-RPC",
        "",
        "Generated from the program; `make docs` updates this page. A server (`annai server start`) answers JSON-RPC",
        "2.0 at `/rpc`: one call or a batch of up to 100, by `POST`, with `Authorization: Bearer TOKEN` (the token is",
        "in `.annai/token`). Parameters go by name or in order; paths of folders are absolute. An error's `message` is",
        "a sentence that says what to do, and `data.kind` names its class in `annai.errors`. Answers are the values of",
        "[the Python API](python.md) as JSON. A call marked *waiting* may wait for the index, one marked *long* until",
        "everything is indexed.",
        "",
        "```sh",
        "curl -s -H \"Authorization: Bearer $(cat .annai/token)\" -H 'Content-Type: application/json' \\",
        '  -d \'{"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "apple"}}\' \\',
        "  http://127.0.0.1:24280/rpc",
        "```",
    ]
    for name, method in sorted(METHODS.items()):
        function = OPERATIONS[name].method if name in OPERATIONS else getattr(Service, name)
        signature = inspect.signature(function)
        lines += ["", f"## {name}", "", inspect.getdoc(function) or ""]
        if method.duration != "short":
            lines[-1] += f" (*{method.duration}*)"
        if method.hints:
            lines += ["", "| parameter | type | default |", "|---|---|---|"]
        for parameter, hint in method.hints.items():
            default = signature.parameters[parameter].default
            shown = "required" if default is inspect.Parameter.empty else f"`{json.dumps(default)}`"
            lines.append(f"| `{parameter}` | {_type_text(hint)} | {shown} |")
    return "\n".join(lines) + "\n"


def _type_text(hint: TypeHint) -> str:
    """A type as JSON has it, in words."""
    if allowed := choices(hint):
        return ", ".join(f"`{each}`" for each in allowed)
    inner = [each for each in get_args(hint) if each not in (type(None), Ellipsis)]
    if inner:
        text = _type_text(inner[0])
        origin: TypeHint = get_origin(hint)
        return f"a list of: {text}" if origin in (tuple, list, Sequence) else text
    names = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "absolute path"}
    return names[hint]


PAGES = {"commands.md": commands_page, "settings.md": settings_page, "rpc.md": rpc_page}


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield context.command_path, group, context
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield inner.command_path, command, inner


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
