"""Do the rooms stay where ARCHITECTURE.md draws them? Imports go down only, and only what is needed is loaded."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from annai import errors

SOURCE = Path(__file__).parent.parent / "src" / "annai"

LEVELS = (
    ("definitions",),
    ("types", "errors"),
    ("answers", "plugins"),
    ("values", "text", "timer", "state"),
    ("settings", "trust", "project"),
    ("config",),
    ("files", "splitters", "models"),
    ("embedders", "rerankers", "stores"),
    ("collection",),
    ("asking",),
    ("searching", "indexing", "testing"),
    ("engine",),
    ("upkeep",),
    ("serving",),
    ("opening",),
    ("interfaces",),
    ("__main__", "__init__"),
)
"""From the bottom up; a room imports from lower levels, and from its own level only within itself."""

INTERFACES = (
    ("terminal", "editor", "ancestors", "logs", "limits", "metrics"),
    ("render", "setup", "doctor", "audit"),
    ("callers",),
    ("page",),
    ("rpc", "mcp"),
    ("http",),
    ("server",),
    ("cli",),
)
"""The same inside `interfaces/`: what an agent sees knows nothing of the command line."""

MOST_MODULES = 14
"""In one folder; more are a hallway. Only the commands have a module each."""

HEAVY = (
    *("torch", "transformers", "sentence_transformers", "huggingface_hub", "tokenizers", "onnxruntime", "google.genai"),
    *("lancedb", "chromadb", "psycopg", "mcp", "sqlite_vec"),
)


def level_of(room: str, levels: tuple[tuple[str, ...], ...] = LEVELS) -> int:
    return next(number for number, rooms in enumerate(levels) if room in rooms)


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
    own, *inner = (part.removesuffix(".py") for part in file.relative_to(SOURCE).parts)
    for name in imports_of(file):
        other, *rest = name.split(".")[1:]
        assert other == own or level_of(other) < level_of(own), f"{own} imports {name}"
        if own == other == "interfaces" and inner[0] != rest[0]:
            assert level_of(rest[0], INTERFACES) < level_of(inner[0], INTERFACES), f"{inner[0]} imports {name}"


def test_every_room_has_its_level() -> None:
    def rooms(folder: Path) -> set[str]:
        return {path.name.removesuffix(".py") for path in folder.iterdir() if path.suffix in ("", ".py")}

    assert rooms(SOURCE) - {"__pycache__"} == {room for rooms in LEVELS for room in rooms}
    inner = rooms(SOURCE / "interfaces") - {"__init__", "__pycache__"}
    assert inner == {room for rooms in INTERFACES for room in rooms}


@pytest.mark.parametrize("folder", [SOURCE, *sorted(each.parent for each in SOURCE.rglob("__init__.py"))], ids=str)
def test_no_folder_is_a_hallway(folder: Path) -> None:
    modules = [each for each in folder.glob("*.py") if not each.stem.startswith("__")]
    assert len(modules) <= MOST_MODULES or folder == SOURCE / "interfaces" / "cli"


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
    assert not loaded & {"rich", "pyromark", "yaml", "pathspec", "charset_normalizer", "shutil"}


def test_a_server_loads_nothing_that_only_agents_the_page_or_indexing_need(tmp_path: Path) -> None:
    loaded = loaded_by("import annai.interfaces.cli.server, annai.interfaces.server", tmp_path)
    assert not loaded & {*HEAVY, "pydantic", "jinja2", "markdown_it", "rich", "pyromark", "yaml", "httpx"}


def test_a_search_through_a_server_loads_only_what_asks_and_prints(tmp_path: Path) -> None:
    modules = ("interfaces.cli.search", "serving.client", "serving.changes", "serving.pidfile")
    loaded = loaded_by(f"import {', '.join(f'annai.{each}' for each in modules)}", tmp_path)
    assert not loaded & {"annai.types", "annai.engine", "numpy", "apsw", "http.client", "shutil", "tomllib", "hashlib"}


def test_the_tree_of_errors_is_the_one_that_is_drawn() -> None:
    assert errors.__doc__
    for name, error in vars(errors).items():
        if isinstance(error, type):
            assert issubclass(error, errors.AnnaiError)
            assert f"{name} " in errors.__doc__ or name == "AnnaiError"
            assert error.__doc__
