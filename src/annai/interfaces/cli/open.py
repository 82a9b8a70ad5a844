"""`annai open`: open a document in an editor, at the line, or the project's page in a browser."""

import html
import os
import platform
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path

import click

from annai.asking.addresses import from_here
from annai.config import Config
from annai.errors import NotFound
from annai.files.kinds import is_converted
from annai.files.pages import page_at, page_name
from annai.interfaces.cli.completion import complete_documents
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import open_fresh, project_command
from annai.interfaces.cli.server import start_in_background
from annai.interfaces.editor import cannot_start, chosen_editor, editor_command
from annai.interfaces.page.peers import TABLES
from annai.interfaces.terminal import echo, say
from annai.opening import open_project
from annai.serving.client import Client
from annai.serving.daemon import state_folder
from annai.serving.pidfile import write_private
from annai.types import Selection

IDLE_MINUTES = 60.0
"""How long a server that nobody started by name stays without being used; an open page uses it."""

PAGE_FILE = "open.html"
"""The file that leads a browser to the page."""

SERVER_SEES_USERS = os.access(TABLES[0], os.R_OK) and "microsoft" not in platform.release().lower()
"""Whether a server sees whose browser it is: on Linux, unless that is a guest in Windows (WSL), whose browser opens."""

BROWSERS_READ_FILES = sys.platform != "linux"
"""Whether browsers read a file in the state folder; those of Linux come in boxes (snaps) that keep them from it."""


@click.command(cls=Command, examples=("annai open guide/setup.md:44", "annai open"))
@click.argument("reference", metavar="[REFERENCE]", default="", shell_complete=complete_documents)
@project_command()
@click.pass_context
def command(context: click.Context, config: Config, reference: str) -> None:
    """Open a document in your editor, or the page in your browser.

    REFERENCE is anything that `annai get` takes: guide/setup.md:44 opens at line 44,
    guide/setup.md#1.2 where that section begins. The editor is the one in the
    environment variable VISUAL or EDITOR; a PDF or an Office file is opened by the
    program that your system has for it. Without a REFERENCE, the page of the
    project's server opens; the server is started if it is not running, and ends by
    itself an hour after its last use.
    """
    if not reference:
        _open_page(config)
        return
    with open_fresh(config) as project:
        place = project.locate(from_here(reference, config.root))
        file = project.sources()[place.document.collection] / place.document.path
    if not file.is_file():
        raise NotFound(f"{file} is not on this machine", "`annai get` shows it as it was indexed.")
    if is_converted(place.document.path):
        _launch(file, place)
        return
    context.exit(_run(editor_command(chosen_editor(), file, place.line)))


def _launch(file: Path, place: Selection) -> None:
    """Open a file that no editor can show with the program that the system has for it."""
    page = page_at(place.document.path, place.document.text, place.span[0])
    told = f"; it is on {page_name(place.document.path, page)}" if page else ""
    if click.launch(str(file)):
        raise NotFound(f"{file} could not be opened", "no program for it is set on this system.")
    say(f"Opened {file}{told}.")


def _open_page(config: Config) -> None:
    """Open the page with a ticket, so that the browser need not be told the token."""
    url, is_new = config.server_url.rstrip("/"), False
    idle_minutes = config.server.idle_shutdown_minutes or IDLE_MINUTES
    if not url:
        record, is_new = start_in_background(config, idle_minutes=idle_minutes)
        url = record.url
    address = _address_with_ticket(config, url)
    is_open = webbrowser.open(address)
    if is_open:
        say(f"Opened {url} in the browser.")
    if not is_open or address == url:
        echo(f"Open {url}/ in a browser, and enter this code within a minute: {_ticket(config)}")
    if is_new:
        say(f"The server ends after {idle_minutes:g} minutes without use; `annai server stop` ends it now.")


def _address_with_ticket(config: Config, url: str) -> str:
    """What a browser is started with, which every user of this machine sees: the ticket is of no use to the others.

    It stands in the address where the server sees whose browser it is, else in a file of this user's, else nowhere.
    """
    if SERVER_SEES_USERS and not config.server_url:
        return f"{url}/#ticket={_ticket(config, own_user=True)}"
    return _leading_file(config, f"{url}/#ticket={_ticket(config)}") if BROWSERS_READ_FILES else url


def _ticket(config: Config, *, own_user: bool = False) -> str:
    with open_project(config) as project:
        return str(project.connection.call("make_ticket", own_user=own_user)) if isinstance(project, Client) else ""


def _leading_file(config: Config, address: str) -> str:
    """The address of a file that leads a browser on to this one, and that nobody else can read."""
    file = state_folder(config) / PAGE_FILE
    quoted = html.escape(address)
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={quoted}"><a href="{quoted}">annai</a>\n'
    write_private(file, page.encode())
    return file.as_uri()


def _run(arguments: list[str]) -> int:
    try:
        process = subprocess.Popen(arguments)  # noqa: S603 - the user's own editor
    except OSError as error:
        raise cannot_start(arguments[0], error) from error
    # Ctrl-C is the editor's until it ends.
    own = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, own)
