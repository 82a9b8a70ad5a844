"""How good are the answers? The whole product on every evaluation set, by mode and by type of question.

    python benchmarks/quality.py [SET …] [--provider static] [--model DIR] [--modes vector keyword hybrid] [--write]
        [--keep FOLDER]

Every set is laid out as files, indexed with default settings and searched as a user searches it. A document's rank is
that of its best section (`annai eval` does the same for your own questions). `identifiers` are code spans of the
documents themselves: a span that occurs in one file only should find that file. The figures are compared with
benchmarks/quality.json; with --write they replace it, and benchmarks/quality.md is written.
"""

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import get_args

from ranking import open_indexed

from annai.answers import Mode
from annai.engine import Engine
from annai.searching.evaluation import Judgements, Measures, Question, evaluate, read_judgements, read_questions

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import corpus_names, eval_folder

BASELINE, PAGE = (Path(__file__).with_suffix(suffix) for suffix in (".json", ".md"))

MAX_FALL = 0.01
"""A set whose nDCG@10 falls by more than this against the baseline is a failure."""

MAX_SPANS = 300
"""Code spans that are searched for in each set of files."""

MIN_QUESTIONS = 20
"""Types with fewer questions have no row of their own: chance decides there."""

SPAN = re.compile(r"(?<!`)`([^`\n]{3,60})`(?!`)")

Row = dict[str, str | int | float]
"""Set, mode and type, the number of queries, and the measures."""


def main() -> None:
    """Evaluate, print, and compare with the baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--provider", default="static")
    parser.add_argument("--model", default="", help="the provider's model, or its folder")
    parser.add_argument("--modes", nargs="*", default=["vector", "keyword", "hybrid"], choices=get_args(Mode))
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--write", action="store_true", help="make these figures the baseline")
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    options = parser.parse_args()
    folder = eval_folder()
    if not (folder / "score.py").exists():
        print(f"There are no evaluation sets in {folder}, so nothing was measured; name their folder with ANNAI_EVAL.")
        return
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.sets or corpus_names(folder):
            workspace = (options.keep or Path(temporary)) / name
            with open_indexed(folder, name, workspace, provider=options.provider, model=options.model) as engine:
                rows += measure(engine, folder, name, workspace / "tree", options.modes)
            print(_line(name, rows, options.modes), flush=True)
    if options.json:
        options.json.write_text(_lines(rows), encoding="utf-8")
    fallen = compare(rows, json.loads(BASELINE.read_text("utf-8")) if BASELINE.exists() else [])
    if options.write:
        BASELINE.write_text(_lines(rows), encoding="utf-8")
        PAGE.write_text(render_page(rows, options.provider, options.modes), encoding="utf-8")
    sys.exit(1 if fallen and not options.write else 0)


def measure(engine: Engine, folder: Path, name: str, tree: Path, modes: Sequence[Mode]) -> list[Row]:
    """The measures of one set, mode by mode and type by type."""
    question_sets: dict[str, tuple[list[Question], Judgements]] = {
        name: (read_questions(folder / name / "queries.jsonl"), read_judgements(folder / name / "qrels.tsv"))
    }
    if (folder / name / "tree.tar.gz").exists():
        question_sets[f"{name} identifiers"] = code_spans(tree)
    rows: list[Row] = []
    for part, (questions, judgements) in question_sets.items():
        for mode in modes:
            found = evaluate(partial(engine.search, refresh=False), questions, judgements, mode)
            rows += [_row(part, mode, each) for each in found.measures if each.type == "all" or each.queries]
    return rows


def code_spans(tree: Path) -> tuple[list[Question], Judgements]:
    """Questions made of code spans that occur in one file only, chosen by their hashes: nobody picked them."""
    files = [path for path in sorted(tree.rglob("*")) if path.is_file()]
    texts = {path.relative_to(tree).as_posix(): path.read_text("utf-8", "replace") for path in files}
    owners: dict[str, str] = {}
    for path, text in texts.items():
        if not path.endswith(".md"):
            continue
        owners.update((span.strip(), path) for span in SPAN.findall(text) if re.search(r"[A-Za-z]{2}", span))
    chosen: dict[str, str] = {}
    for span in sorted(owners, key=lambda span: hashlib.sha256(span.encode()).digest()):
        if len(chosen) == MAX_SPANS:
            break
        if sum(span in text for text in texts.values()) == 1:
            chosen[span] = owners[span]
    questions = [Question(str(number), span) for number, span in enumerate(chosen)]
    return questions, {str(number): {path.removesuffix(".md"): 1} for number, path in enumerate(chosen.values())}


def compare(rows: Sequence[Row], baseline: Sequence[Row]) -> list[str]:
    """Print what changed against the baseline; returns the sets that fell."""
    before = {_key(row): float(row["ndcg"]) for row in baseline}
    fallen = []
    for row in rows:
        change = float(row["ndcg"]) - before.get(_key(row), float(row["ndcg"]))
        if row["type"] == "all" and abs(change) >= MAX_FALL / 2:
            print(f"{row['set']} {row['mode']}: {change:+.3f} against the baseline")
            fallen += [str(row["set"])] if change < -MAX_FALL else []
    return fallen


def render_page(rows: Sequence[Row], provider: str, modes: Sequence[str]) -> str:
    """The figures as a page."""
    sets = list(dict.fromkeys(str(row["set"]).partition(" ")[0] for row in rows))
    figures = {_key(row): row for row in rows}
    day = datetime.now(UTC).date()
    lines = [
        "# The answers, measured",
        "",
        f"Written by `make quality` on {day}: default settings, provider {provider}, whole files as documents;",
        "nDCG@10 / Recall@5 / MRR@10.",
        "",
        f"| set | queries | {' | '.join(modes)} |",
        "|---|---|" + "---|" * len(modes),
        *(_line(name, rows, modes) for name in sets),
        "",
        f"By type of question, where there are {MIN_QUESTIONS} or more (nDCG@10):",
        "",
        f"| set | type | queries | {' | '.join(modes)} |",
        "|---|---|---|" + "---|" * len(modes),
    ]
    for row in rows:
        if row["type"] != "all" and row["mode"] == modes[0] and int(row["queries"]) >= MIN_QUESTIONS:
            cells = (f"{figures[str(row['set']), mode, str(row['type'])]['ndcg']:.3f}" for mode in modes)
            lines.append(f"| {row['set']} | {row['type']} | {row['queries']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _row(name: str, mode: str, found: Measures) -> Row:
    values: Row = {"set": name, "mode": mode, "type": found.type, "queries": found.queries}
    return values | {"ndcg": found.ndcg, "recall": found.recall, "mrr": found.mrr}


def _key(row: Mapping[str, str | int | float]) -> tuple[str, str, str]:
    return str(row["set"]), str(row["mode"]), str(row["type"])


def _line(name: str, rows: Sequence[Row], modes: Sequence[str]) -> str:
    """The lines of the table for a set and for what goes with it."""
    lines = []
    for part in dict.fromkeys(str(row["set"]) for row in rows if str(row["set"]).partition(" ")[0] == name):
        found = {row["mode"]: row for row in rows if row["set"] == part and row["type"] == "all"}
        cells = (" / ".join(f"{found[mode][measure]:.3f}" for measure in ("ndcg", "recall", "mrr")) for mode in modes)
        lines.append(f"| {part} | {found[modes[0]]['queries']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _lines(rows: Sequence[Row]) -> str:
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


if __name__ == "__main__":
    main()
