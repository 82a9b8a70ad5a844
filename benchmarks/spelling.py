"""What are corrected typing errors worth, and what does correcting cost? The table of docs/ranking.md.

    python benchmarks/spelling.py [SET …] [--keep FOLDER]

Every question with a Latin word that spelling would look at is asked four times: as it is and with one slip in
the rarest such word that the documents hold, each with and without correction. The slip is drawn by the question's id,
so that it is the same every time: two letters swapped, one left out, one too many or a wrong one, anywhere in the word.
"""

import argparse
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase
from time import perf_counter

from ranking import changed, indexed

from annai.engine import Engine
from annai.searching.evaluation import Question, evaluate, read_judgements, read_questions
from annai.searching.spelling import candidates, correct, corrections
from annai.stores.base import Store
from annai.types import Where

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import corpus_names, eval_folder

OFF: Mapping[str, object] = {"corrections": lambda *_: {}}

COLUMNS = (
    *("set", "questions", "off", "on", "changed"),
    *("with a slip", "without it", "slip, off", "slip, on", "put right", "put wrong"),
)


@dataclass(frozen=True, slots=True)
class Slip:
    """A question with one word typed wrong."""

    question: Question
    damaged: Question
    word: str
    typed: str


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds that correcting took: of questions as they are, and of those with a slip."""

    clean: list[float]
    slipped: list[float]


def main() -> None:
    """Measure every set and print one row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    options = parser.parse_args()
    folder = eval_folder()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    times = Times([], [])
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.sets or corpus_names(folder):
            with indexed(folder, name, (options.keep or Path(temporary)) / name) as engine:
                print(f"| {' | '.join(measured(engine, folder / name, times))} |", flush=True)
    print(f"as they are: {_told(times.clean)}; with a slip: {_told(times.slipped)}")


def measured(engine: Engine, folder: Path, times: Times) -> list[str]:
    """One row: the questions as they are and damaged, with correction and without, and how often it was right."""
    questions, judgements = read_questions(folder / "queries.jsonl"), read_judgements(folder / "qrels.tsv")
    touched = [question for question in questions if _timed(engine.store, question.text, times.clean)]
    slips = [slip for question in questions if (slip := slipped(engine.store, question))]
    right = wrong = 0
    for slip in slips:
        meant = _timed(engine.store, slip.damaged.text, times.slipped).get(slip.typed, "")
        right += meant.lower() == slip.word.lower()
        wrong += bool(meant) and meant.lower() != slip.word.lower()

    def scores(asked: Sequence[Question], changes: Mapping[str, object]) -> dict[str, float]:
        if not asked:
            return {}
        with changed(changes):
            outcomes = evaluate(engine.search, asked, judgements, "hybrid").outcomes
        return {outcome.question.id: outcome.ndcg for outcome in outcomes}

    clean, damaged = scores(questions, OFF), [slip.damaged for slip in slips]
    return [
        *(folder.name, str(len(questions)), _mean(clean), _mean(clean | scores(touched, {})), str(len(touched))),
        *(str(len(slips)), _mean({slip.question.id: clean[slip.question.id] for slip in slips})),
        *(_mean(scores(damaged, OFF)), _mean(scores(damaged, {})), str(right), str(wrong)),
    ]


def slipped(store: Store, question: Question) -> Slip | None:
    """The question with a slip in the rarest word that passages hold; None if it has no such word."""
    words = candidates(question.text)
    holding = store.holding([*words.values()])
    held = [word for word, stem in words.items() if stem in holding]
    if not held:
        return None
    word = min(held, key=lambda word: holding[words[word]])
    typed = slip(word, random.Random(question.id))  # noqa: S311 - the same every time
    return Slip(question, replace(question, text=correct(question.text, {word: typed})), word, typed)


def slip(word: str, chance: random.Random) -> str:
    """The word with one typing error in it, its capitals where they were."""
    small = word.lower()
    kinds: Sequence[Callable[[int], str]] = (
        lambda place: small[:place] + small[place : place + 2][::-1] + small[place + 2 :],
        lambda place: small[:place] + small[place + 1 :],
        lambda place: small[:place] + chance.choice(ascii_lowercase) + small[place:],
        lambda place: small[:place] + chance.choice(ascii_lowercase) + small[place + 1 :],
    )
    while (typed := chance.choice(kinds)(chance.randrange(len(small)))) == small:
        pass
    if word.isupper():
        return typed.upper()
    return typed.capitalize() if word[0].isupper() else typed


def _timed(store: Store, text: str, times: list[float]) -> dict[str, str]:
    start = perf_counter()
    found = corrections(store, text, Where())
    times.append((perf_counter() - start) * 1000)
    return found


def _mean(scores: Mapping[str, float]) -> str:
    return f"{statistics.fmean(scores.values()):.3f}" if scores else ""


def _told(milliseconds: list[float]) -> str:
    if len(milliseconds) < 2:
        return "never"
    p95 = statistics.quantiles(milliseconds, n=20)[-1]
    return f"p50 {statistics.median(milliseconds):.2f} ms, p95 {p95:.2f} ms, {len(milliseconds):,} times"


if __name__ == "__main__":
    main()
