"""Is what is missing named with the command that really adds it?"""

import json
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from annai.plugins import install_command


@pytest.mark.parametrize(
    ("mark", "begins"),
    [("uv-receipt.toml", "uv tool install "), ("pipx_metadata.json", "pipx install --force "), (None, "")],
)
def test_the_installer_is_the_one_that_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str | None, begins: str
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    if mark:
        (tmp_path / mark).touch()
    command = install_command("local")
    assert command.startswith(begins)
    assert " install " in command


def test_a_clone_is_named_by_its_path() -> None:
    record = json.loads(distribution("annai").read_text("direct_url.json") or "{}")
    source = record["url"].removeprefix("file://")
    assert install_command("local").endswith(f"pip install -e '{source}[local]'")
