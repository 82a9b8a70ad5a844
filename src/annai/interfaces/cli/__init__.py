"""What can be typed? The program `annai`: its commands, and how it ends when something goes wrong."""

import atexit
import io
import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import click

from annai import __version__
from annai.errors import AnnaiError, NotFound
from annai.interfaces.cli.conventions import Group, color_option, quiet_option, verbose_option

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "search": ("search", "Search this folder by meaning and by words."),
    "get": ("get", "Show documents, sections or lines."),
    "open": ("open", "Open a document in your editor, or the page in your browser."),
    "status": ("status", "Show what is indexed, and what was left out."),
    "collection": ("collection", "Register folders as collections."),
    "tool": ("collection", ""),
    "import": ("imports", "Index a collection now, or rebuild it."),
    "index": ("index", "Show what waits to be indexed and what was, or index some files again."),
    "projects": ("projects", "List the projects that have an index, or forget one."),
    "store": ("store", "Check the index, compact it, or move it to another engine."),
    "server": ("server", "Run a server for this project."),
    "token": ("token", "Let others use this project's server."),
    "mcp": ("mcp", "Serve this project to an agent over MCP."),
    "setup": ("setup", "Let an agent search this project."),
    "model": ("model", "List and try embedding models."),
    "trust": ("trust", "Allow this project's files to reach beyond it."),
    "eval": ("evaluate", "Measure how well your own questions are answered."),
    "init": ("init", "Write annai.toml, with every setting explained."),
    "doctor": ("doctor", "Check the installation, this project and its index."),
    "completion": ("completion", "Print the script that completes commands in your shell."),
}
"""Command → the module beside this one whose `command` it is, imported when it is called, and its help in a line."""

HIDDEN = frozenset({"tool"})
"""Other names, from the programs annai descends from; they work and are not listed."""

COMPLETE_VARIABLE = "_ANNAI_COMPLETE"
"""What the script of `annai completion` sets when it asks; click answers then, and runs no command."""

NOTHING_FOUND, FAILED, INTERRUPTED = 1, 2, 130
"""The exit codes besides 0, as grep's: nothing was found (or a check found something wrong), an error, and Ctrl-C."""


class _LazyGroup(Group):
    """Loads a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order in which a new user meets them."""
        return [name for name in COMMANDS if name not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import it."""
        if cmd_name not in COMMANDS:
            return None
        return cast(click.Command, import_module(f"{__name__}.{COMMANDS[cmd_name][0]}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List them without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete their names without loading them."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=COMMANDS[name][1]) for name in names), *options]


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=(
        "annai search how do I roll back a bad deployment",
        "annai get guide/setup.md:44",
        "annai search --help",
    ),
)
@click.version_option(__version__, "-V", "--version", prog_name="annai")
@click.option("--config", type=click.Path(path_type=Path), help="The settings file (env: ANNAI_CONFIG).")
@color_option
@quiet_option
@verbose_option
@click.pass_context
def cli(ctx: click.Context, config: Path | None, color: str | None, quiet: bool, verbose: bool) -> None:
    """Search a folder of documents by meaning and by words, in Japanese and English.

    In any folder, run `annai search your question`: it indexes what it finds, then
    answers.

    The exit status is 0 if all went well, 1 if nothing was found (or a check found
    something wrong), 2 after an error, and 130 after Ctrl-C.
    """
    from annai.interfaces.terminal import set_quiet  # help needs none of it

    set_quiet(quiet)
    # Errors are told after that.
    ctx.call_on_close(lambda: set_quiet(False))
    ctx.obj = {"config": config, "color": color, "quiet": quiet, "verbose": verbose}


def main() -> None:
    """Run the program and leave it with its exit code."""
    _open_closed_streams()
    _speak_utf_8()
    # Before numpy comes: a search multiplies so little that several threads wait for one another longer than they work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # In a locale that is not UTF-8, what was typed arrives as escaped bytes.
    _leave(run([os.fsencode(each).decode("utf-8", "replace") for each in sys.argv[1:]]))


def run(arguments: list[str]) -> int:
    """Run one command line; every error becomes one sentence on standard error."""
    if COMPLETE_VARIABLE in os.environ:
        from annai.interfaces.cli.completion import register_shells

        register_shells()
    code = FAILED
    try:
        # Outside standalone mode click returns the code that ctx.exit was given, or what the command returned.
        result = cli.main(arguments, prog_name="annai", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        return _refused(error)
    except (KeyboardInterrupt, click.Abort) as error:
        return _stopped(error)
    except SystemExit:
        # How click ends when whoever read our output has left (`annai search … | head`): nothing is wrong.
        return 0
    except AnnaiError as error:
        _complain(error)
        code = NOTHING_FOUND if isinstance(error, NotFound) else FAILED
    except MemoryError:
        _complain("There is not enough memory for this; close other programs, or index fewer or smaller files.")
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Python's own wrapping of one that came while a class was being made.
            return _stopped(error)
        import logging

        logging.getLogger(__name__).debug("unexpected", exc_info=True)
        _complain(_sentence(error))
    finally:
        _drop_unwritten_output()
    return code


def _refused(error: click.ClickException) -> int:
    """Say what is wrong with what was typed; the exit code."""
    from annai.interfaces.terminal import echo

    shown = io.StringIO()
    error.show(shown)
    echo(shown.getvalue(), err=True, nl=False)
    return error.exit_code


def _complain(sentence: object) -> None:
    """Say what went wrong."""
    from annai.interfaces.terminal import warn  # help needs none of it

    warn(sentence)


def _leave(code: int) -> NoReturn:
    """End at once: to take everything apart that was loaded would take a tenth of a search's time."""
    if threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    _drop_unwritten_output()
    os._exit(code)


def _sentence(error: Exception) -> str:
    """What to say of an error that nobody expected: what the system reports, or else what to report to us."""
    try:
        Path.cwd()
    except OSError:
        return "The current folder no longer exists; change to another one."
    if isinstance(error, OSError) and error.strerror:
        place = os.fsdecode(error.filename) if error.filename else "A file or the output"
        return f"{place} cannot be read or written ({error.strerror.lower()})."
    return f"unexpected error ({type(error).__name__}: {error}); please report it with the output of --verbose."


def _open_closed_streams() -> None:
    """Give standard streams that are closed a place: otherwise the next file opened becomes one of them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _speak_utf_8() -> None:
    """Let no character break the output: whoever reads a pipe gets UTF-8, a terminal what it can show."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            # Line ends too are written as a document has them, on Windows as well.
            stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")


def _drop_unwritten_output() -> None:
    """Forget what can no longer be written, or Python would complain of it at the end."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _stopped(error: BaseException) -> int:
    """Say how the program was stopped before its end; the exit code."""
    if isinstance(error, click.Abort) and not isinstance(error.__cause__, KeyboardInterrupt):
        # A question without an answer: the input ended or, which click keeps only as the context, Ctrl-C came.
        click.echo(err=True)
        _complain("no answer, so nothing was done; `--help` shows how to answer in advance.")
        return INTERRUPTED if isinstance(error.__context__, KeyboardInterrupt) else FAILED
    left = str(error.__cause__ or error) or "what was indexed so far is kept, and the next run continues from there."
    _complain(f"interrupted; {left}")
    return INTERRUPTED
