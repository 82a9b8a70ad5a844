"""Write docs/commands.md and docs/settings.md from the program itself: python docs/generate.py."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click

from annai.interfaces.cli import cli
from annai.settings import COLLECTIONS_TEXT, SECTIONS, default_text, explain

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


PAGES = {"commands.md": commands_page, "settings.md": settings_page}


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
