"""Is what a query excludes left out, and nothing else, and do commands with dashes stay what they are?"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from annai.answers import Answer, Mode, Query, Where
from annai.asking.exclusion import find_exclusions, strip_exclusions
from annai.config import load_config, override
from annai.engine import Engine
from tests.conftest import Annai

Write = Callable[[str, str], Path]
FILLER = "This part tells of other things, at some length, so that the page is one of many words. " * 20
MODES: tuple[Mode, ...] = ("hybrid", "vector", "keyword")


@pytest.fixture(params=["sqlite", "memory"])
def project(request: pytest.FixtureRequest, docs: Path, write: Write) -> Iterator[Engine]:
    write("tables.md", "# Page\n\nA page that tells of routing once, and of tables and chairs.")
    write("react.md", "# Routing in React\n\nRouting of pages.")
    # The last section is of several passages, and only its last one holds the words.
    write(
        "guide.md",
        f"# Guide\n\n## Routes\n\nRouting. {FILLER}\n\n## Tests\n\nRouting. {FILLER * 3} Tested: a deep end.",
    )
    write("japanese.md", "# ルーティング\n\nページの routing と、猫の話。")
    write("shell.md", "# Archives\n\nRun `tar -xzf routing.tar.gz`, or `java -jar routing.jar` for a jar.")
    with Engine(override(load_config(docs_dir=docs), "store", engine=request.param)) as engine:
        engine.refresh()
        yield engine


def asked(project: Engine, text: str, *, mode: Mode = "hybrid", limit: int = 8, depths: tuple[int, ...] = ()) -> Answer:
    return project.search(Query(text, mode=mode, limit=limit, per_document=0, depths=depths))


@pytest.mark.parametrize("mode", MODES)
def test_sections_that_hold_the_word_are_left_out_and_the_limit_is_filled(
    project: Engine, write: Write, mode: Mode
) -> None:
    for number in range(90):
        write(f"vue/{number}.md", f"# Routing {number}\n\nRouting of pages, routing and routes with the router.")
    for number in range(8):
        write(f"plain/{number}.md", f"# Page {number}\n\nA page that tells of routing once, and of other things.")
    project.refresh()
    answer = asked(project, "routing -vue", mode=mode)
    assert answer.excluded == ("vue",)
    assert len(answer) == 8
    assert not any(hit.path.startswith("vue/") for hit in answer)
    assert answer.total < 90
    assert answer.query == "routing -vue"


@pytest.mark.parametrize(
    ("text", "excluded", "path"),
    [
        ("routing -React", "React", "react.md"),
        ("routing -table", "table", "tables.md"),
        ("-tested routing", "tested", "guide.md#Tests"),
        ('routing -"deep END"', "deep END", "guide.md#Tests"),
        ("routing -“a deep”", "a deep", "guide.md#Tests"),
        ("routing　-猫", "猫", "japanese.md"),
        ("routing －ルーティング", "ルーティング", "japanese.md"),
    ],
)
def test_words_phrases_and_japanese_exclude(project: Engine, text: str, excluded: str, path: str) -> None:
    def shown(answer: Answer) -> set[str]:
        return {name for hit in answer for name in (hit.path, f"{hit.path}#{hit.heading}")}

    assert path in shown(asked(project, "routing", limit=200))
    answer = asked(project, text, limit=200)
    assert answer.excluded == (excluded,)
    assert answer.results
    assert path not in shown(answer)
    assert "guide.md#Routes" in shown(answer)


def test_a_section_is_judged_as_it_is_shown(project: Engine) -> None:
    assert "guide.md" in {hit.path for hit in asked(project, "routing -deep", limit=200)}
    assert "guide.md" in {hit.path for hit in asked(project, "routing", limit=200, depths=(0,))}
    assert "guide.md" not in {hit.path for hit in asked(project, "routing -deep", limit=200, depths=(0,))}


@pytest.mark.parametrize(
    "text",
    [
        "git commit --amend",
        "ls -l",
        "tar -xzf",
        "java -jar",
        "kubectl -n kube-system",
        "kubectl apply -f x.yaml -recursive",
        "a - b",
        "-vue",
        "-vue -react",
        '-"a phrase"',
        "is it once -or- twice",
        'a phrase of signs -"  " -"!?"',
        "minus -5",
        "end-to-end",
        "find --path=x -name",
    ],
)
def test_other_dashes_are_text(project: Engine, text: str) -> None:
    assert find_exclusions(project.store, text, Where()) == ()
    assert strip_exclusions(text, ()) == text


def test_what_no_section_holds_excludes_nothing(project: Engine) -> None:
    plain, without = asked(project, "routing"), asked(project, "routing -zebra")
    assert [hit.id for hit in plain] == [hit.id for hit in without]
    assert plain.total == without.total


def test_every_interface_says_what_was_left_out(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\nThe configuration of Vue.")
    write("b.md", "# Title\n\nThe configuration of it.")
    query = "configuration -vue"
    assert "Left out sections that hold “vue”." in annai("search", query).stdout
    assert annai("search", query, "--format", "files").stdout == "b.md:1\n"
    assert annai("search", "--format", "files", "--", "-vue configuration").stdout == "b.md:1\n"
    answer = json.loads(annai("search", query, "--format", "json").stdout)
    assert (answer["query"], answer["excluded"]) == (query, ["vue"])
