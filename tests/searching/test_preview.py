"""What does the preview of a hit show, and on which line does it say that it stands?"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.answers import Hit
from annai.config import load_config, override
from annai.engine import Engine
from annai.searching.preview import LINE_CELLS, make_preview
from annai.text.escapes import cells
from annai.types import Document, FileState, Format, Section

Write = Callable[[str, str], Path]


@pytest.fixture
def engine(docs: Path) -> Iterator[Engine]:
    with Engine(override(load_config(docs_dir=docs), "embedding", provider="static")) as engine:
        yield engine


def first(engine: Engine, question: str, **options: int) -> Hit:
    return engine.search(question, **options)[0]  # type: ignore[arg-type]


def shown(text: str, question: str, lines: int = 3, text_format: Format = "markdown") -> tuple[str, int]:
    """The preview of a text that is one passage."""
    document = Document("root", "a.md", "The title", text, FileState("a.md", 0, 0), text_format)
    section = Section(0, None, 0, "The heading", ("The heading",), (), 0, len(text), 1, text.count("\n") + 1, 9)
    preview = make_preview(question, document, section, (0, len(text)), lines)
    return preview.text, preview.line


PAGE = """---
title: The page
---
import Box from "~/Box.astro";

## Removing packages {#remove}

<!-- markdownlint-disable -->

<Box>Packages are useful.</Box> They come from [the registry](https://example.com/packages/).

{{< note >}}
A package is **removed** with the command
`annai remove`. It asks before it removes anything. Nothing else is touched.
{{< /note >}}

```bash
annai remove left-pad
```

- [Other packages](https://example.com)
- <https://example.com/remove>

[ref]: https://example.com/remove
"""


def test_a_preview_is_whole_sentences_without_markup_and_its_line_is_the_first_shown(
    engine: Engine, write: Write
) -> None:
    write("a.md", PAGE)
    hit = first(engine, "how is a package removed?")
    assert hit.preview.startswith(
        "Packages are useful. They come from the registry.\nA package is removed with the command"
    )
    assert "annai remove. It asks before it removes anything. Nothing else is touched.\n" in hit.preview
    assert PAGE.split("\n")[hit.preview_line - 1].startswith("<Box>Packages are useful.</Box>")
    assert hit.breadcrumbs == "The page › Removing packages"
    assert hit.content in PAGE


def test_code_is_shown_where_it_is_the_answer() -> None:
    assert shown(PAGE, "annai remove left-pad", lines=1) == ("annai remove left-pad", 18)


def test_the_answer_in_another_language_is_found(engine: Engine, write: Write) -> None:
    rain = "\n\n".join(f"It rained on day {number}, and the garden was green and wet all over." for number in range(9))
    write("a.md", f"# Diary\n\n{rain}\n\nThe server is started by the operator on duty.\n\n{rain}")
    assert "The server is started" in first(engine, "サーバーを起動する").preview


def test_japanese_sentences_end_without_a_space() -> None:
    text = f"## The heading\n\n最初の文{'、です' * 20}。コンテナを\n起動する手順です。「終わり。」という文です。"
    assert shown(text, "コンテナの起動", lines=1) == ("コンテナを起動する手順です。「終わり。」という文です。", 3)


def test_a_preview_begins_where_its_window_does_if_what_answers_is_shown_all_the_same() -> None:
    text = "## The heading\n\nAnother paragraph.\n\nPears are green. Plums are blue.\nApples are red."
    assert shown(text, "apples") == ("Another paragraph.\nPears are green. Plums are blue. Apples are red.", 3)
    text = f"## The heading\n\n{'The garden is very large. ' * 20}\n\nPears are green. Plums are blue.\nApples are red."
    assert shown(text, "apples") == ("Pears are green. Plums are blue. Apples are red.", 5)
    text = "## The heading\n\nPears are green.\n\n## Another heading\n\nApples are red."
    assert shown(text, "apples") == ("Apples are red.", 7)


def test_code_is_shown_with_the_sentence_before_it() -> None:
    text = "## The heading\n\nPeel it like this:\n\n```\npeel apple\n```"
    assert shown(text, "peel apple command") == ("Peel it like this:\npeel apple", 3)


def test_a_list_item_and_a_row_are_lines_of_their_own() -> None:
    text = "## The heading\n\n- An apple\n- A pear\n\n| a | b |\n|---|---|\n| plum | `x` |\n"
    assert shown(text, "apple") == ("- An apple\n- A pear\na | b", 3)
    assert shown(text, "plum") == ("plum | x", 8)


WASTE = [
    "```", "~~~", "## The heading", "The heading\n===========", "<Note>", "</Note>", "<!-- x -->", "{{< note >}}",
    "import a from 'b'", ":::tip", "(a-label)=", "***", "[ref]: https://example.com",
]  # fmt: skip


@pytest.mark.parametrize("waste", WASTE)
def test_what_says_nothing_is_never_shown(waste: str) -> None:
    closing = waste if waste in ("```", "~~~") else ""
    text = f"{waste}\nSome words about apples here.\n{closing}\n\nAnd a last sentence."
    preview, line = shown(text, "apples")
    assert preview == "Some words about apples here.\nAnd a last sentence."
    assert text.split("\n")[line - 1] == "Some words about apples here."


@pytest.mark.parametrize("weak", ["- [Apples](https://x.y)", "https://example.com/apples", "[![Apples](a.png)](b)"])
def test_links_and_addresses_are_shown_only_where_there_is_nothing_else(weak: str) -> None:
    assert shown(f"{weak}\n\nApples grow on trees.", "apples")[0] == "Apples grow on trees."
    assert shown(weak, "apples")[0] != ""


def test_a_passage_that_begins_inside_code_is_read_as_code() -> None:
    text = "Text.\n\n```html\n<b>one</b>\n<b>two</b>\n```\n\nAfter <b>it</b>."
    whole = Section(0, None, 0, "", (), (), 0, len(text), 1, 8, 9)
    piece = Section(1, 0, 0, "", (), (), text.index("<b>two"), len(text), 5, 8, 9, piece=2)
    document = Document("root", "a.md", "", text, FileState("a.md", 0, 0))
    preview = make_preview("two", document, whole, (piece.start, piece.end), 3)
    assert (preview.text, preview.line) == ("<b>two</b>\nAfter it.", 5)


def test_directives_and_literal_blocks_of_restructuredtext_are_understood() -> None:
    text = "The heading\n===========\n\n.. note:: Apples are fruit.\n\n.. code-block:: bash\n\n   peel apple\n"
    assert shown(text, "apples fruit", text_format="rst") == ("Apples are fruit.\npeel apple", 4)


GARDEN = "The garden is wet, the wall is high, and the cat sleeps in the sun. " * 8


def test_the_number_of_lines_is_as_asked_for_and_the_first_result_has_more(engine: Engine, write: Write) -> None:
    for name in "abc":
        write(f"{name}.md", "# Apples\n\n" + "".join(f"Apple {name}{number} is red.\n\n" for number in range(90)))
    for lines in (0, 1, 3, 20):
        previews = [hit.preview.splitlines() for hit in engine.search("apple", preview_lines=lines)]
        assert [*map(len, previews)] == [max(2 * lines - 1, 0), lines, lines]
    assert len(engine.search("apple", offset=1, preview_lines=3)[0].preview.splitlines()) == 3


def test_the_first_result_shows_two_places_that_are_nearly_as_good_and_is_found_at_the_best(
    engine: Engine, write: Write
) -> None:
    parts = [GARDEN] * 9
    parts[6] = "Apples are picked in the autumn, before the first night of frost."
    for parts[2], is_shown in (
        ("The apples are picked again in the spring, after the last night of frost.", True),
        ("The cellar is cool and dry.", False),
    ):
        text = "# The farm\n\n" + "\n\n".join(f"## Part {number}\n\n{part}" for number, part in enumerate(parts))
        write("a.md", text)
        hit = first(engine, "when are the apples picked, before the frost?")
        assert hit.preview == (f"{parts[6]}\n…\n{parts[2]}" if is_shown else parts[6])
        assert text.split("\n")[hit.preview_line - 1] == parts[6]


def test_two_places_that_are_neighbours_are_shown_as_one(engine: Engine, write: Write) -> None:
    one = "Apples are picked in the autumn, before the first night of frost. " * 6
    other = "In the autumn, whoever picks the apples before the frost needs a ladder. " * 6
    write("a.md", f"# The farm\n\n{one}\n\n{other}\n\n" + f"{GARDEN}\n\n" * 4)
    preview = first(engine, "who picks the apples in the autumn, before the frost?").preview
    assert preview.startswith(f"{one.strip()}\n{other[:70]}")
    assert len(preview) < 9 * LINE_CELLS


def test_a_sentence_that_is_too_long_is_cut() -> None:
    text, _ = shown("apple " * 1000, "apple", lines=2)
    assert text.endswith("apple…")
    assert 1.5 * LINE_CELLS < cells(text) <= 2 * LINE_CELLS


@given(st.text(alphabet="ab `~<>{}[]()#|-*_.:!=\n\r\t。日本、1\\"), st.sampled_from(["markdown", "rst", "text"]))
def test_any_text_has_a_preview_that_fits(text: str, text_format: Format) -> None:
    preview, line = shown(text, "a 日本", text_format=text_format)
    assert sum(-(-cells(each) // LINE_CELLS) for each in preview.split("\n")) <= 3
    assert 1 <= line <= text.count("\n") + text.count("\r") + 1


@pytest.mark.parametrize(
    "piece", ["*a ", "_a ", "[a](", "`", "<", "{{", "a. ", "。", "| ", "- ", "\n", "\n- a", "![", "a\n\n"]
)
def test_a_megabyte_of_anything_has_a_preview(piece: str) -> None:
    shown(piece * (1_000_000 // len(piece)), "a")
