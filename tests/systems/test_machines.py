"""Does annai work on machines that are not here? Other ways to start processes, other clocks, locales and names."""

import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tests.conftest import state_of
from tests.systems.life import Machine, live, paths

SPAWN_ONLY = """
import multiprocessing
import os
for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
    if hasattr(os, name):
        delattr(os, name)
multiprocessing.set_start_method("spawn")
"""
"""Run by every Python that starts: it has no `fork`, as on Windows, and starts processes as there and on macOS."""

PLAIN_C = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
"""The locale C as it is without Python's help: file names and output are ASCII."""

PATH_CHARACTERS = 240
"""Windows takes paths of up to 259 characters unless the user allowed longer ones."""


@pytest.fixture
def spawn_only(tmp_path: Path) -> dict[str, str]:
    library = tmp_path / "library"
    library.mkdir()
    (library / "sitecustomize.py").write_text(SPAWN_ONLY)
    return {"PYTHONPATH": str(library)}


def test_where_processes_are_only_spawned(docs: Path, spawn_only: dict[str, str]) -> None:
    live(docs, spawn_only)


def test_where_processes_are_only_spawned_many_index_and_a_script_runs_once(
    docs: Path, spawn_only: dict[str, str]
) -> None:
    """A script without `if __name__ == "__main__"` would run again in every process that `multiprocessing` spawns."""
    for number in range(60):
        (docs / f"{number}.md").write_text(f"# Page {number}\n\n" + "An apple. " * 50)
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n[worker]\nprocesses = 2\n')
    script = docs.parent / "script.py"
    script.write_text(
        "import annai\n"
        "from annai.indexing import processes\n"
        "processes.PARALLEL_FROM_FILES = 2\n"
        "print('begin')\n"
        f"with annai.open({str(docs)!r}, server=None) as project:\n"
        "    print(project.rebuild().added)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | spawn_only,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "begin\n60\n"), done.stderr


@pytest.mark.parametrize("zone", ["<+14>-14", "<-12>12"])
def test_where_it_is_another_day(docs: Path, zone: str) -> None:
    live(docs, {"TZ": zone})


@pytest.mark.skipif(os.name == "nt", reason="the system's own date is asked")
@pytest.mark.parametrize("zone", ["<+14>-14", "<-12>12"])
def test_dates_are_days_of_the_reader(docs: Path, zone: str) -> None:
    annai = Machine(docs, {"TZ": zone})
    (docs / "a.md").write_text("# A\n\nAn apple.")

    def day(when: str) -> str:
        command = [sys.executable, "-c", f"import datetime as d; print(d.date.today() + d.timedelta({when}))"]
        return subprocess.check_output(command, env=os.environ | {"TZ": zone}, text=True).strip()

    assert paths(annai, "apple", "--since", day("-1"), "--until", day("1")) == {"a.md"}
    assert paths(annai, "apple", "--since", day("2")) == set()
    assert paths(annai, "apple", "--until", day("-2")) == set()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locale")
def test_where_the_locale_is_c(docs: Path) -> None:
    live(docs, PLAIN_C)


def test_names_that_are_stored_with_their_accents_apart(docs: Path) -> None:
    """As macOS stores what is typed in some programs: index and answers have one form, the disk keeps its own."""
    live(docs, names=("Guide", unicodedata.normalize("NFD", "café ガイド")))


def test_a_name_is_found_in_either_form(docs: Path) -> None:
    apart, together = (unicodedata.normalize(form, "ガイド/設計パス.md") for form in ("NFD", "NFC"))
    (docs / apart).parent.mkdir()
    (docs / apart).write_text("# Plan\n\nAn apple.")
    annai = Machine(docs, {})
    assert paths(annai, "apple") == {together}
    for form in (apart, together):
        assert "An apple" in annai("get", form).stdout
        assert paths(annai, "apple", "--path", form.partition("/")[0]) == {together}
    (docs / apart).unlink()
    assert paths(annai, "apple") == set()


def test_paths_of_240_characters(docs: Path) -> None:
    while len(str(docs)) < PATH_CHARACTERS - 60:
        docs = docs / ("long" * 10)
    docs.mkdir(parents=True)
    inner = "n" * (PATH_CHARACTERS - len(str(docs)) - len("/Guide/.md"))
    live(docs, names=("Guide", inner))
    # The state's own paths do not grow with the project's.
    assert len(state_of(docs).name) < 100
