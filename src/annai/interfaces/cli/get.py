"""`annai get`: show a document or a section."""

import re

import click

from annai.config import Config
from annai.errors import QueryError
from annai.interfaces.cli.options import open_fresh, project_command
from annai.interfaces.render import print_json, section_json, section_line
from annai.interfaces.terminal import echo, standard_output
from annai.types import Selection, StoredSection


@click.command()
@click.argument("reference", metavar="PATH|SECTION_ID")
@click.option("--whole", "part", flag_value="whole", help="Show the section's whole document.")
@click.option("--parent", "part", flag_value="parent", help="Show its parent section.")
@click.option("--children", "part", flag_value="children", help="List the sections directly inside it.")
@click.option("--lines", metavar="A:B", help="Show lines A to B of the document, counted from 1.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@project_command()
def command(config: Config, reference: str, part: str | None, lines: str | None, form: str) -> None:
    """Show a document or a section.

    PATH is a path as a search shows it. SECTION_ID is an id from a search's JSON, such
    as root:guide/setup.md#1.2.
    """
    if part and lines:
        raise click.UsageError("--lines applies to the whole document; drop --whole, --parent or --children.")
    with open_fresh(config) as project:
        place = project.locate(reference)
    if part == "children":
        children = place.children
        if form == "json":
            print_json([section_json(child) for child in children])
        for child in children if form == "text" else ():
            echo(section_line(child))
        return
    section, text = _chosen(place, part, lines)
    if form == "json":
        print_json({**section_json(section), "content": text})
    else:
        # A copy is the document itself; only a prompt must not follow on its last line.
        echo(text, nl=standard_output(config).is_terminal and not text.endswith("\n"))


def _chosen(place: Selection, part: str | None, lines: str | None) -> tuple[StoredSection, str]:
    """The section to show, and its text; the root's text is the whole file, front matter included."""
    if lines:
        return place.sections[0], _cut(place.document.text, lines)
    section = place.section
    if part == "whole":
        section = place.sections[0]
    elif part == "parent":
        section = place.parent or section
    return section, place.document.text if section.section.order == 0 else place.text(section)


def _cut(text: str, lines: str) -> str:
    """The lines A to B of a text, from `A:B`, `A:`, `:B` or `A`."""
    match = re.fullmatch(r"(\d{1,9})?(:)?(\d{1,9})?", lines)
    if not match or not (match[1] or match[3]):
        raise QueryError(f"{lines!r} is not a range of lines; write one like --lines 10:20.")
    first = int(match[1] or 1)
    last = int(match[3]) if match[3] else (None if match[2] else first)
    every = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)
    if first < 1 or (last is not None and last < first) or first > max(len(every), 1):
        raise QueryError(f"There are no lines {lines} in this document; it ends at line {len(every)}.")
    return "".join(every[first - 1 : last])
