"""Are settings found, checked and explained?"""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from annai.config import Config, load_config, override
from annai.embedders.base import PROVIDERS as EMBEDDERS
from annai.errors import ConfigError
from annai.rerankers.base import PROVIDERS as RERANKERS
from annai.settings import SECTIONS, USER_SETTINGS, template
from annai.splitters.base import STRATEGIES
from annai.state import make
from annai.stores.base import ENGINES
from tests.conftest import state_of


def load(folder: Path, text: str, name: str = "annai.toml") -> Config:
    (folder / name).write_text(text, encoding="utf-8")
    return load_config(start=folder, environment={})


def test_without_a_file_every_setting_has_its_default(tmp_path: Path) -> None:
    config = load_config(start=tmp_path)
    assert config.root == tmp_path
    assert config.file is None
    assert config.search.limit == 5
    assert config.database_path == state_of(tmp_path) / "index.sqlite"


def test_the_file_is_found_by_walking_up(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "annai.toml").write_text("[search]\nlimit = 7\n")
    config = load_config(start=inner, environment={})
    assert (config.root, config.search.limit) == (tmp_path, 7)


def test_an_index_marks_a_project_too(tmp_path: Path) -> None:
    (tmp_path / "p" / "deep").mkdir(parents=True)
    make(state_of(tmp_path / "p"), tmp_path / "p")
    assert load_config(start=tmp_path / "p" / "deep").root == tmp_path / "p"


def test_an_index_in_the_home_folder_draws_nothing_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    make(state_of(tmp_path), tmp_path)
    (tmp_path / "below").mkdir()
    assert load_config(start=tmp_path / "below").root == tmp_path / "below"


def test_a_named_file_comes_before_the_environment_and_that_before_walking_up(tmp_path: Path) -> None:
    for name, limit in (("annai.toml", 1), ("env.toml", 2), ("named.toml", 3)):
        (tmp_path / name).write_text(f"[search]\nlimit = {limit}\n")
    environment = {"ANNAI_CONFIG": str(tmp_path / "env.toml")}
    assert load_config(start=tmp_path, environment={}).search.limit == 1
    assert load_config(start=tmp_path, environment=environment).search.limit == 2
    assert load_config(config=tmp_path / "named.toml", environment=environment).search.limit == 3


def test_pyproject_works_too_and_is_ignored_without_our_table(tmp_path: Path) -> None:
    assert load(tmp_path, "[tool.annai.search]\nlimit = 9\n", "pyproject.toml").search.limit == 9
    for without in ("[tool.other]\nx = 1\n", "tool = 1\n", "[this is not TOML\n", "\xff"):
        assert load(tmp_path, without, "pyproject.toml").file is None
    with pytest.raises(ConfigError, match=r"tool\.annai must be a table"):
        load(tmp_path, "[tool]\nannai = 1\n", "pyproject.toml")


def test_the_root_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    assert load(tmp_path, '[project]\nroot = "docs"\n').root == tmp_path / "docs"
    with pytest.raises(ConfigError, match="is not a folder"):
        load(tmp_path, '[project]\nroot = "nowhere"\n')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serach]\nlimit = 1", r"unknown section \[serach\]; did you mean 'search'\?"),
        ("[search]\nlimt = 1", r"unknown key search.limt; did you mean 'limit'\?"),
        ("[search]\nxyz = 1", "unknown key search.xyz; choose from limit, per_document, mode, content"),
        ('[search]\nlimit = "5"', "search.limit must be a whole number, not '5'"),
        ("[search]\nlimit = true", "search.limit must be a whole number, not True"),
        ("[search]\nlimit = 0", "search.limit must be between 1 and 1,000, not 0"),
        ('[database]\npath = ""', "database.path must name a file, not ''"),
        ('[logging]\nfile = ""', "logging.file must name a file, not ''"),
        ('[search]\nmode = "magic"', "search.mode must be one of hybrid, vector, keyword, exact, not 'magic'"),
        ('[files]\ninclude = "*.md"', "files.include must be a list of strings"),
        ("[files]\ninclude = [1]", "each of .*files.include must be a string, not 1"),
        ("[logging]\nrotate_mb = nan", "logging.rotate_mb must be a number, not nan"),
        ("[chunking]\nheading_levels = [0]", "chunking.heading_levels must be between 1 and 6, not 0"),
        ("[chunking]\nsize = 512\noverlap = 600", "must be less than chunking.size"),
        ("search = 1", r"search must be a section: write \[search\]"),
        ("[search\n", "is not valid TOML"),
    ],
)
def test_what_is_not_understood_is_an_error_that_names_file_key_and_what_is_allowed(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, text)
    assert "annai.toml" in str(caught.value)


def test_every_choice_of_a_family_has_its_module() -> None:
    families = {
        ("store", "engine"): ENGINES,
        ("chunking", "strategy"): STRATEGIES,
        ("embedding", "provider"): EMBEDDERS,
        ("search", "rerank"): {"off": "", **RERANKERS},
    }
    for (section, key), table in families.items():
        (item,) = (each for each in fields(SECTIONS[section]) if each.name == key)
        assert list(item.metadata["limits"].choices) == list(table), f"{section}.{key}"


def test_a_whole_number_is_good_enough_for_a_number(tmp_path: Path) -> None:
    assert load(tmp_path, "[files]\nmax_file_mb = 3\n").files.max_file_mb == 3


def test_overrides_are_checked_as_the_file_is(tmp_path: Path) -> None:
    config = load_config(start=tmp_path, environment={})
    assert override(config, "chunking", size=600, overlap=None).chunking.size == 600
    with pytest.raises(ConfigError, match=r"the command line: chunking.size must be between 512 and 4,096, not 3"):
        override(config, "chunking", size=3)
    with pytest.raises(ConfigError, match=r"the command line: chunking.overlap \(1024\) must be less than"):
        override(config, "chunking", overlap=1024)


def test_the_template_explains_every_setting_and_loads_when_uncommented(tmp_path: Path) -> None:
    text = template()
    for name, section in SECTIONS.items():
        assert (f"\n[{name}]\n" in text) is (name != "trust")
        for item in [each for each in fields(section) if f"{name}.{each.name}" not in USER_SETTINGS]:
            assert f"# {item.name} = " in text, f"{name}.{item.name}"
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("[") or " = " in line]
    loaded = load(tmp_path, "\n".join(lines))
    # It names places of its own, which the user has not allowed a project.
    assert not loaded.is_trusted
    assert replace(loaded, is_trusted=True) == load(tmp_path, "")


def test_no_color_is_heard(tmp_path: Path) -> None:
    assert load_config(start=tmp_path, environment={"NO_COLOR": "1"}).display.color == "never"
    assert load_config(start=tmp_path, environment={"FORCE_COLOR": "1"}).display.color == "always"
    assert load_config(start=tmp_path, environment={"NO_COLOR": "1", "FORCE_COLOR": "1"}).display.color == "never"
