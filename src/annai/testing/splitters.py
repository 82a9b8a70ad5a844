"""Does a splitter keep the contract of annai.splitters.base, for any text?

In a test module: `from annai.testing.splitters import *`, and a fixture `split`.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annai.settings import Chunking
from annai.splitters.base import Splitter
from annai.text.outline import outline
from annai.text.tokens import count_tokens
from annai.types import Document, FileState, Format, Section

LINES = (
    *("# One", "## Two", "### Three", "#### Four", "Title\n=====", "Sub\n---", "#", "text", "A sentence. Another one!"),
    *("```\n# no\n\n\ncode.  x\n```", "- item one\n- item two", "| a | b |\n|---|---|\n| 1 | 2 |", "<!--\n# no\n-->"),
    *(
        "日本語の文章です。「はい。」と言った！",
        "👩‍👩‍👧 🇯🇵 e\u0301e\u0301 か\u3099",
        "\0",
        "\x0c",
        "a\u2028b",
        "\x85",
        "   ",
        "\t",
    ),
    *(
        "word " * 60,
        "長い" * 60,
        "x" * 300,
        "_" * 40,
        ". " * 50,
        "> quote",
        "    indented",
        "e" + "\u0301" * 50,
        "1234567890",
    ),
)
TEXTS = st.lists(
    st.tuples(st.sampled_from(LINES), st.sampled_from(["\n", "\n\n", "\r\n", "\r\n\r\n", "\r", ""])).map("".join),
    max_size=20,
).map("".join)
CHUNKINGS = st.builds(
    Chunking,
    size=st.integers(1, 60),
    overlap=st.integers(0, 20),
    max_tokens=st.integers(0, 80),
    min_tokens=st.integers(0, 20),
    max_depth=st.integers(0, 3),
    max_chars=st.integers(5, 120),
    min_chars=st.integers(0, 30),
    heading_levels=st.lists(st.integers(1, 6), unique=True).map(tuple),
)


def document(text: str, text_format: Format = "markdown", body_start: int = 0) -> Document:
    return Document(
        collection="c",
        path="a.md",
        title="T",
        text=text,
        state=FileState("a.md", len(text), 0),
        format=text_format,
        body_start=body_start,
        outline=outline(text, text_format, body_start),
    )


def leaves(found: Sequence[Section]) -> list[Section]:
    parents = {section.parent for section in found if not section.piece}
    return [section for section in found if not section.piece and section.order not in parents]


def without_headings(source: Document, section: Section) -> str:
    inside = [heading for heading in source.outline.headings if section.start <= heading.start < section.end]
    edges = [section.start, *(edge for heading in inside for edge in (heading.start, heading.end)), section.end]
    return "".join(source.text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def assert_promises(source: Document, found: Sequence[Section]) -> None:
    """The promises of `Splitter`, and those of `Section` and of line numbers."""
    text = source.text
    root = found[0]
    assert (root.depth, root.parent, root.start, root.end) == (0, None, source.body_start, len(text))
    assert [section.order for section in found] == list(range(len(found)))
    for section in found[1:]:
        assert section.parent is not None
        assert section.parent < section.order
        parent = found[section.parent]
        assert parent.start <= section.start < section.end <= parent.end
        assert not parent.piece
    tiles = leaves(found)
    assert tiles[0].start == source.body_start
    assert tiles[-1].end == len(text)
    assert all(before.end == after.start for before, after in pairwise(tiles))
    assert len({(section.number, section.piece) for section in found}) == len(found)
    assert any(section.is_passage for section in found)
    cut = {section.parent for section in found if section.piece}
    for section in found:
        is_leaf = section in tiles
        if is_leaf and section.order not in cut:
            assert section.is_passage or not without_headings(source, section).strip()
        else:
            assert section.is_passage == bool(section.piece)
        assert section.token_count == count_tokens(text[section.start : section.end])
        assert 0 <= section.depth <= 3
        assert section.depth <= section.last_depth <= 3
        assert_lines(text, section)


def assert_lines(text: str, section: Section) -> None:
    shown = text[section.start : section.end].strip()
    start = text.index(shown, section.start) if shown else section.start
    last = start + max(len(shown) - 1, 0)
    count = [text[:position].replace("\r\n", "\n").replace("\r", "\n").count("\n") for position in (start, last)]
    assert [section.start_line - 1, section.end_line - 1] == count


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=TEXTS,
    chunking=CHUNKINGS,
    text_format=st.sampled_from(["markdown", "rst", "text"]),
    front=st.sampled_from(["", "---\r\n# no\n---\n"]),
)
def test_the_promises_hold_for_any_text(
    split: Splitter, text: str, chunking: Chunking, text_format: Format, front: str
) -> None:
    """Nothing is lost or added, parents come before their children, and equal documents give equal sections."""
    chunking = replace(chunking, overlap=min(chunking.overlap, chunking.size - 1))
    source = document(front + text, text_format, len(front))
    found = split(source, chunking)
    assert_promises(source, found)
    assert split(source, chunking) == found
