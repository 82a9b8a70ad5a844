"""Can an index be checked, repaired, tidied and moved? On every engine, with real damage."""

import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import psycopg
import pytest

from annai.answers import Query
from annai.config import Config, override
from annai.embedders.hashing import HashingEmbedder
from annai.engine import Engine
from annai.errors import CollectionError, StoreError
from annai.stores.base import Store, load_store
from annai.stores.postgres.store import PostgresStore
from annai.stores.sidecar.vectors import SidecarVectors
from annai.stores.sqlite.store import SqliteStore
from annai.types import Collection, Document
from annai.upkeep import maintenance
from tests.conftest import EXAMPLES, Annai, quick_config, state_of
from tests.engines import DURABLE, config_for, postgres_folder, postgres_url
from tests.indexing.test_indexing import KILLED_IMPORT
from tests.loopback import eventually

__all__ = ["postgres_folder", "postgres_url"]

QUESTIONS = ("環境構築の方法", "roll back a bad deployment", "認証", "how are secrets kept?", "API")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns(".annai"))
    (folder / "binary.md").write_bytes(b"\0\1\2\3" * 50)
    return folder


@pytest.fixture(params=DURABLE)
def config(request: pytest.FixtureRequest, docs: Path) -> Config:
    """`docs` as a project of each engine, with the quick embedder."""
    engine = config_for(request.param, docs, request).store
    return override(quick_config(docs), "store", engine=engine.engine, url=engine.url, lease_seconds=2.0)


@pytest.fixture
def engine(config: Config) -> Iterator[Engine]:
    with Engine(config) as engine:
        engine.refresh()
        yield engine


def found(engine: Engine) -> list[list[tuple[str, float]]]:
    return [[(hit.id, hit.score) for hit in engine.search(Query(text, limit=10)).results] for text in QUESTIONS]


def sql(store: Store, statement: str) -> None:
    """Damage the tables of a store behind its back."""
    if isinstance(store, PostgresStore):
        with psycopg.connect(store._settings.url) as connection:
            connection.execute(statement.replace("FROM ", "FROM annai_").encode())
    else:
        cast(SqliteStore, store)._database.rows(statement)


def test_an_index_that_nobody_damaged_is_sound(engine: Engine) -> None:
    assert maintenance.check(engine.store) == []
    assert engine.store.statistics("root").documents > 10


@pytest.mark.parametrize(
    ("table", "condition", "reason"),
    [
        ("vectors", "section_id % 3 = 0", "vectors are missing"),
        ("sections", "ordinal = 1", "sections are missing"),
        ("postings", "word LIKE 'a%'", "words of its section"),
        ("passages", "document_id % 2 = 0", "vectors are missing"),
    ],
)
def test_what_is_missing_is_rebuilt_from_the_stored_documents(
    engine: Engine, table: str, condition: str, reason: str
) -> None:
    before = found(engine)
    if table == "passages" and isinstance(engine.store, PostgresStore):
        pytest.skip("it has no such table")
    sql(engine.store, f"DELETE FROM {table} WHERE {condition}")  # noqa: S608 - both are ours
    faults = maintenance.check(engine.store)
    assert any(reason in str(fault) for fault in faults)
    assert maintenance.repair(engine) == []
    assert maintenance.check(engine.store) == []
    assert found(engine) == before


def test_what_belongs_to_no_document_is_removed(engine: Engine) -> None:
    sql(engine.store, "DELETE FROM documents WHERE title LIKE 'A%'")
    reasons = [str(fault) for fault in maintenance.check(engine.store)]
    assert any("belong to no document" in reason for reason in reasons)
    assert any("its text is missing" in reason for reason in reasons)
    assert maintenance.repair(engine) == []
    # Its file is read again, as if it were new.
    engine.refresh()
    assert maintenance.check(engine.store) == []


def test_what_the_engine_beside_the_file_lost_is_added_to_it_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(engine.store, SqliteStore) or not isinstance(engine.store._vectors, SidecarVectors):
        pytest.skip("it has no engine beside it")
    neighbours = engine.store._vectors.neighbours
    before = found(engine)
    keys = sorted(neighbours.keys().tolist())
    neighbours.remove([(keys[0], keys[len(keys) // 2])])
    assert any("vectors are missing" in str(fault) for fault in maintenance.check(engine.store))
    with monkeypatch.context() as without:
        without.setattr(HashingEmbedder, "embed_sums", None)
        without.setattr(HashingEmbedder, "embed_batch", None)
        assert maintenance.repair(engine) == []
    assert sorted(neighbours.keys().tolist()) == keys
    assert found(engine) == before


def test_what_a_killed_replace_left_is_deleted_by_the_next_process(config: Config) -> None:
    with Engine(config) as engine:
        engine.refresh()
        before = found(engine)
        engine.store.save_collection(Collection("root:building", config.root, enabled=False))
        (copied,) = [each for each in engine.store.collections() if each.name == "root"]
        part = [maintenance._read(engine.store, copied, path) for path in engine.document_paths("root")[:5]]
        engine.store.write("root:building", [each for each in part if each])
    with Engine(config) as engine:
        assert [each.name for each in engine.store.collections()] == ["root"]
        assert found(engine) == before
        assert maintenance.repair(engine) == []


@pytest.mark.parametrize("mode", ["update", "replace"])
def test_a_replace_that_was_killed_leaves_nothing_behind(docs: Path, mode: Literal["update", "replace"]) -> None:
    for number in range(300):
        (docs / f"{number}.md").write_text(f"# {number}\n\napple number{number}\n")
    arguments = [sys.executable, "-c", KILLED_IMPORT, str(docs), "128", str(int(signal.SIGKILL)), "replace"]
    assert subprocess.run(arguments, capture_output=True, check=False, timeout=60).returncode
    with SqliteStore(quick_config(docs).database_path) as store:
        assert [each.name for each in store.collections()] == ["root", "root:building"]
    with Engine(quick_config(docs)) as engine:
        assert [each.name for each in engine.store.collections()] == ["root"]
        engine.import_collection(mode=mode)
        assert maintenance.check(engine.store) == []


def test_ctrl_c_ends_a_replace_with_a_word_and_changes_nothing(docs: Path) -> None:
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    annai = Annai(docs)
    annai("import")
    before = annai("status", "--format", "json").stdout
    for number in range(3_000):
        (docs / f"{number}.md").write_text(f"# {number}\n\n" + "apple banana cherry " * 100)
    process = subprocess.Popen(
        [sys.executable, "-m", "annai", "import", "-m", "replace"], cwd=docs, stderr=subprocess.PIPE, text=True
    )
    with SqliteStore(state_of(docs) / "index.sqlite") as store:
        eventually(lambda: store.statistics("root:building").documents > 0)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert told.splitlines()[-1] == "annai: interrupted; the collection is as it was before."
        assert process.returncode == 130
        assert [each.name for each in store.collections()] == ["root"]
    assert json.loads(annai("status", "--format", "json").stdout)["collections"] == json.loads(before)["collections"]


def steps_of_a_check(folder: Path, documents: int) -> int:
    """How many hundreds of steps SQLite takes to check an index of so many documents."""
    folder.mkdir()
    for number in range(documents):
        (folder / f"{number}.md").write_text(f"# {number}\n\nThe word of it is word{number}.\n")
    steps = itertools.count()
    with Engine(quick_config(folder)) as engine:
        engine.refresh()
        assert isinstance(engine.store, SqliteStore)
        # What is returned says whether to stop.
        engine.store._database.connection.set_progress_handler(lambda: next(steps) < 0, 100)
        assert maintenance.check(engine.store) == []
    return next(steps)


def test_a_check_grows_with_the_documents_and_no_faster(tmp_path: Path) -> None:
    few, many = (steps_of_a_check(tmp_path / str(count), count) for count in (100, 400))
    assert many < 4 * few * 1.5


def test_a_vacuum_changes_no_answer(engine: Engine) -> None:
    before = found(engine)
    engine.rebuild(force=True)
    sizes = maintenance.vacuum(engine)
    assert all(size > 0 for size in sizes)
    assert found(engine) == before
    assert maintenance.check(engine.store) == []


def test_an_index_moves_to_every_engine_without_embedding_again(
    config: Config, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(quick_config(docs)) as source:
        source.refresh()
        source.store.requests.add("root", ["waiting.md"])
        monkeypatch.setattr(HashingEmbedder, "embed_batch", None)
        monkeypatch.setattr(HashingEmbedder, "embed_sums", None)
        other = config if config.store.engine != "sqlite" else override(config, "database", path="elsewhere.sqlite")
        with load_store(other) as target:
            moved = maintenance.migrate(source, target)
            assert moved.checksum == maintenance.checksum(source.store)
            assert moved.documents == source.store.statistics("root").documents
            assert target.states("root") == source.store.states("root")
            assert [each.path for each in target.requests.latest("pending")] == ["waiting.md"]
            assert maintenance.check(target) == []
            with pytest.raises(CollectionError, match="already has documents"):
                maintenance.migrate(source, target)
        monkeypatch.undo()
        before = found(source)
    with Engine(other) as engine:
        for mine, theirs in zip(found(engine), before, strict=True):
            assert [name for name, _ in mine] == [name for name, _ in theirs]
            assert [score for _, score in mine] == pytest.approx([score for _, score in theirs], abs=0.002)


def test_a_copy_that_is_not_the_same_is_deleted(docs: Path, tmp_path: Path) -> None:
    class Careless(SqliteStore):
        def document(self, collection: str, path: str) -> Document | None:
            document = super().document(collection, path)
            return replace(document, text=document.text.upper()) if document else None

    with Engine(quick_config(docs)) as source, Careless(tmp_path / "copy.sqlite") as target:
        source.refresh()
        with pytest.raises(StoreError, match="differs from the original"):
            maintenance.migrate(source, target)
        assert target.collections() == []
        assert target.inventory().vectors.tolist() == []


def test_the_command_checks_repairs_tidies_and_moves(docs: Path) -> None:
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    annai = Annai(docs)
    annai("import")
    assert "The index is consistent." in annai("store", "check").stdout
    with SqliteStore(state_of(docs) / "index.sqlite") as store:
        store._database.rows("DELETE FROM vectors WHERE section_id < 10")
    assert "check --repair" in annai("store", "check", code=1).stderr
    assert "Repaired" in annai("store", "check", "--repair").stdout
    assert "now." in annai("store", "vacuum").stdout
    done = annai("store", "migrate", "--to", "lancedb")
    assert 'engine = "lancedb"' in done.stdout
    annai("store", "migrate", "--to", "lancedb", code=2)
    annai("store", "migrate", "--to", "sqlite", code=2)
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n[store]\nengine = "lancedb"\n')
    assert "deploy" in annai("search", "roll back a bad deployment", "--format", "files").stdout


def test_an_engine_that_is_not_installed_is_named(docs: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "sys.modules['psycopg'] = None\n"
        "from annai.config import *; from annai.stores.base import load_store\n"
        "load_store(Config(Path(sys.argv[1]), Path(sys.argv[1]), store=StoreSettings(engine='postgres', url='postgresql://x')))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(docs)], capture_output=True, text=True, check=False)
    assert "StoreError" in done.stderr
    assert "pip install " in done.stderr
    assert "[postgres]'" in done.stderr
