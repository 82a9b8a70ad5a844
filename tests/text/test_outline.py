"""Are headings and blocks found where they are, and nowhere else?"""

import subprocess
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annai.text.outline import MAX_HEADINGS, outline, plain_heading
from annai.types import Format, Heading


def levels(text: str, text_format: Format = "markdown", start: int = 0) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in outline(text, text_format, start).headings]


def blocks(text: str, text_format: Format = "markdown") -> list[str]:
    return [text[start:end] for start, end in outline(text, text_format).blocks]


def test_all_six_levels_are_found() -> None:
    text = "".join(f"{'#' * level} h{level}\n\n" for level in range(1, 8))
    assert levels(text) == [(level, f"h{level}") for level in range(1, 7)]


def test_underlined_headings_are_found_and_span_their_underline() -> None:
    text = "One\n===\n\ntext\n\nTwo\nlines\n---\n"
    assert outline(text, "markdown").headings == (
        Heading(1, "One", 0, 8),
        Heading(2, "Two lines", text.index("Two"), len(text)),
    )


def test_link_definitions_above_a_rule_are_no_heading() -> None:
    assert levels("[a]: https://example.com\n---\n") == []
    text = "[a]: https://example.com\nTitle\n---\n"
    assert outline(text, "markdown").headings == (Heading(2, "Title", text.index("Title"), len(text)),)


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```\n",
        "~~~~\n```\n# no\n~~~~\n",
        "    # no\n",
        "<!--\n\n# no\n\n-->\n",
        "<div>\n# no\n</div>\n",
        "- item\n\n  # no\n",
        "1. # no\n",
        "> # no\n",
        "> no\n> ==\n",
        "#no\n",
        "text\n\\# no\n",
    ],
)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert levels(text) == []
    assert levels(text + "\n# yes\n") == [(1, "yes")]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert levels("# yes\n```\n# no\n\n# no\n") == [(1, "yes")]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Plain  words", "Plain words"),
        ("**Bold** and *it* and ***both***", "Bold and it and both"),
        ("__Bold__ and _it_ but snake_case_name", "Bold and it but snake_case_name"),
        ("`code_with_*marks*` ~~gone~~", "code_with_*marks* gone"),
        ("`` a`b ``", "a`b"),
        ("[Text](https://example.com/a_(b)) here", "Text here"),
        ("[`code`](x.md) [ref][id]", "code ref"),
        ("![alt](a.png) [![Badge](b.svg)](c)", "alt Badge"),
        ("Title {#anchor}", "Title"),
        ("Title {#anchor .class} {: .x}", "Title"),
        ('Pods {{< feature-state state="beta" >}}', "Pods"),
        ('{{% heading "whatsnext" %}}', "whatsnext"),
        ("Title <a name='x'></a><br/>", "Title"),
        ("See <https://example.com>", "See https://example.com"),
        ("a < b and c > d", "a < b and c > d"),
        ("Vec<T> and `Vec<T>`", "Vec and Vec<T>"),
        (r"\*args\* and 2 * 3 * 4", "*args* and 2 * 3 * 4"),
        ("*args and **kwargs", "*args and **kwargs"),
        ("R&amp;D `&amp;`", "R&D &amp;"),
        ("[1.2.0] - 2024-01-01", "[1.2.0] - 2024-01-01"),
        ("**日本語**の見出し", "日本語の見出し"),
        ("", ""),
    ],
)
def test_a_heading_has_no_markup(source: str, shown: str) -> None:
    assert plain_heading(source) == shown


def test_closing_hashes_are_dropped() -> None:
    assert levels("## Title ##\n### C#\n") == [(2, "Title"), (3, "C#")]


def test_a_very_long_heading_is_cut_for_display() -> None:
    [(level, text)] = levels("word " * 10_000 + "\n===\n")
    assert level == 1
    assert 0 < len(text) <= 300


def test_blocks_are_fences_code_html_tables_and_lists() -> None:
    parts = [
        "```py\nx\n\ny\n```\n",
        "    code\n\n    more\n",
        "<div>\nx\n</div>\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "- a\n\n  b\n- c\n",
        "1. a\n2. b\n",
    ]
    text = "text\n\n" + "\nparagraph\n\n".join(parts) + "\nend\n"
    assert blocks(text) == parts
    assert blocks("a\n\n> quote\n\nb\n") == []


def test_a_table_may_follow_a_line_of_text_as_on_github() -> None:
    table = "a | b\n:--|---\n1 | 2\n"
    assert blocks(f"{{{{< table >}}}}\n{table}{{{{< /table >}}}}\n\nend\n") == [f"{table}{{{{< /table >}}}}\n"]
    assert blocks("text\na | b | c\n--|--\n") == blocks("text\nx\n--|--\n") == []
    assert blocks("é\n| a \\| b |\n|--|\n") == ["| a \\| b |\n|--|\n"]


def test_link_definitions_after_a_list_are_not_part_of_it() -> None:
    assert blocks("é\n\n- a\n  1. b\n\n     c\n\n[d]: /e\n[f]:\n  /g\n") == ["- a\n  1. b\n\n     c\n"]


def test_a_fence_may_end_in_a_tab() -> None:
    assert blocks("```\na\n```\t\n\n```\nb\n``` \t \n") == ["```\na\n```\t\n", "```\nb\n``` \t \n"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_positions_are_right_with_every_line_ending(end: str) -> None:
    text = end.join(
        ["---", "a: # no", "---", "# A\x0c\u2028b\x85", "", "- x", "- y", "", "B\0", "---", "", "```", "# no", "```"]
    )
    start = text.index("# A")
    found = outline(text, "markdown", start)
    assert [text[heading.start : heading.end] for heading in found.headings] == [
        f"# A\x0c\u2028b\x85{end}",
        f"B\0{end}---{end}",
    ]
    assert [text[first:after] for first, after in found.blocks] == [f"- x{end}- y{end}", f"```{end}# no{end}```"]


def test_plain_text_has_no_outline() -> None:
    found = outline("# a\n\n- b\n", "text")
    assert (found.headings, found.blocks) == ((), ())


def test_titles_of_restructured_text_get_their_level_by_first_appearance() -> None:
    text = "=====\nTitle\n=====\n\nOne\n===\n\nTwo\n---\ntext\n\nThree\n~~~~~\n\nFour\n====\nFive\n----\n"
    assert levels(text, "rst") == [(1, "Title"), (2, "One"), (3, "Two"), (4, "Three"), (2, "Four"), (3, "Five")]
    first, second, *_ = outline(text, "rst").headings
    assert text[first.start : first.end] == "=====\nTitle\n=====\n"
    assert text[second.start : second.end] == "One\n===\n"


def test_wide_characters_and_short_underlines_still_make_a_title() -> None:
    assert levels("日本語\n======\n\n見出しその二\n====\n", "rst") == [(1, "日本語"), (1, "見出しその二")]
    assert levels("Long title\n===\n", "rst") == []


@pytest.mark.parametrize(
    "text",
    [
        "=====  =====\nA      B\n=====  =====\n1      2\n=====  =====\n",
        "text\n\n-----\n\ntext\n",
        "  indented\n  ========\n",
        "two\nlines\n=====\n",
        "ab\n::\n\n  literal\n",
        "+---+---+\n| a | b |\n+---+---+\n",
        "----------\n",
    ],
)
def test_tables_rules_and_literals_of_restructured_text_are_no_titles(text: str) -> None:
    assert levels(text, "rst") == []
    assert levels(text + "\nyes\n===\n", "rst") == [(1, "yes")]


def test_marks_of_restructured_titles_are_dropped() -> None:
    text = "``code`` and :ref:`text <target>`\n=================================\n"
    assert levels(text, "rst") == [(1, "code and text")]


def test_blocks_of_restructured_text_are_indented_text_and_tables() -> None:
    parts = [
        ".. code:: py\n\n   x\n\n   y\n",
        "    literal\n",
        "==  ==\na   b\n==  ==\n1   2\n==  ==\n",
        "+---+\n| a |\n+---+\n",
    ]
    text = "Title\n=====\n\n" + "\ntext::\n\n".join(parts) + "\nend\n"
    assert blocks(text, "rst") == parts


def test_levels_of_restructured_text_end_at_six() -> None:
    text = "".join(f"Title\n{mark * 5}\n\n" for mark in "=-~^+*#")
    assert [level for level, _ in levels(text, "rst")] == [1, 2, 3, 4, 5, 6, 6]


def test_a_heading_after_a_deeply_nested_list_is_found() -> None:
    text = "".join("  " * depth + "- a\n" for depth in range(30)) + "\n# After\n"
    assert levels(text) == [(1, "After")]


@pytest.mark.parametrize("text_format", ["markdown", "rst"])
@pytest.mark.parametrize(
    "text",
    [
        ">" * 10_000,
        "[" * 10_000 + "\n===",
        "- " * 10_000,
        "# " + "[a](" * 10_000,
        "x" * 1_000_000,
        "<a " * 50_000,
        "- ```\n" * 5_000,
        "a\n" + "|" * 200_000,
        "a\n" + "|-" * 100_000 + "\n" + "|-" * 100_000,
    ],
    ids=["quotes", "brackets", "lists", "links", "line", "tags", "fences", "bars", "rows"],
)
def test_hostile_texts_take_little_time(text: str, text_format: Format) -> None:
    start = time.process_time()
    outline(text, text_format)
    assert time.process_time() - start < 5


LINES = (
    *("# A", "## B", "===", "---", "```", "- x", "> q", "    c", "|a|b|", "|-|-|", "<!--", "-->", "<div>", "text", " "),
    *("====", "==  ==", "+--+", "| a", ".. x::", "\0", "\x0c", "\u2028", "\x85", "[a]: b", "\t", "日本語。"),
)
FRAGMENTS = st.lists(
    st.sampled_from(LINES).flatmap(
        lambda line: st.sampled_from(["\n", "\r\n", "\r", "\n\n", ""]).map(lambda end: line + end)
    ),
    max_size=25,
).map("".join)


@settings(max_examples=150, deadline=None)
@given(FRAGMENTS, st.sampled_from(["markdown", "rst"]))
def test_any_outline_is_ordered_and_at_line_starts(text: str, text_format: Format) -> None:
    found = outline(text, text_format)
    spans = sorted([*found.blocks, *((heading.start, heading.end) for heading in found.headings)])
    assert list(found.blocks) == sorted(found.blocks)
    assert [h.start for h in found.headings] == sorted(h.start for h in found.headings)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert start == 0 or text[start - 1] in "\r\n"
        assert text[start - 1 : start + 1] != "\r\n"
        assert end == len(text) or text[end - 1] in "\r\n"
    assert all(1 <= heading.level <= 6 for heading in found.headings)


@settings(max_examples=50, deadline=None)
@given(FRAGMENTS, st.sampled_from(["markdown", "rst"]))
def test_front_matter_only_shifts_the_outline(text: str, text_format: Format) -> None:
    front = "+++\r# no\n+++\n"
    shift = len(front)
    found, shifted = outline(text, text_format), outline(front + text, text_format, shift)
    assert [(h.level, h.text, h.start + shift, h.end + shift) for h in found.headings] == [
        (h.level, h.text, h.start, h.end) for h in shifted.headings
    ]
    assert [(start + shift, end + shift) for start, end in found.blocks] == list(shifted.blocks)


def test_importing_the_outline_loads_no_parser() -> None:
    code = "import sys, annai.text.outline; print('pyromark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_half_of_a_surrogate_pair_moves_nothing() -> None:
    text = "é \ud83d\n\n# A \udca9 日本\n"
    assert outline(text, "markdown").headings == (Heading(1, "A \udca9 日本", 5, len(text)),)


@pytest.mark.parametrize("long", ["\n- a" * 400_000, "\n\n" + "- - - - - - - - a\n" * 40_000])
def test_headings_around_a_very_long_list_are_found(long: str) -> None:
    text = f"front\n# One #\n\n```\n# code\n~~~\n```\n   ## Two *words*{long}\n\n# Three"
    found = outline(text, "markdown", start=6)
    assert [(each.level, each.text) for each in found.headings] == [(1, "One"), (2, "Two words"), (1, "Three")]
    assert [text[each.start : each.end].strip() for each in found.headings] == ["# One #", "## Two *words*", "# Three"]
    assert len(found.blocks) == 2


def test_a_text_of_nothing_but_headings_has_no_outline() -> None:
    assert levels("# a\n" * (MAX_HEADINGS + 1)) == []
