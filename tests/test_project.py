"""Is a project the same in this process and through a server? One contract, kept by the engine and by the client."""

import dataclasses
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from annai.answers import Query, Where
from annai.engine import Engine
from annai.errors import (
    AnnaiError,
    CollectionError,
    ConfigError,
    EmbedderMismatch,
    NotFound,
    QueryError,
    ServerError,
)
from annai.interfaces.http import Application
from annai.interfaces.rpc import Service
from annai.project import Progress, Project
from annai.serving.client import Client
from tests.conftest import quick_config
from tests.loopback import served

Write = Callable[[str, str], Path]

PART = "An apple a day keeps many doctors far away from here. " * 12


@pytest.fixture(params=["engine", "client"])
def project(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Project]:
    """The same folder, opened here and through a server."""
    if request.param == "engine":
        yield engine
        return
    with (
        served(Application(Service(engine, engine.config))) as port,
        Client(f"http://127.0.0.1:{port}") as client,
    ):
        yield client


def test_a_search_answers_with_everything_a_hit_has(project: Project, engine: Engine, write: Write) -> None:
    write("手順/環境構築.md", "---\ntitle: 環境\n---\n# 環境構築\n\n開発環境を用意する方法を説明します。")
    write("b.md", "# Other\n\nSomething else.")
    assert project.refresh().waiting == 0
    query = Query("環境構築の方法", limit=3, content="passage", where=Where(paths=("手順",)))
    answer, expected = project.search(query), engine.search(query)
    assert dataclasses.replace(answer, took_ms=0) == dataclasses.replace(expected, took_ms=0)
    (hit,) = answer.results
    assert (hit.path, hit.heading_path, hit.passage_line) == ("手順/環境構築.md", ("環境構築",), 4)
    assert hit.reasons.keywords > 0


def test_a_search_tells_what_was_searched_for_in_place_of_a_typing_error(
    project: Project, engine: Engine, write: Write
) -> None:
    write("a.md", "# Environment\n\nHow to set up the environment.")
    project.refresh()
    answer, expected = (each.search(Query("enviroment")) for each in (project, engine))
    assert answer.corrected == {"enviroment": "environment"}
    assert dataclasses.replace(answer, took_ms=0) == dataclasses.replace(expected, took_ms=0)


def test_a_document_and_its_sections_are_located(project: Project, engine: Engine, write: Write) -> None:
    write(
        "a.md", f"---\ntitle: Doc\ntags: [x, 1, null]\n---\n# One\n\n{PART}\n\n## Two\n\n{PART}\n\n## Three\n\n{PART}\n"
    )
    project.refresh()
    for reference in ("a.md", "root:a.md#1.2", "./a.md", "a.md#1.1"):
        assert project.locate(reference) == engine.locate(reference)
    place = project.locate("a.md#1.2")
    assert place.text(place.section).startswith("## Three")
    assert place.parent
    assert place.parent.id == "root:a.md"
    assert place.document.front_matter == {"title": "Doc", "tags": ["x", 1, None]}


def test_paths_may_be_meant_from_the_current_folder(
    project: Project, write: Write, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("deep/a.md", "# A\n\napple")
    project.refresh()
    monkeypatch.chdir(docs / "deep")
    assert project.locate("a.md").document.path == "deep/a.md"
    assert project.rebuild(["a.md"], force=True).updated == 1
    assert [each.path for each in project.request_index("a.md", force=True).requests] == ["deep/a.md"]


def test_collections_are_added_changed_and_deleted(project: Project, docs: Path, write: Write) -> None:
    write("api/a.md", "# A\n\napple")
    write("guide/b.md", "# B\n\napple")
    assert project.list_collections() == []
    added = project.add_collection("api", docs / "api", "The API")
    assert (added.name, added.source, added.description, added.enabled) == ("api", docs / "api", "The API", True)
    project.add_collection("guide", docs / "guide", "ガイド")
    assert [each.name for each in project.list_collections()] == ["api", "guide"]
    assert project.sources() == {"root": docs, "api": docs / "api", "guide": docs / "guide"}
    assert project.update_collection("guide", enabled=False).description == "ガイド"
    project.refresh()
    assert {hit.collection for hit in project.search(Query("apple")).results} == {"api"}
    assert project.update_collection("guide", description="Guide", source=docs / "api").source == docs / "api"
    project.delete_collection("guide")
    assert [each.name for each in project.list_collections()] == ["api"]


def test_an_import_tells_what_it_did(project: Project, write: Write) -> None:
    write("a.md", "# A\n\napple")
    (write("b.md", "# B")).write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    told: list[tuple[int, int]] = []
    summary = project.import_collection(mode="new", progress=lambda done: told.append((done.files, done.total)))
    assert (summary.added, summary.skipped) == (1, 1)
    assert project.document_paths("root") == ["a.md"]
    assert project.import_collection(mode="replace").added == 1
    assert project.import_collection().unchanged == 2
    status = project.status()
    assert status.collections[0].statistics.documents == 1
    assert [state.problem.reason for state in status.collections[0].problems if state.problem] == ["binary file"]
    assert not project.read_only
    assert all(done <= total for done, total in told)


def test_the_queue_can_be_looked_at(project: Project, write: Write) -> None:
    write("a.md", "# A\n\napple")
    (queued,) = project.request_index("a.md").requests
    assert (queued.path, queued.status) == ("a.md", "pending")
    assert project.requests("pending") == [queued]
    assert project.status().requests["pending"] == 1
    assert project.rebuild().added == 1
    # What waits already is not queued a second time.
    assert [(each.id, each.status) for each in project.requests()] == [(queued.id, "completed")]


def test_an_empty_index_is_an_empty_answer_that_says_what_was_looked_for(project: Project) -> None:
    for options in ({}, {"paths": ["nope"]}, {"mode": "keyword"}, {"mode": "exact"}):
        answer = project.search("apple", **options)
        assert (len(answer), answer.total, answer.verdict, answer.unmatched) == (0, 0, "no good match", {})
        assert answer.empty.startswith("There are no documents in")
        assert "**/*.md" in answer.empty


@pytest.mark.parametrize(
    ("ask", "kind", "sentence"),
    [
        (lambda each: each.locate("nope.md"), NotFound, "There is no document 'nope.md' in the index."),
        (lambda each: each.locate("  "), QueryError, "The path is empty"),
        (lambda each: each.search(Query("")), QueryError, "The query is empty"),
        (lambda each: each.search(Query("a", limit=0)), QueryError, "limit must be between 1 and 1,000, not 0."),
        (lambda each: each.status("nope"), CollectionError, "There is no collection 'nope'"),
        (lambda each: each.refresh(["nope"]), CollectionError, "There is no collection 'nope'"),
        (lambda each: each.delete_collection("nope"), CollectionError, "There is no collection 'nope'"),
        (lambda each: each.import_collection("nope"), CollectionError, "There is no collection 'nope'"),
        (lambda each: each.add_collection("a b", Path()), CollectionError, "is not a valid collection name"),
        (lambda each: each.add_collection("a", Path("/nope")), CollectionError, "There is no folder /nope"),
        (lambda each: each.rebuild(["nope"]), NotFound, "There is no file or folder 'nope'"),
    ],
)
def test_an_error_is_the_same_here_and_there(
    project: Project, ask: Callable[[Project], object], kind: type[AnnaiError], sentence: str
) -> None:
    with pytest.raises(AnnaiError) as caught:
        ask(project)
    assert type(caught.value) is kind
    assert sentence in str(caught.value)
    # Its parts come through a server, too.
    parts = (caught.value.problem, caught.value.remedy)
    assert "; ".join(filter(None, parts)) == str(caught.value)
    assert bool(caught.value.remedy) == ("; " in str(caught.value))


def test_another_embedder_is_told_of(project: Project, engine: Engine, write: Write) -> None:
    write("a.md", "# A\n\napple")
    project.import_collection()
    (collection,) = engine.store.collections()
    engine.store.save_collection(dataclasses.replace(collection, embedder="other/9"))
    answer = project.search(Query("apple"))
    assert [hit.path for hit in answer] == ["a.md"]
    assert "searched without vectors" in answer.note
    assert "annai import -c root -m replace" in answer.freshness.problem
    with pytest.raises(EmbedderMismatch, match="annai import -c root -m replace"):
        project.search(Query("apple", mode="vector"))


def test_what_closes_may_be_closed_twice(project: Project) -> None:
    project.close()
    project.close()


# What only a client can meet


def test_a_server_that_is_gone_is_told_of() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Client(f"127.0.0.1:{port}") as client, pytest.raises(ServerError, match=r"does not answer .*annai server"):
        client.status()


def test_a_server_that_ends_between_two_calls_is_told_of(engine: Engine) -> None:
    with served(Application(Service(engine, engine.config))) as port:
        client = Client(f"http://127.0.0.1:{port}")
        client.status()
    with client, pytest.raises(ServerError, match="does not answer"):
        client.status()


def test_a_stranger_is_not_taken_for_a_server() -> None:
    def greet() -> None:
        caller, _ = listener.accept()
        with caller:
            caller.recv(65536)
            caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Client(url) as client, pytest.raises(ServerError, match="no annai server"):
            client.status()
        thread.join()


def test_a_server_of_another_version_is_told_of(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "refresh", lambda _: {"files": 1})
    with (
        served(Application(Service(engine, engine.config))) as port,
        Client(f"http://127.0.0.1:{port}") as client,
        pytest.raises(ServerError, match=r"runs another version than this annai.*annai server restart"),
    ):
        client.refresh()


SERVE = """
import sys
from pathlib import Path
from annai.engine import Engine
from annai.interfaces.http import Application
from annai.interfaces.rpc import Service
from tests.conftest import quick_config
from tests.loopback import served
with Engine(quick_config(Path(sys.argv[1]))) as engine, served(Application(Service(engine, engine.config))) as port:
    print(port, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process is frozen as on Unix")
@pytest.mark.parametrize("progress", [None, lambda _done: None])
def test_an_import_through_a_server_that_hangs_ends_with_a_sentence(
    docs: Path, write: Write, progress: Progress | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.serving.client.SLOW_POLL_SECONDS", 0.25)
    write("a.md", "# A\n\napple")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(docs)],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout
        with Client(f"http://127.0.0.1:{int(server.stdout.readline())}", seconds=1) as client:
            assert client.import_collection(progress=progress).added == 1
            server.send_signal(signal.SIGSTOP)
            for call in (client.import_collection, client.rebuild):
                with pytest.raises(ServerError, match=r"did not answer within 1 seconds; `annai server status`"):
                    call(progress=progress)
            server.send_signal(signal.SIGCONT)
            assert client.import_collection(progress=progress).unchanged == 1
    finally:
        server.send_signal(signal.SIGCONT)
        server.communicate(timeout=60)


@pytest.mark.parametrize("url", ["", "http://", "ftp://127.0.0.1", "http://127.0.0.1:x", "http://127.0.0.1:99999"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a server"):
        Client(url)


def test_a_token_opens_the_door(engine: Engine) -> None:
    with served(Application(Service(engine, engine.config), token="mellon")) as port:  # noqa: S106 - a test's
        with Client(f"http://127.0.0.1:{port}", token="mellon") as client:  # noqa: S106 - a test's
            assert client.list_collections() == []
        with Client(f"http://127.0.0.1:{port}") as client, pytest.raises(ServerError, match="ANNAI_TOKEN"):
            client.list_collections()


def test_a_server_may_stand_behind_a_path(engine: Engine) -> None:
    async def forward(_: HttpRequest) -> Response:
        return PlainTextResponse('{"jsonrpc": "2.0", "id": 1, "result": []}')

    routes = [Route("/annai/rpc", forward, methods=["POST"])]
    with (
        served(Application(Service(engine, engine.config), routes=routes)) as port,
        Client(f"http://127.0.0.1:{port}/annai/") as client,
    ):
        assert client.list_collections() == []


def test_many_clients_are_served_while_the_index_changes(docs: Path, write: Write) -> None:
    for number in range(40):
        write(f"{number}.md", f"# {number}\n\napple")
    with Engine(quick_config(docs)) as engine, served(Application(Service(engine, engine.config))) as port:
        failures: list[BaseException] = []

        def search() -> None:
            try:
                with Client(f"http://127.0.0.1:{port}") as client:
                    for _ in range(20):
                        assert client.search(Query("apple", mode="keyword")).results
            except BaseException as error:
                failures.append(error)

        engine.refresh()
        threads = [threading.Thread(target=search) for _ in range(8)]
        for thread in threads:
            thread.start()
        with Client(f"http://127.0.0.1:{port}") as client:
            assert client.rebuild(force=True).updated == 40
        for thread in threads:
            thread.join()
        assert not failures


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda each: each.search(None), "query must be a string, not None."),
        (lambda each: each.search(["apple"]), "query must be a string, not ['apple']."),
        (lambda each: each.search(Query(None)), "query must be a string, not None."),  # type: ignore[arg-type]
        (lambda each: each.search(Query("apple", limit=None)), "limit of a query must not be None; leave it out."),  # type: ignore[arg-type]
        (lambda each: each.search("apple", limit="3"), "limit must be a whole number, not '3'."),
        (lambda each: each.search("apple", paths="docs"), "paths must be a list of strings, not 'docs'."),
        (lambda each: each.search("apple", mode="magic"), "mode must be one of hybrid, vector, keyword, exact"),
        (lambda each: each.search("apple", limt=3), "a search has no 'limt'; did you mean 'limit'?"),
        (lambda each: each.locate(None), "reference must be a string, not None."),
        (lambda each: each.rebuild("a.md"), "paths must be a list of strings, not 'a.md'."),
        (lambda each: each.refresh("root"), "names must be a list of strings, not 'root'."),
        (lambda each: each.request_index(b"a.md"), "path must be a string, not b'a.md'."),
        (lambda each: each.add_collection("a", 3), "source must be a path, not 3."),
        (lambda each: each.status(None), "name must be a string, not None."),
        (lambda each: each.requests("lost"), "status must be one of pending"),
        (lambda each: each.import_collection(mode="again"), "mode must be one of"),
    ],
)
def test_a_value_of_another_type_is_a_sentence(
    project: Project, ask: Callable[[Project], object], sentence: str
) -> None:
    with pytest.raises(QueryError) as caught:
        ask(project)
    assert sentence in str(caught.value)


def test_a_folder_may_be_named_by_a_string(project: Project, docs: Path) -> None:
    (docs / "api").mkdir()
    assert project.add_collection("api", str(docs / "api")).source == docs / "api"  # type: ignore[arg-type]
