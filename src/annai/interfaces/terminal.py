"""How does text reach standard output? As it is for a program that reads it; escaped and in colour for people."""

import errno
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import click

from annai.config import Config
from annai.errors import AnnaiError
from annai.text import escapes
from annai.text.escapes import escape, escape_line

_SEQUENCE = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;;[^\x1b]*\x1b\\")
"""What `Screen` adds to a text: styles and links."""


_quiet = False
"""Whether only results and errors are wanted."""


def set_quiet(quiet: bool) -> None:
    """Say whether only results and errors are wanted from now on, in this process."""
    global _quiet  # noqa: PLW0603 - one command a process
    _quiet = quiet


def is_quiet() -> bool:
    """Whether only results and errors are wanted."""
    return _quiet


class OutputError(AnnaiError):
    """Standard output is closed, or cannot take more."""


class Screen(NamedTuple):
    """What text for people is written for: whether it is shown by a terminal, and in colour."""

    is_terminal: bool
    has_color: bool

    @property
    def width(self) -> int:
        """The columns of the terminal; what is piped is not cut."""
        if not self.is_terminal:
            return sys.maxsize
        from shutil import get_terminal_size  # only for a terminal

        return get_terminal_size((100, 24)).columns

    def show(self, text: str, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None) -> str:
        """A part of a line as it is shown here, in this style."""
        # Colour that somebody asked for in a pipe is shown by a terminal behind it.
        shown = escape_line(text) if self.is_terminal or self.has_color else text
        is_styled = self.has_color and (fg or bold or dim)
        return click.style(shown, fg=fg, bold=bold, dim=dim) if is_styled else shown

    def flow(self, parts: Sequence[str], separator: str = " ", indent: str = "  ") -> str:
        """Parts of a line, already as they are shown, joined; one that would not fit begins a new, indented line.

        So no number and no path is broken where there is a way around it.
        """
        lines = [parts[0]]
        for part in parts[1:]:
            if cells(lines[-1]) + cells(separator) + cells(part) > self.width:
                lines[-1] = lines[-1].rstrip()
                lines.append(indent + part)
            else:
                lines[-1] += separator + part
        return "\n".join(lines)

    def link(self, shown: str, file: Path) -> str:
        """A part of a line, already as it is shown, as a link to a file, where the terminal can follow one (OSC 8)."""
        if not (self.is_terminal and self.has_color and file.exists()):
            return shown
        from urllib.parse import quote  # only for a terminal

        # The terminal may be another machine's: the link says where the file is. Nothing in it is left unquoted.
        host = quote(os.uname().nodename) if hasattr(os, "uname") else ""
        url = file.absolute().as_uri().replace("file://", f"file://{host}", 1)
        return f"\x1b]8;;{url}\x1b\\{shown}\x1b]8;;\x1b\\"


def cells(shown: str) -> int:
    """How many columns a text takes on a terminal, without its styles and links."""
    return escapes.cells(_SEQUENCE.sub("", shown))


def standard_output(config: Config) -> Screen:
    """Standard output, with the colours that the settings ask for."""
    terminal = is_terminal(sys.stdout)
    return Screen(terminal, {"always": True, "never": False}.get(config.display.color, terminal))


def echo(text: object = "", *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Write text to standard output: every character of it, except that a terminal gets it escaped.

    `styled` text was escaped and styled by a `Screen`. With `err` it goes to standard error, always escaped, unless
    --quiet is given. Raises `OutputError` if standard output cannot be written.
    """
    if err and _quiet:
        return
    shown = escape(str(text)) if err or (not styled and is_terminal(sys.stdout)) else str(text)
    try:
        if sys.stdout is None and not err:
            raise OSError(errno.EBADF, "it is closed")
        # Otherwise click removes escape sequences where there is no terminal, and a copy differs from its document.
        click.echo(shown, err=err, nl=nl, color=True)
    except OSError as error:
        if err:
            # Nobody is left to tell.
            return
        if isinstance(error, BrokenPipeError):
            raise
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"The output cannot be written ({reason}).") from error


def say(text: object) -> None:
    """Say on standard output what was done, unless --quiet is given."""
    if not _quiet:
        echo(text)


def echo_line(text: str) -> None:
    """Write one line to standard output, escaped wherever that goes: it may be a log."""
    echo(escape_line(text))


def warn(sentence: object) -> None:
    """Say something on standard error, on one line."""
    echo(f"annai: {escape_line(str(sentence))}", err=True)


def remark(text: str, config: Config) -> None:
    """Say something on standard error that one may overlook: dim, where there are colours."""
    if not _quiet:
        is_dim = {"always": True, "never": False}.get(config.display.color, is_terminal(sys.stderr))
        shown = f"annai: {escape_line(text)}"
        click.echo(click.style(shown, dim=True) if is_dim else shown, err=True, color=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; None is one that is closed."""
    return stream is not None and stream.isatty()
