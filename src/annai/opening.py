"""How is a project opened? Through its server if one runs, else in this process; each way loads only what it needs."""

import dataclasses
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from annai.config import Config, load_config
from annai.project import Project

if TYPE_CHECKING:
    from annai.serving.pidfile import ServerRecord

AUTO = "auto"

logger = logging.getLogger(__name__)


def open(  # noqa: A001 - `annai.open`, as webbrowser.open and gzip.open
    folder: str | os.PathLike[str] = ".",
    *,
    config: str | os.PathLike[str] | None = None,
    server: str | None = AUTO,
) -> Project:
    """Open a project.

    `"."`, the default, is the project around the current folder, found as the command line finds it. Any other folder
    is searched by itself, as with `--docs-dir`. `config` names a settings file. With `server="auto"` the project's
    server is used if it runs; a URL names another server, and `None` opens the project in this process.
    """
    named = None if os.fspath(folder) == "." else Path(folder)
    settings = load_config(config=None if config is None else Path(config), docs_dir=named)
    if server is None:
        return _open_here(settings)
    return open_project(settings if server == AUTO else dataclasses.replace(settings, server_url=server))


def open_project(config: Config) -> Project:
    """Open the project: through the server that was named, through its own if that runs, else in this process."""
    record = own_server(config)
    if record is None and not config.server_url:
        return _open_here(config)
    from annai.serving.changes import models_digest
    from annai.serving.client import Client
    from annai.serving.pidfile import read_token

    if record and config.is_trusted and record.models not in ("", models_digest(config)):
        logger.warning(
            "The server here was started with another [embedding] and keeps it; `annai server restart` gives it the "
            "one of now."
        )
    if record and config.server_url.rstrip("/") in ("", record.url):
        return Client(record.url, token=read_token(config))
    return Client(config.server_url, token=config.server.token)


def own_server(config: Config) -> "ServerRecord | None":
    """The project's running server, if it has the index that these settings name."""
    if not config.pid_path.exists():
        return None
    from annai.serving.changes import store_digest
    from annai.serving.pidfile import running

    record = running(config)
    if record is None or record.database != str(config.database_path):
        return None
    return record if record.store in ("", store_digest(config)) else None


def _open_here(config: Config) -> Project:
    from annai.engine import Engine

    return Engine(config)
