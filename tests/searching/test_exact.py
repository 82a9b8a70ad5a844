"""Does an exact search find every line that holds just this, at its address, and no other?"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from annai.answers import Hit
from annai.asking.exact import Wanted
from annai.asking.query import MAX_LINES
from annai.engine import Engine
from annai.errors import QueryError

Write = Callable[[str, str], Path]

FILES = {
    "unix.md": b"---\ntitle: num_gpus=0.5\ntags: [alpha]\n---\n# A\n\nnum_gpus=0.5 and num_gpus=0.25\n\n    x.y()\n",
    "crlf.md": "# Windows\r\n\r\nnum_gpus=0.5\r\n\r\n設定ファイル\r\nend".encode(),
    "bom.md": "\ufeff# BOM\n[link](https://example.com/a_b)\n".encode(),
    "nfd.md": "が and か\u3099 and café cafe\u0301\n".encode(),
    "feed.md": b"one\x0cnum_gpus=0.5\ntwo\x0b three\xe2\x80\xa8four\n",
    "long.md": b"word " * 40_000 + b"NEEDLE" + b" word" * 40_000 + b"\nNEEDLE\n",
    "deep/heading.md": b"# Only\n\n## a heading\n\n### num_gpus=0.5\n",
    "深い/日本語.md": "サーバーの設定ファイルを、num_gpus=0.5 にする。\n\n全角　空白\n".encode(),
    "plain.txt": b"\n\nNUM_GPUS=0.5\n\n\n",
}
STRINGS = (
    *(
        "num_gpus=0.5",
        "gpus",
        "s=0.",
        "NEEDLE",
        "が",
        "か\u3099",
        "cafe\u0301",
        "バー",
        "設",
        "ファイル",
        "　",
        "é",
        "# ",
    ),
    *("(https://example", "_b)", "tags: [", "x.y()", "end", "two", " three", "\u2028", "\f", "\t", "nowhere", "d w"),
)
PATTERNS = (
    *(
        r"/num_gpus=\d\.\d+/",
        r"/^$/",
        r"/^# \w+$/",
        r"/\w+の/",
        r"/\s空白$/",
        r"/[^a]/",
        r"/end|two/",
        r"/(?i)Num_GPUS/",
    ),
    *(r"/\pL{4,}ル/", r"/x\.y\(\)$/", r"/^num/", r"/5$/", r"/\d/", r"/\W\s\W/", r"/NEEDLE( word){3}/", r"/か.?\s/"),
)


@pytest.fixture
def files(docs: Path, engine: Engine) -> Engine:
    for path, data in FILES.items():
        (docs / path).parent.mkdir(exist_ok=True)
        (docs / path).write_bytes(data)
    engine.refresh()
    return engine


def found(engine: Engine, query: str) -> list[tuple[str, int]]:
    answer = engine.search(query, mode="exact")
    lines = [(hit.path, hit.start_line) for hit in answer]
    assert answer.total == answer.matching == len(lines)
    return lines


@pytest.mark.parametrize("text", STRINGS)
def test_a_string_is_found_on_every_line_that_holds_it(files: Engine, text: str) -> None:
    expected = [
        (path, number)
        for path in sorted(FILES)
        for number, line in enumerate(FILES[path].decode("utf-8-sig").replace("\r\n", "\n").split("\n"), 1)
        if text in line
    ]
    assert found(files, text) == expected


@pytest.mark.skipif(not shutil.which("rg"), reason="ripgrep is not installed")
@pytest.mark.parametrize("query", [*STRINGS, *PATTERNS])
def test_the_lines_are_those_of_ripgrep(files: Engine, docs: Path, query: str) -> None:
    is_pattern = query in PATTERNS
    if is_pattern:
        pytest.importorskip("re2")
    text = ["--crlf", "-e", query[1:-1]] if is_pattern else ["--fixed-strings", "-e", query]
    command = [
        "rg",
        "--no-config",
        "--null",
        "--line-number",
        "--no-heading",
        "--with-filename",
        "--color=never",
        *text,
    ]
    done = subprocess.run([*command, *FILES], cwd=docs, capture_output=True, check=False)
    assert done.returncode < 2, done.stderr
    rows = [line.split(b"\0") for line in done.stdout.split(b"\n") if b"\0" in line]
    assert found(files, query) == sorted((path.decode(), int(rest.split(b":")[0])) for path, rest in rows)


def test_a_line_is_shown_as_it_stands_at_its_address(files: Engine, docs: Path) -> None:
    for hit in files.search("num_gpus=0.5", mode="exact"):
        text = (docs / hit.path).read_bytes().decode("utf-8-sig")
        assert text[hit.start_position : hit.end_position] == hit.content
        assert files.locate(f"{hit.path}:{hit.start_line}-{hit.start_line}").content.rstrip("\r\n") == hit.content
        assert hit.content in files.locate(hit.id).content
    by_path = {hit.path: hit for hit in files.search("num_gpus=0.5", mode="exact")}
    assert by_path["深い/日本語.md"].title == "日本語"
    assert by_path["unix.md"].title == "num_gpus=0.5"


def test_a_return_without_a_feed_ends_a_line_here_as_everywhere_in_annai(write: Write, engine: Engine) -> None:
    # Unlike for ripgrep, which knows line feeds alone: `annai get mac.txt:2-2` is this line.
    write("mac.txt", "one\rtwo\rtwo\r\nthree")
    engine.refresh()
    assert found(engine, "two") == [("mac.txt", 2), ("mac.txt", 3)]
    assert found(engine, "three") == [("mac.txt", 4)]
    assert engine.locate("mac.txt:2-2").content == "two\r"


def test_what_is_counted_is_true_however_few_are_shown(write: Write, engine: Engine) -> None:
    for number in range(30):
        write(f"{number:02}.md", "apple\npear\n" * 10)
    engine.refresh()
    everything = found(engine, "apple")
    assert len(everything) == 300
    for offset, limit in ((0, 7), (5, 20), (295, 20), (300, 5), (5000, 5)):
        answer = engine.search("apple", mode="exact", offset=offset, limit=limit)
        assert [(hit.path, hit.start_line) for hit in answer] == everything[offset : offset + limit]
        assert answer.total == 300
        assert answer.confident


def test_every_filter_holds(docs: Path, tmp_path: Path, engine: Engine) -> None:
    for path in ("guide/a.md", "guide/b.md", "other/c.md"):
        (docs / path).parent.mkdir(exist_ok=True)
        (docs / path).write_text(f"---\nstatus: {path[-4]}\n---\napple\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "d.md").write_text("apple\n")
    engine.refresh()
    engine.add_collection("more", tmp_path / "more", keep_root=True)
    engine.refresh()

    def paths(project: Engine, **options: object) -> list[str]:
        return [hit.path for hit in project.search("apple", mode="exact", **options)]  # type: ignore[arg-type]

    assert paths(engine) == ["d.md", "guide/a.md", "guide/b.md", "other/c.md"]
    assert paths(engine, paths=("guide",)) == ["guide/a.md", "guide/b.md"]
    assert paths(engine, paths=("*.md",), excludes=("guide/b.md", "d.md")) == ["guide/a.md", "other/c.md"]
    assert paths(engine, collections=("more",)) == ["d.md"]
    assert paths(engine, where=("status=b",)) == ["guide/b.md"]
    assert paths(engine.scoped(["more"])) == ["d.md"]
    engine.store.requests.add("root", ["guide/a.md"])
    assert paths(engine, clean_only=True, refresh=False) == ["d.md", "guide/b.md", "other/c.md"]


def test_what_means_something_to_other_searches_is_text(write: Write, engine: Engine) -> None:
    write("a.md", 'a "quoted phrase" -vue k8s\nquoted phrase\nkubernetes\n')
    engine.refresh()
    for text, lines in (('"quoted phrase"', [1]), ("-vue", [1]), ("k8s", [1]), ("kubernets", []), ("Kubernetes", [])):
        assert found(engine, text) == [("a.md", line) for line in lines]


def test_a_pattern_without_any_signs_is_a_string(files: Engine) -> None:
    assert found(files, "/NEEDLE/") == found(files, "NEEDLE")
    assert found(files, "/") == [("bom.md", 2)]
    assert found(files, "//") == [("bom.md", 2)]
    assert found(files, "///") == [("bom.md", 2)]


def test_patterns_without_their_engine_are_refused_with_what_installs_it(
    files: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    with pytest.raises(QueryError, match=r"Patterns need google-re2.*\[patterns\]"):
        files.search(r"/un\wever/", mode="exact")
    assert found(files, "NEEDLE")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("/(a/", "missing"),
        (r"/(?=a)/", "invalid perl operator"),
        (r"/(a)\1/", "invalid escape"),
        ("/a\ud800+/", "encode"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_explained(pattern: str, reason: str) -> None:
    pytest.importorskip("re2")
    with pytest.raises(QueryError, match=rf"cannot be read \(.*{reason}"):
        Wanted(pattern)


def test_a_pattern_that_would_keep_others_busy_for_ever_is_quick(write: Write, engine: Engine) -> None:
    pytest.importorskip("re2")
    write("a.md", "a" * 5_000 + "b\n")
    engine.refresh()
    assert found(engine, r"/^(a+)+$/") == []


@pytest.mark.parametrize("options", [{"depths": (1,)}, {"sort": "depth"}, {"limit": MAX_LINES + 1}, {"offset": -1}])
def test_what_lines_do_not_have_is_refused(engine: Engine, options: dict[str, object]) -> None:
    with pytest.raises(QueryError):
        engine.search("x", mode="exact", **options)  # type: ignore[arg-type]


def test_a_text_of_two_lines_is_on_no_line(engine: Engine) -> None:
    with pytest.raises(QueryError, match="inside lines"):
        engine.search("a\nb", mode="exact")


def test_the_preview_of_a_long_line_has_what_was_found(files: Engine) -> None:
    first, second = files.search("NEEDLE", mode="exact")
    assert "NEEDLE" in first.preview
    assert len(first.preview) <= 302
    assert first.preview[0] == first.preview[-1] == "…"
    assert len(first.content) == 400_006
    assert second.preview == "NEEDLE"
    (hit,) = files.search("NEEDLE", mode="exact", limit=1, content="none")
    assert isinstance(hit, Hit)
    assert hit.content == ""
