"""Does a scan see what is on disk, by the rules, and nothing else?"""

import dataclasses
import hashlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import unicodedata
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.errors import CollectionError
from annai.files.ignore import Patterns
from annai.files.reader import read_document
from annai.files.scanner import Scan, compare, differs, scan
from annai.files.walk import ScannedFile, Walk
from annai.settings import Files
from annai.types import Change, ChangeKind, FileState, Problem
from tests.conftest import Annai

EVERYTHING = Files(include=("*",), exclude=())


def write(root: Path, *paths: str, text: str = "text") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def paths(source: Path, settings: Files | None = None) -> list[str]:
    return [item.path for item in scan(source, settings or Files(), {}).changes]


def states(source: Path) -> dict[str, FileState]:
    return {
        item.path: FileState(
            item.path, item.size, item.mtime_ns, hashlib.sha256(Path(item.file).read_bytes()).hexdigest()
        )
        for item in scan(source, Files(), {}).changes
    }


def kinds(result: Scan) -> dict[str, ChangeKind]:
    return {change.path: change.kind for change in result.changes}


def test_included_files_are_found_in_the_order_of_their_paths(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "a/z.rst", "a.txt", "a/b/c.mdx", "x.py", "y.markdown", "md", "日本語/検索.md")
    assert paths(tmp_path) == ["a.txt", "a/b/c.mdx", "a/z.rst", "b.md", "y.markdown", "日本語/検索.md"]


def test_a_change_has_the_size_the_time_and_the_path_of_its_file(tmp_path: Path) -> None:
    write(tmp_path, "a.md", text="12345")
    os.utime(tmp_path / "a.md", ns=(1, 1_234_567_891_234_567_891))
    (found,) = scan(tmp_path, Files(), {}).changes
    assert (found.size, found.mtime_ns, Path(found.file)) == (5, 1_234_567_891_234_567_891, tmp_path / "a.md")


def test_quotes_newlines_and_other_odd_names_are_found(tmp_path: Path) -> None:
    odd = ["it's.md", 'say "hi".md', "two\nlines.md", "a\\b.md", " .md", "[x].md", "%s.md"]
    write(tmp_path, *odd)
    assert paths(tmp_path) == sorted(odd)


def test_a_decomposed_name_is_composed_in_the_path_and_kept_in_the_file(tmp_path: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "ガイド/が.md")
    write(tmp_path, decomposed)
    (found,) = scan(tmp_path, Files(), {}).changes
    assert found.path == "ガイド/が.md"
    assert Path(found.file).read_text(encoding="utf-8") == "text"


def test_of_two_names_that_are_the_same_in_nfc_the_second_keeps_its_own_spelling(tmp_path: Path) -> None:
    composed, decomposed = "é/é.md", unicodedata.normalize("NFD", "é/é.md")
    write(tmp_path, composed, decomposed)
    if len(list(tmp_path.iterdir())) == 1:
        return  # a file system that normalises names cannot hold both
    for only in (None, [decomposed], [composed, decomposed]):
        found = {change.path: change.file for change in scan(tmp_path, Files(), {}, only=only).changes}
        assert found == {composed: tmp_path / composed, decomposed: tmp_path / decomposed}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_not_utf_8_is_escaped(tmp_path: Path) -> None:
    write(tmp_path, "good.md")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\x83e\x83X.md"))).write_text("x", encoding="utf-8")
    assert paths(tmp_path) == [r"\x83e\x83X.md", "good.md"]
    (found,) = scan(tmp_path, Files(), {}, only=[r"\x83e\x83X.md"]).changes
    assert os.fsencode(found.file.name) == b"\x83e\x83X.md"


def test_default_excludes_keep_out_hidden_and_generated_folders(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".hidden/a.md", "x/node_modules/a.md", "dist/a.md", "build.md", ".dot.md", "dist.d/a.md")
    assert paths(tmp_path) == [".dot.md", "a.md", "build.md", "dist.d/a.md"]


def test_excludes_do_not_apply_to_the_source_itself_or_above_it(tmp_path: Path) -> None:
    source = tmp_path / ".hidden" / "build" / "dist"
    write(source, "a.md", "build/b.md")
    assert paths(source) == ["a.md"]


def test_git_and_annai_folders_are_never_entered(tmp_path: Path) -> None:
    write(tmp_path, ".git/a.md", ".annai/a.md", "x/.git/a.md", "a.md", ".other/a.md")
    assert paths(tmp_path, EVERYTHING) == [".other/a.md", "a.md"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        (("docs/",), ["docs/a.md", "docs/b/c.png"]),
        (("/*.md",), ["a.md"]),
        (("**/*.md", "!docs/"), ["a.md", "x/docs.md"]),
        (("*.md", "!a.md"), ["x/docs.md"]),
        (("docs/**/*.png",), ["docs/b/c.png"]),
        (("a.*",), ["a.md", "a.txt", "docs/a.md"]),
        ((), []),
    ],
)
def test_include_patterns_mean_what_they_mean_in_gitignore(
    tmp_path: Path, include: tuple[str, ...], expected: list[str]
) -> None:
    write(tmp_path, "a.md", "a.txt", "docs/a.md", "docs/b/c.png", "x/docs.md")
    assert paths(tmp_path, Files(include=include)) == expected


def test_excludes_win_over_everything(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "secret/a.md", "drafts/x/a.md")
    write(tmp_path, ".gitignore", text="!secret/\n!a.md\n")
    assert paths(tmp_path, Files(exclude=("secret/", "drafts/**"))) == ["a.md"]


TRICKY = {
    "": "*.log\n!keep.log\n/top.md\nfoo/\n*/deep/*.md\n\\#hash.md\n\\!bang.md\nspace.md  \nsp\\ ace\\ \n"
    "a/**/z.md\n**/any.md\nx/**\n!x/y.md\n[a-c]lass.md\n[!a-c]ot.md\n# comment\nlone[.md\n/\n",
    "sub/": "!*.log\n/anchored.md\n*.txt\r\n",
    "sub/inner/": "*\n!*/\n!wanted.md\n",
}
TREE = [
    "a.log keep.log top.md q/top.md foo/a.md q/foo/a.md sub/foo #hash.md !bang.md space.md any.md q/w/any.md".split(),
    "q/deep/a.md q/r/deep/a.md a/z.md a/b/z.md a/b/c/z.md b/a/z.md x/y.md x/n.md x/s/y.md".split(),
    "alass.md dlass.md aot.md dot.md sub/b.log sub/anchored.md sub/q/anchored.md sub/b.txt lone[.md".split(),
    "sub/inner/no.md sub/inner/wanted.md sub/inner/d/wanted.md sub/inner/d/no.md".split(),
    ["sp ace ", "sp ace"],
]
KEPT = set(
    "keep.log q/top.md sub/foo q/r/deep/a.md b/a/z.md x/y.md dlass.md aot.md sub/b.log sub/q/anchored.md lone[.md "
    "sub/inner/wanted.md sub/inner/d/wanted.md".split()
) | {"sp ace"}


def make_tricky_tree(root: Path) -> None:
    for names in TREE:
        write(root, *names)
    for folder, text in TRICKY.items():
        (root / folder / ".gitignore").write_bytes(text.encode())


def test_gitignore_files_are_understood_as_git_understands_them(tmp_path: Path) -> None:
    make_tricky_tree(tmp_path)
    found = {path for path in paths(tmp_path, EVERYTHING) if not path.endswith(".gitignore")}
    assert found == KEPT
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        listing = ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard", "-z"]
        output = subprocess.run(listing, check=True, capture_output=True).stdout.decode().split("\0")
        assert found == {path for path in output if path and not path.endswith(".gitignore")}


def test_ignore_files_above_the_source_count_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", text="outside.md\n")
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    write(repository, ".gitignore", text="docs/manual/anchored.md\nanywhere.md\n/docs\n")
    write(repository, "docs/.annaiignore", text="/manual/private/\n!anywhere.md\n")
    source = repository / "docs" / "manual"
    write(source, "outside.md", "anchored.md", "anywhere.md", "private/a.md", "x/private/a.md", "x/anchored.md")
    assert paths(source) == ["anywhere.md", "outside.md", "x/anchored.md", "x/private/a.md"]


def test_ignore_files_above_the_source_do_not_count_without_a_repository(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", text="*.md\n")
    write(tmp_path, "docs/a.md")
    assert paths(tmp_path / "docs") == ["a.md"]


def test_annaiignore_overrides_gitignore(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.md", "c.md")
    write(tmp_path, ".gitignore", text="a.md\nb.md\n")
    write(tmp_path, ".annaiignore", text="!a.md\nc.md\n")
    assert paths(tmp_path) == ["a.md"]


def test_ignore_files_do_not_count_when_the_setting_says_so(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    write(tmp_path, ".gitignore", text="*\n")
    assert paths(tmp_path, Files(respect_gitignore=False)) == ["a.md"]


def test_japanese_patterns_match_names_in_either_normal_form(tmp_path: Path) -> None:
    write(tmp_path, unicodedata.normalize("NFD", "ガイド.md"), "ガイドライン.md", "メモ/a.md")
    write(tmp_path, ".gitignore", text=unicodedata.normalize("NFD", "メモ/\n") + "ガイド.md\n")
    assert paths(tmp_path) == ["ガイドライン.md"]


def test_odd_ignore_files_are_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "a.md", "b.md", "c/d.md", "e/f.md", "g/h.md")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbfa.md\n\xff\xfe\x83\n[\n[[:nothing:]]\n\\\n!\n//\n***\\\n")
    (tmp_path / "c" / ".gitignore").write_bytes(b"#" * 1_500_000 + b"\n*.md\n")
    (tmp_path / "e" / ".gitignore").mkdir()
    os.mkfifo(tmp_path / "g" / ".gitignore")
    assert paths(tmp_path) == ["b.md", "c/d.md", "e/f.md", "g/h.md"]
    assert "skipped the pattern" in caplog.text
    assert "longer than" in caplog.text


def test_no_pattern_is_slow_to_fail(tmp_path: Path) -> None:
    write(tmp_path, "a" * 200 + ".md")
    write(tmp_path, ".gitignore", text="*a" * 60 + "b\n" + "**/" * 60 + "b/c\n")
    assert len(paths(tmp_path)) == 1


def test_no_folders_in_a_pattern_are_slow_to_fail(tmp_path: Path) -> None:
    # Ten `**/a/` and a file 70 folders deep took over 40 s; these would take years.
    folder = "a/" * 90
    write(tmp_path, folder + "f.md", text="# F\n\napple\n")
    write(tmp_path, ".gitignore", text="**/a/" * 12 + "x\n" + "**/?/" * 30 + "x\n" + "**/*/" * 80 + "f.md\n")
    write(tmp_path, "annai.toml", text='[embedding]\nprovider = "hashing"\n')
    write(tmp_path, "b.md", text="# B\n\napple\n")
    told = Annai(tmp_path)("search", "apple").stdout
    assert "b.md:3" in told
    assert "f.md:3" not in told


def matches(pattern: list[str], path: list[str]) -> bool:
    """Whether git's rules say so, as simply as it can be written."""
    if not pattern:
        return not path
    if pattern[0] != "**":
        return bool(path) and fnmatchcase(path[0], pattern[0]) and matches(pattern[1:], path[1:])
    if pattern == ["**"]:
        return bool(path)
    return any(matches(pattern[1:], path[start:]) for start in range(len(path) + 1))


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "*", "a*", "?", "**"]), min_size=2, max_size=7),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=7),
)
def test_folders_in_a_pattern_mean_what_they_mean_in_gitignore(pattern: list[str], path: list[str]) -> None:
    name = path[-1]
    anchored = pattern if "/" in "/".join(pattern).removeprefix("**/") else ["**", *pattern]
    found = Patterns(["/".join(pattern)], "test").last_match(name, "/".join(path), is_folder=False) == 0
    assert found == matches(anchored, path)


def test_links_are_skipped_unless_they_are_to_be_followed(tmp_path: Path) -> None:
    write(tmp_path, "real/a.md", ".shared/b.md")
    (tmp_path / "linked.md").symlink_to("real/a.md")
    (tmp_path / "folder").symlink_to(".shared")
    assert paths(tmp_path) == ["real/a.md"]
    assert paths(tmp_path, Files(follow_symlinks=True)) == ["folder/b.md", "linked.md", "real/a.md"]


def test_links_that_leave_the_source_break_or_loop_lead_nowhere(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(tmp_path, "outside/secret.md", "source2/secret.md", "source/.git/c.md")
    write(source, "a.md", "x/y/b.md")
    (source / "out").symlink_to(tmp_path / "outside")
    (source / "twin").symlink_to(tmp_path / "source2")
    (source / "out.md").symlink_to("../outside/secret.md")
    (source / "broken.md").symlink_to("nothing.md")
    (source / "self.md").symlink_to("self.md")
    (source / "git").symlink_to(".git")
    (source / "x" / "y" / "loop").symlink_to("../..")
    (source / "x" / "again").symlink_to("y")
    assert paths(source, Files(follow_symlinks=True)) == ["a.md", "x/y/b.md"]


def test_every_link_is_followed_also_after_one_to_a_file(tmp_path: Path) -> None:
    write(tmp_path, "real/a.md", ".shared/b.md")
    (tmp_path / "a link.md").symlink_to("real/a.md")
    (tmp_path / "b link.md").symlink_to("real/a.md")
    (tmp_path / "folder").symlink_to(".shared")
    expected = ["a link.md", "b link.md", "folder/b.md", "real/a.md"]
    assert paths(tmp_path, Files(follow_symlinks=True)) == expected


def test_a_source_that_is_a_link_is_walked(tmp_path: Path) -> None:
    write(tmp_path, "real/a.md")
    (tmp_path / "link").symlink_to("real")
    assert paths(tmp_path / "link") == ["a.md"]


def test_pipes_and_sockets_are_not_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    monkeypatch.chdir(tmp_path)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        write(tmp_path, "a.md")
        assert paths(tmp_path) == ["a.md"]
        (tmp_path / "link.md").symlink_to("pipe.md")
        assert paths(tmp_path, Files(follow_symlinks=True)) == ["a.md"]


def test_nothing_changed_is_no_change(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b/c.md")
    assert scan(tmp_path, Files(), states(tmp_path)) == Scan((), 2, 0)


def test_new_updated_touched_and_deleted_files_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "gone/deleted.md", "same.md", "touched.md", "longer.md", "rewritten.md")
    known = states(tmp_path)
    shutil.rmtree(tmp_path / "gone")
    write(tmp_path, "new.md", text="123")
    write(tmp_path, "longer.md", text="longer text")
    write(tmp_path, "rewritten.md", text="TEXT")
    for path in ("touched.md", "rewritten.md", "longer.md"):
        os.utime(tmp_path / path, ns=(1, known[path].mtime_ns + 1))
    result = scan(tmp_path, Files(), known)
    assert list(kinds(result).items()) == [
        ("gone/deleted.md", ChangeKind.DELETED),
        ("longer.md", ChangeKind.UPDATED),
        ("new.md", ChangeKind.NEW),
        ("rewritten.md", ChangeKind.UPDATED),
        ("touched.md", ChangeKind.TOUCHED),
    ]
    assert result.unchanged == 1
    assert result.total_bytes == 3 + 11 + 4
    assert [change.hash for change in result.changes] == ["", "", "", "", known["touched.md"].hash]
    assert [change.file for change in result.changes] == [tmp_path / change.path for change in result.changes]


def test_a_file_that_failed_is_tried_again_and_a_skipped_one_is_not(tmp_path: Path) -> None:
    write(tmp_path, "failed.md", "skipped.md")
    known = {
        path: FileState(path, state.size, state.mtime_ns, "", Problem("failed" if "f" in path else "skipped", "why"))
        for path, state in states(tmp_path).items()
    }
    assert kinds(scan(tmp_path, Files(), known)) == {"failed.md": ChangeKind.UPDATED}


def test_a_file_that_cannot_be_hashed_is_updated(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    known = states(tmp_path)
    os.utime(tmp_path / "a.md", ns=(1, 1))
    found = [
        ScannedFile(each.path, str(each.file), each.size, each.mtime_ns) for each in scan(tmp_path, Files(), {}).changes
    ]
    (tmp_path / "a.md").unlink()
    assert kinds(compare(tmp_path, found, known)) == {"a.md": ChangeKind.UPDATED}


@pytest.mark.skipif(os.name == "nt", reason="pipes and links are Unix's")
def test_a_file_that_becomes_a_pipe_or_a_link_while_folders_are_listed_is_not_hashed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, "pipe.md", "linked.md", "folder/a.md", "kept.md")
    known = states(source)
    for each in source.rglob("*.md"):
        os.utime(each, ns=(1, 1))
    found = [
        ScannedFile(each.path, str(each.file), each.size, each.mtime_ns) for each in scan(source, Files(), {}).changes
    ]
    (source / "pipe.md").unlink()
    os.mkfifo(source / "pipe.md")
    (source / "linked.md").rename(tmp_path / "outside.md")
    (source / "linked.md").symlink_to(tmp_path / "outside.md")
    (source / "folder").rename(tmp_path / "outside")
    (source / "folder").symlink_to(tmp_path / "outside")
    compared: list[Scan] = []
    work = threading.Thread(target=lambda: compared.append(compare(source, found, known)), daemon=True)
    work.start()
    work.join(30)
    assert compared, "it waits for somebody who writes into the pipe"
    assert kinds(compared[0]) == {
        "pipe.md": ChangeKind.UPDATED,
        "linked.md": ChangeKind.UPDATED,
        "folder/a.md": ChangeKind.UPDATED,
        "kept.md": ChangeKind.TOUCHED,
    }


def test_a_file_that_is_excluded_now_is_deleted(tmp_path: Path) -> None:
    write(tmp_path, "drafts/a.md")
    assert kinds(scan(tmp_path, Files(exclude=("drafts/",)), states(tmp_path))) == {"drafts/a.md": ChangeKind.DELETED}


def test_files_in_a_folder_that_cannot_be_listed_are_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "shut/in/a.md", "shutter.md", "open/b.md")
    known = states(tmp_path)
    (tmp_path / "shutter.md").unlink()
    scandir = os.scandir

    def refusing(path: str) -> "os._ScandirIterator[str]":
        # The tests may run as root, whom no permission stops.
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with caplog.at_level(logging.WARNING):
        result = scan(tmp_path, Files(), known)
    assert kinds(result) == {"shutter.md": ChangeKind.DELETED}
    assert result.unchanged == 2
    assert "shut" in caplog.text


def test_a_source_that_is_missing_or_no_folder_is_an_error_and_not_all_deleted(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    with pytest.raises(CollectionError, match="There is no folder"):
        scan(tmp_path / "nothing", Files(), states(tmp_path))
    with pytest.raises(CollectionError, match="cannot be listed"):
        scan(tmp_path / "a.md", Files(), states(tmp_path))


def test_a_scan_that_finds_nothing_changed_loads_no_hashing(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.log")
    write(tmp_path, ".gitignore", text="*.log\n")
    program = (
        "import sys; from pathlib import Path; from annai.config import Files; from annai.files.scanner import scan;"
        f"found = scan(Path({str(tmp_path)!r}), Files(), {{}});"
        "print(len(found.changes), *({'pathspec', 'hashlib'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert output.split() == ["1"]


@pytest.mark.parametrize("step_ns", [10**9, 2 * 10**9])
def test_a_change_within_the_same_second_is_found_where_times_are_whole_seconds(tmp_path: Path, step_ns: int) -> None:
    """As on FAT and other old file systems: a file's size and time are the same, and there is no other time."""
    file = tmp_path / "a.md"

    def write_now(text: str, now: int) -> list[ScannedFile]:
        file.write_text(text)
        os.utime(file, ns=(now, now))
        return [each._replace(ctime_ns=0) for each in Walk(tmp_path, Files()).files()]

    # Far enough ahead that the test may take its time.
    now = (time.time_ns() // step_ns + 300) * step_ns
    (found,) = write_now("apple", now)
    state = read_document("c", tmp_path, Change(ChangeKind.NEW, "a.md", file, 5, now), Files()).state
    assert not differs(file, state), "the reader itself would believe that it changes all the time"
    known = {"a.md": dataclasses.replace(state, ctime_ns=0)}
    assert kinds(compare(tmp_path, [found], known)) == {}
    assert kinds(compare(tmp_path, write_now("grape", now), known)) == {"a.md": ChangeKind.UPDATED}
    # Once the second is long over, the time is recorded as it is, and no file is read any more.
    long_ago = now - 900 * 10**9
    touched = compare(tmp_path, write_now("apple", long_ago), known)
    assert kinds(touched) == {"a.md": ChangeKind.TOUCHED}
    assert touched.changes[0].mtime_ns == long_ago
