"""Which documents are there, and why is a file not among them?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from annai.config import load_config
from annai.engine import Engine
from annai.errors import NotFound

SETTINGS = '[embedding]\nprovider = "hashing"\n[files]\nmax_file_mb = 0.001\n'

FILES = {
    "readme.md": "# Read me\n\nzebra",
    "guide/setup.md": "# Set up\n\nzebra",
    "guide/use.md": "# Use it\n\nzebra",
    "guide/.gitignore": "# what nobody reads\ndraft*\n!draft-good.md\nprivate/\n",
    "guide/.annaiignore": "old.md\n",
    "guide/draft-1.md": "zebra",
    "guide/draft-good.md": "# Good\n\nzebra",
    "guide/old.md": "zebra",
    "guide/deep/private/a.md": "zebra",
    "guide/paper.png": "%PDF",
    "node_modules/a.md": "zebra",
    "long.md": "zebra " * 1000,
    "binary.md": "\x00\x01\x00",
    ".annai/a.md": "zebra",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("repository") / "docs"
    (folder.parent / ".git").mkdir()
    (folder.parent / ".gitignore").write_text("*.bak.md\n")
    for name, text in {"annai.toml": SETTINGS, **FILES, "x.bak.md": "zebra"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "link.md").symlink_to("readme.md")
    with Engine(load_config(docs_dir=folder)) as engine:
        engine.refresh()
        yield engine


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("guide/draft-1.md", "'draft*' in docs/guide/.gitignore:2 excludes it"),
        ("root:guide/draft-1.md:3", "'draft*' in docs/guide/.gitignore:2 excludes it"),
        ("guide/old.md", "'old.md' in docs/guide/.annaiignore:1 excludes it"),
        ("guide/deep/private/a.md", "'private/' in docs/guide/.gitignore:4 excludes its folder guide/deep/private/"),
        ("guide/deep/private", "'private/' in docs/guide/.gitignore:4 excludes its folder"),
        ("x.bak.md", "'*.bak.md' in .gitignore:1 excludes it"),
        ("node_modules/a.md", "'node_modules/' in files.exclude excludes its folder node_modules/"),
        ("guide/paper.png", "annai indexes files whose names match **/*.md"),
        ("long.md", "it was skipped (6,000 bytes, over the limit of 0.001 MB (files.max_file_mb))"),
        ("binary.md", "it was skipped (binary file)"),
        ("link.md", "a symbolic link (files.follow_symlinks is false)"),
        (".annai/a.md", "annai never reads .annai/"),
    ],
)
def test_a_file_that_is_not_indexed_says_why(engine: Engine, path: str, reason: str) -> None:
    assert reason in engine.why_missing(path)
    with pytest.raises(NotFound, match="is not indexed"):
        engine.locate(path)


@pytest.mark.parametrize("path", ["readme.md", "guide/setup.md:1", "readme.md#9", "nowhere.md", "../.gitignore", ""])
def test_what_is_indexed_or_not_there_needs_no_reason(engine: Engine, path: str) -> None:
    assert engine.why_missing(path) == ""


def test_a_file_that_waits_says_so(engine: Engine) -> None:
    file = engine.config.root / "new.md"
    file.write_text("# New\n\nzebra")
    assert "annai has not noticed it" in engine.why_missing("new.md")
    engine.queue_changes("root")
    assert "new.md is not indexed yet: it waits in the queue" in engine.why_missing("new.md")
    file.unlink()
    engine.refresh()


def test_documents_are_listed_by_folder_and_by_glob(engine: Engine) -> None:
    assert [each.name for each in engine.browse().entries] == [
        "guide/draft-good.md",
        "guide/setup.md",
        "guide/use.md",
        "readme.md",
    ]
    listing = engine.browse("guide/")
    assert [(each.title, each.sections) for each in listing.entries] == [("Good", 1), ("Set up", 1), ("Use it", 1)]
    assert engine.browse(str(engine.config.root / "guide")) == listing
    assert [each.name for each in engine.browse("**/*e*.md").entries] == ["guide/setup.md", "guide/use.md", "readme.md"]
    assert [state.path for state in engine.browse().problems] == ["binary.md", "long.md"]
    for path, sentence in (("gude", "did you mean guide"), ("*.png", "no document"), ("guide/old.md", "excludes it")):
        with pytest.raises(NotFound, match=sentence):
            engine.browse(path)


def test_a_large_folder_is_listed_by_its_folders(tmp_path: Path) -> None:
    (tmp_path / "annai.toml").write_text(SETTINGS)
    for number in range(80):
        file = tmp_path / "docs" / ("api" if number % 2 else "guide/more") / f"{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {number}")
    (tmp_path / "docs" / "index.md").write_text("# Index")
    with Engine(load_config(docs_dir=tmp_path)) as engine:
        engine.refresh()
        listing = engine.browse()
        assert listing.documents == 81
        assert [(each.name, each.documents) for each in listing.entries] == [
            ("docs/api/", 40),
            ("docs/guide/", 40),
            ("docs/index.md", 1),
        ]
        assert len(engine.browse("docs/guide/").entries) == 40
        assert len(engine.browse("docs/**/*.md").entries) == 81
        engine.add_collection("api", tmp_path / "docs" / "api", keep_root=True)
        engine.refresh()
        assert {each.name: each.documents for each in engine.browse().entries} == {"api:": 40, "root:": 41}
        assert len(engine.browse("api:").entries) == 40
        assert engine.browse("api:1.md").entries[0].name == "api:1.md"
