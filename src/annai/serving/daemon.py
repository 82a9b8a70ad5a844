"""How is a project's server started and stopped, and what token does it need?"""

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from annai.config import Config
from annai.errors import AnnaiError, ServerError
from annai.serving.connection import Connection
from annai.serving.pidfile import (
    HEALTH_SECONDS,
    TOKEN_FILE,
    ServerRecord,
    left_behind,
    process_of,
    read_record,
    read_token,
    running,
    withdraw,
    write_private,
)
from annai.state import make, private_opener

LOCK_FILE = "server.lock"

START_SECONDS = 60.0
STOP_SECONDS = 20.0
"""How long a server may take to start, and to finish the document at hand."""

KILL_SECONDS = 5.0
"""How long it may take to end after each signal."""

POLL_SECONDS = 0.03

StopResult = Literal["none", "crashed", "stopped", "killed"]


def state_folder(config: Config) -> Path:
    """The project's state folder, created if it is missing."""
    folder = config.state_folder
    try:
        make(folder, config.root)
    except OSError as error:
        raise ServerError(
            f"The server cannot write to its folder {folder}: {error.strerror}", "make it writable."
        ) from error
    return folder


def required_token(config: Config) -> str:
    """The token that the server asks every caller for, created if there is none yet."""
    token = read_token(config)
    if not token:
        token = secrets.token_urlsafe(32)
        write_private(state_folder(config) / TOKEN_FILE, token.encode() + b"\n")
    return token


def start(config: Config, options: Sequence[str], log: Path) -> tuple[ServerRecord, bool]:
    """Start a server in the background, and wait until it answers.

    Returns its record and whether it is new: a server that runs already, or that started first, is returned as it is.
    """
    if record := running(config):
        return record, False
    state_folder(config)
    try:
        output = open(log, "ab", opener=private_opener)  # noqa: SIM115 - Path.open takes no opener
    except OSError as error:
        raise ServerError(f"The log {log} cannot be written: {error.strerror}", "name another with --log.") from error
    with output:
        begin = output.tell()
        child = subprocess.Popen(  # noqa: S603 - this very program
            command_line(options, log),
            cwd=config.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            creationflags=_DETACHED,
        )
    if not _wait_for(lambda: child.poll() is not None or running(config) is not None, START_SECONDS):
        child.kill()
        raise ServerError(f"The server did not answer within {START_SECONDS:.0f} seconds", f"see {log}.")
    # If it gave up because another server started first, that is no failure.
    record = running(config)
    if record is None:
        raise ServerError(f"The server did not start: {_reason_of_death(log, begin)}")
    # On Windows the python of a virtual environment starts a second process.
    return record, record.pid == child.pid or (os.name == "nt" and child.poll() is None)


def command_line(options: Sequence[str], log: Path) -> list[str]:
    """What starts a server that stays in the foreground of its process."""
    return [sys.executable, "-P", "-m", "annai", "server", "start", "--foreground", "--log", str(log), *options]


def stop(config: Config) -> StopResult:
    """Stop the project's server: by a call, by a signal, by force. Clean up after one that crashed."""
    record = read_record(config)
    process = process_of(record) if record else None
    if record is None or process is None:
        crashed = left_behind(config)
        withdraw(config, record)
        return "crashed" if crashed else "none"
    connection = Connection(record.url, read_token(config), HEALTH_SECONDS)
    try:
        connection.call("shutdown", secret=record.secret)
    except AnnaiError:
        # It no longer answers; send it a signal instead.
        _signal(process.terminate)
    finally:
        connection.close()
    result: StopResult = "stopped"
    patience = max(STOP_SECONDS, 2 * config.server.shutdown_seconds + KILL_SECONDS)
    for signal, seconds in ((None, patience), (process.terminate, KILL_SECONDS), (process.kill, KILL_SECONDS)):
        if signal:
            _signal(signal)
        if _wait_for(lambda: process_of(record) is None, seconds):
            break
        result = "killed"
    else:
        raise ServerError(f"The server (pid {record.pid}) does not end", "kill its process by hand.")
    withdraw(config, record)
    return result


_DETACHED = 0x00000208 if os.name == "nt" else 0
"""Windows' DETACHED_PROCESS and CREATE_NEW_PROCESS_GROUP."""


def _signal(signal: Callable[[], None]) -> None:
    """Send a process a signal; it is fine if it has ended meanwhile."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        signal()


def _wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _reason_of_death(log: Path, begin: int) -> str:
    """Why a server did not start: the sentence it ended with, or where to read more."""
    with log.open("rb") as stream:
        stream.seek(begin)
        lines = stream.read().decode(errors="replace").splitlines()
    said = [line.removeprefix("annai: ") for line in lines if line.startswith("annai: ")]
    return said[-1] if said else f"{(lines or ['it printed nothing'])[-1]} (see {log})"
