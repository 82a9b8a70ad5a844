"""Is the right file in the answer as it is shown? Five results with default settings, and what stands first.

    python benchmarks/shown.py [SET …] [--queries 2000] [--keep FOLDER]

"Link lists and closers" are first results whose section is mostly links, or whose heading is one of those that end a
page in these sets (What's next, See also, 関連情報, まとめ …). The headings are listed here only: the ranking does not
know them.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ranking import open_indexed

from annai.answers import Answer, Hit
from annai.engine import Engine
from annai.searching.evaluation import Judgements, Question, normalize_path, read_judgements, read_questions

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import eval_folder

SETS = ("docs_ja", "docs_en", "docs_ray")

CLOSERS = re.compile(
    r"what[’']?s ?next|next steps?|see also|further reading|learn more|read more|related( \w+)?|"
    r"((additional|more|community|official) )?resources|"
    r"references?|recap|summary|conclusion|where to go( from here)?|going further|"
    r"次(の(ステップ|項目|手順))?|関連(情報|項目|ページ|リンク)?|参考(文献|資料|情報|リンク)?|あわせて読みたい|まとめ|"
    r"詳細情報|次に読む(もの)?|仕様書?|ブラウザーの互換性",
    re.IGNORECASE,
)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|\[([^\]]*)\]\[[^\]]*\]|<https?:[^>]+>|https?://\S+")
WORD = re.compile(r"\w")
MAX_LINK_SHARE = 0.6


def main() -> None:
    """Print one row for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--queries", type=int, default=2000, help="at most this many of each set")
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    parser.add_argument("--list", action="store_true", help="name the questions whose first result is such a section")
    options = parser.parse_args()
    folder = eval_folder()
    print("| set | questions | right file shown | shown first | files in an answer | link lists and closers first |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.sets or SETS:
            questions = read_questions(folder / name / "queries.jsonl")
            chosen = questions[:: -(-len(questions) // options.queries)]
            judgements = read_judgements(folder / name / "qrels.tsv")
            with open_indexed(folder, name, (options.keep or Path(temporary)) / name) as engine:
                print(f"| {name} | {len(chosen)} | {measure(engine, chosen, judgements, options.list)} |", flush=True)


def measure(engine: Engine, questions: Sequence[Question], judgements: Judgements, tell: bool) -> str:
    """The cells of one row."""
    shown = first = files = closers = 0
    for question in questions:
        answer = engine.search(question.text, refresh=False)
        wanted = judgements.get(question.id, {})
        ranks = [rank for rank, hit in enumerate(answer) if wanted.get(normalize_path(hit.path), 0) > 0]
        shown += bool(ranks)
        first += ranks[:1] == [0]
        files += len({hit.path for hit in answer})
        if is_closer(answer):
            closers += 1
            if tell:
                print(f"  {question.text!r}: {answer[0].id} {answer[0].heading!r}", file=sys.stderr)
    count = len(questions)
    return f"{shown / count:.3f} | {first / count:.3f} | {files / count:.1f} | {closers / count:.1%}"


def is_closer(answer: Answer) -> bool:
    """Whether the first result is a section that only leads elsewhere."""
    if not answer.results:
        return False
    hit = answer[0]
    is_first = hit.section_number in ((), (0,), (1,))
    return (not is_first and bool(CLOSERS.fullmatch(hit.heading.strip(" :：.。*")))) or link_share(hit) > MAX_LINK_SHARE


def link_share(hit: Hit) -> float:
    """The share of the letters of a section that are links."""
    text = hit.content.partition("\n")[2] or hit.content
    linked = sum(len(WORD.findall(match.group(1) or match.group(2) or match.group())) for match in LINK.finditer(text))
    # What a link shows counts, and where it leads does not.
    letters = len(WORD.findall(LINK.sub("", text))) + linked
    return linked / letters if letters else 0.0


if __name__ == "__main__":
    main()
