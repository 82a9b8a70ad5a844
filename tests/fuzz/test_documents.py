"""Can any file break the way from bytes to sections? It is read or refused with a reason, and no text is lost."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.errors import ReadError, SkippedFile
from annai.files.encoding import decode
from annai.files.reader import MAX_TITLE_CHARACTERS, read_document
from annai.settings import Chunking, Files
from annai.splitters.base import STRATEGIES, load_splitter
from annai.text.fields import passage_fields
from annai.text.keywords import extract_keywords
from annai.text.outline import outline
from annai.text.rst import MAX_HEADING_CHARACTERS
from annai.types import Change, ChangeKind, Document, Format
from tests.fuzz import FUZZ, attempt
from tests.fuzz.strategies import DOCUMENTS, files, is_json
from tests.splitters.test_splitters import CHUNKINGS, assert_pieces, assert_promises, document

CHUNKING = Chunking(size=24, overlap=6)
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.*"))
SUFFIXES = st.sampled_from([".md", ".rst", ".txt"])


@FUZZ
@given(files())
def test_any_bytes_are_a_text_or_refused(data: bytes) -> None:
    text = attempt(SkippedFile, lambda: decode(data))
    assert isinstance(text, SkippedFile) or text.encode().decode() == text


@FUZZ
@given(DOCUMENTS)
def test_a_text_in_utf_8_is_decoded_as_it_is(text: str) -> None:
    # Zero bytes may be half of a character in UTF-16, an escape may begin one in ISO-2022-JP, and marks are removed.
    text = re.sub("[\0\x1b\ufeff]", "", text)
    found = attempt(SkippedFile, lambda: decode(text.encode()))
    assert not text.isprintable() if isinstance(found, SkippedFile) else found == text


@FUZZ
@given(files(), SUFFIXES)
def test_any_file_becomes_a_document_or_gets_a_reason(tmp_path: Path, data: bytes, suffix: str) -> None:
    (tmp_path / f"a{suffix}").write_bytes(data)
    found = attempt(ReadError, lambda: read(tmp_path / f"a{suffix}"))
    if not isinstance(found, ReadError):
        assert_document(found)


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.name)
def test_what_was_found_before_is_read_and_split(file: Path) -> None:
    found = attempt(ReadError, lambda: read(file))
    if not isinstance(found, ReadError):
        assert_document(found)
        for strategy in STRATEGIES:
            assert_promises(found, load_splitter(strategy)(found, CHUNKING))


@FUZZ
@given(DOCUMENTS, st.sampled_from(["markdown", "rst", "text"]), st.integers(0, 30))
def test_an_outline_lies_inside_its_text_in_order(text: str, text_format: Format, start: int) -> None:
    start = min(start, len(text))
    found = outline(text, text_format, start)
    for spans in ([(heading.start, heading.end) for heading in found.headings], found.blocks):
        assert all(start <= first < after <= len(text) for first, after in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for heading in found.headings:
        assert 1 <= heading.level <= 6
        assert len(heading.text) <= MAX_HEADING_CHARACTERS
        assert heading.text.encode().decode() == heading.text


@pytest.mark.parametrize("strategy", STRATEGIES)
@FUZZ
@given(DOCUMENTS, CHUNKINGS, st.sampled_from(["markdown", "rst", "text"]))
def test_no_text_is_lost_between_sections(strategy: str, text: str, chunking: Chunking, text_format: Format) -> None:
    chunking = replace(chunking, overlap=min(chunking.overlap, chunking.size - 1))
    source = document(text, text_format)
    found = load_splitter(strategy)(source, chunking)
    assert_promises(source, found)
    assert_pieces(found, chunking)
    for section in found:
        assert all(word.strip() for word in extract_keywords(passage_fields(source, section)).distinct)


def read(file: Path) -> Document:
    return read_document("c", file.parent, Change(ChangeKind.NEW, file.name, file), Files())


def assert_document(found: Document) -> None:
    assert found.text.encode().decode() == found.text
    assert 0 <= found.body_start <= len(found.text)
    assert is_json(dict(found.front_matter))
    assert 0 < len(found.title) <= MAX_TITLE_CHARACTERS
    assert found.title.encode()
