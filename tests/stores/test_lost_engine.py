"""Does an index answer when the engine beside it lost its data? LanceDB, Chroma and Qdrant, emptied and damaged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from annai.answers import Mode
from annai.config import Config, override
from annai.engine import Engine
from annai.interfaces import doctor
from annai.interfaces.render.records import status_json
from annai.stores.sidecar import vectors
from annai.stores.sidecar.neighbours import Neighbours
from annai.stores.sidecar.vectors import SidecarVectors
from annai.stores.sqlite.store import SqliteStore
from annai.upkeep import maintenance
from annai.upkeep.worker import Worker
from tests.conftest import quick_config
from tests.engines import qdrant_url
from tests.loopback import eventually

FRUITS = 12


@pytest.fixture(params=["lancedb", "chroma", "qdrant"])
def config(request: pytest.FixtureRequest, docs: Path) -> Config:
    """A project with an engine: a folder beside the index file, or a server."""
    for number in range(FRUITS):
        (docs / f"果物{number}.md").write_text(
            f"# りんご {number}\n\nAll about apple number {number}.\n", encoding="utf-8"
        )
    url = qdrant_url() if request.param == "qdrant" else ""
    return override(quick_config(docs), "store", engine=request.param, url=url)


@pytest.fixture
def engine(config: Config) -> Iterator[Engine]:
    with Engine(config) as engine:
        engine.refresh()
        yield engine


def neighbours(engine: Engine) -> Neighbours:
    assert isinstance(engine.store, SqliteStore)
    assert isinstance(engine.store._vectors, SidecarVectors)
    return engine.store._vectors.neighbours


def found(engine: Engine) -> list[tuple[str, list[str]]]:
    """What is found by meaning, by words, and by both."""
    modes: tuple[Mode, ...] = ("vector", "keyword", "hybrid")
    return [(mode, [hit.path for hit in engine.search("apple number 7", mode=mode, limit=3)]) for mode in modes]


def note(engine: Engine) -> str:
    return engine.search("apple number 7").note


def test_an_engine_that_was_emptied_is_noticed_and_filled_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "REFILL_AT_ONCE", 0)
    monkeypatch.setattr(vectors, "BRUTE_FORCE_UP_TO", 0)
    before, engine_name = found(engine), engine.config.store.engine
    assert before[0][1][0] == "果物7.md"
    assert note(engine) == ""
    neighbours(engine).remove([(1, 1000)])
    # While it is open, with the first search that finds less than there is.
    assert found(engine) == before
    assert f"holds 0 of the {FRUITS} vectors of this index; `annai store check --repair`" in note(engine)
    assert any("holds 0 of" in str(fault) for fault in maintenance.check(engine.store))
    # And when it is opened, by its count.
    with Engine(engine.config) as opened:
        assert "holds 0 of the 12 vectors" in str(status_json(opened.status())["problem"])
        ((state, text, fix),) = doctor._index(opened)
        assert (state, text.partition(":")[0]) == ("warn", f"the index file answers in place of {engine_name}")
        assert "`annai store check --repair` copies what it lacks there" in fix
        assert "answered by the index file" in note(opened)
        assert found(opened) == before
        assert maintenance.repair(opened) == []
        assert note(opened) == ""
        assert status_json(opened.status())["problem"] is None
        assert found(opened) == before
    assert neighbours(engine).count() == FRUITS


def test_the_worker_fills_an_engine_that_lost_its_data(engine: Engine) -> None:
    neighbours(engine).remove([(1, 6)])
    assert "holds 7 of the 12" in note(engine)
    with Worker(engine):
        eventually(lambda: not engine.store.problem)
    assert maintenance.check(engine.store) == []
    assert note(engine) == ""


def test_a_normal_update_leaves_nothing_to_complain_of(engine: Engine) -> None:
    (engine.config.root / "果物3.md").write_text("# なし\n\nPears, for a change.\n", encoding="utf-8")
    (engine.config.root / "果物4.md").unlink()
    engine.refresh()
    assert neighbours(engine).count() > FRUITS - 1  # What was replaced stays for a while.
    assert maintenance.check(engine.store) == []


@pytest.mark.parametrize("config", ["lancedb", "chroma"], indirect=True)
def test_a_damaged_engine_is_put_aside_and_made_again_while_the_file_answers(config: Config) -> None:
    with Engine(config) as engine:
        engine.refresh()
        before = found(engine)
        folder = neighbours(engine).folder
        beside = neighbours(engine)
    if config.store.engine == "chroma":
        beside._forget_client()  # type: ignore[attr-defined] # As another process would.
    damaged = [file for file in folder.rglob("*") if file.is_file() and file.name != ".lock"]
    assert damaged
    for file in damaged:
        file.write_bytes(b"this is no data of an engine")
    with Engine(config) as engine:
        assert found(engine) == before
        assert "answered by the index file" in note(engine)
        assert engine.locate("果物7.md").document.title == "りんご 7"
        assert maintenance.check(engine.store)
        assert maintenance.repair(engine) == []
        assert note(engine) == ""
        assert found(engine) == before
    with Engine(config) as engine:
        assert maintenance.check(engine.store) == []
        assert found(engine) == before
