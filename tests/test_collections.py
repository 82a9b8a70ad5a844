"""What is searched when collections come and go? Never less or more than was said."""

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from annai.config import load_config, override
from annai.engine import Engine
from annai.errors import CollectionError
from annai.upkeep.worker import Worker
from tests.conftest import Annai, AnnaiHere, quick_config, results
from tests.loopback import eventually

Write = Callable[[str, str], Path]


@pytest.fixture
def tree(write: Write, docs: Path) -> Path:
    """A folder with a folder in it that becomes a collection."""
    write("guide/a.md", "# Guide\n\nAn apple.")
    write("api/b.md", "# API\n\nAn apple.")
    write("api/v2/c.md", "# API 2\n\nAn apple.")
    write("apis/d.md", "# Other APIs\n\nAn apple.")
    return docs


def found(engine: Engine) -> list[str]:
    return sorted(hit.id for hit in engine.search("apple", limit=20))


ROOT = ["root:apis/d.md", "root:guide/a.md"]
API = ["api:b.md", "api:v2/c.md"]


def test_a_root_that_was_indexed_stays_and_shares_nothing_with_collections_inside(engine: Engine, tree: Path) -> None:
    engine.refresh()
    engine.add_collection("api", tree / "api", "The API")
    assert found(engine) == [*API, *ROOT]
    assert [each.name for each in engine.list_collections()] == ["api", "root"]
    assert engine.status().searched == ("api", "root")
    assert engine.document_paths("root") == ["apis/d.md", "guide/a.md"]
    (tree / "api" / "new.md").write_text("# New\n\nAn apple.")
    assert found(engine) == ["api:b.md", "api:new.md", "api:v2/c.md", *ROOT]
    engine.import_collection("root", "replace")
    assert engine.document_paths("root") == ["apis/d.md", "guide/a.md"]


def test_a_root_that_was_never_indexed_is_left_out_and_can_be_added(engine: Engine, tree: Path) -> None:
    engine.add_collection("api", tree / "api")
    assert found(engine) == API
    assert engine.status().searched == ("api",)
    with pytest.raises(CollectionError, match="`annai collection enable root` adds it"):
        engine.search("apple", collections=["root"])
    engine.update_collection("root", enabled=True)
    assert found(engine) == [*API, *ROOT]
    engine.update_collection("root", enabled=False)
    assert found(engine) == API
    assert [each.enabled for each in engine.list_collections()] == [True, False]
    engine.delete_collection("root")
    assert [each.name for each in engine.list_collections()] == ["api"]


def test_what_is_said_of_the_root_is_done(engine: Engine, tree: Path, tmp_path: Path) -> None:
    engine.add_collection("api", tree / "api", keep_root=True)
    assert found(engine) == [*API, *ROOT]
    outside = tmp_path / "outside"
    outside.mkdir()
    engine.add_collection("outside", outside)
    assert found(engine) == [*API, *ROOT]
    engine.delete_collection("outside")
    engine.add_collection("outside", outside, keep_root=False)
    assert found(engine) == API
    engine.delete_collection("outside")
    engine.add_collection("all", tree, keep_root=True)
    assert engine.status().searched == ("all", "api")


def test_without_any_collection_the_root_is_all_of_the_folder_again(engine: Engine, tree: Path) -> None:
    everything = sorted(["root:api/b.md", "root:api/v2/c.md", *ROOT])
    engine.refresh()
    engine.add_collection("api", tree / "api")
    assert found(engine) == [*API, *ROOT]
    engine.update_collection("root", enabled=False)
    engine.delete_collection("api")
    assert engine.list_collections() == []
    assert engine.status().searched == ("root",)
    assert found(engine) == everything
    engine.add_collection("api", tree / "api", keep_root=False)
    engine.delete_collection("api")
    assert found(engine) == everything


def test_the_root_is_the_projects_own(engine: Engine, tree: Path) -> None:
    with pytest.raises(CollectionError, match="is the project itself"):
        engine.update_collection("root", enabled=False)
    engine.add_collection("api", tree / "api", keep_root=True)
    with pytest.raises(CollectionError, match="is the project itself"):
        engine.update_collection("root", source=tree / "guide")
    assert engine.update_collection("root", description="The rest").description == "The rest"


def test_a_worker_moves_files_between_the_root_and_a_new_collection(engine: Engine, tree: Path) -> None:
    with Worker(engine):
        eventually(lambda: len(engine.document_paths("root")) == 4)
        engine.add_collection("api", tree / "api")
        eventually(lambda: engine.document_paths("root") == ["apis/d.md", "guide/a.md"])
        eventually(lambda: engine.document_paths("api") == ["b.md", "v2/c.md"])
        engine.delete_collection("api")
        eventually(lambda: len(engine.document_paths("root")) == 4)


def test_every_command_says_what_is_searched_from_now_on(annai: Annai, tree: Path) -> None:
    add = ("collection", "add", "-n", "api", "-d", "The API", "-s", "api")
    left_out = f"It does not cover the rest of {tree}; `annai collection enable root` adds it."
    assert f"A search covers api. {left_out}" in annai(*add).stdout
    assert left_out in annai("status").stdout
    assert {row["collection"] for row in results(annai, "apple")} == {"api"}
    told = annai("collection", "enable", "-n", "root").stdout
    assert told == f"Enabled root. A search covers api, the rest of {tree} (root).\n"
    assert {row["collection"] for row in results(annai, "apple")} == {"api", "root"}
    assert json.loads(annai("status", "--format", "json").stdout)["searched"] == ["api", "root"]
    assert annai("collection", "delete", "-n", "api", "-y").stdout == f"Deleted api. A search covers all of {tree}.\n"
    assert f"A search covers api, the rest of {tree} (root)." in annai(*add).stdout
    annai("collection", "delete", "-n", "api", "-y")
    assert left_out in annai(*add, "--no-keep-root").stdout


def test_a_collection_is_imported_into_another_index_file(annai_here: Annai, tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "別の.sqlite"
    annai_here("collection", "add", "-n", "api", "-s", "api", "-d", "The API")
    assert "added 2" in annai_here("import", "--database", str(other)).stdout
    annai_here("collection", "add", "-n", "guide", "-s", "guide", "-d", "Guides")
    assert "several collections (api, guide)" in annai_here("import", "--database", str(other), code=2).stderr
    assert "added 1" in annai_here("import", "-n", "guide", "--database", str(other)).stdout
    unknown = annai_here("import", "-n", "nope", "--database", str(other), code=2)
    assert "There is no collection 'nope'" in unknown.stderr
    with Engine(override(quick_config(tree), "database", path=str(other))) as engine:
        assert [(each.name, each.description) for each in engine.list_collections()] == [
            ("api", "The API"),
            ("guide", "Guides"),
        ]
        assert found(engine) == [*API, "guide:a.md"]
    assert json.loads(annai_here("status", "--format", "json").stdout)["collections"][0]["documents"] == 0
    # It is searched where it is, and found to be up to date; a file that is not there is not made.
    (tree / "api" / "b.md").write_text("# Pears\n\nabout pears\n")
    assert [row["file"] for row in results(annai_here, "pears", "--database", str(other))] == ["api/b.md"]
    assert "There is no index file" in annai_here("search", "pears", "--database", "typo.sqlite", code=2).stderr
    assert not (annai_here.folder / "typo.sqlite").exists()


def test_every_collection_command_takes_a_folder(annai_here: Annai, tree: Path, tmp_path: Path) -> None:
    elsewhere = AnnaiHere(tmp_path)
    folder = ("--docs-dir", str(tree))
    elsewhere("collection", "add", "api", "-s", str(tree / "api"), "-d", "The API", *folder)
    elsewhere("collection", "update", "api", "-d", "API", *folder)
    elsewhere("collection", "disable", "api", *folder)
    elsewhere("collection", "enable", "api", *folder)
    listed = json.loads(elsewhere("collection", "ls", "--json", *folder).stdout)
    assert [(each["name"], each["description"], each["enabled"]) for each in listed] == [("api", "API", True)]
    assert json.loads(annai_here("collection", "ls", "--json").stdout) == listed
    elsewhere("collection", "delete", "api", "--yes", *folder)
    assert json.loads(annai_here("collection", "ls", "--json").stdout) == []


def test_a_collection_may_have_a_japanese_name(annai_here: Annai, write: Callable[[str, str], Path]) -> None:
    write("設計書/画面.md", "# 画面\n\nログイン画面の説明。")
    write("notes/a.md", "# Apples\n\nabout apples")
    typed = unicodedata.normalize("NFD", "設計ガイド")
    assert "Added 設計ガイド" in annai_here("collection", "add", typed, "-s", "設計書", "-d", "画面の設計").stdout
    for name in (typed, "設計ガイド"):
        (found,) = results(annai_here, "ログイン", "-c", name)
        assert (found["collection"], found["id"]) == ("設計ガイド", "設計ガイド:画面.md")
    address = f"annai://{quote('設計ガイド')}/{quote('画面.md')}"
    for reference in ("設計ガイド:画面.md", "annai://設計ガイド/画面.md", address):
        assert "ログイン画面" in annai_here("get", reference).stdout
    annai_here("collection", "disable", typed)
    assert annai_here("collection", "ls").stdout == ""
    annai_here("collection", "delete", typed, "--yes")
    for name in ("設計 書", "設計:書", "設計/書", "・"):
        assert (
            "is not a valid collection name"
            in annai_here("collection", "add", name, "-s", ".", "-d", "x", code=2).stderr
        )


def test_a_collections_own_embedder_is_found_by_its_japanese_name(docs: Path) -> None:
    name = unicodedata.normalize("NFD", "ガイド")
    (docs / "annai.toml").write_text(f'[collections."{name}".embedding]\nprovider = "hashing"\n', encoding="utf-8")
    assert load_config(docs_dir=docs).embedding_of("ガイド").provider == "hashing"
