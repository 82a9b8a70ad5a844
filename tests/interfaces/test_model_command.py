"""Does `annai model` tell what is known of models, and how one does here?"""

import json
from pathlib import Path

import pytest

from tests import tiny
from tests.conftest import Annai

pytestmark = pytest.mark.xdist_group("onnx")


def test_the_list_tells_what_there_is_and_what_is_missing(annai: Annai) -> None:
    models = {each["name"]: each for each in json.loads(annai("model", "ls", "--format", "json").stdout)}
    assert models["static"]["installed"] == "yes"
    assert models["cl-nagoya/ruri-v3-30m"]["dimensions"] == "256"
    assert models["pfnet/plamo-embedding-1b"]["licence"] == "Apache-2.0"
    assert models["cl-nagoya/ruri-v3-30m"]["installed"] == "not fetched"
    assert models["gemini-embedding-001"]["installed"] == "no key: GEMINI_API_KEY"
    with_key = json.loads(annai("model", "ls", "--format", "json", environment={"GOOGLE_API_KEY": "k"}).stdout)
    assert next(each for each in with_key if each["name"] == "gemini-embedding-001")["installed"] == "yes"
    table = annai("model", "ls").stdout
    assert "BAAI/bge-m3" in table
    assert "100 languages" in table


def test_show_tells_how_to_choose_a_model(annai: Annai) -> None:
    text = annai("model", "show", "pfnet/plamo-embedding-1b").stdout
    assert 'model = "pfnet/plamo-embedding-1b"' in text
    assert "trust_remote_code = true" in text
    shown = json.loads(annai("model", "show", "ruri-v3-310m", "--format", "json").stdout)
    assert (shown["dimensions"], shown["query_prefix"]) == ("768", "検索クエリ: ")
    assert "hashing-1/256" in annai("model", "show").stdout


def test_a_test_tells_cosines_speed_and_memory(annai: Annai, tmp_path: Path) -> None:
    told = json.loads(annai("model", "test", "static", "--format", "json").stdout)
    assert told["cosine_english_pair"] > told["cosine_unrelated"]
    assert told["cosine_japanese_pair"] > told["cosine_unrelated"]
    assert told["texts_per_second"] > 0
    assert told["memory_bytes"] > 1_000_000
    folder = tiny.write_onnx(tmp_path / "tiny")
    text = annai("model", "test", str(folder)).stdout
    assert "onnx:tiny-" in text
    assert "texts per second" in text
    assert "hashing-1/256" in annai("model", "test").stdout


def test_a_name_that_nobody_knows_is_an_error_that_says_what_to_do(annai: Annai) -> None:
    assert "--provider" in annai("model", "test", "somebody/model", code=2).stderr
    done = annai(
        *("model", "test", "somebody/model", "--provider", "sentence-transformers"),
        code=2,
        environment={"HF_HUB_OFFLINE": "1"},
    )
    assert "'somebody/model' is not on this machine" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_show_tells_the_dimensions_of_a_copy_and_not_those_of_the_model_it_is_named_after(
    annai: Annai, tmp_path: Path
) -> None:
    onnx = tiny.write_onnx(tmp_path / "onnx" / "ruri-v3-310m")
    (onnx / "config.json").write_text('{"hidden_size": 16}')
    own = tiny.write_sentence_transformer(tmp_path / "own" / "ruri-v3-310m", width=32)
    projected = tiny.write_sentence_transformer(tmp_path / "projected" / "ruri-v3-310m", width=32)
    (projected / "2_Dense").mkdir()
    (projected / "2_Dense" / "config.json").write_text('{"in_features": 32, "out_features": 8}')
    for folder, provider, dimension in (
        (onnx, "onnx", 16),
        (own, "sentence-transformers", 32),
        (projected, "sentence-transformers", 8),
    ):
        shown = json.loads(annai("model", "show", str(folder), "--json").stdout)
        assert (shown["dimensions"], shown["provider"], shown["installed"]) == (dimension, provider, "yes")
        assert shown["query_prefix"] == "検索クエリ: "
