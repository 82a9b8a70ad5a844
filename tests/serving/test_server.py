"""Does a server live as long as it should, and no longer? Real processes: started, stopped, killed and forgotten."""

import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest
from starlette.types import Receive, Scope, Send

from annai.answers import Query
from annai.config import load_config
from annai.engine import Engine
from annai.errors import ServerError
from annai.interfaces.http import Application
from annai.interfaces.rpc import Service
from annai.opening import own_server
from annai.serving import daemon
from annai.serving.client import Client
from annai.serving.pidfile import SAME_SECONDS, ServerRecord, publish, read_record, read_token, running
from tests.conftest import Annai, results, trust
from tests.loopback import eventually, served

Write = Callable[[str, str], Path]

SETTINGS = '[embedding]\nprovider = "hashing"\n[server]\nport = 0\n'


class LivingProject:
    """A folder with a server's settings, and all processes that are started for it."""

    def __init__(self, folder: Path, settings: str = SETTINGS) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "annai.toml").write_text(settings)
        (folder / "a.md").write_text(f"# Title\n\nSome apple text of {folder.name}.")
        self.folder = folder
        self.annai = Annai(folder)
        self._started: list[psutil.Process] = []

    def server(self) -> ServerRecord:
        """The server that says it runs here."""
        record = read_record(load_config(docs_dir=self.folder))
        assert record
        process = psutil.Process(record.pid)
        assert abs(process.create_time() - record.process_created) < SAME_SECONDS
        if process not in self._started:
            self._started.append(process)
        return record

    def client(self) -> Client:
        """The project, through its server."""
        return Client(self.server().url, token=read_token(load_config(docs_dir=self.folder)))

    def start(self, *options: str) -> ServerRecord:
        self.annai("server", "start", *options)
        return self.server()

    def foreground(self, *options: str) -> subprocess.Popen[str]:
        """A server that stays a child of this process, once it answers."""
        child = subprocess.Popen(
            [sys.executable, "-m", "annai", "server", "start", "--foreground", *options],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(psutil.Process(child.pid))
        eventually(lambda: child.poll() is not None or running(load_config(docs_dir=self.folder)) is not None)
        return child

    def clean_up(self) -> None:
        """End everything that was started, whatever the test did."""
        if (self.folder / ".annai" / "server.pid").exists() and read_record(load_config(docs_dir=self.folder)):
            # What a test wrote into the file by itself is no server.
            with suppress(psutil.NoSuchProcess, AssertionError):
                self.server()
        for process in self._started:
            if process.is_running():
                process.kill()


@pytest.fixture
def make_place(tmp_path: Path) -> Iterator[Callable[..., LivingProject]]:
    """Make folders whose servers are ended with the test."""
    made: list[LivingProject] = []

    def make(name: str = "docs", settings: str = SETTINGS) -> LivingProject:
        made.append(LivingProject(tmp_path / name, settings))
        return made[-1]

    yield make
    for place in made:
        place.clean_up()


@pytest.fixture
def place(make_place: Callable[..., LivingProject]) -> LivingProject:
    """A folder with one document about an apple."""
    return make_place()


def is_gone(record: ServerRecord) -> bool:
    try:
        return psutil.Process(record.pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_server_is_started_looked_at_and_stopped(place: LivingProject) -> None:
    annai = place.annai
    assert "No server is running for" in annai("server", "status").stdout
    assert "No server is running for" in annai("server", "stop").stdout
    assert re.fullmatch(r"Server started at http://127\.0\.0\.1:\d+ \(pid \d+\)\.\n", annai("server", "start").stdout)
    record = place.server()
    assert "A server is already running at" in annai("server", "start").stdout
    assert place.server() == record
    shown = annai("server", "status").stdout
    for line in (rf"Server +{record.url} \(pid {record.pid}", "Uptime +", r"Memory +\d+\.\d MB", "Log +", "Queue +"):
        assert re.search(f"^{line}", shown, re.MULTILINE), shown
    assert f"serving {place.folder} at {record.url}" in annai("server", "logs").stdout
    told = json.loads(annai("server", "status", "--format", "json").stdout)
    assert (told["running"], told["pid"], told["port"]) == (True, record.pid, record.port)
    assert {"uptime_seconds", "memory", "requests", "indexing", "errors", "version", "log"} <= set(told)
    assert "Server stopped." in annai("server", "stop").stdout
    assert is_gone(record)
    assert not (place.folder / ".annai" / "server.pid").exists()
    assert json.loads(annai("server", "status", "--format", "json").stdout) == {"running": False, "crashed": False}


def test_the_pid_file_says_who_runs_and_only_to_its_owner(place: LivingProject) -> None:
    record = place.start()
    file = place.folder / ".annai" / "server.pid"
    assert file.stat().st_mode & 0o777 == 0o600
    told = json.loads(file.read_text())
    assert told["project_root"] == str(place.folder.resolve())
    assert told["config_path"] == str(place.folder.resolve() / "annai.toml")
    assert (told["host"], told["port"], told["project_name"]) == ("127.0.0.1", record.port, "docs")
    assert {"pid", "started_at", "version", "python_version", "process_created", "secret"} <= set(told)
    with closing(urllib.request.urlopen(f"{record.url}/health")) as answer:  # noqa: S310 - ours
        assert told["secret"] not in answer.read().decode()


def test_a_restart_keeps_the_port_and_takes_new_settings(place: LivingProject) -> None:
    before = place.start("--port", "auto")
    (place.folder / "annai.toml").write_text(SETTINGS + "[search]\nlimit = 1\n")
    (place.folder / "b.md").write_text("# B\n\nAnother apple.")
    shown = place.annai("server", "restart").stdout
    after = place.server()
    assert "Server stopped." in shown
    assert after.pid != before.pid
    assert after.port == before.port
    assert is_gone(before)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "apple"}}).encode()
    token = (place.folder / ".annai" / "token").read_text().strip()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    call = urllib.request.Request(f"{after.url}/rpc", body, headers)  # noqa: S310 - ours
    place.annai("search", "apple")
    with closing(urllib.request.urlopen(call)) as answer:  # noqa: S310 - ours
        assert len(json.load(answer)["result"]["results"]) == 1


def test_a_restart_starts_what_was_not_running(place: LivingProject) -> None:
    shown = place.annai("server", "restart").stdout
    assert "No server is running" in shown
    assert "Server started" in shown
    place.server()


def test_of_two_starts_at_once_one_server_comes(place: LivingProject) -> None:
    for _ in range(3):
        starts = [
            subprocess.Popen(
                [sys.executable, "-m", "annai", "server", "start"], cwd=place.folder, stdout=subprocess.PIPE, text=True
            )
            for _ in range(3)
        ]
        shown = [start.communicate(timeout=120)[0] for start in starts]
        record = place.server()
        assert [start.returncode for start in starts] == [0, 0, 0]
        assert {re.search(r"pid (\d+)", each)[1] for each in shown} == {str(record.pid)}  # type: ignore[index]
        assert sum("Server started" in each for each in shown) == 1
        eventually(lambda record=record: [each.pid for each in servers_of(place)] == [record.pid])  # type: ignore[misc]
        place.annai("server", "stop")
        eventually(lambda: not servers_of(place))


def servers_of(place: LivingProject) -> list[psutil.Process]:
    """The server processes that live in the folder, as the operating system sees them."""
    log = str(place.folder / ".annai" / "server.log")
    found = []
    for process in psutil.process_iter():
        try:
            if log in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_two_projects_run_side_by_side(make_place: Callable[..., LivingProject]) -> None:
    one, two = make_place("one"), make_place("two")
    assert one.start().port != two.start().port
    assert "text of one" in str(results(one.annai, "apple")[0]["content"])
    assert "text of two" in str(results(two.annai, "apple")[0]["content"])
    listed = json.loads(two.annai("server", "ls", "--json").stdout)
    assert [each["project_root"] for each in listed] == [str(one.folder), str(two.folder)]
    one.annai("server", "stop")
    assert "Server " in two.annai("server", "status").stdout
    listed = json.loads(two.annai("server", "ls", "--json").stdout)
    assert [each["project_root"] for each in listed] == [str(two.folder)]


def test_what_a_killed_server_left_behind_is_cleaned_up(place: LivingProject) -> None:
    annai = place.annai
    for clean_up in ("stop", "start", "restart"):
        record = place.start()
        psutil.Process(record.pid).kill()
        eventually(lambda record=record: is_gone(record))  # type: ignore[misc]
        assert "crashed or was killed" in annai("server", "status").stdout
        assert json.loads(annai("server", "status", "--format", "json").stdout) == {"running": False, "crashed": True}
        assert results(annai, "apple")
        assert "crashed or was killed" in annai("server", clean_up).stdout
        if clean_up == "stop":
            assert "No server is running" in annai("server", "status").stdout
        else:
            assert place.server().pid != record.pid
            annai("server", "stop")


def test_a_foreign_process_is_never_taken_for_the_server(place: LivingProject) -> None:
    config = load_config(docs_dir=place.folder)
    record = place.start()
    place.annai("server", "stop")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        publish(config, dataclasses.replace(record, pid=bystander.pid))
        assert running(config) is None
        assert results(place.annai, "apple")
        assert "cleaned up" in place.annai("server", "stop").stdout
        assert bystander.poll() is None
        bystander.communicate(b"\n")
    assert not config.pid_path.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', "\x00\xff"])
def test_a_pid_file_that_says_nothing_is_cleaned_up(place: LivingProject, content: str) -> None:
    (place.folder / ".annai").mkdir()
    file = place.folder / ".annai" / "server.pid"
    file.write_text(content, encoding="latin-1")
    assert results(place.annai, "apple")
    assert "cleaned up" in place.annai("server", "stop").stdout
    assert not file.exists()


def test_a_pid_file_that_came_with_the_folder_sends_no_question_away(place: LivingProject) -> None:
    config = load_config(docs_dir=place.folder)
    record = place.start()
    place.annai("server", "stop")
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0)
        port = stranger.getsockname()[1]
        publish(config, dataclasses.replace(record, host="localhost.localdomain", port=port))
        assert running(config) is None
        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_a_server_whose_folder_is_gone_ends(place: LivingProject) -> None:
    record = place.start()

    def is_deleted() -> bool:
        # The server may be writing into it.
        shutil.rmtree(place.folder, ignore_errors=True)
        return not place.folder.exists()

    eventually(is_deleted)
    eventually(lambda: is_gone(record))


def test_a_server_whose_pid_file_is_gone_or_anothers_ends(place: LivingProject) -> None:
    record = place.start()
    (place.folder / ".annai" / "server.pid").unlink()
    eventually(lambda: is_gone(record))
    record = place.start()
    publish(load_config(docs_dir=place.folder), dataclasses.replace(record, secret="another"))  # noqa: S106 - a test's
    eventually(lambda: is_gone(record))
    assert (place.folder / ".annai" / "server.pid").exists()


def test_a_server_whose_settings_name_another_store_is_asked_nothing_and_ends(place: LivingProject) -> None:
    child = place.foreground()
    settings = place.folder / "annai.toml"
    settings.write_text(SETTINGS + "[search]\nlimit = 3\n[store")  # Half written.
    settings.write_text(SETTINGS + '[store]\ncollection_name = "other"\n')
    assert own_server(load_config(docs_dir=place.folder)) is None
    _, errors = child.communicate(timeout=60)
    assert "ending: [store] in annai.toml changed; `annai server start` serves the index that it names now" in errors
    assert child.returncode == 0
    assert "a.md" in place.annai("search", "apple").stdout


def test_a_server_that_nobody_asks_ends(make_place: Callable[..., LivingProject]) -> None:
    place = make_place(settings=SETTINGS + "idle_shutdown_minutes = 0.01\n")
    record = place.start()
    eventually(lambda: is_gone(record))
    assert "there was no request" in (place.folder / ".annai" / "server.log").read_text()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_in_order(place: LivingProject, sent: signal.Signals) -> None:
    child = place.foreground()
    child.send_signal(sent)
    told, logged = child.communicate(timeout=60)
    assert child.returncode == 0
    assert re.match(r"Serving .* at http://127\.0\.0\.1:\d+ \(pid \d+\)\.\n", told)
    assert "INFO ended" in logged
    assert "Traceback" not in logged
    assert not (place.folder / ".annai" / "server.pid").exists()


def test_a_second_server_in_the_foreground_is_refused(place: LivingProject) -> None:
    record = place.start()
    assert (
        f"A server is already running at {record.url}" in place.annai("server", "start", "--foreground", code=1).stderr
    )


def test_a_server_that_does_not_listen_is_ended_by_force(
    make_place: Callable[..., LivingProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_place(settings=SETTINGS + "shutdown_seconds = 0.1\n")
    record = place.start()
    psutil.Process(record.pid).suspend()
    monkeypatch.setattr(daemon, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(daemon, "KILL_SECONDS", 1.0)
    assert daemon.stop(load_config(docs_dir=place.folder)) == "killed"
    assert is_gone(record)


def test_a_port_that_is_taken_is_told_of(make_place: Callable[..., LivingProject]) -> None:
    place = make_place()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}" in place.annai("server", "start", "--port", port, code=1).stderr
    for wrong in ("0", "65536", "x", "-1", ""):
        place.annai("server", "start", "--port", wrong, code=2)
    record = place.start()
    assert "restart --port 1" in place.annai("server", "start", "--port", "1", code=1).stderr
    assert place.server() == record


def test_the_usual_port_may_be_taken(make_place: Callable[..., LivingProject]) -> None:
    place = make_place(settings='[embedding]\nprovider = "hashing"\n')
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 24280))
            taken.listen()
        except OSError:
            pass  # Somebody else has it, which is as good.
        assert "Port 24280 is taken" in place.annai("server", "start").stdout
        assert place.server().port != 24280


def test_why_a_server_does_not_start_is_told(place: LivingProject) -> None:
    (place.folder / "annai.toml").write_text(SETTINGS + '[database]\npath = "a.md"\n')
    assert "a.md" in place.annai("server", "start", code=1).stderr
    (place.folder / "annai.toml").write_text(SETTINGS)
    assert "cannot be written" in place.annai("server", "start", "--log", "no/such/folder/log", code=1).stderr


def test_the_log_begins_anew_when_it_is_large(make_place: Callable[..., LivingProject]) -> None:
    place = make_place(settings=SETTINGS + '[logging]\nlevel = "debug"\nrotate_mb = 0.01\n')
    place.start("--log", "my.log")
    with place.client() as client:
        client.refresh()
        for _ in range(50):
            client.search(Query("apple"))
    eventually((place.folder / "my.log.1").exists)


def test_what_others_reach_asks_for_a_token(make_place: Callable[..., LivingProject]) -> None:
    place = make_place(settings=SETTINGS + 'host = "0.0.0.0"\n')
    trust(place.folder)
    record = place.start()
    token = place.folder / ".annai" / "token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert results(place.annai, "apple")
    with Client(record.url) as client, pytest.raises(ServerError, match="token"):
        client.status()
    place.annai("server", "stop")
    kept = token.read_text()
    place.start()
    assert token.read_text() == kept


# One behaviour with and without a server


def test_every_command_says_the_same_with_and_without_a_server(place: LivingProject) -> None:
    part = "An apple a day keeps many doctors far away from here. " * 12
    (place.folder / "deep").mkdir()
    (place.folder / "deep" / "b.md").write_text(
        f"---\ntitle: Doc\n---\n# One\n\n{part}\n\n## Two\n\n{part}\n\n## Three\n\n{part}\n"
    )
    inside = Annai(place.folder / "deep")
    commands = (
        (place.annai, 0, ("search", "apple", "--format", "files")),
        (place.annai, 0, ("search", "apple", "--format", "markdown", "--explain")),
        (place.annai, 0, ("search", "apple", "--mode", "keyword", "--path", "deep", "--format", "json")),
        (inside, 0, ("search", "apple", "--format", "files")),
        (inside, 0, ("get", "b.md#1.2")),
        (place.annai, 0, ("get", "deep/b.md", "--children")),
        (place.annai, 0, ("get", "a.md", "--format", "json")),
        (place.annai, 1, ("get", "nope.md")),
        (place.annai, 1, ("search", "apple", "-c", "nope")),
        (place.annai, 1, ("import", "--mode", "new")),
        (inside, 0, ("index", "rebuild", "b.md", "--force")),
        (place.annai, 0, ("import", "-m", "update")),
        (place.annai, 0, ("index", "status")),
        (place.annai, 0, ("collection", "ls", "--format", "json")),
    )

    def said() -> list[tuple[str, str]]:
        done = [annai(*arguments, code=code) for annai, code, arguments in commands]
        # What a machine that is busy does slower is not what is said.
        return [(re.sub(r'"took_ms": [\d.]+|\d+\.\d s\b', "", each.stdout), each.stderr) for each in done]

    place.annai("search", "apple")
    without = said()
    place.start()
    assert said() == without


def test_a_saved_file_is_found_through_the_server(place: LivingProject) -> None:
    place.start()
    for number in range(3):
        (place.folder / "new.md").write_text(f"# New\n\nzebra{number}")
        assert [row["path"] for row in results(place.annai, f"zebra{number}", "--mode", "keyword")] == ["new.md"]
    (place.folder / "new.md").unlink()
    assert not results(place.annai, "zebra2", "--mode", "keyword")


def test_a_server_can_be_named(place: LivingProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = place.start()
    elsewhere = Annai(tmp_path)
    assert "ANNAI_TOKEN" in elsewhere("search", "apple", "--server", record.url, code=1).stderr
    monkeypatch.setenv("ANNAI_TOKEN", (place.folder / ".annai" / "token").read_text().strip())
    assert results(elsewhere, "apple", "--server", record.url)[0]["path"] == "a.md"
    shown = elsewhere("search", "apple", "--format", "files", environment={"ANNAI_SERVER": record.url}).stdout
    assert shown == "docs/a.md:1\n"
    place.annai("server", "stop")
    assert "does not answer" in elsewhere("search", "apple", "--server", record.url, code=1).stderr
    assert "not the address" in elsewhere("status", "--server", "ftp://x", code=1).stderr


def test_a_server_imports_with_another_chunk_size_and_other_files_are_indexed_beside_it(
    place: LivingProject, tmp_path: Path
) -> None:
    record = place.start()
    assert "must be less than" in place.annai("import", "-m", "update", "--chunk-overlap", "1024", code=1).stderr
    assert "updated 1" in place.annai("import", "-m", "update", "--chunk-size", "600").stdout
    other = tmp_path / "other.sqlite"
    assert "added 1" in place.annai("import", "--database", str(other)).stdout
    assert other.exists()
    refused = place.annai("import", "--database", str(other), "--server", record.url, code=1).stderr
    assert "leave out --database or --server" in refused


class Counting(Application):
    """An application that remembers what it was asked for."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.exchanges: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.exchanges.append(scope["path"])
        await super().__call__(scope, receive, send)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the server is asked for a proof first")
def test_a_search_through_the_projects_server_is_one_exchange(engine: Engine, annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    application = Counting(Service(engine, engine.config))
    with served(application) as port:
        record = ServerRecord(
            pid=os.getpid(),
            started_at="2026-01-01T00:00:00+00:00",
            project_root=str(engine.config.root),
            project_name="docs",
            host="127.0.0.1",
            port=port,
            config_path="",
            database=str(engine.config.database_path),
            log="",
            version="",
            python_version="",
            process_created=psutil.Process().create_time(),
            secret="known",  # noqa: S106 - a test's
        )
        publish(engine.config, record)
        for _ in range(2):
            assert "a.md" in annai("search", "apple").stdout
            assert application.exchanges == ["/rpc"]
            application.exchanges.clear()


def test_a_search_through_a_server_loads_no_engine(place: LivingProject) -> None:
    place.start()
    code = "from annai.interfaces.cli import run\nimport sys\nassert run(['search', 'apple']) == 0\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "print('\\n'.join(sys.modules), file=sys.stderr)"],
        cwd=place.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "apple" in done.stdout
    loaded = set(done.stderr.split())
    assert not loaded & {"numpy", "apsw", "psutil", "starlette", "uvicorn", "rich", "annai.engine", "annai.stores"}


def test_an_import_through_a_server_that_is_stopped_says_so_and_loses_nothing(place: LivingProject) -> None:
    for number in range(200):
        (place.folder / f"{number}.md").write_text(f"# {number}\n\napple {number}\n\n" + "many words. " * 200)
    place.start()
    with subprocess.Popen(
        [sys.executable, "-m", "annai", "import", "-m", "replace"],
        cwd=place.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as importing:
        with place.client() as client:
            eventually(lambda: importing.poll() is not None or len(client.document_paths("root")) > 20)
        place.annai("server", "stop")
        told, failed = importing.communicate(timeout=60)
    assert "added 201" in told or "being stopped" in failed or "does not answer" in failed
    assert "Traceback" not in failed
    assert len(results(place.annai, "apple", "-n", "300", "--yes", "--mode", "keyword")) == 201


def test_searches_and_the_index_go_on_while_a_server_is_stopped(place: LivingProject) -> None:
    for number in range(200):
        (place.folder / f"{number}.md").write_text(f"# {number}\n\napple {number}\n\n" + "many words. " * 200)
    place.start()
    place.annai("server", "stop")
    assert len(results(place.annai, "apple", "-n", "300", "--yes", "--mode", "keyword")) == 201
    told = json.loads(place.annai("index", "status", "--format", "json").stdout)
    assert told["documents"] == 201
    assert not told["requests"].get("processing")


def test_a_server_that_is_told_to_end_answers_what_it_has_begun_and_refuses_the_rest(
    make_place: Callable[..., LivingProject],
) -> None:
    place = make_place(settings=SETTINGS + '[logging]\nformat = "json"\naccess = true\n')
    server = place.foreground()
    record, token = place.server(), read_token(load_config(docs_dir=place.folder))
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "apple"}}).encode()
    lines = (
        *("POST /rpc?token=s3cret HTTP/1.1", f"Host: 127.0.0.1:{record.port}", "Content-Type: application/json"),
        *(f"Authorization: Bearer {token}", f"Content-Length: {len(body)}", "Expect: 100-continue", "", ""),
    )
    with socket.create_connection(("127.0.0.1", record.port), timeout=60) as begun:
        begun.sendall("\r\n".join(lines).encode())
        assert b"100 Continue" in begun.recv(1000)
        server.send_signal(signal.SIGTERM)

        def is_refused() -> bool:
            with closing(socket.socket()) as another:
                return another.connect_ex(("127.0.0.1", record.port)) != 0

        eventually(is_refused)
        begun.sendall(body)
        assert b"a.md" in b"".join(iter(lambda: begun.recv(65536), b""))
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 0
    logged = [json.loads(each) for each in errors.splitlines()]
    (request,) = (each for each in logged if each["logger"] == "annai.access")
    assert (request["token"], request["path"], request["status"]) == ("owner", "/rpc", 200)
    assert "s3cret" not in errors
    assert token not in errors
