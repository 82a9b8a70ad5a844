"""Do the splitters keep their promises, and cut where a person would?"""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annai.settings import Chunking
from annai.splitters.base import STRATEGIES, Splitter, load_splitter
from annai.splitters.cuts import character_parts, token_pieces
from annai.testing.splitters import *  # noqa: F403 - the contract
from annai.testing.splitters import CHUNKINGS, TEXTS, document
from annai.text.outline import outline
from annai.text.tokens import count_tokens
from annai.types import Document, Format, Section

SMALL = Chunking(size=24, overlap=6, max_tokens=30, min_tokens=3, max_chars=80, min_chars=10)


def sections(text: str, chunking: Chunking = SMALL) -> Sequence[Section]:
    return load_splitter("sections")(document(text), chunking)


def texts(text: str, found: Sequence[Section]) -> list[str]:
    return [text[section.start : section.end] for section in found]


def assert_pieces(found: Sequence[Section], chunking: Chunking) -> None:
    for leaf in found:
        pieces = [section for section in found if section.piece and section.parent == leaf.order]
        if not pieces:
            continue
        assert [section.piece for section in pieces] == list(range(1, len(pieces) + 1))
        assert (pieces[0].start, pieces[-1].end) == (leaf.start, leaf.end)
        assert all(before.start < after.start <= before.end < after.end for before, after in pairwise(pieces))
        for piece in pieces:
            assert piece.token_count <= chunking.size
            assert (piece.depth, piece.heading, piece.heading_path, piece.number) == (
                leaf.depth,
                leaf.heading,
                leaf.heading_path,
                leaf.number,
            )


# Laws


@pytest.fixture(params=STRATEGIES)
def split(request: pytest.FixtureRequest) -> Splitter:
    """The splitter under test."""

    def split(document: Document, chunking: Chunking) -> Sequence[Section]:
        found = load_splitter(request.param)(document, chunking)
        assert_pieces(found, chunking)
        return found

    return split


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(4, 60), st.integers(0, 20))
def test_a_block_that_fits_is_never_cut(text: str, size: int, overlap: int) -> None:
    blocks = outline(text, "markdown").blocks
    pieces = token_pieces(text, blocks, size, overlap)
    parts = character_parts(text, blocks, size * 3)
    for start, end in blocks:
        if count_tokens(text[start:end]) <= size:
            assert not any(start < edge < end for piece in pieces for edge in piece[:2])
        if end - start <= size * 3:
            assert not any(start < edge < end for part in parts for edge in part)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(2, 60))
def test_a_line_ending_is_never_split(text: str, size: int) -> None:
    pieces = token_pieces(text, (), size, size // 3)
    parts = character_parts(text, (), size)
    for edge in [edge for piece in pieces for edge in piece[:2]] + [edge for part in parts for edge in part]:
        assert text[max(edge - 1, 0) : edge + 1] != "\r\n"


@settings(max_examples=100, deadline=None)
@given(TEXTS, CHUNKINGS)
def test_a_section_under_the_minimum_only_fills_a_gap_beside_larger_ones(text: str, chunking: Chunking) -> None:
    found = sections(text, chunking)
    for section in found:
        if section.order and not section.piece and section.token_count < chunking.min_tokens:
            siblings = [other for other in found if other.parent == section.parent and not other.piece]
            assert any(other.token_count >= chunking.min_tokens for other in siblings)


# The tree of sections

GUIDE = """# OAuth

Intro to the whole.

## Tokens

What tokens are, in many words.

### Refresh tokens

How to refresh one, step by step.

#### Details

Deep text stays here.

### Access tokens

How to use one, step by step.

## Errors

What can go wrong, and what to do then.
"""


def test_headings_make_a_tree_with_numbers_and_paths() -> None:
    found = sections(GUIDE, replace(SMALL, max_tokens=500))
    assert [(s.depth, s.number, s.heading, s.parent) for s in found] == [
        (0, (), "T", None),
        (1, (0,), "T", 0),
        (2, (1, 1), "Tokens", 0),
        (3, (1, 1, 0), "Tokens", 2),
        (3, (1, 1, 1), "Refresh tokens", 2),
        (3, (1, 1, 2), "Access tokens", 2),
        (2, (1, 2), "Errors", 0),
    ]
    assert found[4].heading_path == ("OAuth", "Tokens", "Refresh tokens")
    assert found[3].heading_path == ("OAuth", "Tokens")
    assert [(s.start_line, s.end_line) for s in found] == [
        (1, 23),
        (1, 3),
        (5, 19),
        (5, 7),
        (9, 15),
        (17, 19),
        (21, 23),
    ]


def test_a_section_stands_for_the_depths_of_the_short_ones_that_stayed_inside() -> None:
    found = sections("# A\n\nSome text.\n\n## B\n\nFew words.\n\n### C\n\nFewer.\n", replace(SMALL, min_tokens=50))
    assert [(section.depth, section.last_depth) for section in found] == [(0, 3)]
    long = "many words of text " * 8
    found = sections(f"# A\n\n{long}\n\n## B\n\nFew words.\n\n## C\n\n{long}", replace(SMALL, min_tokens=20))
    assert [(s.heading, s.depth, s.last_depth) for s in found if not s.piece][1:] == [("T", 1, 2), ("C", 2, 2)]


def test_a_parent_covers_its_children() -> None:
    found = sections(GUIDE, replace(SMALL, max_tokens=500))
    tokens = found[2]
    assert GUIDE[tokens.start : tokens.end] == GUIDE[GUIDE.index("## Tokens") : GUIDE.index("## Errors")]
    assert (found[4].start, found[5].end) > (tokens.start, tokens.start)
    assert tokens.start < found[4].start < found[5].end == tokens.end


def test_deeper_headings_stay_in_the_text() -> None:
    found = sections(GUIDE, replace(SMALL, max_tokens=500))
    assert "#### Details\n\nDeep text stays here." in texts(GUIDE, found)[4]
    assert [s.heading for s in sections(GUIDE, replace(SMALL, max_tokens=500, max_depth=2))] == [
        "T",
        "T",
        "Tokens",
        "Errors",
    ]
    assert len(sections(GUIDE, replace(SMALL, max_tokens=500, max_depth=0))) == 1


def test_a_document_that_is_one_chapter_is_stored_once() -> None:
    [root] = sections("\n# Only\n\nSome text of it.\n\n")
    assert (root.depth, root.last_depth, root.heading, root.heading_path) == (0, 1, "T", ("Only",))
    [root] = sections("## Only\n\nSome text of it.\n")
    assert (root.last_depth, root.heading_path) == (2, ("Only",))


def test_text_before_the_only_heading_keeps_both_apart() -> None:
    text = "Words before it all.\n\n# Only\n\nSome text of it.\n"
    found = sections(text)
    assert [(s.number, s.depth, s.last_depth, s.heading_path) for s in found] == [
        ((), 0, 0, ()),
        ((0,), 1, 1, ()),
        ((1,), 1, 1, ("Only",)),
    ]


def test_small_sections_stay_inside_their_parent_and_are_counted_nonetheless() -> None:
    long = "Many words that make it long enough to stand alone.\n\n"
    text = f"# A\n\n{long}## S1\n\nx\n\n## B\n\n{long}## S2\n\ny\n\n## S3\n\nz\n\n## C\n\n{long}## S4\n\nw\n"
    found = sections(text, replace(SMALL, min_tokens=8, max_tokens=500))
    assert [(s.number, s.heading, s.depth) for s in found] == [
        ((), "T", 0),
        ((0,), "T", 1),
        ((1, 2), "B", 2),
        ((1, 3), "T", 1),
        ((1, 5), "C", 2),
        ((1, 6), "S4", 2),
    ]
    assert texts(text, found)[1] == f"# A\n\n{long}## S1\n\nx\n\n"
    assert texts(text, found)[3] == "## S2\n\ny\n\n## S3\n\nz\n\n"
    assert found[3].heading_path == ("A",)
    assert found[5].heading_path == ("A", "S4")


def test_a_heading_with_nothing_of_its_own_is_no_passage() -> None:
    text = "# A\n\n## B\n\nwords that say something here\n\n## C\n\nmore words that say something\n"
    found = sections(text)
    assert [(s.number, s.is_passage) for s in found] == [((), False), ((0,), False), ((1, 1), True), ((1, 2), True)]
    assert text[found[1].start : found[1].end] == "# A\n\n"


def test_levels_may_be_skipped() -> None:
    found = sections("### Deep one\n\ntext here\n\n## Higher\n\ntext here\n\n### Below\n\ntext here\n")
    assert [(s.depth, s.number, s.parent, s.heading) for s in found] == [
        (0, (), None, "T"),
        (3, (1,), 0, "Deep one"),
        (2, (2,), 0, "Higher"),
        (3, (2, 0), 2, "Higher"),
        (3, (2, 1), 2, "Below"),
    ]


def test_blank_text_before_the_first_heading_belongs_to_it() -> None:
    text = "\n \n# A\n\nsome text\n\n# B\n\nsome text\n"
    found = sections(text)
    assert [(s.number, s.start, s.start_line) for s in found] == [
        ((), 0, 3),
        ((1,), 0, 3),
        ((2,), text.index("# B"), 7),
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", ["", " \n\n", "---\na: 1\n---\n"])
def test_an_empty_document_is_its_root(strategy: str, text: str) -> None:
    body_start = len(text) if text.startswith("-") else 0
    [root] = load_splitter(strategy)(document(text, body_start=body_start), SMALL)
    assert (root.start, root.end, root.token_count, root.is_passage) == (body_start, len(text), 0, True)
    assert root.start_line == root.end_line == (4 if body_start else 1)


def test_front_matter_is_in_no_section() -> None:
    front = "---\ntitle: x\n---\n"
    source = document(front + GUIDE, body_start=len(front))
    found = load_splitter("sections")(source, SMALL)
    assert min(section.start for section in found) == len(front)
    assert found[0].start_line == 4


def test_a_long_leaf_is_cut_into_overlapping_pieces_at_sentences() -> None:
    text = "# A\n\n" + "".join(f"Sentence number {number} is here. " for number in range(20))
    found = sections(text, replace(SMALL, overlap=7))
    pieces = [text[s.start : s.end] for s in found if s.piece]
    assert not found[0].is_passage
    assert len(pieces) > 3
    assert all(piece.strip().endswith(".") for piece in pieces)
    assert all(piece.startswith("Sentence") for piece in pieces[1:])
    overlaps = [before.end - after.start for before, after in pairwise([s for s in found if s.piece])]
    assert all(overlap == len("Sentence number 1 is here. ") for overlap in overlaps[:1])
    assert all(overlap > 0 for overlap in overlaps)


def test_ten_thousand_headings_are_split_in_seconds() -> None:
    text = "\n\n".join(
        f"{'#' * (1 + number % 3)} Part {number}\n\n" + "Some words follow. " * 12 for number in range(10_000)
    )
    source = document(text)
    start = time.process_time()
    found = load_splitter("sections")(source, Chunking(min_tokens=10))
    assert time.process_time() - start < 10
    assert len(found) > 10_000


# Cuts


def cut_texts(text: str, size: int, overlap: int = 0) -> list[str]:
    return [text[start:end] for start, end, _ in token_pieces(text, outline(text, "markdown").blocks, size, overlap)]


def test_blank_lines_are_preferred_to_sentences_and_sentences_to_lines() -> None:
    assert cut_texts("One two three four five.\n\nSix. Seven\neight nine ten eleven", 10) == [
        "One two three four five.\n\n",
        "Six. Seven\neight nine ten eleven",
    ]
    assert cut_texts("One two three. Four\nfive six seven eight nine", 6) == [
        "One two three. ",
        "Four\nfive six seven eight nine",
    ]
    assert cut_texts("One two three Four\nfive six seven eight nine", 6) == [
        "One two three Four\n",
        "five six seven eight nine",
    ]
    assert cut_texts("One two three four five six", 4) == ["One two three four ", "five six"]


def test_japanese_sentences_end_with_their_closing_brackets() -> None:
    text = "彼は言った。「本当ですか？」『はい。』次の文がここから始まります。"
    assert cut_texts(text, 20) == ["彼は言った。「本当ですか？」『はい。』", "次の文がここから始まります。"]
    assert cut_texts(text, 15) == ["彼は言った。「本当ですか？」", "『はい。』", "次の文がここから始まります。"]


def test_a_full_stop_inside_a_number_ends_no_sentence() -> None:
    assert cut_texts("Version 3.14 is out (really.) So it is now 4.2 here", 13) == [
        "Version 3.14 is out (really.) ",
        "So it is now 4.2 here",
    ]


def test_a_fence_is_kept_whole_if_it_fits() -> None:
    fence = "```\na = 1\n\nb = 2\n\nc = 3\n```\n"
    text = f"Some words before it.\n\n{fence}\nSome words after it.\n"
    assert cut_texts(text, count_tokens(fence) + 2)[1].startswith(fence)
    assert any(fence in piece for piece in cut_texts(text, count_tokens(fence) + 2, 6))
    assert cut_texts(text, count_tokens(fence), 6)[1].startswith(fence)


def test_a_fence_that_alone_is_too_long_is_cut_at_its_lines() -> None:
    fence = "```\n" + "call one. two three\n" * 20 + "```\n"
    pieces = cut_texts(fence, 15)
    assert len(pieces) > 4
    assert all(piece.endswith("\n") for piece in pieces)


def test_a_single_line_that_is_too_long_is_cut_at_the_limit() -> None:
    assert [len(piece) for piece in cut_texts("x" * 800, 40)] == [320, 320, 160]
    fence = "```\n" + "x" * 800 + "\n```"
    pieces = cut_texts(fence, 40)
    assert "".join(pieces) == fence
    assert max(count_tokens(piece) for piece in pieces) == 40


def test_a_visible_character_is_not_split() -> None:
    assert cut_texts("か\u3099き\u3099く\u3099", 3) == ["か\u3099", "き\u3099", "く\u3099"]
    family = "👩\u200d👩\u200d👧"
    assert cut_texts(family * 3, 7) == [family] * 3


def test_an_overlap_begins_at_a_sentence_and_is_never_blank() -> None:
    text = "One two. Three four.\n\nFive six seven eight nine ten."
    assert cut_texts(text, 8, 4) == [
        "One two. Three four.\n\n",
        "Three four.\n\nFive six seven eight nine ",
        "six seven eight nine ten.",
    ]


# Windows


def test_windows_of_3000_tokens_are_those_of_the_design() -> None:
    text = " ".join(["word"] * 3000)
    root, *windows = load_splitter("tokens")(document(text), Chunking(size=1024, overlap=64))
    assert [(s.start // 5, s.start // 5 + s.token_count - 1) for s in windows] == [
        (0, 1023),
        (960, 1983),
        (1920, 2943),
        (2880, 2999),
    ]
    assert (root.is_passage, root.token_count) == (False, 3000)
    assert [(s.start, s.end) for s in windows] == [(0, 5120), (4800, 9920), (9600, 14720), (14400, len(text))]


def test_no_window_lies_inside_the_one_before() -> None:
    text = " ".join(["word"] * 1984)
    found = load_splitter("tokens")(document(text), Chunking(size=1024, overlap=64))
    assert [s.token_count for s in found[1:]] == [1024, 1024]


def test_what_fits_in_one_window_is_not_cut() -> None:
    [root] = load_splitter("tokens")(document(" ".join(["word"] * 1024)), Chunking(size=1024, overlap=64))
    assert root.is_passage


def test_windows_cover_the_blanks_at_both_ends() -> None:
    text = "front\n  \n" + "word " * 30 + "\n\n"
    found = load_splitter("tokens")(document(text, body_start=6), SMALL)
    assert (found[1].start, found[-1].end) == (6, len(text))


# Headings


def flat(text: str, chunking: Chunking, text_format: Format = "markdown") -> list[tuple[str, Section]]:
    found = load_splitter("headings")(document(text, text_format), chunking)
    return [(text[s.start : s.end], s) for s in found[1:]]


def test_chunks_are_flat_and_begin_with_their_heading() -> None:
    text = "Before the first.\n\n# One\n\nText of one.\n\n#### Four\n\nStill one.\n\n## Two\n\nText of two.\n"
    found = flat(text, SMALL)
    assert [(s.number, s.depth, s.heading, s.heading_path, s.parent) for _, s in found] == [
        ((1,), 1, "T", (), 0),
        ((2,), 1, "One", ("One",), 0),
        ((3,), 2, "Two", ("One", "Two"), 0),
    ]
    assert found[1][0] == "# One\n\nText of one.\n\n#### Four\n\nStill one.\n\n"
    deep = flat(text, replace(SMALL, heading_levels=(4,)))
    assert [(s.depth, s.heading_path) for _, s in deep] == [(1, ()), (3, ("Four",))]


def test_long_chunks_are_cut_at_sentence_ends() -> None:
    text = "# A\n\n" + "これは文です。" * 40
    found = flat(text, SMALL)
    assert len(found) > 3
    assert all(chunk.endswith("。") and len(chunk) <= SMALL.max_chars for chunk, _ in found)
    assert {s.heading for _, s in found} == {"A"}


def test_short_chunks_join_the_next_and_the_last_one_the_one_before() -> None:
    text = "# A\n\n## B\n\nLong enough to stand.\n\n## C\n\nLong enough too.\n\n## D\n"
    found = flat(text, SMALL)
    assert [(s.heading, chunk) for chunk, s in found] == [
        ("B", "# A\n\n## B\n\nLong enough to stand.\n\n"),
        ("C", "## C\n\nLong enough too.\n\n## D\n"),
    ]


def test_a_joined_chunk_has_at_most_max_chars_and_min_chars_characters() -> None:
    text = "# Short\n## B\n" + "x" * 74 + "\n## End\n"
    assert len(text) > SMALL.max_chars + SMALL.min_chars
    found = flat(text, SMALL)
    assert "".join(chunk for chunk, _ in found) == text
    assert all(SMALL.min_chars <= len(chunk) <= SMALL.max_chars + SMALL.min_chars for chunk, _ in found)


def test_paragraphs_of_plain_text_are_packed() -> None:
    short, long = "A short paragraph.\n\n", "x" * 45 + ". Then the rest of it follows.\n\n"
    found = flat(short * 2 + long + short, SMALL, "text")
    assert [chunk for chunk, _ in found] == [short * 2, long, short]


def test_a_single_chunk_is_the_root() -> None:
    [root] = load_splitter("headings")(document("# A\n\nShort text.\n"), SMALL)
    assert root.is_passage
