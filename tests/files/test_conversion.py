"""Are files that are no plain text read as people read them, and can none of them do harm?"""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from email.message import EmailMessage

import pytest

from annai.config import load_config
from annai.engine import Engine
from annai.errors import SkippedFile
from annai.files import kinds
from annai.files.conversion import convert
from annai.files.formats import html, lines, mail, notebook, opendocument, rtf, sheets, slides, word
from annai.files.formats.pdf import convert as convert_pdf
from annai.plugins import install_command
from annai.settings import Documents

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
A = f'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="{RELATION}"'


def package(parts: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def relations(*rows: tuple[str, str, str]) -> str:
    inner = "".join(f'<Relationship Id="{i}" Type="{RELATION}/{kind}" Target="{target}"/>' for i, kind, target in rows)
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inner}</Relationships>'
    )


def docx(body: str, **parts: str) -> bytes:
    styles = (
        f'<w:styles {W}><w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="L"><w:name w:val="List Bullet"/></w:style></w:styles>'
    )
    core = "<c><title>設計書</title><creator>鈴木</creator><keywords>k8s, 設計</keywords></c>"
    return package(
        {
            "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relations(("s", "styles", "styles.xml")),
            "word/styles.xml": styles,
            "docProps/core.xml": core,
            "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
            **parts,
        }
    )


def paragraph(text: str, style: str = "", more: str = "") -> str:
    own = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{own}<w:r>{more}<w:t>{text}</w:t></w:r></w:p>"


def pptx(*titles: str) -> bytes:
    def slide(title: str) -> str:
        shape = '<p:sp><p:nvPr><p:ph type="{}"/></p:nvPr><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sp>'
        return f'<p:sld xmlns:p="p" {A}>{shape.format("title", title)}{shape.format("body", f"about {title}")}</p:sld>'

    numbers = range(1, len(titles) + 1)
    ids = "".join(f'<p:sldId id="{255 + number}" r:id="r{number}"/>' for number in numbers)
    return package(
        {
            "_rels/.rels": relations(("r1", "officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f'<p:presentation xmlns:p="p" {A}>{ids}</p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations(
                *((f"r{number}", "slide", f"slides/slide{number}.xml") for number in numbers)
            ),
            **{f"ppt/slides/slide{number}.xml": slide(titles[number - 1]) for number in numbers},
        }
    )


def pdf(*pages: str, password: bool = False) -> bytes:
    """A PDF with one line of text on each page, in a font that every reader has."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append("<< /Title (Annual report) /Author (Ann) /CreationDate (D:20250301120000+09'00') >>")
    text, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{each}\nendobj\n"
    lock = f"/Encrypt << /Filter /Standard /V 1 /R 2 /O <{'00' * 32}> /U <{'00' * 32}> /P -4 >> /ID [<00><00>]"
    rows = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"<< /Size {size} /Root 1 0 R /Info {len(objects)} 0 R {lock if password else ''} >>"
    start = len(text)
    return (text + f"xref\n0 {size}\n0000000000 65535 f \n{rows}trailer\n{trailer}\nstartxref\n{start}\n%%EOF").encode()


def bomb(size: int) -> bytes:
    """A zipped document whose text is much larger than the file."""
    return docx(paragraph("a" * size))


def test_a_word_document_has_headings_lists_tables_pages_and_properties() -> None:
    page_end = "<w:lastRenderedPageBreak/>"
    row = "<w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>"
    table = (
        f"<w:tbl>{row.format(paragraph('名前'), paragraph('a|b'))}{row.format(paragraph('x'), paragraph('30'))}</w:tbl>"
    )
    body = paragraph("概要", "H1") + paragraph("一つ目", "L") + paragraph("二つ目", "L") + table
    converted = word.convert(docx(body + paragraph("Second &lt;page&gt;", "H1", page_end) + "<w:del>gone</w:del>"))
    assert converted.text == (
        "<!-- page 1 -->\n\n# 概要\n\n- 一つ目\n- 二つ目\n\n| 名前 | a\\|b |\n| --- | --- |\n| x | 30 |\n\n"
        "<!-- page 2 -->\n\n# Second \\<page>\n"
    )
    assert converted.values == {"title": "設計書", "author": "鈴木", "tags": ["k8s", "設計"]}


def test_slides_sheets_and_open_documents_are_trees_too() -> None:
    assert slides.convert(pptx("戦略", "Budget")).text == (
        "<!-- slide 1 -->\n\n## 戦略\n\n- about 戦略\n\n<!-- slide 2 -->\n\n## Budget\n\n- about Budget\n"
    )
    book = package(
        {
            "_rels/.rels": relations(("r1", "officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<w xmlns:r="{RELATION}"><sheet name="売上" r:id="r1"/></w>',
            "xl/_rels/workbook.xml.rels": relations(("r1", "worksheet", "sheet1.xml")),
            "xl/sharedStrings.xml": "<s><si><t>月</t></si></s>",
            "xl/styles.xml": '<s><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></s>',
            "xl/sheet1.xml": '<w><row><c r="A1" t="s"><v>0</v></c><c r="C1"><v>3.5</v></c></row>'
            '<row><c r="A2" s="1"><v>45659</v></c></row></w>',
        }
    )
    assert sheets.convert(book).text == "## 売上\n\n| 月 |  | 3.5 |\n| --- | --- | --- |\n| 2025-01-02 |  |  |\n"
    odt = package(
        {
            "content.xml": '<o:d xmlns:o="o" xmlns:x="x"><o:body><o:text><x:h x:outline-level="2">題</x:h>'
            '<x:p>See <x:a x:href="https://example.org">the site</x:a>.</x:p></o:text></o:body></o:d>'
        }
    )
    assert opendocument.convert(odt).text == "## 題\n\nSee [the site](https://example.org).\n"


def test_a_web_page_is_its_text_and_nothing_that_runs() -> None:
    page = """<html><head><title>T</title><meta charset="shift_jis"><script>evil()</script></head><body>
    <nav>menu</nav><h1>環境 <a href="#x">¶</a></h1><p>See <a href="javascript:evil()">this</a> and
    <a href="b.html">that</a>, <code>&lt;br&gt;</code> &lt;b&gt;.</p><ol><li>one<ul><li>in</li></ul><li>two</ol>
    <table><tr><th>a<th>b<tr><td>1<td>2</table><pre><code class="language-python"># not a heading</code></pre>"""
    converted = html.convert(page.encode("cp932"))
    assert converted.text == (
        "# 環境\n\nSee this and [that](b.html), `<br>` \\<b>.\n\n1. one\n   - in\n2. two\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n```python\n# not a heading\n```\n"
    )
    assert converted.values == {"title": "T"}
    assert "quoted" in html.convert(b"<main></main><p>quoted</p>").text


def test_notebooks_mail_rtf_org_and_asciidoc_are_read() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# 分析\n", "text"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"text": "1\n"}, {"data": {"image/png": "iVBO"}}]},
    ]
    assert notebook.convert(json.dumps({"cells": cells}).encode()).text == (
        "# 分析\ntext\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    )
    message = EmailMessage()
    message["Subject"], message["From"], message["Date"] = "会議", "a@example.org", "Sat, 01 Mar 2025 12:00:00 +0900"
    message.set_content("明日の会議について。")
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="plan.pdf")
    converted = mail.convert(bytes(message))
    assert "明日の会議について。" in converted.text
    assert "plan.pdf" in converted.text
    assert converted.values == {"title": "会議", "author": "a@example.org", "date": "2025-03-01T12:00:00+09:00"}
    head = rb"{\rtf1\ansicpg932{\fonttbl{\f0 A;}}\pard\outlinelevel0 \u29872?\u22659? one\par"
    assert rtf.convert(head + rb"\pard \'8a\'c2\'8b\'ab \b x\b0\par}").text == "# 環境 one\n\n環境 x\n"
    org = lines.convert_org(
        "#+TITLE: 手順\n* TODO Set up :a:\n#+begin_src sh\n* no\n#+end_src\n[[https://e.org][e]]".encode()
    )
    assert org.text == "\n# Set up\n```sh\n* no\n```\n[e](https://e.org)"
    assert org.values == {"title": "手順"}
    asciidoc = lines.convert_asciidoc(b"= Guide\n\n== Part\n[source,sh]\n----\n== no\n----\n* item\n// gone")
    assert asciidoc.text == "# Guide\n\n## Part\n\n```sh\n== no\n```\n- item\n"


def test_a_pdf_has_its_pages_and_properties() -> None:
    converted = convert_pdf(pdf("First page", "Second page"))
    assert converted.text == "<!-- page 1 -->\n\nFirst page\n\n<!-- page 2 -->\n\nSecond page\n"
    assert converted.values == {"title": "Annual report", "author": "Ann", "date": "2025-03-01T12:00:00+09:00"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("formats")
    (folder / "annai.toml").write_text(
        '[embedding]\nprovider = "hashing"\n[documents]\nmax_memory_mb = 300\ntimeout_seconds = 5\nmax_file_mb = 1\n'
    )
    files = {
        "報告.PDF": pdf("Kilimanjaro is high", "Fuji is in Japan"),
        "slides.pptx": pptx("Budget", "Everest"),
        "good.docx": docx(paragraph("A good one", "H1")),
        "picture.png": b"\x89PNG",
        "broken.pdf": b"%PDF-1.4 nothing",
        "locked.pdf": pdf("secret", password=True),
        "broken.docx": b"PK\x03\x04 nothing",
        "locked.xlsx": b"\xd0\xcf\x11\xe0" + bytes(100),
        "bomb.docx": bomb(150_000_000),
        "entities.odt": package({"content.xml": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'}),
        "huge.rtf": b"{\\rtf1 " + b"a" * 1_100_000,
        "deep.html": b"<div>" * 100_000,
        "empty.html": b"<script>x</script>",
        "hang.pdf": endless_pdf(),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with Engine(load_config(docs_dir=folder)) as engine:
        engine.import_collection(mode="new")
        yield engine


def endless_pdf() -> bytes:
    """A PDF whose page tree goes round in a circle, and a stream that unpacks to much more than it is."""
    stream = zlib.compress(b"0 0 m " * 20_000_000)
    head = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
    pages = b"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n"
    page = b"3 0 obj\n<< /Type /Page /Parent 2 0 R /Contents 4 0 R /MediaBox [0 0 9 9] >>\nendobj\n"
    body = b"4 0 obj\n<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\nendobj\n" % (len(stream), stream)
    return head + pages + page + body + b"trailer\n<< /Root 1 0 R >>\n%%EOF"


def test_hostile_files_are_skipped_with_their_reasons_and_the_import_goes_on(project: Engine) -> None:
    (status,) = project.status().collections
    reasons = {state.path: state.problem.reason for state in status.problems if state.problem}
    assert {state.problem.kind for state in status.problems if state.problem} == {"skipped"}
    expected = {
        "broken.pdf": "it is broken",
        "locked.pdf": "it is encrypted",
        "broken.docx": "it is broken",
        "locked.xlsx": "it is encrypted",
        "bomb.docx": "it unpacks to more than 100 MB",
        "entities.odt": "defines a document type",
        "huge.rtf": "documents.max_file_mb",
        "deep.html": "nested too deeply",
        "empty.html": "it holds no text",
    }
    for path, reason in expected.items():
        assert reason in reasons[path], path
    assert reasons.keys() == {*expected, "hang.pdf"}
    assert project.document_paths("root") == ["good.docx", "slides.pptx", "報告.PDF"]
    assert [(each.suffix, each.files) for each in status.left_out] == [(".png", 1), (".toml", 1)]


def test_a_hit_says_its_page_and_a_page_can_be_read(project: Engine) -> None:
    hit = project.search("Fuji", mode="keyword")[0]
    assert (hit.path, hit.page, hit.title) == ("報告.PDF", 2, "Annual report")
    assert project.search("Everest", mode="keyword")[0].page == 2
    for reference in ("報告.PDF, page 2", "報告.PDF#page=2"):
        assert project.locate(reference).content == "<!-- page 2 -->\n\nFuji is in Japan\n"
    assert project.locate("slides.pptx, slide 1").document.front_matter == {}
    assert project.locate("報告.PDF").document.front_matter["author"] == "Ann"


def test_without_the_extra_a_pdf_is_left_out_and_a_known_one_stays(
    project: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "find_spec", lambda _: None)
    new = project.config.root / "new.pdf"
    new.write_bytes(pdf("A new one"))
    command = install_command("documents")
    summary = project.import_collection()
    assert (summary.added, summary.deleted, summary.skipped) == (0, 0, 0)
    assert next((each.suffix, each.files, each.install) for each in summary.left_out) == (".pdf", 1, command)
    assert command in project.why_missing("new.pdf")
    assert project.search("Fuji", mode="keyword")[0].index_status == "latest"
    monkeypatch.undo()
    assert project.import_collection().added == 1
    # The other tests have the same project.
    new.unlink()
    assert project.import_collection().deleted == 1


def test_a_file_that_takes_too_long_or_too_much_ends_its_process_only() -> None:
    slow = struct.pack("5s", b"{\\rtf") + b"1 " + b"\\u1 " * 20_000_000
    with pytest.raises(SkippedFile, match=r"took longer than 0\.3 seconds"):
        convert("a.rtf", slow, Documents(timeout_seconds=0.3), 10_000_000)
    with pytest.raises(SkippedFile, match="memory"):
        convert("a.rtf", slow, Documents(max_memory_mb=100), 10_000_000)
    assert convert("a.html", b"<p>fine</p>", Documents(), 1_000).text == "fine\n"
