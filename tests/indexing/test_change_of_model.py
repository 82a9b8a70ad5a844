"""Do searches go on while another model makes a collection's vectors? Never with vectors of two, and never anew."""

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from annai.answers import Answer, Query
from annai.config import Config, load_config, override
from annai.embedders.base import Embedder
from annai.engine import Engine
from annai.engine.models import MODELS_NAME
from annai.errors import EmbedderError, EmbedderMismatch
from annai.interfaces.cli import run
from annai.models.remote import Json
from annai.project import Done
from annai.settings import Embedding
from annai.stores.base import STAGING_SUFFIX
from annai.upkeep import maintenance
from annai.upkeep.worker import Worker
from tests import service as services
from tests.conftest import state_of, trust
from tests.engines import DURABLE, config_for, postgres_folder, postgres_url
from tests.loopback import DEADLINE, eventually
from tests.service import Service

__all__ = ["postgres_folder", "postgres_url"]

Write = Callable[[str, str], Path]

FILES, BATCH = 80, 32
"""More than are embedded in two batches."""

MEANING = Query("banana file7", mode="vector", limit=5)


def like_another(answer: Json) -> Json:
    """The service has two models of one dimension."""
    if answer["model"] == "one":
        return answer
    rows = [[value * number for number, value in enumerate(each["embedding"])][::-1] for each in answer["data"]]
    return answer | {"data": [each | {"embedding": row} for each, row in zip(answer["data"], rows, strict=True)]}


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annai.indexing.pipeline.BATCH_PASSAGES", BATCH)


@pytest.fixture
def service(docs: Path) -> Iterator[Service]:
    for number in range(FILES):
        word = ("apple", "banana", "cherry")[number % 3]
        (docs / f"{number:03}.md").write_text(f"# file{number}\n\nAll about {word} and nothing else.\n")
    with services.running() as service:
        service.change = like_another
        yield service


def with_model(config: Config, service: Service, model: str) -> Config:
    """The settings with a model of the service, whose vectors nothing caches."""
    url = f"{service.url}/v1"
    given = {"base_url": url, "model": model, "dimensions": 32, "batch_size": 8, "cache_mb": 0}
    return override(config, "embedding", provider="openai", **given)


@pytest.fixture
def one(docs: Path, service: Service) -> Config:
    return with_model(load_config(docs_dir=docs), service, "one")


@pytest.fixture
def other(docs: Path, service: Service) -> Config:
    return with_model(load_config(docs_dir=docs), service, "other")


def ranking(answer: Answer) -> list[tuple[str, float]]:
    return [(hit.path, round(hit.reasons.similarity, 2)) for hit in answer]


def staged(engine: Engine) -> int:
    return engine.store.statistics("root" + STAGING_SUFFIX).documents


def passages(service: Service) -> list[str]:
    """What was embedded, without questions and probes."""
    return [text for text in service.texts() if "All about" in text]


class Interrupted(Exception):
    """Ctrl-C, in the middle."""


def interrupt_at(files: int) -> Callable[[Done], None]:
    def progress(done: Done) -> None:
        if done.files >= files:
            raise Interrupted

    return progress


@pytest.mark.parametrize("name", DURABLE)
def test_searches_use_the_former_model_until_the_new_vectors_are_swapped_in(
    name: str, docs: Path, service: Service, request: pytest.FixtureRequest
) -> None:
    config = dataclasses.replace(config_for(name, docs, request), state_folder=docs.parent / "state")
    quick = override(config, "embedding", provider="hashing")
    with Engine(quick) as engine:
        engine.import_collection()
        before = ranking(engine.search(MEANING))
    for asked in (with_model(config, service, "one"), with_model(config, service, "other"), quick):
        with Engine(asked) as engine:
            during: list[list[tuple[str, float]]] = []

            def look(done: Done, engine: Engine = engine, during: list[list[tuple[str, float]]] = during) -> None:
                if done.files % 20 == 1:
                    during.append(ranking(engine.search(MEANING, refresh=False)))

            answer = engine.search("banana file7")
            assert answer.results[0].path == "007.md"
            assert "`annai import -c root -m replace` makes new ones" in answer.note
            engine.import_collection("root", "replace", progress=look)
            assert during
            assert all(each == before for each in during)
            after = ranking(engine.search(MEANING))
            assert after != before
            assert engine.search(MEANING).note == ""
            assert engine.store.collections()[0].embedder == engine.embedder.identity
            assert not staged(engine)
            assert maintenance.check(engine.store) == []
            before = after


def test_what_an_interrupted_change_has_embedded_is_not_embedded_again(
    one: Config, other: Config, service: Service
) -> None:
    with Engine(one) as engine:
        engine.import_collection()
    service.requests.clear()
    for files in (5, 40):
        with Engine(other) as engine, pytest.raises(Interrupted):
            engine.import_collection("root", "replace", progress=interrupt_at(files))
    with Engine(other) as engine:
        assert 0 < staged(engine) < FILES
        (status,) = engine.status().collections
        assert f"{staged(engine)} of {FILES} documents have new ones; `annai import -c root -m replace`" in status.note
        summary = engine.import_collection("root", "replace")
        assert summary.added + summary.unchanged == FILES
        assert 0 < summary.unchanged < FILES
        assert engine.search(MEANING).note == ""
    assert len(passages(service)) == FILES


def test_what_was_built_for_a_model_that_is_not_asked_for_any_more_is_deleted(
    docs: Path, one: Config, other: Config
) -> None:
    with Engine(one) as engine:
        engine.import_collection()
    with Engine(other) as engine, pytest.raises(Interrupted):
        engine.import_collection("root", "replace", progress=interrupt_at(40))
    not_trusted = dataclasses.replace(load_config(docs_dir=docs), is_trusted=False)
    with Engine(not_trusted) as engine:
        assert staged(engine), "the settings that are ignored may be those that ask for it"
    with Engine(one) as engine:
        assert not staged(engine)
        assert engine.search(MEANING).note == ""


def test_a_save_during_the_change_is_found_at_once_and_after_it(one: Config, other: Config, write: Write) -> None:
    with Engine(one) as engine:
        engine.import_collection()
    with Engine(other) as engine:
        found: list[list[str]] = []

        def look(_done: Done) -> None:
            if staged(engine) and not found:
                write("zebra.md", "# Zebra\n\nA zebra has stripes.")
                write("007.md", "# file7\n\nA giraffe has spots.")
                write("008.md", "")
                (engine.config.root / "009.md").unlink()
                engine.queue_changes("root")
                found.append([])
            elif found and engine.store.document("root", "zebra.md"):
                found.append([hit.path for hit in engine.search(Query("zebra stripes", mode="vector"), refresh=False)])

        engine.import_collection("root", "replace", progress=look)
        assert found[-1][0] == "zebra.md", "the former model embedded it for those who search meanwhile"
        for question, path in (("zebra stripes", "zebra.md"), ("giraffe spots", "007.md")):
            answer = engine.search(Query(question, mode="vector", limit=1), refresh=False)
            assert [hit.path for hit in answer] == [path]
        assert engine.store.document("root", "009.md") is None
        assert maintenance.check(engine.store) == []


def test_a_question_that_is_embedded_while_vectors_are_swapped_is_answered_by_its_own_models(
    one: Config, other: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(one) as engine:
        engine.import_collection()
        expected = ranking(engine.search(MEANING))
    embed = Embedder.embed_query
    swapped: list[bool] = []

    def embed_slowly(embedder: Embedder, text: str) -> object:
        vector = embed(embedder, text)
        if not swapped:
            swapped.append(True)
            with Engine(other) as engine:
                engine.import_collection("root", "replace")
        return vector

    monkeypatch.setattr(Embedder, "embed_query", embed_slowly)
    with Engine(one) as engine:
        assert ranking(engine.search(MEANING, refresh=False)) == expected
        answer = engine.search(MEANING, refresh=False)
        assert ranking(answer) != expected
        assert "still has the vectors of openai:other/32" in answer.note


def test_without_the_former_model_the_rest_of_the_index_answers(docs: Path, one: Config, write: Write) -> None:
    write("休暇.md", "# 休暇\n\n休暇は一年に二十日あります。休暇を取るときは、上司に伝えます。")
    with Engine(one) as engine:
        engine.import_collection()
    (state_of(docs) / MODELS_NAME).unlink()
    write("new.md", "# New\n\nzebra")
    with Engine(load_config(docs_dir=docs)) as engine:
        answer = engine.search("how many days of vacation")
        assert "休暇.md" in [hit.path for hit in answer], "the words of the other language find it"
        answer = engine.search("banana file7")
        assert answer.results[0].path == "007.md"
        assert answer.results[0].verdict == "answers"
        assert answer.note == "searched without vectors, by words and the bundled model"
        assert "'root' still has the vectors of openai:one/32" in answer.freshness.problem
        assert "how it was opened is not known here" in answer.freshness.problem
        assert answer.freshness.problem.startswith(engine.search("banana", refresh=False).note.partition(": ")[2])
        with pytest.raises(EmbedderMismatch, match="`annai import -c root -m replace` makes new ones"):
            engine.search(MEANING)
        engine.import_collection("root", "replace")
        assert engine.search("zebra").results[0].path == "new.md"


def test_settings_that_name_what_cannot_be_opened_stop_no_search(docs: Path, one: Config, write: Write) -> None:
    with Engine(one) as engine:
        engine.import_collection()
    write("zebra.md", "# Zebra\n\nA zebra has stripes.")
    broken = override(load_config(docs_dir=docs), "embedding", model="no-such-model")
    with Engine(broken) as engine:
        answer = engine.search(Query("zebra stripes", mode="vector"))
        assert answer.results[0].path == "zebra.md"
        assert "still has the vectors of openai:one/32, and the settings name one that cannot be opened" in answer.note
        assert engine.models_to_change(["root"]) == {}
        with pytest.raises(EmbedderError, match="no-such-model"):
            engine.import_collection("root", "replace")
        assert engine.search("zebra").results[0].path == "zebra.md"


def test_a_former_model_is_opened_only_as_the_user_trusted_it(
    docs: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, model = docs / "annai.toml", docs / "model"
    model.mkdir()
    (model / "weights").write_text("as they were")
    text = f'[embedding]\nprovider = "openai"\nbase_url = "{service.url}/v1"\nmodel = "model"\ndimensions = 32\n'
    file.write_text(text)
    trust(docs)
    with Engine(load_config(docs_dir=docs)) as engine:
        engine.import_collection()
    known = json.loads((state_of(docs) / MODELS_NAME).read_text())
    assert [each["settings"]["base_url"] for each in known.values()] == [f"{service.url}/v1"]

    def note() -> str:
        service.requests.clear()
        with Engine(load_config(docs_dir=docs)) as engine:
            answer = engine.search("banana file7")
            assert answer.results[0].path == "007.md"
            assert bool(service.requests) == ("searched without vectors" not in answer.note)
            return f"{answer.note} {answer.freshness.problem}"

    file.write_text("")
    assert "still has the vectors of openai" in note()
    assert service.requests, "what was trusted is asked"
    file.write_text(text + "# changed\n")
    assert "`annai trust` has not allowed what this project asks for" in note()
    file.write_text("")
    (model / "weights").write_text("as a stranger made them")
    assert "the files of its model have changed" in note()
    (model / "weights").write_text("as they were")
    assert "searched without vectors" not in note()
    monkeypatch.chdir(docs)
    assert run(["trust", "--revoke"]) == 0
    assert "how it was opened is not known here" in note()


def test_a_worker_makes_the_vectors_that_newer_settings_ask_for(
    one: Config, other: Config, service: Service, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.engine.engine.CHANGE_SECONDS", 0.0)
    with Engine(one) as engine:
        engine.import_collection()
    permits, is_open = threading.Semaphore(0), threading.Event()
    requests_a_batch = BATCH // 4

    def change(answer: Json) -> Json:
        if answer["model"] == "other" and not is_open.is_set():
            permits.acquire(timeout=DEADLINE)
        return like_another(answer)

    service.change = change
    with Engine(one) as former, Engine(override(other, "embedding", batch_size=4)) as engine:
        asked = engine.embedder.identity
        with Worker(engine) as worker, ThreadPoolExecutor() as pool:
            permits.release(1 + requests_a_batch)
            eventually(lambda: staged(engine) > 0)
            assert "new ones are being made" in engine.search("banana file7", refresh=False).note
            assert "documents have new ones" in engine.status().collections[0].note
            write("zebra.md", "# Zebra\n\nA zebra has stripes.")
            importing = pool.submit(engine.import_collection)
            permits.release(1 + requests_a_batch)
            assert importing.result().note, "an import has its turn before the change is over"
            found = engine.search(Query("zebra stripes", mode="vector"), refresh=False)
            assert found.results[0].path == "zebra.md"
            worker.finish()
            is_open.set()
            permits.release(2 * requests_a_batch)
        assert engine.store.collections()[0].embedder != asked, "it was stopped before the end"
        done = staged(engine)
        service.requests.clear()
        with Worker(engine):
            eventually(lambda: engine.store.collections()[0].embedder == asked)
            assert engine.search("banana file7").note == ""
            assert "zebra.md" in {hit.path for hit in engine.search("zebra stripes")}
        assert len(passages(service)) <= FILES - done
        # A process with older settings searches with the new model, and leaves it at that.
        with Worker(former):
            write("lion.md", "# Lion\n\nA lion roars.")
            eventually(lambda: former.store.document("root", "lion.md") is not None)
            assert "still has the vectors of openai:other/32" in former.search("lion").note


def test_vectors_that_would_keep_this_process_busy_are_made_by_another(
    one: Config, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(one) as engine:
        engine.import_collection()

    def change_here(*_: object, **__: object) -> None:
        raise AssertionError("searches would be slow meanwhile")

    monkeypatch.setattr(Engine, "change_models", change_here)
    with Engine(override(load_config(docs_dir=one.root), "embedding", provider="hashing")) as engine, Worker(engine):
        eventually(lambda: engine.store.collections()[0].embedder == engine.embedder.identity)
        write("zebra.md", "# Zebra\n\nA zebra has stripes.")
        assert "zebra.md" in {hit.path for hit in engine.search("zebra stripes")}


def test_a_process_that_started_before_the_settings_changed_does_not_take_the_change_back(
    one: Config, other: Config, write: Write
) -> None:
    with Engine(one) as engine:
        engine.import_collection()
        with Worker(engine):
            with Engine(other) as newer:
                newer.import_collection("root", "replace")
                asked = newer.embedder.identity
            write("lion.md", "# Lion\n\nA lion roars.")
            eventually(lambda: engine.store.document("root", "lion.md") is not None)
            assert engine.store.collections()[0].embedder == asked
            assert not engine.is_changing_models


def test_all_that_is_indexed_by_force_is_indexed_with_the_model_of_the_settings(docs: Path, one: Config) -> None:
    with Engine(one) as engine:
        engine.import_collection()
    with Engine(override(load_config(docs_dir=docs), "embedding", **vars(Embedding()))) as engine:
        assert "`annai import -c root -m replace` makes new ones" in engine.rebuild().note
        assert engine.rebuild(force=True).note == ""
        assert engine.store.collections()[0].embedder == engine.embedder.identity
