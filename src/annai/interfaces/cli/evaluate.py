"""`annai eval`: how good are the answers, and do other settings give better ones?"""

import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from itertools import takewhile
from pathlib import Path

import click

from annai.answers import Mode, Query
from annai.collection import file_path
from annai.config import Config, override
from annai.engine import Engine
from annai.errors import ConfigError, NotFound
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import confirm_large_index, format_option, open_fresh, project_command
from annai.interfaces.cli.progress import progress_bar
from annai.interfaces.mcp.results import answer_result
from annai.interfaces.render.records import print_json
from annai.interfaces.render.table import print_table
from annai.interfaces.terminal import echo, warn
from annai.opening import open_project
from annai.project import Project
from annai.searching.evaluation import (
    Asked,
    Evaluation,
    QuestionResult,
    evaluate,
    read_asked,
    unknown_paths,
    write_run,
)
from annai.settings import SECTIONS
from annai.text.nesting import parse_toml
from annai.values import choices

SAME_INDEX = frozenset({"search", "rerank"})
"""Sections of the settings that change nothing in an index."""

PARAGRAPH_BUDGETS = (500, 1000, 1500, 2000, 4000)
"""Tokens of an agent's answer: `search.max_tokens` is one of these unless it is set."""

MAX_NAMED_PATHS = 5
"""So many expected paths that are not indexed are named; more are counted."""


@click.command(
    cls=Command,
    examples=(
        "annai eval --queries questions.tsv",
        "annai eval --queries questions.jsonl --qrels answers.tsv",
        "annai eval --queries Q.jsonl --qrels R.tsv --compare search.mode=vector",
    ),
)
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    required=True,
    help='Lines of a question, a tab and a path; with --qrels JSON lines: {"id": …, "text": …, "type": …}.',
)
@click.option(
    "--qrels",
    type=click.Path(path_type=Path),
    help="One judgement per line: question id, path and relevance, separated by tabs.",
)
@click.option("--run", type=click.Path(path_type=Path), help="Write the paths found for each question to this file.")
@click.option("--mode", type=click.Choice(choices(Mode)), help="Search by meaning, words or both.")
@click.option(
    "--compare",
    multiple=True,
    metavar="SETTING",
    help='Also measure with this setting, such as "search.mode=vector"; repeatable.',
)
@format_option(default="table")
@click.option("-y", "--yes", is_flag=True, help="Index without asking, however many files there are.")
@project_command()
def command(
    config: Config,
    queries: Path,
    qrels: Path | None,
    run: Path | None,
    mode: str | None,
    compare: tuple[str, ...],
    form: str,
    yes: bool,
) -> None:
    """Measure how well your own questions are answered.

    --queries alone is a file as annai's page saves it: a question, a tab (or →) and the
    path of the document that answers it, one per line; PATH:LINE also names the paragraph.

    Reports nDCG@10, Recall@5 and MRR@10 over files (each counts by its best section),
    in total and by type of question; how likely the first results were said to answer,
    against how many did; for questions with a line, how often an agent's answer of a
    given size contains the paragraph; the time per question, and the worst questions.
    Five questions about your own documents show which settings suit them.
    """
    asked = read_asked(queries, qrels)
    if mode:
        config = override(config, "search", mode=mode)
    others = {setting: _changed(config, setting) for setting in compare}
    found: dict[str, Evaluation] = {}
    shown: dict[int, float] = {}
    for name, settings in {"": config, **others}.items():
        with ExitStack() as stack:
            project: Project
            if not name:
                project = stack.enter_context(open_fresh(config, yes=yes))
            elif name.partition(".")[0] in SAME_INDEX:
                # A running server answers with its own settings; the index is fresh by now.
                project = stack.enter_context(Engine(settings))
            else:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                project = stack.enter_context(_index_apart(config, name, settings, folder, yes=yes))
            if not name:
                _warn_of_unknown(project, config, asked)
                shown = _paragraphs_shown(project, settings, asked)
            search = partial(project.search, refresh=False)
            found[name] = evaluate(search, asked.questions, asked.judgements, settings.search.mode)
    if run:
        write_run(found[""], run)
    if form == "json":
        print_json([_plain(name, each, {} if name else shown) for name, each in found.items()])
    else:
        _show(found, config)
        _show_trust(found[""], shown, config)
        _show_worst(found[""], config)


def _warn_of_unknown(project: Project, config: Config, asked: Asked) -> None:
    """Say which of the paths that are wanted are not indexed: no search can find them."""
    sources = project.sources()
    documents = {(name, path) for name in project.status().searched for path in project.document_paths(name)}
    names = (each for name, path in documents for each in (path, file_path(config, sources[name], path)))
    if unknown := unknown_paths(asked, names):
        named = ", ".join(unknown[:MAX_NAMED_PATHS]) + (", …" if len(unknown) > MAX_NAMED_PATHS else "")
        are = "1 of the wanted paths is" if len(unknown) == 1 else f"{len(unknown):,} of the wanted paths are"
        warn(f"{are} not indexed: {named}. Correct the path, or see `annai status` for what is left out.")


def _paragraphs_shown(project: Project, config: Config, asked: Asked) -> dict[int, float]:
    """For each size of an agent's answer, the share of the questions with lines whose paragraph it contains."""
    counts = dict.fromkeys(PARAGRAPH_BUDGETS, 0)
    for question in (each for each in asked.questions if each.id in asked.places):
        query = Query(question.text, mode=config.search.mode)
        answer = project.search(query, refresh=False)
        wanted = [_words_of(_paragraph(project, place)) for place in asked.places[question.id]]
        for budget in PARAGRAPH_BUDGETS:
            text = _words_of(answer_result(answer, query, budget).text)
            counts[budget] += any(each and each in text for each in wanted)
    return {budget: round(count / len(asked.places), 4) for budget, count in counts.items()} if asked.places else {}


def _paragraph(project: Project, place: str) -> str:
    """The lines around one that belong together; empty if there is no such place."""
    try:
        selection = project.locate(place)
    except NotFound:
        return ""
    lines = selection.document.text.split("\n")
    at = min(int(place.rpartition(":")[2].partition("-")[0]), len(lines)) - 1
    first = next((number for number in range(at, -1, -1) if not lines[number].strip()), -1) + 1
    return "\n".join(takewhile(str.strip, lines[first:])) if lines[at].strip() else ""


def _words_of(text: str) -> str:
    """A text without what its lines look like."""
    return "".join(re.findall(r"\w+", text.lower()))


def _index_apart(config: Config, setting: str, changed: Config, folder: str, *, yes: bool) -> Engine:
    """The same collections, indexed with a changed setting in a folder of its own.

    Never in the project's own index, wherever it is: that would be built anew for it, and back again for its users.
    """
    section = setting.partition(".")[0]
    engine = changed.store.engine if section == "store" else "sqlite"
    if engine in ("postgres", "qdrant") or (section == "store" and changed.store.url != config.store.url):
        raise ConfigError(
            "--compare builds a temporary index on this machine",
            "store.engine may be sqlite, lancedb or chroma in it, and store.url cannot be compared.",
        )
    apart = override(changed, "store", engine=engine, url="", collection_name="")
    apart = override(apart, "database", path=f"{folder}/index.sqlite")
    with open_project(config) as project:
        collections = project.list_collections()
    opened = Engine(apart)
    try:
        for each in collections:
            if each.source.is_dir():
                copy = replace(each, imported_at="", embedder="", settings="")
                if section == "chunking":
                    copy = replace(copy, chunk_size=None, chunk_overlap=None)
                opened.store.save_collection(copy)
        with progress_bar("Indexing") as progress:
            opened.refresh(progress=progress, confirm=confirm_large_index(yes))
    except BaseException:
        opened.close()
        raise
    return opened


def _changed(config: Config, setting: str) -> Config:
    """The settings with one of them changed, as `section.key=value` says."""
    name, equals, text = setting.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot or section not in SECTIONS:
        raise ConfigError(
            f'--compare takes a setting such as "search.mode=vector", not {setting!r}', "docs/settings.md lists them."
        )
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        value = text.strip()
    return override(config, section, **{key: value})


def _show(found: dict[str, Evaluation], config: Config) -> None:
    several = len(found) > 1
    rows = [
        (
            *((name or "current",) if several else ()),
            each.type,
            f"{each.queries:,}",
            *(f"{value:.3f}" for value in (each.ndcg, each.recall, each.mrr)),
        )
        for name, evaluation in found.items()
        for each in evaluation.measures
    ]
    print_table((*(("setting",) if several else ()), "type", "queries", "nDCG@10", "Recall@5", "MRR@10"), rows, config)
    for name, evaluation in found.items():
        median, most = evaluation.milliseconds
        label = f"{name or 'current'}: " if several else ""
        echo(f"{label}{median:.1f} ms per question, 95% under {most:.1f} ms")


def _show_trust(evaluation: Evaluation, shown: Mapping[int, float], config: Config) -> None:
    """How likely first results were said to answer, and what an agent sees of what answers."""
    echo("\nHow likely first results answer, and how many do:\n")
    rows = [
        (
            each.verdict,
            f"{each.least:.2f}–{each.most:.2f}",
            f"{each.queries:,}",
            f"{each.stated:.2f}",
            f"{each.right:.2f}",
        )
        for each in evaluation.calibration
    ]
    print_table(("verdict", "score", "questions", "stated", "right"), rows, config)
    echo(f"{evaluation.calibration_error:.2f} between stated and right, on average")
    if shown:
        echo("\nParagraphs shown to an agent, by tokens:\n")
        print_table(("tokens", "shown"), [(f"{size:,}", f"{share:.2f}") for size, share in shown.items()], config)


def _show_worst(evaluation: Evaluation, config: Config) -> None:
    if worst := evaluation.worst:
        echo("\nWorst questions:\n")
        print_table(("id", "nDCG@10", "question", "wanted", "at rank"), map(_worst_row, worst), config)


def _worst_row(outcome: QuestionResult) -> tuple[str, ...]:
    text = " ".join(outcome.question.text.split())
    return (
        outcome.question.id,
        f"{outcome.ndcg:.3f}",
        text,
        outcome.wanted[0] if outcome.wanted else "nothing",
        str(outcome.rank or "—"),
    )


def _plain(setting: str, evaluation: Evaluation, shown: Mapping[int, float]) -> dict[str, object]:
    median, most = evaluation.milliseconds
    return {
        "setting": setting,
        "measures": [asdict(each) for each in evaluation.measures],
        "calibration": [asdict(each) for each in evaluation.calibration],
        "calibration_error": evaluation.calibration_error,
        **({"paragraphs": [{"tokens": size, "shown": share} for size, share in shown.items()]} if shown else {}),
        "milliseconds": {"median": round(median, 2), "p95": round(most, 2)},
        "worst": [
            {
                "id": each.question.id,
                "text": each.question.text,
                "ndcg": round(each.ndcg, 4),
                "wanted": each.wanted,
                "rank": each.rank,
                "found": each.documents[:3],
            }
            for each in evaluation.worst
        ],
    }
