"""Do people come from mdvec, local-rag and search-docs without writing their settings again?"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from annai.config import load_config
from annai.interfaces.ancestors import ANCESTORS, convert, left_here
from annai.settings import toml_value
from tests.conftest import Annai

Write = Callable[[str, str], Path]

MDVEC = """[database]
path = "vector-db.sqlite"

[chunking]
size = 1024
overlap = 64

[display]
default_format = "json"

[search]
k = 7

[model]
auto_unload_minutes = 10  # 10分後にアンロード
memory_threshold = 0.8    # メモリ使用率80%超でアンロード
"""
LOCAL_RAG = """# === エンベディング設定 ===
embedding:
  model: "gemini-embedding-001"           # Geminiモデル名
  output_dimensionality: 768
  batch_size: 100
  task_type_document: "RETRIEVAL_DOCUMENT"
  task_type_query: "RETRIEVAL_QUERY"
chunker:
  max_chunk_chars: 3000
  min_chunk_chars: 50
  heading_levels: [1, 2, 3]
chromadb:
  collection_name: "documents"
  hnsw_space: "cosine"
  hnsw_construction_ef: 200
  hnsw_search_ef: 100
  hnsw_M: 16
search:
  default_top_k: 5
retry:
  max_retries: 3
  base_delay: 1
  backoff_factor: 2.0
scanner:
  file_extensions: [".md", ".txt"]
  exclude_dirs: [".rag-index", "data", ".git", "__pycache__", "node_modules"]
"""
SEARCH_DOCS = """{
  "project": {"name": "my-project", "root": "."},
  "server": {"host": "localhost", "port": 24281},
  "indexing": {"maxTokensPerSection": 2000, "embeddingModel": "cl-nagoya/ruri-v3-30m"},
  "files": {"include": ["**/*.md"], "ignoreGitignore": true, "maxFileSize": 2500000},
  "watcher": {"enabled": false, "debounceMs": 500},
  "worker": {"interval": 5000}
}
"""


@pytest.mark.parametrize(
    ("name", "text", "unknown", "expected"),
    [
        ("config.toml", MDVEC, ["database.path"], {"chunking.strategy": "tokens", "search.limit": 7}),
        (
            "config.yaml",
            LOCAL_RAG,
            ["chromadb.hnsw_space"],
            {
                "embedding.provider": "gemini",
                "chunking.strategy": "headings",
                "store.hnsw_m": 16,
                "retry.base_delay": 1.0,
                "files.include": ("**/*.md", "**/*.txt"),
                "files.exclude": (".rag-index/", "data/", ".git/", "__pycache__/", "node_modules/"),
            },
        ),
        (
            ".search-docs.json",
            SEARCH_DOCS,
            ["worker.interval"],
            {
                "server.port": 24281,
                "chunking.max_tokens": 2000,
                "files.respect_gitignore": True,
                "embedding.provider": "sentence-transformers",
                "files.max_file_mb": 2.5,
                "watcher.enabled": False,
                "watcher.debounce_ms": 500,
            },
        ),
    ],
)
def test_init_takes_over_an_ancestors_settings(
    tmp_path: Path, name: str, text: str, unknown: list[str], expected: dict[str, object]
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert left_here(tmp_path) == tmp_path / name
    told = Annai(tmp_path)("init", "--from", name).stdout
    assert [key for key in unknown if key not in told] == []
    file = tmp_path / "annai.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    for setting, value in expected.items():
        section, _, key = setting.partition(".")
        assert table[section][key] == (list(value) if isinstance(value, tuple) else value)
    # The file can be loaded, and an own choice of the user's, named so, holds.
    loaded = load_config(environment={"ANNAI_CONFIG": str(file)})
    for setting, value in expected.items():
        section, _, key = setting.partition(".")
        assert getattr(getattr(loaded, section), key) == value


def test_a_first_search_says_once_that_settings_of_an_ancestor_are_there(annai: Annai, write: Write) -> None:
    (annai.folder / "annai.toml").unlink()
    write("a.md", "# Apples\n\nAbout apples.")
    write(".search-docs.json", SEARCH_DOCS)
    assert "annai init --from .search-docs.json" in annai("search", "apples").stderr
    assert "--from" not in annai("search", "apples").stderr


@pytest.mark.parametrize("command", [("import",), ("status",), ("mcp",), ("search", "apples")])
def test_every_way_in_says_that_settings_of_an_ancestor_are_there(
    annai: Annai, write: Write, command: tuple[str, ...]
) -> None:
    (annai.folder / "annai.toml").unlink()
    write("a.md", "# Apples\n\nAbout apples.")
    write(".search-docs.json", SEARCH_DOCS)
    assert "annai init --from .search-docs.json" in annai(*command).stderr
    # Only `status`, where one looks for what is wrong, says it again.
    annai("import")
    assert "--from" not in annai("import").stderr
    assert "--from" in annai("status").stderr


def test_files_of_the_same_name_that_are_somebody_elses_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[database]\nurl = 'x'\n")
    (tmp_path / "config.yaml").write_text("- a\n- list\n")
    assert left_here(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("config.toml", "[chunking", "cannot be read as mdvec's settings"),
        ("config.toml", "[chunking]\nsize = 'big'\n", "chunking.size"),
        ("config.yaml", "a: [", "cannot be read as local-rag's settings"),
        ("settings.ini", "", "none of the files"),
        ("missing.toml", None, "cannot be read"),
    ],
)
def test_init_says_what_is_wrong_and_writes_nothing(tmp_path: Path, name: str, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    assert told in Annai(tmp_path)("init", "--from", name, code=2).stderr
    assert not (tmp_path / "annai.toml").exists()


def test_the_folders_own_settings_come_first_then_those_of_the_project_around_it(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "annai.toml").write_text("[search]\nlimit = 7\n")
    around = load_config(docs_dir=docs)
    assert (around.search.limit, around.root) == (7, docs)
    (docs / "annai.toml").write_text("[search]\nlimit = 9\n")
    assert load_config(docs_dir=docs).search.limit == 9


def test_every_key_is_in_the_tables_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text(encoding="utf-8")
    for ancestor in ANCESTORS:
        for key, counterpart in ancestor.keys.items():
            assert f"| `{key}` | `{counterpart.setting}` | {counterpart.note} |" in page
        for setting, value in ancestor.fixed.items():
            assert f"`{setting} = {toml_value(value)}`" in page


def test_conversion_reads_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("\ufeff" + MDVEC, encoding="utf-8")
    assert convert(file).settings["chunking.size"] == 1024


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of Unix")
def test_init_asks_at_once_for_the_trust_that_an_ancestors_settings_need(tmp_path: Path) -> None:
    import pty

    (tmp_path / ".search-docs.json").write_text(SEARCH_DOCS, encoding="utf-8")
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "annai", "init", "--from", ".search-docs.json"],
        cwd=tmp_path,
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
    )
    os.close(secondary)
    os.write(primary, b"y\n")
    shown = b""
    while b"is trusted until it changes" not in shown:
        shown += os.read(primary, 1000)
    assert process.wait(60) == 0
    os.close(primary)
    assert b"loads a model that is not annai's own" in shown
    assert b"Trust this project with it?" in shown
    assert load_config(docs_dir=tmp_path).embedding.provider == "sentence-transformers"
