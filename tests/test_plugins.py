"""Can another package bring an embedder, a store, a splitter and a reranker? The example of docs/extending.md does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from annai import plugins
from annai.config import load_config
from annai.embedders import base as embedders
from annai.errors import ConfigError, EmbedderError
from annai.interfaces import doctor
from annai.rerankers import base as rerankers
from annai.settings import Embedding
from annai.splitters import base as splitters
from annai.stores import base as stores
from tests.conftest import Annai, state_of

GUIDE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(?:toml|python)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the example was installed with pip."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    project, models, storage, settings, tests = BLOCKS
    (source / "annai_letters").mkdir()
    for name, text in (
        ("pyproject.toml", project),
        ("annai_letters/__init__.py", ""),
        ("annai_letters/models.py", models),
        ("annai_letters/storage.py", storage),
    ):
        (source / name).write_text(text, encoding="utf-8")
    (target / "annai.toml").write_text(settings)
    (target / "test_letters.py").write_text(tests)
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", target, source], check=True)
    return target


@pytest.fixture
def annai(docs: Path, installed: Path, monkeypatch: pytest.MonkeyPatch) -> Annai:
    """The program, in a folder whose settings name the plugins."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(installed), os.environ.get("PYTHONPATH", ""))))
    (docs / "annai.toml").write_text((installed / "annai.toml").read_text())
    (docs / "配達.md").write_text("# 再配達\n\n荷物の再配達を申し込む\n\n## 時間\n\n夜も届ける", encoding="utf-8")
    (docs / "apple.md").write_text("# Apple\n\napple pie")
    return Annai(docs)


def test_the_example_is_used_through_the_command_line_once_it_is_trusted(annai: Annai, docs: Path) -> None:
    untrusted = annai("search", "apple pie", "--format", "json")
    assert "store.engine, chunking.strategy, embedding.provider, search.rerank" in untrusted.stderr
    assert not (state_of(docs) / "letters.sqlite").exists()
    annai("trust", "--yes")
    (hit, *_) = json.loads(annai("search", "荷物の再配達", "--format", "json", "--explain").stdout)["results"]
    assert hit["path"] == "配達.md"
    assert "夜も届ける" in hit["content"]
    assert (state_of(docs) / "letters.sqlite").exists()
    assert "letters-1/256" in annai("model", "show").stdout
    assert "reranker 1.00" in annai("search", "apple pie", "--explain").stdout
    (docs / "annai.toml").write_text('[embedding]\nprovider = "leters"\n')
    wrong = annai("search", "apple", code=None)
    assert "static, sentence-transformers" in wrong.stderr
    assert "(installed plugins: letters), not 'leters'; did you mean 'letters'?" in wrong.stderr


def test_the_example_keeps_the_contracts_by_the_suites_that_annai_ships(annai: Annai, installed: Path) -> None:  # noqa: ARG001 - it sets the path
    # The quick ones: annai's own tests run the suites whole.
    chosen = "keeps_the_contract or scores_alike or comes_back or latest_request or another_opening"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", installed, "-k", chosen],
        cwd=installed,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


def test_doctor_names_the_plugins(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    ((state, text, _),) = doctor._plugins()
    assert state == "ok"
    assert text == "letters (embedders), letter-box (stores), whole (splitters), shared-letters (rerankers)"


def test_the_built_in_names_are_those_of_the_tables() -> None:
    assert {group: set(names) for group, names in plugins.BUILT_IN.items()} == {
        "annai.embedders": set(embedders.PROVIDERS),
        "annai.stores": set(stores.ENGINES),
        "annai.splitters": set(splitters.STRATEGIES),
        "annai.rerankers": {"off", *rerankers.PROVIDERS},
    }


def test_a_plugin_that_is_missing_or_broken_is_an_error_that_says_what_to_do(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[annai.embedders]\nbroken = nowhere:create\nnumber = math:pi\nstatic = nowhere:create\n"
        "[annai.rerankers]\nbroken = nowhere:create\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, message in (
        ("broken", "The plugin 'broken' of the package broken cannot be loaded .*ModuleNotFoundError"),
        ("number", "is no function"),
        ("nobody", "There is no 'nobody' among annai.embedders: static,.* broken, number; install"),
    ):
        with pytest.raises(EmbedderError, match=message):
            embedders.load_embedder(Embedding(provider=name))
    assert embedders.load_embedder(Embedding()).identity.startswith("static")
    assert plugins.installed("annai.embedders") == ["broken", "number"]
    (docs / "annai.toml").write_text('[store]\nengine = "sqlit"\n')
    with pytest.raises(ConfigError, match=r"\(no plugin is installed\), not 'sqlit'; did you mean 'sqlite'\?"):
        load_config(docs_dir=docs)


def test_a_search_with_built_in_names_does_not_look_for_plugins(docs: Path) -> None:
    (docs / "a.md").write_text("# Apple")
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n[chunking]\nstrategy = "tokens"\n')
    loaded = [sys.executable, "-X", "importtime", "-m", "annai", "search", "apple"]
    done = subprocess.run(loaded, cwd=docs, capture_output=True, text=True, check=True)
    assert "annai.plugins" in done.stderr
    assert "importlib.metadata" not in done.stderr
