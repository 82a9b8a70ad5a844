"""Does annai behave the same through a server as without one, while it starts, works and ends?"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from starlette.types import Receive, Scope, Send

from annai.config import load_config
from annai.engine import Engine
from annai.interfaces.http import Application
from annai.interfaces.rpc import Service
from annai.serving.pidfile import ServerRecord, publish, read_token, withdraw
from tests.conftest import Annai, results, state_of
from tests.loopback import eventually, served
from tests.serving.conftest import SETTINGS, LivingProject

Write = Callable[[str, str], Path]


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
        (place.annai, 0, ("search", "apple", "--mode", "exact", "--format", "json")),
        (inside, 0, ("get", "b.md#1.2")),
        (inside, 0, ("get", "b.md:3", "../a.md")),
        (place.annai, 0, ("get", "deep/b.md", "--children")),
        (place.annai, 0, ("get", "a.md", "--format", "json")),
        (place.annai, 1, ("get", "nope.md")),
        (place.annai, 2, ("search", "apple", "-c", "nope")),
        (place.annai, 2, ("import", "--mode", "new")),
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
    assert "ANNAI_TOKEN" in elsewhere("search", "apple", "--server", record.url, code=2).stderr
    monkeypatch.setenv("ANNAI_TOKEN", (state_of(place.folder) / "token").read_text().strip())
    assert results(elsewhere, "apple", "--server", record.url)[0]["path"] == "a.md"
    shown = elsewhere("search", "apple", "--format", "files", environment={"ANNAI_SERVER": record.url}).stdout
    assert shown == "docs/a.md:1\n"
    place.annai("server", "stop")
    assert "does not answer" in elsewhere("search", "apple", "--server", record.url, code=2).stderr
    assert "not the address" in elsewhere("status", "--server", "ftp://x", code=2).stderr


def test_a_server_imports_with_another_chunk_size_and_other_files_are_indexed_beside_it(
    place: LivingProject, tmp_path: Path
) -> None:
    record = place.start()
    assert "must be less than" in place.annai("import", "-m", "update", "--chunk-overlap", "1024", code=2).stderr
    assert "updated 1" in place.annai("import", "-m", "update", "--chunk-size", "600").stdout
    other = tmp_path / "other.sqlite"
    assert "added 1" in place.annai("import", "--database", str(other)).stdout
    assert other.exists()
    refused = place.annai("import", "--database", str(other), "--server", record.url, code=2).stderr
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
        withdraw(engine.config, record)


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
