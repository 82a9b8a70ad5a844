"""Which parts of the found pages does an answer hold? Those that answer, at their own lines, whatever is wanted."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from annai.config import load_config, override
from annai.engine import Engine
from annai.searching.windows import Page, RatedWindow, choose_windows
from annai.types import Document, FileState, Section

Write = Callable[[str, str], Path]

FILLER = "The garden is green, the sky is blue, and the cat sleeps on the wall all day long. " * 4


@pytest.fixture
def engine(docs: Path, write: Write) -> Iterator[Engine]:
    answer = "A kettle is descaled with vinegar: fill it, wait an hour, and rinse it twice."
    parts = [FILLER] * 12
    parts[7] = answer
    write(
        "a/kettles.md", "---\ntitle: Kettles\n---\n\n" + "\n\n".join(f"## Part {n}\n\n{p}" for n, p in enumerate(parts))
    )
    for number in range(8):
        write(f"b/kettle{number}.md", f"# Kettle {number}\n\nKettle {number} is descaled by the maker.\n\n{FILLER}")
    write(
        "long.txt",
        (FILLER + "\n\n") * 40 + "The kettle of the office is descaled on Fridays.\n\n" + (FILLER + "\n\n") * 40,
    )
    with Engine(override(load_config(docs_dir=docs), "embedding", provider="static")) as engine:
        yield engine


def test_windows_are_what_is_written_at_their_lines_and_their_addresses_lead_there(engine: Engine, docs: Path) -> None:
    seen = 0
    for question in ("how is a kettle descaled?", "office kettle Fridays", "やかんの手入れ"):
        for hit in engine.search(question, limit=10):
            lines = (docs / hit.path).read_text(encoding="utf-8").split("\n")
            for window in hit.windows:
                seen += 1
                assert window.text in "\n".join(lines[window.start_line - 1 : window.end_line])
                assert window.text in engine.locate(window.id).content
    assert seen > 10


def test_the_sentence_that_answers_is_among_them(engine: Engine) -> None:
    hit = next(each for each in engine.search("how is a kettle descaled with vinegar?") if each.path == "a/kettles.md")
    assert hit.preview.startswith("A kettle is descaled with vinegar")
    assert any("## Part 7\n\nA kettle is descaled with vinegar" in window.text for window in hit.windows)


def test_what_is_shown_of_a_result_does_not_depend_on_how_many_are_wanted(engine: Engine) -> None:
    every = engine.search("how is a kettle descaled?", limit=10).results
    assert len(every) == 10
    for offset, limit in ((0, 1), (0, 3), (2, 5), (7, 2)):
        some = engine.search("how is a kettle descaled?", limit=limit, offset=offset).results
        assert some == every[offset : offset + limit]


def test_windows_keep_to_their_tokens_and_to_what_may_be_shown(engine: Engine) -> None:
    for tokens in (0, 100, 400):
        answer = engine.search("how is a kettle descaled?", max_tokens=tokens)
        assert sum(len(window.text) for hit in answer for window in hit.windows) <= 4 * tokens
    answer = engine.search("how is a kettle descaled? -vinegar", limit=10)
    assert answer.results
    assert not any("vinegar" in window.text for hit in answer for window in hit.windows)
    for hit in engine.search("kettle descaled", per_document=0, paths=["a"], limit=20):
        assert all(hit.start_line <= window.start_line <= window.end_line <= hit.end_line for window in hit.windows)


def test_a_page_whose_title_and_headings_have_no_words_is_shown(engine: Engine, write: Write) -> None:
    write("1.md", "# →\n\nThe cellar has a copper cauldron.\n\n## ☃\n\nIt is for jam.\n")
    (hit, *_) = engine.search("copper cauldron cellar").results
    assert hit.path == "1.md"
    assert any("copper cauldron" in window.text for window in hit.windows)


def test_a_page_that_is_only_a_heading_is_shown(engine: Engine, write: Write) -> None:
    write("only.md", "# Rhubarb\n")
    assert engine.search("rhubarb", paths=["only.md"]).results[0].title == "Rhubarb"


def test_a_long_window_does_not_crowd_out_two_short_ones_that_are_nearly_as_likely() -> None:
    text = "long " * 100 + "short " * 20 + "brief " * 20
    document = Document("root", "a.md", "", text, FileState("a.md", 0, 0))
    spans = [(0, 500, 2.1), (500, 620, 2.0), (620, len(text), 2.0)]
    sections = [
        Section(1, 0, 1, str(start), (), (number,), start, end, 1, 1, 9) for number, (start, end, _) in enumerate(spans)
    ]
    rated = [
        RatedWindow(section, start, end, start, rating)
        for section, (start, end, rating) in zip(sections, spans, strict=True)
    ]
    page = Page(document, sections, [(0, len(text), 1.0)], is_asked_for=False)
    (chosen,) = choose_windows([page], [rated], 150)
    assert [(each.start, each.end) for each in chosen] == [(500, 620), (620, len(text))]
