"""Does the server behave as a process? Pure output, many clients, clients that die, and an end that leaves nothing."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from annai.config import load_config
from annai.errors import StoreError
from annai.indexing.lock import IndexLock
from annai.interfaces.mcp.access import Access
from annai.models.remote import Json
from annai.project import Project
from tests import service as services
from tests.agents import ERAS, connected, text
from tests.conftest import Annai, state_of, trust
from tests.loopback import DEADLINE, eventually

ANIMALS = ("zebra", "giraffe", "lion")

HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}

LOUD_SERVER = """
import os, subprocess, sys, warnings
from annai.embedders.hashing import HashingEmbedder

quiet_init, quiet_query = HashingEmbedder.__init__, HashingEmbedder.embed_query

def loud_init(self, *rest, **options):
    print("printed when it was loaded")
    quiet_init(self, *rest, **options)

def loud_query(self, text):
    print("printed by the embedder")
    os.write(1, b"written by C code\\n")
    subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
    warnings.warn("a warning of the embedder")
    sys.stdout.write("and no line end")
    if "crash" in text:
        raise RuntimeError("the embedder crashed")
    return quiet_query(self, text)

HashingEmbedder.__init__, HashingEmbedder.embed_query = loud_init, loud_query

from annai.interfaces.cli import main
main()
"""
"""The program itself, with an embedder that behaves as badly as a plug-in can."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with the quick embedder."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    for name in ANIMALS:
        (folder / f"{name}.md").write_text(f"# The {name}\n\nEvery {name} is described here.")
    return folder


@pytest.fixture
def embedding(project: Path) -> Iterator[threading.Event]:
    """A thousand files more in the project, and a service that embeds many texts only once this is set."""
    for number in range(1_000):
        (project / f"{number}.md").write_text(f"# Note {number}\n\nostrich {number} lives here.")
    goes_on = threading.Event()

    def wait(answer: Json) -> Json:
        if len(answer["data"]) > len(ANIMALS):
            goes_on.wait(DEADLINE)
        return answer

    with services.running() as service:
        service.change = wait
        (project / "annai.toml").write_text(
            f'[embedding]\nprovider = "openai"\nmodel = "slow"\nbase_url = "{service.url}/v1"\n'
        )
        yield goes_on
        goes_on.set()


class Raw:
    """`annai mcp` with nothing between the test and its pipes."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        program: Sequence[str] = ("-m", "annai"),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            cwd=folder,
            env=os.environ | (environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._number = 0

    def send(self, message: dict[str, Any] | bytes) -> None:
        """Send one line."""
        assert self.process.stdin
        self.process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: dict[str, Any]) -> int:
        """Ask, and do not wait."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def answer(self, number: int | None) -> dict[str, Any]:
        """Wait for the answer to a request."""
        assert self.process.stdout
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if "method" not in message and message.get("id") == number:
                return dict(message)
        raise AssertionError("the server ended")

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        return self.answer(self.begin(method, params))

    def shake_hands(self) -> None:
        """Begin a session."""
        self.ask("initialize", HANDSHAKE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def search(self, query: str) -> dict[str, Any]:
        """Search, and return the tool's result."""
        return dict(self.ask("tools/call", {"name": "search", "arguments": {"query": query}})["result"])


@contextmanager
def raw(folder: Path) -> Iterator[Raw]:
    """A server that is ended with the block."""
    server = Raw(folder, "mcp")
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "--verbose"])
def test_every_byte_of_standard_output_is_protocol(project: Path, tmp_path: Path, level: str) -> None:
    (tmp_path / "loud.py").write_text(LOUD_SERVER)
    if level != "--verbose":
        (project / "annai.toml").write_text(f'[embedding]\nprovider = "hashing"\n[logging]\nlevel = "{level}"\n')
    options = [level] if level == "--verbose" else []
    loud = {"PYTHONWARNINGS": "always"}
    server = Raw(project, "mcp", *options, program=[str(tmp_path / "loud.py")], environment=loud)
    server.shake_hands()
    assert not server.search("zebra").get("isError")
    failed = server.search("crash")
    assert failed["isError"]
    assert "the embedder crashed" in failed["content"][0]["text"]
    server.send(b"this is no JSON\n")
    assert server.answer(None)["error"]["code"] == -32700
    assert server.ask("no/such/method", {})["error"]["code"] == -32601
    last = server.begin("tools/list", {})
    output, errors = server.process.communicate(timeout=60)
    messages = [json.loads(line) for line in output.splitlines()]
    assert [message["id"] for message in messages if "result" in message] == [last]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    assert server.process.returncode == 0
    for printed in ("when it was loaded", "by the embedder", "written by C code", "by a child", "a warning of the"):
        assert printed.encode() in errors


def test_a_script_that_ends_its_input_at_once_gets_its_answers(project: Path) -> None:
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "annai", "mcp"],
        cwd=project,
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    # The log may tell what was indexed meanwhile, and nothing else.
    assert not [line for line in done.stderr.splitlines() if not line.startswith("annai: [index] summary: ")]


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGINT", "SIGHUP"])
def test_the_server_ends_with_its_client_and_leaves_nothing_running(project: Path, how: str) -> None:
    with raw(project) as server:
        server.shake_hands()
        server.search("zebra")
        children = psutil.Process(server.process.pid).children(recursive=True)
        if how == "end of input":
            assert server.process.stdin
            server.process.stdin.close()
            server.process.stdin = None
        else:
            server.process.send_signal(getattr(signal, how))
        assert server.process.wait(30) == 0
        assert not [child for child in children if child.is_running()]
        assert index_is_free(project)
    assert "zebra.md" in Annai(project)("search", "zebra", "--format", "files").stdout


def test_a_client_that_dies_while_much_is_indexed_takes_its_server_with_it(project: Path) -> None:
    for number in range(3000):
        (project / f"{number}.md").write_text(f"# Note {number}\n\n" + f"ostrich {number} lives here. " * 80)
    program = (
        "import subprocess, sys, time\n"
        "server = subprocess.Popen([sys.executable, '-m', 'annai', 'mcp'], stdin=-1, stdout=-1)\n"
        f"lines = [{json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': HANDSHAKE})!r},\n"
        """ '{"jsonrpc": "2.0", "method": "notifications/initialized"}',\n"""
        """ '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "reindex"}}']\n"""
        "server.stdin.write('\\n'.join(lines).encode() + b'\\n'); server.stdin.flush()\n"
        "server.stdout.readline()\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    client = subprocess.Popen([sys.executable, "-c", program], cwd=project, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout
        server = psutil.Process(int(client.stdout.readline()))
        eventually((state_of(project) / "index.sqlite").exists)
        family = [server, *server.children(recursive=True)]
    finally:
        client.kill()
        client.communicate()
    eventually(lambda: not any(is_alive(each) for each in family))
    assert index_is_free(project)


def test_while_much_is_indexed_the_state_is_told_and_a_path_is_indexed_first(
    project: Path, embedding: threading.Event
) -> None:
    with connected(project, "auto", environment=own_settings(project)) as agent:
        status = agent.call("index_status")
        # A file that is looked at again while it is being indexed counts twice until then.
        assert re.search(r"is being updated, [\d,]+ of 1,\d{3} files done", text(status))
        assert status.structured_content["up_to_date"] is False
        assert "zebra.md is not indexed yet: it waits in the queue" in agent.failure("get_document", path="zebra.md")
        assert "zebra.md is not indexed yet" in agent.failure("list_documents", path="zebra.md")
        embedding.set()
        done = agent.fields("reindex", paths=["zebra.md"])
        assert (done["added"], done["failed"]) == (1, 0)
        assert done["waiting"] > 0
        assert agent.fields("get_document", path="zebra.md")["content"].startswith("# The zebra")
        assert agent.fields("reindex", paths=["zebra.md"])["unchanged"] == 1
        assert agent.fields("reindex", paths=["zebra.md"], force=True)["updated"] == 1
        (project / "zebra.md").unlink()
        assert agent.fields("reindex", paths=["zebra.md"])["deleted"] == 1
        (project / "paper.pdf").write_text("%PDF")
        assert "paper.pdf is not indexed" in text(agent.call("reindex", paths=["paper.pdf"]))


@pytest.mark.parametrize("mode", ERAS)
def test_a_cancelled_request_is_given_up_and_the_next_is_answered(
    project: Path, embedding: threading.Event, mode: str
) -> None:
    with connected(project, mode, environment=own_settings(project)) as agent:

        async def begin_and_cancel(client: Client) -> None:
            begun = asyncio.Event()

            async def note(*_: object, **__: object) -> None:
                begun.set()

            call = asyncio.ensure_future(client.call_tool("reindex", {"force": True}, progress_callback=note))
            await asyncio.wait_for(begun.wait(), 60)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call

        agent.do(begin_and_cancel)
        assert agent.fields("index_status")["documents"] < 1_003
        assert agent.tools()
        embedding.set()


def test_ten_clients_share_one_project(project: Path) -> None:
    def live(number: int) -> tuple[int, list[str]]:
        with connected(project, ERAS[number % 2]) as agent:
            (project / f"mine-{number}.md").write_text(f"# Mine\n\nwalrus{number}")
            found: list[str] = []

            def is_found() -> bool:
                rows = agent.fields("search", query=f"walrus{number}", mode="keyword")["results"]
                found[:] = [row["path"] for row in rows]
                return bool(found)

            eventually(is_found)
            for _ in range(5):
                assert agent.fields("search", query="giraffe")["results"][0]["path"] == "giraffe.md"
            return number, found

    with ThreadPoolExecutor(10) as threads:
        results = dict(threads.map(live, range(10)))
    assert results == {number: [f"mine-{number}.md"] for number in range(10)}
    assert index_is_free(project)


def test_of_two_servers_each_can_reindex_and_one_takes_over_from_the_other(project: Path) -> None:
    with connected(project) as second_to_end:
        with connected(project) as first:
            first.call("search", query="zebra")
            second_to_end.call("search", query="zebra")
            (project / "new.md").write_text("# New\n\nostrich")
            (project / "lion.md").unlink()
            counts = [agent.fields("reindex", force=True) for agent in (first, second_to_end)]
            assert [count["failed"] for count in counts] == [0, 0]
            assert [count["total_sections"] for count in counts] == [3, 3]
            assert counts[1]["updated"] == 3
        (project / "new.md").write_text("# New\n\nemu")
        eventually(lambda: bool(second_to_end.fields("search", query="emu", mode="keyword")["results"]))


def test_a_thousand_calls_take_no_more_memory(project: Path) -> None:
    with raw(project) as server:
        server.shake_hands()
        process = psutil.Process(server.process.pid)

        def call_often(count: int) -> int:
            for number in range(count):
                server.search(f"zebra {number}")
                server.ask("tools/call", {"name": "get_document", "arguments": {"path": "zebra.md"}})
            return int(process.memory_info().rss)

        before = call_often(150)
        after = call_often(500)
        assert after < before * 1.05 + 3_000_000, f"{before:,} → {after:,}"


def test_the_project_server_is_used_while_it_runs_and_done_without_when_it_ends(project: Path) -> None:
    annai = Annai(project)
    annai("server", "start", "--port", "auto")
    try:
        with connected(project) as agent:
            assert agent.fields("search", query="zebra")["results"][0]["path"] == "zebra.md"
            assert agent.fields("reindex")["unchanged"] == 3
            assert agent.fields("get_document", path="zebra.md")["content"].startswith("# The zebra")
            resources = agent.do(lambda client: client.list_resources()).resources
            assert [each.name for each in resources] == ["giraffe.md", "lion.md", "zebra.md"]
            annai("collection", "add", "-n", "all", "-d", "All of it", "-s", ".")
            eventually(lambda: "notifications/tools/list_changed" in agent.notices)
            assert "all" in agent.tools()
            annai("server", "stop")
            (project / "new.md").write_text("# New\n\nostrich")
            eventually(lambda: bool(agent.fields("all", query="ostrich", mode="keyword")["results"]))
    finally:
        annai("server", "stop")


def test_a_server_that_ends_in_the_middle_of_a_call_does_not_lose_the_call(project: Path) -> None:
    annai = Annai(project)
    annai("server", "start", "--port", "auto")
    access, asked = Access(load_config(docs_dir=project)), []

    def work(project: Project) -> list[str]:
        asked.append(type(project).__name__)
        annai("server", "stop")
        project.refresh()
        return project.document_paths("root")

    try:
        assert len(access.use(work)) == 3
        assert asked == ["Client", "Engine"]
    finally:
        access.close()
        annai("server", "stop")


def test_a_call_that_is_being_answered_when_the_agent_leaves_keeps_its_index_open(project: Path) -> None:
    access, ended = Access(load_config(docs_dir=project)), threading.Event()
    order: list[str] = []

    def leave() -> None:
        access.close()
        order.append("closed")
        ended.set()

    def work(opened: Project) -> None:
        threading.Thread(target=leave).start()
        assert not ended.wait(0.5)
        opened.refresh()
        order.append("answered")

    access.use(work)
    assert ended.wait(60)
    assert order == ["answered", "closed"]


def test_another_store_in_the_settings_is_answered_from_while_calls_on_the_old_one_end(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = project / "annai.toml"
    before = settings.read_text() if settings.exists() else ""
    access = Access(load_config(docs_dir=project))

    def address(opened: Project) -> str:
        opened.refresh()
        return opened.status().database

    def change(opened: Project) -> tuple[str, str]:
        settings.write_text(before + "[store")  # Half written.
        assert access.use(address).endswith("index.sqlite")
        settings.write_text(before + '[store]\nengine = "lancedb"\n')
        return access.use(address), address(opened)

    try:
        now, old = access.use(change)
        assert "index.lancedb" in now
        assert old.endswith("index.sqlite")
        assert access.use(lambda opened: opened.search("zebra")[0].path) == "zebra.md"
        assert "[store] in annai.toml changed; answers come from the index that it names now" in caplog.text
        settings.write_text(before + '[store]\nengine = "postgres"\n')
        with pytest.raises(StoreError, match=r"store.url names no database"):
            access.use(address)
        settings.write_text(before)
        assert access.use(address).endswith("index.sqlite")
    finally:
        access.close()


def test_a_project_that_cannot_be_opened_says_so_and_keeps_the_client(project: Path) -> None:
    state_of(project).mkdir()
    (state_of(project) / "index.sqlite").write_text("this is a letter, not an index" * 100)
    with connected(project, "auto") as agent:
        assert "search" in agent.tools()
        assert "is not an annai index" in agent.failure("search", query="zebra")
        with pytest.raises(MCPError, match="is not an annai index"):
            agent.do(lambda client: client.read_resource("annai://root/zebra.md"))
        (state_of(project) / "index.sqlite").unlink()
        assert agent.fields("search", query="zebra")["results"]


def test_the_home_folder_is_not_indexed_unless_it_is_named(tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    (home / "a.md").write_text("# A\n\nzebra")
    with connected(home) as agent:
        assert "your home folder" in agent.failure("search", query="zebra")
    with connected(home, arguments=["--docs-dir", str(home), "--data-dir", str(tmp_path)]) as agent:
        assert agent.fields("search", query="zebra")["results"]


def test_a_message_without_end_is_refused_and_the_next_is_answered(project: Path) -> None:
    with raw(project) as server:
        server.shake_hands()
        server.send(b'{"jsonrpc": "2.0", "id": 9, "method": "' + b"x" * 20_000_000 + b'"}\n')
        assert server.answer(None)["error"]["code"] == -32700
        assert server.ask("tools/list", {})["result"]["tools"]


def test_what_is_no_text_or_no_message_is_answered_with_its_id(project: Path) -> None:
    searching = rb'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "search", "arguments": '
    wrong: list[tuple[bytes, object]] = [
        (rb'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "\ud83d"}}', 9),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "resources/read", "params": {"uri": "annai://root/\xff"}}', "x"),
        (b'{"jsonrpc": "2.0", "id": 9, "method": 5}', 9),
        (b"[" * 100_000, None),
    ]
    with raw(project) as server:
        server.shake_hands()
        for line, number in wrong:
            server.send(line + b"\n")
            assert server.process.stdout
            assert json.loads(server.process.stdout.readline())["id"] == number
        server.send(searching + rb'{"query": "zebra \ud83d"}}}' + b"\n")
        assert server.answer(7)["result"]["structuredContent"]["results"][0]["path"] == "zebra.md"


@pytest.mark.parametrize("how", ["unread", "a pipe that was closed", "closed from the start"])
def test_standard_error_neither_blocks_nor_ends_the_server(project: Path, how: str) -> None:
    with raw(project) as server:
        if how == "closed from the start":
            server.process.kill()
            server.process.communicate()
            shell = ["sh", "-c", 'exec "$0" -m annai mcp --verbose 2>&-', sys.executable]
            server.process = subprocess.Popen(shell, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        elif how == "a pipe that was closed":
            assert server.process.stderr
            server.process.stderr.close()
            server.process.stderr = None
        server.shake_hands()
        for _ in range(2000 if how == "unread" else 10):
            server.send(b"every such line is logged\n")
            assert server.answer(None)["error"]
        assert server.search("zebra")["structuredContent"]["results"]
        assert server.process.stdin
        server.process.stdin.close()
        server.process.stdin = None
        assert server.process.wait(30) == 0


def test_what_is_deleted_under_the_server_is_made_anew_or_told_and_noticed_again(project: Path) -> None:
    others = project.parent / "others"
    shutil.copytree(project, others)
    calls: list[tuple[str, dict[str, object]]] = [
        ("search", {"query": "zebra"}),
        ("get_document", {"path": "zebra.md"}),
        ("list_documents", {}),
        ("reindex", {}),
    ]
    with connected(project, "auto") as agent:
        for tool, arguments in calls:
            agent.fields(tool, **arguments)
            # As `git clean -fdx` does.
            shutil.rmtree(state_of(project))
            assert agent.fields(tool, **arguments).get("total", 3)
        Annai(project)("collection", "add", "-n", "others", "-d", "Others", "-s", str(others))
        eventually(lambda: "others" in agent.tools())
        agent.fields("others", query="lion")
        shutil.rmtree(others)
        eventually(lambda: f"There is no folder {others}" in text(agent.call("others", query="lion")))
        assert f"There is no folder {others}" in agent.fields("index_status")["problem"]
        others.mkdir()
        (others / "emu.md").write_text("# Emu\n\nAn emu came back.")
        eventually(lambda: "An emu came back." in text(agent.call("others", query="emu")))
        shutil.rmtree(project)
        # The index is not in the project: it answers, and says what is wrong.
        assert f"There is no folder {project}" in text(agent.call("search", query="zebra"))
        project.mkdir()
        (project / "gnu.md").write_text("# Gnu\n\nA gnu came.")
        eventually(lambda: bool((agent.call("search", query="gnu").structured_content or {}).get("total")))


def own_settings(folder: Path) -> dict[str, str]:
    """The environment of a user who names the settings of a folder, which are trusted then."""
    return {"ANNAI_CONFIG": str(folder / "annai.toml")}


def is_alive(process: psutil.Process) -> bool:
    """Whether a process still does something."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def index_is_free(project: Path) -> bool:
    """Whether nobody keeps the index any more."""
    path = load_config(docs_dir=project).database_path
    lock = IndexLock(path.with_name(path.name + ".keeper"))
    deadline = time.monotonic() + 20
    while not lock.acquire():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    lock.release()
    return True


def test_an_agents_searches_go_on_while_its_server_changes_the_model(annai: Annai) -> None:
    for number in range(60):
        text = f"# file{number}\n\nAll about number{number} and nothing else."
        (annai.folder / f"{number}.md").write_text(text, encoding="utf-8")
    annai("import")
    with services.running() as service:
        address = f'provider = "openai"\nbase_url = "{service.url}/v1"\ndimensions = 32\n'
        (annai.folder / "annai.toml").write_text(f"[embedding]\n{address}", encoding="utf-8")
        trust(annai.folder)
        notes: list[str] = []
        with connected(annai.folder, environment={"HOME": os.environ["HOME"]}) as agent:

            def has_changed() -> bool:
                found = agent.fields("search", query="file7 number7")
                assert found["results"][0]["path"] == "7.md"
                notes.append(" ".join(found.get("notes", [])))
                return not notes[-1]

            eventually(has_changed)
            assert agent.fields("index_status")["embedder"] == "openai:text-embedding-3-small/32"
        assert all("still has the vectors of hashing" in each for each in notes[:-1])
        assert len([each for each in service.texts() if "All about" in each]) == 60
