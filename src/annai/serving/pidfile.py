"""Does this project have a server? The pid file that announces one, and whether to believe it.

The file alone is not believed: the process that wrote it must be alive, or whoever answers at its port must prove to
know the file's secret. A crash leaves the file without its server, and another program may have taken the port.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from annai.config import PID_FILE, Config
from annai.definitions import dataclass
from annai.errors import ConfigError, QueryError, ServerError
from annai.serving.connection import health
from annai.serving.wire import from_json, plain, to_json
from annai.state import known_projects
from annai.values import decode

if TYPE_CHECKING:
    import psutil

TOKEN_FILE = "token"  # noqa: S105 - the name of the file

HEALTH_SECONDS = 1.0
"""How long a healthy server may take to answer; after that its process is checked."""

SAME_SECONDS = 0.05
"""How exactly a process's start time is known. If the clock was set since, the server must answer instead."""


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """What a server writes about itself into its pid file."""

    pid: int
    started_at: str
    project_root: str
    project_name: str
    host: str
    port: int
    config_path: str
    database: str
    log: str
    """Where it logs; empty for standard error."""
    version: str
    python_version: str
    process_created: float
    """When its process started, according to the system: pids are reused."""
    secret: str
    """Known to the server and to whoever may read this file: it proves who the server is, and allows to stop it."""
    store: str = ""
    """Which store it serves (`changes.store_digest`)."""
    models: str = ""
    """Which models it was started with (`changes.models_digest`)."""

    @property
    def url(self) -> str:
        """Where this machine reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - not bound here
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def running(config: Config) -> ServerRecord | None:
    """The project's server, if it runs; a pid file left behind by a crash does not count."""
    record = read_record(config)
    return record if record and _is_alive(record) else None


def all_running() -> list[ServerRecord]:
    """Every server that this user started on this machine and that runs, ordered by project."""
    records = (_read(each.folder / PID_FILE) for each in known_projects())
    return [each for each in records if each and _is_alive(each)]


def left_behind(config: Config) -> bool:
    """Whether there is a pid file whose server is gone; one of before the project was moved ended because of that."""
    record = _read(config.pid_path)
    is_here = record is None or record.project_root == str(config.root)
    return config.pid_path.exists() and is_here and running(config) is None


def read_record(config: Config) -> ServerRecord | None:
    """What the pid file says; None if there is none, if it cannot be understood, or if the project was moved since."""
    record = _read(config.pid_path)
    return record if record and record.project_root == str(config.root) else None


def publish(config: Config, record: ServerRecord) -> None:
    """Write the pid file, whole or not at all; only its owner may read it."""
    write_private(config.pid_path, to_json(plain(record)) + b"\n")


def withdraw(config: Config, record: ServerRecord | None) -> None:
    """Remove this server's pid file; another server's stays."""
    if read_record(config) == record:
        config.pid_path.unlink(missing_ok=True)


def _read(pid_file: Path) -> ServerRecord | None:
    try:
        return decode(ServerRecord, from_json(pid_file.read_bytes()))
    except (OSError, ValueError, QueryError):
        return None


def _is_alive(record: ServerRecord) -> bool:
    return _is_process(record) or _answers(record) or process_of(record) is not None


def read_token(config: Config) -> str:
    """The token of the project's server; empty if it needs none."""
    token = config.server.token
    with suppress(FileNotFoundError):
        token = token or (config.state_folder / TOKEN_FILE).read_text(encoding="ascii", errors="replace").strip()
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("server.token must be printable ASCII", "choose another.")
    return token


def write_private(file: Path, content: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only. Raises `ServerError` if it cannot be written."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        draft.replace(file)
    except OSError as error:
        raise ServerError(f"The server cannot write {file}: {error.strerror}", "try again.") from error


def process_of(record: ServerRecord) -> "psutil.Process | None":
    """The process that wrote the record, if it is alive; never another one that got the same pid."""
    import psutil  # a healthy server is found without it

    try:
        process = psutil.Process(record.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        is_same = abs(process.create_time() - record.process_created) < SAME_SECONDS
    except psutil.Error:
        return None
    return process if is_same or _answers(record) else None


def _is_process(record: ServerRecord) -> bool:
    """Whether Linux says at once that the process that wrote the record lives; no is not certain.

    While it does, the port is its own: no other process can answer there.
    """
    if sys.platform != "linux":
        return False
    try:
        # The name in parentheses may hold anything; behind it, the first field is the state and the 20th the start.
        fields = Path(f"/proc/{record.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        booted = Path("/proc/stat").read_text(errors="replace").partition("\nbtime ")[2].split(maxsplit=1)[0]
        created = int(booted) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return False
    return fields[0] != "Z" and abs(created - record.process_created) < SAME_SECONDS


def _answers(record: ServerRecord) -> bool:
    import secrets  # most commands find no pid file

    challenge = secrets.token_hex(16)
    answer = health(record.url, HEALTH_SECONDS, challenge)
    return answer is not None and answer.get("proof") == proof(record.secret, challenge)


def proof(secret: str, challenge: str) -> str:
    """The answer to a challenge that only someone who knows the secret can give."""
    import hmac

    return hmac.digest(secret.encode(), challenge.encode(), "sha256").hex()
