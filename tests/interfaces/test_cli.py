"""What does a user see? The program as a process, with real files, wrong input and no terminal."""

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from annai.indexing.processes import PARALLEL_FROM_FILES
from tests.conftest import EXAMPLES, Annai, results, state_of

Write = Callable[[str, str], Path]

RESULT_FIELDS = [
    "id",
    "collection",
    "path",
    "file",
    "verdict",
    "score",
    "title",
    "heading",
    "heading_path",
    "depth",
    "section_number",
    "start_line",
    "end_line",
    "start_position",
    "end_position",
    "token_count",
    "content",
    "created",
    "updated",
    "preview",
    "preview_line",
    "index_status",
    "is_dirty",
    "windows",
]


def test_a_first_search_indexes_and_answers_without_any_set_up(docs: Path, write: Write) -> None:
    write("手順/環境構築.md", "# 環境構築\n\n開発環境を用意する方法を説明します。")
    write("other.md", "# Other\n\nSomething else.")
    done = Annai(docs)("search", "環境構築の方法")
    assert "手順/環境構築.md:3" in done.stdout
    assert done.stderr == ""
    assert [each.name for each in docs.iterdir() if each.name.startswith(".")] == []


def test_json_is_alone_on_standard_output_and_has_the_documented_fields(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    done = annai("search", "apple", "--format", "json", "--verbose")
    answer = json.loads(done.stdout)
    assert list(answer) == ["query", "took_ms", "total", "verdict", "confident", "results"]
    assert list(answer["results"][0]) == RESULT_FIELDS
    assert answer["results"][0]["id"] == "root:a.md"
    assert 0 <= answer["results"][0]["score"] <= 1
    assert answer["results"][0]["content"] == "# Title\n\nSome apple text."


def test_an_answer_that_is_only_a_guess_says_so_and_exits_as_grep_does(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    done = annai("search", "zzzzqqqq unicorn", code=1)
    assert done.stdout == "" or done.stdout.startswith("No good match; nearest:\n")
    told = json.loads(annai("search", "the history of unicorns", "--format", "json", code=1).stdout)
    assert (told["confident"], told["total"]) == (False, len(told["results"]))
    assert json.loads(annai("search", "apple", "--format", "json").stdout)["confident"] is True
    assert "1 result in " in annai("search", "apple").stdout


def test_an_exact_search_prints_lines_as_grep_does(annai: Annai, write: Write) -> None:
    write("a.md", "---\nport: 8080\n---\n# Port\n\nlisten on 8080\n")
    write("b/c.md", "8080\n\n    x = 8080;\n80 80\n")
    lines = ["a.md:2:port: 8080", "a.md:6:listen on 8080", "b/c.md:1:8080", "b/c.md:3:    x = 8080;"]
    done = annai("search", "--mode", "exact", "8080")
    assert done.stdout.splitlines() == lines
    assert re.fullmatch(r"4 lines in \d+ ms\n", done.stderr)
    part = annai("search", "--mode", "exact", "8080", "-n", "2", "--offset", "1", "--exclude", "b/*.txt")
    assert part.stdout.splitlines() == lines[1:3]
    assert part.stderr.startswith("2 of 4 lines in ")
    told = json.loads(annai("search", "--mode", "exact", "8080", "--json", "--path", "b").stdout)
    assert (told["total"], told["confident"]) == (2, True)
    assert [*told["results"][0], "windows"] == RESULT_FIELDS
    assert [(each["file"], each["start_line"], each["content"]) for each in told["results"]] == [
        ("b/c.md", 1, "8080"),
        ("b/c.md", 3, "    x = 8080;"),
    ]
    places = annai("search", "--mode", "exact", "8080", "--format", "files", "-0").stdout
    assert places == "a.md:2\0a.md:6\0b/c.md:1\0b/c.md:3\0"
    assert "No line holds '80809'" in annai("search", "--mode", "exact", "80809", code=1).stderr
    assert "There are only 4 lines; " in annai("search", "--mode", "exact", "8080", "--offset", "9", code=1).stderr
    assert "--format files" in annai("search", "8080", "-0", code=2).stderr
    assert "leave out depths" in annai("search", "--mode", "exact", "x", "--depth", "1", code=2).stderr


def test_an_offset_goes_on_where_a_search_ended_and_the_total_stays(annai: Annai, write: Write) -> None:
    for number in range(7):
        write(f"{number}.md", f"# Apple {number}\n\nAn apple.")
    whole = json.loads(annai("search", "apple", "-n", "7", "--json").stdout)
    for offset, limit in ((0, 3), (3, 3), (6, 3)):
        part = json.loads(annai("search", "apple", "-n", str(limit), "--offset", str(offset), "--json").stdout)
        assert part["total"] == whole["total"] == 7
        assert [each["id"] for each in part["results"]] == [each["id"] for each in whole["results"]][offset:][:limit]
    assert "3 of 7 results in " in annai("search", "apple", "-n", "3").stdout


def test_several_references_are_shown_one_after_the_other(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    write("b/pear.md", "# Pear\n\n## Part\n\npear\n")
    assert (
        annai("get", "a.md", "pear").stdout == "==> a.md <==\n# A\n\napple\n==> pear <==\n# Pear\n\n## Part\n\npear\n"
    )
    assert annai("get", "a.md").stdout == "# A\n\napple"
    done = annai("get", "nope", "a.md", "gone.md", "--json", code=1)
    assert [each["path"] for each in json.loads(done.stdout)] == ["a.md"]
    assert [line[:33] for line in done.stderr.splitlines()] == [
        "annai: There is no document 'nope",
        "annai: There is no document 'gone",
    ]


def test_other_sections_of_a_document_are_named_below_it(annai: Annai, write: Write) -> None:
    part = "An apple a day keeps many doctors far away from here, and the apple is red. " * 8
    write("a.md", "# Fruit\n\n" + "\n\n".join(f"## Part {number}\n\n{part}" for number in range(1, 7)))
    shown = annai("search", "apple doctors").stdout
    named = re.findall(r"^  \+ line (\d+): Part \d  (root:a\.md#1\.\d)$", shown, re.MULTILINE)
    assert len(named) == 3
    assert annai("get", named[0][1]).stdout.startswith("## Part")
    assert shown.count("a.md:") == 1
    assert annai("search", "apple doctors", "--per-document", "0").stdout.count("a.md:") == 5


def test_verbose_tells_the_steps_on_standard_error(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    told = annai("--verbose", "search", "apple", "-n", "3").stderr
    assert 'DEBUG [search] query="apple", top_k=3\n' in told
    for step in ("scan", "read", "split", "embed", "write", "query_embedding", "vector_query", "keyword_query"):
        assert f"[TIMER] {step}: " in told
    assert "[TIMER] search_total: " in told


def test_verbose_tells_the_times_of_files_that_other_processes_prepare(annai: Annai, write: Write) -> None:
    with (annai.folder / "annai.toml").open("a") as settings:
        settings.write("[worker]\nprocesses = 2\n")
    for number in range(PARALLEL_FROM_FILES + 1):
        write(f"{number}.md", f"# Page {number}")
    told = annai("import", "--verbose").stderr
    for step in ("read", "split", "embed"):
        assert len(re.findall(rf"\[TIMER\]   {step}: ", told)) >= PARALLEL_FROM_FILES, step


def test_a_servers_log_has_steps_and_no_question(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    with (annai.folder / "annai.toml").open("a") as settings:
        settings.write('[logging]\nlevel = "debug"\n')
    annai("server", "start")
    try:
        assert 'query="zebra"' in annai("search", "zebra", "--verbose", code=None).stderr
    finally:
        annai("server", "stop")
    log = "".join(file.read_text("utf-8") for file in state_of(annai.folder).glob("*.log"))
    assert "[TIMER] search_total: " in log
    assert "zebra" not in log


def test_every_format_names_the_file_and_the_line(annai: Annai, write: Write) -> None:
    write("b/a.md", "# Title\n\n" + "filler text here. " * 60 + "\n\n## Apples\n\n" + "An apple a day. " * 40)
    assert annai("search", "apple", "--format", "files").stdout == "b/a.md:5\n"
    markdown = annai("search", "apple", "--format", "markdown").stdout
    assert "## Title › Apples" in markdown
    assert "`b/a.md:5`" in markdown
    assert "> An apple a day." in markdown
    text = annai("search", "apple", "--preview-lines", "1", "--explain").stdout
    assert "b/a.md:7" in text  # the line that is shown first
    assert "Title › Apples" in text
    assert "meaning" in text


def test_matched_words_are_marked_in_colour_when_colour_is_wanted(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    config = annai.folder / "annai.toml"
    config.write_text(config.read_text() + '[display]\ncolor = "always"\n')
    shown = annai("search", "apples", "--format", "text").stdout
    mark = "\x1b[31m\x1b[1m"
    assert f"Some {mark}apple\x1b[0m text." in shown
    write("fruit/apple-tree.md", "# The apple tree\n\nIt grows.")
    shown = annai("search", "apple tree").stdout
    assert f"fruit/\x1b[0m{mark}apple\x1b[0m\x1b[1m-\x1b[0m{mark}tree\x1b[0m\x1b[1m.md:3" in shown
    assert f"The \x1b[0m{mark}apple\x1b[0m" in shown


def test_paths_open_from_the_current_folder_and_work_with_get(annai: Annai, write: Write) -> None:
    write("b/a.md", "# Title\n\nSome apple text.")
    inside = Annai(annai.folder / "b")
    assert inside("search", "apple", "--format", "files").stdout == "a.md:1\n"
    assert inside("get", "a.md").stdout == "# Title\n\nSome apple text."
    assert annai("get", "b/a.md").stdout == "# Title\n\nSome apple text."


def test_content_says_what_a_result_carries(annai: Annai, write: Write) -> None:
    body = "# Title\n\n" + "filler text here. " * 60 + "\n\n## Apples\n\n" + "An apple a day. " * 40
    write("a.md", body)
    assert results(annai, "apple", "--content", "none")[0]["content"] == ""
    assert results(annai, "apple", "--content", "document")[0]["content"] == body
    assert str(results(annai, "apple", "--content", "passage")[0]["content"]).startswith("## Apples")


def test_depth_lifts_answers_to_the_sections_asked_for(annai: Annai, write: Write) -> None:
    part = "An apple a day keeps many doctors far away from here. " * 12
    write("a.md", f"Before.\n\n# One\n\n{part}\n\n## Two\n\n{part}\n\n### Three\n\n{part}\n\n# Last\n\n{part}")
    assert {row["depth"] for row in results(annai, "apple", "--depth", "0")} == {0}
    assert {row["depth"] for row in results(annai, "apple", "--depth", "1", "--depth", "3")} <= {1, 3}
    both = results(annai, "apple", "--depth", "1", "--depth", "3", "--per-document", "0")
    assert {row["depth"] for row in both} == {1, 3}
    default = results(annai, "apple", "-n", "20", "--per-document", "0")
    spans = [(int(str(row["start_position"])), int(str(row["end_position"]))) for row in default]
    assert not [1 for a in spans for b in spans if a != b and a[0] <= b[0] and b[1] <= a[1]]


def test_sort_filters_and_limit(annai: Annai, write: Write) -> None:
    for path in ("x/b.md", "x/a.md", "y/c.md"):
        write(path, f"# {path}\n\nAn apple.")
    assert [row["path"] for row in results(annai, "apple", "--sort", "path")] == ["x/a.md", "x/b.md", "y/c.md"]
    assert {row["path"] for row in results(annai, "apple", "--path", "x")} == {"x/a.md", "x/b.md"}
    assert {row["path"] for row in results(annai, "apple", "--exclude", "x/")} == {"y/c.md"}
    assert len(results(annai, "apple", "-n", "2")) == 2


def test_changes_are_seen_by_the_next_search(annai: Annai, write: Write) -> None:
    file = write("a.md", "# Title\n\nSome apple text.")
    assert results(annai, "apple", "--mode", "keyword")
    file.write_text("# Title\n\nSome other text.")
    assert not results(annai, "apple", "--mode", "keyword")
    file.unlink()
    assert "no documents" in annai("search", "other", code=1).stderr


@pytest.mark.parametrize("symbol", ["→", "🎉", "※", "€"])
def test_a_symbol_is_found(annai: Annai, write: Write, symbol: str) -> None:
    write("a.md", f"# A\n\nSome apple {symbol} text.")
    write("b.md", "# B\n\nSome apple text.")
    assert [row["path"] for row in results(annai, symbol, "--mode", "keyword")] == ["a.md"]
    assert results(annai, symbol)[0]["path"] == "a.md"
    assert f"apple {symbol} text" in annai("search", symbol).stdout


KEYWORDS = [
    ("検索", "search-architecture.md"),
    ("全文検索", "search-architecture.md"),
    ("京都", "オフィス案内.md"),
    ("再", "よくある質問.md"),
    ("食べ", "オフィス案内.md"),
    ("OAuth認証", "oauth-login.md"),
    ("ポッドのスケジューリング", "クラスタ入門.md"),
    ("検索精度の向上", "search-architecture.md"),
    ("ADR", "議事録-2026-04.md"),
    ("ＡＤＲ", "0001-one-database.md"),
    ("サーバー", "クラスタ入門.md"),
    ("サーバ", "環境構築.md"),
    ("user", "coding-style.md"),
    ("case", "coding-style.md"),
    ("C++", "coding-style.md"),
    (".NET", "環境構築.md"),
    ("AND OR NOT NEAR( \" ' * ^ body:", None),
]


@pytest.mark.xdist_group("examples")
def test_keyword_search_finds_what_its_peers_missed(tmp_path_factory: pytest.TempPathFactory) -> None:
    annai = Annai(EXAMPLES)
    index = tmp_path_factory.mktemp("examples") / "annai.toml"
    index.write_text(
        f'[project]\nroot = "{EXAMPLES}"\n[database]\npath = "{index.parent}/i.sqlite"\n'
        '[embedding]\nprovider = "hashing"\n'
    )
    annai("trust", "--yes", "--config", str(index))
    for query, expected in KEYWORDS:
        arguments = ("--mode", "keyword", "-n", "50", "--config", str(index))
        found = [str(row["path"]).rpartition("/")[2] for row in results(annai, query, *arguments)]
        assert expected is None or expected in found, (query, found)


def test_get_shows_documents_sections_relatives_and_lines(annai: Annai, write: Write) -> None:
    part = "An apple a day keeps many doctors far away from here. " * 12
    write("a.md", f"---\ntitle: Doc\n---\n# One\n\n{part}\n\n## Two\n\n{part}\n\n## Three\n\n{part}\n")
    assert annai("get", "a.md").stdout.startswith("---\ntitle: Doc\n---\n# One")
    assert annai("get", "root:a.md#1.2").stdout.startswith("## Three")
    assert annai("get", "a.md#1.2", "--parent").stdout.startswith("---\ntitle: Doc")
    assert annai("get", "a.md#1.2", "--whole").stdout.startswith("---\ntitle: Doc")
    listed = annai("get", "a.md", "--children").stdout
    assert "root:a.md#1.1  lines 8–10" in listed
    assert "root:a.md#1.2  lines 12–14" in listed
    assert annai("get", "a.md", "--lines", "2:4").stdout == "title: Doc\n---\n# One\n"
    shown = json.loads(annai("get", "a.md#1.1", "--format", "json").stdout)
    assert shown["heading_path"] == ["One", "Two"]
    assert shown["content"].startswith("## Two")
    assert "did you mean a.md" in annai("get", "b.md", code=1).stderr
    assert "--children" in annai("get", "a.md#7", code=1).stderr
    assert "it ends at line 14" in annai("get", "a.md", "--lines", "99:100", code=2).stderr
    assert "range of lines" in annai("get", "a.md", "--lines", "x", code=2).stderr


def test_nothing_outside_the_project_can_be_got(annai: Annai, write: Write) -> None:
    write("a.md", "# A")
    (annai.folder.parent / "secret.md").write_text("# Secret")
    for reference in ("../secret.md", str(annai.folder.parent / "secret.md"), "/etc/passwd", "a.md/../../secret.md"):
        assert "There is no document" in annai("get", reference, code=1).stderr


def test_collections_are_managed_by_name(annai: Annai, tmp_path: Path) -> None:
    for name in ("api", "guide"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# {name}\n\napple {name}")
    annai("collection", "add", "-n", "api", "-d", "The API", "-s", str(tmp_path / "api"))
    annai("tool", "add", "-n", "guide", "-d", "ガイド", "-s", str(tmp_path / "guide"))
    assert annai("collection", "ls").stdout == "api\nguide\n"
    annai("collection", "disable", "-n", "guide")
    assert annai("collection", "ls").stdout == "api\n"
    assert "ガイド" in annai("collection", "ls", "--all").stdout
    annai("collection", "disable", "-n", "api")
    assert "Every collection is disabled" in annai("collection", "ls").stderr
    annai("collection", "enable", "-n", "api")
    listed = json.loads(annai("collection", "ls", "--all", "--format", "json").stdout)
    assert [(row["name"], row["enabled"]) for row in listed] == [("api", True), ("guide", False)]
    annai("collection", "enable", "-n", "guide")
    annai("collection", "update", "-n", "guide", "-d", "Changed")
    assert "added 1" in annai("import", "-n", "api").stdout
    assert "already has data" in annai("import", "-n", "api", "-m", "new", code=2).stderr
    assert "unchanged 1" in annai("import", "-c", "api").stdout
    assert "added 1" in annai("import", "-n", "api", "-m", "replace").stdout
    assert {row["collection"] for row in results(annai, "apple")} == {"api", "guide"}
    assert {row["collection"] for row in results(annai, "apple", "-c", "guide")} == {"guide"}
    assert "Nothing was deleted" in annai("collection", "delete", "-n", "api", stdin="n\n").stdout
    annai("collection", "delete", "-n", "api", stdin="y\n")
    annai("collection", "delete", "-n", "guide", "-y")
    assert json.loads(annai("collection", "ls", "--all", "--format", "json").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-n", "a b", "-s", "."), "is not a valid collection name"),
        (("-n", "x" * 65, "-s", "."), "is not a valid collection name"),
        (("-n", "search", "-s", "."), "annai uses the name"),
        (("-n", "root", "-s", "."), "annai uses the name"),
        (("-n", "ok", "-s", "./missing"), "There is no folder missing"),
        (("-n", "there", "-s", "."), "The collection 'there' already exists"),
    ],
)
def test_a_collection_that_cannot_be_is_refused_with_a_reason(
    annai: Annai, arguments: tuple[str, ...], sentence: str
) -> None:
    annai("collection", "add", "-n", "there", "-d", "x", "-s", ".")
    assert sentence in annai("collection", "add", "-d", "x", *arguments, code=2).stderr
    assert "There is no collection 'nope'" in annai("collection", "enable", "-n", "nope", code=2).stderr


def test_status_tells_counts_and_why_files_were_left_out(annai: Annai, write: Write) -> None:
    write("a.md", "# A\n\napple")
    (annai.folder / "bad.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    annai("import")
    shown = annai("status").stdout
    assert "bad.txt: binary file" in shown
    assert str(annai.folder) in shown
    told = json.loads(annai("status", "--format", "json").stdout)
    (collection,) = told["collections"]
    assert (collection["documents"], collection["sections"], collection["vectors"]) == (1, 1, 1)
    assert collection["problems"] == [{"path": "bad.txt", "kind": "skipped", "reason": "binary file"}]
    assert collection["imported_at"]
    assert told["size_on_disk"] > 0
    assert "\na.md\n" in annai("status", "-n", "root").stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_status_tells_of_files_that_were_left_out_for_their_names(annai: Annai, write: Write) -> None:
    write("é.md", "# A\n\napple")
    decomposed = write("e\u0301.md", "# B\n\nbanana")
    broken = Path(os.fsdecode(os.fsencode(annai.folder) + b"/\x83\xff.md"))
    broken.write_text("# C\n\ncherry")
    assert annai("search", "apple").stderr == ""
    (collection,) = json.loads(annai("status", "--format", "json").stdout)["collections"]
    assert collection["documents"] == 1
    assert [(each["path"], each["kind"]) for each in collection["problems"]] == [
        (r"\x83\xff.md", "skipped"),
        ("e\u0301.md", "skipped"),
    ]
    assert "not valid UTF-8" in annai("status").stdout
    decomposed.rename(annai.folder / "b.md")
    broken.rename(annai.folder / "c.md")
    assert {row["path"] for row in results(annai, "banana cherry", "--mode", "keyword")} == {"b.md", "c.md"}
    assert json.loads(annai("status", "--format", "json").stdout)["collections"][0]["problems"] == []


def test_init_writes_settings_that_load_and_does_not_overwrite_them(docs: Path) -> None:
    annai = Annai(docs)
    assert "Wrote" in annai("init").stdout
    written = (docs / "annai.toml").read_text()
    assert "# max_file_mb = 10.0" in written
    assert "already exists" in annai("init", code=2).stderr
    uncommented = "\n".join(
        line[2:] if " = " in line else line for line in written.splitlines() if "# " in line or "[" in line
    )
    (docs / "annai.toml").write_text(
        "\n".join(line for line in uncommented.splitlines() if "=" in line or "[" in line[:1])
    )
    annai("status")


def test_config_is_accepted_before_and_after_the_command_and_from_the_environment(tmp_path: Path, docs: Path) -> None:
    (docs / "a.md").write_text("# A\n\napple")
    config = tmp_path / "other.toml"
    config.write_text(f'[project]\nroot = "{docs}"\n[embedding]\nprovider = "hashing"\n')
    annai = Annai(tmp_path)
    for arguments in (("--config", str(config), "search", "apple"), ("search", "apple", "--config", str(config))):
        assert "docs/a.md:3" in annai(*arguments).stdout
    assert "docs/a.md:3" in annai("search", "apple", environment={"ANNAI_CONFIG": str(config)}).stdout


def test_verbose_tells_of_every_file_and_the_run_ends_with_a_summary(annai_here: Annai, write: Write) -> None:
    write("りんご.md", "# りんご\n\nAn apple.")
    file = write("b.md", "# B\n\nA banana.")
    first = annai_here("import", "--verbose").stderr
    assert "[index] root: 2 files (new=2, updated=0, touched=0, deleted=0, unchanged=0)" in first
    _, _, of_the_file = first.partition("[index] processing: b.md (new)\n")
    assert re.findall(r"\[TIMER\]   (\w+): [\d.]+ms \((.*)\)$", of_the_file, re.MULTILINE)[:2] == [
        ("read", f"hash={hashlib.sha256(file.read_bytes()).hexdigest()}"),
        ("split", "1 sections, 1 passages, chars=[14]"),
    ]
    for step in ("embed", "write"):
        assert re.search(rf"\[TIMER\]   {step}: [\d.]+ms \(files=2, passages=2\)", first)
    assert "INFO [index] summary: added=2, updated=0, deleted=0, unchanged=0, skipped=0, failed=0, passages=2" in first
    file.unlink()
    write("りんご.md", "# りんご\n\nAnother apple.")
    again = annai_here("search", "apple", "--verbose").stderr
    assert "(new=0, updated=1, touched=0, deleted=1, unchanged=0)" in again
    assert "processing: b.md (deleted)" in again
    assert "INFO [index] summary: added=0, updated=1, deleted=1," in again
    assert "summary" not in annai_here("search", "apple", "--verbose").stderr


def test_the_status_of_one_collection_has_all_of_it(annai_here: Annai, write: Write) -> None:
    write("文書/りんご.md", "# りんご\n\nAn apple.")
    write("文書/b.md", "# B\n\nA banana.")
    write("文書/bad.md", "\0" * 100)
    annai_here("collection", "add", "-n", "fruit", "-s", "文書", "-d", "Fruit, 果物")
    annai_here("import", "-n", "fruit", "--chunk-size", "600")
    shown = annai_here("status", "-n", "fruit").stdout
    for line in (
        "Description Fruit, 果物",
        f"Source      {annai_here.folder / '文書'}",
        "Documents   2, 1 skipped",
        "Vectors     2 (hashing",
        "Chunk size  600 tokens",
        "\nb.md\nりんご.md\n",
    ):
        assert line in shown
    (found,) = json.loads(annai_here("status", "-n", "fruit", "--format", "json").stdout)["collections"]
    assert found["document_paths"] == ["b.md", "りんご.md"]
    assert (found["documents"], found["vectors"], found["description"]) == (2, 2, "Fruit, 果物")
    assert "document_paths" not in annai_here("status", "--format", "json").stdout


def test_results_are_sorted_by_depth_both_ways(annai_here: Annai, write: Write) -> None:
    write("flat.md", "An apple.")
    write("deep.md", f"# A\n\n{'Some words. ' * 60}\n\n## B\n\n{'An apple tree grows. ' * 40}")
    depths = {
        sort: [each["depth"] for each in results(annai_here, "apple", "--sort", sort)] for sort in ("depth", "-depth")
    }
    assert depths == {"depth": [0, 2], "-depth": [2, 0]}
    write("short.md", "# Pears\n\nA pear.\n\n## Quinces\n\nA quince.")
    assert [each["path"] for each in results(annai_here, "quince", "--depth", "2")][:1] == ["short.md"]
