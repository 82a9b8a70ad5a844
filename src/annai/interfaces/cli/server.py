"""`annai server …`: the server that keeps a project's index fresh and answers at once."""

import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import click

from annai.config import Config, override
from annai.errors import ServerError
from annai.interfaces.cli import INTERRUPTED, service
from annai.interfaces.cli.conventions import Group
from annai.interfaces.cli.options import format_option, port_number, project_command
from annai.interfaces.cli.progress import duration
from annai.interfaces.render.notes import queue_lines
from annai.interfaces.render.records import print_json, status_json
from annai.interfaces.render.table import print_lines, print_table
from annai.interfaces.render.units import size, time_ago
from annai.interfaces.terminal import echo, echo_line, say
from annai.serving import daemon
from annai.serving.client import Client
from annai.serving.pidfile import ServerRecord, all_running, left_behind, read_token, running
from annai.types import Status

LOG_LINES = 50
"""How much of a log is printed if nobody says."""

FOLLOW_SECONDS = 0.2
"""How often to look for new lines of a log."""

STATUS_SECONDS = 10.0
"""How long a server that is well takes to say how it stands."""


_port_option = click.option(
    "--port",
    metavar="N|auto",
    callback=port_number,
    help="Port to listen on (server.port: 24280), or auto for a free one.",
)
_log_option = click.option("--log", type=click.Path(path_type=Path), help="Log file (logging.file: server.log).")


@click.group(cls=Group, examples=("annai server start", "annai server logs -f", "annai server ls"))
def command() -> None:
    """Run a server for this project.

    It indexes files as they are saved, and makes every other command faster. Commands
    find it on their own; there is nothing to set up.
    """


@command.command("start", examples=("annai server start", "annai server start --port auto"))
@_port_option
@click.option("--foreground", is_flag=True, help="Stay in the foreground, and log to standard error.")
@_log_option
@click.option(
    "--idle-minutes",
    type=click.FloatRange(0),
    help="Stop after this many minutes without a request (server.idle_shutdown_minutes: 0, never).",
)
@project_command(server=False)
def start(config: Config, port: int | None, foreground: bool, log: Path | None, idle_minutes: float | None) -> None:
    """Start the project's server in the background."""
    config = override(config, "server", idle_shutdown_minutes=idle_minutes)
    if foreground:
        from annai.interfaces.server import serve  # only the server itself needs all of it

        serve(config, port=port, log=log.absolute() if log else None, tell=echo_line)
        return
    _start(config, port, log, idle_minutes)


@command.command("stop", examples=("annai server stop", "annai server stop --docs-dir ~/notes"))
@project_command(server=False)
def stop(config: Config) -> None:
    """Stop the project's server after the current document."""
    _tell_ending(daemon.stop(config), config)


@command.command("restart", examples=("annai server restart", "annai server restart --port 8080"))
@_port_option
@_log_option
@project_command(server=False)
def restart(config: Config, port: int | None, log: Path | None) -> None:
    """Restart the project's server with the current settings."""
    before = running(config)
    _tell_ending(daemon.stop(config), config)
    _start(config, before.port if before and port is None else port, log)


@command.command("status", examples=("annai server status", "annai server status --json"))
@format_option()
@project_command(server=False)
def status(config: Config, form: str | None) -> None:
    """Show whether a server is running, and what it is indexing."""
    record = running(config)
    if (form or config.display.default_format) == "json":
        values: dict[str, object] = {"running": record is not None, "crashed": left_behind(config)}
        print_json(values | (_values(config, record) if record else {}))
    elif record:
        _print(record, _ask(config, record), config)
    elif left_behind(config):
        echo("The server crashed or was killed; `annai server start` starts a new one.")
    else:
        echo(f"No server is running for {config.root}; `annai server start` starts one.")


@command.command("ls", examples=("annai server ls", "annai server ls --json"))
@format_option()
@project_command(docs_dir=False, server=False)
def ls(config: Config, form: str | None) -> None:
    """List your running servers, of all projects."""
    records = all_running()
    if (form or config.display.default_format) == "json":
        names = ("project_root", "url", "pid", "started_at", "version")
        print_json([{name: getattr(each, name) for name in names} for each in records])
    elif not records:
        echo("No server of yours is running; `annai server start` starts one for this project.", err=True)
    else:
        rows = [
            (each.project_root, each.url, str(each.pid), time_ago(each.started_at), each.version) for each in records
        ]
        print_table(("project", "address", "pid", "started", "annai"), rows, config, optional=("annai",))


@command.command("logs", examples=("annai server logs", "annai server logs -f", "annai server logs -n 200"))
@click.option("-f", "--follow", is_flag=True, help="Go on printing lines as they come, until Ctrl-C.")
@click.option(
    "-n", "--limit", type=click.IntRange(0), default=LOG_LINES, show_default=True, help="Number of lines, the latest."
)
@project_command(server=False)
def logs(config: Config, follow: bool, limit: int) -> None:
    """Print the log of the project's server."""
    record = running(config)
    if record and not record.log:
        raise ServerError(f"The server (pid {record.pid}) logs to the terminal it was started in.")
    file = Path(record.log) if record else config.log_path
    if not file.is_file():
        raise ServerError(f"There is no log at {file}", "`annai server start` starts a server, which writes one.")
    try:
        for line in log_lines(file, limit, follow=follow):
            echo(line, nl=False)
    except KeyboardInterrupt:
        # How one ends it.
        raise click.exceptions.Exit(INTERRUPTED) from None


@command.command("install", examples=("annai server install", "annai server install --print"))
@_port_option
@_log_option
@click.option("--print", "only_print", is_flag=True, help="Print the service's file, and change nothing.")
@project_command(server=False)
def install(config: Config, port: int | None, log: Path | None, only_print: bool) -> None:
    """Let the system start the project's server when you log in.

    Writes a service of your own, without root: a systemd user unit on Linux, a
    launchd agent on macOS. It is started at once, and again if it crashes.
    """
    installed = _service(config, port, log)
    if only_print:
        echo(f"{installed.file}:", err=True)
        echo(installed.content, nl=False)
        return
    _check_root(config)
    daemon.state_folder(config)
    service.install(installed, lambda: _make_way(config))
    say(f"Installed {installed.file}; the server is starting, and starts whenever you log in.")
    if sys.platform == "linux":
        say("`loginctl enable-linger` lets it run while you are logged out, too.")


@command.command("uninstall", examples=("annai server uninstall", "annai server uninstall --docs-dir ~/notes"))
@project_command(server=False)
def uninstall(config: Config) -> None:
    """Stop the service that `annai server install` made, and remove it."""
    installed = _service(config)
    is_gone = service.uninstall(installed)
    if is_gone:
        daemon.stop(config)
    say(f"Removed {installed.file}." if is_gone else f"There is no service for {config.root}, so nothing was removed.")


def log_lines(file: Path, limit: int, *, follow: bool) -> Iterator[str]:
    """The last lines of a log; with `follow`, also those that come, through its rotation, without end."""
    stream = file.open(encoding="utf-8", errors="replace", newline="")
    try:
        yield from deque(stream, limit)
        while follow:
            begun = ""
            while not begun.endswith("\n"):
                if part := stream.readline():
                    begun += part
                elif _is_replaced(stream, file):
                    stream.close()
                    stream = file.open(encoding="utf-8", errors="replace", newline="")
                else:
                    time.sleep(FOLLOW_SECONDS)
            yield begun
    finally:
        stream.close()


def _is_replaced(stream: TextIO, file: Path) -> bool:
    """Whether another file has taken the log's place, or it was emptied."""
    try:
        now = file.stat()
    except FileNotFoundError:
        return False  # It is being rotated.
    opened = os.fstat(stream.fileno())
    return not os.path.samestat(opened, now) or now.st_size < stream.tell()


def _make_way(config: Config) -> None:
    if daemon.stop(config) != "none":
        say("Stopped the server that was running; the service takes its place.")


def _service(config: Config, port: int | None = None, log: Path | None = None) -> service.Service:
    command_line = daemon.command_line(_options(config, port), log.absolute() if log else config.log_path)
    return service.service_of(config, command_line)


def start_in_background(
    config: Config, port: int | None = None, log: Path | None = None, idle_minutes: float | None = None
) -> tuple[ServerRecord, bool]:
    """Start the project's server unless it runs; its record, and whether it is new."""
    _check_root(config)
    if left_behind(config):
        say("The last server crashed or was killed; starting a new one.")
    options = _options(config, port) + ([] if idle_minutes is None else ["--idle-minutes", str(idle_minutes)])
    return daemon.start(config, options, log.absolute() if log else config.log_path)


def _check_root(config: Config) -> None:
    from annai.engine import check_root  # only here is the engine needed

    check_root(config)


def _options(config: Config, port: int | None) -> list[str]:
    """What a server must be told in order to serve this project."""
    options = [] if port is None else ["--port", str(port or "auto")]
    options += ["--config", str(config.file)] if config.file else []
    return options + (["--docs-dir", str(config.root)] if config.named else [])


def _start(config: Config, port: int | None, log: Path | None, idle_minutes: float | None = None) -> None:
    record, is_new = start_in_background(config, port, log, idle_minutes)
    if not is_new and port not in (None, 0, record.port):
        raise ServerError(
            f"A server is already running at {record.url} (pid {record.pid})",
            f"`annai server restart --port {port}` moves it.",
        )
    if is_new and port is None and config.server.port not in (0, record.port):
        say(f"Port {config.server.port} is taken, so a free one is used.")
    say(f"{'Server started' if is_new else 'A server is already running'} at {record.url} (pid {record.pid}).")


def _tell_ending(ending: daemon.StopResult, config: Config) -> None:
    say(
        {
            "none": f"No server is running for {config.root}.",
            "crashed": "The server had crashed or was killed; cleaned up after it.",
            "stopped": "Server stopped.",
            "killed": "The server did not stop in time and was killed; nothing that was indexed is lost.",
        }[ending]
    )


def _ask(config: Config, record: ServerRecord) -> Status:
    with Client(record.url, token=read_token(config), seconds=STATUS_SECONDS) as client:
        return client.status()


def _uptime(record: ServerRecord) -> float:
    return max((datetime.now(UTC) - datetime.fromisoformat(record.started_at)).total_seconds(), 0.0)


def _values(config: Config, record: ServerRecord) -> dict[str, object]:
    told = status_json(_ask(config, record))
    server = told["server"]
    return {
        "url": record.url,
        "host": record.host,
        "port": record.port,
        "root": record.project_root,
        "log": record.log,
        "uptime_seconds": round(_uptime(record)),
        **(server if isinstance(server, dict) else {}),
        **{name: told[name] for name in ("requests", "indexing", "errors")},
    }


def _print(record: ServerRecord, status: Status, config: Config) -> None:
    lines: list[tuple[str, ...]] = [
        ("Server    ", record.url, f"(pid {record.pid}, annai {record.version})"),
        ("Page      ", f"{record.url}/", "(`annai open` opens it)"),
        ("Project   ", str(record.project_root)),
        ("Uptime    ", duration(_uptime(record))),
    ]
    if status.server:
        lines.append(("Memory    ", size(status.server.memory)))
        used = duration(status.server.cpu_seconds)
        lines.append(("CPU       ", f"{status.server.cpu_percent:.0f}% of a core", f"({used} in all)"))
    lines.append(("Log       ", os.path.relpath(record.log) if record.log else "standard error"))
    print_lines([*lines, *queue_lines(status)], config)
