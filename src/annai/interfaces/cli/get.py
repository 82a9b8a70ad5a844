"""`annai get`: show a document or a section."""

import re

import click

from annai.asking.addresses import from_here
from annai.config import Config
from annai.errors import NotFound, QueryError
from annai.interfaces.cli.completion import complete_documents
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import format_option, open_fresh, project_command
from annai.interfaces.render.notes import section_line
from annai.interfaces.render.records import content_json, print_json, section_json
from annai.interfaces.terminal import echo, standard_output, warn
from annai.text.escapes import escape_line
from annai.types import Selection


@click.command(
    cls=Command,
    examples=(
        "annai get guide/setup.md",
        "annai get guide/setup.md:44-60",
        "annai get guide/setup.md#install-it --parent",
        "annai get setup.md glossary",
    ),
)
@click.argument("references", metavar="REFERENCE...", nargs=-1, required=True, shell_complete=complete_documents)
@click.option("--whole", "part", flag_value="whole", help="Show the section's whole document.")
@click.option("--parent", "part", flag_value="parent", help="Show its parent section.")
@click.option("--children", "part", flag_value="children", help="List the sections directly inside it.")
@click.option("--lines", metavar="A:B", help="Show lines A to B of the document, counted from 1.")
@format_option(("text", "json"), "text")
@project_command()
def command(config: Config, references: tuple[str, ...], part: str | None, lines: str | None, form: str) -> None:
    """Show documents, sections or lines.

    REFERENCE is anything that annai prints: a path, or one with a line after it
    (guide/setup.md:44 is the whole section around that line, guide/setup.md:44-60 are
    these lines), a heading (guide/setup.md#install-it, with all that stands under it) or
    a section's number (guide/setup.md#1.2), an id (root:guide/setup.md#1.2) or an address
    (annai://root/guide/setup.md). A name that only one document has is enough: setup.md,
    or setup. Of several references, those that lead nowhere are named on standard error,
    and the exit status is 1; as JSON, several are a list.
    """
    if part and lines:
        raise click.UsageError("--lines applies to the whole document; drop --whole, --parent or --children.")
    places, missing = [], list[NotFound]()
    with open_fresh(config) as project:
        for reference in references:
            try:
                places.append((reference, project.locate(from_here(reference, config.root))))
            except NotFound as error:
                missing.append(error)
    values = [_values(place, part, lines) for _, place in places]
    if form == "json" and values:
        print_json(values if len(references) > 1 else values[0])
    for (reference, place), value in zip(places, values, strict=True) if form == "text" else ():
        if len(references) > 1:
            echo(f"==> {escape_line(reference)} <==")
        _print_text(place, value, is_alone=len(references) == 1, config=config)
    for each in missing[:-1]:
        warn(each)
    if missing:
        raise missing[-1]


Values = dict[str, object]


def _values(place: Selection, part: str | None, lines: str | None) -> Values | list[Values]:
    """What to show of one reference, as plain values; of its children, a list."""
    if part == "children":
        return [section_json(child) for child in place.children]
    return _other_part(place, part, lines) if part or lines else content_json(place)


def _print_text(place: Selection, values: Values | list[Values], *, is_alone: bool, config: Config) -> None:
    """Write one reference as text: the document itself, byte for byte, or a line for each of its children."""
    if isinstance(values, list):
        for child in place.children:
            echo(section_line(child))
        return
    text = str(values["content"])
    # Only what comes next, or a prompt, must not follow on its last line.
    echo(text, nl=not text.endswith("\n") and (not is_alone or standard_output(config).is_terminal))


def _other_part(place: Selection, part: str | None, lines: str | None) -> Values:
    """Something else of the document than the reference names; the root's text is the whole file."""
    root = place.sections[0]
    if lines:
        first, last, text = _cut(place.document.text, lines)
        return {**section_json(root), "start_line": first, "end_line": last, "file": place.file, "content": text}
    section = root if part == "whole" else place.parent or place.section
    text = place.document.text if section.section.order == 0 else place.text(section)
    return {**section_json(section), "file": place.file, "content": text}


def _cut(text: str, lines: str) -> tuple[int, int, str]:
    """The first and the last of some lines of a text, from `A:B`, `A:`, `:B` or `A`, and what they say."""
    match = re.fullmatch(r"(\d{1,9})?(:)?(\d{1,9})?", lines)
    if not match or not (match[1] or match[3]):
        raise QueryError(f"{lines!r} is not a range of lines", "write one like --lines 10:20.")
    first = int(match[1] or 1)
    last = int(match[3]) if match[3] else (None if match[2] else first)
    every = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)
    if first < 1 or (last is not None and last < first) or first > max(len(every), 1):
        raise QueryError(f"There are no lines {lines} in this document", f"it ends at line {len(every)}.")
    cut = every[first - 1 : last]
    return first, first + max(len(cut), 1) - 1, "".join(cut)
