"""How does a project's server start by itself? As a service of the user's: of systemd on Linux, of launchd on macOS."""

import hashlib
import os
import plistlib
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from annai.config import Config, variable
from annai.errors import ServerError
from annai.state import STATE_VARIABLE

UNIT = """\
[Unit]
Description={description}

[Service]
{environment}ExecStart={command}
WorkingDirectory={folder}
Restart=on-failure

[Install]
WantedBy=default.target
"""


class Service(NamedTuple):
    """A service: the file that describes it, and what makes the system follow and forget that file."""

    file: Path
    content: str
    start: Sequence[Sequence[str]]
    stop: Sequence[str]
    forget: Sequence[str] = ()
    """What to run once the file is gone."""


def service_of(config: Config, command: Sequence[str], platform: str = sys.platform) -> Service:
    """The service that runs this command for the project. Raises `ServerError` where there are no such services."""
    folder = re.sub("[^A-Za-z0-9]+", "-", config.root.name).strip("-")
    name = "-".join(filter(None, ("annai", folder, hashlib.sha256(os.fsencode(config.root)).hexdigest()[:8])))
    if platform == "linux":
        return _systemd(config, command, name)
    if platform == "darwin":
        return _launchd(config, command, name)
    raise ServerError(
        "annai installs services on Linux and macOS", f"elsewhere, let the system run: {' '.join(command)}"
    )


def install(service: Service, make_way: Callable[[], None]) -> None:
    """Write the file, and start the service; `make_way` ends what it replaces, once the system knows the service."""
    _need(service.stop[0])
    if service.file.exists():
        _run(service.stop)
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
        service.file.write_text(service.content, encoding="utf-8")
    except OSError as error:
        raise ServerError(f"{service.file} cannot be written: {error.strerror}.") from error
    for command in service.start:
        if command == service.start[-1]:
            make_way()
        if failure := _run(command):
            service.file.unlink()
            raise ServerError(
                f"{failure} Nothing was installed", "`annai server start` starts the server without that."
            )


def uninstall(service: Service) -> bool:
    """Stop the service, if it runs, and remove its file; whether there was one."""
    if not service.file.exists():
        return False
    _need(service.stop[0])
    _run(service.stop)
    service.file.unlink()
    if service.forget:
        _run(service.forget)
    return True


def _systemd(config: Config, command: Sequence[str], name: str) -> Service:
    folder = Path(variable("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    unit = f"{name}.service"
    named = variable(STATE_VARIABLE)
    content = UNIT.format(
        description=_literal(f"annai server for {config.root}"),
        command=" ".join(map(_quoted, command)),
        folder=_literal(str(config.root)),
        environment=f"Environment={_quoted(f'{STATE_VARIABLE}={named}')}\n" if named else "",
    )
    systemctl = ("systemctl", "--user")
    reload = (*systemctl, "daemon-reload")
    return Service(
        folder / unit,
        content,
        start=(reload, (*systemctl, "enable", "--now", unit)),
        stop=(*systemctl, "disable", "--now", unit),
        forget=reload,
    )


def _launchd(config: Config, command: Sequence[str], name: str) -> Service:
    file = Path.home() / "Library" / "LaunchAgents" / f"{name}.plist"
    content = plistlib.dumps(
        {
            "Label": name,
            "ProgramArguments": list(command),
            "WorkingDirectory": str(config.root),
            **({"EnvironmentVariables": {STATE_VARIABLE: named}} if (named := variable(STATE_VARIABLE)) else {}),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
        },
        sort_keys=False,
    ).decode()
    domain = f"gui/{os.getuid() if hasattr(os, 'getuid') else 0}"
    return Service(
        file,
        content,
        start=(("launchctl", "bootstrap", domain, str(file)),),
        stop=("launchctl", "bootout", f"{domain}/{name}"),
    )


def _literal(text: str) -> str:
    """A text in which systemd replaces nothing; a line end would begin another setting."""
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(argument: str) -> str:
    """A word of a command as systemd reads it."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("%", "%%").replace("$", "$$") + '"'


def _need(program: str) -> None:
    from shutil import which

    if not which(program):
        raise ServerError(
            f"There is no {program} here, so nothing was changed",
            "`annai server install --print` shows the file, and "
            "`annai server start` starts the server until you log out.",
        )


def _run(command: Sequence[str]) -> str:
    """Run it; what went wrong, as a sentence."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words and our own name
    reason = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1].rstrip(".")
    return f"`{' '.join(command)}` failed ({reason})." if done.returncode else ""
