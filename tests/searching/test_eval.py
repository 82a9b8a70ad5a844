"""Does `annai eval` measure what it says? Real files, the program itself, and the judge of the evaluation sets."""

import json
import os
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.answers import Answer, Hit, Query, Verdict
from annai.config import Config, load_config
from annai.searching.evaluation import Question, evaluate
from annai.stores.base import load_store
from tests.conftest import Annai, state_of, trust
from tests.engines import DURABLE, config_for, postgres_folder, postgres_url

__all__ = ["postgres_folder", "postgres_url"]

Write = Callable[[str, str], Path]

EVAL = Path(os.environ.get("ANNAI_EVAL", Path(__file__).parents[3] / "shared" / "eval"))


@pytest.fixture
def fruit(annai: Annai, write: Write) -> Annai:
    """Three documents, and questions about them."""
    for name in ("apple", "pear", "plum"):
        write(f"{name}.md", f"# {name.title()}\n\nAll about the {name}.")
    write(
        "q.jsonl",
        "".join(
            json.dumps({"id": name, "text": f"about the {name}", "type": kind}) + "\n"
            for name, kind in (("apple", "easy"), ("pear", "easy"), ("plum", "hard"))
        ),
    )
    write("r.tsv", "apple\tapple.md\t1\npear\tpear\t1\nplum\tapple.md\t1\nplum\tplum.md\t2\nplum\tpear.md\t0\n")
    return annai


def evaluated(annai: Annai, *arguments: str, code: int = 0) -> str:
    done = annai("eval", "--queries", "q.jsonl", "--qrels", "r.tsv", *arguments, code=code)
    return done.stderr if code else done.stdout


def test_questions_are_measured_in_all_and_by_type(fruit: Annai) -> None:
    (measured,) = json.loads(evaluated(fruit, "--format", "json"))
    rows = {row["type"]: row for row in measured["measures"]}
    assert [*rows] == ["all", "easy", "hard"]
    assert rows["easy"] == {"type": "easy", "queries": 2, "ndcg": 1.0, "recall": 1.0, "mrr": 1.0}
    assert rows["hard"]["queries"] == 1
    assert 0 < rows["hard"]["ndcg"] < 1
    assert measured["milliseconds"]["median"] > 0


def test_a_judgement_names_a_file_however_its_path_is_written(fruit: Annai, write: Write) -> None:
    write("https:/site/fig.md", "# Fig\n\nAll about the fig.")
    write("q.jsonl", '{"id": "fig", "text": "about the fig"}\n{"id": "plum", "text": "about the plum"}\n')
    write("r.tsv", "fig\thttps://site/fig\t1\nplum\t./plum.md\t1\n")
    (measured,) = json.loads(evaluated(fruit, "--format", "json"))
    assert measured["measures"][0]["ndcg"] == 1.0


def test_a_table_shows_the_measures_the_time_and_the_worst(fruit: Annai) -> None:
    shown = evaluated(fruit)
    assert "nDCG@10" in shown
    assert "ms per question" in shown
    worst = shown.split("Worst questions:")[1]
    assert "about the plum" in worst
    assert "about the pear" not in worst


def test_the_run_file_holds_paths_best_first(fruit: Annai) -> None:
    evaluated(fruit, "--run", "run.jsonl")
    rows = [json.loads(line) for line in (fruit.folder / "run.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["apple", "pear", "plum"]
    assert rows[0]["docs"][0] == "apple.md"
    assert sorted(rows[0]["docs"]) == sorted(set(rows[0]["docs"]))


def test_settings_are_compared_side_by_side(fruit: Annai) -> None:
    compared = ("--compare", "search.mode=keyword", "--compare", "chunking.strategy=tokens")
    found = json.loads(evaluated(fruit, *compared, "--format", "json"))
    assert [each["setting"] for each in found] == ["", "search.mode=keyword", "chunking.strategy=tokens"]
    assert all(each["measures"][0]["queries"] == 3 for each in found)
    before = (state_of(fruit.folder) / "index.sqlite").read_bytes()
    assert "chunking.strategy=tokens" in evaluated(fruit, *compared)
    assert (state_of(fruit.folder) / "index.sqlite").read_bytes() == before


def everything(config: Config) -> list[object]:
    """What an index holds."""
    with load_store(config) as store:
        inventory = store.inventory()
        return [store.collections(), store.states("root"), inventory.sections.tolist(), inventory.words.tolist()]


@pytest.mark.parametrize("engine", [each for each in DURABLE if each != "sqlite"])
def test_a_comparison_leaves_the_index_alone_whatever_engine_has_it(
    fruit: Annai, engine: str, request: pytest.FixtureRequest
) -> None:
    url = config_for(engine, fruit.folder, request).store.url
    with (fruit.folder / "annai.toml").open("a") as settings:
        settings.write(f'[store]\nengine = "{engine}"\nurl = "{url}"\n')
    trust(fruit.folder)
    fruit("import")
    config = load_config(docs_dir=fruit.folder)
    before = everything(config)
    compared = evaluated(fruit, "--compare", "chunking.strategy=tokens", "--compare", "store.engine=sqlite")
    assert "chunking.strategy=tokens" in compared
    assert everything(config) == before
    for setting in ("store.engine=postgres", "store.url=elsewhere"):
        if setting != f"store.engine={engine}":
            assert "temporary index" in evaluated(fruit, "--compare", setting, code=2)
    assert everything(config) == before


def test_a_comparison_indexes_the_collections_that_are_registered(fruit: Annai, write: Write) -> None:
    write("more/fig.md", "# Fig\n\nAll about the fig.")
    write("q.jsonl", '{"id": "fig", "text": "about the fig"}\n')
    write("r.tsv", "fig\tfig.md\t1\n")
    fruit("collection", "add", "-n", "more", "-d", "More", "--source", "more")
    current, other = json.loads(evaluated(fruit, "--compare", "chunking.strategy=tokens", "--format", "json"))
    assert current["measures"][0]["ndcg"] == other["measures"][0]["ndcg"] == 1.0


def test_the_file_of_the_page_is_measured_by_itself(fruit: Annai, write: Write) -> None:
    write("more/fig.md", "# Fig\n\nAll about the fig.")
    fruit("collection", "add", "-n", "more", "-d", "More", "--source", "more", "--keep-root")
    # The page saves a file's path from the project's root as well as its path in a collection.
    write("page.tsv", "about the apple\tapple.md\nabout the pear → ./pear\nabout the fig\tmore/fig.md\n\n")
    (measured,) = json.loads(fruit("eval", "--queries", "page.tsv", "--format", "json").stdout)
    assert measured["measures"][0] == {"type": "all", "queries": 3, "ndcg": 1.0, "recall": 1.0, "mrr": 1.0}


def test_wanted_paths_that_are_not_indexed_are_named(fruit: Annai, write: Write) -> None:
    write("page.tsv", "about the apple\tapple.md\nabout the pear\tpeer.md\n")
    done = fruit("eval", "--queries", "page.tsv")
    assert "1 of the wanted paths is not indexed: peer." in done.stderr
    assert "apple" not in done.stderr
    write("page.tsv", "about the apple\tapple.md:3\n")
    assert fruit("eval", "--queries", "page.tsv").stderr == ""


def test_what_was_said_of_the_first_results_stands_beside_what_is_right(fruit: Annai) -> None:
    (measured,) = json.loads(evaluated(fruit, "--format", "json"))
    rows = measured["calibration"]
    assert sum(row["queries"] for row in rows) == 3
    assert all(row["least"] <= row["stated"] <= row["most"] for row in rows)
    error = sum(row["queries"] * abs(row["stated"] - row["right"]) for row in rows) / 3
    assert measured["calibration_error"] == pytest.approx(error, abs=0.0002)
    shown = evaluated(fruit)
    assert "How likely first results answer" in shown
    assert {row["verdict"] for row in rows} <= {*get_args(Verdict)}


def test_a_judgement_with_a_line_shows_how_often_an_agent_reads_that_paragraph(fruit: Annai, write: Write) -> None:
    write("long.md", "# Long\n\n" + "\n\n".join(f"Number {each} of the fruit basket." for each in range(300)))
    write("page.tsv", "about the apple\tapple.md:3\nnumber 7 of the fruit basket\tlong.md:17\n")
    (measured,) = json.loads(fruit("eval", "--queries", "page.tsv", "--format", "json").stdout)
    rows = {row["tokens"]: row["shown"] for row in measured["paragraphs"]}
    assert [*rows] == [500, 1000, 1500, 2000, 4000]
    assert rows[4000] == 1.0
    assert "Paragraphs shown to an agent" in fruit("eval", "--queries", "page.tsv").stdout
    # A line that there is not, or an empty one, is not shown, and is no error.
    write("page.tsv", "about the apple\tapple.md:2\nabout the pear\tpear.md:99\nabout the plum\tnone.md:1\n")
    (measured,) = json.loads(fruit("eval", "--queries", "page.tsv", "--format", "json").stdout)
    assert {row["shown"] for row in measured["paragraphs"]} <= {0.0, 0.3333}


@pytest.mark.parametrize(
    ("questions", "says"),
    [
        ("", "contains no questions"),
        ("no path\n", "line 1: without --qrels, a line is a question"),
        ('{"id": "a", "text": "x"}\n', "give its judgements with --qrels"),
    ],
)
def test_a_wrong_file_of_the_page_is_reported_in_one_sentence(fruit: Annai, questions: str, says: str) -> None:
    (fruit.folder / "page.tsv").write_text(questions)
    said = fruit("eval", "--queries", "page.tsv", code=2).stderr
    assert says in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("queries", "qrels", "says"),
    [
        ("", "a\tb\t1\n", "contains no questions"),
        ("not json\n", "a\tb\t1\n", "line 1: a question is one JSON object"),
        ('{"id": "a"}\n', "a\tb\t1\n", "line 1: a question is one JSON object"),
        ('{"id": 1, "text": "x"}\n', "a\tb\t1\n", "line 1: a question is one JSON object"),
        ("[1]\n", "a\tb\t1\n", "line 1: a question is one JSON object"),
        ('{"id": "a", "text": " "}\n', "a\tb\t1\n", "its text is empty"),
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n', "a\tb\t1\n", "line 2: the id 'a' comes twice"),
        ('{"id": "a", "text": "x"}\n', "a b 1\n", "line 1: a judgement is"),
        ('{"id": "a", "text": "x"}\n', "a\tb\tmuch\n", "line 1: a judgement is"),
        ('{"id": "a", "text": "x"}\n', "b\tb\t1\n", "No question is named"),
        ('{"id": "a", "text": "x"}\n', "", "No question is named"),
    ],
)
def test_wrong_files_are_reported_in_one_sentence(fruit: Annai, queries: str, qrels: str, says: str) -> None:
    (fruit.folder / "q.jsonl").write_text(queries)
    (fruit.folder / "r.tsv").write_text(qrels)
    said = evaluated(fruit, code=2)
    assert says in said
    assert said.count("\n") == 1


def test_missing_and_binary_files_and_wrong_settings_are_reported_in_one_sentence(fruit: Annai) -> None:
    assert "cannot be read" in fruit("eval", "--queries", "none", "--qrels", "r.tsv", code=2).stderr
    (fruit.folder / "binary").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in fruit("eval", "--queries", "q.jsonl", "--qrels", "binary", code=2).stderr
    assert "cannot be written" in evaluated(fruit, "--run", "no/folder/run", code=2)
    for wrong in ("mode", "search.mode", "nothing.mode=1", "search.mode=sideways", "search.nothing=1"):
        assert evaluated(fruit, "--compare", wrong, code=2).count("\n") == 1


names = [str(number) for number in range(15)]


@pytest.mark.skipif(not (EVAL / "score.py").exists(), reason="there is no judge")
@given(
    st.lists(st.sampled_from(names), max_size=30),
    st.dictionaries(st.sampled_from(names), st.integers(0, 2), min_size=1),
)
def test_the_measures_are_those_of_the_judge(found: list[str], relevant: dict[str, int]) -> None:
    """Any list of sections' documents, with any judgement of them."""

    def search(query: Query) -> Answer:
        hits = [Hit("", "", f"{name}.md", "", "", (), 0, (), 1, 1, 0, 0, 0, 0.5, "") for name in found]
        return Answer(query.text, 1.0, len(hits), tuple(hits))

    spec = spec_from_file_location("score", EVAL / "score.py")
    assert spec
    assert spec.loader
    judge = module_from_spec(spec)
    spec.loader.exec_module(judge)
    (measured,) = evaluate(search, [Question("1", "text")], {"1": relevant}, "hybrid").results
    assert (measured.ndcg, measured.recall, measured.mrr) == pytest.approx(judge.measures(found, relevant))
