"""What does annai say to the outside? Every command, call and message, so that `diff` can compare two versions.

    python benchmarks/transcript.py OUTPUT_FILE [--source DIR]

It imports nothing of annai: it runs `python -m annai`, speaks JSON-RPC over HTTP and MCP over pipes, in a small tree of
its own. The steps are in transcript_steps.txt. Two runs of the same code write the same bytes.
"""

import argparse
import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any, TextIO

LIMIT = 300.0
"""Seconds that a command, an answer or a whole session may take: far more than any needs, on a busy machine too."""

OLD = 1_700_000_000
"""The time of every file, so that nothing depends on when a checkout was made."""

VARYING = [
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:\+00:00|Z)?", "<TIME>"),
    (r'("(?:took_ms|median|p95|uptime_seconds|seconds_to_first_vector|texts_per_second)": )[\d.]+', r"\1<TIME>"),
    (r"(results in )\d+( ms)", r"\1<TIME>\2"),
    (r"[\d.]+( ms per question, 95% under )[\d.]+( ms)", r"<TIME>\1<TIME>\2"),
    (r"(\[TIMER\] [^:]+: )[\d.]+ms", r"\1<TIME>ms"),
    (r"(?<=failed \d \()[^)\n]+|(?<=Uptime     )[^\n]+|(?<=this takes about )[^.]+", "<TIME>"),
    (r"((?:seconds to first vector|texts per second) +)[\d.]+", r"\1<TIME>"),
    (r'("(?:memory|memory_bytes|size_on_disk)": )\d+', r"\1<SIZE>"),
    (r"((?:Memory|memory bytes) +|Index +\S+ \()[\d.]+ \w+", r"\1<SIZE>"),
    (r"[\d.]+ \w+ before, [\d.]+ \w+ now", "<SIZE> before, <SIZE> now"),
    (r"(index\.sqlite`, )[\d,]+( bytes)", r"\1<SIZE>\2"),
    (r'("pid": |\(pid )\d+', r"\1<PID>"),
    (r'("port": |127\.0\.0\.1:|127\.0\.0\.1, port )(?!24280\b)\d{4,5}', r"\1<PORT>"),
    (r'("proof": "|mcp-session-id: |\(checksum )\w+', r"\1<SECRET>"),
]
"""What changes by nature, and what is written in its place."""

QUEUED = (r'("(?:status|started_at|completed_at|hash)": )"[^"]*"', r'\1"<QUEUED>"')
"""What a request says of itself that was queued just now: it depends on how soon the worker takes it up."""

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "transcript", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What every message carries in MCP's newer era, which has no handshake."""


def main() -> None:
    """Make the tree, do every step in it, and leave nothing running."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--source", type=Path, help="the checkout whose src/ and examples/ are used")
    options = parser.parse_args()
    # Whoever ends this ends what it has started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("It was ended."))
    parts = read_steps(Path(__file__).with_name("transcript_steps.txt"))
    with (
        tempfile.TemporaryDirectory(prefix="transcript-", ignore_cleanup_errors=True) as folder,
        options.output.open("w", encoding="utf-8", newline="\n") as output,
    ):
        tree = Path(folder).resolve()
        make_tree(tree, (options.source or Path(__file__).parent.parent) / "examples", parts["files"])
        transcript = Transcript(tree, options.source, output)
        try:
            ask_programs(transcript, parts)
            use_a_server(transcript, parts)
            end_servers(transcript, parts)
        finally:
            # Whatever went wrong: a server ends when it is told to, and when its folder is gone.
            for project in ("docs", "api"):
                transcript.command(project, "server stop", quiet=True)


def ask_programs(transcript: "Transcript", parts: dict[str, list[str]]) -> None:
    """Everything that needs no server: commands, the files that they write, and agents."""
    for part in ("help", "first", "asking", "wrong", "others", "collections"):
        transcript.commands(parts[part])
    for name in parts["written"]:
        transcript.file(name)
    with closing(Agent(transcript, "docs", "mcp")) as agent:
        agent.ask(parts["hello"] + parts["agent"])
    with closing(Agent(transcript, "docs", "mcp --config ../config/small.toml")) as agent:
        agent.ask(parts["modern"], {"_meta": MODERN})
    with closing(Agent(transcript, "shelf", "mcp")) as agent:
        agent.ask(parts["hello"] + parts["shelf"])
        transcript.command("shelf", "collection add -n guide -d Guides -s ../docs/guide")
        agent.hear(lambda message: message.get("method") == "notifications/tools/list_changed")
        transcript.settle("shelf", documents=7)
        agent.ask(parts["shelf"])
    (transcript.tree / "python/b.md").unlink()
    write_files(transcript.tree, parts["changes"])
    transcript.commands(parts["changed"])


def use_a_server(transcript: "Transcript", parts: dict[str, list[str]]) -> None:
    """The same commands through a server, calls, a file that is saved meanwhile, and an agent that outlives it."""
    transcript.serve("docs", "server start --port auto")
    transcript.token = transcript.command("docs", "token owner", quiet=True).strip()
    transcript.commands(parts["serving"] + parts["asking"])
    transcript.requests(parts["requests"])
    transcript.calls(parts["calls"])
    transcript.settle("docs", documents=35)
    with closing(Agent(transcript, "docs", "mcp")) as agent:
        agent.ask(parts["hello"] + parts["small"])
        write_files(transcript.tree, ["docs/guide/new.md # New\\n\\nA trombone, just bought."])
        transcript.settle("docs", documents=36)
        transcript.commands(parts["watched"])
        agent.ask(parts["small"])
    transcript.token = ""
    transcript.state_file("docs", "server.log")


def end_servers(transcript: "Transcript", parts: dict[str, list[str]]) -> None:
    """Servers that crash, whose port is taken, that stay in the foreground, and that ask for a token."""
    for after in (parts["crashed"], ["docs$ server stop"]):
        os.kill(transcript.serve("docs", "server start --port auto"), signal.SIGKILL)
        transcript.commands(after)
    transcript.commands(["docs$ server restart --port auto", "docs$ server stop"])
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        transcript.address = f"127.0.0.1:{taken.getsockname()[1]}"
        transcript.command("docs", "server start --port <PORT>")
    transcript.foreground("docs", "server start --foreground --port auto")
    transcript.foreground("docs", "mcp --http --port auto")
    transcript.serve("api", "server start --config ../config/secret.toml")
    transcript.requests(parts["token"])
    transcript.commands(parts["guarded"])


class Transcript:
    """Does one step after another in the tree, and writes down what comes back."""

    def __init__(self, tree: Path, source: Path | None, output: TextIO) -> None:
        self.tree, self._output = tree, output
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        self._environment = kept | {"HOME": str(tree / "home"), "COLUMNS": "100", "LANG": "C.UTF-8"}
        if source:
            self._environment["PYTHONPATH"] = str(source.resolve() / "src")
        self._names = {tree / "home": "<HOME>", tree: "<ROOT>", Path(sys.executable).parent: "<BIN>"}
        self.address = ""
        """HOST:PORT of the server that was started last."""
        self.token = ""
        """What requests carry, unless they name another."""

    def record(self, heading: str, *more: tuple[str, str], **said: str) -> None:
        """Write down a step; `more` is what else varies in it."""
        text = f"== {heading}\n"
        for name, value in said.items():
            end = "" if value.endswith("\n") else "\n(no end of line)\n"
            text += f"-- {name}\n{value}{end}" if value else ""
        for path, short in self._names.items():
            text = text.replace(str(path), short)
        for pattern, instead in [*VARYING, *more]:
            text = re.sub(pattern, instead, text)
        self._output.write(text.replace("\r", "␍").replace("\x1b", "␛") + "\n")

    def file(self, name: str) -> None:
        """Write down what a file holds."""
        self.record(f"file {name}", content=_text((self.tree / name).read_bytes()))

    def state_file(self, folder: str, name: str) -> None:
        """Write down what a file in a project's state folder contains."""
        projects = json.loads(self.command(folder, "projects --json", quiet=True))
        (place,) = (each["state"] for each in projects if each["root"] == str(self.tree / folder))
        self.record(f"state of {folder}: {name}", content=_text((Path(place) / name).read_bytes()))

    def start(self, folder: str, line: str, **pipes: Any) -> "subprocess.Popen[bytes]":  # noqa: ANN401 - Popen's own
        """Start annai; a variable may stand before what is typed."""
        line = line.replace("<URL>", f"http://{self.address}").replace("<PORT>", self.address.partition(":")[2])
        words = shlex.split(line)
        variable = dict([words.pop(0).split("=", 1)]) if re.match("[A-Z_]+=", line) else {}
        command = [sys.executable, "-m", "annai", *words]
        return subprocess.Popen(command, cwd=self.tree / folder, env=self._environment | variable, **pipes)

    def command(self, folder: str, line: str, *, quiet: bool = False) -> str:
        """Run a command to its end, and return what it prints."""
        typed, _, answer = line.partition(" <<< ")
        with self.start(folder, typed, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process, limited(process):
            out, err = map(_text, process.communicate(f"{answer}\n".encode() if answer else b""))
        if not quiet:
            self.record(f"{folder}$ annai {line}  [exit {process.returncode}]", stdout=out, stderr=err)
        return out

    def commands(self, lines: Sequence[str]) -> None:
        """Run one command after another."""
        for line in lines:
            folder, _, typed = line.partition("$")
            self.command(folder, typed.strip())

    def settle(self, folder: str, documents: int) -> None:
        """Wait until a worker has indexed so many documents, and nothing waits any more."""

        def is_done() -> bool:
            status = json.loads(self.command(folder, "index status --format json", quiet=True))
            waiting = {"pending", "processing"} & status["requests"].keys()
            return bool(status["documents"] == documents and not waiting)

        until(is_done)

    def serve(self, folder: str, line: str) -> int:
        """Start a server in the background, and return its pid."""
        said = self.command(folder, line)
        found = re.search(r"http://(\S+:\d+) \(pid (\d+)\)", said)
        if not found:
            raise RuntimeError(f"No server started: {said}")
        self.address = found[1]
        return int(found[2])

    def foreground(self, folder: str, line: str) -> None:
        """Start a server that stays in the foreground, and end it once it runs."""
        with self.start(folder, line, stdout=PIPE, stderr=PIPE) as process, limited(process):
            until(lambda: '"running": true' in self.command(folder, "server status --format json", quiet=True))
            process.send_signal(signal.SIGTERM)
            out, err = map(_text, process.communicate())
        self.record(f"{folder}$ annai {line}  [SIGTERM, exit {process.returncode}]", stdout=out, stderr=err)

    def requests(self, lines: Sequence[str]) -> None:
        """Send one request after another."""
        for line in lines:
            request, _, headers = line.partition(" @ ")
            method, path, body = f"{request}  ".split(" ", 2)
            given = json.loads(headers or "{}")
            status, kept, said = self._send(method, path, body.strip().replace("<MEGABYTE>", "x" * 1_000_000), given)
            self.record(f"{line}  [{status}]", headers=kept, body=_pretty(said))

    def calls(self, lines: Sequence[str]) -> None:
        """Make one call after another."""
        for line in lines:
            method, _, params = line.partition(" ")
            value = json.loads(params.replace("<ROOT>", str(self.tree)))
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": value}
            status, _, said = self._send("POST", "/rpc", json.dumps(call), {})
            more = [QUEUED] if method == "index_document" else []
            self.record(f"rpc {line}  [{status}]", *more, body=_pretty(said))

    def _send(self, method: str, path: str, body: str, headers: dict[str, str]) -> tuple[int, str, str]:
        """Send a request to the server: its status, the headers that do not vary, and its body."""
        with closing(http.client.HTTPConnection(self.address, timeout=LIMIT)) as connection:
            own = {"Authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request(method, path, body.encode(), {"Content-Type": "application/json"} | own | headers)
            answer = connection.getresponse()
            said = _text(answer.read())
        kept = sorted(
            f"{key}: {value}\n" for key, value in answer.getheaders() if key not in ("date", "content-length")
        )
        return answer.status, "".join(kept), said


class Agent:
    """A session over MCP, as an agent's program holds it."""

    def __init__(self, transcript: Transcript, folder: str, line: str) -> None:
        self._transcript, self._name = transcript, f"{folder}$ annai {line}"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the session
        self._process = transcript.start(folder, line, stdin=PIPE, stdout=PIPE, stderr=self._errors)
        self._watchdog = threading.Timer(LIMIT, self._process.kill)
        self._watchdog.start()

    def ask(self, lines: Sequence[str], more: dict[str, Any] | None = None) -> None:
        """Send one message after another: a name with a slash is a method, any other a tool; `more` goes with all."""
        for line in lines:
            name, _, params = line.partition(" ")
            given = json.loads(params)
            if "/" not in name and name != "initialize":
                name, given = "tools/call", {"name": name, "arguments": given}
            is_notice = name.startswith("notifications/")
            message = {"jsonrpc": "2.0", "method": name, "params": given | (more or {})}
            self._send(message if is_notice else message | {"id": 1})
            if not is_notice:
                answer = self.hear(lambda message: message.get("id") == 1)
                self._transcript.record(f"mcp {line}", answer=_pretty(json.dumps(answer)))

    def hear(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that is wanted; progress and changes are told at any time."""
        for line in self._process.stdout or ():
            if wanted(message := json.loads(line)):
                return dict(message)
        raise RuntimeError(f"{self._name} ended too soon.")

    def close(self) -> None:
        """Leave, as a client does: by ending its input."""
        self._process.communicate()
        self._watchdog.cancel()
        self._errors.seek(0)
        self._transcript.record(f"{self._name}  [exit {self._process.returncode}]", stderr=_text(self._errors.read()))

    def _send(self, message: dict[str, Any]) -> None:
        if self._process.stdin:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()


def read_steps(file: Path) -> dict[str, list[str]]:
    """The steps by the names of their parts."""
    parts: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            steps = parts.setdefault(line.removeprefix("## "), [])
        elif line and not line.startswith("#"):
            steps.append(line)
    return parts


def make_tree(tree: Path, examples: Path, files: Sequence[str]) -> None:
    """The examples, the files of the steps, those that no text can hold, and a home that is nobody's."""
    shutil.copytree(examples, tree / "docs")
    (tree / "home").mkdir()
    write_files(tree, files)
    words = (
        "The gate of the yard opens at six, and whoever brings parcels signs the list at the desk before he leaves. "
    )
    chapters = [f"## Chapter {number}\n\n{words * 8}" for number in range(1, 23)]
    last = [f"Paragraph {number}. {words * 3}" for number in range(12)]
    _write(tree / "docs/guide/long.md", "\n\n".join(["# The yard", *chapters, "## Last", *last, ""]).encode())
    _write(tree / "docs/guide/sjis.txt", "倉庫の住所録\n\n京都の倉庫は駅の南にあります。\n".encode("shift_jis"))
    _write(tree / "docs/binary.md", bytes(range(256)))
    _write(tree / "odd/\udcff.md", b"# Not UTF-8\n")
    _write(tree / "odd/か\u3099.md", b"# Decomposed\n\nA name in two spellings.\n")
    for number in range(5_001):
        _write(tree / f"many/{number}.md", b"x")
    for file in (tree / "docs").rglob("*"):
        os.utime(file, (OLD, OLD))


def write_files(tree: Path, lines: Sequence[str]) -> None:
    """Write files, each a path and what it holds."""
    for line in lines:
        path, _, text = line.partition(" ")
        for mark, meant in (("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t"), ("\\0", "\0")):
            text = text.replace(mark, meant)
        _write(tree / path, text.encode())


def until(condition: Callable[[], bool]) -> None:
    """Wait for something, but not for ever."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("It did not happen in time.")
        time.sleep(0.1)


@contextmanager
def limited(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kill a process that takes too long, or that an error leaves behind."""
    watchdog = threading.Timer(LIMIT, process.kill)
    watchdog.start()
    try:
        yield
    except BaseException:
        process.kill()
        raise
    finally:
        watchdog.cancel()


def _write(file: Path, content: bytes) -> None:
    """Write a file that appears whole, and old."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name("draft")
    draft.write_bytes(content)
    os.utime(draft, (OLD, OLD))
    draft.replace(file)


def _pretty(text: str) -> str:
    """JSON on many lines, with an end of line where a text in it has one."""
    with suppress(ValueError):
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=1).replace("\\n", "\\n\n") + "\n"
    return text


def _text(said: bytes) -> str:
    return said.decode(errors="backslashreplace")


if __name__ == "__main__":
    main()
