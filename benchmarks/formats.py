"""Does an import survive every kind of file? Real files and hostile ones, what became of them, and what it took.

    python benchmarks/formats.py FOLDER [--files 270] [--questions 40]

FOLDER holds real files of any formats (Debian's documentation packages have hundreds of PDFs and web pages). As many
as asked for are copied, evenly from all kinds, and thirty files are made that are broken, encrypted, huge or bombs.
Then annai imports all of them in a process of its own. Printed are the counts, the reasons, the processor time and the
greatest memory of any process that converted files; last, whether questions whose answer stands on one page of a PDF
are answered with that page.
"""

import argparse
import io
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import psutil

from annai.config import load_config
from annai.engine import Engine
from annai.files.kinds import CONVERTERS
from annai.files.pages import page_span

POLL_SECONDS = 0.02
SEED = 7


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=270)
    parser.add_argument("--questions", type=int, default=40)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        kinds = copy_real(arguments.folder, project, arguments.files)
        hostile = make_hostile(project)
        print("real files:", ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
        print("hostile files:", len(hostile))
        seconds, peak = run_import(project)
        report(project, hostile)
        print(f"import: {seconds:.1f} s; greatest memory of a process that converts: {peak / 1e6:.0f} MB")
        ask(project, arguments.questions)


def copy_real(folder: Path, project: Path, count: int) -> Counter[str]:
    """Copy files, in turn from each kind that there is."""
    chosen = random.Random(SEED)  # noqa: S311 - not a secret
    piles = {kind: sorted(folder.rglob(f"*{kind}")) for kind in CONVERTERS}
    for pile in piles.values():
        chosen.shuffle(pile)
    kinds: Counter[str] = Counter()
    while kinds.total() < count and any(piles.values()):
        for kind, pile in piles.items():
            if pile and kinds.total() < count:
                file = pile.pop()
                if file.is_file() and not file.is_symlink():
                    kinds[kind] += 1
                    shutil.copy(file, project / f"{kinds[kind]:03}-{file.name}")
    return kinds


def make_hostile(project: Path) -> dict[str, str]:
    """Make files that no program should trust, each with a part of the reason that it is to be skipped for."""
    good_pdf = next(iter(sorted(project.glob("*.pdf")))).read_bytes()
    office = [next(iter(sorted(project.glob(f"*{kind}")))) for kind in (".docx", ".pptx", ".xlsx", ".odt", ".epub")]
    files: dict[str, tuple[bytes, str]] = {
        "huge.pdf": (b"%PDF-1.4\n" + bytes(101_000_000), "documents.max_file_mb"),
        "cut.pdf": (b"%PDF-1.7\n" + good_pdf[2_000:3_000], "broken"),
        "locked.pdf": (locked_pdf(), "encrypted"),
        "bomb.pdf": (bomb_pdf(), ""),
        "images.pdf": (empty_pdf(), "no text"),
        "empty.pdf": (b"", "broken"),
        "text.pdf": ("ただのテキスト".encode(), "broken"),
        "locked.docx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4_000), "encrypted"),
        "locked.xlsx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4_000), "encrypted"),
        "bomb.docx": (zipped({"word/document.xml": b"<a>" + b"b" * 300_000_000 + b"</a>"}), "unpacks to more than"),
        "bomb.xlsx": (zipped({"xl/workbook.xml": bytes(300_000_000)}), "unpacks to more than"),
        "bomb.epub": (zipped({"META-INF/container.xml": bytes(300_000_000)}), "unpacks to more than"),
        "entities.docx": (zipped({"word/document.xml": ENTITIES}), "document type"),
        "entities.odt": (zipped({"content.xml": ENTITIES}), "document type"),
        "tags.docx": (zipped({"word/document.xml": b"<a>" * 3_000_000}), ""),
        "deep.odt": (zipped({"content.xml": b"<a>" * 20_000 + b"</a>" * 20_000}), ""),
        "parts.epub": (zipped({f"{number}": b"" for number in range(60_000)}), "parts"),
        "deep.html": (b"<div>" * 200_000, "nested too deeply"),
        "nothing.html": (b"<script>while (true) {}</script>", "no text"),
        "binary.html": (bytes(range(256)) * 200, ""),
        "deep.ipynb": (b"[" * 200_000, "broken"),
        "broken.ipynb": (b'{"cells": 3}', "broken"),
        "groups.rtf": (b"{\\rtf1" + b"{" * 100_000, "nested too deeply"),
        "broken.rtf": (b"rtf", "broken"),
        "broken.eml": (bytes(1_000), "broken"),
    }
    for file in office:
        data = file.read_bytes()
        files[f"cut{file.suffix}"] = (data[: len(data) // 2], "broken")
    for name, (data, _) in files.items():
        (project / name).write_bytes(data)
    return {name: reason for name, (_, reason) in files.items()}


ENTITIES = b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]><a>&b;</a>'


def zipped(parts: dict[str, bytes]) -> bytes:
    """A ZIP file of these parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def pdf_of(page: bytes, rest: bytes = b"", trailer: bytes = b"") -> bytes:
    """A PDF with one page."""
    objects = (
        b"1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\n"
    )
    last = b"trailer\n<< /Root 1 0 R " + trailer + b">>\n%%EOF"
    return b"%PDF-1.4\n" + objects + b"endobj\n3 0 obj\n" + page + b"\nendobj\n" + rest + last


def empty_pdf() -> bytes:
    """A PDF without text, as a scanner makes them."""
    return pdf_of(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>")


def locked_pdf() -> bytes:
    """A PDF that needs a password."""
    lock = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >> /ID [<00><00>] " % (
        b"00" * 32,
        b"00" * 32,
    )
    return pdf_of(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>", trailer=lock)


def bomb_pdf() -> bytes:
    """A PDF whose one page unpacks to gigabytes of text."""
    compressor = zlib.compressobj(9)
    line = b"(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) Tj " * 30_000
    data = compressor.compress(b"BT /F1 9 Tf ") + b"".join(compressor.compress(line) for _ in range(1_500))
    data += compressor.flush()
    font = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources " + font + b" >>"
    stream = b"4 0 obj\n<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\nendobj\n" % (len(data), data)
    return pdf_of(page, stream)


def run_import(project: Path) -> tuple[float, int]:
    """Import in a process; the seconds it took, and the greatest memory of any process that converted."""
    start, peak, over = time.perf_counter(), [0], threading.Event()
    process = subprocess.Popen([sys.executable, "-m", "annai", "import"], cwd=project)

    def watch() -> None:
        own = psutil.Process(process.pid)
        while not over.wait(POLL_SECONDS):
            try:
                for each in own.children(recursive=True):
                    if any("annai.files.conversion" in word for word in each.cmdline()):
                        peak[0] = max(peak[0], each.memory_info().rss)
            except psutil.Error:
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    over.set()
    watcher.join()
    if code:
        raise SystemExit(f"the import ended with {code}")
    return time.perf_counter() - start, peak[0]


def report(project: Path, hostile: dict[str, str]) -> None:
    """Print what became of the files, and what is not as it should be."""
    said = subprocess.run(
        [sys.executable, "-m", "annai", "status", "--format", "json"], cwd=project, capture_output=True, check=True
    )
    (status,) = json.loads(said.stdout)["collections"]
    problems = {each["path"]: each for each in status["problems"]}
    print(f"indexed {status['documents']}, skipped or failed {len(problems)}")
    for name, reason in hostile.items():
        told = problems.get(name, {"kind": "indexed", "reason": ""})
        mark = "ok" if told["kind"] == "skipped" and reason in told["reason"] else "WRONG"
        print(f"  {mark:5} {name}: {told['kind']}: {told['reason'][:110]}")
    for name in sorted(problems.keys() - hostile.keys()):
        print(f"  real  {name}: {problems[name]['kind']}: {problems[name]['reason'][:110]}")


def ask(project: Path, count: int) -> None:
    """Ask with sentences of PDFs, and count the answers that name the page on which each stands."""
    chosen = random.Random(SEED)  # noqa: S311 - not a secret
    asked = found = right = 0
    with Engine(load_config(docs_dir=project)) as engine:
        paths = [each for each in engine.document_paths("root") if each.endswith(".pdf")]
        while paths and asked < count:
            path = chosen.choice(paths)
            text = engine.locate(path).document.text
            number = chosen.randint(1, text.count("<!-- page "))
            span = page_span(path, text, number)
            lines = [line for line in text[slice(*span or (0, 0))].split("\n") if 40 <= len(line) <= 200]
            if not lines or text.count(line := chosen.choice(lines)) > 1:
                continue
            asked += 1
            hits = [hit for hit in engine.search(line, refresh=False, paths=[path], per_document=0) if hit.path == path]
            found += bool(hits)
            right += any(hit.page == number for hit in hits)
    print(f"asked {asked} sentences of PDFs: {found} found in their file, {right} with their page")


if __name__ == "__main__":
    main()
