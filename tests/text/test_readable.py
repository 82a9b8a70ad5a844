"""What is blanked of a text, and what is left alone?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.text.fields import passage_fields
from annai.text.lines import LINE_END
from annai.text.outline import plain_heading
from annai.text.readable import readable
from annai.types import Document, FileState, Format, Section


def seen(text: str, text_format: Format = "markdown") -> str:
    """What is left to read, with single spaces."""
    result = readable(text, text_format, is_shown=True)
    assert len(result) == len(text)
    return " ".join(result.split())


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <!-- markdownlint-disable --> b", "a b"),
        ("a <!-- over\n\nlines --> b", "a b"),
        ("{/* a remark */}\nText", "Text"),
        ('import Box from "~/Box.astro";\nimport { a, b } from \'x\'\nimport "./style.css"\n\nText', "Text"),
        ('import {\n  a,\n  b,\n} from "x";\nText', "Text"),
        ("export const meta = {\n  title: 'x',\n}\n\nText", "Text"),
        ("<Tabs items={[1, {a: 2}]} onClick={() => x > 1}>\n  <Tab>Inside</Tab>\n</Tabs>", "Inside"),
        ('<Card\n  title="First steps"\n  icon="rocket"\n/>', "First steps"),
        ("<>Fragment</>", "Fragment"),
        ("<script setup>\nconst hidden = 1\n</script>\n<style>\n.a { color: red }\n</style>\nText", "Text"),
        ("{{< note >}}\nText\n{{< /note >}}", "Text"),
        ('{{% code_sample file="pods.yaml" %}}\nText', "Text"),
        ('{{EmbedLiveSample("Result", 200)}}\nText', "Text"),
        ("{% include head.html %} Text {{ page.date }}", "Text"),
        ('A {{< glossary_tooltip text="Pod" term_id="pod" >}} runs', "A Pod runs"),
        ('The {{cssxref("grid-row")}} property', "The grid-row property"),
        ("## Install {#install}", "## Install"),
        ("## Install {/*install*/}", "## Install"),
        ("## Install {: #install .big data-x=1}", "## Install"),
        ('[ref]: https://example.com "Title"\n[other]: <a b>\n[last]:\n  https://example.com\nText', "Text"),
    ],
)
def test_what_readers_do_not_read_is_blanked(text: str, left: str) -> None:
    assert seen(text) == left
    assert seen(text.replace("\n", "\r\n")) == left


@pytest.mark.parametrize(
    "text",
    [
        "`<b>` and ``{{< note >}} ` <!-- x -->``",
        '```js\nimport a from "b"\n<!-- x --> {{y}}\n```',
        "~~~\n<Tag>\n```\n~~~",
        "````md\n```\n<Tag>\n```\n````",
        "- ```html\n  <b>\n  ```",
        "> ```html\n> <b>\n> ```",
        "1. Item\n\n   ```html\n   <b>\n   ```",
        "```html\n<b>",
        "Text\n\n    <configuration>\n    </configuration>",
        r"\<b> \{{x}} and \`<b",
        "List<String> and Map<K, V>, a < b and c > d, 1 <2",
        "[^1]: A footnote.\n[Note]: this is a sentence.",
        "import the package, then export it",
        "An unclosed <!-- comment\n\nText",
        "<https://example.com> and <someone@example.com>",
        "{x} and {#if x} or {{ left open",
        "日本語の文章です。",
    ],
)
def test_code_and_prose_are_left_alone(text: str) -> None:
    assert readable(text, "markdown") == text


def test_a_call_in_a_sentence_is_found_by_the_words_that_name_it() -> None:
    text = '{{< glossary_tooltip text="ポッド" term_id="pod" >}}を作る'
    assert readable(text, "markdown").split() == ["ポッド", "pod", "を作る"]
    assert readable(text, "markdown", is_shown=True).split() == ["ポッド", "を作る"]


def test_a_code_span_ends_with_its_paragraph() -> None:
    assert seen("a stray ` tick\n\n<b>bold</b> and `code`") == "a stray ` tick bold and `code`"
    assert seen("a stray ` tick\n```\n<kept>\n```\n<b>bold</b>") == "a stray ` tick ``` <kept> ``` bold"


def test_comments_of_restructuredtext_are_blanked_and_the_rest_stays() -> None:
    text = ".. A comment\n   of two lines\n\n.. _target:\n\nText.\n\n.. note:: Read this.\n\n..\n\n   A quote."
    assert seen(text, "rst") == ".. _target: Text. .. note:: Read this. A quote."
    assert readable("<!-- a --> .. b", "text") == "<!-- a --> .. b"


PIECES = "< > </ <!-- --> { } {{ }} {/* */} {# ` ``` ~~~ \" ' = \\ from [a]: a <a <script> 日本 ..".split()
BLANKS = ["\n", "\r\n", "\n\n", " ", "    ", "import ", "export const "]


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(PIECES + BLANKS)).map("".join)),
    st.sampled_from(["markdown", "rst", "text"]),
)
def test_every_position_and_line_stays(text: str, text_format: Format) -> None:
    result = readable(text, text_format)
    assert len(result) == len(text)
    assert all(new in (old, " ") for new, old in zip(result, text, strict=True))
    assert [match.start() for match in LINE_END.finditer(result)] == [
        match.start() for match in LINE_END.finditer(text)
    ]


HOSTILE = ["<", "</", "<a ", '<a b="', "<a {", "<a b='\"", "<!--", "<script>", "{{", "{{a}} ", "{%", "{/*", "{#a ", "`"]
HOSTILE += [
    "` `` ``` ",
    "\n~~~",
    "\n    ",
    "\n[a]: ",
    "import {\n",
    "\nimport a, ",
    "export {",
    "\\",
    "\n.. ",
    "\n..\n  ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_of_anything_is_read_at_once(piece: str) -> None:
    # Where time is quadratic, this takes hours.
    text = piece * (1_000_000 // len(piece))
    for text_format in ("markdown", "rst"):
        assert len(readable(text, text_format)) == len(readable(text[:-1], text_format)) + 1


def test_what_is_not_read_is_not_indexed_and_the_file_stays_as_it_is() -> None:
    text = "## Install {#install}\n\n<!-- telemetry -->\n```\n<kept>\n```\n<Box>Text</Box>"
    document = Document("root", "a.md", "A", text, FileState("a.md", 0, 0, ""))
    passage = Section(0, None, 0, "Install", ("Install",), (), 0, len(text), 1, 7, 10)
    assert passage_fields(document, passage).body.split() == ["```", "<kept>", "```", "Text"]
    assert document.text == text
    assert plain_heading("Install {/*install*/}") == plain_heading("Install {#install}") == "Install"
