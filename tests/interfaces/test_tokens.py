"""What does a token open? A real server over real sockets: reading, changing, some collections, and nothing else."""

import http.client
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from annai.config import Config
from annai.engine import Engine
from annai.errors import ConfigError, without_secrets
from annai.interfaces.audit import Audit
from annai.interfaces.callers import Doorkeeper, Permissions, PermittedProject
from annai.interfaces.http import Application
from annai.interfaces.limits import Limiter
from annai.interfaces.logs import JsonFormatter
from annai.interfaces.mcp.http import Endpoint
from annai.interfaces.metrics import Metrics
from annai.interfaces.page.keys import Keys
from annai.interfaces.page.routes import PUBLIC_PATHS, Page
from annai.interfaces.rpc import METHODS, Service
from annai.project import OPERATIONS
from annai.serving.client import Client
from annai.serving.tokens import TokenFile
from tests.agents import ERAS, Agent, text
from tests.conftest import quick_config, state_of
from tests.loopback import DEADLINE, eventually, served

OWNER = "owners-own"
SECRETS = ("zanzibarium", "personnel", "payroll", "Salaries", "salaries")
"""Words of what must stay hidden: a word of the text, the collection, its folder, its title, its file."""


@dataclass
class Place:
    """A project with two collections, wiki and personnel, its server and one token of each kind."""

    folder: Path
    home: Path
    config: Config
    port: int
    tokens: dict[str, str]
    audit: Path
    problems: list[str]

    def ask(self, method: str, path: str, token: str = "", body: object = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {self.tokens.get(token, token)}"
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, sent | ({"Content-Type": "application/json"} if data else {}))
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()

    def call(self, token: str, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        status, told = self.ask("POST", "/rpc", token, message)
        assert status == 200, told
        return json.loads(told)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder, home = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("home")
    (folder / "wiki").mkdir()
    (folder / "payroll").mkdir()
    (folder / "wiki" / "案内.md").write_text("# Wiki\n\nHow to install the printer, as CRD says. zanzibar", "utf-8")
    (folder / "payroll" / "salaries.md").write_text(
        "# Salaries\n\nThe zanzibarium bonus.\n\nCustom Redacted Data (CRD).\n\n![x](salaries.png)", "utf-8"
    )
    (folder / "payroll" / "salaries.png").write_bytes(b"\x89PNG")
    (folder / "payroll" / "salaries.bin").write_bytes(b"\x00")
    (folder / "readme.md").write_text("# Readme\n\nThe root.\n\n![x](payroll/salaries.png) ![y](logo.png)", "utf-8")
    (folder / "logo.png").write_bytes(b"\x89PNG")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        config = quick_config(folder)
        file, audit = TokenFile(config), state_of(folder) / "audit.log"
        tokens = {
            "owner": OWNER,
            "reader": file.add("reader", "read"),
            "bound": file.add("bound", "read", ["wiki"]),
            "keeper": file.add("keeper", "admin", ["wiki"]),
            "admin": file.add("admin", "admin"),
            "lost": file.add("lost", "read", ["gone"]),
            "rooted": file.add("rooted", "read", ["root"]),
            "brief": file.add("brief", "read"),
        }
        with Engine(config) as engine:
            engine.refresh()
            engine.add_collection("wiki", folder / "wiki", "The wiki", keep_root=True)
            engine.add_collection("personnel", folder / "payroll", "Salaries")
            engine.refresh()
            keys, metrics, problems = Keys(), Metrics(engine), list[str]()
            doors, log = Doorkeeper(OWNER, file), Audit(audit, 1_000_000)
            permissions = Permissions(engine, log, metrics.searches.add)
            page = Page(engine, keys=keys, engine_of=lambda caller: permissions.project(caller).engine)
            endpoint = Endpoint(permissions.project, config, max_body_bytes=10**6, body_seconds=10, on_use=lambda: None)
            application = Application(
                Service(engine, config, keys=keys),
                routes=[endpoint.route, *page.routes],
                public_paths=PUBLIC_PATHS,
                doors=doors,
                permissions=permissions,
                metrics=metrics,
                settings=replace(
                    config.server, host_names=("docs.example",), requests_per_second=0.01, request_burst=60
                ),
                find_problems=lambda: [*problems],
            )
            with served(application) as port:
                yield Place(folder, home, config, port, tokens, audit, problems)
                page.close()
            log.close()


REFERENCE: dict[str, object] = {"reference": "personnel:salaries.md"}
CALLS: dict[str, list[dict[str, object]]] = {
    "search": [
        {"query": "zanzibarium bonus", "refresh": True, "full": True},
        {"query": "zanzibariun", "collections": ["personnel"]},
        {"query": "CRD", "explain": True, "marks": True},
        {"query": "printer", "paths": ["wiki/案内.md", "payroll/salaries.md"]},
    ],
    "get_document": [{"path": "payroll/salaries.md"}, {"path": "salarie.md"}, {"path": "personnel:salaries.md#1"}],
    "read_document": [REFERENCE],
    "open_in_editor": [REFERENCE],
    "get_section": [{"id": "personnel:salaries.md#1"}],
    "enable_collection": [{"name": "personnel"}],
    "disable_collection": [{"name": "personnel"}],
    "refresh": [{"full": True}, {"names": ["personnel"]}],
    "get_project": [{}],
    "get_status": [{}, {"name": "personnel"}],
    "make_ticket": [{}],
    "shutdown": [{"secret": "x"}],
    "locate": [REFERENCE, {"reference": "annai://personnel/salaries.md"}],
    "browse_documents": [{}, {"path": "payroll"}, {"path": "salaries"}, {"path": "*"}],
    "explain_missing": [{"reference": "payroll/salaries.bin"}, {"reference": "personnel:salaries.bin"}],
    "list_collections": [{}],
    "list_fields": [{}, {"name": "personnel"}],
    "list_documents": [{"name": "personnel"}],
    "list_folder": [{"name": "personnel"}],
    "add_collection": [{"name": "personnel", "source": "/etc"}, {"name": "mine", "source": "PROJECT/payroll"}],
    "update_collection": [
        {"name": "personnel", "description": "x"},
        {"name": "wiki", "source": "PROJECT/payroll"},
        {"name": "root", "enabled": False},
    ],
    "delete_collection": [{"name": "personnel"}, {"name": "wiki"}],
    "import_collection": [{"name": "personnel"}, {"name": "personnel", "mode": "replace"}],
    "rebuild_index": [{"paths": ["payroll"]}, {"paths": ["personnel:salaries.md"]}],
    "index_document": [{"path": "payroll/salaries.md"}],
    "get_requests": [{}, {"collection": "personnel"}, {"path": "payroll"}, {"path": "personnel:salaries.md"}],
}
"""For every call, what somebody would try who wants to see the other collection."""


def test_every_call_is_tried() -> None:
    assert CALLS.keys() == METHODS.keys(), "what may a token for one collection see of a new call? try it in CALLS"


def test_every_call_takes_what_the_project_takes() -> None:
    for operation in OPERATIONS.values():
        name = operation.method.__name__
        assert signature(getattr(PermittedProject, name)) == signature(getattr(Engine, name)), name


@pytest.mark.parametrize("token", ["bound", "keeper", "lost"])
def test_a_token_for_some_collections_sees_nothing_of_the_others(place: Place, token: str) -> None:
    before = place.call("owner", "get_status")["result"]["collections"]
    for method, tries in CALLS.items():
        for params in tries:
            sent = json.loads(json.dumps(params).replace("PROJECT", str(place.folder)))
            told = json.dumps(place.call(token, method, **sent), ensure_ascii=False)
            for asked in (
                *map(str, sent.values()),
                *(each for values in sent.values() if isinstance(values, list) for each in values),
            ):
                # What the caller said itself may be said again.
                told = told.replace(repr(asked), "").replace(f'"{asked}"', "").replace(asked, "")
            assert not [word for word in SECRETS if word in told], (method, params, told)
    after = place.call("owner", "get_status")["result"]["collections"]
    assert [each["collection"]["name"] for each in after] == [each["collection"]["name"] for each in before]
    assert [each["collection"]["source"] for each in after] == [each["collection"]["source"] for each in before]


def test_a_reader_changes_nothing_and_an_admin_of_one_collection_only_that(place: Place) -> None:
    for method, kind in METHODS.items():
        for params in CALLS[method] if kind.access != "read" else []:
            error = place.call("reader", method, **json.loads(json.dumps(params).replace("PROJECT", "/")))["error"]
            assert error["data"]["kind"] == "Forbidden", method
    assert place.call("keeper", "rebuild_index", paths=["wiki"])["result"]["unchanged"] == 1
    assert place.call("keeper", "update_collection", name="wiki", description="Mine")["result"]["name"] == "wiki"
    assert "error" in place.call("keeper", "import_collection", name="personnel")
    assert place.call("admin", "rebuild_index", paths=["payroll"])["result"]["unchanged"] == 1
    lines = [json.loads(each) for each in place.audit.read_text("utf-8").splitlines()]
    assert {(each["who"], each["action"], each["outcome"]) for each in lines} >= {
        ("reader", "delete_collection", "refused"),
        ("keeper", "rebuild_index", "done"),
        ("keeper", "import_collection", "failed"),
        ("admin", "rebuild_index", "done"),
    }
    assert place.audit.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no file that is always full")
def test_a_full_disk_costs_lines_of_the_audit_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(Audit(Path("/dev/full"), 1_000_000)) as audit, audit.noting("ann", "rebuild", {}):
        pass
    assert capsys.readouterr().err == "/dev/full lacks a line, since it cannot be written: No space left on device.\n"


def test_the_owner_sees_all_of_it(place: Place) -> None:
    assert place.call("owner", "search", query="zanzibarium bonus")["result"]["results"][0]["collection"] == "personnel"
    assert [each["name"] for each in place.call("reader", "list_collections")["result"]] == [
        "personnel",
        "root",
        "wiki",
    ]


def test_a_token_of_the_root_shows_no_image_of_a_collection_inside_it(place: Place) -> None:
    def images(token: str) -> list[int]:
        html = place.call(token, "read_document", reference="readme.md")["result"]["html"]
        addresses = [part.partition('"')[0].replace("&amp;", "&") for part in html.split('src="')[1:]]
        return [place.ask("GET", each)[0] for each in addresses]

    assert images("owner") == [200, 200]
    assert images("rooted") == [403, 200]
    assert place.call("rooted", "explain_missing", reference="payroll/salaries.bin")["result"] == ""


def test_folders_outside_are_not_added_over_the_network(place: Place, tmp_path: Path) -> None:
    told = place.call("admin", "add_collection", name="outside", source=str(tmp_path))
    assert told["error"]["data"]["kind"] == "Forbidden"
    assert "server.addable_folders" in told["error"]["message"]


def test_agents_and_the_page_use_the_same_tokens(place: Place) -> None:
    connection = create_mcp_http_client(headers={"Authorization": f"Bearer {place.tokens['bound']}"})
    agent = Agent(
        streamable_http_client(f"http://127.0.0.1:{place.port}/mcp", http_client=connection),
        ERAS[-1],
        around=connection,
    )
    try:
        assert "wiki" in agent.tools()
        assert not {"personnel", "reindex"} & {*agent.tools()}
        assert "zanzibarium" not in text(agent.call("search", query="bonus"))
        assert "Salaries" not in agent.failure("get_document", path="payroll/salaries.md")
        listed = agent.do(lambda client: client.list_resources()).resources
        assert [each.name for each in listed] == ["案内.md"]
        for tool in ("list_documents", "list_collections", "index_status"):
            assert not [word for word in SECRETS if word in text(agent.call(tool))]
    finally:
        agent.close()
    ticket = place.call("bound", "make_ticket")["result"]
    status, told = place.ask("POST", "/session", X_Annai_Ticket=ticket)
    assert (status, json.loads(told)["token"]) == (200, place.tokens["bound"])
    stream = http.client.HTTPConnection("127.0.0.1", place.port, timeout=DEADLINE)
    stream.request("GET", "/events", headers={"Authorization": f"Bearer {place.tokens['bound']}"})
    news = stream.getresponse().readline().decode()
    stream.close()
    assert "wiki" in news
    assert "personnel" not in news


def test_tokens_are_kept_as_hashes_and_revoked_at_once(place: Place) -> None:
    with Client(f"http://127.0.0.1:{place.port}", token=place.tokens["brief"]) as client:
        assert client.search("printer").results
        file = TokenFile(place.config)
        file._file = place.home / ".config" / "annai" / "tokens.json"
        kept = file._file.read_text()
        assert not [each for each in place.tokens.values() if each in kept]
        assert file._file.stat().st_mode & 0o077 == 0
        with pytest.raises(ConfigError, match="already"):
            file.add("brief", "read")
        file.revoke("brief")
        with pytest.raises(Exception, match="ANNAI_TOKEN"):
            client.search("printer")
    assert place.ask("POST", "/rpc", "brief", {})[0] == 401
    file._file.chmod(0o666)
    with pytest.raises(ConfigError, match="Others can change"):
        file.tokens()
    file._file.chmod(0o600)


def test_the_server_says_whether_it_is_ready_and_what_it_counted(place: Place) -> None:
    place.call("reader", "search", query="printer")
    assert place.ask("GET", "/health") == (200, '{"status":"ok"}')
    assert place.ask("GET", "/metrics")[0] == 401
    assert place.ask("GET", "/metrics", "bound")[0] == 403
    status, told = place.ask("GET", "/metrics", "reader")
    assert status == 200
    for each in ('annai_documents{collection="personnel"} 1.0', 'annai_refused_requests_total{reason="token"}'):
        assert each in told
    assert "annai_search_duration_seconds_bucket" in told
    assert 'annai_requests_total{path="/rpc",status="200"}' in told
    place.problems[:] = ["store"]
    status, told = place.ask("GET", "/ready")
    assert (status, json.loads(told)["not_ready"]) == (503, ["store"])
    place.problems.clear()
    eventually(lambda: place.ask("GET", "/ready") == (200, '{"status":"ready"}'))


def test_who_asks_too_much_waits_and_a_proxy_is_believed_only_if_it_is_set(place: Place) -> None:
    # A proxy that nobody set: the request is not from this machine, so it is counted.
    statuses = [place.ask("GET", "/health", X_Forwarded_For="9.9.9.9", Host="docs.example")[0] for _ in range(62)]
    assert (statuses[0], statuses[-1]) == (200, 429)
    assert "too many" in place.ask("GET", "/health", X_Forwarded_For="8.8.8.8")[1]
    assert place.ask("GET", "/health")[0] == 200


def test_a_bucket_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("annai.interfaces.limits.time.monotonic", lambda: now[0])
    limiter = Limiter(2.0, 3)
    assert [limiter.wait_for("a") for _ in range(4)] == [0, 0, 0, 1]
    assert limiter.wait_for("b", 3) == 0
    now[0] = 1.0
    assert [limiter.wait_for("a") for _ in range(3)] == [0, 0, 1]


def test_no_secret_is_logged() -> None:
    said = "postgresql://bob:hunter2@h/db https://k3y@h/x?api_key=k3y&q=1 Bearer k3y annai_" + "k" * 43
    try:
        raise ConfigError(said)
    except ConfigError as error:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "%s", (said,), (type(error), error, error.__traceback__))
    line = json.loads(JsonFormatter().format(record))
    for each in (line["message"], line["exception"].splitlines()[-1], without_secrets(said), str(ConfigError(said))):
        assert "bob" in each
        assert not [secret for secret in ("hunter2", "k3y", "kkk") if secret in each]
