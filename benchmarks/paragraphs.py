"""Is the paragraph that answers shown? In an agent's answer, by its size, and in the preview of the first result.

    python benchmarks/paragraphs.py [--fit] [--keep FOLDER]

The questions of docs_en, docs_ja and docs_ray whose paragraph is known (`paragraphs.py` of the evaluation sets finds
and judges them). Without `--fit` the weights are those of `annai.searching.windows`; with it, each set is judged with
weights that were fitted on the two others, and the weights of a fit on all three are printed. Fitted on besides,
counting less:

- a heading of each page of the sets, blanked and asked, in the page's language and, where the same page of the other
  language has the same outline, in that;
- titles of pages, which their openings answer.

The preview holds a paragraph if it shows the paragraph's first 40 letters and digits, and the page is right.
"""

import argparse
import importlib.util
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import NDArray
from ranking import open_indexed

from annai.answers import Query
from annai.asking.query import make_query
from annai.engine import Engine
from annai.interfaces.mcp.results import answer_result
from annai.interfaces.mcp.tools import HEADER_TOKENS
from annai.searching import windows
from annai.settings import Search
from annai.text.outline import outline, strip_markup

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import eval_folder, write_files

SETS = ("docs_en", "docs_ja", "docs_ray")
SIZES = (500, 1000, 1500, 2000, 4000)
DEFAULT_SIZE = 1500

HEADING_WEIGHT, TITLE_WEIGHT = 0.3, 0.1
"""How much a derived question counts in a fit, beside one of the sets."""

DERIVED = 450
TITLES = 120
"""Derived questions of each set, at most."""

PENALTY = 3.0
"""Of the squares of the weights of standardised features."""

PREVIEW_LETTERS = 40

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the paragraph that answers it."""

    text: str
    path: str
    line: int
    paragraph: str


@dataclass(slots=True)
class Rows:
    """The windows that competed for one question: their features, and which of them holds the paragraph's beginning."""

    values: Floats
    is_right: Floats
    weight: float = 1.0


@dataclass(slots=True)
class Score:
    """What became of the questions of a set."""

    asked: int = 0
    first: int = 0
    previews: int = 0
    shown: dict[int, list[bool]] = field(default_factory=dict)
    tokens: dict[int, list[int]] = field(default_factory=dict)


def main() -> None:
    """Print the curve, and with `--fit` the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    options = parser.parse_args()
    folder, judge = eval_folder(), load_judge()
    with tempfile.TemporaryDirectory() as temporary:
        workspace = (options.keep or Path(temporary)).resolve()
        for name in SETS:
            if not (workspace / name / "tree").exists():
                write_files(folder, name, workspace / name / "tree")
        trees = workspace / "trees"
        trees.mkdir(exist_ok=True, parents=True)
        for name in SETS:
            if not (trees / name).exists():
                (trees / name).symlink_to(workspace / name / "tree")
        known: dict[str, list[Question]] = {name: [] for name in SETS}
        for each in judge.find(trees, folder):
            known[each["set"]].append(Question(each["text"], each["path"], each["line"], each["paragraph"]))
        weights = {name: dict(windows.WEIGHTS) for name in SETS}
        if options.fit:
            rows = {name: collect_all(folder, name, workspace, known[name], judge) for name in SETS}
            for name in SETS:
                weights[name] = fit([each for other in SETS if other != name for each in rows[other]])
            print(
                "weights:",
                {name: round(value, 2) for name, value in fit([*chain.from_iterable(rows.values())]).items()},
            )
        scores = {}
        for name in SETS:
            with open_indexed(folder, name, workspace / name) as engine:
                scores[name] = measure(engine, known[name], weights[name], judge)
        print_scores(scores)


def load_judge() -> ModuleType:
    """`paragraphs.py` of the evaluation sets: it says which paragraphs answer, and counts tokens."""
    spec = importlib.util.spec_from_file_location("judge", eval_folder() / "paragraphs.py")
    if not spec or not spec.loader:
        sys.exit(f"There is no paragraphs.py in {eval_folder()}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(engine: Engine, questions: Sequence[Question], weights: Mapping[str, float], judge: ModuleType) -> Score:
    """Ask as an agent does, for answers of every size, and look at the first result's preview."""
    score = Score()
    with patch.object(windows, "WEIGHTS", weights):
        for question in questions:
            score.asked += 1
            for size in SIZES:
                tokens = size - HEADER_TOKENS * Query("").limit
                answer = engine.search(question.text, refresh=False, max_tokens=tokens)
                query = make_query(question.text, Search())
                shown = answer_result(answer, query, 200_000, is_windows=True).text
                score.shown.setdefault(size, []).append(question.paragraph in judge.folded(shown))
                score.tokens.setdefault(size, []).append(judge.tokens(shown))
            if answer.results and answer[0].path == question.path:
                score.first += 1
                score.previews += letters(question.paragraph)[:PREVIEW_LETTERS] in letters(answer[0].preview)
    return score


def letters(text: str) -> str:
    """The letters and digits of a text without its markup."""
    return re.sub(r"[\W_]+", "", strip_markup(text)).lower()


def print_scores(scores: Mapping[str, Score]) -> None:
    """The tables of docs/ranking.md."""
    print(f"| tokens | {' | '.join(scores)} | all | tokens shown |\n|---|{'---|' * (len(scores) + 2)}")
    for size in SIZES:
        shown = [each.shown[size] for each in scores.values()]
        cells = [f"{np.mean(each):.3f}" for each in (*shown, [*chain.from_iterable(shown)])]
        tokens = np.mean([*chain.from_iterable(each.tokens[size] for each in scores.values())])
        print(f"| {size:,} | {' | '.join(cells)} | {tokens:,.0f} |")
    print(
        "\n| set | questions | right page first | preview holds the paragraph | of the right firsts |\n"
        + "|---" * 5
        + "|"
    )
    for name, each in scores.items():
        print(
            f"| {name} | {each.asked} | {each.first} | {each.previews / each.asked:.3f} "
            f"| {each.previews / max(each.first, 1):.3f} |"
        )
    asked, first, held = (sum(getattr(each, key) for each in scores.values()) for key in ("asked", "first", "previews"))
    print(f"| all | {asked} | {first} | {held / asked:.3f} | {held / first:.3f} |")


def collect_all(
    folder: Path, name: str, workspace: Path, questions: Sequence[Question], judge: ModuleType
) -> list[Rows]:
    """The windows of a set's questions, and of those that are derived from its pages."""
    tree = workspace / name / "tree"
    blanked = workspace / f"blanked_{name}"
    headings = blank_headings(tree, blanked / "tree", workspace, {each.path for each in questions}, judge)
    with open_indexed(folder, name, workspace / name) as engine:
        rows = collect(engine, questions, 1.0)
        rows += collect(engine, titles(tree, judge), TITLE_WEIGHT)
    with open_indexed(folder, name, blanked) as engine:
        rows += collect(engine, sample(headings, DERIVED), HEADING_WEIGHT)
    return rows


def sample(questions: Sequence[Question], count: int) -> list[Question]:
    """Some of the questions, the same every time."""
    return sorted(questions, key=lambda each: zlib.crc32(f"{each.path} {each.text}".encode()))[:count]


def collect(engine: Engine, questions: Sequence[Question], weight: float) -> list[Rows]:
    """The windows that compete for each question whose paragraph is among them."""
    found = []
    for question in questions:
        with captured() as calls:
            engine.search(question.text, refresh=False)
        for pages, places, values in calls:
            is_right = _is_right(question, pages, places)
            if is_right.any():
                found.append(Rows(np.asarray(values, float), is_right / is_right.sum(), weight))
    return found


def _is_right(question: Question, pages: Sequence[windows.Page], places: windows.Places) -> Floats:
    """1 for the windows in which the paragraph begins."""
    page = next((number for number, each in enumerate(pages) if each.document.path == question.path), -1)
    if page < 0:
        return np.zeros(len(places.page))
    text = pages[page].document.text
    start = sum(len(line) + 1 for line in text.split("\n")[: question.line - 1])
    start += len(text[start:]) - len(text[start:].lstrip())
    return np.asarray((places.page == page) & (places.start <= start) & (start < places.end), np.float64)


@contextmanager
def captured() -> Iterator[list[tuple[Sequence[windows.Page], windows.Places, windows.Floats]]]:
    """What the windows of the searches within the block are rated by."""
    calls = []
    compute = windows.features

    def keep(question: str, pages: Sequence[windows.Page], places: windows.Places) -> object:
        values = compute(question, pages, places)
        if values is not None:
            calls.append((pages, places, values))
        return values

    with patch.object(windows, "features", keep):
        yield calls


def fit(rows: Sequence[Rows]) -> dict[str, float]:
    """The weights that make the right windows likeliest: a conditional logit, by Newton's method."""
    values = np.concatenate([each.values for each in rows])
    scale = values.std(axis=0) + 1e-9
    values = (values - values.mean(axis=0)) / scale
    sizes = [len(each.values) for each in rows]
    starts, owner = np.cumsum([0, *sizes[:-1]]), np.repeat(np.arange(len(rows)), sizes)
    right = np.concatenate([each.is_right for each in rows])
    count = np.array([each.weight for each in rows])
    weights = np.zeros(values.shape[1])

    def likelihood(weights: Floats) -> tuple[float, Floats]:
        sums = values @ weights
        sums -= np.maximum.reduceat(sums, starts)[owner]
        total = np.add.reduceat(np.exp(sums), starts)[owner]
        logarithm = float((count[owner] * right * (sums - np.log(total))).sum())
        return logarithm - PENALTY / 2 * float(weights @ weights), np.exp(sums) / total

    best, share = likelihood(weights)
    for _ in range(50):
        gradient = values.T @ (count[owner] * (right - share)) - PENALTY * weights
        mean = np.add.reduceat(values * share[:, None], starts)
        curvature = (values * (share * count[owner])[:, None]).T @ values - (mean * count[:, None]).T @ mean
        step = np.linalg.solve(curvature + PENALTY * np.eye(len(weights)), gradient)
        while (found := likelihood(weights + step))[0] < best and np.abs(step).max() > 1e-6:
            step /= 2
        weights, gain, (best, share) = weights + step, found[0] - best, found
        if gain < 1e-4:
            break
    return dict(zip(windows.WEIGHTS, (weights / scale).tolist(), strict=True))


def blank_headings(tree: Path, blanked: Path, workspace: Path, left_out: set[str], judge: ModuleType) -> list[Question]:
    """A copy of a tree without one heading of each page, and these as questions, in both languages if known."""
    questions = []
    others = [workspace / name / "tree" for name in SETS if workspace / name / "tree" != tree]
    for file in sorted(tree.rglob("*")):
        if not file.is_file():
            continue
        path = file.relative_to(tree).as_posix()
        text = file.read_text(encoding="utf-8")
        found = [] if path in left_out else _headings(file, text)
        usable = [each for each in range(len(found)) if _says_something(found[each][2])]
        if usable:
            chosen = usable[zlib.crc32(path.encode()) % len(usable)]
            start, end, heading, _ = found[chosen]
            text = text[:start] + re.sub(r"[^\n]", "", text[start:end]) + text[end:]
            line = text.count("\n", 0, end)
            paragraph = judge.paragraph_after(text.split("\n"), line)
            if len(paragraph) >= 30:
                questions.append(Question(heading, path, line + 1, paragraph))
                for other in others:
                    if (translated := other / path).exists():
                        same = _headings(translated, translated.read_text(encoding="utf-8"))
                        if [each[3] for each in same] == [each[3] for each in found] and same[chosen][2] != heading:
                            questions.append(Question(same[chosen][2], path, line + 1, paragraph))
        copy = blanked / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    return questions


def _headings(file: Path, text: str) -> list[tuple[int, int, str, int]]:
    """Where each heading begins and ends, what it says, and its level."""
    found = outline(text, "rst" if file.suffix == ".rst" else "markdown").headings
    return [(each.start, each.end, each.text, each.level) for each in found]


def _says_something(heading: str) -> bool:
    return len(re.findall(r"[A-Za-z]{3,}", heading)) >= 3 or len(re.findall(r"[ぁ-ヿ一-鿿]", heading)) >= 6


def titles(tree: Path, judge: ModuleType) -> list[Question]:
    """Titles from front matter, which are answered by the first paragraph."""
    questions = []
    for file in sorted(tree.rglob("*.md")):
        text = file.read_text(encoding="utf-8")
        matter = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
        title = re.search(r"^title:\s*[\"']?(.{4,}?)[\"']?\s*$", matter[1], re.MULTILINE) if matter else None
        if not matter or not title:
            continue
        line = text.count("\n", 0, matter.end())
        lines = text.split("\n")
        while line < len(lines) and re.match(r"\s*(?:$|<|\{|import\b|#|:::)", lines[line]):
            line += 1
        if len(paragraph := judge.paragraph_after(lines, line)) >= 60:
            questions.append(Question(title[1], file.relative_to(tree).as_posix(), line + 1, paragraph))
    return sample(questions, TITLES)


if __name__ == "__main__":
    main()
