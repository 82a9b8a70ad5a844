"""Do the rooms stay where ARCHITECTURE.md draws them? Imports go down only, and only what is needed is loaded."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from annai import errors

SOURCE = Path(__file__).parent.parent / "src" / "annai"

LEVELS = (
    ("types", "errors", "settings"),
    ("config", "project", "text", "timer"),
    ("files", "splitters", "models"),
    ("embedders", "rerankers", "stores"),
    ("collection",),
    ("searching", "indexing"),
    ("engine",),
    ("upkeep",),
    ("serving",),
    ("opening",),
    ("interfaces",),
    ("__main__",),
)
"""From the bottom up; a room imports from lower levels, and from its own level only within itself."""

HEAVY = (
    *("torch", "transformers", "sentence_transformers", "huggingface_hub", "tokenizers", "onnxruntime", "google.genai"),
    *("lancedb", "chromadb", "psycopg", "mcp", "sqlite_vec"),
)


def level_of(room: str) -> int:
    return next(number for number, rooms in enumerate(LEVELS) if room in rooms)


def imports_of(file: Path) -> set[str]:
    """The modules of annai that a file imports, as dotted names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} if node.module != "annai" else {f"annai.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("annai.") and name != "annai.__version__"}


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_down_only(file: Path) -> None:
    own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        assert not imports_of(file)
        return
    for name in imports_of(file):
        other = name.split(".")[1]
        assert other == own or level_of(other) < level_of(own), f"{own} imports {name}"


def test_every_room_has_its_level() -> None:
    rooms = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix in ("", ".py")}
    assert rooms - {"__init__", "__pycache__"} == {room for rooms in LEVELS for room in rooms}


def loaded_by(code: str, folder: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_annai_loads_almost_nothing(tmp_path: Path) -> None:
    assert {name for name in loaded_by("import annai", tmp_path) if name.startswith("annai")} == {"annai"}


def test_a_plain_search_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\napple")
    (tmp_path / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    search = "from annai.interfaces.cli import run\nassert run(['search', 'apple']) == 0"
    loaded_by(search, tmp_path)
    loaded = loaded_by(search, tmp_path)
    assert not loaded & set(HEAVY)
    # With nothing changed, what makes an index is not needed either.
    assert not loaded & {"rich", "markdown_it", "yaml", "pathspec", "charset_normalizer"}


def test_the_tree_of_errors_is_the_one_that_is_drawn() -> None:
    assert errors.__doc__
    for name, error in vars(errors).items():
        if isinstance(error, type):
            assert issubclass(error, errors.AnnaiError)
            assert f"{name} " in errors.__doc__ or name == "AnnaiError"
            assert error.__doc__
