"""How good are the answers? nDCG@10, Recall@5 and MRR@10 of the whole product on the evaluation sets, by mode.

    python benchmarks/quality.py [SET …] [--provider static] [--modes vector keyword hybrid] [--json FILE]

Every set is laid out as files, indexed with default settings, and searched as a user searches it; a document's rank is
that of its best section. ../shared/eval/score.py is the judge.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import get_args

from annai.config import load_config, override
from annai.engine import Engine
from annai.types import Mode, Query

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import corpus_names, eval_folder, judge, lay_out

RESULTS = 50
"""Sections asked for, so that ten documents are among them."""


def main() -> None:
    """Evaluate and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--provider", default="static")
    parser.add_argument("--modes", nargs="*", default=["vector", "keyword", "hybrid"], choices=get_args(Mode))
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    folder = eval_folder()
    if not (folder / "score.py").exists():
        sys.exit(f"There are no evaluation sets in {folder}; name their folder with ANNAI_EVAL.")
    print(f"provider {options.provider}; nDCG@10 / Recall@5 / MRR@10\n")
    print("| set |", " | ".join(options.modes), "|")
    print("|---|" + "---|" * len(options.modes))
    rows = []
    for name in options.sets or corpus_names(folder):
        found = evaluate(folder, name, options.provider, options.modes)
        rows += [{"set": name, "mode": mode, **measures} for mode, measures in found.items()]
        cells = (" / ".join(f"{value:.3f}" for value in found[mode].values()) for mode in options.modes)
        print(f"| {name} |", " | ".join(cells), "|", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def evaluate(folder: Path, name: str, provider: str, modes: list[Mode]) -> dict[Mode, dict[str, float]]:
    """The measures of one set, mode by mode."""
    queries = [json.loads(line) for line in (folder / name / "queries.jsonl").read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as temporary:
        tree, run = Path(temporary) / "tree", Path(temporary) / "run.jsonl"
        ids = lay_out(folder, name, tree)
        config = override(load_config(docs_dir=tree), "embedding", provider=provider)
        config = override(config, "database", path=f"{temporary}/index.sqlite")
        config = override(config, "files", respect_gitignore=False, exclude=())
        found: dict[Mode, dict[str, float]] = {}
        with Engine(config) as engine:
            engine.refresh()
            for mode in modes:
                lines = []
                for query in queries:
                    answer = engine.search(Query(query["text"], limit=RESULTS, mode=mode, content="none"))
                    documents = list(dict.fromkeys(ids[hit.path] for hit in answer.results))
                    lines.append(json.dumps({"id": query["id"], "docs": documents}))
                run.write_text("\n".join(lines), encoding="utf-8")
                row = judge(folder).score(folder / name / "queries.jsonl", folder / name / "qrels.tsv", run)[0]
                found[mode] = {measure: row[measure] for measure in ("ndcg@10", "recall@5", "mrr@10")}
    return found


if __name__ == "__main__":
    main()
