"""How does a server run? The engine, its worker and the web application in one process.

It ends when `annai server stop` asks it to, on Ctrl-C or SIGTERM, and by itself when its project's folder or its pid
file is gone, when another server took over, or after `server.idle_shutdown_minutes` without a request.
"""

import io
import logging
import os
import platform
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

import psutil
import uvicorn

from annai import __version__
from annai.config import Config, private_opener
from annai.engine import Engine
from annai.errors import ServerError
from annai.indexing.lock import IndexLock
from annai.interfaces.http import BODY_SECONDS, MAX_BODY_BYTES, Application, uvicorn_config
from annai.interfaces.mcp.http import Endpoint
from annai.interfaces.page.keys import Keys
from annai.interfaces.page.routes import PUBLIC_PATHS, Page
from annai.interfaces.rpc import Service
from annai.serving import daemon, pidfile
from annai.serving.pidfile import ServerRecord
from annai.settings import Server as ServerSettings
from annai.text.escapes import LogFormatter
from annai.types import ServerStatus
from annai.upkeep.worker import Worker

logger = logging.getLogger(__name__)

STARTING_SECONDS = 30.0
"""How long to wait for another server of this project that is starting or ending."""

CHECK_SECONDS = 1
"""How often to check whether to end."""

GRACE_SECONDS = 5
"""How long running calls may take once the server is ending; imports end with the document at hand."""

LOG_BACKUPS = 3


def serve(config: Config, *, port: int | None = None, log: Path | None = None, tell: Callable[[str], None]) -> None:
    """Run the project's server until it ends.

    `port` is the one that the user named; 0 means any free port. The log goes to standard error, or to a rotated file.
    """
    _set_up_logging(config, log)
    with ExitStack() as stack:
        stack.enter_context(_only_server(config))
        ended = stack.enter_context(_signals())
        engine = stack.enter_context(Engine(config))
        listener = stack.enter_context(_listen(config, port, tell))
        record = _record(config, listener, log)
        # So that no folder is kept from being removed, and no relative path means the server's own folder.
        os.chdir(config.root.anchor)
        server = _Server(config, engine, record)
        stack.callback(server.close)
        worker = Worker(engine)
        worker.start()
        stack.callback(worker.stop)
        pidfile.publish(config, record)
        stack.callback(pidfile.withdraw, config, record)
        ended.connect(server.end)
        tell(f"Serving {config.root} at {record.url} (pid {record.pid}).")
        logger.info("serving %s at %s", config.root, record.url)
        server.run(sockets=[listener])
        logger.info("ending: %s", server.reason)
    logger.info("ended")


class _Server(uvicorn.Server):
    """uvicorn with the application of one project, which ends by itself when it should."""

    def __init__(self, config: Config, engine: Engine, record: ServerRecord) -> None:
        self.reason = "it was told to"
        self._project = config
        self._record = record
        token, keys = daemon.required_token(config), Keys()
        self._service = Service(
            engine,
            config,
            secret=record.secret,
            stop=lambda: self.end("it was asked to"),
            describe=self._describe,
            keys=keys,
        )
        self._mcp = Endpoint(
            engine, config, max_body_bytes=MAX_BODY_BYTES, body_seconds=BODY_SECONDS, on_use=self._note_use
        )
        self._page = Page(engine, keys=keys, token=token, on_use=self._note_use)
        self._application = Application(
            self._service,
            routes=[self._mcp.route, *self._page.routes],
            public_paths=PUBLIC_PATHS,
            secret=record.secret,
            host=config.server.host,
            token=token,
        )
        super().__init__(
            uvicorn_config(
                self._application,
                timeout_graceful_shutdown=GRACE_SECONDS,
                timeout_notify=CHECK_SECONDS,
                callback_notify=self._end_if_orphaned,
            )
        )

    def end(self, reason: str) -> None:
        """Start to end; any thread may call it."""
        self.reason = reason
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more; imports end with the document at hand, other calls finish."""
        pidfile.withdraw(self._project, self._record)
        self._service.stopping.set()
        self._page.close()
        await self._mcp.close()
        await super().shutdown(sockets)

    def close(self) -> None:
        """Wait for the calls that are still running."""
        self._application.close()

    def _note_use(self) -> None:
        self._application.last_call = time.monotonic()

    async def _end_if_orphaned(self) -> None:
        """End if the project, the pid file or the clients are gone."""
        config = self._project
        idle = config.server.idle_shutdown_minutes * 60
        current = pidfile.read_record(config)
        if not config.root.is_dir():
            self.end("the project's folder is gone")
        elif current is None:
            self.end("the pid file is gone")
        elif current != self._record:
            self.end("another server took over")
        elif idle and time.monotonic() - self._application.last_call > idle:
            self.end(f"there was no request for {config.server.idle_shutdown_minutes:g} minutes")

    def _describe(self) -> ServerStatus:
        record = self._record
        memory = psutil.Process().memory_info().rss
        return ServerStatus(record.pid, record.url, record.started_at, memory, record.version)


class _EndSignal:
    """Remembers a signal until the server is there to end."""

    def __init__(self) -> None:
        self._came = False
        self._tell: Callable[[str], None] | None = None

    def connect(self, tell: Callable[[str], None]) -> None:
        """Call this on every signal from now on, and at once if one came before."""
        self._tell = tell
        if self._came:
            tell("it was told to")

    def __call__(self, *_: object) -> None:
        """A signal came."""
        self._came = True
        if self._tell:
            self._tell("it was told to")


@contextmanager
def _signals() -> Iterator[_EndSignal]:
    """Turn signals into a request to end; uvicorn raises them again when it is done, and then they do nothing."""
    ended = _EndSignal()
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    known = [getattr(signal, name) for name in names if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        known = []
    before = {each: signal.signal(each, ended) for each in known}
    try:
        yield ended
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _only_server(config: Config) -> Iterator[None]:
    """Be the project's only server."""
    lock = IndexLock(daemon.state_folder(config) / daemon.LOCK_FILE)
    deadline = time.monotonic() + STARTING_SECONDS
    while not lock.acquire():
        if record := pidfile.running(config):
            raise ServerError(f"A server is already running at {record.url} (pid {record.pid}).")
        if time.monotonic() > deadline:
            raise ServerError("Another server of this project is starting or ending; try again in a while.")
        time.sleep(daemon.POLL_SECONDS)
    try:
        if pidfile.left_behind(config):
            logger.warning("the last server crashed; its pid file is replaced")
        yield
    finally:
        lock.release()


def _listen(config: Config, port: int | None, tell: Callable[[str], None]) -> socket.socket:
    """Bind the port that the user named; if only the default port is taken, use any free one."""
    host, wanted = config.server.host, config.server.port if port is None else port
    is_named = port is not None or wanted != ServerSettings().port
    try:
        return _bind(host, wanted)
    except OSError as error:
        if is_named or isinstance(error, socket.gaierror):
            raise ServerError(
                f"The server cannot listen on {host}, port {wanted} ({error.strerror}); "
                "choose another port with --port N, or a free one with --port auto."
            ) from error
    listener = _bind(host, 0)
    tell(f"Port {wanted} is taken, so a free one is used.")
    return listener


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # Without it a port stays taken for a minute after its server ended; on Windows it would share the port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def _record(config: Config, listener: socket.socket, log: Path | None) -> ServerRecord:
    return ServerRecord(
        pid=os.getpid(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        project_root=str(config.root),
        project_name=config.name,
        host=config.server.host,
        port=listener.getsockname()[1],
        config_path=str(config.file or ""),
        database=str(config.database_path),
        log=str(log or ""),
        version=__version__,
        python_version=platform.python_version(),
        process_created=psutil.Process().create_time(),
        secret=secrets.token_urlsafe(32),
    )


class _PrivateLog(RotatingFileHandler):
    """A rotated log that only its owner can read: it names documents."""

    def _open(self) -> io.TextIOWrapper:
        raw = io.FileIO(self.baseFilename, "a", opener=private_opener)
        return io.TextIOWrapper(raw, encoding=self.encoding)


def _set_up_logging(config: Config, log: Path | None) -> None:
    """Log to a rotated file, or to standard error."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if log:
        largest = int(config.logging.rotate_mb * 1_000_000)
        try:
            handler = _PrivateLog(log, maxBytes=largest, backupCount=LOG_BACKUPS, encoding="utf-8")
        except OSError as error:
            raise ServerError(f"The log {log} cannot be written: {error.strerror}; name another with --log.") from error
    verbose = logging.getLogger().level == logging.DEBUG
    level = logging.DEBUG if verbose else config.logging.level.upper()
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for chatty in ("uvicorn", "uvicorn.error", "mcp", "watchfiles", "asyncio", "charset_normalizer"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
