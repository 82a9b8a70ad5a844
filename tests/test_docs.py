"""Do the documents tell the truth? Generated pages are fresh, and what the README shows can be typed."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from annai.interfaces.cli import cli
from tests.conftest import Annai

ROOT = Path(__file__).parent.parent


def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_fresh() -> None:
    for name, page in generate().PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), f"run make docs: docs/{name} is stale"


def test_the_site_is_built_with_every_link_and_page_in_place(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for page in ("index", "quickstart", "guides/notes", "ja/index", "ja/quickstart", "ja/guides/team", "commands"):
        assert (tmp_path / "site" / f"{page}.html").is_file()


TYPED_ELSEWHERE = re.compile(r"(annai (server|setup|eval|doctor)|docker|uv|cd|export)\b")
"""What the guides show that has tests of its own, or needs what is not here."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, as the guides' reader has them, with two folders that they name."""
    tree = tmp_path_factory.mktemp("tree") / "examples"
    shutil.copytree(ROOT / "examples", tree, ignore=shutil.ignore_patterns(".annai"))
    for name in ("work", "private"):
        (tree / name).mkdir()
        (tree / name / "a.md").write_text("# Deadlines 締め切り\n\nFriday 金曜日")
    return tree


GUIDES = [
    ROOT / "docs" / "quickstart.md",
    ROOT / "docs" / "troubleshooting.md",
    *(ROOT / "docs" / "guides").glob("*.md"),
]


@pytest.mark.parametrize("page", sorted(GUIDES), ids=lambda page: page.name)
def test_what_the_guides_show_can_be_typed(page: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    shutil.rmtree(tree / ".annai", ignore_errors=True)
    (tree / "annai.toml").unlink(missing_ok=True)
    monkeypatch.setenv("VISUAL", "true")
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if not words or TYPED_ELSEWHERE.match(line):
                continue
            assert words[0] == "annai", line
            done = CliRunner().invoke(cli, words[1:])
            # A search that finds nothing good has done its work, too.
            assert done.exit_code == 0 or (words[1] == "search" and done.exit_code == 1), (line, done.output)


def readme_commands() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(annai [^`]*)`", text, re.MULTILINE)


def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "examples", tree, ignore=shutil.ignore_patterns(".annai"))
    (tree / "docs").mkdir()
    (tree / "api").mkdir()
    (tree / "api" / "a.md").write_text("# API\n\nOAuth")
    (tree / "pyproject.toml").write_text('[tool.annai.embedding]\nprovider = "hashing"\n')
    (tree / "Q.jsonl").write_text('{"id": "1", "text": "OAuth", "type": "word"}\n')
    (tree / "R.tsv").write_text("1\ta.md\t1\n")
    annai = Annai(tree)
    commands = readme_commands()
    assert len(commands) >= 8
    try:
        for command in commands:
            annai(*shlex.split(command)[1:], environment={"VISUAL": "true", "BROWSER": "true"})
    finally:
        annai("server", "stop")


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target


def test_every_room_is_on_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for path in (ROOT / "src" / "annai").iterdir():
        if path.suffix == ".py" and not path.name.startswith("__"):
            assert f"`{path.name}`" in text, path.name
        elif path.is_dir() and not path.name.startswith("__"):
            assert f"`{path.name}/`" in text, path.name


def test_make_names_everything_it_can_do() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split()) - {"help", "lint"}
    assert targets == set(re.findall(r'@echo "make (\w+)', text))
