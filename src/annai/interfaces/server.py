"""How does a server run? The engine, its worker and the web application in one process.

It ends when `annai server stop` asks it to, on Ctrl-C or SIGTERM, and by itself when its project's folder or its pid
file is gone, when another server took over, or after `server.idle_shutdown_minutes` without a request.
"""

import logging
import os
import platform
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil
import uvicorn

from annai import __version__
from annai.config import Config
from annai.engine import Engine
from annai.errors import AnnaiError, ServerError
from annai.indexing.lock import IndexLock
from annai.interfaces.audit import Audit
from annai.interfaces.callers import Doorkeeper, Permissions
from annai.interfaces.http import BODY_SECONDS, MAX_BODY_BYTES, Application, uvicorn_config
from annai.interfaces.logs import set_up_logging
from annai.interfaces.mcp.http import Endpoint
from annai.interfaces.metrics import Metrics
from annai.interfaces.page.keys import Keys
from annai.interfaces.page.routes import PUBLIC_PATHS, Page
from annai.interfaces.rpc import Service
from annai.serving import daemon, pidfile
from annai.serving.changes import StoreChanges, models_digest, store_digest
from annai.serving.pidfile import ServerRecord
from annai.serving.tokens import TokenFile
from annai.settings import Server as ServerSettings
from annai.types import ServerStatus
from annai.upkeep.worker import Worker

logger = logging.getLogger(__name__)

STARTING_SECONDS = 30.0
"""How long to wait for another server of this project that is starting or ending."""

CHECK_SECONDS = 1
"""How often to check whether to end."""

CUT_OFF_SECONDS = 2.0
"""How long after `server.shutdown_seconds` the process ends whatever still runs; the index is whole at any moment."""


def serve(config: Config, *, port: int | None = None, log: Path | None = None, tell: Callable[[str], None]) -> None:
    """Run the project's server until it ends.

    `port` is the one that the user named; 0 means any free port. The log goes to standard error, or to a rotated file.
    """
    set_up_logging(config, log)
    with ExitStack() as stack:
        stack.enter_context(_only_server(config))
        cut_off = stack.enter_context(_cut_off(config))
        ended = stack.enter_context(_signals())
        engine = stack.enter_context(Engine(config))
        listener = stack.enter_context(_listen(config, port, tell))
        record = _record(config, listener, log)
        # So that no folder is kept from being removed, and no relative path means the server's own folder.
        os.chdir(config.root.anchor)
        worker = Worker(engine)
        server = _Server(config, engine, record, worker)
        stack.callback(server.close)
        worker.start()
        stack.callback(worker.stop)
        pidfile.publish(config, record)
        stack.callback(pidfile.withdraw, config, record)
        ended.connect(server.end)
        tell(f"Serving {config.root} at {record.url} (pid {record.pid}).")
        logger.info("serving %s at %s", config.root, record.url)
        server.on_end = cut_off.start
        server.run(sockets=[listener])
        logger.info("ending: %s", server.reason)
    logger.info("ended")


class _Server(uvicorn.Server):
    """uvicorn with the application of one project, which ends by itself when it should."""

    def __init__(self, config: Config, engine: Engine, record: ServerRecord, worker: Worker) -> None:
        self.reason = "it was told to"
        self.on_end: Callable[[], None] = lambda: None
        """Called when it starts to end."""
        self._project = config
        self._engine = engine
        self._record = record
        self._worker = worker
        self._changes = StoreChanges(config)
        self._process = psutil.Process()
        self._cpu_percent = self._process.cpu_percent()
        keys, metrics = Keys(), Metrics(engine)
        self._doors = Doorkeeper(daemon.required_token(config), TokenFile(config))
        self._audit = _open_audit(config)
        permissions = Permissions(engine, self._audit, metrics.searches.add)
        self._service = Service(
            engine,
            config,
            secret=record.secret,
            stop=lambda: self.end("it was asked to"),
            describe=self._describe,
            keys=keys,
        )
        self._mcp = Endpoint(
            permissions.project,
            config,
            max_body_bytes=MAX_BODY_BYTES,
            body_seconds=BODY_SECONDS,
            on_use=self._note_use,
        )
        self._page = Page(
            engine,
            keys=keys,
            engine_of=lambda caller: permissions.project(caller).engine,
            still_knows=self._doors.still_knows,
            on_use=self._note_use,
        )
        self._application = Application(
            self._service,
            routes=[self._mcp.route, *self._page.routes],
            public_paths=PUBLIC_PATHS,
            secret=record.secret,
            host=config.server.host,
            doors=self._doors,
            permissions=permissions,
            settings=config.server,
            metrics=metrics,
            find_problems=self._find_problems,
        )
        super().__init__(
            uvicorn_config(
                self._application,
                config.server.trusted_proxies,
                timeout_graceful_shutdown=config.server.shutdown_seconds,
                timeout_notify=CHECK_SECONDS,
                callback_notify=self._end_if_orphaned,
            )
        )

    def end(self, reason: str) -> None:
        """Start to end; any thread may call it."""
        self.reason = reason
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more; imports and indexing end with the document at hand, other calls finish."""
        self.on_end()
        pidfile.withdraw(self._project, self._record)
        self._application.refuse()
        for server in self.servers:
            server.close()
        self._service.stopping.set()
        self._worker.finish()
        self._page.close()
        await self._mcp.drain(self._project.server.shutdown_seconds)
        await self._mcp.close()
        await super().shutdown(sockets)

    def close(self) -> None:
        """Wait for the calls that are still running."""
        self._application.close()
        self._audit.close()

    def _find_problems(self) -> list[str]:
        """What keeps this server from answering: the store, the index in it, the worker."""
        checks: dict[str, Callable[[], object]] = {"store": self._engine.store.collections, "index": self._read_index}
        problems = []
        for name, check in checks.items():
            try:
                check()
            except (AnnaiError, OSError) as error:
                logger.warning("the server is not ready, because of its %s: %s", name, error)
                problems.append(name)
        return problems if self._worker.is_alive else [*problems, "worker"]

    def _read_index(self) -> None:
        """Read the index; one whose file is gone is not there, though it can still be read."""
        config = self._project
        if config.store.engine not in ("memory", "postgres") and not config.database_path.exists():
            raise ServerError(f"{config.database_path} is gone.")
        self._engine.store.requests.counts()

    def _note_use(self) -> None:
        self._application.last_call = time.monotonic()

    async def _end_if_orphaned(self) -> None:
        """End if the project, the pid file or the clients are gone, or the settings name another store."""
        self._cpu_percent = self._process.cpu_percent()  # Since the last check.
        config = self._project
        idle = config.server.idle_shutdown_minutes * 60
        current = pidfile.read_record(config)
        await self._mcp.close(self._doors.still_knows)
        if not config.root.is_dir():
            self.end("the project's folder is gone")
        elif current is None:
            self.end("the pid file is gone")
        elif current != self._record:
            self.end("another server took over")
        elif changed := self._changes.reason():
            self.end(f"{changed}; `annai server start` serves the index that it names now")
        elif idle and time.monotonic() - self._application.last_call > idle:
            self.end(f"there was no request for {config.server.idle_shutdown_minutes:g} minutes")

    def _describe(self) -> ServerStatus:
        record = self._record
        with self._process.oneshot():
            memory, times = self._process.memory_info().rss, self._process.cpu_times()
        return ServerStatus(
            record.pid,
            record.url,
            record.started_at,
            memory,
            record.version,
            self._cpu_percent,
            round(times.user + times.system, 2),
        )


@contextmanager
def _cut_off(config: Config) -> Iterator[threading.Timer]:
    """A timer that ends the process if what runs does not end in time; that leaves a whole index at any moment."""

    def end() -> None:
        logger.error("what was still running after %g seconds was cut off", config.server.shutdown_seconds)
        logging.shutdown()
        os._exit(1)

    timer = threading.Timer(config.server.shutdown_seconds + CUT_OFF_SECONDS, end)
    timer.daemon = True
    try:
        yield timer
    finally:
        timer.cancel()


def _open_audit(config: Config) -> Audit:
    file = config.audit_path
    try:
        return Audit(file, int(config.logging.rotate_mb * 1_000_000))
    except OSError as error:
        raise ServerError(
            f"The audit log {file} cannot be written: {error.strerror}", "name another in logging.audit_file."
        ) from error


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
            raise ServerError(
                f"A server is already running at {record.url} (pid {record.pid})", "`annai server stop` ends it."
            )
        if time.monotonic() > deadline:
            raise ServerError("Another server of this project is starting or ending", "try again in a while.")
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
                f"The server cannot listen on {host}, port {wanted} ({error.strerror})",
                "choose another port with --port N, or a free one with --port auto.",
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
        store=store_digest(config),
        models=models_digest(config),
    )
