"""How is a project opened? Through its server if one runs, else in this process; each way loads only what it needs."""

from typing import TYPE_CHECKING

from annai.config import Config
from annai.project import Project

if TYPE_CHECKING:
    from annai.serving.pidfile import ServerRecord


def open_project(config: Config) -> Project:
    """Open the project: through the server that was named, through its own if that runs, else in this process."""
    # Each way loads only what it needs: that is most of the time that a short command takes.
    if config.server_url:
        from annai.serving.client import Client

        return Client(config.server_url, token=config.server.token)
    if record := own_server(config):
        from annai.serving.client import Client
        from annai.serving.pidfile import read_token

        return Client(record.url, token=read_token(config))
    from annai.engine import Engine

    return Engine(config)


def own_server(config: Config) -> "ServerRecord | None":
    """The project's running server, if it has the index that these settings name."""
    if not config.pid_path.exists():
        return None
    from annai.serving.pidfile import running

    record = running(config)
    return record if record and record.database == str(config.database_path) else None
