"""Is annai ready to be released? What is built works by itself, and what publishes it is sound."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
import yaml

from annai import __version__
from tests.test_docs import ROOT
from tests.wheel import ask

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, capture_output=True, check=True
    )
    return folder


def needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """A distribution and all that it needs, without extras."""
    own = found[name] = distribution(name)
    for line in own.requires or []:
        other = re.split(r"[\s<>=!~;\[(]", line, maxsplit=1)[0]
        if "extra ==" in line or other.lower() in (each.lower() for each in found):
            continue
        try:
            needed(other, found)
        except ModuleNotFoundError:
            assert ";" in line, f"{line} is needed and not installed"  # only what another system needs may be missing
    return found


def test_the_wheel_answers_in_an_environment_that_has_only_what_it_asks_for(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)  # noqa: S202 - built here
        names = archive.namelist()
    assert "annai/py.typed" in names
    assert {"LICENSE", "NOTICE.md"} <= {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert not any(name.startswith(("tests", "docs")) or ".annai" in name for name in names)
    for each in list(needed("annai", {}).values())[1:]:
        for top in {file.parts[0] for file in each.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(str(each.locate_file(top)))
    code = f"import sys; sys.path.insert(0, {str(site)!r}); from annai.__main__ import main; main()"
    offline = ["unshare", "--net"] if can_cut_the_network() else []
    ask([*offline, sys.executable, "-I", "-S", "-c", code], tmp_path / "documents")


def can_cut_the_network() -> bool:
    return bool(shutil.which("unshare")) and not subprocess.run(["unshare", "--net", "true"], check=False).returncode


def test_the_source_distribution_has_what_building_and_testing_need(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"pyproject.toml", "Makefile", "constraints.txt", "src/annai/py.typed", "tests/wheel.py"} <= names
    assert not any(".annai/" in name or name.endswith((".pyc", ".sqlite")) for name in names)


def test_the_changelog_has_this_version() -> None:
    assert re.search(
        rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )


def test_the_notices_name_every_source_of_the_model() -> None:
    notices = (ROOT / "NOTICE.md").read_text(encoding="utf-8")
    card = (ROOT / "docs" / "model-card.md").read_text(encoding="utf-8").partition("## Data, licences")[2]
    rows = re.findall(r"^\|(.*)\|$", card.partition("All texts of training")[0], re.MULTILINE)
    sources = [[cell.strip() for cell in row.split("|")] for row in rows if "http" in row]
    assert len(sources) > 10
    for row in sources:
        licence, attribution = (row[1], row[2]) if "http" in row[0] else (row[2], row[3])
        assert f"| {attribution} | {licence} |" in notices


@pytest.mark.parametrize("file", [*WORKFLOWS, *FORMS], ids=lambda file: file.name)
def test_forms_and_workflows_can_be_read(file: Path) -> None:
    assert yaml.safe_load(file.read_text(encoding="utf-8"))


def test_workflows_get_no_more_rights_than_they_need() -> None:
    for file in WORKFLOWS:
        workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, file.name
        assert "secrets." not in file.read_text(encoding="utf-8"), file.name
        for name, job in workflow["jobs"].items():
            assert job.get("permissions", {}) in ({}, {"id-token": "write"}), name
            assert "uses" in job or job["timeout-minutes"], name


def test_the_image_is_built_by_the_rules() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--format", "json", ROOT / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout) == []
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for name in line.split()}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)
