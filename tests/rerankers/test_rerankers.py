"""Are results reranked if the settings say so, and does a note say when they were not?"""

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from annai.answers import Answer, Query
from annai.config import Config, override
from annai.engine import Engine
from annai.errors import RerankerError
from annai.rerankers.base import Reranker, load_reranker
from annai.rerankers.http import HttpReranker
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


TEXTS = [f"apple {number}" for number in range(40)] + ["apple orchard harvest", "apple orchard " + "and more " * 300]


@pytest.mark.parametrize(
    ("path", "api", "fields", "requests"),
    [
        ("/cohere/v2", "cohere", ["query", "documents", "model"], 1),
        ("/jina/v1", "jina", ["query", "documents", "return_documents", "model"], 1),
        ("/tei", "tei", ["query", "texts", "truncate"], 2),
        ("/vllm/v1", "vllm", ["query", "documents", "truncate_prompt_tokens", "model"], 1),
        # Found out by what it answers to the common format, and remembered.
        ("/tei", "auto", ["query", "texts", "truncate"], 3),
        ("/vllm", "auto", ["query", "documents", "truncate_prompt_tokens", "model"], 2),
        ("/cohere/v2/rerank", "auto", ["query", "documents", "model"], 1),
    ],
)
def test_each_service_is_asked_by_its_own_schema(
    docs: Path, service: Service, path: str, api: str, fields: list[str], requests: int
) -> None:
    reranker = load_reranker(http_config(docs, service, base_url=f"{service.url}{path}", api=api))
    assert reranker
    scores = reranker.rerank("apple orchard harvest", TEXTS, 30.0)
    assert scores == [pytest.approx(1 / 3)] * 40 + [1.0, pytest.approx(2 / 3)]
    assert len(service.requests) == requests
    assert [*service.requests[-1].body] == fields
    assert {request.path for request in service.requests} == {path.removesuffix("/rerank") + "/rerank"}
    again = len(service.requests)
    assert reranker.rerank("apple orchard harvest", TEXTS[:5], 30.0) == scores[:5]
    assert len(service.requests) == again + 1


def test_one_refusal_does_not_change_the_format(docs: Path, service: Service) -> None:
    reranker = load_reranker(http_config(docs, service, base_url=f"{service.url}/jina/v1"))
    assert reranker
    for planned in ({"status": 400}, {"status": 422, "body": '{"error": "`texts` are bad today"}'}):
        service.planned.append(planned)
        with pytest.raises(RerankerError):
            reranker.rerank("x", ["a"], 30.0)
    assert reranker.rerank("a", ["a"], 30.0) == [1.0]
    assert "documents" in service.requests[-1].body


def test_the_makers_own_services_need_a_model_and_a_key_and_no_address(
    docs: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CO_API_KEY", "COHERE_API_KEY", "JINA_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for settings, message in (
        (
            {"api": "cohere", "base_url": "", "model": ""},
            r"rerank\.model is empty; name a model of the service 'cohere'",
        ),
        ({"api": "cohere", "base_url": ""}, "CO_API_KEY or COHERE_API_KEY"),
        ({"base_url": "https://api.jina.ai"}, "JINA_API_KEY"),
    ):
        reranker = load_reranker(http_config(docs, service, **settings))
        assert reranker
        with pytest.raises(RerankerError, match=message):
            reranker.load()
    monkeypatch.setenv("JINA_API_KEY", KEY)
    own = load_reranker(http_config(docs, service, base_url="https://api.jina.ai"))
    other = load_reranker(http_config(docs, service, api="jina"))
    assert isinstance(own, HttpReranker)
    assert isinstance(other, HttpReranker)
    assert own._url_and_key == ("https://api.jina.ai/v1/rerank", KEY)
    # Jina's key goes to no other address.
    assert other._url_and_key == (f"{service.url}/v1/rerank", "")


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
        ({"hang": True}, " 0.2 seconds"),
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


def test_a_silent_service_is_told_with_the_budget_and_not_with_what_was_left_of_it(
    docs: Path, service: Service
) -> None:
    reranker = load_reranker(http_config(docs, service))
    assert reranker
    service.planned.append({"hang": True})
    with pytest.raises(RerankerError, match=r"did not answer within 0\.2 seconds$"):
        reranker.score("apple", ["one", "two"], 0.2)


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
    """All of them alike, though only one of two requests has such scores."""

    def logits(answer: list[dict[str, float]]) -> list[dict[str, float]]:
        return [row | {"score": -3.0} for row in answer]

    service.planned.extend([{"change": lambda answer: answer}, {"change": logits}])
    reranker = load_reranker(http_config(docs, service, base_url=f"{service.url}/tei", api="tei"))
    assert reranker
    scores = reranker.rerank("apple", ["apple"] * 32 + ["plum"], 30.0)
    assert scores == [pytest.approx(0.731, abs=0.001)] * 32 + [pytest.approx(0.047, abs=0.001)]


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
    assert all(0 < score < 1 for score in again)
    reranker.close()


def test_the_order_of_logits_beyond_one_is_kept(docs: Path, cross_encoder: Path, tmp_path: Path) -> None:
    """A model as those of ms-marco are: its files say that nothing is done to its outputs, which are large."""
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(cross_encoder, tmp_path / "ms-marco")
    config = json.loads((folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.0.0"}
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    weights |= {
        "classifier.weight": weights["classifier.weight"] * 4,
        "classifier.bias": weights["classifier.bias"] + 6,
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    texts = [f"w{number}" for number in range(30)]
    plain, large = (load_reranker(cross_config(docs, model)) for model in (cross_encoder, folder))
    assert plain
    assert large
    expected, scores = plain.rerank("w1 w2", texts, 60), large.rerank("w1 w2", texts, 60)
    assert sorted(range(30), key=expected.__getitem__) == sorted(range(30), key=scores.__getitem__)
    assert len(set(scores)) > 25
    assert all(0 < score < 1 for score in scores)


def test_without_its_reranker_a_search_answers_and_says_what_to_do(docs: Path, write: Write, tmp_path: Path) -> None:
    write("a.md", "# Apple\n\napple")
    for model, note in (("", "rerank.model is empty"), (str(tmp_path / "none"), "not reranked: ")):
        answer = ask(cross_config(docs, model), Query("apple"))
        assert [hit.path for hit in answer.results] == ["a.md"]
        assert answer.note.startswith("not reranked: ")
        assert note in answer.note


def test_a_cross_encoder_that_is_missing_is_an_error_that_says_what_to_do(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for model, message in (("", r"rerank\.model"), (str(tmp_path / "empty"), "cannot be loaded")):
        reranker = load_reranker(cross_config(docs, model))
        assert reranker
        with pytest.raises(RerankerError, match=message):
            reranker.load()
