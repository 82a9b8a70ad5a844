"""How does a file that is no plain text become Markdown? In a process with limits, which no file can outlive.

Files are hostile: one may hang, take all memory or end the program that reads it. So a process reads one after another;
one that takes too long or too much is killed, and the next file gets a new process. What comes back is JSON, since
only a process that nothing has gone wrong in can be trusted with more.
"""

import atexit
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, cast

from annai.errors import SkippedFile, UnreadableFile
from annai.files import child
from annai.files.formats.markdown import ConversionError, Converted
from annai.files.kinds import CONVERTERS, missing_extra, suffix_of
from annai.plugins import install_command
from annai.settings import Documents
from annai.text.nesting import parse_json

if TYPE_CHECKING:
    from subprocess import Popen

MEGABYTE = 1_000_000

POLL_SECONDS = 0.1
"""How often the memory of the process is looked at."""

KEEP_SECONDS = 20.0
"""A process without work ends after this long."""


def convert(path: str, data: bytes, settings: Documents, max_text: int) -> Converted:
    """A file's text, made in the process for conversions.

    Raises `SkippedFile` if it cannot be converted, or its text has more characters than `max_text`.
    """
    if extra := missing_extra(suffix_of(path)):
        raise UnreadableFile(f"{suffix_of(path)} files need an extra: run `{install_command(extra)}`")
    with _lock:
        return _converter.convert(suffix_of(path), data, settings, max_text)


class _Converter:
    """The process that converts files, started when one is needed."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._limits: Documents | None = None
        self._replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def convert(self, suffix: str, data: bytes, settings: Documents, max_text: int) -> Converted:
        process = self._ensure(settings)
        request = json.dumps({"suffix": suffix, "max_text": max_text, "seconds": settings.timeout_seconds}).encode()
        try:
            for part in (request, data):
                child.send(cast("BinaryIO", process.stdin), part)
        except OSError:
            pass  # It has died: the missing reply tells.
        reply = self._wait(process, settings)
        try:
            values = parse_json(reply)
            if "problem" not in values:
                return Converted(str(values["text"]), dict(values["values"]))
        except (ValueError, TypeError, KeyError):
            self.close()
            raise SkippedFile("annai could not convert it (the reply of its process was broken)") from None
        raise SkippedFile(str(values["problem"]))

    def _ensure(self, settings: Documents) -> "Popen[bytes]":
        if self._process is not None and (self._process.poll() is not None or self._limits != settings):
            self.close()
        if self._process is None:
            try:
                self._process = child.start("annai.files.conversion")
            except OSError as error:
                raise UnreadableFile(f"no process could be started to convert it ({error.strerror})") from error
            self._limits = settings
            self._replies = queue.SimpleQueue()
            threading.Thread(target=_read_replies, args=(self._process, self._replies), daemon=True).start()
            with suppress(OSError):
                limits = json.dumps({"memory": int(settings.max_memory_mb * MEGABYTE)}).encode()
                child.send(cast("BinaryIO", self._process.stdin), limits)
        return self._process

    def _wait(self, process: "Popen[bytes]", settings: Documents) -> bytes:
        """The reply for a file; a process that takes too long or too much is killed."""
        memory = _memory_of(process.pid)
        deadline = time.monotonic() + settings.timeout_seconds
        while True:
            try:
                reply = self._replies.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if memory() > settings.max_memory_mb * MEGABYTE:
                    self.close()
                    raise SkippedFile(_too_much(settings)) from None
                if time.monotonic() > deadline:
                    self.close()
                    raise SkippedFile(
                        f"converting it took longer than {settings.timeout_seconds:g} seconds "
                        "(documents.timeout_seconds)"
                    ) from None
                continue
            if reply is None:
                self.close()
                raise SkippedFile(
                    "the process that converted it died: the file is broken, or needs more memory than "
                    f"{settings.max_memory_mb:g} MB (documents.max_memory_mb)"
                )
            return reply

    def close(self) -> None:
        """End the process at once."""
        process, self._process = self._process, None
        if process is not None:
            child.end(process)


_converter = _Converter()
_lock = threading.Lock()
"""One file at a time: whoever prepares many has a process of its own for that, and so a converter of its own."""

atexit.register(_converter.close)


def _too_much(settings: Documents) -> str:
    return f"converting it needs more memory than {settings.max_memory_mb:g} MB (documents.max_memory_mb)"


def _memory_of(pid: int) -> Callable[[], int]:
    """What tells the resident memory of a process."""
    import psutil  # most searches convert nothing

    try:
        process = psutil.Process(pid)
    except psutil.Error:
        return lambda: 0

    def resident() -> int:
        try:
            return int(process.memory_info().rss)
        except psutil.Error:
            return 0

    return resident


def _read_replies(process: "Popen[bytes]", replies: "queue.SimpleQueue[bytes | None]") -> None:
    with suppress(OSError, EOFError, ValueError):
        while True:
            replies.put(child.receive(cast("BinaryIO", process.stdout)))
    replies.put(None)


def main() -> None:
    """Run in the process: convert what standard input brings, and end when it does or when nothing comes."""
    child.offer_to_be_killed()
    own = child.claim_output()
    # What a library prints is not for the user either.
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nothing, stream.fileno())
    parts = child.incoming()
    _limit(json.loads(parts.get())["memory"])
    while True:
        try:
            request = json.loads(parts.get(timeout=KEEP_SECONDS))
        except queue.Empty:
            os._exit(0)
        _limit_time(request["seconds"])
        child.send(own, json.dumps(_reply(request["suffix"], parts.get(), request["max_text"])).encode())


def _reply(suffix: str, data: bytes, max_text: int) -> dict[str, object]:
    try:
        module, _, name = CONVERTERS[suffix].partition(":")
        function = getattr(import_module(f"annai.files.formats.{module}"), name)
        converted: Converted = function(data)
        text = converted.text.encode("utf-8", "replace").decode()
        if len(text) > max_text:
            raise ConversionError(
                f"its text has {len(text):,} characters, over the limit of {max_text:,} (files.max_file_mb)"
            )
        if not text.strip():
            raise ConversionError("it holds no text")
        reply: dict[str, object] = {"text": text, "values": converted.values}
    except ConversionError as error:
        reply = {"problem": str(error)}
    except MemoryError:
        reply = {"problem": "converting it needs more memory than it may take (documents.max_memory_mb)"}
    except RecursionError:
        reply = {"problem": "it is broken: its parts are nested too deeply"}
    except Exception as error:
        # Whatever a file can do to a parser: it is this file's problem, and the next one is converted all the same.
        reply = {"problem": f"it is broken, or annai cannot read it yet ({type(error).__name__}: {error})"}
    return reply


def _limit(memory: int) -> None:
    """Let the system refuse more memory than that, and every file that is written."""
    if sys.platform == "win32":
        return
    with suppress(ValueError, OSError):
        import resource

        base = 0
        with suppress(OSError), open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123
            base = int(stream.read().split()[0]) * resource.getpagesize()
        # What is mapped without being used counts here: what the interpreter has mapped already comes on top.
        resource.setrlimit(resource.RLIMIT_AS, (memory + base, memory + base))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time(seconds: float) -> None:
    """Let the system end this process if it computes much longer than it may, should nobody else do so."""
    if sys.platform == "win32":
        return
    with suppress(ValueError, OSError):
        import resource

        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + 2 * seconds) + 10, hard))
