"""Do LanceDB, Chroma and Qdrant agree with the index file beside them, whatever happens to either?"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from annai.answers import Where
from annai.config import Config, override
from annai.engine import Engine
from annai.errors import ConfigError, StoreError
from annai.settings import StoreSettings
from annai.stores.base import IndexedDocument, Store, load_store
from annai.stores.sidecar import lancedb, leftovers, vectors
from annai.stores.sidecar.chroma import ChromaNeighbours
from annai.stores.sidecar.lancedb import LanceNeighbours
from annai.stores.sidecar.vectors import SidecarVectors
from annai.stores.sqlite.store import SqliteStore
from annai.types import Collection
from annai.upkeep.maintenance import check
from tests.conftest import Annai, quick_config, trust
from tests.engines import chroma_server, config_for
from tests.stores.test_contract import indexed, matching_paths, nearest_paths

__all__ = ["chroma_server"]


@pytest.fixture(params=["lancedb", "chroma", "qdrant"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with load_store(config_for(request.param, tmp_path, request)) as store:
        store.save_collection(Collection("a", Path("/a")))
        yield store


def sidecar(store: Store) -> SidecarVectors:
    """What stands between the file and the engine."""
    assert isinstance(store, SqliteStore)
    assert isinstance(store._vectors, SidecarVectors)
    return store._vectors


def engine_size(store: Store) -> int:
    """How many passages the engine holds."""
    return len(sidecar(store).neighbours.keys())


def write_only_to_the_engine(store: Store, documents: list[IndexedDocument]) -> None:
    """A write that was cut off after its first step, as by a power failure."""
    vectors = sidecar(store)
    spans = vectors._leftovers.reserve([len(each.sections) for each in documents])
    vectors._hand_over(1, documents, spans)


def test_what_the_engine_took_in_before_a_crash_is_never_returned(store: Store) -> None:
    store.write("a", [indexed("a.md", "apple", seed=1)])
    write_only_to_the_engine(store, [indexed("b.md", "banana", seed=5, parts=3)])
    assert nearest_paths(store, 5) == ["a.md"]
    assert any("belong to no document" in str(fault) for fault in check(store))
    store.write("a", [indexed("c.md", "cherry", seed=9)])
    assert sorted(nearest_paths(store, 5)) == ["a.md", "c.md"]
    store.sweep()
    assert check(store) == []
    assert engine_size(store) == 2


def test_an_abandoned_write_is_cleaned_up_by_a_later_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "ABANDONED_SECONDS", -1.0)
    write_only_to_the_engine(store, [indexed("b.md", "banana", parts=3)])
    assert engine_size(store) == 3
    store.write("a", [indexed("a.md", "apple")])
    assert engine_size(store) == 1


def test_what_was_replaced_goes_when_no_search_can_still_need_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("a", [indexed("a.md", "apple", parts=5)])
    store.write("a", [indexed("a.md", "apple", parts=2)])
    store.write("a", [indexed("b.md", "banana")])
    assert engine_size(store) == 8
    assert len(nearest_paths(store, 1, limit=20)) == 3
    store.vacuum()
    assert engine_size(store) == 3
    monkeypatch.setattr(leftovers, "GRACE_SECONDS", -1.0)
    store.write("a", removed=["a.md"])
    store.write("a", [indexed("c.md", "cherry")])
    assert engine_size(store) == 2


def test_a_write_that_the_engine_refuses_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("a", [indexed("a.md", "apple")])

    def refuse(*_: object) -> None:
        raise StoreError("it is full")

    with monkeypatch.context() as broken:
        broken.setattr(sidecar(store).neighbours, "add", refuse)
        with pytest.raises(StoreError, match="it is full"):
            store.write("a", [indexed("a.md", "banana")], removed=["a.md"])
    assert matching_paths(store, "apple") == ["a.md"]
    assert matching_paths(store, "banana") == []
    store.write("a", [indexed("a.md", "banana")])
    assert matching_paths(store, "banana") == ["a.md"]


def test_a_narrow_restriction_finds_all_that_it_lets_through(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "BRUTE_FORCE_UP_TO", 0)
    store.write("a", [indexed(f"{number}/it's.md", seed=number * 50, parts=40) for number in range(30)])
    store.save_collection(Collection("b", Path("/b")))
    store.write("b", [indexed("7/x.md", seed=7777)])
    assert nearest_paths(store, 1, Where(paths=("29",)), limit=40) == ["29/it's.md"] * 40
    assert nearest_paths(store, 1, Where(collections=("b",))) == ["7/x.md"]
    assert "29/it's.md" not in nearest_paths(store, 29 * 50 + 1, Where(excludes=("29",)), limit=40)


def test_lancedb_puts_small_files_together_and_indexes_many_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lancedb, "INDEX_FROM", 900)
    config = Config(
        tmp_path, tmp_path / "state", store=StoreSettings(engine="lancedb", url=str(tmp_path / "elsewhere"))
    )
    with load_store(config) as store:
        store.save_collection(Collection("a", Path("/a")))
        for number in range(lancedb.WRITES_BEFORE_COMPACTION + 2):
            store.write("a", [indexed(f"{number}.md", seed=number * 100, parts=30)])
        neighbours = sidecar(store).neighbours
        assert isinstance(neighbours, LanceNeighbours)
        table = neighbours._table(256)
        assert table.stats()["fragment_stats"]["num_fragments"] < 5
        indices = {index.columns[0]: index.index_type for index in table.list_indices()}
        assert indices.keys() == {"key", "path", "collection", "vector"}
        assert "Hnsw" in indices["vector"]
        assert nearest_paths(store, 1607, limit=1) == ["16.md"]
        built = [index.created_at for index in table.list_indices()]
        store.apply_settings()
        assert [index.created_at for index in table.list_indices()] == built
    assert (tmp_path / "elsewhere").is_dir()
    other = replace(config.store, hnsw_m=8, hnsw_construction_ef=50)
    with load_store(replace(config, store=other)) as store:
        store.apply_settings()
        neighbours = sidecar(store).neighbours
        assert isinstance(neighbours, LanceNeighbours)
        (graph,) = (each for each in neighbours._table(256).list_indices() if each.columns == ["vector"])
        assert graph.index_details["hnsw"].items() >= {"max_connections": 8, "construction_ef": 50}.items()
        assert nearest_paths(store, 1607, limit=1) == ["16.md"]


def test_an_import_applies_the_graph_settings_that_changed_in_chroma(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "りんご.md").write_text("# りんご\n\nAn apple.")

    def imported(**changed: int) -> dict[str, int]:
        with Engine(override(quick_config(tmp_path), "store", engine="chroma", **changed)) as engine:
            engine.import_collection()
            assert [hit.path for hit in engine.search("apple", mode="vector")] == ["りんご.md"]
            neighbours = sidecar(engine.store).neighbours
            assert isinstance(neighbours, ChromaNeighbours)
            with neighbours._translate_errors():
                (collection,) = neighbours._collections()
            assert neighbours.names() == [collection.name]
            return {key: collection.configuration_json["hnsw"][key] for key in ("max_neighbors", "ef_search")}

    assert imported() == {"max_neighbors": 16, "ef_search": 100}
    assert imported(hnsw_search_ef=33) == {"max_neighbors": 16, "ef_search": 33}
    assert not caplog.records
    assert imported(hnsw_m=8) == {"max_neighbors": 8, "ef_search": 100}
    assert "building Chroma's graph of 1 vectors again" in caplog.text


def test_chroma_gets_its_settings_and_names_passages_by_their_path(tmp_path: Path) -> None:
    settings = StoreSettings(engine="chroma", hnsw_m=8, hnsw_construction_ef=50, hnsw_search_ef=33)
    with load_store(Config(tmp_path, tmp_path / "state", store=settings)) as store:
        store.save_collection(Collection("a", Path("/a")))
        store.write("a", [indexed("docs/a.md")])
        neighbours = sidecar(store).neighbours
        assert isinstance(neighbours, ChromaNeighbours)
        collection = neighbours._collection(256)
        graph = collection._model.configuration_json["hnsw"]
        assert (graph["space"], graph["max_neighbors"]) == ("cosine", 8)
        assert (graph["ef_construction"], graph["ef_search"]) == (50, 33)
        (name,) = collection.get(include=[])["ids"]
        assert name.startswith("docs/a.md::chunk_")


def test_chroma_believes_no_env_file_of_a_project(docs: Path) -> None:
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n[store]\nengine = "chroma"\n')
    trust(docs)
    (docs / "planted.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    (docs / ".env").write_text("CHROMA_PRODUCT_TELEMETRY_IMPL=planted.Telemetry\nCHROMA_API_IMPL=planted.Api\n")
    (docs / "a.md").write_text("# Apple\n\nan apple a day")
    assert "a.md" in Annai(docs)("search", "apple", "--format", "files").stdout
    assert not (docs / "ran").exists()


def test_chroma_loads_what_sends_traces_only_when_it_is_told_to_send_some(tmp_path: Path) -> None:
    code = (
        "import sys; from annai.stores.sidecar import chroma; from chromadb.telemetry import opentelemetry as traces; "
        "assert 'grpc' not in sys.modules; assert chroma.EXPORTER not in sys.modules; "
        "traces.otel_init('x', 'http://127.0.0.1:1', {}, traces.OpenTelemetryGranularity.ALL); "
        "assert 'grpc' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_chroma_may_be_a_server(tmp_path: Path, chroma_server: tuple[str, "subprocess.Popen[bytes]"]) -> None:
    url, process = chroma_server
    with load_store(Config(tmp_path, tmp_path / "state", store=StoreSettings(engine="chroma", url=url))) as store:
        store.save_collection(Collection("a", Path("/a")))
        store.write("a", [indexed("a.md", "apple", seed=1), indexed("b.md", "banana", seed=2)])
        assert nearest_paths(store, 2, limit=1) == ["b.md"]
        process.terminate()
        process.wait(30)
        assert nearest_paths(store, 2, limit=1) == ["b.md"]
        assert "Nothing is lost" in store.problem
        with pytest.raises(StoreError, match="Nothing is lost"):
            store.write("a", [indexed("a.md", "cherry")])
        assert matching_paths(store, "apple") == ["a.md"]


@pytest.mark.parametrize(
    ("engine", "url", "words"),
    [
        ("chroma", "http://127.0.0.1:1", "could not be used"),
        ("chroma", "nonsense", "http://HOST:PORT"),
        ("qdrant", "http://127.0.0.1:1", "could not be used"),
        ("lancedb", "/proc/nowhere", "LanceDB could not use"),
    ],
)
def test_an_engine_that_cannot_be_reached_is_one_clear_sentence(
    tmp_path: Path, engine: str, url: str, words: str
) -> None:
    config = Config(tmp_path, tmp_path / "state", store=StoreSettings(engine=engine, url=url))

    def use() -> None:
        with load_store(config) as store:
            store.save_collection(Collection("a", Path("/a")))
            store.write("a", [indexed("a.md")])

    with pytest.raises(StoreError, match=words):
        use()


@pytest.mark.parametrize("url", ["", "folder", "{}/folder", "file://{}/folder", "http:", ":memory:"])
def test_qdrant_needs_a_server_and_opens_no_folder(tmp_path: Path, url: str) -> None:
    settings = StoreSettings(engine="qdrant", url=url.format(tmp_path))
    with pytest.raises(ConfigError, match="needs a Qdrant server"):
        load_store(Config(tmp_path, tmp_path / "state", store=settings))
    assert not (tmp_path / "folder").exists()


def test_what_an_engine_is_to_forget_is_looked_up_by_an_index(store: Store) -> None:
    assert isinstance(store, SqliteStore)
    for statement in (
        "DELETE FROM leftovers WHERE first = 1 AND past = 2",
        "SELECT * FROM leftovers WHERE due_at <= 1",
    ):
        plan = store._database.rows(f"EXPLAIN QUERY PLAN {statement}")
        assert "USING INDEX leftovers_by" in str(plan)
