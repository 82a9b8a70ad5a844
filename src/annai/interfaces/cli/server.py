"""`annai server …`: the server that keeps a project's index fresh and answers at once."""

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from annai.config import Config
from annai.errors import ServerError
from annai.interfaces.cli.options import format_option, port_number, project_command
from annai.interfaces.cli.progress import duration
from annai.interfaces.render import print_json, print_lines, queue_lines, size, status_json
from annai.interfaces.terminal import echo, echo_line
from annai.serving import daemon
from annai.serving.client import Client
from annai.serving.pidfile import ServerRecord, left_behind, read_token, running
from annai.types import Status

STATUS_SECONDS = 10.0
"""How long a server that is well takes to say how it stands."""


_port_option = click.option(
    "--port",
    metavar="N|auto",
    callback=port_number,
    help="Port to listen on (server.port: 24280), or auto for a free one.",
)
_log_option = click.option("--log", type=click.Path(path_type=Path), help="Log file (logging.file: .annai/server.log).")


@click.group()
def command() -> None:
    """Run a server for this project.

    It indexes files as they are saved, and makes every other command faster. Commands
    find it on their own; there is nothing to set up.
    """


@command.command("start")
@_port_option
@click.option("--foreground", is_flag=True, help="Stay in the foreground, and log to standard error.")
@_log_option
@project_command(server=False)
def start(config: Config, port: int | None, foreground: bool, log: Path | None) -> None:
    """Start the project's server in the background."""
    if foreground:
        from annai.interfaces.server import serve  # only the server itself needs all of it

        serve(config, port=port, log=log.absolute() if log else None, tell=echo_line)
        return
    _start(config, port, log)


@command.command("stop")
@project_command(server=False)
def stop(config: Config) -> None:
    """Stop the project's server after the current document."""
    _tell_ending(daemon.stop(config), config)


@command.command("restart")
@_port_option
@_log_option
@project_command(server=False)
def restart(config: Config, port: int | None, log: Path | None) -> None:
    """Restart the project's server with the current settings."""
    before = running(config)
    _tell_ending(daemon.stop(config), config)
    _start(config, before.port if before and port is None else port, log)


@command.command("status")
@format_option
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


def start_in_background(config: Config, port: int | None = None, log: Path | None = None) -> tuple[ServerRecord, bool]:
    """Start the project's server unless it runs; its record, and whether it is new."""
    from annai.engine import check_root  # only here is the engine needed

    check_root(config)
    if left_behind(config):
        echo("The last server crashed or was killed; starting a new one.")
    options = [] if port is None else ["--port", str(port or "auto")]
    options += ["--config", str(config.file)] if config.file else []
    options += ["--docs-dir", str(config.root)] if config.named else []
    return daemon.start(config, options, log.absolute() if log else config.log_path)


def _start(config: Config, port: int | None, log: Path | None) -> None:
    record, is_new = start_in_background(config, port, log)
    if not is_new and port not in (None, 0, record.port):
        raise ServerError(
            f"A server is already running at {record.url} (pid {record.pid}); "
            f"`annai server restart --port {port}` moves it."
        )
    if is_new and port is None and config.server.port not in (0, record.port):
        echo(f"Port {config.server.port} is taken, so a free one is used.")
    echo(f"{'Server started' if is_new else 'A server is already running'} at {record.url} (pid {record.pid}).")


def _tell_ending(ending: daemon.StopResult, config: Config) -> None:
    echo(
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
    lines.append(("Log       ", os.path.relpath(record.log) if record.log else "standard error"))
    print_lines([*lines, *queue_lines(status)], config)
