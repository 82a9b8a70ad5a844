"""Do the documents tell the truth? Generated pages are fresh, and what the README shows can be typed."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest
from click.testing import CliRunner
from playwright.sync_api import expect, sync_playwright

from annai.interfaces.cli import cli
from tests.browser import CHROMIUM, needs_chromium
from tests.conftest import state_of

ROOT = Path(__file__).parent.parent


def script(name: str) -> ModuleType:
    """A script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_fresh() -> None:
    for name, page in script("generate").PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), f"run make docs: docs/{name} is stale"


def words_of(drawing: str) -> str:
    """The words of a drawing, whatever time the searches in it took."""
    lines = re.findall(r">([^<]*)</text>", drawing)
    return re.sub(r"\d+(?=&#160;ms)", "…", "\n".join(lines))


def test_the_picture_shows_what_is_printed_today() -> None:
    drawn, kept = script("picture").draw(), (ROOT / "docs" / "search.svg").read_text(encoding="utf-8")
    assert words_of(drawn) == words_of(kept), "run make picture: docs/search.svg is stale"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.mark.xdist_group("site")
def test_the_site_is_built_with_every_link_and_page_in_place(site: Path) -> None:
    for page in ("index", "quickstart", "guides/notes", "ja/index", "ja/quickstart", "ja/guides/team", "ja/models"):
        assert (site / f"{page}.html").is_file()
    # A line that ends inside a sentence leaves no space in Japanese.
    assert "ファイルだけを読み直し" in (site / "ja" / "quickstart.html").read_text(encoding="utf-8")


@pytest.mark.xdist_group("site")
@needs_chromium
def test_the_sites_search_finds_phrases_in_japanese_and_english(site: Path) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep the tests' output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever).start()
        try:
            with sync_playwright() as driver:
                page = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]).new_page()
                page.goto(f"http://127.0.0.1:{server.server_port}/ja/index.html")
                field = page.locator("input[name=query]")
                field.focus()
                for phrase, address in {
                    "エージェントにつなぐ": "quickstart.html",
                    "ほかのモデル": "models.html",
                    "はじめに": "quickstart.html",
                    "Project.search": "api.html",
                }.items():
                    field.fill(phrase)
                    field.press("End")  # the theme looks when a key is released
                    expect(page.locator(f".md-search-result__link[href*='{address}']").first).to_be_visible()
        finally:
            server.shutdown()


READMES = [ROOT / "README.md", ROOT / "README.ja.md"]
GUIDES = [
    each
    for pattern in ("quickstart*.md", "troubleshooting.md", "models*.md", "guides/*.md")
    for each in (ROOT / "docs").glob(pattern)
]

TYPED_ELSEWHERE = re.compile(r"(annai (server|setup|eval|doctor)|docker|uv|cd|export)\b")
"""What the guides show that has tests of its own, or needs what is not here."""


def shown(page: Path) -> list[str]:
    """The commands that a page shows: the lines of its blocks for a shell, and the first cells of its tables."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    cells: list[str] = re.findall(r"^\| `(annai [^`]*)`", text, re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line] + cells


def type_in(command: str) -> None:
    """Run a command in this process, and expect it to do its work."""
    words = shlex.split(command, comments=True)
    assert words[0] == "annai", command
    done = CliRunner().invoke(cli, words[1:])
    # A search that finds nothing good has done its work, too.
    assert done.exit_code == 0 or (words[1] == "search" and done.exit_code == 1), (command, done.output)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, as a reader has them, with two folders that the guides name."""
    tree = tmp_path_factory.mktemp("tree") / "examples"
    shutil.copytree(ROOT / "examples", tree, ignore=shutil.ignore_patterns(".annai"))
    for name in ("work", "private"):
        (tree / name).mkdir()
        (tree / name / "a.md").write_text("# Deadlines 締め切り\n\nFriday 金曜日")
    return tree


@pytest.fixture
def tree(examples: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples as the current folder, not yet indexed."""
    monkeypatch.chdir(examples)
    shutil.rmtree(state_of(examples), ignore_errors=True)
    (examples / "annai.toml").unlink(missing_ok=True)
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setenv("BROWSER", "true")
    return examples


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("page", sorted(GUIDES), ids=lambda page: page.name)
def test_what_the_guides_show_can_be_typed(page: Path) -> None:
    for command in shown(page):
        if not TYPED_ELSEWHERE.match(command):
            type_in(command)


@pytest.mark.usefixtures("tree")
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")  # a server outlives the command that started it
def test_what_the_readmes_show_can_be_typed() -> None:
    elsewhere = {"uv tool install .", "annai doctor"}  # tests of their own
    commands = [each for each in dict.fromkeys(shown(READMES[0]) + shown(READMES[1])) if each not in elsewhere]
    assert len(commands) >= 10
    try:
        for command in commands:
            type_in(command)
    finally:
        type_in("annai server stop")


def test_the_python_of_the_readmes_runs(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tree.parent)
    (code,) = {re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)[0] for page in READMES}
    exec(code, {})  # noqa: S102 - what the reader copies
    assert capsys.readouterr().out.startswith("engineering/環境構築.md ")


def test_both_readmes_say_the_same() -> None:
    english, japanese = (page.read_text(encoding="utf-8") for page in READMES)
    assert shown(READMES[0]) == shown(READMES[1])
    for pattern in (
        r"^(#+) ",  # headings
        r"`([^`\n]+)`",  # commands and names
        r"^\|(?=.*\|$)",  # rows
        r"\d[\d,.:-]*(?<=\d)",  # figures and dates
        r"\]\(([^)]+?)(?:\.ja)?(?:\.md)?\)",  # links
    ):
        of_each = [sorted(re.findall(pattern, text, re.MULTILINE)) for text in (english, japanese)]
        assert of_each[0] == of_each[1], pattern


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_readmes_figures_are_those_that_were_measured(page: Path) -> None:
    rows = re.findall(r"^\| (.*?) \| (.*?) \| \[`(benchmarks/\w+\.py)`\]\((.*?)\) \|$", page.read_text(), re.MULTILINE)
    assert len(rows) >= 6
    for *cells, script, report in rows:
        assert (ROOT / script).is_file()
        measured = set(re.findall(r"\d[\d,.]*", (ROOT / report).read_text(encoding="utf-8")))
        for figure in re.findall(r"\d[\d,.]*", " ".join(cells)):
            assert figure.rstrip(",.") in {each.rstrip(",.") for each in measured}, (figure, report)


@pytest.mark.parametrize("page", ["README.md", "README.ja.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
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


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\((\S+)\)", (folder / "index.md").read_text(encoding="utf-8"))
    assert listed == sorted(file.name for file in folder.glob("0*.md"))


def test_make_names_everything_it_can_do() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split()) - {"help", "lint"}
    assert targets == set(re.findall(r'@echo "make (\w+)', text))
    shown_to_contributors = set(re.findall(r"`make (\w+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    assert targets - {"clean"} == shown_to_contributors
