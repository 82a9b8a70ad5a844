"""Is a model that changed under its name noticed before its vectors are mixed with others? A real service, changed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from annai.answers import Query
from annai.config import Config, load_config, override
from annai.engine import Engine
from annai.errors import EmbedderError, EmbedderMismatch
from annai.models.probe import is_same_model, pack_probe
from annai.models.remote import Json
from annai.upkeep import maintenance
from tests import service as services
from tests.service import Service

CHANGED = "Another model answers as openai"


@pytest.fixture
def service(docs: Path) -> Iterator[Service]:
    for name in ("apple", "banana", "さくら"):
        (docs / f"{name}.md").write_text(f"# {name}\n\nAll about {name} and nothing else.\n", encoding="utf-8")
    with services.running() as service:
        yield service


@pytest.fixture
def config(docs: Path, service: Service) -> Config:
    given = {"provider": "openai", "base_url": f"{service.url}/v1", "model": "mine:latest"}
    return override(load_config(docs_dir=docs), "embedding", **given)


def another_model(answer: Json) -> Json:
    """The same name and dimension, other vectors."""
    return answer | {"data": [each | {"embedding": each["embedding"][::-1]} for each in answer["data"]]}


def another_dimension(answer: Json) -> Json:
    return answer | {"data": [each | {"embedding": each["embedding"] * 2} for each in answer["data"]]}


def first_vector(engine: Engine) -> list[float]:
    key = engine.store.sections("root", "apple.md")[0].key
    return [round(float(each), 2) for each in engine.store.vectors([key], engine.store.dimension("root"))[0]]


@pytest.mark.parametrize("change", [another_model, another_dimension])
def test_vectors_of_another_model_are_never_mixed_with_those_of_the_index(
    docs: Path, service: Service, config: Config, change: services.Answer
) -> None:
    with Engine(config) as engine:
        engine.import_collection()
        assert [hit.path for hit in engine.search(Query("banana", mode="vector", limit=1))] == ["banana.md"]
        before = first_vector(engine)
    service.change = change
    (docs / "cherry.md").write_text("# cherry\n\nAll about cherry.\n")
    with Engine(config) as engine:
        with pytest.raises(EmbedderMismatch, match=rf"{CHANGED}.*`annai import -c root -m replace`"):
            engine.import_collection()
        assert engine.store.document("root", "cherry.md") is None
    with Engine(config) as engine:
        # Without vectors, and that is said; the service got no request more for it.
        asked = len(service.requests)
        answer = engine.search("banana", refresh=False)
        assert [hit.path for hit in answer] == ["banana.md"]
        assert answer.note.startswith(f"searched without vectors, by words and the bundled model: {CHANGED}")
        assert len(service.requests) == asked + 1
        with pytest.raises(EmbedderError, match=CHANGED):
            engine.search("banana", refresh=False, mode="vector")
        engine.import_collection("root", "replace")
        assert engine.search("banana").note == ""
        assert [hit.path for hit in engine.search(Query("cherry", mode="vector", limit=1))] == ["cherry.md"]
        assert first_vector(engine) != before  # None came from the cache.
        assert maintenance.check(engine.store) == []


def test_a_first_import_that_failed_pins_no_model(service: Service, config: Config) -> None:
    service.planned.extend([{"status": 401}] * 10)
    with Engine(config) as engine:
        with pytest.raises(EmbedderError):
            engine.import_collection()
        assert [each.embedder for each in engine.store.collections()] == [""]
    with Engine(override(config, "embedding", provider="hashing", model="")) as engine:
        assert engine.import_collection().added == 3
        assert [hit.path for hit in engine.search("banana", limit=1)] == ["banana.md"]
        (collection,) = engine.store.collections()
        assert collection.embedder == engine.embedder.identity


def test_a_model_is_recognized_on_other_machines_and_in_other_precisions() -> None:
    random = np.random.default_rng(7)
    vector = random.normal(size=768).astype(np.float32)
    vector /= np.linalg.norm(vector)
    noise = random.normal(size=768).astype(np.float32) / 768**0.5
    kept = pack_probe(vector)
    assert is_same_model(kept, pack_probe(vector + 0.1 * noise))
    assert not is_same_model(kept, pack_probe(noise))
    assert not is_same_model(kept, pack_probe(vector[:512]))
