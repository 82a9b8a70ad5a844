"""Are results reranked if the settings say so, and does a note say when they were not?"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from annai.answers import Answer, Query
from annai.config import Config, override
from annai.engine import Engine
from annai.errors import RerankerError
from annai.rerankers.base import Reranker, load_reranker
from tests import service as services
from tests import tiny
from tests.conftest import Annai, quick_config, trust
from tests.service import Service

pytestmark = pytest.mark.xdist_group("torch")

KEY = "secret-of-the-reranker"
Write = Callable[[str, str], Path]


@pytest.fixture
def service() -> Iterator[Service]:
    with services.running() as running:
        yield running


@pytest.fixture
def documents(write: Write) -> None:
    for number in range(12):
        extra = " orchard harvest" if number == 7 else ""
        write(f"{number}.md", f"# Page {number}\n\napple " * (12 - number) + extra)


def http_config(docs: Path, service: Service, **settings: object) -> Config:
    config = override(quick_config(docs), "search", rerank="http")
    return override(config, "rerank", **({"base_url": f"{service.url}/v1", "model": "rerank-1"} | settings))


def ask(config: Config, query: Query) -> Answer:
    with Engine(config) as engine:
        engine.refresh()
        return engine.search(query)


@pytest.mark.usefixtures("documents")
def test_a_service_reorders_the_best_results(docs: Path, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_KEY", KEY)
    query = Query("apple orchard harvest", mode="vector", limit=3)
    before = ask(quick_config(docs), query)
    answer = ask(http_config(docs, service, api_key_env="RERANK_KEY"), query)
    assert answer.results[0].path == "7.md"
    assert answer.results[0].reasons.rerank == answer.results[0].score == 1.0
    assert len(answer.results) == 3
    assert answer.total == before.total
    assert answer.note == ""
    assert [hit.score for hit in answer.results] == sorted((hit.score for hit in answer.results), reverse=True)
    (request,) = service.requests
    assert request.path == "/v1/rerank"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["model"] == "rerank-1"
    assert len(request.body["documents"]) == 12
    assert all(text.startswith("Page") for text in request.body["documents"])


@pytest.mark.usefixtures("documents")
def test_a_service_may_name_the_field_texts(docs: Path, service: Service) -> None:
    service.planned.append({"status": 422, "body": '{"error": "missing field `texts`", "error_type": "Validation"}'})
    assert ask(http_config(docs, service), Query("apple orchard", mode="vector")).results[0].path == "7.md"
    assert [*service.requests[1].body] == ["query", "texts"]


@pytest.mark.usefixtures("documents")
def test_the_reranker_gets_the_corrected_query(docs: Path, service: Service) -> None:
    answer = ask(http_config(docs, service), Query("apple orchad"))
    assert answer.corrected == {"orchad": "orchard"}
    assert service.requests[0].body["query"] == "apple orchard"


@pytest.mark.usefixtures("documents")
def test_only_the_first_candidates_are_reranked(docs: Path, service: Service) -> None:
    answer = ask(http_config(docs, service, candidates=4), Query("apple", limit=10))
    assert len(service.requests[0].body["documents"]) == 4
    assert [hit.reasons.rerank is None for hit in answer.results] == [False] * 4 + [True] * 6


@pytest.mark.usefixtures("documents")
@pytest.mark.parametrize(
    ("planned", "note"),
    [
        ({"hang": True}, "0.2 seconds"),
        ({"status": 500}, "500"),
        ({"status": 429, "headers": {"Retry-After": "60"}}, "429"),
        ({"cut": 30}, "incomplete or invalid answer"),
        ({"body": '{"results": [{"index": 0, "relevance_score": 0.5}]}'}, "1 of 12"),
        ({"body": '{"something": "else"}'}, "no scores"),
    ],
    ids=["silent", "failing", "busy", "half", "fewer", "other"],
)
def test_if_it_fails_or_takes_too_long_the_order_stays_and_the_note_says_so(
    docs: Path, service: Service, planned: dict[str, object], note: str
) -> None:
    query = Query("apple orchard", mode="vector", limit=12)
    before = ask(quick_config(docs), query)
    service.planned.append(planned)
    budget = 0.2 if "hang" in planned else 30.0
    answer = ask(http_config(docs, service, budget_seconds=budget), query)
    assert [hit.path for hit in answer.results] == [hit.path for hit in before.results]
    assert answer.note.startswith("not reranked: ")
    assert note in answer.note


@pytest.mark.usefixtures("documents")
def test_the_note_is_shown_to_people_and_programs(docs: Path, service: Service) -> None:
    (docs / "annai.toml").write_text(
        f'[embedding]\nprovider = "hashing"\n[search]\nrerank = "http"\n[rerank]\nbase_url = "{service.url}"\n'
    )
    trust(docs)
    annai = Annai(docs)
    annai("import")
    service.planned.extend([{"status": 500}, {"status": 500}])
    assert "not reranked" in annai("search", "apple").stdout
    assert "not reranked" in json.loads(annai("search", "apple", "--format", "json").stdout)["note"]
    assert "note" not in json.loads(annai("search", "apple", "--format", "json").stdout)
    assert "reranker 1.00" in annai("search", "apple", "--explain").stdout


def test_scores_beyond_one_are_brought_between_zero_and_one(docs: Path, service: Service) -> None:
    service.planned.append({"body": '[{"index": 0, "score": -3.0}, {"index": 1, "score": 900.0}]'})
    reranker = load_reranker(http_config(docs, service))
    assert reranker
    low, high = reranker.rerank("x", ["a", "b"], 30.0)
    assert 0 < low < 0.1
    assert high == pytest.approx(1)


def test_settings_that_cannot_work_are_errors(docs: Path, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RERANK_KEY", raising=False)
    for settings, message in (({"base_url": ""}, "base_url"), ({"api_key_env": "RERANK_KEY"}, "RERANK_KEY")):
        reranker = load_reranker(http_config(docs, service, **settings))
        assert reranker
        with pytest.raises(RerankerError, match=message):
            reranker.load()
    assert load_reranker(quick_config(docs)) is None


class Slow(Reranker):
    """Scores one text at a time, and waits for `go_on`."""

    chunk_size = 1

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.scored: list[str] = []

    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:  # noqa: ARG002 - takes as long as the test wants
        self.scored += texts
        self.go_on.wait(60)
        return [0.5] * len(texts)


def test_a_reranker_that_takes_too_long_stops_and_refuses_other_questions_until_then() -> None:
    slow = Slow()
    with pytest.raises(RerankerError, match="longer than"):
        slow.rerank("q", ["a", "b", "c"], 0.05)
    with pytest.raises(RerankerError, match="still busy"):
        slow.rerank("q", ["d"], 0.05)
    slow.go_on.set()
    assert slow._busy.acquire(timeout=60)
    slow._busy.release()
    assert slow.scored == ["a"]
    assert slow.rerank("q", ["e"], 60) == [0.5]


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "cross"
    tiny.write_transformer(folder, labels=1)
    return folder


def cross_config(docs: Path, model: Path | str) -> Config:
    config = override(quick_config(docs), "search", rerank="cross-encoder")
    return override(config, "rerank", model=str(model), budget_seconds=60.0)


def test_a_cross_encoder_reorders_results(docs: Path, write: Write, cross_encoder: Path) -> None:
    for number in range(8):
        write(f"{number}.md", f"w{number} w{number + 20} w{number + 40}\n")
    answer = ask(cross_config(docs, cross_encoder), Query("w1 w2", mode="vector", limit=8))
    scores = [hit.reasons.rerank for hit in answer.results if hit.reasons.rerank is not None]
    assert answer.note == ""
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1
    reranker = load_reranker(cross_config(docs, cross_encoder))
    assert reranker
    again = reranker.rerank("w1 w2", ["x", "w1", "w2", "w3", "w4", "w5"], 60)
    assert len(again) == 6
    assert all(0 <= score <= 1 for score in again)
    reranker.close()


def test_a_cross_encoder_that_is_missing_is_an_error_that_says_what_to_do(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for model, message in (("", r"rerank\.model"), (str(tmp_path / "empty"), "cannot be loaded")):
        reranker = load_reranker(cross_config(docs, model))
        assert reranker
        with pytest.raises(RerankerError, match=message):
            reranker.load()
