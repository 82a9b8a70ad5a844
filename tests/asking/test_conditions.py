"""Which documents meet a condition? One rule for every store, and a sentence where none does."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.asking.conditions import Comparison, parse_condition, parse_moment
from annai.config import load_config
from annai.engine import Engine
from annai.errors import NotFound, QueryError
from annai.interfaces.mcp.arguments import check_arguments
from annai.interfaces.mcp.tools import CONDITIONS
from annai.interfaces.rpc import Service
from annai.text.metadata import MAX_VALUE_CHARACTERS, MAX_VALUES, document_times, metadata, parse_date

FILES = {
    "draft.md": "---\nstatus: draft\ntags: [k8s, Linux]\ndate: 2025-03-01\npriority: 10\nauthor: {name: Ann}\n---\n",
    "ノート/done.md": "---\nStatus: Done\ntags: deploy, K8S\ndate: 2024-12-31\nlastmod: 2025-01-02\npriority: 9\n---\n",
    "old.md": "+++\nstatus = 'in progress'\ndate = 2023-05-01\n+++\n",
    "plain.md": "",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("docs")
    (folder / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    for name, head in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{head}# Title\n\nzebra {name}\n", encoding="utf-8")
    # Many that answer better than the one that is asked for.
    for number in range(150):
        (folder / f"zebra-{number}.md").write_text(f"---\nstatus: other\ndate: 2020\n---\n# Zebra\n\nzebra {number}\n")
    with Engine(load_config(docs_dir=folder)) as engine:
        engine.refresh()
        yield engine


def found(engine: Engine, *where: str, since: str = "", until: str = "") -> list[str]:
    answer = engine.search("zebra", where=where, since=since, until=until, limit=5, refresh=False)
    return sorted(hit.path for hit in answer)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["status=draft"], ["draft.md"]),
        (["STATUS = done"], ["ノート/done.md"]),
        (["status='in progress'"], ["old.md"]),
        (["tags=k8s"], ["draft.md", "ノート/done.md"]),
        (["tags=k8s", "tags!=linux"], ["ノート/done.md"]),
        (["date>=2025-01-01"], ["draft.md"]),
        (["date>2020", "date<2025"], ["old.md", "ノート/done.md"]),
        (["date=2024"], ["ノート/done.md"]),
        (["date≥2024年12月", "priority>9"], ["draft.md"]),
        (["created<=2023-05"], None),
        (["updated=2025-01-02"], ["ノート/done.md"]),
        (["author.name=ann"], ["draft.md"]),
        (["status="], ["plain.md"]),
        (["status!=other"], ["draft.md", "old.md", "plain.md", "ノート/done.md"]),
        (["priority!="], ["draft.md", "ノート/done.md"]),
    ],
)
def test_only_what_meets_all_conditions_is_found_however_much_answers_better(
    engine: Engine, where: list[str], expected: list[str] | None
) -> None:
    paths = found(engine, *where)
    assert paths == expected if expected is not None else len(paths) == 5
    listing = engine.browse("", where)
    assert expected is None or sorted(each.name for each in listing.entries) == expected


def test_since_and_until_look_at_when_a_document_was_updated(engine: Engine) -> None:
    assert found(engine, "status!=other", since="2w") == ["draft.md", "old.md", "plain.md"]
    assert found(engine, "status!=other", until="2025-01-02") == ["ノート/done.md"]
    assert found(engine, "updated>=1d", "status!=other") == ["draft.md", "old.md", "plain.md"]
    (hit,) = engine.search("zebra", where=["status=done"], refresh=False)
    assert (hit.created, hit.updated) == ("2024-12-31", "2025-01-02")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("status=drfat", "No document has status=drfat; there are draft, other, Done, in progress."),
        ("statsu=draft", "No document has the field 'statsu'; there are status, "),
        ("date>=2030", "No document has date>=2030; date is 2020 to 2025-03-01."),
    ],
)
def test_a_condition_that_no_document_meets_says_what_there_is(engine: Engine, where: str, said: str) -> None:
    answer = engine.search("zebra", where=[where], refresh=False)
    assert not answer.results
    assert answer.unmet[where].startswith(said)
    with pytest.raises(NotFound, match="No document has"):
        engine.browse("", [where])


def test_conditions_that_no_document_meets_together_are_named_together(engine: Engine) -> None:
    answer = engine.search("zebra", where=["status=draft", "tags=deploy"], refresh=False)
    assert [*answer.unmet.values()] == ["No document has status=draft and tags=deploy."]
    answer = engine.search("zebra", where=["status=draft"], paths=["ノート"], refresh=False)
    assert [*answer.unmet.values()] == ["No document there has status=draft."]


def test_the_fields_of_documents_are_listed_with_frequent_values(engine: Engine) -> None:
    fields = {each.name: each for each in engine.fields()}
    assert (fields["status"].documents, next(iter(fields["status"].values.items()))) == (153, ("other", 150))
    assert fields["updated"].documents == 154
    assert fields["tags"].values == {"K8S": 1, "Linux": 1, "deploy": 1, "k8s": 1}
    assert fields["author.name"].values == {"Ann": 1}


def test_a_call_and_a_tool_take_conditions(engine: Engine) -> None:
    def call(method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return Service(engine, engine.config).answer(sent)

    answer = call("search", query="zebra", where=["status=draft"], since="1d")["result"]
    assert [each["path"] for each in answer["results"]] == ["draft.md"]
    assert call("search", query="zebra", where=["status=x"])["result"]["unmet"].keys() == {"status=x"}
    assert "where takes FIELD=VALUE" in call("search", query="zebra", where=["status"])["error"]["message"]
    assert call("list_fields")["result"][0]["name"] == "updated"
    for sent in (
        ["status=draft", "date>=2025"],
        {"status": "draft", "date": ">=2025"},
        '["status=draft","date>=2025"]',
    ):
        checked = check_arguments("search", CONDITIONS, {"filters": sent})
        assert checked["where"] == ("status=draft", "date>=2025")


@pytest.mark.parametrize("text", ["status", "=draft", "", "date>=", "<>", "!"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="where "):
        parse_condition(text)


@given(name=st.text(min_size=1), operator=st.sampled_from(["=", "!=", "<", "≥", "＝"]), value=st.text())
def test_a_condition_can_be_typed_again_as_it_is_shown(name: str, operator: str, value: str) -> None:
    try:
        condition = parse_condition(f"{name}{operator}{value}")
    except QueryError:
        return
    assert parse_condition(str(condition)) == condition


def test_how_long_ago_is_a_moment() -> None:
    now = datetime(2025, 3, 31, 12).astimezone()
    moments = {"12h": "2025-03-31T00:00", "3 days": "2025-03-28T12:00", "2w": "2025-03-17T12:00", "1m": "2025-02-28"}
    moments |= {"1y": "2024-03-31T12:00", "昨日": "2025-03-30", "2025/1/31": "2025/1/31", "１ｄ": "2025-03-30T12:00"}
    for text, expected in moments.items():
        assert parse_moment("since", text, now).startswith(expected), text
    for text in ("2q", "5000y", "soon", "-1d", "2025-13"):
        with pytest.raises(QueryError, match="since takes"):
            parse_moment("since", text, now)


@pytest.mark.parametrize(
    ("value", "condition", "holds"),
    [
        ("1.10", "v=1.1", False),
        (1.1, "v=1.10", True),
        ("10", "v>9", True),
        ("0123", "v=123", False),
        ("unknown", "v>=2025-01-01", False),
        (2025, "v>=2024-06", True),
        ("2025-03-01T08:00:00", "v=2025-03-01", True),
        ("2025-03-01T08:00:00", "v>2025-03-01", False),
        ("2025-03-01T08:00:00", "v<=2025-03-01", True),
        ("9999-12-31", "v>2025", True),
        ("ＡＢＣ", "v=abc", True),
        ("ﾃﾞﾌﾟﾛｲ", "v=デプロイ", True),
        (False, "v=no", True),
        (False, "v=0", False),
        ("beta", "v>alpha", True),
    ],
)
def test_values_are_compared_as_what_they_are(value: object, condition: str, holds: bool) -> None:
    assert Comparison(parse_condition(condition)).holds(json.dumps(value)) is holds


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates().map(str),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(front_matter=st.dictionaries(st.text() | st.sampled_from(["date", "updated", "tags"]), VALUES), wanted=st.text())
def test_nothing_in_front_matter_breaks_a_comparison(front_matter: dict[str, object], wanted: str) -> None:
    pairs = metadata(front_matter)
    document_times(front_matter, 0)
    for operator in ("=", "!=", "<", "<=", ">", ">="):
        condition = parse_condition(f"field{operator}x{wanted}")
        for name, value in pairs:
            assert name
            Comparison(condition).holds(value)
            if (span := parse_date(wanted)) is not None:
                assert span.start < span.end


def test_of_a_hostile_front_matter_only_so_much_is_kept() -> None:
    deep: object = "x"
    for _ in range(100):
        deep = {"a": [deep]}
    kept = metadata(
        {
            "long": "x" * 1_000_000,
            "n" * 1000: 1,
            "deep": deep,
            "tags": [f"tag{number}" for number in range(100_000)],
            **{f"name{number}": number for number in range(5_000)},
            "huge": 1 << 100_000,
            "nul": "a\0b",
            "date": "2025-01-01",
        }
    )
    assert len(kept) <= MAX_VALUES
    assert all(len(json.loads(value)) <= MAX_VALUE_CHARACTERS for _, value in kept if value.startswith('"'))
    assert not {"long", "huge", "n" * 1000} & {name for name, _ in kept}
    assert ("created", '"2025-01-01"') in kept
