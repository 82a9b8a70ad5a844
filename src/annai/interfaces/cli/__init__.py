"""What can be typed? The program `annai`: its commands, and how it ends when something goes wrong."""

import atexit
import io
import logging
import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import NoReturn, cast

import click

from annai import __version__
from annai.errors import AnnaiError
from annai.interfaces.terminal import echo, warn

COMMANDS = {
    "search": "search",
    "get": "get",
    "open": "open",
    "status": "status",
    "collection": "collection",
    "tool": "collection",
    "import": "imports",
    "index": "index",
    "store": "store",
    "server": "server",
    "token": "token",
    "mcp": "mcp",
    "setup": "setup",
    "model": "model",
    "trust": "trust",
    "eval": "evaluate",
    "init": "init",
    "doctor": "doctor",
}
"""Command → the module beside this one whose `command` it is; imported when it is called or listed."""

HIDDEN = frozenset({"tool"})
"""Other names, from the programs annai descends from; they work and are not listed."""

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, as shells expect it."""


class _LazyGroup(click.Group):
    """Loads a command's module only when that command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order in which a new user meets them."""
        return [name for name in COMMANDS if name not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import it."""
        if cmd_name not in COMMANDS:
            return None
        return cast(click.Command, import_module(f"{__name__}.{COMMANDS[cmd_name]}").command)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="annai")
@click.option("--config", type=click.Path(path_type=Path), help="The settings file (env: ANNAI_CONFIG).")
@click.option("--verbose", is_flag=True, help="Log details and timings to standard error.")
@click.pass_context
def cli(ctx: click.Context, config: Path | None, verbose: bool) -> None:
    """Search a folder of documents by meaning and by words, in Japanese and English.

    In any folder, run `annai search "your question"`: it indexes what it finds, then answers.
    """
    ctx.obj = {"config": config, "verbose": verbose}


def main() -> None:
    """Run the program and leave it with its exit code: 0 done, 1 an error, 2 wrong usage."""
    _open_closed_streams()
    _speak_utf_8()
    # Before numpy comes: a search multiplies so little that several threads wait for one another longer than they work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # In a locale that is not UTF-8, what was typed arrives as escaped bytes.
    _leave(run([os.fsencode(each).decode("utf-8", "replace") for each in sys.argv[1:]]))


def run(arguments: list[str]) -> int:
    """Run one command line; every error becomes one sentence on standard error."""
    try:
        # Outside standalone mode click returns the code that ctx.exit was given, or what the command returned.
        result = cli.main(arguments, prog_name="annai", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        echo(shown.getvalue(), err=True, nl=False)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as error:
        return _stopped(error)
    except SystemExit:
        # How click ends when whoever read our output has left (`annai search … | head`): nothing is wrong.
        return 0
    except AnnaiError as error:
        warn(error)
    except MemoryError:
        warn("There is not enough memory for this; close other programs, or index fewer or smaller files.")
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Python's own wrapping of one that came while a class was being made.
            return _stopped(error)
        logging.getLogger(__name__).debug("unexpected", exc_info=True)
        warn(_sentence(error))
    finally:
        _drop_unwritten_output()
    return 1


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
        # A question that nobody answered: the input ended, or Ctrl-C came instead of a word.
        echo(err=True)
        warn("no answer, so nothing was done; `--help` shows how to answer in advance.")
        return 1
    left = str(error.__cause__ or error) or "what was indexed so far is kept, and the next run continues from there."
    warn(f"interrupted; {left}")
    return INTERRUPTED
