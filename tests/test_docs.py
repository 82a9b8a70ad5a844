"""Do the documents tell the truth? Generated pages are fresh, and what the README shows can be typed."""

import importlib.util
import re
import shlex
import shutil
from pathlib import Path
from types import ModuleType

import pytest

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
