"""Can any call break a project? Whatever is asked, by a client or an agent, it gets an answer or a sentence."""

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from annai.answers import Answer, Content, Mode, Query, QueryOptions, Sort
from annai.asking.query import check_query, make_query, query_options
from annai.engine import Engine
from annai.errors import AnnaiError, NotFound, QueryError
from annai.interfaces.mcp.access import Access
from annai.interfaces.mcp.arguments import check_arguments
from annai.interfaces.mcp.indexing import Indexing
from annai.interfaces.mcp.tools import Tools
from annai.interfaces.rpc import INTERNAL_ERROR, METHODS, CallError, Method, Service, parse
from annai.serving.pidfile import ServerRecord
from annai.serving.wire import from_json, to_json
from annai.settings import Search
from annai.types import Document, Selection, Status
from annai.values import choices, decode
from tests.conftest import quick_config
from tests.fuzz import FUZZ, attempt
from tests.fuzz.strategies import ANY_TEXTS, JSON, is_json, like, travelled

T = TypeVar("T")

HUGE = 10**400

NAMES = st.sampled_from(
    ["root", "extra", "a.md", "b/c.rst", "root:a.md", "a.md#1", "a.md#1.1~1", "apple", "日本語", ""]
)
WORDS = NAMES | ANY_TEXTS


@pytest.fixture
def engine(docs: Path) -> Iterator[Engine]:
    """A project with two documents."""
    (docs / "a.md").write_text("# A\n\napple\n\n## B\n\nbanana, 日本語の文。\n", encoding="utf-8")
    (docs / "b").mkdir()
    (docs / "b" / "c.rst").write_text("Title\n=====\n\ncherry\n", encoding="utf-8")
    with Engine(quick_config(docs)) as engine:
        engine.refresh()
        yield engine


def reset(engine: Engine) -> None:
    """Let no example depend on the ones before."""
    for collection in engine.list_collections():
        engine.delete_collection(collection.name)


def calls_of(method: Method) -> st.SearchStrategy[object]:
    """Calls of a method: with parameters that fit, in a list, or any at all."""
    fitting = st.fixed_dictionaries(
        {name: like(method.hints[name], WORDS) for name in method.required},
        optional={name: like(hint, WORDS) for name, hint in method.hints.items() if name not in method.required},
    )
    params = st.one_of(fitting, fitting, fitting.map(lambda values: list(values.values())), JSON)
    return st.builds(lambda sent: travelled({"jsonrpc": "2.0", "id": 1, "method": method.name, "params": sent}), params)


@pytest.mark.parametrize("method", METHODS)
@settings(FUZZ, max_examples=FUZZ.max_examples // 2)
@given(data=st.data())
def test_every_call_of_a_method_gets_an_answer_in_json(engine: Engine, method: str, data: st.DataObject) -> None:
    call = data.draw(calls_of(METHODS[method]))
    assume(not any(map(names_a_real_folder, strings(call))))
    try:
        answer = Service(engine, engine.config, secret="s").answer(call)  # noqa: S106 - no secret
    finally:
        reset(engine)
    assert answer is not None
    assert is_json(from_json(to_json(answer)))
    assert answer.get("error", {}).get("code") != INTERNAL_ERROR


FOUND: tuple[tuple[str, object], ...] = (
    ("search", {"query": "apple", "limit": HUGE}),
    ("search", {"query": "apple", "paths": ["\ud800"]}),
    ("get_document", {"path": "\ud800"}),
    ("get_document", {"path": "a.md#" + "9" * 5000}),
    ("rebuild_index", {"paths": [""]}),
    ("rebuild_index", {"paths": ["#"]}),
)
"""Calls that fuzzing found to fail inside the server."""


@pytest.mark.parametrize(("method", "params"), FOUND)
def test_calls_that_failed_before_are_answered(engine: Engine, method: str, params: object) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = Service(engine, engine.config).answer(call)
    assert answer is not None
    assert answer["error"]["code"] != INTERNAL_ERROR


@FUZZ
@given(
    JSON
    | st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0") | JSON},
        optional={"id": JSON, "method": st.just("list_collections") | JSON, "params": JSON, "more": JSON},
    )
)
def test_anything_that_is_sent_as_a_call_gets_an_answer_in_json(engine: Engine, call: object) -> None:
    answer = Service(engine, engine.config).answer(travelled(call))
    assert answer is None or is_json(from_json(to_json(answer)))


@FUZZ
@given(st.binary(max_size=200) | JSON.map(travelled).map(to_json))
def test_any_body_is_calls_or_refused(body: bytes) -> None:
    try:
        calls, is_batch = parse(body)
    except CallError as refused:
        calls, is_batch = [refused.response()], False
    assert is_json(from_json(to_json(calls)))
    assert is_batch or len(calls) == 1


@FUZZ
@given(
    WORDS,
    st.fixed_dictionaries(
        {},
        optional={
            "limit": st.integers(-1, 50) | st.just(HUGE),
            "offset": st.integers(-1, 50) | st.just(HUGE),
            "collections": st.lists(WORDS, max_size=3),
            "paths": st.lists(WORDS, max_size=3),
            "excludes": st.lists(WORDS, max_size=3),
            "depths": st.lists(st.integers(-1, 4), max_size=3),
            "clean_only": st.booleans(),
            "mode": st.sampled_from(choices(Mode)),
            "sort": st.sampled_from(choices(Sort)),
            "content": st.sampled_from(choices(Content)),
        },
    ),
)
def test_any_query_is_answered_or_refused(engine: Engine, text: str, options: dict[str, Any]) -> None:
    query = make_query(text, Search(), **cast(QueryOptions, options))
    assert make_query(text, Search(), **query_options(query)) == query
    refused = attempt(QueryError, lambda: check_query(query))
    answer = attempt(AnnaiError, lambda: engine.search(query, refresh=False))
    if not isinstance(answer, AnnaiError):
        assert refused is None
        assert len(answer.results) <= query.limit
        assert all(0 <= hit.score <= 1 for hit in answer)


@FUZZ
@given(
    st.tuples(WORDS, st.sampled_from(["", "#", "#1", "#1.2~3", "~1", ":", "#" + "9" * 5000, "/" * 5000])).map("".join)
)
def test_any_reference_names_a_section_or_nothing(engine: Engine, reference: str) -> None:
    found = attempt(AnnaiError, lambda: engine.locate(reference))
    if isinstance(found, AnnaiError):
        assert isinstance(found, QueryError | NotFound)
    else:
        assert found.section in found.sections


@FUZZ
@given(st.data())
def test_any_arguments_of_a_tool_are_taken_or_refused(engine: Engine, data: st.DataObject) -> None:
    indexing = Indexing(Access(engine.config, engine))
    try:
        tool = data.draw(st.sampled_from(Tools(engine.config, indexing).all_tools(engine.list_collections())))
        kinds = {"string": WORDS, "integer": like(int) | st.sampled_from(["5", "-1", "٣", "²"]), "boolean": like(bool)}
        values = data.draw(
            JSON.filter(lambda value: isinstance(value, dict))
            | st.fixed_dictionaries(
                {}, optional={each.name: kinds.get(each.kind, like(tuple[str, ...], WORDS)) for each in tool.arguments}
            )
        )
        sent = cast(dict[str, Any], travelled(values))
        checked = attempt(QueryError, lambda: check_arguments(tool.name, tool.arguments, sent))
        if isinstance(checked, QueryError):
            return
        assert set(checked) == {each.name for each in tool.arguments}
        result = attempt(AnnaiError, lambda: asyncio.run(as_coroutine(tool.call(checked, report))))
        assert isinstance(result, AnnaiError) or is_json(from_json(to_json(result.fields)))
    finally:
        indexing.close()


@FUZZ
@given(st.sampled_from([Answer, Document, Query, Selection, ServerRecord, Status]), JSON.map(travelled), st.data())
def test_any_value_is_decoded_or_refused(kind: type, value: object, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        hints = kind.__annotations__
        value = travelled(data.draw(st.fixed_dictionaries({name: like(hint) for name, hint in hints.items()})))
    found = attempt(QueryError, lambda: decode(kind, value))
    assert len(str(found)) < 1000 if isinstance(found, QueryError) else isinstance(found, kind)


async def as_coroutine(result: Awaitable[T]) -> T:
    """What `asyncio.run` runs."""
    return await result


async def report(done: float, total: float | None, words: str | None) -> None:
    """Nobody listens."""


def strings(value: object) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value if isinstance(value, list) else value.values():
            yield from strings(each)


def names_a_real_folder(text: str) -> bool:
    """Whether a call could register one of this machine's own folders: it would be indexed."""
    try:
        path = Path(text).expanduser()
        return path.is_absolute() and path.is_dir()
    except (OSError, RuntimeError, ValueError):
        return False
