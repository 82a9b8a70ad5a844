"""Do embedders that are services keep the contract, whatever the network does? With a service on this machine."""

import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google import genai
from google.genai import types

from annai.answers import Query
from annai.config import load_config
from annai.embedders.base import Embedder, load_embedder
from annai.embedders.service import BYTES_PER_TOKEN
from annai.engine import Engine
from annai.errors import ConfigError, EmbedderError
from annai.indexing import indexer
from annai.models import remote
from annai.models.remote import Json
from annai.settings import Embedding, Retry
from annai.types import ImportMode
from tests import service as services
from tests.conftest import Annai, state_of, trust
from tests.service import Service

KEY = "sk-very-secret-0123456789"
QUICK = Retry(base_delay=0.0)
PROVIDERS = ("openai", "gemini")
QWEN = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

Make = Callable[..., Embedder]
Setting = Any
"""The value of a key of [embedding]."""


@pytest.fixture
def service() -> Iterator[Service]:
    with services.running() as running:
        yield running


@pytest.fixture
def make(service: Service, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes an embedder of the service; the key is in the variable A_KEY."""
    monkeypatch.setenv("A_KEY", KEY)

    def make(provider: str, retry: Retry = QUICK, **settings: Setting) -> Embedder:
        base = service.url + ("/v1" if provider == "openai" else "")
        given: dict[str, Setting] = {"base_url": base, "api_key_env": "A_KEY", "dimensions": 128} | settings
        return load_embedder(Embedding(provider=provider, **given), retry=retry)

    return make


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts; nothing really waits."""
    waited: list[float] = []
    monkeypatch.setattr(remote, "sleep", waited.append)
    return waited


@pytest.mark.parametrize("provider", PROVIDERS)
def test_vectors_come_in_the_order_of_their_texts(make: Make, provider: str) -> None:
    embedder = make(provider, batch_size=3)
    texts = [f"text number{number} about item{number}" for number in range(10)]
    rows = embedder.embed_documents(texts)
    assert rows.shape == (10, 128)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=0.001)
    for text, row in zip(texts, rows, strict=True):
        assert embedder.embed_documents([text])[0] == pytest.approx(row, abs=1e-5)
        assert int((rows @ embedder.embed_query(text)).argmax()) == texts.index(text)


def test_a_request_to_openai_is_as_its_reference_says(make: Make, service: Service) -> None:
    make("openai", model="text-embedding-3-small", query_prefix="Q: ").embed_query("hello")
    (request,) = service.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["Q: hello"],
        "encoding_format": "float",
        "dimensions": 128,
    }


def test_gemini_gets_the_task_type_of_texts(make: Make, service: Service) -> None:
    embedder = make("gemini", dimensions=0)
    embedder.embed_query("hello")
    embedder.embed_documents(["world"])
    query, document = service.requests
    assert query.path.endswith("/models/gemini-embedding-001:batchEmbedContents")
    assert query.headers["x-goog-api-key"] == KEY
    (sent,) = query.body["requests"]
    assert (sent["taskType"], sent["outputDimensionality"]) == ("RETRIEVAL_QUERY", 768)
    assert document.body["requests"][0]["taskType"] == "RETRIEVAL_DOCUMENT"
    assert embedder.dimension == 768
    assert "RETRIEVAL_DOCUMENT" in embedder.identity


@pytest.mark.parametrize("base", ["", "/proxy/of/mine/"])
@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2", "models/gemini-embedding-001"])
def test_gemini_is_asked_as_googles_own_library_asks_it(make: Make, service: Service, model: str, base: str) -> None:
    embedder = make("gemini", model=model, base_url=service.url + base)
    embedder.embed_documents(["hello", "環境構築 & “quotes”"])
    options = types.HttpOptions(base_url=service.url + base)
    task_type = None if model.endswith("2") else "RETRIEVAL_DOCUMENT"
    with genai.Client(api_key=KEY, vertexai=False, http_options=options) as client:
        client.models.embed_content(
            model=model,
            contents=[types.Content(parts=[types.Part(text=text)]) for text in service.texts()],
            config=types.EmbedContentConfig(task_type=task_type, output_dimensionality=128),
        )
    own, yardstick = service.requests
    assert (own.path, own.body) == (yardstick.path, yardstick.body)
    assert own.headers["x-goog-api-key"] == yardstick.headers["x-goog-api-key"] == KEY
    assert own.headers["content-type"] == yardstick.headers["content-type"]
    assert "authorization" not in own.headers


def test_gemini_2_is_told_by_prefixes_what_texts_are_for(make: Make, service: Service) -> None:
    embedder = make("gemini", model="gemini-embedding-2")
    embedder.embed_query("hello")
    embedder.embed_documents(["world"])
    assert service.texts() == ["task: search result | query: hello", "title: none | text: world"]
    assert all("taskType" not in each for request in service.requests for each in request.body["requests"])
    assert "RETRIEVAL" not in embedder.identity
    with pytest.raises(EmbedderError, match="vectors of 128 to 3072 numbers"):
        make("gemini", dimensions=64)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("nomic-embed-text", ["search_query: a", "search_document: b"]),
        ("text-embedding-nomic-embed-text-v1.5@q4_k_m", ["search_query: a", "search_document: b"]),
        ("embeddinggemma:latest", ["task: search result | query: a", "title: none | text: b"]),
        ("hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0", [f"{QWEN}a", "b"]),
        ("qwen3-embedding:0.6b", [f"{QWEN}a", "b"]),
        ("bge-m3:latest", ["a", "b"]),
        ("plamo-embedding-1b", ["次の文章に対して、関連する文章を検索してください: a", "b"]),
    ],
)
def test_a_service_gets_the_prefixes_of_the_model_that_its_name_means(
    make: Make, service: Service, name: str, sent: list[str]
) -> None:
    # The service has no such model; what counts is what it is sent.
    embedder = make("openai", model=name, dimensions=0)
    embedder.dimension = 0
    embedder.embed_query("a")
    embedder.embed_documents(["b"])
    assert service.texts() == sent


def test_gemini_is_sent_at_most_a_hundred_texts_filled_across_files(
    docs: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    for number in range(120):
        (docs / f"{number}.md").write_text(f"# Page {number}\n\ntext number{number}")
    (docs / "annai.toml").write_text(f'[embedding]\nprovider = "gemini"\nbase_url = "{service.url}"\n')
    trust(docs)
    with Engine(load_config(docs_dir=docs)) as engine:
        engine.refresh()
        sizes = sorted(len(each.body["requests"]) for each in service.requests)
        assert sizes == [1, 20, 100]  # The first asks which model it is.
        assert engine.search(Query("number7", mode="vector")).results[0].path == "7.md"


@pytest.mark.parametrize("cache_mb", [500, 0])
@pytest.mark.parametrize("mode", ["update", "replace"])
def test_an_import_sends_full_requests_whatever_the_files_hold(
    docs: Path, service: Service, monkeypatch: pytest.MonkeyPatch, mode: ImportMode, cache_mb: int
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    # Claimed from the queue in three parts, and written in batches whose passages are no multiple of a request's.
    monkeypatch.setattr(indexer, "CLAIM_SECONDS", 0.0)
    for number in range(300):
        parts = "".join(f"## Part {part}\n\nfruit{number} number{part}\n\n" for part in range(1 + number * 7 % 13))
        (docs / f"{number}.md").write_text(f"# Page {number}\n\n{parts}")
    (docs / "annai.toml").write_text(
        f'[embedding]\nprovider = "gemini"\nbase_url = "{service.url}"\ncache_mb = {cache_mb}\n'
    )
    trust(docs)
    with Engine(load_config(docs_dir=docs)) as engine:
        summary = engine.import_collection(mode=mode)
        assert (summary.added, summary.failed, summary.passages) == (300, 0, len(service.texts()) - 1)
        assert len(service.requests) == -(-summary.passages // 100) + 1  # The first asks which model it is.
        assert len({*service.texts()}) == len(service.texts())
        assert engine.store.requests.counts().keys() <= {"completed"}
        for number in (0, 99, 127, 128, 299):
            assert engine.search(Query(f"fruit{number}", mode="vector")).results[0].path == f"{number}.md"


def test_a_file_that_waits_for_a_full_request_is_indexed_though_nothing_follows(
    docs: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Never is there enough for a request, and each claim ends where more is due.
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setattr(indexer, "CLAIM_SECONDS", 0.0)
    monkeypatch.setattr(indexer, "CLAIM_FILES", 3)
    for number in range(9):
        (docs / f"{number}.md").write_text(f"# Page {number}\n\ntext number{number}")
    (docs / "annai.toml").write_text(f'[embedding]\nprovider = "gemini"\nbase_url = "{service.url}"\n')
    trust(docs)
    with Engine(load_config(docs_dir=docs)) as engine:
        assert engine.import_collection().added == 9
        assert len({*service.texts()}) == len(service.texts()) == 10


def test_requests_run_in_parallel_up_to_the_limit(make: Make, service: Service) -> None:
    service.gate = threading.Barrier(3)
    make("openai", parallel_requests=3, batch_size=1).embed_documents([f"text {number}" for number in range(6)])
    assert service.max_active == 3


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_retry_waits_as_long_as_a_busy_service_asks(
    make: Make, service: Service, waits: list[float], provider: str
) -> None:
    service.planned.extend([{"status": 429, "headers": {"Retry-After": "7"}}, {"status": 429}])
    make(provider, retry=Retry()).embed_documents(["hello"])
    assert waits == [7.0, 2.0 * remote.BUSY_FACTOR]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_failed_request_is_retried_after_one_two_and_four_seconds(
    make: Make, service: Service, waits: list[float], provider: str
) -> None:
    service.planned.extend([{"status": 500}] * 3)
    make(provider, retry=Retry()).embed_documents(["hello"])
    assert waits == [1.0, 2.0, 4.0]
    service.planned.extend([{"status": 500}] * 4)
    with pytest.raises(EmbedderError, match="500"):
        make(provider, retry=Retry()).embed_documents(["hello"])
    assert len(service.requests) == 8


def test_retry_after_may_be_a_date() -> None:
    assert (remote.status_error(429, "Wed, 21 Oct 2015 07:28:00 GMT", "busy").retry_after or 0) < 0
    assert remote.status_error(429, "soon", "busy").retry_after is None
    assert remote.status_error(404, "5", "no").retry_after is None


def test_a_query_does_not_wait_for_minutes(make: Make, service: Service, waits: list[float]) -> None:
    service.planned.append({"status": 429, "headers": {"Retry-After": "60"}})
    with pytest.raises(EmbedderError, match="429"):
        make("openai", retry=Retry()).embed_query("hello")
    assert waits == []


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_an_error_that_a_retry_cannot_help_is_not_retried(
    make: Make, service: Service, provider: str, status: int
) -> None:
    service.planned.append({"status": status})
    with pytest.raises(EmbedderError, match=f"{status}.*as planned"):
        make(provider).embed_query("hello")
    assert len(service.requests) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_silent_service_times_out(make: Make, service: Service, provider: str) -> None:
    service.planned.append({"hang": True})
    with pytest.raises(EmbedderError, match=r"did not answer|cannot be reached"):
        make(provider, retry=Retry(max_retries=0), timeout_seconds=0.3).embed_query("hello")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_unreachable_service_is_an_error_that_says_so(make: Make, provider: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EmbedderError, match="cannot be reached"):
        make(provider, base_url=f"http://127.0.0.1:{port}").embed_query("hello")


def _drop(answer: Json) -> Json:
    return {name: value[:-1] if isinstance(value, list) else value for name, value in answer.items()}


def _shorten(answer: Json) -> Json:
    rows = answer.get("data") or answer["embeddings"]
    for row in rows:
        name = "embedding" if "embedding" in row else "values"
        row[name] = row[name][:-1]
    return answer


def _shorten_one(answer: Json) -> Json:
    rows = answer.get("data") or answer["embeddings"]
    return _shorten({"data": rows[:1]}) and answer


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("planned", "message"),
    [
        ({"change": _drop}, "1 vectors for 2 texts"),
        ({"change": _shorten}, r"\(2, 127\)"),
        ({"change": _shorten_one}, "different lengths"),
        ({"cut": 20}, "incomplete or invalid answer"),
        ({"body": "<html>hello</html>"}, "incomplete or invalid answer"),
        ({"body": '{"unknown": 1}'}, "no vectors|0 vectors"),
    ],
    ids=["fewer", "shorter", "one shorter", "half", "html", "other"],
)
def test_a_wrong_answer_is_an_error_and_never_a_vector(
    make: Make, service: Service, provider: str, planned: dict[str, Any], message: str
) -> None:
    service.planned.extend([planned] * 2)
    with pytest.raises(EmbedderError, match=message):
        make(provider, retry=Retry(max_retries=1, base_delay=0.0)).embed_documents(["one", "two"])


def test_an_incomplete_answer_is_retried(make: Make, service: Service) -> None:
    service.planned.append({"cut": 20})
    assert make("openai").embed_documents(["one"]).shape == (1, 128)
    assert len(service.requests) == 2


def test_a_redirect_does_not_send_the_key_to_another_address(make: Make, service: Service) -> None:
    with services.running() as other:
        service.planned.append({"status": 302, "headers": {"Location": f"{other.url}/v1/embeddings"}})
        with pytest.raises(EmbedderError, match="302"):
            make("openai").embed_query("hello")
        assert other.requests == []


def test_all_of_a_long_text_is_sent_in_windows(make: Make, service: Service) -> None:
    text = " ".join(f"word{number}" for number in range(2_000))
    embedder = make("openai", max_tokens=512)
    (row,) = embedder.embed_documents([text])
    assert np.linalg.norm(row) == pytest.approx(1)
    sent = service.texts()
    assert sorted(" ".join(sent).split()) == sorted(text.split())
    assert max(len(each.encode()) for each in sent) <= 512 * BYTES_PER_TOKEN
    expected = sum(np.array(services.vectors([each], 128)[0]) * embedder.length(each) for each in sent)
    assert row == pytest.approx(expected / np.linalg.norm(expected), abs=0.001)


def test_blank_texts_are_not_sent(make: Make, service: Service) -> None:
    rows = make("openai").embed_documents(["", " \n", "hello"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([0, 0, 1])
    assert service.texts() == ["hello"]


def test_the_dimension_of_an_unknown_model_comes_from_its_first_vector(make: Make, service: Service) -> None:
    embedder = make("openai", model="somebody/model", dimensions=0)
    assert embedder.dimension == 0
    assert embedder.embed_query("hello").shape == (32,)
    assert embedder.dimension == 32
    service.planned.append({"change": _shorten})
    with pytest.raises(EmbedderError, match=r"\(1, 31\)"):
        embedder.embed_query("hello")


# Keys


@pytest.mark.parametrize(
    ("provider", "variables"), [("openai", ["OPENAI_API_KEY"]), ("gemini", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])]
)
def test_a_missing_key_is_one_sentence_that_names_its_variable(
    provider: str, variables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(EmbedderError, match=variables[0]):
        load_embedder(Embedding(provider=provider)).embed_query("hello")


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_gemini_takes_the_key_from_either_variable(
    service: Service, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, KEY)
    load_embedder(Embedding(provider="gemini", base_url=service.url)).embed_query("hello")
    assert service.requests[0].headers["x-goog-api-key"] == KEY


def test_openais_key_is_not_sent_to_others(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    load_embedder(Embedding(provider="openai", base_url=service.url, dimensions=8)).embed_query("hello")
    assert "authorization" not in service.requests[0].headers


def test_a_key_instead_of_a_variables_name_is_not_repeated(service: Service) -> None:
    settings = Embedding(provider="openai", base_url=service.url, api_key_env=KEY)
    with pytest.raises(ConfigError, match="name of an environment variable") as raised:
        load_embedder(settings).embed_query("hello")
    assert KEY not in str(raised.value)


def test_an_address_with_a_password_is_refused_without_repeating_it() -> None:
    settings = Embedding(provider="openai", base_url=f"http://user:{KEY}@localhost/v1")
    with pytest.raises(EmbedderError, match="base_url") as raised:
        load_embedder(settings).embed_query("hello")
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_service_that_repeats_the_key_does_not_make_us_repeat_it(
    make: Make, service: Service, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.planned.append({"status": 401, "body": f'{{"error": {{"message": "Incorrect key: {KEY}", "code": 401}}}}'})
    with pytest.raises(EmbedderError, match="Incorrect key") as raised:
        make(provider).embed_query("hello")
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is None
    assert KEY not in caplog.text


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_key_is_in_no_output_and_in_no_file(docs: Path, service: Service, provider: str) -> None:
    base = service.url + ("/v1" if provider == "openai" else "")
    (docs / "annai.toml").write_text(
        f'[embedding]\nprovider = "{provider}"\nbase_url = "{base}"\napi_key_env = "A_KEY"\ndimensions = 128\n'
    )
    trust(docs)
    (docs / "a.md").write_text("# A\n\napple")
    annai = Annai(docs)
    outputs = []
    for command, code in (
        (["import", "--verbose"], 0),
        (["search", "apple", "--verbose", "--explain"], 0),
        (["status", "--verbose"], 0),
        (["model", "show", "--verbose"], 0),
        (["import", "-m", "replace", "--verbose"], 0),
    ):
        done = annai(*command, code=code, environment={"A_KEY": KEY})
        outputs += [done.stdout, done.stderr]
    service.planned.append({"status": 401, "body": f'{{"error": {{"message": "bad key {KEY}", "code": 401}}}}'})
    done = annai("search", "pear", "--verbose", code=1, environment={"A_KEY": KEY})
    assert "answered 401" in done.stderr
    outputs += [done.stdout, done.stderr]
    assert any(KEY in each.headers.values() or f"Bearer {KEY}" in each.headers.values() for each in service.requests)
    assert re.search(rf"\[TIMER\] request: [\d.]+ms \(texts=1, {re.escape(base)}/", "".join(outputs))
    assert KEY not in "".join(outputs)
    for file in state_of(docs).rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes(), file
