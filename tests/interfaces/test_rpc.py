"""Does the wire speak JSON-RPC? Calls answered as the program answers, and everything else refused by the book."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from annai.answers import Query
from annai.engine import Engine
from annai.errors import CollectionError, ServerError
from annai.interfaces.render.records import answer_json
from annai.interfaces.rpc import INTERNAL_ERROR, MAX_BATCH_CALLS, METHODS, CallError, Service, parse
from annai.serving.wire import to_json
from annai.types import ServerStatus

Write = Callable[[str, str], Path]

PART = "An apple a day keeps many doctors far away from here. " * 12


@pytest.fixture
def service(engine: Engine) -> Service:
    """The engine, spoken to as the wire does."""
    return Service(engine, engine.config)


def answer(service: Service, method: str, **params: object) -> dict[str, Any]:
    """The whole answer to a call, as JSON would carry it."""
    told = service.answer({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert told is not None
    assert (told["jsonrpc"], told["id"]) == ("2.0", 7)
    carried: dict[str, Any] = json.loads(json.dumps(told))
    return carried


def result(service: Service, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
    told = answer(service, method, **params)
    assert "error" not in told, told
    return told["result"]


def test_a_search_is_answered_as_the_program_answers_it(service: Service, engine: Engine, write: Write) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    assert result(service, "refresh") == 0
    told = result(service, "search", query="apple")
    expected = json.loads(json.dumps(answer_json(engine.search(Query("apple")))))
    assert told["results"] == expected["results"]
    assert list(told) == ["query", "took_ms", "total", "verdict", "confident", "results"]
    assert "passage" not in told["results"][0]
    explained = result(service, "search", query="apple", explain=True)["results"][0]
    assert set(explained) - set(told["results"][0]) == {"passage", "passage_line", "reasons"}


def test_a_search_takes_every_option(service: Service, write: Write) -> None:
    for path in ("x/b.md", "x/a.md", "y/c.md"):
        write(path, f"# {path}\n\nAn apple.")
    result(service, "refresh")
    options = {"collections": ["root"], "paths": ["x"], "excludes": ["x/b.md"], "depths": [0], "mode": "keyword"}
    options |= {"sort": "path", "content": "none", "clean_only": True, "limit": 3}
    (hit,) = result(service, "search", query="apple", **options)["results"]
    assert (hit["path"], hit["content"], hit["depth"]) == ("x/a.md", "", 0)


def test_documents_and_sections_come_with_their_relatives(service: Service, write: Write) -> None:
    write("a.md", f"---\ntitle: Doc\n---\n# One\n\n{PART}\n\n## Two\n\n{PART}\n\n## Three\n\n{PART}\n")
    result(service, "refresh")
    document = result(service, "get_document", path="a.md")
    assert document["content"].startswith("---\ntitle: Doc")
    assert document["front_matter"] == {"title": "Doc"}
    assert [each["id"] for each in document["sections"]][-2:] == ["root:a.md#1.1", "root:a.md#1.2"]
    section = result(service, "get_section", id="root:a.md#1.2")
    assert section["content"].startswith("## Three")
    assert section["parent"]["id"] == "root:a.md"
    assert section["children"] == []
    assert result(service, "get_section", id=f"a.md:{section['start_line']}") == section
    lines = result(service, "get_section", id="a.md:1-2")
    assert (lines["start_line"], lines["end_line"], lines["content"].count("\n")) == (1, 2, 2)
    whole = result(service, "get_section", id="a.md")
    assert whole["parent"] is None
    assert [each["heading"] for each in whole["children"]][-2:] == ["Two", "Three"]


def test_collections_are_managed(service: Service, docs: Path, write: Write) -> None:
    write("api/a.md", "# A\n\napple")
    added = result(service, "add_collection", name="api", source=str(docs / "api"), description="The API")
    assert (added["name"], added["enabled"]) == ("api", True)
    assert result(service, "import_collection", name="api", mode="new")["added"] == 1
    assert result(service, "list_documents", name="api") == ["a.md"]
    assert result(service, "update_collection", name="api", description="Changed")["description"] == "Changed"
    assert result(service, "disable_collection", name="api")["enabled"] is False
    assert result(service, "enable_collection", name="api")["enabled"] is True
    assert [each["name"] for each in result(service, "list_collections")] == ["api"]
    assert result(service, "get_project")["sources"]["api"] == str(docs / "api")
    assert result(service, "delete_collection", name="api") is None
    assert result(service, "list_collections") == []


def test_documents_are_queued_and_rebuilt(service: Service, write: Write) -> None:
    write("a.md", "# A\n\napple")
    (queued,) = result(service, "index_document", path="a.md")["requests"]
    assert (queued["path"], queued["status"]) == ("a.md", "pending")
    assert [each["path"] for each in result(service, "get_requests", status="pending")] == ["a.md"]
    assert result(service, "rebuild_index")["added"] == 1
    assert result(service, "rebuild_index", paths=["a.md"], force=True)["updated"] == 1
    status = result(service, "get_status")
    assert status["collections"][0]["statistics"]["documents"] == 1
    assert status["server"] is None


def test_the_status_tells_of_the_server(engine: Engine) -> None:
    server = ServerStatus(1, "http://127.0.0.1:1", "2026-01-01T00:00:00+00:00", 5, "1")
    service = Service(engine, engine.config, describe=lambda: server)
    assert result(service, "get_status")["server"]["url"] == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("method", "params", "code", "sentence"),
    [
        ("nope", {}, -32601, "There is no method 'nope'"),
        ("__init__", {}, -32601, "There is no method"),
        ("answer", {}, -32601, "There is no method"),
        ("search", {}, -32602, "search must have 'query'."),
        ("search", {"query": 3}, -32602, "query must be a string, not 3."),
        ("search", {"query": "a", "limit": "x"}, -32602, "limit must be a whole number, not 'x'."),
        ("search", {"query": "a", "limit": 0}, -32602, "limit must be between 1 and 1,000, not 0."),
        ("search", {"query": "a", "limit": 1001}, -32602, "limit must be between 1 and 1,000"),
        ("search", {"query": "a", "depths": [4]}, -32602, "depths must be between 0 and 3."),
        ("search", {"query": "a", "paths": ["x"] * 101}, -32602, "paths takes at most 100 values, not 101."),
        ("search", {"query": "a", "paths": ["x" * 5000]}, -32602, "Each of paths must have at most 4,096"),
        ("search", {"query": "a", "mode": "magic"}, -32602, "mode must be one of hybrid, vector, keyword"),
        ("search", {"query": " "}, -32602, "The query is empty"),
        ("search", {"query": "a" * 10_001}, -32602, "at most 10,000 can be searched"),
        ("search", {"query": "a", "limmit": 1}, -32602, "search has no 'limmit'; did you mean 'limit'?"),
        ("search", {"query": "a", "collections": ["nope"]}, -32000, "There is no collection 'nope'"),
        ("get_document", {"path": "../../etc/passwd"}, -32000, "There is no document"),
        ("get_requests", {"limit": 10**9}, -32602, "limit must be between 1 and 1,000"),
        ("add_collection", {"name": "a", "source": "relative"}, -32602, "source must be an absolute path"),
        ("import_collection", {"mode": "delete"}, -32602, "mode must be one of new, replace, update"),
        ("shutdown", {"secret": ""}, -32000, "This server can only be stopped with `annai server stop`."),
    ],
)
def test_a_call_that_makes_no_sense_gets_a_sentence(
    service: Service, method: str, params: dict[str, object], code: int, sentence: str
) -> None:
    error = answer(service, method, **params)["error"]
    assert error["code"] == code
    assert sentence in error["message"]


@pytest.mark.parametrize(
    "strange", ["\ud800", "a.md\udcff", "a\0b", "x" * 5_000, "#", "#" + "1" * 5_000, "~nobody/x", "~\0"]
)
def test_no_text_fails_inside_the_server(
    service: Service, docs: Path, strange: str, caplog: pytest.LogCaptureFixture
) -> None:
    (docs / "a").mkdir()
    result(service, "add_collection", name="there", source=str(docs / "a"))
    for name, method in METHODS.items():
        for changed, hint in method.hints.items():
            given: dict[str, object] = dict.fromkeys(method.required, "there")
            if "source" in given:
                given["source"] = str(docs)
            wanted = str(hint)
            given[changed] = [strange] if "tuple" in wanted or "Sequence" in wanted else strange
            told = json.loads(
                to_json(service.answer({"jsonrpc": "2.0", "id": strange, "method": name, "params": given}))
            )
            assert told["id"] == strange
            if "error" in told:
                assert told["error"]["code"] != INTERNAL_ERROR, (name, changed)
    assert caplog.text == ""


def test_a_number_that_no_json_can_hold_is_refused() -> None:
    for number in ("1e999", "-1e999", "NaN", "1" * 5_000):
        with pytest.raises(CallError, match="is not JSON"):
            parse(f'{{"jsonrpc": "2.0", "id": {number}, "method": "get_status"}}'.encode())


def test_the_documents_of_an_unknown_collection_are_not_an_empty_list(service: Service) -> None:
    assert answer(service, "list_documents", name="nope")["error"]["data"]["kind"] == CollectionError.__name__


def test_an_error_names_its_kind(service: Service) -> None:
    assert answer(service, "get_document", path="a.md")["error"]["data"]["kind"] == "NotFound"
    assert answer(service, "delete_collection", name="a")["error"]["data"] == {
        "kind": "CollectionError",
        "remedy": "none is registered; add one with `annai collection add`.",
    }
    assert answer(service, "search", query="")["error"]["data"]["kind"] == "QueryError"


@pytest.mark.parametrize(
    "call",
    [
        1,
        "search",
        None,
        [],
        {},
        {"jsonrpc": "1.0", "method": "search", "id": 1},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "method": 5, "id": 1},
        {"jsonrpc": "2.0", "method": "get_status", "id": {}},
        {"jsonrpc": "2.0", "method": "get_status", "id": True},
    ],
)
def test_what_is_no_call_is_refused(service: Service, call: object) -> None:
    told = service.answer(call)
    assert told is not None
    assert told["error"]["code"] == -32600


def test_parameters_may_come_in_order(service: Service, write: Write) -> None:
    write("a.md", "# A\n\napple")
    result(service, "refresh")
    told = service.answer({"jsonrpc": "2.0", "id": "x", "method": "search", "params": ["apple", 1]})
    assert told is not None
    assert told["result"]["total"] == 1
    for params in ([*range(20)], 5, "apple"):
        told = service.answer({"jsonrpc": "2.0", "id": None, "method": "search", "params": params})
        assert told is not None
        assert told["error"]["code"] == -32602


def test_a_notification_is_obeyed_and_not_answered(service: Service, engine: Engine, docs: Path) -> None:
    params = {"name": "here", "source": str(docs)}
    assert service.answer({"jsonrpc": "2.0", "method": "add_collection", "params": params}) is None
    assert [each.name for each in engine.list_collections()] == ["here"]
    assert service.answer({"jsonrpc": "2.0", "method": "nope"}) is None


def test_a_message_is_one_call_or_a_batch() -> None:
    assert parse(b"{}") == ([{}], False)
    assert parse(b"[{}, 1]") == ([{}, 1], True)
    for body, code in ((b"{", -32700), (b"\xff", -32700), (b"NaN", -32700), (b"[]", -32600)):
        with pytest.raises(CallError) as caught:
            parse(body)
        assert caught.value.code == code
    with pytest.raises(CallError):
        parse(json.dumps([1] * (MAX_BATCH_CALLS + 1)).encode())


def test_callers_see_no_traces_of_the_servers_insides(
    service: Service, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str = "") -> None:
        raise RuntimeError(f"a secret of {name}")

    monkeypatch.setattr(engine, "status", fail)
    with caplog.at_level(logging.ERROR):
        error = answer(service, "get_status")["error"]
    assert error == {"code": -32603, "message": "Something went wrong inside the server; see its log."}
    assert "a secret of" in caplog.text


def test_only_who_knows_the_secret_ends_the_server(engine: Engine) -> None:
    ended: list[bool] = []
    service = Service(engine, engine.config, secret="mellon", stop=lambda: ended.append(True))  # noqa: S106 - a test's
    for wrong in ("", "melon", "mellon ", "é"):
        assert answer(service, "shutdown", secret=wrong)["error"]["data"]["kind"] == ServerError.__name__
    assert not ended
    assert result(service, "shutdown", secret="mellon") is None  # noqa: S106 - a test's
    assert ended


def test_an_import_ends_with_the_document_at_hand_when_the_server_stops(service: Service, write: Write) -> None:
    for number in range(50):
        write(f"{number}.md", f"# {number}\n\napple")
    service.stopping.set()
    assert "being stopped" in answer(service, "import_collection")["error"]["message"]
    service.stopping.clear()
    summary = result(service, "import_collection")
    assert summary["added"] + summary["unchanged"] == 50


def test_every_method_is_described() -> None:
    assert all(method.__doc__ for method in METHODS.values())
