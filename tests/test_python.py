"""Is the front door open? What `import annai` gives, and what docs/python.md shows."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import annai
from annai import errors
from annai.answers import Answer, Freshness, Hit
from annai.engine import Engine
from annai.interfaces.http import Application
from annai.interfaces.rpc import Service
from annai.serving.client import Client
from tests.conftest import EXAMPLES
from tests.loopback import served

Write = Callable[[str, str], Path]

PAGE = Path(__file__).parent.parent / "docs" / "python.md"
QUICK = '[embedding]\nprovider = "hashing"\n'


@pytest.fixture
def folder(docs: Path, write: Write) -> Path:
    """A folder with two documents."""
    write("annai.toml", QUICK)
    write("fruit/apple.md", "# Apples\n\nAn apple a day.")
    write("pear.md", "# Pears\n\nA pear for tea.")
    return docs


def test_every_public_name_is_there_and_no_other() -> None:
    for name in annai.__all__:
        assert getattr(annai, name).__name__ == name
        assert name in dir(annai)
    with pytest.raises(AttributeError, match="no attribute 'serach'"):
        annai.serach  # type: ignore[attr-defined] # noqa: B018 - what a slip of the pen does


def test_every_error_is_public() -> None:
    assert {name for name, each in vars(errors).items() if isinstance(each, type)} <= {*annai.__all__}


def test_a_plain_string_is_a_query_and_keywords_are_its_options(folder: Path) -> None:
    with annai.open(folder) as project:
        found = [(hit.path, hit.start_line, hit.text) for hit in project.search("apple", mode="keyword")]
        assert found == [("fruit/apple.md", 1, "# Apples\n\nAn apple a day.")]
        assert not project.search("apple", mode="keyword", excludes=["fruit"])
        assert len(project.search("a", limit=1, refresh=False)) == 1
        with pytest.raises(annai.QueryError, match="limit must be"):
            project.search("apple", limit=0)


def test_a_search_sees_what_was_saved_just_before_unless_it_is_not_to_look(folder: Path, write: Write) -> None:
    with annai.open(folder) as project:
        project.search("apple")
        write("plum.md", "# Plums\n\nA purple plum.")
        assert not project.search("purple", mode="keyword", refresh=False)
        assert project.search("purple", mode="keyword")[0].path == "plum.md"


def test_the_current_folder_is_opened_as_the_command_line_opens_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "fruit")
    with annai.open() as project:
        assert project.search("pear", mode="keyword")[0].path == "pear.md"
    with annai.open(folder / "fruit", config=folder / "annai.toml") as project:
        assert not project.search("pear", mode="keyword")


def test_a_named_server_is_used_and_none_keeps_to_this_process(engine: Engine, write: Write) -> None:
    write("a.md", "# A\n\napple")
    with served(Application(Service(engine, engine.config))) as port:
        with annai.open(engine.config.root, server=f"http://127.0.0.1:{port}") as project:
            assert isinstance(project, Client)
            assert project.search("apple", mode="keyword")[0].path == "a.md"
        with annai.open(engine.config.root, server=None) as project:
            assert isinstance(project, Engine)


@pytest.mark.parametrize("remote", [False, True])
def test_several_threads_may_use_one_project(engine: Engine, write: Write, remote: bool) -> None:
    for number in range(20):
        write(f"{number}.md", f"# {number}\n\nword{number}")
    engine.refresh()
    with served(Application(Service(engine, engine.config))) as port:
        project: annai.Project = Client(f"http://127.0.0.1:{port}") if remote else engine
        with ThreadPoolExecutor(8) as threads:
            answers = threads.map(lambda number: project.search(f"word{number % 20}", mode="keyword"), range(80))
            assert [answer[0].path for answer in answers] == [f"{number % 20}.md" for number in range(80)]
        if remote:
            project.close()


def test_a_notebook_shows_an_answer_as_a_table_in_which_nothing_is_live() -> None:
    hostile = "<script>alert(1)</script>"
    hit = Hit("root:a.md", "root", f"{hostile}.md", "", "", (hostile,), 0, (), 1, 1, 0, 1, 1, 0.5, "", preview=hostile)
    shown = Answer("q", 1.0, 1, (hit,))._repr_html_()
    assert shown.startswith("<table>")
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 3


def test_freshness_is_told_in_sentences() -> None:
    assert Freshness().notes == []
    assert Freshness(1, "Why.").notes[0].startswith("1 file is still being indexed")
    assert Freshness(1, "Why.").notes[1] == "Why."


def test_the_examples_of_the_page_work(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns(".annai"))
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    checks = "assert 1 < len(documents) <= 5 and documents[0].metadata['path']\nassert answer and best.score > 0\n"
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks) + checks, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "There is no document" in done.stdout
