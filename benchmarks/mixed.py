"""What does a tree of both languages find? Pages of docs_en and docs_ja side by side, asked in either language.

    python benchmarks/mixed.py [--queries 1000] [--keep FOLDER]

Of every page that both sets have, one language is taken, by the hash of its path. The questions are those of both sets
whose pages are in the tree, in two groups: written in their page's language, or in the other. They are measured with
several values of `OTHER_SCRIPT_FACTOR`: the table of docs/ranking.md.
"""

import argparse
import hashlib
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from ranking import patched

from annai.config import load_config, override
from annai.engine import Engine
from annai.searching.evaluation import Judgements, Question, evaluate, normalize_path, read_judgements, read_questions
from annai.text.tokens import is_cjk

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import eval_folder, write_files

SETS = ("docs_en", "docs_ja")
FACTORS = (0.0, 0.7, 0.77, 0.85, 1.0)
SAME, OTHER = "same language", "other language"


def main() -> None:
    """Mix the trees, search, and print one row for each factor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1_000, help="at most this many")
    parser.add_argument("--keep", type=Path, help="mix and index the trees here, and use what is there already")
    options = parser.parse_args()
    folder = eval_folder()
    with tempfile.TemporaryDirectory() as temporary:
        workspace = options.keep or Path(temporary)
        owners = mix_trees(folder, workspace)
        questions, judgements = read_mixed_questions(folder, owners)
        chosen = questions[:: -(-len(questions) // options.queries)]
        config = override(load_config(docs_dir=workspace / "tree"), "database", path=f"{workspace}/index.sqlite")
        with Engine(override(config, "files", respect_gitignore=False, exclude=())) as engine:
            engine.refresh()
            print(f"{len(owners):,} pages, {len(chosen):,} questions\n\n| factor | {SAME} | {OTHER} |\n|---|---|---|")
            for factor in FACTORS:
                with patched({"OTHER_SCRIPT_FACTOR": factor}):
                    measures = evaluate(partial(engine.search, refresh=False), chosen, judgements, "hybrid").measures
                ndcg = {each.type: each.ndcg for each in measures}
                print(f"| {factor} | {ndcg[SAME]:.3f} | {ndcg[OTHER]:.3f} |", flush=True)


def mix_trees(folder: Path, workspace: Path) -> dict[str, str]:
    """Lay out the tree, if it is not there, and return the set that each page is from."""
    trees = {name: workspace / name for name in SETS}
    for name, tree in trees.items():
        if not tree.exists():
            write_files(folder, name, tree)
    owners: dict[str, str] = {}
    for path in sorted({file.relative_to(tree) for tree in trees.values() for file in tree.rglob("*.md")}):
        holders = [name for name in SETS if (trees[name] / path).exists()]
        owner = holders[hashlib.sha256(path.as_posix().encode()).digest()[0] % len(holders)]
        owners[normalize_path(path.as_posix())] = owner
        target = workspace / "tree" / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(trees[owner] / path, target)
    return owners


def read_mixed_questions(folder: Path, owners: dict[str, str]) -> tuple[list[Question], Judgements]:
    """The questions of both sets whose pages are in the tree; their type says if they are in their page's language."""
    questions: list[Question] = []
    judgements: dict[str, dict[str, int]] = {}
    for name in SETS:
        judged = read_judgements(folder / name / "qrels.tsv")
        for question in read_questions(folder / name / "queries.jsonl"):
            wanted = {page for page, relevance in judged.get(question.id, {}).items() if relevance > 0}
            if wanted and all(owners.get(page) == name for page in wanted):
                japanese = any(map(is_cjk, question.text))
                unique_id = f"{name} {question.id}"
                questions.append(Question(unique_id, question.text, SAME if japanese == (name == "docs_ja") else OTHER))
                judgements[unique_id] = judged[question.id]
    return questions, judgements


if __name__ == "__main__":
    main()
