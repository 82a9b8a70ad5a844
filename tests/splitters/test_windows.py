"""Which windows has a text? Whole blocks and sentences, in order, with nothing but headings and blanks between them."""

from hypothesis import given
from hypothesis import strategies as st

from annai.splitters.windows import MAX_BLOCK_BYTES, WINDOW_BYTES, cut_windows
from annai.types import Format


def texts(text: str, text_format: Format = "markdown") -> list[str]:
    return [text[each.start : each.end] for each in cut_windows(text, text_format)]


@given(
    st.lists(st.sampled_from(["# a\n", "\n", "- b\n", "```\n", "c. D\n", "| e |\n", "    f\n", "日本。\n", "x"])),
    st.sampled_from(["markdown", "rst", "text"]),
)
def test_windows_stand_in_order_and_leave_out_only_headings_and_blanks(lines: list[str], text_format: Format) -> None:
    text = "".join(lines)
    end = 0
    for window in cut_windows(text, text_format):
        assert end <= window.heading_start <= window.start < window.end
        assert not any(mark in text[end : window.heading_start] for mark in ("b", "D", "f", "日"))
        end = window.end
    assert not any(mark in text[end:] for mark in ("b", "D", "f", "日"))


def test_code_stays_with_the_sentence_that_introduces_it() -> None:
    filler = "Some words that fill a window. " * 13
    code = "```\n" + "run --this --and --that\n" * 12 + "```"
    blocks: dict[Format, str] = {"markdown": code, "rst": "   " + "run --this --and --that\n   " * 12}
    for text_format, block in blocks.items():
        text = f"{filler}\n\nRun this::\n\n{block}\n\n{filler}\n"
        (window,) = [each for each in texts(text, text_format) if "run --this" in each]
        assert "Run this" in window
        assert window.count("run --this") == 12


def test_long_paragraphs_are_cut_where_sentences_end_and_code_where_lines_do() -> None:
    sentences = texts("A sentence of some length stands here. " * 60)
    assert len(sentences) > 4
    assert all(each.rstrip().endswith(".") for each in sentences)
    assert all(each.endswith("。") for each in texts("ここに文があります。" * 100))
    lines = texts("```\n" + "let x = y. Z\n" * 100 + "```\n")
    assert all(each.endswith("\n") for each in lines)
    for each in (*sentences, *lines):
        assert len(each) <= WINDOW_BYTES + MAX_BLOCK_BYTES


def test_a_window_knows_its_heading() -> None:
    text = (
        "Before.\n\n## The *first*\n\nText. " + "More text stands here. " * 20 + "\n\nSecond\n------\n\nLast words.\n"
    )
    found = [(each.heading, text[each.heading_start : each.start].strip()) for each in cut_windows(text, "markdown")]
    assert found[:2] == [("", ""), ("The *first*", "## The *first*")]
    assert found[-1] == ("Second", "Second\n------")


def test_a_label_is_in_no_window() -> None:
    shown = "The title\n=========\n\nWhat it says.\n"
    labels: tuple[tuple[str, Format], ...] = ((".. _a-label:", "rst"), ("(a-label)=", "markdown"))
    for label, text_format in labels:
        text = f"{label}\n\n{shown}"
        (window,) = cut_windows(text, text_format)
        assert text[window.heading_start : window.end] == shown
    assert len(cut_windows("(a-label)=", "text")) == 1
