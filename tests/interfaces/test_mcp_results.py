"""Does an answer stay within its bounds? Laws of the token budget, of pages and of arguments, whatever comes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from annai.answers import Answer, Hit, OtherSection, Query
from annai.errors import AnnaiError
from annai.interfaces.mcp.arguments import Argument, check_arguments, schema
from annai.interfaces.mcp.budget import fit_excerpts, split_lines, truncate
from annai.interfaces.mcp.documents import split_pages
from annai.interfaces.mcp.reports import collection_list
from annai.interfaces.mcp.results import answer_result, fence
from annai.text.tokens import count_tokens
from annai.types import Collection

TEXT = st.text(alphabet=st.sampled_from("あ漢ab 1.`#\n\r\u2028"), max_size=400)


def hit(number: int, content: str) -> Hit:
    return Hit(
        id=f"docs:a/{number}.md#1",
        collection="docs",
        path=f"a/{number}.md",
        title="Title",
        heading="Heading",
        heading_path=("Title", "Heading"),
        depth=1,
        section_number=(1,),
        start_line=1,
        end_line=max(len(split_lines(content)), 1),
        start_position=0,
        end_position=len(content),
        token_count=count_tokens(content),
        score=0.5,
        content=content,
        passage=content,
    )


@given(st.lists(TEXT, max_size=30), st.integers(400, 3000))
@example(["漢字ばかりの文。\n" * 40] * 25, 2000)
@example(['"\\\n' * 300] * 10, 1500)
def test_an_answer_never_holds_more_than_its_tokens(contents: list[str], tokens: int) -> None:
    hits = tuple(hit(number, content) for number, content in enumerate(contents))
    corrected = {letter * 24: letter * 25 for letter in "abc"}
    result = answer_result(
        Answer("a question", 1.0, len(hits), hits, 0.5, corrected=corrected), Query("a question", limit=30), tokens
    )
    assert count_tokens(result.text) <= tokens
    assert count_tokens(json.dumps(result.fields, ensure_ascii=False)) <= tokens
    for row, each in zip(result.fields["results"], hits, strict=False):
        assert row["content"] in each.content
        assert row["content"] == each.content.rstrip("\r\n") or row["truncated"]


def test_what_was_searched_for_in_place_of_a_typing_error_is_result() -> None:
    answer = Answer("configuraton", 1.0, 1, (hit(1, "text"),), 0.5, corrected={"configuraton": "configuration"})
    result = answer_result(answer, Query("configuraton"), 1000)
    (note,) = result.fields["notes"]
    assert note == "No document holds “configuraton”; searched for “configuration”."
    assert note in result.text


def test_whole_sections_come_before_cut_ones() -> None:
    long, short = "長い文章です。\n" * 500, "短い文章です。\n" * 5
    excerpts = fit_excerpts([hit(1, short), hit(2, long), hit(3, short), hit(4, short)], 1500)
    assert [excerpt.is_whole for excerpt in excerpts] == [True, False, True, True]
    assert excerpts[1].content
    assert long.startswith(excerpts[1].content)


def test_more_results_go_before_other_sections_of_the_first_ones() -> None:
    more = tuple(OtherSection(f"a#{number}", "A heading of some length", number) for number in range(3))
    hits = [replace(hit(number, "text"), more=more) for number in range(20)]
    assert all(each.hit.more for each in fit_excerpts(hits[:3], 1000))
    shown = fit_excerpts(hits, 2000)
    assert len(shown) == len(fit_excerpts([hit(number, "text") for number in range(20)], 2000))
    assert not any(each.hit.more for each in shown)


def test_the_passage_that_matched_stands_for_a_section_that_is_too_long() -> None:
    long = "".join(f"行 {number} の文章です。\n" for number in range(900))
    matched = replace(hit(1, long), passage="行 700 の文章です。\n", passage_line=701)
    excerpt, _ = fit_excerpts([matched, hit(2, "短い。\n")], 1000)
    assert not excerpt.is_whole
    assert excerpt.first_line == 701
    assert excerpt.content.startswith("行 700 の文章です。\n行 701")
    assert excerpt.content in long
    assert count_tokens(excerpt.content) > 500


def test_a_passage_that_occurs_twice_is_shown_from_its_own_place() -> None:
    long = "同じ行です。\n" + "".join(f"行 {number}。\n" for number in range(900)) + "同じ行です。\n終わり。\n"
    matched = replace(hit(1, long), passage="同じ行です。\n", passage_line=902)
    (excerpt,) = fit_excerpts([matched], 1000)
    assert excerpt.content == "同じ行です。\n終わり。\n"


@given(TEXT, st.integers(5, 200), st.sets(st.integers(1, 50)))
def test_pages_join_to_the_text_and_know_their_lines(text: str, tokens: int, starts: set[int]) -> None:
    pages = split_pages(text, 1, tokens, starts)
    assert "".join(page.text for page in pages) == text
    every = split_lines(text)
    for page in pages:
        assert "".join(every[page.first_line - 1 : page.last_line]).find(page.text) >= 0


@given(TEXT, st.integers(5, 100))
def test_a_cut_text_is_its_beginning(text: str, tokens: int) -> None:
    assert text.startswith(truncate(text, tokens))


@given(TEXT)
@example("a\n```\nb\n`````\n")
def test_nothing_in_a_text_ends_its_fence(text: str) -> None:
    first, *inner, last = fence(text).split("\n")
    assert first == last
    assert first not in [line.strip() for line in inner]


@given(st.lists(st.text(max_size=300), max_size=40), st.integers(100, 700))
def test_a_list_of_collections_keeps_to_its_bytes(descriptions: list[str], room: int) -> None:
    collections = [Collection(f"c{number}", Path("/"), text) for number, text in enumerate(descriptions)]
    assert len(collection_list(collections, room).encode(errors="surrogatepass")) <= room


ARGUMENTS = (
    Argument("query", "string", "What.", required=True, minimum=1, maximum=10),
    Argument("limit", "integer", "How many.", default=5, minimum=1, maximum=50),
    Argument("force", "boolean", "Whether.", default=False),
    Argument("names", "string", "Which.", choices=("a", "b"), several=True, is_list=True),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["query", "limit", "force", "names", "other"]), JSON))
def test_whatever_a_model_sends_is_understood_or_refused_in_a_sentence(values: dict[str, object]) -> None:
    refusal, given = "", dict[str, Any]()
    try:
        given = check_arguments("tool", ARGUMENTS, values)
    except AnnaiError as error:
        refusal = str(error)
    if not given:
        assert refusal.endswith((".", "?"))
        assert len(refusal) < 300
        return
    assert 1 <= len(given["query"]) <= 10
    assert 1 <= given["limit"] <= 50
    assert given["force"] in (True, False)
    assert set(given["names"] or ()) <= {"a", "b"}


def test_a_schema_is_plain_enough_for_every_client() -> None:
    made = json.dumps(schema(ARGUMENTS))
    assert "anyOf" not in made
    assert "$ref" not in made
