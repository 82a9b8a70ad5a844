"""What does a tree of both languages find? Pages of docs_en and docs_ja side by side, asked in either language.

    python benchmarks/mixed.py [--queries 1000] [--keep FOLDER]

Of every page that both sets have, one language is taken, by the hash of its path. Questions are those of both sets
whose pages are there; what counts is whether a question is written in its page's language. It is measured with several
levels to which a near document in another script is lifted: the table of docs/ranking.md.
"""

import argparse
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from ranking import changed

from annai.config import load_config, override
from annai.engine import Engine
from annai.searching.evaluation import Judgements, Question, document_id, evaluate, read_judgements, read_questions
from annai.text.tokens import is_cjk

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import eval_folder, write_files

SETS = ("docs_en", "docs_ja")
LEVELS = (0.0, 0.8, 0.9, 1.0, 1.1)
SAME, OTHER = "same language", "other language"


def main() -> None:
    """Mix the trees, ask, and print one row for each level."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1_000, help="at most so many")
    parser.add_argument("--keep", type=Path, help="mix and index the trees here, and use what is there already")
    options = parser.parse_args()
    folder = eval_folder()
    with tempfile.TemporaryDirectory() as temporary:
        place = options.keep or Path(temporary)
        owners = mixed(folder, place)
        asked, judgements = questions(folder, owners)
        chosen = asked[:: -(-len(asked) // options.queries)]
        config = override(load_config(docs_dir=place / "tree"), "database", path=f"{place}/index.sqlite")
        with Engine(override(config, "files", respect_gitignore=False, exclude=())) as engine:
            engine.refresh()
            print(f"{len(owners):,} pages, {len(chosen):,} questions\n\n| level | {SAME} | {OTHER} |\n|---|---|---|")
            for level in LEVELS:
                with changed({"OTHER_SCRIPT_LEVEL": level}):
                    found = evaluate(engine.search, chosen, judgements, "hybrid").measures
                ndcg = {each.type: each.ndcg for each in found}
                print(f"| {level} | {ndcg[SAME]:.3f} | {ndcg[OTHER]:.3f} |", flush=True)


def mixed(folder: Path, place: Path) -> dict[str, str]:
    """Lay out the tree, if it is not there, and tell for each page which set it is of."""
    trees = {name: place / name for name in SETS}
    for name, tree in trees.items():
        if not tree.exists():
            write_files(folder, name, tree)
    owners: dict[str, str] = {}
    for path in sorted({file.relative_to(tree) for tree in trees.values() for file in tree.rglob("*.md")}):
        having = [name for name in SETS if (trees[name] / path).exists()]
        owner = having[hashlib.sha256(path.as_posix().encode()).digest()[0] % len(having)]
        owners[document_id(path.as_posix())] = owner
        target = place / "tree" / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(trees[owner] / path, target)
    return owners


def questions(folder: Path, owners: dict[str, str]) -> tuple[list[Question], Judgements]:
    """The questions of both sets whose pages are in the tree, by whether they are in their page's language."""
    asked: list[Question] = []
    judgements: dict[str, dict[str, int]] = {}
    for name in SETS:
        judged = read_judgements(folder / name / "qrels.tsv")
        for question in read_questions(folder / name / "queries.jsonl"):
            wanted = {page for page, relevance in judged.get(question.id, {}).items() if relevance > 0}
            if wanted and all(owners.get(page) == name for page in wanted):
                japanese = any(map(is_cjk, question.text))
                number = f"{name} {question.id}"
                asked.append(Question(number, question.text, SAME if japanese == (name == "docs_ja") else OTHER))
                judgements[number] = judged[question.id]
    return asked, judgements


if __name__ == "__main__":
    main()
