"""`annai mcp`: serve this project to an agent."""

import logging
import sys
from pathlib import Path

import click

from annai.config import Config, override
from annai.errors import ServerError
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import port_number, project_command, tell_of_ancestor
from annai.interfaces.terminal import echo, echo_line, is_terminal, warn

INDEX_NAME = "index.sqlite"
CHATTY = ("mcp", "watchfiles", "asyncio", "httpx2")


@click.command(cls=Command, examples=("annai mcp", "annai mcp --docs-dir ~/notes", "annai mcp --http --port 8080"))
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder for the index, instead of your state folder.")
@click.option("--http", is_flag=True, help="Run the project's server and serve over HTTP at /mcp, instead of stdio.")
@click.option(
    "--port",
    metavar="N|auto",
    callback=port_number,
    help="Port for --http (server.port: 24280), or auto for a free one.",
)
@project_command()
def command(config: Config, data_dir: Path | None, http: bool, port: int | None) -> None:
    """Serve this project to an agent over MCP.

    Agents start this command themselves; `annai setup` adds it to their configuration.
    Nothing else needs to be set up: the first search indexes the folder, and later
    changes are noticed.
    """
    if port is not None and not http:
        raise click.UsageError("--port needs --http.")
    if data_dir:
        config = override(config, "database", path=str(data_dir.absolute() / INDEX_NAME))
    tell_of_ancestor(config)
    if http:
        _serve_http(config, port)
        return
    if is_terminal(sys.stdin):
        warn("waiting for an agent; `annai setup` configures one. Press Ctrl-C to stop.")
    # Before anything else is loaded: what it prints must not reach the client.
    from annai.interfaces.mcp.streams import claim_standard_streams

    incoming, outgoing = claim_standard_streams()
    _set_level(config)
    from annai.interfaces.mcp.access import Access
    from annai.interfaces.mcp.stdio import serve

    serve(Access(config), incoming, outgoing)


def _serve_http(config: Config, port: int | None) -> None:
    """Be the project's server, in the foreground."""
    from annai.engine import check_root
    from annai.interfaces.server import serve  # only where it is served
    from annai.serving.pidfile import TOKEN_FILE, running

    check_root(config)
    if record := running(config):
        raise ServerError("A server is already running for this project", f"agents reach it at {record.url}/mcp.")
    token = "server.token" if config.server.token else config.state_folder / TOKEN_FILE
    echo(f"Agents connect to /mcp on this server, with the token in {token}.")
    serve(config, port=port, tell=echo_line)


def _set_level(config: Config) -> None:
    """Log to standard error as a server does: as much as the settings say, everything with --verbose."""
    root = logging.getLogger()
    root.setLevel(min(root.level, logging.getLevelName(config.logging.level.upper())))
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
