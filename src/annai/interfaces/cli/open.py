"""`annai open`: open a document in an editor, at the line."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path, PurePath

import click

from annai.asking.addresses import from_here
from annai.config import Config, variable
from annai.errors import ConfigError, NotFound
from annai.interfaces.cli.options import open_fresh, project_command

EDITOR_VARIABLES = ("VISUAL", "EDITOR")

LINE_SYNTAX: dict[tuple[str, ...], frozenset[str]] = {
    ("+{line}", "{file}"): frozenset(
        "vi vim nvim vimx gvim mvim view nvi emacs emacsclient nano rnano pico micro kak joe jed ne mg zile gedit "
        "pluma xed bbedit".split()
    ),
    ("--goto", "{file}:{line}"): frozenset(
        "code code-insiders code-oss codium vscodium cursor windsurf positron trae kiro".split()
    ),
    ("{file}:{line}",): frozenset("subl sublime_text zed zeditor hx helix atom pulsar lite-xl geany".split()),
    ("--line", "{line}", "{file}"): frozenset(
        "idea pycharm charm webstorm goland phpstorm rubymine clion rider rustrover datagrip kate kwrite mate".split()
    ),
    ("-n{line}", "{file}"): frozenset({"notepad++"}),
}
"""How editors are told the line, and which of them are told so; to another one only the file is given."""


@click.command()
@click.argument("reference", metavar="REFERENCE")
@project_command()
@click.pass_context
def command(context: click.Context, config: Config, reference: str) -> None:
    """Open a document in your editor, at the line.

    REFERENCE is anything that `annai get` takes: guide/setup.md:44 opens at line 44,
    guide/setup.md#1.2 where that section begins. The editor is the one in the
    environment variable VISUAL or EDITOR.
    """
    editor = variable(*EDITOR_VARIABLES)
    if not editor:
        raise ConfigError('No editor is set; set VISUAL or EDITOR, such as VISUAL="code" or EDITOR=vim.')
    with open_fresh(config) as project:
        place = project.locate(from_here(reference, config.root))
        file = project.sources()[place.document.collection] / place.document.path
    if not file.is_file():
        raise NotFound(f"{file} is not on this machine; `annai get` shows it as it was indexed.")
    context.exit(_run(editor_command(editor, file, place.line)))


def editor_command(editor: str, file: Path, line: int) -> list[str]:
    """The command that opens a file in an editor, with the line as that editor takes it."""
    try:
        program, *options = shlex.split(editor, posix=sys.platform != "win32")
    except ValueError as error:
        raise ConfigError(f"VISUAL or EDITOR cannot be read as a command: {editor!r} ({error}).") from error
    name = PurePath(program.strip('"')).name.lower().removesuffix(".exe").removesuffix(".cmd")
    syntax = next((arguments for arguments, names in LINE_SYNTAX.items() if name in names), ("{file}",))
    # Not `format`: a file's name may have braces.
    placed = [each.replace("{line}", str(line)).replace("{file}", str(file)) for each in syntax]
    return [program.strip('"'), *options, *placed]


def _run(arguments: list[str]) -> int:
    try:
        process = subprocess.Popen(arguments)  # noqa: S603 - the user's own editor
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"The editor {arguments[0]!r} could not be started ({reason}); set VISUAL or EDITOR."
        ) from error
    # Ctrl-C is the editor's from now on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return process.wait()
