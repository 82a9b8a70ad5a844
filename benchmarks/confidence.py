"""Does the score say how likely an answer is right? Questions that documents answer, and questions that they do not.

    python benchmarks/confidence.py [TREE …] [--questions 100] [--keep FOLDER] [--rows FILE] [--jobs 2] [--fit]

Answers are collected once, with --rows into a file from which everything else follows in seconds.

Calibration: a set's own questions. AUC is how often a first result that is right scores higher than one that is wrong,
and ECE how far scores are from the share that is right, with a 95% interval. Each set is judged by weights fitted
without it; docs_ray is not fitted to, as four of ten of its "wrong" answers are as good as the right one.

Off-topic: a set's own questions whose right file is shown against those of the other sets, asked of the wrong tree.
"Doubted" is the share of the unanswerable whose gate is under the one that 3% of the answerable do not reach. Pairs of
related sets are the hard kind, since some of those questions are answered after all (docs_en and docs_ja are
translations of each other and are left out), and so is a site that is missing from docs_en. "Bare words" are words of
titles against words of other sets' questions that no document holds.

Short questions (`short_questions.py`): of those whose right document is among the first three, how many are told as
"answers" or "may answer", and how many of those that nothing answers; by the half that is for judging.

--fit prints the weights of `annai.searching.confidence` that all of this gives.
"""

import argparse
import pickle
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple
from unittest.mock import patch

import numpy as np
import short_questions
from numpy.typing import NDArray
from ranking import open_indexed

from annai.answers import ANSWERS, MAY_ANSWER, Mode
from annai.engine import Engine
from annai.searching import confidence, evaluation
from annai.searching.confidence import Evidence
from annai.searching.evaluation import CALIBRATION_BOUNDS, Question, normalize_path, read_judgements, read_questions
from annai.text.tokens import query_words

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import corpus_names, eval_folder, write_files

SOFTWARE, WIKIPEDIA = {"docs_en", "docs_ja", "docs_ray", "en_anthropic_docs"}, {"ja_squad", "ja_niilc"}
NOT_FITTED = "docs_ray"
MISSING_SITES = ("astro", "vue")
DOUBTED_ANSWERS = 0.03
OWN_QUESTIONS = 4
"""How many times more of a tree's own questions are asked."""

OTHER_MODES: tuple[Mode, ...] = ("vector", "keyword")
DOCUMENTS = 10
"""Documents of an answer that are noted."""

SHOWN, SHORT_SHOWN, MIN_SET = 5, 3, 200
"""Results that are shown, those among which a short question's right document counts, and the questions of a set that
is judged alone."""

SET_WEIGHT, SHORT_WEIGHT, BARE_WEIGHT = 300.0, 0.3, 0.7
"""How much the fit counts a set in all, a short question, and a bare word."""

MAX_SHORT_TOLD = 0.08
"""The share of the unanswerable short questions for fitting that pass the gate."""

WORD = re.compile(r"[A-Za-z]{5,}|[ァ-ヺー]{4,}|[一-龥]{2,6}")

Floats = NDArray[np.float64]
Group = Literal["own", "other", "known", "unknown", "short"]


class Row(NamedTuple):
    """An answer."""

    group: Group
    tree: str
    other: str
    """Whose question it is, or the size of the collection of a short one and its kind."""
    evidence: Evidence
    right: tuple[bool, ...]
    """Of each document, whether it is right."""
    is_answerable: bool
    is_for_fitting: bool = True
    mode: Mode = "hybrid"

    @property
    def gates(self) -> Floats:
        """The gate of each document."""
        return confidence.gate(self.evidence)

    def among(self, count: int) -> bool:
        """Whether a right document is among the first."""
        return any(self.right[:count])


class Recorder:
    """Asks, and notes what the score of every answer depends on."""

    def __init__(self, engine: Engine, tree: str) -> None:
        self.rows: list[Row] = []
        self._engine = engine
        self._tree = tree
        self._evidence: list[Evidence] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note every answer within the block."""
        own = confidence.gate

        def gate(evidence: Evidence) -> Floats:
            self._evidence.append(evidence)
            return own(evidence)

        with patch.object(confidence, "gate", gate):
            yield

    def ask(
        self,
        group: Group,
        text: str,
        right: Iterable[str] = (),
        other: str = "",
        *,
        is_for_fitting: bool = True,
        mode: Mode = "hybrid",
    ) -> None:
        """Ask a question to which some documents are right."""
        self._evidence.clear()
        wanted = {*right}
        with self.recording():
            answer = self._engine.search(
                text, refresh=False, content="none", preview_lines=0, limit=DOCUMENTS, mode=mode
            )
        if not answer:
            return
        # A wider search comes second, and adds only what is behind these.
        evidence = first_documents(self._evidence[0], DOCUMENTS)
        is_right = tuple(normalize_path(hit.path) in wanted for hit in answer)
        self.rows.append(Row(group, self._tree, other, evidence, is_right, bool(wanted), is_for_fitting, mode))


def first_documents(evidence: Evidence, count: int) -> Evidence:
    """What is known of the first documents."""
    rows = np.arange(min(count, len(evidence.scores)))
    close = evidence.close.take(rows) if evidence.close else None
    scores, keywords, translated = (each[rows] for each in (evidence.scores, evidence.keywords, evidence.translated))
    return Evidence(scores, keywords, translated, evidence.is_other_script[rows], close)


def main() -> None:
    """Collect answers, and print what follows from them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*")
    parser.add_argument("--questions", type=int, default=100, help="at most this many of each set")
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    parser.add_argument("--rows", type=Path, help="keep the answers in this file, and use what is there already")
    parser.add_argument("--jobs", type=int, default=2, help="processes that ask")
    parser.add_argument("--fit", action="store_true", help="fit the weights to these questions")
    options = parser.parse_args()
    if options.rows and options.rows.exists():
        rows = pickle.loads(options.rows.read_bytes())  # noqa: S301 - a file of this script's own
    else:
        with tempfile.TemporaryDirectory() as temporary:
            rows = collect(options.keep or Path(temporary), options.trees, options.questions, options.jobs)
        if options.rows:
            options.rows.write_bytes(pickle.dumps(rows))
    if options.fit:
        fit(rows)
    print_calibration(rows)
    print_modes(rows)
    print_off_topic(rows)
    print_short(rows)


def collect(workspace: Path, trees: Sequence[str], count: int, jobs: int) -> list[Row]:
    """The answers of all trees, of those without a site, and of the collections for short questions."""
    names = corpus_names(eval_folder())
    for name in trees or names:  # laid out once, however many processes need them
        if not (workspace / name / "tree").exists():
            write_files(eval_folder(), name, workspace / name / "tree")
    with ProcessPoolExecutor(jobs) as pool:
        found = [pool.submit(collect_tree, workspace, tree, names, count) for tree in trees or names]
        if not trees:
            found += [pool.submit(collect_missing_site, workspace, site, count) for site in MISSING_SITES]
            collections = short_questions.make_collections(workspace)
            chosen = [each._replace(questions=each.questions[:: max(1, 100 // count)]) for each in collections]
            found += [pool.submit(collect_short, each) for each in chosen]
        return [row for each in found for row in each.result()]


def collect_tree(workspace: Path, tree: str, names: Sequence[str], count: int) -> list[Row]:
    """A tree's own questions, those of the other sets, and bare words."""
    folder = eval_folder()
    judgements = read_judgements(folder / tree / "qrels.tsv")
    with open_indexed(folder, tree, workspace / tree) as engine:
        recorder = Recorder(engine, tree)
        for number, question in enumerate(sample(folder, tree, OWN_QUESTIONS * count)):
            ask = partial(recorder.ask, "own", question.text, relevant(judgements, question))
            ask()
            for mode in OTHER_MODES if number < count // 2 else ():
                ask(mode=mode)
        for other in names:
            if other == tree or {tree, other} == {"docs_en", "docs_ja"}:
                continue
            for question in sample(folder, other, count):
                recorder.ask("other", question.text, other=other)
        known, unknown = bare_words(engine, folder, tree, names, count)
        for group, words in (("known", known), ("unknown", unknown)):
            for word in words:
                recorder.ask(group, word, other="bare words")  # type: ignore[arg-type]
    return recorder.rows


def collect_missing_site(workspace: Path, site: str, count: int) -> list[Row]:
    """docs_en without a site, asked about others, and all that it is asked about the site: there are few."""
    folder, place = eval_folder(), workspace / f"docs_en_without_{site}"
    if not (place / "tree").exists():
        write_files(folder, "docs_en", place / "tree")
        shutil.rmtree(place / "tree" / site)
    judgements = read_judgements(folder / "docs_en" / "qrels.tsv")
    with open_indexed(folder, "docs_en", place) as engine:
        recorder = Recorder(engine, f"docs_en without {site}")
        for number, question in enumerate(sample(folder, "docs_en", sys.maxsize)):
            right = relevant(judgements, question)
            if any(path.startswith(f"{site}/") for path in right):
                recorder.ask("other", question.text, other=site)
            elif number < OWN_QUESTIONS * count:
                recorder.ask("own", question.text, right)
    return recorder.rows


def collect_short(collection: short_questions.Collection) -> list[Row]:
    """The short questions of one collection."""
    with open_indexed(eval_folder(), collection.name, collection.folder) as engine:
        recorder = Recorder(engine, collection.name)
        for question in collection.questions:
            right = map(normalize_path, question.right)
            other = f"{collection.size} {question.kind}"
            recorder.ask("short", question.text, right, other, is_for_fitting=question.is_for_fitting)
    return recorder.rows


def sample(folder: Path, name: str, count: int) -> list[Question]:
    """Some questions of a set, the same every time."""
    questions = read_questions(folder / name / "queries.jsonl")
    random.Random(5).shuffle(questions)  # noqa: S311
    return questions[:count]


def relevant(judgements: evaluation.Judgements, question: Question) -> list[str]:
    """The documents that are right for a question."""
    return [path for path, relevance in judgements.get(question.id, {}).items() if relevance > 0]


def bare_words(
    engine: Engine, folder: Path, tree: str, names: Sequence[str], count: int
) -> tuple[list[str], list[str]]:
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
    return titles[:count], unknown[:count]


def is_hard(tree: str, other: str) -> bool:
    """Whether the documents may answer some of the other set's questions, or nearly do."""
    return {tree, other} <= SOFTWARE or {tree, other} <= WIKIPEDIA or "without" in tree


def own_rows(rows: Sequence[Row], mode: Mode = "hybrid") -> list[Row]:
    """The questions of the sets to their own documents."""
    return [row for row in rows if row.group == "own" and row.mode == mode and "without" not in row.tree]


def first_score(row: Row, weights: Floats | None = None) -> float:
    """The score of the first result; with weights, those of a fit in place of the product's."""
    with patch.object(confidence, "FIRST", confidence.FIRST if weights is None else weights):
        return confidence.score(row.gates[0], confidence.likelihood(row.evidence)[0])


def print_calibration(rows: Sequence[Row]) -> None:
    """How likely first results were said to be right and how many are: by set, and by what was said."""
    own = own_rows(rows)
    trees = sorted({row.tree for row in own})
    said: dict[str, Floats] = {}
    right: dict[str, NDArray[np.bool_]] = {}
    for tree in trees:
        weights = fit_first([row for row in rows if row.tree != tree])
        said[tree] = np.array([first_score(row, weights) for row in own if row.tree == tree])
        right[tree] = np.array([row.right[0] for row in own if row.tree == tree])
    small = [tree for tree in trees if len(said[tree]) < MIN_SET and tree != NOT_FITTED]
    if small:
        name = " + ".join(small)
        said[name], right[name] = (np.concatenate([each[tree] for tree in small]) for each in (said, right))
    print("\n| set, without it in the fit | questions | right | stated | AUC right/wrong | ECE (95%) |\n|" + "---|" * 6)
    for tree, scores in said.items():
        if tree not in small:
            low, high = interval(scores, right[tree])
            print(
                f"| {tree} | {len(scores)} | {right[tree].mean():.2f} | {scores.mean():.2f} "
                f"| {auc(scores[right[tree]], scores[~right[tree]]):.3f} "
                f"| {calibration_error(scores, right[tree]):.3f} ({low:.3f}–{high:.3f}) |"
            )
    fitted = [tree for tree in trees if tree != NOT_FITTED]
    scores, hits = np.concatenate([said[tree] for tree in fitted]), np.concatenate([right[tree] for tree in fitted])
    print("\n| word | score | questions | stated | right |\n|" + "---|" * 5)
    for least, most in zip(CALIBRATION_BOUNDS, (*CALIBRATION_BOUNDS[1:], 1.01), strict=True):
        chosen = (scores >= least) & (scores < most)
        word = "answers" if least >= ANSWERS else "may answer" if least >= MAY_ANSWER else "no good match"
        print(
            f"| {word} | {least:.2f}–{min(most, 1):.2f} | {chosen.sum()} "
            f"| {scores[chosen].mean():.2f} | {hits[chosen].mean():.2f} |"
        )
    later = np.array(
        [
            (confidence.score(row.gates[at], confidence.likelihood(row.evidence)[at]), row.right[at], at + 1)
            for row in own
            for at in range(1, min(SHOWN, len(row.right), len(row.gates)))
        ]
    )
    print("\n| result | stated | right |\n|---|---|---|")
    for rank in range(2, SHOWN + 1):
        of_rank = later[later[:, 2] == rank]
        print(f"| {rank} | {of_rank[:, 0].mean():.3f} | {of_rank[:, 1].mean():.3f} |")


def print_modes(rows: Sequence[Row]) -> None:
    """The same for the other modes, whose results nothing was fitted to."""
    print("\n| mode | questions | right | stated | AUC right/wrong | ECE |\n|" + "---|" * 6)
    for mode in ("hybrid", *OTHER_MODES):
        own = [row for row in own_rows(rows, mode) if row.tree != NOT_FITTED]
        said, right = np.array([first_score(row) for row in own]), np.array([row.right[0] for row in own])
        print(
            f"| {mode} | {len(own)} | {right.mean():.2f} | {said.mean():.2f} | {auc(said[right], said[~right]):.3f} "
            f"| {calibration_error(said, right):.3f} |"
        )


def print_off_topic(rows: Sequence[Row]) -> None:
    """One row for each pair of a tree and questions that it does not answer."""
    print("\n| tree | questions of | AUC | doubted | AUC of the score | told: answerable | unanswerable | |")
    print("|" + "---|" * 8)
    for tree in dict.fromkeys(row.tree for row in rows if row.group == "own"):
        own = [row for row in rows if row.tree == tree and row.group == "own" and row.mode == "hybrid"]
        shown = [row for row in own if row.among(SHOWN)]
        groups = dict.fromkeys(row.other for row in rows if row.tree == tree and row.group == "other")
        for other in groups:
            print_pair(tree, other, shown, [row for row in rows if (row.tree, row.other) == (tree, other)])
        known, unknown = (
            [row for row in rows if (row.tree, row.group) == (tree, name)] for name in ("known", "unknown")
        )
        if unknown:
            print_pair(tree, "bare words", known, unknown)


def print_pair(tree: str, other: str, right: Sequence[Row], wrong: Sequence[Row]) -> None:
    """The figures of one pair."""
    gates = [np.array([row.gates[0] for row in group]) for group in (right, wrong)]
    scores = [np.array([first_score(row) for row in group]) for group in (right, wrong)]
    doubted = np.mean(gates[1] < np.quantile(gates[0], DOUBTED_ANSWERS))
    told = " | ".join(f"{np.mean(each >= MAY_ANSWER):.1%}" for each in scores)
    hard = "hard" if is_hard(tree, other) else ""
    print(f"| {tree} | {other} | {auc(*gates):.3f} | {doubted:.0%} | {auc(*scores):.3f} | {told} | {hard} |")


def print_short(rows: Sequence[Row]) -> None:
    """How many short questions are told, by the size of the collection and by kind."""
    short = [row for row in rows if row.group == "short" and not row.is_for_fitting]
    if not short:
        return
    print("\n| documents, kind | answered | told | not answered | told | ECE |\n|" + "---|" * 6)
    for name in [*sorted({row.other for row in short}, key=lambda each: (int(each.split()[0]), each)), "all"]:
        chosen = [row for row in short if name in (row.other, "all")]
        answered = [row for row in chosen if row.among(SHORT_SHOWN)]
        unanswered = [row for row in chosen if not row.is_answerable]
        told = [
            np.mean([first_score(row) >= MAY_ANSWER for row in each]) if each else 0 for each in (answered, unanswered)
        ]
        asked = [row for row in chosen if row.is_answerable]
        error = calibration_error(np.array([*map(first_score, asked)]), np.array([row.right[0] for row in asked]))
        print(f"| {name} | {len(answered)} | {told[0]:.3f} | {len(unanswered)} | {told[1]:.3f} | {error:.2f} |")


def auc(right: Sequence[float] | Floats, wrong: Sequence[float] | Floats) -> float:
    """How often a right score is higher than a wrong one; a tie counts half."""
    ordered = np.sort(wrong)
    below = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
    return float(np.mean(below) / (2 * len(ordered)))


def calibration_error(said: Floats, right: NDArray[np.bool_]) -> float:
    """How far scores are from the share that is right, the mean over ten ranges of scores (ECE)."""
    ranges = np.minimum((said * 10).astype(int), 9)
    return float(sum(abs((said - right)[ranges == each].sum()) for each in range(10)) / len(said))


def interval(said: Floats, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Between which numbers the calibration error lies in 95% of samples."""
    chance = np.random.default_rng(5)
    picks = chance.integers(0, len(said), (1000, len(said)))
    low, high = np.quantile([calibration_error(said[pick], right[pick]) for pick in picks], (0.025, 0.975))
    return float(low), float(high)


def fit(rows: Sequence[Row]) -> None:
    """Fit the weights to these answers, print them, and judge with them from now on."""
    fit_long_gate(rows)
    set_weights("SHORT", fit_short_gate(rows))
    # What comes later is fitted with what came before.
    set_weights("FIRST", fit_first(rows))
    set_weights("LATER", fit_later(rows))


def set_weights(name: str, weights: Floats) -> None:
    """Print weights and use them."""
    print_weights(name, weights)
    setattr(confidence, name, np.round(weights, 2))


def print_weights(name: str, weights: Floats) -> None:
    """Weights as the module has them."""
    print(f"{name} = np.array({[round(float(each), 2) for each in weights]})")


def fit_first(rows: Sequence[Row]) -> Floats:
    """The weights of `first_features`: with the gate, how likely it is that the first result is right."""
    own = [row for row in own_rows(rows) if row.tree != NOT_FITTED]
    short = [row for row in rows if row.group == "short" and row.is_answerable and row.is_for_fitting]
    counts = {tree: sum(row.tree == tree for row in own) for tree in {row.tree for row in own}}
    weights = [SET_WEIGHT / max(counts[row.tree], 100) for row in own] + [SHORT_WEIGHT] * len(short)
    used = [*own, *short]
    return logistic(
        np.array([confidence.first_features(row.evidence) for row in used]),
        np.array([row.right[0] for row in used]),
        np.array(weights),
        np.array([open_gate(row.gates[0]) for row in used]),
    )


def fit_later(rows: Sequence[Row]) -> Floats:
    """The weights of `later_features`: the same for the other results."""
    features: list[Floats] = []
    right: list[bool] = []
    gates: list[float] = []
    for row in own_rows(rows):
        if row.tree != NOT_FITTED and len(row.right) > 1:
            count = min(len(row.right), len(row.gates)) - 1
            features.append(confidence.later_features(row.evidence)[:count])
            right += row.right[1 : 1 + count]
            gates += [open_gate(each) for each in row.gates[1 : 1 + count]]
    return logistic(np.vstack(features), np.array(right), np.ones(len(right)), np.array(gates))


def open_gate(gate: float) -> float:
    """The factor that a gate gives, whatever it lets through."""
    return float(gate / (gate + (1 - gate) * np.exp(-confidence.ANSWERABLE)))


def fit_short_gate(rows: Sequence[Row]) -> Floats:
    """The weights of the gate for short questions. Its constant lets few through that nothing answers."""
    used = [row for row in rows if is_of_short_gate(row)]
    features = np.array([confidence.short_gate_features(row.evidence)[0] for row in used])
    right = np.array([row.group == "known" or row.is_answerable for row in used])
    is_short = np.array([row.group == "short" for row in used])
    found = logistic(features, right, np.where(is_short, 1, BARE_WEIGHT), np.ones(len(used)), 1.0)
    passing = np.quantile((features @ found)[is_short & ~right], 1 - MAX_SHORT_TOLD)
    return np.append(found[:-1], found[-1] + np.log(confidence.MIN_GATE / (1 - confidence.MIN_GATE)) - passing)


def is_of_short_gate(row: Row) -> bool:
    """Whether the gate for short questions is fitted to it: it is answered by one of the first, or by nothing."""
    close = row.evidence.close
    is_short = close is not None and close.query_words <= confidence.MAX_SHORT_WORDS
    is_clear = row.group in ("known", "unknown", "other") or row.among(SHORT_SHOWN) or not row.is_answerable
    is_plain = row.mode == "hybrid" and not (row.group == "other" and is_hard(row.tree, row.other))
    return row.is_for_fitting and is_short and is_clear and is_plain and "without" not in row.tree


def fit_long_gate(rows: Sequence[Row]) -> None:
    """Print the weights of the gate for questions of any length."""
    own = [row for row in rows if row.group == "known" or (row.group == "own" and row.among(SHOWN))]
    other = [
        row for row in rows if row.group == "unknown" or (row.group == "other" and not is_hard(row.tree, row.other))
    ]
    for name, is_other in (("SAME_SCRIPT", False), ("OTHER_SCRIPT", True)):
        chosen = [[row for row in each if row.evidence.is_other_script[0] == is_other] for each in (own, other)]
        # Either kind counts as much as the other in all.
        weights = np.concatenate([np.full(len(each), 500 / max(len(each), 1)) for each in chosen])
        used = [*chosen[0], *chosen[1]]
        is_right = np.arange(len(used)) < len(chosen[0])
        found = logistic(
            np.array([confidence.gate_features(row.evidence)[0] for row in used]), is_right, weights, np.ones(len(used))
        )
        print_weights(f"# a fit to these alone: {name}", found)


def logistic(
    features: Floats, right: NDArray[np.bool_], weights: Floats, factors: Floats, penalty: float = 0.01
) -> Floats:
    """The weights of a logistic regression whose results are multiplied by given factors (Fisher scoring)."""
    found = np.zeros(features.shape[1])
    for _ in range(60):
        likely = 1 / (1 + np.exp(-features @ found))
        product = np.clip(factors * likely, 1e-6, 1 - 1e-6)
        slope = factors * likely * (1 - likely)
        spread = weights / (product * (1 - product))
        up = features.T @ (spread * (right - product) * slope) - penalty * found
        curve = (features * (spread * slope**2)[:, None]).T @ features + penalty * np.eye(len(found))
        found = found + np.linalg.solve(curve, up)
    return found


if __name__ == "__main__":
    main()
