"""`annai eval`: how good are the answers, and do other settings give better ones?"""

import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import click

from annai.answers import Mode
from annai.config import Config, override
from annai.engine import Engine
from annai.errors import ConfigError
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import confirm_large_index, format_option, open_fresh, project_command
from annai.interfaces.cli.progress import progress_bar
from annai.interfaces.render.records import print_json
from annai.interfaces.render.table import print_table
from annai.interfaces.terminal import echo
from annai.opening import open_project
from annai.project import Project
from annai.searching.evaluation import Evaluation, QuestionResult, evaluate, read_judgements, read_questions, write_run
from annai.settings import SECTIONS
from annai.text.nesting import parse_toml
from annai.values import choices

SAME_INDEX = frozenset({"search", "rerank"})
"""Sections of the settings that change nothing in an index."""


@click.command(
    cls=Command,
    examples=(
        "annai eval --queries questions.jsonl --qrels answers.tsv",
        "annai eval --queries Q.jsonl --qrels R.tsv --compare search.mode=vector",
    ),
)
@click.option(
    "--queries", type=click.Path(path_type=Path), required=True, help='JSON lines: {"id": …, "text": …, "type": …}.'
)
@click.option(
    "--qrels",
    type=click.Path(path_type=Path),
    required=True,
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
    qrels: Path,
    run: Path | None,
    mode: str | None,
    compare: tuple[str, ...],
    form: str,
    yes: bool,
) -> None:
    """Measure how well your own questions are answered.

    Reports nDCG@10, Recall@5 and MRR@10 over files (each counts by its best section),
    in total and by type of question, the time per question, and the worst questions.
    Five questions about your own documents show which settings suit them.
    """
    questions, judgements = read_questions(queries), read_judgements(qrels)
    if mode:
        config = override(config, "search", mode=mode)
    others = {setting: _changed(config, setting) for setting in compare}
    found: dict[str, Evaluation] = {}
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
            found[name] = evaluate(partial(project.search, refresh=False), questions, judgements, settings.search.mode)
    if run:
        write_run(found[""], run)
    if form == "json":
        print_json([_plain(name, each) for name, each in found.items()])
    else:
        _show(found, config)


def _index_apart(config: Config, setting: str, changed: Config, folder: str, *, yes: bool) -> Engine:
    """The same collections, indexed with a changed setting in a folder of its own.

    Never in the project's own index, wherever it is: that would be built anew for it, and back again for its users.
    """
    section = setting.partition(".")[0]
    engine = changed.store.engine if section == "store" else "sqlite"
    if engine in ("postgres", "qdrant") or (section == "store" and changed.store.url != config.store.url):
        raise ConfigError(
            "--compare builds a temporary index on this machine; store.engine may be sqlite, lancedb or chroma in it, "
            "and store.url cannot be compared."
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
            f'--compare takes a setting such as "search.mode=vector", not {setting!r}; docs/settings.md lists them.'
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
    if worst := found[""].worst:
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


def _plain(setting: str, evaluation: Evaluation) -> dict[str, object]:
    median, most = evaluation.milliseconds
    return {
        "setting": setting,
        "measures": [asdict(each) for each in evaluation.measures],
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
