"""What anyone does with a folder, from its first search to a server that notices changes; each machine must do it."""

import json
import os
import subprocess
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import Annai, results
from tests.loopback import eventually

SETTINGS = '[embedding]\nprovider = "hashing"\n[server]\nport = 0\n[watcher]\ndebounce_ms = 50\n'


class Machine(Annai):
    """The program on a machine that its environment describes."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(folder)
        self.environment = dict(environment)

    def __call__(
        self, *arguments: str, code: int | None = 0, stdin: str = "", environment: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run `annai` there."""
        return super().__call__(*arguments, code=code, stdin=stdin, environment=self.environment | (environment or {}))


def live(
    folder: Path, environment: Mapping[str, str] | None = None, names: tuple[str, str] = ("Guide", "手順")
) -> None:
    """Index a folder, search it, change it in every way, and see each change in the next answer."""
    outer, inner = names
    annai = Machine(folder, environment or {})
    (folder / "annai.toml").write_text(SETTINGS)
    (folder / outer).mkdir()
    first, second = folder / outer / f"{inner}.md", folder / "other.md"
    first.write_text("# Setup\n\n## Install it\n\nAn apple, リンゴ.\n", encoding="utf-8")
    second.write_text("# Other\n\nA banana.\n", encoding="utf-8")
    address = unicodedata.normalize("NFC", f"{outer}/{inner}.md")

    assert paths(annai, "apple") == {address}
    assert paths(annai, "リンゴ", "--mode", "keyword") == {address}
    (line,) = annai("search", "apple", "--format", "files").stdout.splitlines()
    assert line.rpartition(":")[0] == address.replace("/", os.sep)
    for reference in (address, f"{address}:5", f"{address}#install-it", f"root:{address}", str(first)):
        assert "An apple" in annai("get", reference).stdout
    assert paths(annai, "apple", "--path", outer) == {address}
    told = json.loads(annai("status", "--json").stdout)
    assert (told["collections"][0]["documents"], told["collections"][0]["problems"]) == (2, [])
    assert "just now" in annai("status").stdout

    second.write_text("# Other\n\nA cherry tree.\n", encoding="utf-8")
    assert paths(annai, "cherry", "--mode", "keyword") == {"other.md"}
    second.rename(folder / outer / "moved.md")
    assert paths(annai, "cherry", "--mode", "keyword") == {f"{outer}/moved.md"}
    (folder / outer / "moved.md").unlink()
    assert paths(annai, "cherry", "--mode", "keyword") == set()
    assert "unchanged 1" in annai("import").stdout
    assert "added 1" in annai("import", "-m", "replace").stdout

    annai("server", "start")
    try:
        assert paths(annai, "apple") == {address}
        second.write_text("# Other\n\nA damson.\n", encoding="utf-8")
        eventually(lambda: paths(annai, "damson", "--mode", "keyword") == {"other.md"})
        assert "just now" in annai("status").stdout
    finally:
        assert "Server stopped." in annai("server", "stop").stdout


def paths(annai: Annai, *arguments: str) -> set[object]:
    """The documents that a search finds."""
    return {row["path"] for row in results(annai, *arguments)}
