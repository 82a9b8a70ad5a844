"""Does every address that annai prints lead back to what it was printed for?"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from annai.asking.addresses import anchors, filter_from_here, from_here, make_anchor
from annai.engine import Engine
from annai.errors import NotFound, QueryError
from annai.types import Selection
from tests.conftest import EXAMPLES, quick_config

Write = Callable[[str, str], Path]

FILLER = "An apple a day keeps many doctors far away from here. " * 12
GUIDE = f"""---
title: Guide
---
# Guide

{FILLER}

## Install it: `pip` & *co*

{FILLER}

#### A small step

Now.

## 環境構築（はじめに）

{FILLER}

## Install it: `pip` & *co*

{FILLER}

## By hand {{#own-way}}

{FILLER}
"""
LINES = GUIDE.splitlines(keepends=True)


@pytest.fixture
def guide(write: Write, engine: Engine) -> Engine:
    write("docs/guide.md", GUIDE)
    engine.refresh()
    return engine


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(LINES, 1) if text in line)


def heading_of(found: Selection) -> str:
    return found.section.section.heading


def test_a_line_leads_to_the_innermost_section_that_holds_it(guide: Engine) -> None:
    for number, line in enumerate(LINES, 1):
        found = guide.locate(f"docs/guide.md:{number}")
        assert found.line == number
        assert line in found.content
        assert found.last_line == 0
    step = line_of("A small step")
    found = guide.locate(f"docs/guide.md:{step}")
    assert found.content.startswith("## Install it")
    assert guide.locate("docs/guide.md:2").content == GUIDE


def test_lines_lead_to_these_lines(guide: Engine) -> None:
    found = guide.locate("docs/guide.md:2-4")
    assert (found.content, found.line, found.last_line) == ("title: Guide\n---\n# Guide\n", 2, 4)
    assert guide.locate(f"docs/guide.md:{len(LINES)}-9999").content == LINES[-1]
    assert guide.locate("root:docs/guide.md:2-2").content == "title: Guide\n"


def test_the_lines_of_a_section_lead_to_it_whole(guide: Engine) -> None:
    for stored in guide.locate("docs/guide.md").sections[1:]:
        section = stored.section
        if not section.piece:
            found = guide.locate(f"docs/guide.md:{section.start_line}-{section.end_line}").section.section
            assert (found.start_line, found.end_line) == (section.start_line, section.end_line)


def test_lines_that_are_not_there_are_named(guide: Engine) -> None:
    for lines in ("0", f"{len(LINES) + 1}"):
        with pytest.raises(NotFound, match=f"has no line {lines}; it ends at line {len(LINES)}"):
            guide.locate(f"docs/guide.md:{lines}")
    with pytest.raises(QueryError, match=r"Lines 9-2 end before they begin; write docs/guide\.md:2-9\."):
        guide.locate("docs/guide.md:9-2")


def test_the_last_line_counts_with_and_without_an_end(write: Write, engine: Engine) -> None:
    write("empty.md", "")
    write("crlf.txt", "one\r\ntwo\r\nthree")
    engine.refresh()
    assert engine.locate("crlf.txt:3-3").content == "three"
    assert engine.locate("crlf.txt:2-3").content == "two\r\nthree"
    with pytest.raises(NotFound):
        engine.locate("crlf.txt:4")


@pytest.mark.parametrize(
    ("anchor", "line"),
    [
        ("guide", "# Guide"),
        ("install-it-pip--co", "## Install it"),
        ("Install it: pip & co", "## Install it"),
        ("a-small-step", "#### A small step"),
        ("環境構築はじめに", "## 環境構築"),
        ("%E7%92%B0%E5%A2%83%E6%A7%8B%E7%AF%89%E3%81%AF%E3%81%98%E3%82%81%E3%81%AB", "## 環境構築"),
        ("own-way", "## By hand"),
    ],
)
def test_an_anchor_leads_to_its_heading(guide: Engine, anchor: str, line: str) -> None:
    found = guide.locate(f"docs/guide.md#{anchor}")
    assert found.line == line_of(line)
    assert LINES[found.line - 1] in found.content


def test_the_second_of_two_equal_headings_has_a_number(guide: Engine) -> None:
    first, second = (guide.locate(f"docs/guide.md#install-it-pip--co{end}") for end in ("", "-1"))
    assert heading_of(first) == heading_of(second)
    assert first.section.id != second.section.id
    with pytest.raises(NotFound, match="has no heading #install-it-pip--co-2; "):
        guide.locate("docs/guide.md#install-it-pip--co-2")


def test_anchors_are_made_as_github_makes_them() -> None:
    for heading, anchor in {
        "Hello, World!": "hello-world",
        "What's new in v1.2?": "whats-new-in-v12",
        "snake_case and-hyphens": "snake_case-and-hyphens",
        "🎉 Party": "-party",
        "サーバー・クライアント": "サーバークライアント",
        "１．はじめに　概要": "１はじめに概要",
        "Ａｐｉ ÉTÉ": "ａｐｉ-été",
        "か\u3099": "が",
        "① one": "-one",
        "क्षेत्र": "क्षेत्र",
    }.items():
        assert make_anchor(heading) == anchor
    assert [*anchors(["A", "a", "A", "B"])] == ["a", "a-1", "a-2", "b"]


def test_every_spelling_of_one_address_means_the_same(guide: Engine, docs: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(docs)
    wanted = guide.locate("docs/guide.md#1.2").section.id
    for spelling in (
        "root:docs/guide.md#1.2",
        "annai://root/docs/guide.md#1.2",
        "annai://root/docs/guide.md%231.2",
        f"{docs}/docs/guide.md#1.2",
        f"{link}/docs/guide.md#1.2",
        f"file://{docs}/docs/guide.md#1.2",
        f"docs/guide.md#L{guide.locate('docs/guide.md#1.2').line}",
        f"docs/guide.md:{guide.locate('docs/guide.md#1.2').line}",
        f"root:docs/guide.md:{guide.locate('docs/guide.md#1.2').line}",
    ):
        assert guide.locate(spelling).section.id == wanted, spelling


def test_names_with_colons_and_marks_win_as_they_are(write: Write, engine: Engine) -> None:
    names = ("a.md:2", "a.md#1", "root:a.md", "#a.md", "100%.md", "[id].md", "a.md")
    for name in names:
        write(name if name.endswith(".md") else f"{name}.md", f"# {name}\n\nSecond.")
    engine.refresh()
    for name in ("a.md:2.md", "a.md#1.md", "root:a.md", "#a.md", "100%.md", "[id].md", "a.md"):
        assert engine.locate(name).document.path == name
        assert engine.locate(f"{name}:3-3").content == "Second."
        (hit,) = engine.search("second", paths=[name]).results
        assert hit.path == name
    with pytest.raises(QueryError, match="empty"):
        engine.locate(" ")
    for odd in ("/a\0b.md:3", "a\0b#x", "/" + "x" * 5000, "annai://", "*[", "/*[\0"):
        with pytest.raises(NotFound):
            engine.locate(odd)
        assert engine.search("second", paths=[odd[:4000]]).results == ()


@pytest.fixture
def two(docs: Path, tmp_path: Path) -> Iterator[Engine]:
    """A project with a collection inside and one outside it, both with the same path in it."""
    for folder in (docs / "api", tmp_path / "outside"):
        (folder / "guide").mkdir(parents=True)
        (folder / "guide" / "a.md").write_text(f"# {folder.name}\n\nAn apple.")
        (folder / "b.txt").write_text("An apple too.")
    with Engine(quick_config(docs)) as engine:
        engine.add_collection("api", docs / "api")
        engine.add_collection("outside", tmp_path / "outside")
        engine.refresh()
        yield engine


def files(engine: Engine, **options: list[str]) -> list[str]:
    return sorted(hit.file for hit in engine.search("apple", limit=20, **options))  # type: ignore[arg-type]


def test_a_hit_carries_the_path_of_its_file_from_the_root(two: Engine) -> None:
    assert files(two) == ["../outside/b.txt", "../outside/guide/a.md", "api/b.txt", "api/guide/a.md"]
    for hit in two.search("apple", limit=20):
        found = two.locate(hit.file)
        assert (found.document.collection, found.document.path) == (hit.collection, hit.path)
        assert found.file == hit.file
        assert (two.config.root / hit.file).is_file()


def test_the_path_from_the_root_names_one_file_only(two: Engine, docs: Path) -> None:
    (docs / "api" / "api" / "guide").mkdir(parents=True)
    (docs / "api" / "api" / "guide" / "a.md").write_text("# Deeper\n\nAn apple.")
    two.refresh()
    assert two.locate("api/guide/a.md").document.title == "api"
    assert two.locate("api/api/guide/a.md").document.title == "Deeper"


def test_a_filter_may_name_a_section_or_lines_of_a_file(two: Engine) -> None:
    for path in ("api/guide/a.md:1", "api/guide/a.md:1-3", "api:guide/a.md#1", "annai://api/guide/a.md#1"):
        assert files(two, paths=[path]) == ["api/guide/a.md"]


def test_what_a_disabled_collection_printed_can_be_opened(two: Engine) -> None:
    two.update_collection("outside", enabled=False)
    (hit,) = two.search("apple", collections=["outside"], paths=["b.txt"])
    assert two.locate(hit.id).document.path == "b.txt"
    assert two.locate(hit.file).document.path == "b.txt"


def test_paths_are_those_of_collections_of_the_root_or_absolute(two: Engine, tmp_path: Path) -> None:
    both = ["../outside/guide/a.md", "api/guide/a.md"]
    assert files(two, paths=["guide"]) == both
    assert files(two, paths=["guide/a.md"]) == both
    assert files(two, paths=["api/guide"]) == ["api/guide/a.md"]
    assert files(two, paths=["api"]) == ["api/b.txt", "api/guide/a.md"]
    assert files(two, paths=["outside:guide"]) == ["../outside/guide/a.md"]
    assert files(two, paths=[str(tmp_path / "outside" / "guide")]) == ["../outside/guide/a.md"]
    assert files(two, paths=[str(tmp_path)]) == files(two)
    for outside in ("..", "../..", "/etc"):
        with pytest.raises(NotFound):
            two.rebuild([outside])
    assert files(two, paths=["api/b.txt", "outside:guide"]) == ["../outside/guide/a.md", "api/b.txt"]
    assert files(two, excludes=["guide", "api/b.txt"]) == ["../outside/b.txt"]
    assert files(two, excludes=[str(tmp_path / "outside")]) == ["api/b.txt", "api/guide/a.md"]


def test_globs_name_documents_and_folders(two: Engine, docs: Path) -> None:
    both = ["../outside/guide/a.md", "api/guide/a.md"]
    assert files(two, paths=["*.md"]) == both
    assert files(two, paths=["**/*.md"]) == both
    assert files(two, paths=["g*"]) == both
    assert files(two, paths=["guide/*"]) == both
    assert files(two, paths=["api/**/*.md"]) == ["api/guide/a.md"]
    assert files(two, paths=["*/guide"]) == ["api/guide/a.md"]
    assert files(two, paths=[f"{docs}/api/*.txt"]) == ["api/b.txt"]
    assert files(two, paths=["*.md", "b.tx[a-z]"]) == files(two)
    assert files(two, paths=["*.md", "api/b.txt"]) == sorted([*both, "api/b.txt"])
    assert files(two, excludes=["*.md"]) == ["../outside/b.txt", "api/b.txt"]
    assert files(two, paths=["guide"], excludes=["?.md"]) == []
    assert files(two, paths=["*.[mt]*"], collections=["api"]) == ["api/b.txt", "api/guide/a.md"]


def test_a_filter_that_no_document_is_under_is_named(two: Engine, docs: Path) -> None:
    (docs / "api" / "empty").mkdir()
    assert two.search("apple", paths=["gide"]).unmatched == {"gide": ["guide", "guide/a.md"]}
    assert two.search("apple", paths=["empty"]).unmatched == {"empty": []}
    assert [*two.search("apple", paths=["*.rst"]).unmatched] == ["*.rst"]
    assert [*two.search("apple", paths=["guide", "gide"]).unmatched] == ["gide"]
    assert two.search("apple", paths=["guide"]).unmatched == {}
    assert two.search("zzzz", mode="keyword", paths=["guide"]).unmatched == {}


def test_what_is_typed_means_what_lies_here(docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.md", "# Outer")
    write("b/a.md", "# Inner")
    write("b/c:1.md", "# Colon")
    monkeypatch.chdir(docs / "b")
    for end in ("", ":1", ":1-2", "#1.2", "#inner"):
        assert from_here(f"a.md{end}") == f"{docs}/b/a.md{end}"
        assert from_here(f"../a.md{end}") == f"{docs}/a.md{end}"
        assert from_here(f"root:a.md{end}") == f"root:a.md{end}"
        assert from_here(f"missing.md{end}") == f"missing.md{end}"
    elsewhere = docs / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.md").write_text("# The project's own")
    assert from_here("a.md:1", elsewhere) == "a.md:1"
    assert from_here("../a.md:1", elsewhere) == "../a.md:1"
    assert from_here("c:1.md", elsewhere) == f"{docs}/b/c:1.md"
    assert from_here("c:1.md:1") == f"{docs}/b/c:1.md:1"
    assert filter_from_here("*.md", docs) == "*.md"
    assert filter_from_here("../b/*.md", docs) == f"{docs}/b/*.md"
    assert filter_from_here("**/*.md", docs) == f"{docs}/b/**/*.md"
    assert filter_from_here("guide/*.md", docs) == "guide/*.md"
    assert filter_from_here("**/*.md", docs / "elsewhere") == "**/*.md"
    assert filter_from_here(".", docs) == f"{docs}/b"
    assert filter_from_here("a.md", docs) == f"{docs}/b/a.md"


PARTS = f"""# Deployment

Opening.

## Roll back

First.

### During the canary

Abort it.

### Later

{FILLER}

#### Further back

Two releases.

## Flags

{FILLER}
"""


@pytest.fixture
def parts(write: Write, engine: Engine) -> Engine:
    write("ops/deployment.md", PARTS)
    engine.refresh()
    return engine


def part(first: str, after: str) -> str:
    return PARTS[PARTS.index(first) : PARTS.index(after) if after else len(PARTS)]


@pytest.mark.parametrize(
    ("anchor", "first", "after"),
    [
        ("roll-back", "## Roll back", "## Flags"),
        ("during-the-canary", "### During", "### Later"),
        ("later", "### Later", "## Flags"),
        ("further-back", "#### Further", "## Flags"),
        ("flags", "## Flags", ""),
        ("deployment", "# Deployment", ""),
    ],
)
def test_a_heading_leads_to_all_that_stands_under_it(parts: Engine, anchor: str, first: str, after: str) -> None:
    found = parts.locate(f"ops/deployment.md#{anchor}")
    section = found.section.section
    assert found.content == part(first, after)
    assert found.text(found.section) == found.content
    assert section.heading == section.heading_path[-1] == PARTS.split("\n")[found.line - 1].lstrip("# ")
    assert section.heading_path[0] == "Deployment"
    assert found.line == section.start_line
    lines = PARTS.split("\n")[section.start_line - 1 : section.end_line]
    assert "\n".join(lines).rstrip() == found.content.rstrip()
    assert found.content in parts.locate(found.section.id).content


@pytest.mark.parametrize(
    ("line", "first", "after"),
    [
        ("Opening.", "# Deployment", ""),
        ("## Roll back", "## Roll back", "## Flags"),
        ("First.", "## Roll back", "## Flags"),
        ("Abort it.", "### During", "### Later"),
        ("Two releases.", "### Later", "## Flags"),
    ],
)
def test_a_line_leads_to_the_whole_section_of_its_heading(parts: Engine, line: str, first: str, after: str) -> None:
    number = PARTS.split("\n").index(line) + 1
    found = parts.locate(f"ops/deployment.md:{number}")
    assert (found.content, found.line) == (part(first, after), number)
    assert found.parent is None or found.content in PARTS[slice(found.parent.section.start, found.parent.section.end)]


def test_the_section_of_readme_s_example_is_whole() -> None:
    with Engine(quick_config(EXAMPLES)) as engine:
        engine.refresh()
        found = engine.locate("engineering/deployment.md:44")
        lines = found.content.rstrip().split("\n")
        assert (lines[0], len(lines)) == ("## Roll back a bad deployment", 40)


def test_a_name_that_one_document_has_is_enough(write: Write, engine: Engine) -> None:
    for path in ("a/deploy.md", "b/fault_tolerance.rst", "a/index.md", "b/index.md", "c/index.md", "d/x/index.md"):
        write(path, f"# {path}\n")
    engine.refresh()
    for reference, path in (
        ("deploy.md", "a/deploy.md"),
        ("deploy", "a/deploy.md"),
        ("fault_tolerance", "b/fault_tolerance.rst"),
        ("fault_tolerance.rst:1", "b/fault_tolerance.rst"),
        ("x/index.md", "d/x/index.md"),
    ):
        assert engine.locate(reference).document.path == path
    with pytest.raises(
        NotFound, match=r"4 documents are called 'index.md'; name the folder too: a/index.md, .* and 1 more\."
    ):
        engine.locate("index.md")
    with pytest.raises(NotFound, match=r"There is no document 'loy\.md'"):
        engine.locate("loy.md")


def test_a_file_that_is_not_indexed_is_not_taken_for_another_of_its_name(write: Write, engine: Engine) -> None:
    write("archive/plan.md", "# Old plan\n")
    write(".gitignore", "/plan.md\n")
    write("plan.md", "# New plan\n")
    engine.refresh()
    with pytest.raises(NotFound, match="ignore"):
        engine.locate("plan.md")
    assert engine.locate("archive/plan.md").document.title == "Old plan"


def test_documents_of_the_same_name_are_suggested_first(write: Write, engine: Engine) -> None:
    for path in (
        "guide/setup.md",
        "guide/set-up.md",
        "guide/setups.md",
        "guides/sets.md",
        "other/tools/linux/intro.md",
    ):
        write(path, "# x\n")
    engine.refresh()
    with pytest.raises(NotFound, match=r"did you mean other/tools/linux/intro\.md"):
        engine.locate("guide/intro.md")
