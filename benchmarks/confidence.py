"""Does the score tell an answer from a guess? Questions that the documents answer, against questions that they do not.

    python benchmarks/confidence.py [TREE …] [--questions 100] [--keep FOLDER] [--fit]

Answerable are a set's own questions whose right file is shown; unanswerable those of the other sets, asked of the wrong
tree. AUC is how often an answerable question's first score is higher than an unanswerable one's. "Doubted" is the share
of the unanswerable whose score is under the one that 3% of the answerable do not reach; "no good match" what annai says
of either. Pairs of related sets are the hard kind, since some of those questions are answered after all (docs_en and
docs_ja are translations of each other and are left out), and so is a site that is missing from docs_en. "Bare words"
are words of titles against words of other sets' questions that no document holds. --fit prints the weights of
`annai.searching.confidence` that these questions give.
"""

import argparse
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from ranking import open_indexed

from annai.engine import Engine
from annai.searching import confidence, ranking
from annai.searching.closeness import Closeness
from annai.searching.evaluation import Question, normalize_path, read_judgements, read_questions
from annai.text.tokens import query_words

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import corpus_names, eval_folder, write_files

SOFTWARE, WIKIPEDIA = {"docs_en", "docs_ja", "docs_ray", "en_anthropic_docs"}, {"ja_squad", "ja_niilc"}
MISSING_SITES = ("astro", "vue")
DOUBTED_ANSWERS = 0.03
OWN_QUESTIONS = 4
"""How many times more of a tree's own questions are asked."""

WORD = re.compile(r"[A-Za-z]{5,}|[ァ-ヺー]{4,}|[一-龥]{2,6}")

Floats = NDArray[np.float64]


class Recorder:
    """Notes the features of the first document of every answer."""

    def __init__(self) -> None:
        self.rows: list[list[float]] = []
        self._own: Floats = np.zeros(0)
        self._features: Floats = np.zeros((0, 0))

    def confidence(  # noqa: D102 - as the function of that name
        self, keywords: Floats, close: Closeness | None, is_other_script: NDArray[np.bool_]
    ) -> Floats:
        self._own = confidence.confidence(keywords, close, is_other_script)
        self._features = (
            np.column_stack([confidence.features(keywords, close), is_other_script]) if close else np.zeros((0, 0))
        )
        return self._own

    def not_rising(self, values: Floats) -> Floats:  # noqa: D102 - as the function of that name
        if len(self._features):
            self.rows.append(self._features[int(np.argmax(self._own == values[0]))].tolist())
        return confidence.not_rising(values)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note every answer within the block."""
        with patch.object(ranking, "confidence", self.confidence), patch.object(ranking, "not_rising", self.not_rising):
            yield


def main() -> None:
    """Print one row for each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*")
    parser.add_argument("--questions", type=int, default=100, help="at most this many of each set")
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    parser.add_argument("--fit", action="store_true", help="fit the weights to these questions")
    options = parser.parse_args()
    folder = eval_folder()
    names = corpus_names(folder)
    answerable, unanswerable = Recorder(), Recorder()
    print("| tree | questions of | AUC | doubted | no good match: answerable | unanswerable | |\n|" + "---|" * 7)
    with tempfile.TemporaryDirectory() as temporary:
        workspace = options.keep or Path(temporary)
        for tree in options.trees or names:
            with open_indexed(folder, tree, workspace / tree) as engine:
                own = sample(folder, tree, OWN_QUESTIONS * options.questions)
                right = ask_own(engine, own, folder / tree, answerable)
                for other in names:
                    if other == tree or {tree, other} == {"docs_en", "docs_ja"}:
                        continue
                    # Some questions of related sets are answered after all, and would teach the wrong thing.
                    recorder = Recorder() if is_hard(tree, other) else unanswerable
                    with recorder.recording():
                        wrong = [score(engine, question) for question in sample(folder, other, options.questions)]
                    print_row(tree, other, right, wrong)
                known, unknown = bare_words(engine, folder, tree, names, options.questions)
                with answerable.recording():
                    known_scores = [score(engine, word) for word in known]
                with unanswerable.recording():
                    unknown_scores = [score(engine, word) for word in unknown]
                if unknown:
                    print_row(tree, "bare words", known_scores, unknown_scores)
        if not options.trees:
            for site in MISSING_SITES:
                print_missing_site(folder, workspace / f"docs_en_without_{site}", site)
    if options.fit:
        fit(np.array(answerable.rows), np.array(unanswerable.rows))


def sample(folder: Path, name: str, count: int) -> list[Question]:
    """Some questions of a set, the same every time."""
    questions = read_questions(folder / name / "queries.jsonl")
    random.Random(5).shuffle(questions)  # noqa: S311
    return questions[:count]


def score(engine: Engine, question: Question) -> float:
    """The score of the first result."""
    answer = engine.search(question.text, refresh=False, content="none")
    return answer[0].score if answer else 0.0


def bare_words(
    engine: Engine, folder: Path, tree: str, names: Sequence[str], count: int
) -> tuple[list[Question], list[Question]]:
    """Words of titles, and Latin words of other sets' questions that no document holds."""
    chance = random.Random(5)  # noqa: S311
    documents = [engine.store.document("root", path) for path in sorted(engine.store.states("root"))]
    chance.shuffle(documents)
    titles = [word for document in documents if document for word in WORD.findall(document.title)[:1]]
    other = {
        word
        for name in names
        if name != tree
        for question in sample(folder, name, count)
        for word in WORD.findall(question.text)
        if word.isascii()
    }
    unknown = [word for word in sorted(other) if not engine.store.holding([*query_words(word)])]
    chance.shuffle(unknown)
    return tuple([Question("", word) for word in words[:count]] for words in (titles, unknown))  # type: ignore[return-value]


def ask_own(engine: Engine, questions: Sequence[Question], folder: Path, recorder: Recorder) -> list[float]:
    """The scores of the questions whose right file is shown."""
    judgements = read_judgements(folder / "qrels.tsv")
    scores = []
    for question in questions:
        before = len(recorder.rows)
        with recorder.recording():
            answer = engine.search(question.text, refresh=False, content="none")
        wanted = judgements.get(question.id, {})
        if any(wanted.get(normalize_path(hit.path), 0) > 0 for hit in answer):
            scores.append(answer[0].score)
        else:
            del recorder.rows[before:]
    return scores


def is_hard(tree: str, other: str) -> bool:
    """Whether the documents may answer some of the other set's questions, or nearly do."""
    return {tree, other} <= SOFTWARE or {tree, other} <= WIKIPEDIA or "without" in tree


def print_row(tree: str, other: str, right: Sequence[float], wrong: Sequence[float]) -> None:
    """The figures of one pair."""
    least = confidence.MIN_CONFIDENCE
    doubted = np.mean(np.array(wrong) < np.quantile(right, DOUBTED_ANSWERS))
    cells = (
        *(f"{auc(right, wrong):.3f}", f"{doubted:.0%}"),
        *(f"{np.mean(np.array(scores) < least):.1%}" for scores in (right, wrong)),
    )
    print(f"| {tree} | {other} | {' | '.join(cells)} | {'hard' if is_hard(tree, other) else ''} |", flush=True)


def print_missing_site(folder: Path, workspace: Path, site: str) -> None:
    """The figures of a tree from which one site is missing, against that site's questions."""
    if not (workspace / "tree").exists():
        write_files(folder, "docs_en", workspace / "tree")
        shutil.rmtree(workspace / "tree" / site)
    judgements = read_judgements(folder / "docs_en" / "qrels.tsv")
    questions = read_questions(folder / "docs_en" / "queries.jsonl")
    of_site = {
        question.id for question in questions if any(path.startswith(f"{site}/") for path in judgements[question.id])
    }
    with open_indexed(folder, "docs_en", workspace) as engine:
        others = [each for each in questions if each.id not in of_site][::4]
        right = ask_own(engine, others, folder / "docs_en", Recorder())
        wrong = [score(engine, question) for question in questions if question.id in of_site]
    print_row(f"docs_en without {site}", site, right, wrong)


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """How often a right score is higher than a wrong one; a tie counts half."""
    ordered = np.sort(wrong)
    below = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
    return float(np.mean(below) / (2 * len(ordered)))


def fit(right: Floats, wrong: Floats) -> None:
    """Print the weights of a logistic regression, for documents in the question's script and in another."""
    rows = np.vstack([right, wrong])
    is_right = np.append(np.ones(len(right)), np.zeros(len(wrong)))
    # Either kind counts as much as the other in all.
    weights = np.where(is_right == 1, 1 / len(right), 1 / len(wrong)) / 2
    is_other = rows[:, -1] == 1
    for name, chosen in (("SAME_SCRIPT", ~is_other), ("OTHER_SCRIPT", is_other)):
        features, wanted, weight = rows[chosen, :-1], is_right[chosen], weights[chosen]
        found = np.zeros(features.shape[1])
        for _ in range(50):
            likely = 1 / (1 + np.exp(-features @ found))
            slope = features.T @ (weight * (likely - wanted)) + 1e-4 * found
            curve = (features * (weight * likely * (1 - likely))[:, None]).T @ features + 1e-4 * np.eye(len(found))
            found -= np.linalg.solve(curve, slope)
        print(f"{name} = np.array({[round(float(each), 2) for each in found]})  # {chosen.sum()} questions")


if __name__ == "__main__":
    main()
