"""Does the doctor see what is broken, say how to mend it, and keep secrets and documents to itself?"""

import json
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from annai.config import load_config
from annai.engine import Engine
from annai.interfaces import doctor
from annai.interfaces.doctor import Found, examine
from tests.conftest import Annai, edit_index, state_of

HASHING = '[embedding]\nprovider = "hashing"\n'
SECRET = "s3cr3t-key"  # noqa: S105 - of nothing

Break = Callable[[Path, pytest.MonkeyPatch], None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an index of one document."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "annai.toml").write_text(HASHING)
    (folder / "a.md").write_text("# Confidential\n\nNobody may read this.")
    with Engine(load_config(docs_dir=folder)) as engine:
        engine.refresh()
    return folder


def no_mcp(_config: object) -> Found:
    """Instead of starting a process for every broken set-up."""
    return iter(())


def settings(text: str) -> Break:
    def write(folder: Path, _patch: pytest.MonkeyPatch) -> None:
        (folder / "annai.toml").write_text(text)

    return write


def trusted(text: str) -> Break:
    """Settings that the user named."""

    def write(folder: Path, patch: pytest.MonkeyPatch) -> None:
        (folder / "annai.toml").write_text(text)
        patch.setenv("ANNAI_CONFIG", str(folder / "annai.toml"))

    return write


def sql(*statements: str) -> Break:
    def run(folder: Path, _patch: pytest.MonkeyPatch) -> None:
        edit_index(folder, *statements)

    return run


def corrupt_index(folder: Path, _patch: pytest.MonkeyPatch) -> None:
    (state_of(folder) / "index.sqlite").write_bytes(b"not a database at all" * 1000)


def crash_server(folder: Path, _patch: pytest.MonkeyPatch) -> None:
    (state_of(folder) / "server.pid").write_text("{}")


def open_to_others(folder: Path, _patch: pytest.MonkeyPatch) -> None:
    state_of(folder).chmod(0o755)


def fill_disk(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    patch.setattr(shutil, "disk_usage", lambda _path: usage(10**9, 10**9, 1000))


def lose_folder(folder: Path, _patch: pytest.MonkeyPatch) -> None:
    other = folder.parent / "other"
    other.mkdir()
    with Engine(load_config(docs_dir=folder)) as engine:
        engine.add_collection("notes", other)
    other.rmdir()


BROKEN: dict[str, tuple[Break, str, str, str]] = {
    "settings that cannot be read": (settings("[search"), "Settings", "fail", "annai.toml"),
    "an unknown setting": (settings("[search]\nlimti = 5\n"), "Settings", "fail", "limit"),
    "settings that are not trusted": (
        settings('[embedding]\nprovider = "openai"\nbase_url = "http://192.0.2.1/v1"\n'),
        "Settings",
        "warn",
        "annai trust",
    ),
    "a corrupt index": (corrupt_index, "Index", "fail", ""),
    "a document without its vectors": (
        sql("DELETE FROM vectors"),
        "Index",
        "fail",
        "annai store check --repair",
    ),
    "an index of a newer annai": (sql("PRAGMA user_version = 999"), "Index", "fail", ""),
    "a server that crashed": (crash_server, "Server", "warn", "annai server start"),
    "an index that others can read": (open_to_others, "Folder", "warn", "chmod 700"),
    "a full disk": (fill_disk, "Disk", "fail", "Free some space"),
    "a collection whose folder is gone": (lose_folder, "Files", "fail", "annai collection delete notes"),
    "a service that does not answer": (
        trusted(
            '[embedding]\nprovider = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
            "[retry]\nmax_retries = 0\n"
        ),
        "Model",
        "fail",
        "",
    ),
    "a store that cannot be reached": (
        trusted(f'[store]\nengine = "postgres"\nurl = "postgresql://me:{SECRET}@127.0.0.1:9/x"\n' + HASHING),
        "Index",
        "fail",
        "",
    ),
    "requests that wait in vain": (
        sql(
            "INSERT INTO index_requests (collection, path, created_at) VALUES ('root', 'b.md', "
            "'2020-01-01T00:00:00+00:00')"
        ),
        "Queue",
        "warn",
        "annai server start",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_set_up_is_found_with_what_to_do(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    break_it, check, state, fix = BROKEN[name]
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setattr(doctor, "_mcp", no_mcp)
    break_it(project, monkeypatch)
    findings = [*examine(docs_dir=project)]
    found = [each for each in findings if each.check == check and each.state == state]
    assert found, findings
    assert any(fix in each.fix + each.text for each in found), found
    assert all(each.fix for each in findings if each.state != "ok")
    report = json.dumps([(each.text, each.fix) for each in findings])
    assert SECRET not in report
    assert "Nobody may read this" not in report


@pytest.fixture
def sound(annai: Annai) -> Annai:
    """A project with an index, and nothing wrong with it."""
    (annai.folder / "a.md").write_text("# Title\n\ntext")
    annai("search", "text", code=None)
    return annai


def test_all_is_well_with_a_sound_project(sound: Annai) -> None:
    findings = json.loads(sound("doctor", "--json").stdout)
    assert {each["state"] for each in findings} == {"ok"}
    assert [each["check"] for each in findings] == [
        *(
            "Python",
            "annai",
            "Extras",
            "Plugins",
            "Settings",
            "Folder",
            "Disk",
            "Server",
            "Index",
            "Queue",
            "Files",
            "Model",
            "MCP",
        )
    ]


def test_folders_that_are_ignored_are_named_with_the_rule(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_mcp", no_mcp)
    (project / "drafts").mkdir()
    (project / "drafts" / "b.md").write_text("# B")
    (project / ".gitignore").write_text("drafts/\n")
    texts = [each.text for each in examine(docs_dir=project) if each.check == "Files"]
    assert any("drafts/" in each and ".gitignore:1" in each for each in texts), texts


def test_the_exit_status_is_1_if_something_fails_and_quiet_shows_only_that(sound: Annai) -> None:
    (sound.folder / "annai.toml").write_text("[search")
    told = sound("doctor", "--color", "never", "-q", code=1).stdout
    assert told.startswith("fail  Settings")
    assert "→" in told
    assert "\nok" not in told


def test_a_problem_and_its_remedy_are_told_apart_whatever_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_mcp", no_mcp)
    monkeypatch.setenv("ANNAI_STATE", str(tmp_path / "a; b"))
    folder = tmp_path / "docs"
    folder.mkdir()
    index = load_config(docs_dir=folder).database_path
    index.parent.mkdir(parents=True)
    index.write_text("This is no database at all, and never was.")
    (found,) = (each for each in examine(docs_dir=folder) if each.check == "Index")
    assert str(index) in found.text
    assert found.fix.startswith("name another file in database.path")
