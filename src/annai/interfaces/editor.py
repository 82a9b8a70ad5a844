"""How is a document opened in the user's editor, at the line?"""

import shlex
import subprocess
import sys
import threading
from pathlib import Path, PurePath

from annai.config import variable
from annai.errors import ConfigError

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

IN_A_TERMINAL = frozenset(
    "vi vim nvim vimx view nvi emacs nano rnano pico micro kak joe jed ne mg zile hx helix".split()
)
"""Editors that need a terminal, which a server does not have; `emacsclient` and the others open a window."""


def chosen_editor() -> str:
    """The editor that the user's environment names."""
    editor = variable(*EDITOR_VARIABLES)
    if not editor:
        raise ConfigError("No editor is set", 'set VISUAL or EDITOR, such as VISUAL="code" or EDITOR=vim.')
    return editor


def opens_a_window() -> bool:
    """Whether an editor is set that needs no terminal."""
    editor = variable(*EDITOR_VARIABLES)
    try:
        return bool(editor) and _name(_split(editor)[0]) not in IN_A_TERMINAL
    except ConfigError:
        return False


def editor_command(editor: str, file: Path, line: int) -> list[str]:
    """The command that opens a file in an editor, with the line as that editor takes it."""
    program, *options = _split(editor)
    name = _name(program)
    syntax = next((arguments for arguments, names in LINE_SYNTAX.items() if name in names), ("{file}",))
    # Not `format`: a file's name may have braces.
    placed = [each.replace("{line}", str(line)).replace("{file}", str(file)) for each in syntax]
    return [program.strip('"'), *options, *placed]


def open_window(arguments: list[str]) -> None:
    """Start an editor that opens a window, and do not wait for it."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own editor
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise cannot_start(arguments[0], error) from error
    # Somebody must take note of its end.
    threading.Thread(target=process.wait, name="editor", daemon=True).start()


def cannot_start(program: str, error: OSError) -> ConfigError:
    """What to say when an editor could not be started."""
    reason = (error.strerror or str(error)).lower()
    return ConfigError(f"The editor {program!r} could not be started ({reason})", "set VISUAL or EDITOR.")


def _split(editor: str) -> list[str]:
    try:
        return shlex.split(editor, posix=sys.platform != "win32") or [""]
    except ValueError as error:
        raise ConfigError(
            f"VISUAL or EDITOR cannot be read as a command: {editor!r} ({error})", "correct it."
        ) from error


def _name(program: str) -> str:
    return PurePath(program.strip('"')).name.lower().removesuffix(".exe").removesuffix(".cmd")
