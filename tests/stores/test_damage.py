"""Is a damaged index an answer, or one sentence with the way out? Real files, with real bits flipped."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from annai.answers import Where
from annai.config import load_config
from annai.engine import Engine
from annai.errors import AnnaiError, DamagedIndex
from annai.stores.sqlite import database
from annai.stores.sqlite.database import WAY_OUT, Database, can_verify
from annai.stores.sqlite.store import SqliteStore
from annai.types import Collection
from annai.upkeep import maintenance
from tests.conftest import Annai, quick_config, state_of
from tests.stores.test_contract import indexed, matching_paths
from tests.stores.test_failures import small_disk

__all__ = ["small_disk"]

Write = Callable[[str, str], Path]

PAGE = 4096
RESERVED = 20
"""Where the header of a file says how much of each page its checksum takes."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An index without a log."""
    path = tmp_path / "index.sqlite"
    with SqliteStore(path) as store:
        store.save_collection(Collection("a", Path("/a"), "All about a", chunk_size=600, chunk_overlap=10))
        store.write("a", [indexed(f"{number}.md", "apple pear", seed=number) for number in range(20)])
    return path


@pytest.fixture
def unverified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where apsw comes without the extension."""
    monkeypatch.setattr(database, "CHECKSUMS", tmp_path / "nowhere")


def flip(file: Path, at: int, bit: int = 0) -> None:
    whole = bytearray(file.read_bytes())
    whole[at] ^= 1 << bit
    file.write_bytes(whole)


def read_everything(file: Path) -> list[str]:
    with SqliteStore(file) as store:
        store.verify()
        return matching_paths(store, "apple")


def free_pages(file: Path) -> int:
    connection = database._connect(str(file))
    try:
        return int(connection.pragma("freelist_count"))
    finally:
        connection.close()


def test_a_flipped_bit_is_noticed_whatever_page_it_is_in(file: Path) -> None:
    assert can_verify()
    whole, everything = file.read_bytes(), read_everything(file)
    assert free_pages(file) == 0
    for number in range(len(whole) // PAGE):
        flip(file, number * PAGE + (number * 997) % PAGE, number % 8)
        with pytest.raises(DamagedIndex, match=WAY_OUT):
            read_everything(file)
        file.write_bytes(whole)
    assert read_everything(file) == everything


@pytest.mark.parametrize("bit", range(8))
def test_what_says_that_there_are_checksums_cannot_be_switched_off_by_a_flip(file: Path, bit: int) -> None:
    flip(file, RESERVED, bit)
    with pytest.raises(DamagedIndex, match=WAY_OUT):
        read_everything(file)


@pytest.mark.parametrize("share", [0.999, 0.5, 0.01])
def test_an_index_that_was_cut_off_is_noticed(file: Path, share: float) -> None:
    os.truncate(file, int(share * file.stat().st_size))
    with pytest.raises(DamagedIndex, match=WAY_OUT):
        read_everything(file)


def test_others_who_use_sqlite_in_this_process_notice_nothing(tmp_path: Path) -> None:
    assert can_verify()
    assert apsw.vfs_names()[0] != database.VERIFYING
    connection = apsw.Connection(str(tmp_path / "theirs"))
    connection.execute("CREATE TABLE mine (x)")
    assert connection.reserve_bytes("main") == 0
    connection.close()


def pages_of(file: Path, table: str) -> Iterator[int]:
    connection = database._connect(str(file))
    try:
        for (number,) in connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND payload > 0", (table,)):
            yield (number - 1) * PAGE
    finally:
        connection.close()


@pytest.mark.parametrize("table", ["postings", "collections", "documents", "sqlite_schema", "index_requests"])
def test_a_damaged_index_is_built_again_from_the_files_and_knows_what_was_registered(
    annai: Annai, write: Write, table: str
) -> None:
    write("notes/a.md", "# A\n\napple banana")
    write("b.md", "# B\n\napple cherry")
    annai("collection", "add", "notes", "-s", "notes", "-d", "My notes: ノート", "--keep-root")
    annai("import", "-c", "notes", "--chunk-size", "600")
    searched = ("search", "apple", "--mode", "keyword", "--format", "json")
    before = json.loads(annai(*searched).stdout)["results"]
    listed = annai("collection", "ls", "--format", "json").stdout
    annai("store", "vacuum")
    index = state_of(annai.folder) / "index.sqlite"
    for page in [*pages_of(index, table)]:
        flip(index, page + PAGE // 2)
    told = annai("store", "check", code=2).stderr
    assert told.strip() == f"annai: {database.damaged(index)}"
    assert WAY_OUT in told
    done = annai("store", "check", "--repair")
    assert "index.sqlite.damaged, which you can delete" in done.stdout + done.stderr
    assert "consistent" in annai("store", "check").stdout
    assert json.loads(annai(*searched).stdout)["results"] == before
    known = json.loads(annai("collection", "ls", "--format", "json").stdout)
    for now, then in zip(known, json.loads(listed), strict=True):
        assert now | {"imported_at": None} == then | {"imported_at": None}
    with Engine(load_config(docs_dir=annai.folder)) as engine:
        assert {each.name: each.chunk_size for each in engine.store.collections()} == {"notes": 600, "root": None}


def test_a_process_that_has_the_damaged_index_open_goes_on_with_the_new_one(docs: Path) -> None:
    (docs / "a.md").write_text("# A\n\napple")
    config = quick_config(docs)
    with Engine(config) as server:
        assert [hit.path for hit in server.search("apple")] == ["a.md"]
        maintenance.rebuild(config)
        (docs / "b.md").write_text("# B\n\napple")
        assert sorted(hit.path for hit in server.search("apple")) == ["a.md", "b.md"]


def test_what_only_the_log_had_is_registered_again_when_the_log_is_damaged(tmp_path: Path) -> None:
    path, copy = tmp_path / "index.sqlite", tmp_path / "copy" / "index.sqlite"
    copy.parent.mkdir()
    with SqliteStore(path) as store:
        store.save_collection(Collection("a", Path("/a"), "before", imported_at="then"))
        store._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        store.save_collection(Collection("a", Path("/a"), "after", imported_at="then"))
        store.save_collection(Collection("b", Path("/b"), "new"))
        for suffix in ("", "-wal", ".collections"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    # The first frame: SQLite drops the rest of the log without a word.
    flip(copy.with_name("index.sqlite-wal"), 200)
    with Database(copy).reading():
        pass
    with SqliteStore(copy) as store:
        assert [(each.name, each.description, each.imported_at) for each in store.collections()] == [
            ("a", "after", "then"),
            ("b", "new", ""),
        ]


@pytest.mark.parametrize("damage", ["flipped", "emptied", "deleted"])
def test_the_copy_of_what_is_registered_is_written_again_when_it_is_damaged(file: Path, damage: str) -> None:
    copy = file.with_name("index.sqlite.collections")
    sound = copy.read_bytes()
    if damage == "flipped":
        flip(copy, 40)
    elif damage == "emptied":
        copy.write_bytes(b"")
    else:
        copy.unlink()
    with SqliteStore(file) as store:
        assert [each.description for each in store.collections()] == ["All about a"]
    assert copy.read_bytes() == sound


def test_a_registration_that_fails_is_not_in_the_copy(file: Path) -> None:
    copy = file.with_name("index.sqlite.collections")
    sound = copy.read_bytes()
    with SqliteStore(file) as store:
        # Half of a surrogate pair: no index can hold it.
        with pytest.raises(AnnaiError):
            store.save_collection(Collection("b", Path("/b"), "\ud800"))
        connection = store._database.connection
        connection.set_commit_hook(lambda: True)
        with pytest.raises(apsw.ConstraintError):
            store.save_collection(Collection("b", Path("/b"), "never"))
        connection.set_commit_hook(None)
        assert [each.name for each in store.collections()] == ["a"]
    assert copy.read_bytes() == sound


def test_a_search_writes_no_copy(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    annai("search", "apple")
    files = {file: file.stat().st_mtime_ns for file in state_of(annai.folder).glob("index.sqlite*")}
    annai("search", "apple")
    assert {file: file.stat().st_mtime_ns for file in files if file.exists()} == {
        file: time for file, time in files.items() if file.exists()
    }


@pytest.mark.parametrize("version", [3, 11])
def test_an_older_index_is_emptied_and_filled_again(docs: Path, version: int, unverified: None) -> None:
    del unverified  # It was made by an annai that knew no checksums.
    (docs / "a.md").write_text("# A\n\napple")
    config = quick_config(docs)
    with Engine(config) as engine:
        engine.refresh()
        engine.add_collection("notes", docs, "My notes")
        rows = engine.store._database.rows  # type: ignore[attr-defined]
        for statement in ("DROP TABLE metadata", 'CREATE TABLE "old ""one""" (x)', f"PRAGMA user_version = {version}"):
            rows(statement)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "CHECKSUMS", Path(apsw.__file__).parent / "sqlite_extra_binaries" / "cksumvfs")
        with Engine(config) as engine:
            assert [hit.path for hit in engine.search("apple")] == ["a.md"]
            assert {each.name: each.description for each in engine.store.collections()}["notes"] == "My notes"
            assert maintenance.check(engine.store) == []
        assert config.database_path.read_bytes()[RESERVED] == database.CHECKSUM_BYTES


def test_without_the_extension_an_index_works_and_has_no_checksums(unverified: None, tmp_path: Path) -> None:
    del unverified
    assert not can_verify()
    path = tmp_path / "index.sqlite"
    with SqliteStore(path) as store:
        store.save_collection(Collection("a", Path("/a")))
        store.write("a", [indexed("1.md", "apple")])
        store.vacuum()
    assert read_everything(path) == ["1.md"]
    assert path.read_bytes()[RESERVED] == 0


def test_without_the_extension_numbers_of_a_damaged_file_are_looked_at_before_they_are_used(
    unverified: None, tmp_path: Path
) -> None:
    del unverified
    path = tmp_path / "index.sqlite"
    with SqliteStore(path) as store:
        store.save_collection(Collection("a", Path("/a")))
        for number in range(3):
            store.write("a", [indexed(f"{number}.md", "apple", seed=number)])
    with SqliteStore(path) as store:
        # A key that was never given, in a list that is merged.
        store._database.rows("UPDATE postings SET list = CAST(x'ffffffff00000001' || list AS BLOB)")
        assert matching_paths(store, "apple") == ["0.md", "1.md", "2.md"]
        store.vacuum()
        assert matching_paths(store, "apple") == ["0.md", "1.md", "2.md"]
        store._database.rows("UPDATE postings SET list = substr(list, 2)")
    with SqliteStore(path) as store, pytest.raises(DamagedIndex, match=WAY_OUT):
        matching_paths(store, "apple")
    for damage in ("ordinals = x'ffffffff'", "lengths = x''", "first_section = 1", "signs = substr(signs, 2)"):
        broken = tmp_path / f"{damage[:5]}.sqlite"
        shutil.copy(path, broken)
        with SqliteStore(broken) as store:
            store._database.rows(f"UPDATE passages SET {damage}")  # noqa: S608 - it is ours
        with SqliteStore(broken) as store, suppress(DamagedIndex):
            matching_paths(store, "apple")
            store.nearest(indexed("x", "apple").vectors[0], 5, Where())


def test_a_file_with_checksums_is_not_written_where_there_are_none(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(database, "CHECKSUMS", tmp_path / "nowhere")
    with pytest.raises(DamagedIndex, match=WAY_OUT):
        SqliteStore(file)

    def open_read_only(opened: Database) -> apsw.Connection:
        opened.read_only = True
        return opened._open_as_it_is()

    monkeypatch.setattr(Database, "_open", open_read_only)
    with SqliteStore(file) as reader:
        assert len(matching_paths(reader, "apple")) == 10


def test_what_a_file_says_calls_no_function_that_reaches_beyond_it(file: Path) -> None:
    opened = Database(file)
    try:
        assert opened.number("PRAGMA trusted_schema") == 0
        reader = opened._open_as_it_is()
        assert reader.pragma("trusted_schema") == 0
        reader.close()
    finally:
        opened.close()


def test_a_first_search_on_a_full_disk_says_that_it_is_full(annai: Annai, write: Write, small_disk: Path) -> None:
    write("a.md", "# A\n\napple")
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    told = annai("search", "apple", code=2, environment={"XDG_STATE_HOME": str(small_disk / "state")}).stderr
    assert "There is no space left" in told
