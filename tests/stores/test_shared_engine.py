"""Can several projects use one engine? Real projects on one Chroma server, one LanceDB folder, one Qdrant server."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from annai.answers import Query
from annai.config import Config, override
from annai.engine import Engine
from annai.errors import ConfigError, StoreError
from annai.stores.sidecar.chroma import ChromaNeighbours
from annai.stores.sidecar.lancedb import LanceNeighbours
from annai.stores.sidecar.neighbours import Neighbours
from annai.stores.sidecar.qdrant import QdrantNeighbours
from annai.stores.sidecar.vectors import SidecarVectors
from annai.stores.sqlite.store import SqliteStore
from annai.upkeep import maintenance
from tests.conftest import Annai, quick_config, trust
from tests.engines import chroma_server, qdrant_url

__all__ = ["chroma_server"]

SHARED = ("lancedb", "chroma", "qdrant")

Project = Callable[[str], Config]


@pytest.fixture(params=SHARED)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """Makes a project with documents about some fruit; all of them use one engine."""
    url = str(tmp_path / "shared")
    if request.param == "chroma":
        url = request.getfixturevalue("chroma_server")[0]
    elif request.param == "qdrant":
        url = qdrant_url()

    def make(name: str) -> Config:
        folder = tmp_path / name
        folder.mkdir()
        for number in range(12):
            (folder / f"{name}{number}.md").write_text(f"# {name} {number}\n\nAll about {name} number {number}.\n")
        return override(quick_config(folder), "store", engine=request.param, url=url)

    return make


def sidecar(engine: Engine) -> SidecarVectors:
    assert isinstance(engine.store, SqliteStore)
    assert isinstance(engine.store._vectors, SidecarVectors)
    return engine.store._vectors


def found(engine: Engine, text: str) -> list[tuple[str, float]]:
    """What a search by vectors alone finds."""
    return [(hit.path, hit.score) for hit in engine.search(Query(text, mode="vector", limit=5)).results]


def drop(neighbours: Neighbours, name: str) -> None:
    """Delete a collection or a table, as people do with an engine's own tools."""
    if isinstance(neighbours, LanceNeighbours):
        neighbours._connection.drop_table(name)
    else:
        assert isinstance(neighbours, ChromaNeighbours | QdrantNeighbours)
        neighbours._client.delete_collection(name)


def test_a_repair_in_one_project_leaves_the_other_alone(project: Project) -> None:
    with Engine(project("apple")) as first, Engine(project("pear")) as second:
        first.refresh()
        second.refresh()
        before = found(first, "apple number 7"), found(second, "pear number 7")
        assert before[1][0][0] == "pear7.md"
        assert {*sidecar(first).neighbours.own_names()}.isdisjoint(sidecar(second).neighbours.own_names())
        first.store.sweep()
        sidecar(first).neighbours.remove([(1, 100)])
        assert maintenance.check(second.store) == []
        assert found(second, "pear number 7") == before[1]
        assert maintenance.repair(first) == []
        first.delete_collection("root")
        assert found(second, "pear number 7") == before[1]
        assert found(first, "apple number 7") == before[0]


def test_a_copy_of_a_project_takes_names_of_its_own(project: Project, tmp_path: Path) -> None:
    config = project("apple")
    with Engine(config) as first:
        first.refresh()
        before = found(first, "apple number 7")
    shutil.copytree(config.root, tmp_path / "copy")
    copied = override(quick_config(tmp_path / "copy"), "store", engine=config.store.engine, url=config.store.url)
    with Engine(copied) as second:
        assert found(second, "apple number 7") == before
        for file in copied.root.glob("*.md"):
            file.unlink()
        second.refresh()
        maintenance.repair(second)
        second.store.vacuum()
    with Engine(config) as first:
        assert maintenance.check(first.store) == []
        assert found(first, "apple number 7") == before


def test_a_project_that_moves_keeps_its_names(project: Project, tmp_path: Path) -> None:
    config = project("apple")
    with Engine(config) as first:
        first.refresh()
        names, before = sidecar(first).neighbours.own_names(), found(first, "apple number 7")
    config.root.rename(tmp_path / "moved")
    moved = override(quick_config(tmp_path / "moved"), "store", engine=config.store.engine, url=config.store.url)
    with Engine(moved) as first:
        assert sidecar(first).neighbours.own_names() == names
        assert found(first, "apple number 7") == before


def test_vectors_that_the_engine_lost_are_copied_when_the_index_is_opened(project: Project) -> None:
    config = project("apple")
    with Engine(config) as engine:
        engine.refresh()
        before = found(engine, "apple number 7")
        for name in sidecar(engine).neighbours.own_names():
            drop(sidecar(engine).neighbours, name)
    with Engine(config) as engine:
        assert found(engine, "apple number 7") == before
        assert maintenance.check(engine.store) == []


def test_a_name_that_the_user_chose_is_used_and_belongs_to_one_project(project: Project) -> None:
    first, second = (override(project(name), "store", collection_name="fruit") for name in ("apple", "pear"))
    with Engine(first) as engine:
        engine.refresh()
        assert sidecar(engine).neighbours.own_names() == [f"fruit_{engine.embedder.dimension}"]
        before = found(engine, "apple number 7")
    with pytest.raises(StoreError, match=r"already has fruit_\d+, which another project may have made; choose another"):
        Engine(second)
    with Engine(first) as engine:
        assert found(engine, "apple number 7") == before
    with pytest.raises(ConfigError, match="begin with a letter"):
        Engine(override(second, "store", collection_name="no/name"))


def test_the_command_repairs_one_project_and_the_other_finds_its_own(project: Project) -> None:
    configs = [project("apple"), project("pear")]
    apple, pear = (Annai(config.root) for config in configs)
    for config in configs:
        shared = f'[store]\nengine = "{config.store.engine}"\nurl = "{config.store.url}"\n'
        (config.root / "annai.toml").write_text(f'[embedding]\nprovider = "hashing"\n{shared}')
        trust(config.root)
    asked = ("search", "pear number 7", "--mode", "vector", "--format", "files", "--limit", "3")
    apple("import")
    pear("import")
    before = pear(*asked).stdout
    assert before.startswith("pear7.md")
    with SqliteStore(configs[0].database_path) as store:
        store._database.rows("DELETE FROM vectors WHERE section_id < 5")
    assert "Repaired" in apple("store", "check", "--repair").stdout
    assert pear(*asked).stdout == before
    assert "consistent" in pear("store", "check").stdout
