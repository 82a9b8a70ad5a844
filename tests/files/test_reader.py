"""Does the reader say what a file says, whatever its bytes, and nothing of other files?"""

import hashlib
import json
import os
import socket
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from annai.errors import ReadError, SkippedFile, UnreadableFile
from annai.files.reader import read_document
from annai.settings import Files
from annai.types import Change, ChangeKind, Document

TINY = "テスト"
SENTENCE = "検索の精度を上げる方法。"
MARKDOWN = "# 見出し\n\nThis is `code` の例です。\r\n\r\n- リスト項目\n- another item\n"
PROSE = (
    "案内は、フォルダーの中の文書を意味と言葉で探せるようにする道具です。日本語と英語の両方に対応し、最初の一分から"
    "オフラインで動きます。Kubernetes の Pod については https://example.com/ を参照してください。\n"
)
MOSTLY_ASCII = "# Install\n\nRun `pip install annai` and wait.\n" * 30 + "注意\n"
TEXTS = [TINY, SENTENCE, MARKDOWN, PROSE, PROSE * 40, MOSTLY_ASCII]


def read(source: Path, path: str, settings: Files | None = None) -> Document:
    change = Change(ChangeKind.NEW, unicodedata.normalize("NFC", path), source / path)
    return read_document("docs", source, change, settings or Files())


def read_bytes(folder: Path, data: bytes, name: str = "page.md") -> Document:
    (folder / name).write_bytes(data)
    return read(folder, name)


def read_text(folder: Path, text: str, name: str = "page.md") -> Document:
    return read_bytes(folder, text.encode(), name)


def skip_reason(source: Path, path: str, settings: Files | None = None) -> str:
    with pytest.raises(SkippedFile) as caught:
        read(source, path, settings)
    return str(caught.value)


def test_a_document_carries_what_the_file_is(tmp_path: Path) -> None:
    data = b"---\r\ntitle: Manual\r\n---\r\n# One\r\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.md").write_bytes(data)
    os.utime(tmp_path / "a" / "b.md", ns=(1, 1_234_567_891_234_567_891))
    document = read(tmp_path, "a/b.md")
    assert (document.collection, document.path, document.title) == ("docs", "a/b.md", "Manual")
    assert (document.state.path, document.state.size) == ("a/b.md", len(data))
    assert document.state.mtime_ns == 1_234_567_891_234_567_891
    assert document.state.hash == hashlib.sha256(data).hexdigest()
    assert document.text == data.decode()
    assert document.text[document.body_start :] == "# One\r\n"
    assert [heading.text for heading in document.outline.headings] == ["One"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp932", "shift_jis", "euc_jp", "iso2022_jp", "iso2022_jp_ext"],
)
def test_japanese_is_read_in_every_usual_encoding(tmp_path: Path, text: str, encoding: str) -> None:
    assert read_bytes(tmp_path, text.encode(encoding)).text == text


@pytest.mark.parametrize("text", [MARKDOWN, PROSE, PROSE * 40, MOSTLY_ASCII, "plain"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_known_by_its_zeros(tmp_path: Path, text: str, encoding: str) -> None:
    assert read_bytes(tmp_path, text.encode(encoding)).text == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path, encoding: str) -> None:
    assert read_bytes(tmp_path, ("\ufeff" + SENTENCE).encode(encoding)).text == SENTENCE


@pytest.mark.parametrize("encoding", ["cp932", "euc_jis_2004"])
def test_symbols_that_vendors_added_to_japanese_are_read(tmp_path: Path, encoding: str) -> None:
    text = PROSE + "①丸数字と㈱も含みます。\n"
    assert read_bytes(tmp_path, text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Le café est déjà fermé, l’été prochain aussi.", "cp1252"),
        ("Größe und Übermut tun selten gut.", "latin-1"),
        ("Plain English, and much of it. " * 300 + "café", "latin-1"),
        ("Привет, мир! Это простой текст на русском языке для проверки кодировки. " * 3, "cp1251"),
        ("这是一个用于测试编码检测的简体中文文本。搜索引擎可以帮助用户找到需要的文件。" * 3, "gb18030"),
        ("이것은 인코딩 감지를 시험하기 위한 한국어 텍스트입니다. 검색 엔진은 문서를 찾습니다. " * 3, "euc_kr"),
    ],
)
def test_other_languages_are_not_taken_for_japanese(tmp_path: Path, text: str, encoding: str) -> None:
    assert read_bytes(tmp_path, text.encode(encoding)).text == text


def test_utf_8_that_was_cut_off_stays_utf_8(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, SENTENCE.encode()[:-1]).text == SENTENCE[:-1] + "\ufffd"


def test_a_few_bad_bytes_in_utf_8_become_replacement_characters(tmp_path: Path) -> None:
    data = (PROSE * 20).encode() + b"\xff" + PROSE.encode()
    assert read_bytes(tmp_path, data).text == PROSE * 20 + "\ufffd" + PROSE


@pytest.mark.parametrize("text", [SENTENCE, SENTENCE[:4], "Le café est déjà fermé.", "| 名前 | 価格 |"])
@pytest.mark.parametrize("bad", [b"\xff", b"\x81", b"\xe3", b"\x92"])
def test_one_bad_byte_in_short_utf_8_costs_one_character(tmp_path: Path, text: str, bad: bytes) -> None:
    assert read_bytes(tmp_path, text.encode() + bad + b" " + text.encode()).text == f"{text}\ufffd {text}"


@pytest.mark.parametrize("bad", [b"\x81", b"\xff\xfe", b"\xa4"])
def test_a_stray_byte_in_ascii_is_no_foreign_letter(tmp_path: Path, bad: bytes) -> None:
    text = read_bytes(tmp_path, b"2026-04-01 12:00 [info] ok " + bad + b" {}\n" * 3).text
    assert text.isascii() is False
    assert set(text) - set(map(chr, range(128))) == {"\ufffd"}


def test_quotes_of_windows_in_english_are_not_taken_for_kanji(tmp_path: Path) -> None:
    text = "It’s “plain” English – and that’s that."
    assert read_bytes(tmp_path, text.encode("cp1252")).text == text


def test_japanese_that_was_cut_off_is_still_read(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, PROSE.rstrip().encode("cp932")[:-1]).text.startswith(PROSE[:-3])


def test_line_endings_are_kept(tmp_path: Path) -> None:
    text = "one\r\ntwo\nthree\rfour\x0bfive\u2028six\r\n"
    assert read_text(tmp_path, text).text == text


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)),
        b"text\0text",
        b"apple\0",
        b"apple pie\0and\0",
        b"\x01\x02\x03\x04abc" * 50,
        b"\0" * 100,
    ],
)
def test_binary_files_are_skipped(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.md").write_bytes(data)
    assert skip_reason(tmp_path, "a.md") == "binary file"


def test_bytes_of_no_encoding_are_skipped(tmp_path: Path) -> None:
    noise = b"".join(hashlib.sha256(bytes([seed])).digest() for seed in range(64))
    (tmp_path / "a.md").write_bytes(bytes(code for code in noise if code > 127))
    assert "unknown encoding" in skip_reason(tmp_path, "a.md")


def test_an_empty_file_is_an_empty_document(tmp_path: Path) -> None:
    document = read_bytes(tmp_path, b"", "empty.md")
    assert (document.text, document.title, document.body_start) == ("", "empty", 0)


def test_every_document_can_be_stored_as_utf_8(tmp_path: Path) -> None:
    document = read_bytes(tmp_path, b'---\ntitle: "\\ud800x"\n---\n' + "\ufeff\ud83d".encode("utf-8", "surrogatepass"))
    document.text.encode()
    document.title.encode()
    json.dumps(document.front_matter, ensure_ascii=False).encode()


def test_a_file_over_the_limit_is_skipped_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x" * 12_300)
    settings = Files(max_file_mb=0.01)
    assert skip_reason(tmp_path, "a.md", settings) == "12,300 bytes, over the limit of 0.01 MB (files.max_file_mb)"
    with (tmp_path / "a.md").open("wb") as stream:
        stream.truncate(12_345_678)
    assert skip_reason(tmp_path, "a.md") == "12.3 MB, over the limit of 10 MB (files.max_file_mb)"
    (tmp_path / "a.md").write_bytes(b"x" * 10_000)
    assert read(tmp_path, "a.md", settings).state.size == 10_000


def test_folders_pipes_and_sockets_are_skipped_without_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    monkeypatch.chdir(tmp_path)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        for name in ("folder.md", "pipe.md", "socket.md"):
            assert skip_reason(tmp_path, name) == "not a regular file"


def test_nothing_outside_the_source_is_read(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "inside").mkdir(parents=True)
    (tmp_path / "source2").mkdir()
    for secret in (tmp_path / "secret.md", tmp_path / "source2" / "secret.md"):
        secret.write_text("secret", encoding="utf-8")
    (source / "link.md").symlink_to(tmp_path / "secret.md")
    (source / "folder").symlink_to(tmp_path / "source2")
    for settings in (Files(), Files(follow_symlinks=True)):
        for path in ("../secret.md", "inside/../../secret.md", "link.md", "folder/secret.md", "../source2/secret.md"):
            assert "outside" in skip_reason(source, path, settings)
        assert "outside" in skip_reason(source, str(tmp_path / "secret.md"), settings)


def test_a_link_inside_the_source_is_read_only_when_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text", encoding="utf-8")
    (tmp_path / "link.md").symlink_to("a.md")
    assert "symbolic link" in skip_reason(tmp_path, "link.md")
    assert read(tmp_path, "link.md", Files(follow_symlinks=True)).text == "text"


def test_a_source_that_is_itself_a_link_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.md").write_text("text", encoding="utf-8")
    (tmp_path / "source").symlink_to("real")
    assert read(tmp_path / "source", "a.md").text == "text"


def test_a_file_that_vanished_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="no longer there"):
        read(tmp_path, "a.md")


@pytest.mark.skipif(sys.platform != "linux", reason="root keeps its rights on other systems")
def test_a_file_without_permission_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x", encoding="utf-8")
    (tmp_path / "a.md").chmod(0)
    program = f"""
import os
from pathlib import Path
from annai.settings import Files
from annai.files.reader import read_document
from annai.types import Change, ChangeKind
if os.geteuid() == 0:
    os.setegid(65534), os.seteuid(65534)
source = Path({str(tmp_path)!r})
try:
    read_document("docs", source, Change(ChangeKind.NEW, "a.md", source / "a.md"), Files())
except Exception as error:
    print(type(error).__name__, error)
"""
    # Whoever the test drops to must still be able to reach the file's folder.
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert output.strip() == "UnreadableFile permission denied"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, "markdown") for name in ("a.md", "a.MD", "a.markdown", "a.mdx")],
        ("a.rst", "rst"),
        *[(name, "text") for name in ("a.txt", "a", "a.py")],
    ],
)
def test_the_suffix_tells_the_format(tmp_path: Path, name: str, expected: str) -> None:
    assert read_text(tmp_path, "x", name).format == expected


@pytest.mark.parametrize(
    ("text", "values", "body"),
    [
        ("---\ntitle: A\ntags: [x, y]\n---\nbody", {"title": "A", "tags": ["x", "y"]}, "body"),
        ("---  \r\ntitle: 題名\r\n...\r\nbody", {"title": "題名"}, "body"),
        ("+++\nwhen = 2024-01-02T03:04:05Z\n+++\nbody", {"when": "2024-01-02T03:04:05+00:00"}, "body"),
        ("---\na: 1\n---", {"a": 1}, ""),
        ("---\n---\nbody", {}, "body"),
        ("---\ndate: 2024-01-02\nbad: 2024-13-45\n---\n", {"date": "2024-01-02", "bad": "2024-13-45"}, ""),
        ("---\na: .inf\nb: .nan\n---\n", {"a": "inf", "b": "nan"}, ""),
        ("---\n2: x\ntrue: y\nnull: z\n---\n", {"2": "x", "true": "y", "null": "z"}, ""),
        ("---\ns: !!set {b, a}\n---\n", {"s": ["a", "b"]}, ""),
        ("---\ntitle: [unclosed\n---\nbody", {}, "body"),
        ("---\nx: !!python/object/apply:os.system ['true']\n---\nbody", {}, "body"),
        ("---\nn: !!int x\n---\nbody", {}, "body"),
        ("+++\nnot toml\n+++\nbody", {}, "body"),
    ],
)
def test_front_matter_is_parsed_and_left_out_of_the_body(
    tmp_path: Path, text: str, values: dict[str, object], body: str
) -> None:
    document = read_text(tmp_path, text)
    assert document.front_matter == values
    assert document.text[document.body_start :] == body
    assert document.text == text
    json.dumps(document.front_matter, allow_nan=False)


@pytest.mark.parametrize(
    "text",
    [
        "---\njust a paragraph\n---\nmore",
        "---\n\n# A heading\n\n---\n\nmore",
        "---\n- a\n- b\n---\n",
        "---\na: 1\nno end",
        "\n---\na: 1\n---\n",
        "----\na: 1\n----\n",
        "text\n---\na: 1\n---\n",
        "---\na: " + "x" * 70_000 + "\n---\n",
    ],
)
def test_what_only_looks_like_front_matter_is_body(tmp_path: Path, text: str) -> None:
    document = read_text(tmp_path, text)
    assert (document.body_start, document.front_matter) == (0, {})


def test_only_markdown_has_front_matter(tmp_path: Path) -> None:
    assert read_text(tmp_path, "---\na: 1\n---\n", "a.txt").body_start == 0


@pytest.mark.parametrize("reference", ["[{}]", "{{<<: [{}]}}"])
def test_aliases_that_multiply_are_refused(tmp_path: Path, reference: str) -> None:
    lines = ["a0: &a0 {x: y}"]
    lines += [f"a{level}: &a{level} " + reference.format(", ".join([f"*a{level - 1}"] * 9)) for level in range(1, 12)]
    document = read_text(tmp_path, "---\n" + "\n".join(lines) + "\n---\nbody")
    assert (document.front_matter, document.text[document.body_start :]) == ({}, "body")


def test_front_matter_that_contains_itself_or_is_very_deep_is_survived(tmp_path: Path) -> None:
    assert read_text(tmp_path, "---\na: &a [*a]\n---\n").front_matter == {}
    deep = read_text(tmp_path, "---\na: " + "[" * 5_000 + "]" * 5_000 + "\n---\n")
    json.dumps(deep.front_matter)
    shared = read_text(tmp_path, "---\na: &a [1]\nb: *a\n---\n")
    assert shared.front_matter == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.md", "---\ntitle: Front\n---\n# Heading\n", "Front"),
        ("a.md", "---\ntitle: 2024\n---\n# Heading\n", "2024"),
        ("a.md", "---\ntitle: ' '\n---\n# Heading\n", "Heading"),
        ("a.md", "---\ntitle: [x]\n---\n# Heading\n", "Heading"),
        ("a.md", "---\ntitle: true\n---\n# Heading\n", "Heading"),
        ("a.md", "## Second\n\n# First\n", "First"),
        ("a.md", "## Second\n", "a"),
        ("v1.2 手順.md", "text", "v1.2 手順"),
        (unicodedata.normalize("NFD", "ガイド.txt"), "text", "ガイド"),
        ("a.md", "---\ntitle: >\n  two\n  lines\t  here\n---\n", "two lines here"),
        ("a.md", "# " + "長" * 300 + "\n", "長" * 200),
    ],
)
def test_the_title_comes_from_front_matter_then_heading_then_name(
    tmp_path: Path, name: str, text: str, title: str
) -> None:
    assert read_text(tmp_path, text, name).title == title


def test_reasons_do_not_repeat_the_path(tmp_path: Path) -> None:
    (tmp_path / "strange-name.md").write_bytes(b"\0")
    for path in ("strange-name.md", "strange-name-2.md"):
        with pytest.raises(ReadError) as caught:
            read(tmp_path, path)
        assert "strange-name" not in str(caught.value)
