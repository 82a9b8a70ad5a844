"""How do tests speak to a server? One in a thread of this process, on a free port."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from annai.interfaces.http import Application, uvicorn_config

DEADLINE = 60.0


def eventually(condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Wait for a condition, and fail if it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@contextmanager
def served(application: Application) -> Iterator[int]:
    """Serve an application on this machine; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn_config(application, timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        eventually(lambda: server.started or not thread.is_alive())
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(DEADLINE)
        application.close()
        listener.close()
