"""What do the previews show? Those of drawn questions in a file to read, and how many of their lines are wasted.

    python benchmarks/previews.py OUT [SET …] [--questions 100] [--seed 15] [--keep FOLDER]

Every set is indexed with default settings, and the drawn questions are asked as on the command line (100 columns, five
results). All previews are counted; the file OUT shows those of the first results, for a person to read. Only what needs
no judgement is counted here: whether a line answers is for the reader. benchmarks/previews.md has the figures.
"""

import argparse
import io
import os
import random
import re
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from ranking import open_indexed

from annai.answers import Answer, Hit, Query
from annai.engine import Engine
from annai.interfaces.render.answer import print_answer
from annai.searching.evaluation import read_questions
from annai.searching.preview import CUT
from model.corpus import eval_folder

PREVIEW_MARK = "  │ "
"""What a line of a preview begins with on the command line."""

TAG = r"</?[A-Za-z][\w.:-]*(?:\s[^<>]*)?/?>|</?>"
LINK = r"!?\[[^\]]*\]\([^)]*\)|\[[^\]]*\]\[[^\]]*\]"
KINDS: dict[str, re.Pattern[str]] = {
    "fence": re.compile(r"(?:`{3,}|~{3,})[^`]*"),
    "comment": re.compile(r"<!--.*|.*-->|\{/\*.*\*/\}|\.\. (?![\w:.+-]+::|_|\[|\|).*"),
    "import": re.compile(r"import\s.*\bfrom\s+['\"].*|import\s+['\"].*|export\s+(?:default|const|function|\{).*"),
    "tag": re.compile(rf"(?:{TAG}|\s)+|</?[A-Za-z][\w.:-]*(?:\s[^<>]*)?|/?>|\w+=(?:\"[^\"]*\"|\{{.*)"),
    "template call": re.compile(r"(?:\{\{[^{}]*\}\}|\{%[^{}]*%\}|\s)+"),
    "heading": re.compile(r"#{1,6}\s.*|={3,}|-{3,}"),
    "link definition": re.compile(r"\[(?!\^)[^\]]+\]:\s*\S+.*|\.\. _[^:]+:.*"),
    "bare URL": re.compile(r"(?:[-*+]\s+)?<?https?://\S+>?"),
    "only links": re.compile(rf"(?:[-*+]|\d+[.)])?(?:\s*(?:{LINK})[\s.,:|]*)+"),
    "container or label": re.compile(r":::.*|\([\w.-]+\)=|\.\. [\w:.+-]+::.*|:[\w-]+:(?:\s.*)?"),
    "table rule": re.compile(r"[|:\s=+-]*"),
}
"""Kinds of wasted lines, in the order in which they are looked for; a pattern matches the whole line."""


def main() -> None:
    """Write the previews, and print a table of the wasted lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the file for the previews")
    parser.add_argument("sets", nargs="*", default=["docs_en", "docs_ja"])
    parser.add_argument("--questions", type=int, default=100, help="how many are drawn of each set")
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    options = parser.parse_args()
    os.environ["COLUMNS"] = "100"
    counts: dict[str, Counter[str]] = {}
    folder = eval_folder()
    with tempfile.TemporaryDirectory() as temporary, options.out.open("w", encoding="utf-8") as out:
        workspace = options.keep or Path(temporary)
        for name in options.sets:
            questions = sorted(each.text for each in read_questions(folder / name / "queries.jsonl"))
            drawn = random.Random(options.seed).sample(questions, options.questions)  # noqa: S311 - no secret
            counts[name] = Counter()
            with open_indexed(folder, name, workspace / name) as engine:
                for number, question in enumerate(drawn, 1):
                    out.write(f"\n{name} {number}: {question}\n{show(engine, question, counts[name])}")
    print(f"| lines of previews | {' | '.join(counts)} |\n|---|{'---|' * len(counts)}")
    for kind in ("all", *KINDS, "heading again", "cut off"):
        print(f"| {kind} | {' | '.join(str(count[kind]) for count in counts.values())} |")


def show(engine: Engine, question: str, count: Counter[str]) -> str:
    """Ask one question; count the lines of all previews, and return what is shown of the first result."""
    answer = engine.search(Query(question), refresh=False)
    first = ""
    for hit in answer.results:
        shown = shown_text(replace(answer, results=(hit,), total=1), engine)
        for line in shown.splitlines():
            if line.startswith(PREVIEW_MARK) and line != PREVIEW_MARK + CUT:
                kind = kind_of(line.removeprefix(PREVIEW_MARK).strip(), hit)
                count.update(["all", *([kind] if kind else [])])
        first = first or shown
    return first


def shown_text(answer: Answer, engine: Engine) -> str:
    """An answer as the command line shows it, without the line about the search itself."""
    shown = io.StringIO()
    with redirect_stdout(shown):
        print_answer(answer, "text", engine.config)
    return shown.getvalue().rpartition("\n\n")[0] + "\n"


def kind_of(line: str, hit: Hit) -> str:
    """The kind of a wasted line; empty if the line may be worth reading."""
    if line.strip("#=*` ") in {hit.heading, hit.title, *hit.heading_path}:
        return "heading again"
    kind = next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(line)), "")
    return kind or ("cut off" if line.startswith("…") or line.endswith("…") else "")


if __name__ == "__main__":
    main()
