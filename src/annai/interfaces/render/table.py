"""How do rows fit into a terminal? As a table, or as lines that are broken between their parts."""

import re
from collections.abc import Iterable, Sequence

from annai.config import Config
from annai.interfaces.terminal import Screen, cells, echo, standard_output
from annai.text.escapes import escape_line

COLUMN_GAP = "  "

_NUMBER = re.compile(r"[\d.,]+|—")
"""What stands at the right of its column."""


def print_lines(lines: Iterable[Sequence[str]], config: Config) -> None:
    """Write lines to standard output, each a label and parts, between which it is broken if it does not fit."""
    screen = standard_output(config)
    for parts in lines:
        echo(screen.flow([escape_line(part) if screen.is_terminal else part for part in parts]), styled=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], config: Config, *, optional: Sequence[str] = ()
) -> None:
    """Draw a table on standard output.

    Where a terminal is too narrow, the `optional` columns are left out, and that is said; where that is not enough, the
    rows become a list.
    """
    screen = standard_output(config)
    table = [*zip(columns, *([escape_line(cell) for cell in row] for row in rows), strict=True)]
    narrow = [column for column in table if column[0] not in optional]
    if _table_width(table) <= screen.width:
        echo("\n".join(_table_lines(table, screen)), styled=True)
    elif _table_width(narrow) <= screen.width:
        left_out = f"A wider terminal also shows: {', '.join(optional)}."
        echo("\n".join([*_table_lines(narrow, screen), screen.show(left_out, dim=True)]), styled=True)
    else:
        for name, *values in [*zip(*table, strict=True)][1:]:
            named = [f"{column} {value}" for column, value in zip(columns[1:], values, strict=True) if value]
            echo(screen.show(name, bold=True), styled=True)
            echo(screen.flow(["  " + " ".join(named[:1]), *named[1:]], " · "), styled=True)


def _table_width(table: Sequence[Sequence[str]]) -> int:
    return sum(max(map(cells, column)) for column in table) + len(COLUMN_GAP) * (len(table) - 1)


def _table_lines(table: Sequence[Sequence[str]], screen: Screen) -> list[str]:
    """A table, given as columns that begin with their names; numbers stand at the right."""
    padded = []
    for column in table:
        width, is_number = max(map(cells, column)), all(map(_NUMBER.fullmatch, column[1:]))
        pads = [" " * (width - cells(cell)) for cell in column]
        padded.append([pad + cell if is_number else cell + pad for cell, pad in zip(column, pads, strict=True)])
    header, *lines = (COLUMN_GAP.join(row).rstrip() for row in zip(*padded, strict=True))
    return [screen.show(header, bold=True), screen.show("─" * _table_width(table), dim=True), *lines]
