"""Does every embedder keep the contract? One suite for all of them, and what they share: windows, batches, cache."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.answers import Query, Where
from annai.config import Config, load_config, override
from annai.embedders.base import Embedder, Kind, Vectors, load_embedder
from annai.embedders.cache import VectorCache
from annai.engine import Engine
from annai.errors import ConfigError, EmbedderError
from annai.models.catalog import MODELS, RERANKERS
from annai.models.names import known_model, served_model
from annai.models.probe import PROBE_TEXT
from annai.models.unloading import LOW_MEMORY_IDLE_SECONDS, AutoUnloaded
from annai.models.vectors import configured_dimension, folder_name
from annai.settings import Embedding, Model, Pooling
from annai.testing.embedders import *  # noqa: F403 - the contract
from tests import service as services
from tests import tiny
from tests.conftest import trust

pytestmark = pytest.mark.xdist_group("onnx")

CONTRACT = ("static", "hashing", "use", "onnx", "onnx int8", "openai", "gemini")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {"onnx": tiny.write_onnx(root / "onnx"), "onnx int8": tiny.write_onnx(root / "int8", int8=True)}


@pytest.fixture(params=CONTRACT)
def embedder(
    request: pytest.FixtureRequest, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Embedder]:
    name: str = request.param
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    with services.running() as service:
        base = {"openai": f"{service.url}/v1", "gemini": service.url}.get(name, "")
        folder = str(folders.get(name, ""))
        dimensions = 128 if base else 0
        yield load_embedder(
            Embedding(provider=name.partition(" ")[0], model=folder, base_url=base, dimensions=dimensions, batch_size=4)
        )


# What all share


class Counting(Embedder):
    """Counts words, and takes eight at a time."""

    identity = "counting/4"
    max_text_length = 8
    max_batch_length = 24

    def __init__(self, batch_size: int = 5) -> None:
        super().__init__(batch_size)
        self.batches: list[list[str]] = []

    def length(self, text: str) -> int:
        return len(text.split())

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:  # noqa: ARG002 - queries are texts like others
        self.batches.append(list(texts))
        rows = np.zeros((len(texts), 4), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[len(text.split()) % 4] = 1
        return rows


@given(st.lists(st.lists(st.sampled_from(["a", "bb", "日本語", "\n"]), max_size=60).map(" ".join), max_size=12))
def test_windows_lose_no_word_and_batches_stay_in_bounds(texts: list[str]) -> None:
    embedder = Counting()
    rows = embedder.embed_documents(texts)
    assert rows.shape == (len(texts), 4)
    seen = [each for batch in embedder.batches for each in batch]
    embedded = sorted(word for text in seen for word in text.split() if word != ".")
    assert embedded == sorted(word for text in texts for word in text.split())
    for batch in embedder.batches:
        lengths = [embedder.length(each) for each in batch]
        assert max(lengths) <= 8
        assert len(batch) <= 5
        assert len(batch) == 1 or len(batch) * max(lengths) <= 24
    # Texts of similar length are in one batch, the longest first.
    assert seen == sorted(seen, key=lambda each: -embedder.length(each))


def test_windows_count_by_their_length() -> None:
    embedder = Counting()
    (row,) = embedder.embed_documents([" ".join("abcdefghijklmnopqrs")])
    sizes = [len(each.split()) for batch in embedder.batches for each in batch]
    assert len(set(sizes)) > 1
    expected = np.bincount([size % 4 for size in sizes], weights=sizes, minlength=4)
    assert row == pytest.approx(expected / np.linalg.norm(expected), abs=0.001)


def test_a_text_that_cannot_be_split_is_not_split_forever() -> None:
    class Endless(Counting):
        def length(self, text: str) -> int:
            return 100 * len(text)

    assert Endless().embed_documents(["ab"]).shape == (1, 4)


# The table of models


def test_a_known_model_is_named_with_all_that_its_vectors_depend_on() -> None:
    embedder = load_embedder(Embedding(provider="sentence-transformers", model="cl-nagoya/ruri-v3-30m"))
    assert embedder.identity == "sentence-transformers:cl-nagoya/ruri-v3-30m/256 [検索クエリ: |検索文書: ]"
    assert embedder.dimension == 256
    other = load_embedder(
        Embedding(provider="sentence-transformers", model="cl-nagoya/ruri-v3-30m", query_prefix="", document_prefix="")
    )
    assert other.identity == "sentence-transformers:cl-nagoya/ruri-v3-30m/256"


def test_vectors_are_truncated_only_if_the_model_allows_it() -> None:
    qwen = Embedding(provider="sentence-transformers", model="Qwen/Qwen3-Embedding-0.6B", dimensions=100)
    assert load_embedder(qwen).dimension == 100
    for model, dimensions in (
        ("intfloat/multilingual-e5-small", 100),
        ("google/embeddinggemma-300m", 300),
        ("Qwen/Qwen3-Embedding-0.6B", 31),
        ("Qwen/Qwen3-Embedding-0.6B", 1025),
    ):
        with pytest.raises(EmbedderError, match=r"embedding\.dimensions"):
            load_embedder(Embedding(provider="sentence-transformers", model=model, dimensions=dimensions))


def test_the_names_that_services_have_for_models_find_their_rows() -> None:
    for name, model in (
        ("embeddinggemma:300m-qat-q8_0", "google/embeddinggemma-300m"),
        ("text-embedding-embeddinggemma-300m-qat", "google/embeddinggemma-300m"),
        ("qwen3-embedding:4b-q8_0", "Qwen/Qwen3-Embedding-4B"),
        ("dengcao/Qwen3-Embedding-8B:Q4_K_M", "Qwen/Qwen3-Embedding-8B"),
        ("bge-m3:567m", "BAAI/bge-m3"),
        ("mxbai-embed-large:335m", "mixedbread-ai/mxbai-embed-large-v1"),
        ("nomic-embed-text:137m-v1.5-fp16", "nomic-ai/nomic-embed-text-v1.5"),
        ("snowflake-arctic-embed2:568m", "Snowflake/snowflake-arctic-embed-l-v2.0"),
        ("text-embedding-multilingual-e5-large-instruct", "intfloat/multilingual-e5-large-instruct"),
        ("ruri-v3-30m.Q8_0.gguf", "cl-nagoya/ruri-v3-30m"),
    ):
        found = served_model(name)
        assert found, name
        assert found.name == model
    open_size = served_model("qwen3-embedding")
    assert open_size
    assert (open_size.dimension, open_size.allows(32), open_size.allows(31)) == (0, True, False)
    for name in ("text-embedding-3-medium", "text-embedding-ada-002", "ruri-v3", "llama3"):
        assert served_model(name) is None
    # A hub has other models under these names.
    assert known_model("dengcao/bge-m3") is None


def test_every_row_says_where_it_was_found() -> None:
    assert all(model.source for model in MODELS)
    assert all(reranker.source for reranker in RERANKERS)


def test_every_known_model_has_an_embedder_that_is_made_without_loading_it() -> None:
    assert len({model.name for model in MODELS}) == len(MODELS) >= 11
    for model in MODELS:
        embedder = load_embedder(Embedding(provider=model.provider, model=model.name))
        assert embedder.dimension in (model.dimension, 768)
        assert known_model(model.name.split("/")[-1]) is model


def test_the_name_of_a_models_folder_depends_on_its_contents_and_not_on_its_path(tmp_path: Path) -> None:
    first = tiny.write_onnx(tmp_path / "a" / "model")
    second = tiny.write_onnx(tmp_path / "b" / "model")
    assert folder_name(first) == folder_name(second)
    with (second / "model.onnx").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")
    assert folder_name(first) != folder_name(second)


# ONNX


def test_onnx_pools_as_the_settings_say_and_ignores_padding(folders: dict[str, Path]) -> None:
    def embed(pooling: Pooling, texts: list[str]) -> Vectors:
        settings = Embedding(provider="onnx", model=str(folders["onnx"]), pooling=pooling)
        return load_embedder(settings).embed_documents(texts)

    texts = ["w1", "w2 w3 w4 w5"]
    ways: tuple[Pooling, ...] = ("mean", "cls", "last")
    for pooling in ways:
        assert embed(pooling, texts)[0] == pytest.approx(embed(pooling, texts[:1])[0], abs=1e-5)
    # This model encodes each token alone: every text begins and ends with the same vector.
    assert embed("cls", texts)[0] == pytest.approx(embed("cls", texts)[1], abs=1e-5)
    assert abs(float(embed("mean", texts)[0] @ embed("mean", texts)[1])) < 0.99


def test_an_int8_model_is_close_to_the_model_it_was_made_from(folders: dict[str, Path]) -> None:
    texts = ["w1 w2 w3", "w10 w20"]
    full, small = (
        load_embedder(Embedding(provider="onnx", model=str(folders[name]))).embed_documents(texts)
        for name in ("onnx", "onnx int8")
    )
    assert (full * small).sum(axis=1) == pytest.approx(1, abs=0.02)


def test_a_folder_without_a_model_is_an_error_that_says_what_it_needs(tmp_path: Path) -> None:
    for model in ("", str(tmp_path)):
        with pytest.raises(EmbedderError, match=r"model\.onnx and tokenizer\.json"):
            load_embedder(Embedding(provider="onnx", model=model)).embed_query("x")
    tiny.write_tokenizer(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(EmbedderError, match="cannot be loaded"):
        load_embedder(Embedding(provider="onnx", model=str(tmp_path))).embed_query("x")


def test_onnx_says_which_extra_and_which_device_is_missing(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EmbedderError, match="mps"):
        load_embedder(Embedding(provider="onnx", model=str(folders["onnx"]), device="mps")).embed_query("x")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbedderError, match=r"pip install .*\[onnx\]"):
        load_embedder(Embedding(provider="onnx", model=str(folders["onnx"]))).embed_query("x")


# Unloading


class Loads:
    """Loads something, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> object:
        self.count += 1
        return object()


def test_a_model_is_loaded_on_first_use_and_unloaded_when_idle() -> None:
    load = Loads()
    unloaded: list[str] = []
    model = AutoUnloaded(
        load, Model(auto_unload_minutes=10), on_unload=lambda: unloaded.append(""), memory_share=lambda: 0.1
    )
    assert load.count == 0
    for _ in range(2):
        with model.use():
            pass
    assert load.count == 1
    now = time.monotonic()
    model.unload_if_idle(now + 9 * 60)
    assert model.is_loaded
    model.unload_if_idle(now + 11 * 60)
    assert not model.is_loaded
    assert len(unloaded) == 1
    with model.use():
        assert load.count == 2


def test_a_model_is_unloaded_soon_when_memory_is_low_but_never_while_it_is_used() -> None:
    model = AutoUnloaded(Loads(), Model(memory_threshold=0.8), memory_share=lambda: 0.81)
    with model.use():
        model.unload_if_idle(time.monotonic() + 3600)
        assert model.is_loaded
    model.unload_if_idle(time.monotonic())
    assert model.is_loaded
    model.unload_if_idle(time.monotonic() + LOW_MEMORY_IDLE_SECONDS)
    assert not model.is_loaded


def test_an_idle_model_is_unloaded_by_its_thread() -> None:
    unloaded = threading.Event()
    model = AutoUnloaded(Loads(), Model(auto_unload_minutes=0.0005), on_unload=unloaded.set, memory_share=lambda: 0.1)
    with model.use():
        pass
    assert unloaded.wait(60)
    assert not model.is_loaded


def test_zero_minutes_keep_a_model_forever() -> None:
    model = AutoUnloaded(Loads(), Model(auto_unload_minutes=0), memory_share=lambda: 0.1)
    with model.use():
        pass
    model.unload_if_idle(time.monotonic() + 1e9)
    assert model.is_loaded
    model.unload()


# The cache


def cached(file: Path, max_bytes: int = 10_000_000) -> Counting:
    embedder = Counting()
    embedder.cache = VectorCache(file, max_bytes)
    return embedder


def test_a_text_is_embedded_once_for_each_model(tmp_path: Path) -> None:
    first = cached(tmp_path / "cache.sqlite")
    rows = first.embed_documents(["a", "b c", "a"])
    assert sorted(chain(*first.batches)) == ["a", "b c"]
    first.close()
    second = cached(tmp_path / "cache.sqlite")
    assert second.embed_documents(["b c", "a"]) == pytest.approx(rows[[1, 0]])
    assert second.batches == []
    assert second.dimension == 4
    second.identity = "other/4"
    second.embed_documents(["a"])
    assert second.batches == [["a"]]


def test_the_cache_stays_within_its_size_and_keeps_what_was_used_last(tmp_path: Path) -> None:
    file = tmp_path / "cache.sqlite"
    embedder = cached(file, max_bytes=60_000)
    embedder.embed_documents(["often"])
    for number in range(60):
        embedder.embed_documents(["often", *(f"text {number} {each}" for each in range(20))])
    embedder.close()
    connection = apsw.Connection(str(file))
    assert 100 < connection.execute("SELECT count(*) FROM vectors").get < 1200
    connection.close()
    again = cached(file)
    again.embed_documents(["often", "text 59 3", "text 0 3"])
    assert [*chain(*again.batches)] == ["text 0 3"]


@pytest.mark.parametrize("damage", [b"not a database at all, but long enough to be one" * 30, b""])
def test_a_damaged_cache_is_made_again(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "cache.sqlite"
    file.write_bytes(damage)
    embedder = cached(file)
    embedder.embed_documents(["a"])
    embedder.embed_documents(["a"])
    assert embedder.batches == [["a"]]


def test_a_vector_that_was_damaged_is_embedded_again(tmp_path: Path) -> None:
    file = tmp_path / "cache.sqlite"
    embedder = cached(file)
    rows = embedder.embed_documents(["a", "b"])
    embedder.close()
    connection = apsw.Connection(str(file))
    first = "WHERE key = (SELECT min(key) FROM vectors)"
    connection.execute(f"UPDATE vectors SET vector = CAST(x'01' || substr(vector, 2) AS BLOB) {first}")  # noqa: S608 - it is ours
    connection.close()
    again = cached(file)
    assert again.embed_documents(["a", "b"]) == pytest.approx(rows)
    assert len([*chain(*again.batches)]) == 1


def test_without_a_usable_cache_texts_are_embedded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    embedder = cached(tmp_path / "file" / "cache.sqlite")
    assert embedder.embed_documents(["a"]).shape == (1, 4)
    assert "is not used" in caplog.text


def test_another_model_under_the_same_name_is_noticed(tmp_path: Path) -> None:
    cached(tmp_path / "cache.sqlite").embed_documents(["a"])

    class Wider(Counting):
        def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:
            return np.hstack([super().embed_batch(texts, kind)] * 2)

    embedder = Wider()
    embedder.cache = VectorCache(tmp_path / "cache.sqlite", 1_000_000)
    assert embedder.embed_documents(["a", "b"]).shape == (2, 8)


def service_config(docs: Path, service: services.Service, **settings: object) -> Config:
    given = {"provider": "openai", "base_url": f"{service.url}/v1", "dimensions": 64} | settings
    return override(load_config(docs_dir=docs), "embedding", **given)


Write = Callable[[str, str], Path]


def test_moved_files_and_rebuilds_cost_no_requests(docs: Path, write: Write) -> None:
    write("a.md", "# Apple\n\nan apple a day")
    write("b.md", "# Banana\n\nyellow and long")
    with services.running() as service:
        config = service_config(docs, service)
        with Engine(config) as engine:
            engine.refresh()
        before = len(service.texts())
        (docs / "folder").mkdir()
        (docs / "a.md").rename(docs / "folder" / "moved.md")
        with Engine(config) as engine:
            engine.refresh()
            engine.import_collection("root", "replace")
            assert {*service.texts()[before:]} == {PROBE_TEXT}
            assert engine.search(Query("apple", mode="vector")).results[0].path == "folder/moved.md"
        with Engine(override(config, "embedding", cache_mb=0)) as engine:
            engine.import_collection("root", "replace")
        assert any("apple a day" in text for text in service.texts()[before:])


def test_a_models_name_is_enough_to_choose_it(folders: dict[str, Path]) -> None:
    for model, provider in (
        ("cl-nagoya/ruri-v3-30m", "sentence-transformers"),
        ("text-embedding-3-small", "openai"),
        (str(folders["onnx"]), "onnx"),
    ):
        assert load_embedder(Embedding(model=model)).identity.startswith(f"{provider}:")
    with pytest.raises(EmbedderError, match=r"not a known model; set embedding\.provider too"):
        load_embedder(Embedding(model="nobody/nothing"))


# Several models in one project


def test_collections_with_models_of_their_own_are_searched_together(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for fruit in ("apple", "banana", "cherry"):
            (tmp_path / name / f"{fruit}.md").write_text(f"# {fruit.title()} {name}\n\nall about the {fruit}")
    with services.running() as service:
        (tmp_path / "annai.toml").write_text(
            '[embedding]\nprovider = "hashing"\n'
            '[collections.two.embedding]\nprovider = "openai"\n'
            f'base_url = "{service.url}/v1"\ndimensions = 64\n'
        )
        trust(tmp_path)
        with Engine(load_config(docs_dir=tmp_path)) as engine:
            for name in ("one", "two"):
                engine.add_collection(name, tmp_path / name, name)
            engine.refresh()
            known = {each.name: each.embedder for each in engine.list_collections()}
            assert known["one"].startswith("hashing")
            assert known["two"] == "openai:text-embedding-3-small/64"
            service.requests.clear()
            answer = engine.search(Query("apple", limit=4))
            assert {hit.path for hit in answer.results[:2]} == {"apple.md"}
            assert {hit.collection for hit in answer.results[:2]} == {"one", "two"}
            assert [hit.score for hit in answer.results] == sorted((h.score for h in answer.results), reverse=True)
            assert service.texts() == ["apple"]
            by_path = engine.search(Query("apple", limit=4, sort="path")).results
            assert [(hit.collection, hit.path) for hit in by_path] == sorted(
                (hit.collection, hit.path) for hit in by_path
            )
            assert len(engine.search(Query("apple", limit=1)).results) == 1
            service.requests.clear()
            engine.search(Query("apple", mode="keyword"))
            engine.search(Query("apple", where=Where(collections=("one",))))
            assert service.requests == []
            engine.import_collection("two", "replace")
            assert engine.search(Query("apple", where=Where(collections=("two",)))).results[0].path == "apple.md"


def test_another_embedder_is_told_with_the_answer_and_replace_makes_its_vectors(docs: Path, write: Write) -> None:
    write("a.md", "# Apple\n\nan apple a day")
    with services.running() as service:
        with Engine(service_config(docs, service)) as engine:
            engine.refresh()
        for change in ({"dimensions": 32}, {"model": "another"}, {"document_prefix": "passage: "}):
            with Engine(service_config(docs, service, **change)) as engine:
                answer = engine.search(Query("apple"))
                assert [hit.path for hit in answer] == ["a.md"]
                assert "annai import -c root -m replace" in answer.note
        with Engine(service_config(docs, service, dimensions=32)) as engine:
            engine.import_collection("root", "replace")
            assert engine.search(Query("apple", mode="vector")).results


@pytest.mark.parametrize(
    "text", ["[collections]\nname = 1", "[collections.name]\nsource = 1", '[collections.name.embedding]\nmodle = "x"']
)
def test_a_wrong_section_of_a_collection_is_an_error(docs: Path, text: str) -> None:
    (docs / "annai.toml").write_text(text)
    with pytest.raises(ConfigError, match="collections"):
        load_config(docs_dir=docs)


def test_a_models_folder_is_found_beside_the_settings(docs: Path) -> None:
    (docs / "models" / "mine").mkdir(parents=True)
    (docs / "annai.toml").write_text('[embedding]\nprovider = "onnx"\nmodel = "models/mine"\n')
    trust(docs)
    assert load_config(docs_dir=docs).embedding.model == str(docs.resolve() / "models" / "mine")


@pytest.mark.parametrize("model", ["cl-nagoya/ruri-v3-310m", "ruri-v3-310m", "/models/ruri-v3-310m", "BAAI/bge-m3"])
def test_vectors_are_cut_only_where_the_models_card_says_so(model: str) -> None:
    with pytest.raises(EmbedderError, match=r"embedding.dimensions is 256; .*Qwen3-Embedding-0.6B, .*embeddinggemma"):
        configured_dimension(Embedding(model=model, dimensions=256), known_model(model))
    assert configured_dimension(Embedding(model="text-embedding-3-small", dimensions=256), None) == 256
