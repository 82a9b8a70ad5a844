"""What is the correction of typos worth, and what does it cost? The table of docs/ranking.md.

    python benchmarks/spelling.py [SET …] [--keep FOLDER]

Every question with a word of five letters or more is searched for four times: as it is, and with one typo in the rarest
such word that the documents hold, each with and without correction; Latin words and katakana words in a row each. The
question's id seeds the typo, so that it is the same every time: two letters swapped, one missing, one too many or a
wrong one, anywhere in the word. In katakana a wrong one is ガ for カ or ツ for ッ, or a long vowel mark is missing or
too many.
"""

import argparse
import random
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from time import perf_counter

from ranking import open_indexed, patched

from annai.answers import Where
from annai.asking.spelling import apply_corrections, correctable_words, find_corrections
from annai.engine import Engine
from annai.searching.evaluation import Question, evaluate, read_judgements, read_questions
from annai.stores.base import Store
from annai.text.tokens import normalise

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import corpus_names, eval_folder

OFF: Mapping[str, object] = {"find_corrections": lambda *_: {}}

KANA = "".join(map(chr, range(0x30A1, 0x30F5)))
ALIKE = (
    "カガキギクグケゲコゴサザシジスズセゼソゾタダチヂツヅテデトドハバヒビフブヘベホボ"  # voiced or not
    "ァアィイゥウェエォオッツャヤュユョヨ"  # small or not
)
SOUND_ALIKE = dict(zip(ALIKE[::2] + ALIKE[1::2], ALIKE[1::2] + ALIKE[::2], strict=True))

COLUMNS = (
    *("set", "questions", "off", "on", "changed"),
    *("with a typo", "without it", "typo, off", "typo, on", "right", "wrong"),
)


@dataclass(frozen=True, slots=True)
class Typo:
    """A question with one word typed wrong."""

    question: Question
    misspelled: Question
    word: str
    typed: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of words, and how they are mistyped."""

    name: str
    pattern: re.Pattern[str]
    misspell: Callable[[str, random.Random], str]


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds that the correction took: of questions as they are, and of those with a typo."""

    clean: list[float]
    misspelled: list[float]


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
            with open_indexed(folder, name, (options.keep or Path(temporary)) / name) as engine:
                for kind in KINDS:
                    print(f"| {' | '.join(measure(engine, folder / name, kind, times))} |", flush=True)
    print(f"as they are: {_percentiles(times.clean)}; with a typo: {_percentiles(times.misspelled)}")


def measure(engine: Engine, folder: Path, kind: Kind, times: Times) -> list[str]:
    """One row: the questions as they are and misspelled, with correction and without, and how often it was right."""
    questions, judgements = read_questions(folder / "queries.jsonl"), read_judgements(folder / "qrels.tsv")
    corrected = [question for question in questions if _find_timed(engine.store, question.text, times.clean)]
    typos = [typo for question in questions if (typo := make_typo(engine.store, question, kind))]
    if not typos:
        return [f"{folder.name} ({kind.name})", str(len(questions)), *[""] * (len(COLUMNS) - 2)]
    right = wrong = 0
    for typo in typos:
        meant = _find_timed(engine.store, typo.misspelled.text, times.misspelled).get(typo.typed, "")
        is_right = normalise(meant).lower() == normalise(typo.word).lower()
        right += is_right
        wrong += bool(meant) and not is_right

    def scores(chosen: Sequence[Question], changes: Mapping[str, object]) -> dict[str, float]:
        if not chosen:
            return {}
        with patched(changes):
            results = evaluate(partial(engine.search, refresh=False), chosen, judgements, "hybrid").results
        return {result.question.id: result.ndcg for result in results}

    clean, misspelled = scores(questions, OFF), [typo.misspelled for typo in typos]
    return [
        *(
            f"{folder.name} ({kind.name})",
            str(len(questions)),
            _mean(clean),
            _mean(clean | scores(corrected, {})),
            str(len(corrected)),
        ),
        *(str(len(typos)), _mean({typo.question.id: clean[typo.question.id] for typo in typos})),
        *(_mean(scores(misspelled, OFF)), _mean(scores(misspelled, {})), str(right), str(wrong)),
    ]


def make_typo(store: Store, question: Question, kind: Kind) -> Typo | None:
    """The question with a typo in the rarest word that passages hold; None if it has no such word."""
    words = {word: term for word, term in correctable_words(question.text).items() if kind.pattern.fullmatch(word)}
    counts = store.holding([*words.values()])
    held = [word for word, stem in words.items() if stem in counts]
    if not held:
        return None
    word = min(held, key=lambda word: counts[words[word]])
    typed = kind.misspell(word, random.Random(question.id))  # noqa: S311 - the same every time, and nothing secret
    return Typo(question, replace(question, text=apply_corrections(question.text, {word: typed})), word, typed)


def misspell(word: str, chance: random.Random) -> str:
    """The word with one typo in it, its capitals where they were."""
    small = word.lower()
    kinds: Sequence[Callable[[int], str]] = (
        lambda at: small[:at] + small[at : at + 2][::-1] + small[at + 2 :],
        lambda at: small[:at] + small[at + 1 :],
        lambda at: small[:at] + chance.choice(ascii_lowercase) + small[at:],
        lambda at: small[:at] + chance.choice(ascii_lowercase) + small[at + 1 :],
    )
    while (typed := chance.choice(kinds)(chance.randrange(len(small)))) == small:
        pass
    if word.isupper():
        return typed.upper()
    return typed.capitalize() if word[0].isupper() else typed


def misspell_katakana(word: str, chance: random.Random) -> str:
    """The katakana word with one typo in it."""

    def change_sound(at: int) -> str:
        return word[:at] + SOUND_ALIKE.get(word[at], word[at]) + word[at + 1 :]

    def change_length(at: int) -> str:
        return word[:at] + word[at + 1 :] if word[at] == "ー" else word[: at + 1] + "ー" + word[at + 1 :]

    kinds: Sequence[Callable[[int], str]] = (
        lambda at: word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
        lambda at: word[:at] + word[at + 1 :],
        lambda at: word[:at] + chance.choice(KANA) + word[at:],
        change_sound,
        change_length,
    )
    while normalise(typed := chance.choice(kinds)(chance.randrange(len(word)))) == normalise(word) or typed[0] == "ー":
        pass
    return typed


KINDS = (
    Kind("Latin", re.compile(r"[A-Za-z][a-z]{4,}|[A-Z]{5,}"), misspell),
    Kind("katakana", re.compile(r"[ァ-ヺ][ァ-ヺー]{4,}"), misspell_katakana),
)


def _find_timed(store: Store, text: str, times: list[float]) -> dict[str, str]:
    start = perf_counter()
    found = find_corrections(store, text, Where())
    times.append((perf_counter() - start) * 1000)
    return found


def _mean(scores: Mapping[str, float]) -> str:
    return f"{statistics.fmean(scores.values()):.3f}" if scores else ""


def _percentiles(milliseconds: list[float]) -> str:
    if len(milliseconds) < 2:
        return "never"
    p95 = statistics.quantiles(milliseconds, n=20)[-1]
    return f"p50 {statistics.median(milliseconds):.2f} ms, p95 {p95:.2f} ms, {len(milliseconds):,} times"


if __name__ == "__main__":
    main()
